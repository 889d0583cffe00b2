"""The client over HTTP, against servers that behave, and that do not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import trio
import trio.lowlevel
from handshake import connect
from scripted_web import (
    EVENTS,
    JSON,
    Feed,
    ScriptedWeb,
    Seen,
    answer,
    event,
    nothing,
    scripted_web,
)

from mcpcore import (
    ConnectionLost,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    Timeouts,
)
from mcpcore.errors import HttpError, SessionEnded
from mcpcore.transport import attempts
from mcpcore.transport.http import Answer
from mcpcore.transport.web import HttpServer, Network


async def test_what_the_client_sends() -> None:
    """HTTP-07 HTTP-08 HTTP-54 HTTP-65 HTTP-57: each message a POST, headers on everything, DELETE."""
    async with scripted_web(nothing) as (web, url):
        async with connect(url) as client:
            await client.call_tool("f", {"a": 1})
            await client.ping()
        posts = [seen for seen in web.seen if seen.method == "POST"]
        assert [seen.rpc for seen in posts] == [
            "initialize",
            "notifications/initialized",
            "tools/call",
            "ping",
        ]
        for seen in posts:
            assert seen.headers["accept"] == "application/json, text/event-stream"
            assert seen.headers["content-type"] == "application/json"
            assert seen.headers["accept-encoding"] == "identity"
            assert seen.headers["user-agent"].startswith("mcpcore/")
        assert "mcp-session-id" not in posts[0].headers
        assert "mcp-protocol-version" not in posts[0].headers
        for seen in web.seen[1:]:
            assert seen.headers["mcp-session-id"] == "s1"
            assert seen.headers["mcp-protocol-version"] == "2025-11-25"
        assert [seen.method for seen in web.seen].count("GET") == 1
        assert web.of("GET")[0].headers["accept"] == "text/event-stream"
        assert web.seen[-1].method == "DELETE"


async def test_http_60_no_session_id_is_none_to_send() -> None:
    async with scripted_web(nothing) as (web, url):
        web.session = None
        async with connect(url) as client:
            await client.ping()
        assert all("mcp-session-id" not in seen.headers for seen in web.seen)
        assert web.of("DELETE") == []


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2024-11-05"])
async def test_http_66_the_version_header_names_what_was_agreed(revision: str) -> None:
    async with scripted_web(nothing) as (web, url):
        web.revision = revision
        async with connect(url) as client:
            await client.ping()
        expected = revision if revision == "2025-06-18" else None
        assert web.of("ping")[0].headers.get("mcp-protocol-version") == expected


async def test_http_13_the_handshake_may_come_as_events() -> None:
    """HTTP-50: the session id is then on the answer that opened the stream."""

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc != "initialize":
            return None
        usual = web.usual(seen)
        feed = Feed(b"data: " + usual.body + b"\n\n")
        return Answer(200, (*EVENTS, ("Mcp-Session-Id", "s2")), events=feed)

    async with scripted_web(script) as (web, url), connect(url) as client:
        await client.ping()
        assert web.of("ping")[0].headers["mcp-session-id"] == "s2"


async def test_progress_logs_and_questions_before_the_answer() -> None:
    """HTTP-15: on the stream of the request; the answer to the question is posted."""
    answered = trio.Event()
    feeds: list[Feed] = []

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if isinstance(seen.message, dict) and "result" in seen.message and seen.method == "POST":
            assert seen.message["id"] == "q"
            answered.set()
            feeds[0].say(event(answer(web.of("tools/call")[0].message, content=[])))
            feeds[0].end()
        if seen.rpc != "tools/call":
            return None
        token = seen.message["params"]["_meta"]["progressToken"]
        feed = Feed(
            event({"jsonrpc": "2.0", "method": "notifications/progress",
                   "params": {"progressToken": token, "progress": 1}}),
            b": a comment\n\nevent: other\ndata: not a message\n\n",
            event({"jsonrpc": "2.0", "method": "notifications/message",
                   "params": {"level": "info", "data": "working"}}),
            event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}),
            ended=False,
        )  # fmt: skip
        feeds.append(feed)
        return Answer(200, EVENTS, events=feed)

    logs: list[Any] = []
    progress: list[float] = []
    async with (
        scripted_web(script) as (_, url),
        connect(url, roots=[], on_log=lambda log: logs.append(log.data)) as client,
    ):
        await client.call_tool("f", on_progress=lambda step: progress.append(step.progress))
        assert answered.is_set()
        assert progress == [1]
        assert logs == ["working"]


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (202, (), b""),
        (200, (), b""),
        (204, (), b""),
        (200, JSON, b"null"),
        (200, JSON, b"{}"),
        (200, (("Content-Type", "text/html"),), b"<html>"),
    ],
)
async def test_f_082_f_083_any_2xx_accepts_a_notification(
    status: int, headers: Any, body: bytes
) -> None:
    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        told = seen.rpc is not None and seen.rpc.startswith("notifications/")
        return Answer(status, headers, body) if told else None

    async with scripted_web(script) as (web, url), connect(url, roots=[]) as client:
        await client.roots_changed()
        await web.wait_for("notifications/roots/list_changed")
        await client.ping()


PAGE = b"<!doctype html><title>Sign in</title>" + b"x" * 10_000


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        # F-085: a page instead of MCP.
        (Answer(200, (("Content-Type", "text/html"),), PAGE), HttpError, "HTTP 200 of type 'text/html' is no answer"),
        (Answer(500, (), b"oops"), HttpError, "HTTP 500 Internal Server Error; the answer begins: oops"),
        (Answer(503), HttpError, "HTTP 503 Service Unavailable"),
        (Answer(403), HttpError, "HTTP 403"),
        (Answer(401, (("WWW-Authenticate", "Bearer"),)), HttpError, "credentials are needed"),
        (Answer(405), HttpError, "is this the endpoint's path"),
        (Answer(202), HttpError, "HTTP 202 without a content is no answer"),
        # F-092: the target is named, and not followed.
        (Answer(301, (("Location", "https://example.com/mcp"),)), HttpError, "https://example.com/mcp; connect to that"),
        (Answer(307, (("Location", "http://example.com/x?token=1"),)), HttpError, "example.com/x?...; connect"),
        (Answer(302), HttpError, "HTTP 302 Found"),
        (Answer(200, JSON, b"{"), RemoteProtocolError, "Parse error"),
        (Answer(200, JSON, b'{"jsonrpc":"2.0"}'), RemoteProtocolError, "neither a request"),
        (Answer(200, JSON, b'{"jsonrpc":"2.0","error":{"code":5,"message":"no"}}'), RequestFailed, "no"),
        (Answer(200, JSON, b'{"jsonrpc":"2.0","id":999,"result":{}}'), ConnectionLost, "without an answer"),
        (Answer(200, JSON, b'{"jsonrpc":"2.0","method":"notifications/x"}'), ConnectionLost, "without an answer"),
        # F-080: a stream that ends before the answer.
        (Answer(200, EVENTS, events=Feed()), ConnectionLost, "did not say where to resume"),
        # F-102: an event that is no message.
        (Answer(200, EVENTS, events=Feed(b"data: {\n\n")), ConnectionLost, "did not say where"),
        (Answer(200, (*JSON, ("Content-Encoding", "gzip")), b"x"), ConnectionLost, "'gzip', unasked"),
    ],
    ids=lambda part: str(getattr(part, "status", ""))[:20],
)  # fmt: skip
async def test_each_failure_is_one_plain_error(
    reply: Answer, error: type[McpError], said: str
) -> None:
    """With status, the beginning of the body and the URL; the connection lives on."""

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        return reply if seen.rpc == "tools/call" else None

    async with scripted_web(script) as (_, url), connect(url) as client:
        with pytest.raises(error) as caught:
            await client.call_tool("f")
        assert said in str(caught.value)
        assert len(str(caught.value)) < 500
        if isinstance(caught.value, HttpError):
            assert caught.value.status == reply.status
            assert caught.value.url == url
        await client.ping()


async def test_an_error_status_with_an_answer_in_it_is_the_answer() -> None:
    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc != "tools/call":
            return None
        error = {"code": -32602, "message": "Unknown tool"}
        return web.json({"jsonrpc": "2.0", "id": seen.message["id"], "error": error}, status=400)

    async with scripted_web(script) as (_, url), connect(url) as client:
        with pytest.raises(RequestFailed, match="Unknown tool"):
            await client.call_tool("f")


async def test_a_redirect_within_the_origin_is_followed() -> None:
    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "ping" and len(web.of("ping")) < 3:
            return Answer(307, (("Location", f"/mcp/?hop={len(web.of('ping'))}"),))
        return None

    async with scripted_web(script) as (web, url), connect(url) as client:
        await client.ping()
        assert len(web.of("ping")) == 3


@pytest.mark.parametrize("status", [404, 405, 406, 400, 501])
async def test_f_073_f_074_a_server_without_its_own_stream(status: int) -> None:
    """HTTP-38: asked for once, and everything else works."""

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        web.session = None
        return Answer(status) if seen.method == "GET" else None

    async with scripted_web(script) as (web, url), connect(url, roots=[]) as client:
        for _ in range(3):
            await client.roots_changed()
            await client.ping()
        assert len(web.of("GET")) == 1


async def test_f_076_a_stream_that_ends_at_once_is_no_storm(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """F-078: giving up is visible, and what gets through shows that it may be tried again."""
    monkeypatch.setattr(attempts, "FIRST_DELAY", 0.001)

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        return Answer(200, EVENTS, events=Feed()) if seen.method == "GET" else None

    async with scripted_web(script) as (web, url), connect(url) as client:
        await web.wait_for("GET", attempts.ATTEMPTS)
        while "given up after 5 attempts" not in caplog.text:
            await trio.lowlevel.checkpoint()
        assert len(web.of("GET")) == attempts.ATTEMPTS
        await client.ping()
        await web.wait_for("GET", attempts.ATTEMPTS + 1)


async def test_f_076_a_server_that_wants_to_be_asked_at_once_is_asked_ever_slower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says where to resume, and has nothing to say."""
    monkeypatch.setattr(attempts, "FIRST_DELAY", 0.01)
    times: list[float] = []

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc != "tools/call" and seen.method != "GET":
            return None
        times.append(trio.current_time())
        if len(times) == 8:
            return Answer(
                200, EVENTS, events=Feed(event(answer(web.of("tools/call")[0].message, content=[])))
            )
        return Answer(200, EVENTS, events=Feed(event(None, f"e{len(times)}", 0)))

    async with (
        scripted_web(script) as (_, url),
        connect(HttpServer(url=url, listen=False)) as client,
    ):
        await client.call_tool("f")
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[-1] >= 0.32


async def test_f_078_a_stream_that_is_quiet_for_too_long_is_opened_anew() -> None:
    """It may be dead without knowing it; nobody is told, and nothing is given up."""
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.method != "GET":
            return None
        said = event(changed, "e2") if len(web.of("GET")) == 3 else event(None, "e1", 0)
        return Answer(200, EVENTS, events=Feed(said, ended=False))

    changes: list[str] = []
    async with (
        scripted_web(script) as (web, url),
        connect(HttpServer(url=url, quiet=0.1), on_list_changed=changes.append) as client,
    ):
        again = await web.wait_for("GET", 3)
        assert again.headers["last-event-id"] == "e1"
        await client.ping()
        while not changes:
            await trio.lowlevel.checkpoint()


async def test_f_075_what_is_no_event_stream_is_none() -> None:
    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        plain = Answer(200, (("Content-Type", "text/plain"),), b"hello")
        return plain if seen.method == "GET" else None

    async with scripted_web(script) as (web, url), connect(url) as client:
        await client.ping()
        await client.ping()
        assert len(web.of("GET")) == 1


async def test_what_the_server_says_by_itself() -> None:
    """HTTP-33, and nothing is asked before the stream is open."""
    feed = Feed(ended=False)
    opened = trio.Event()

    async def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.method != "GET":
            return None
        assert web.of("ping") == []
        await trio.lowlevel.checkpoint()
        opened.set()
        return Answer(200, EVENTS, events=feed)

    changes: list[str] = []
    async with (
        scripted_web(script) as (_, url),
        connect(url, on_list_changed=changes.append) as client,
    ):
        await client.ping()
        assert opened.is_set()
        feed.say(event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
        while not changes:
            await trio.lowlevel.checkpoint()
        assert changes == ["tools"]


async def test_http_45_a_broken_stream_is_resumed_and_nothing_comes_twice() -> None:
    """HTTP-24 HTTP-48: by GET, after the time that the server asked for, with the last event id."""
    calls: list[Any] = []

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        def progress(n: int, id: str) -> bytes:
            params = {"progressToken": calls[0]["params"]["_meta"]["progressToken"], "progress": n}
            message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            return event(message, id)

        if seen.rpc == "tools/call":
            calls.append(seen.message)
            return Answer(200, EVENTS, events=Feed(event(None, "e0", 100), progress(1, "e1")))
        if seen.method != "GET" or "last-event-id" not in seen.headers:
            return None
        if seen.headers["last-event-id"] == "e1":
            # This server repeats the last event.
            return Answer(200, EVENTS, events=Feed(progress(1, "e1"), progress(2, "e2")))
        assert seen.headers["last-event-id"] == "e2"
        return Answer(200, EVENTS, events=Feed(event(answer(calls[0], content=[]), "e3")))

    steps: list[float] = []
    async with scripted_web(script) as (web, url), connect(url) as client:
        before = trio.current_time()
        await client.call_tool("f", on_progress=lambda step: steps.append(step.progress))
        assert trio.current_time() - before >= 0.2
        assert steps == [1, 2]
        assert len(web.of("tools/call")) == 1
        # F-081: once the answer is there, nothing more is fetched.
        await client.ping()
        assert len([seen for seen in web.of("GET") if "last-event-id" in seen.headers]) == 2


async def test_a_stream_that_cannot_be_resumed_fails_its_call() -> None:
    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "tools/call":
            return Answer(200, EVENTS, events=Feed(event(None, "e0", 100)))
        return Answer(405) if seen.method == "GET" else None

    async with scripted_web(script) as (_, url), connect(url) as client:
        with pytest.raises(HttpError, match="cannot be resumed"):
            await client.call_tool("f")
        await client.ping()


async def test_http_21_cancelling_is_told_in_a_post_of_its_own() -> None:
    """And the stream is let go."""
    feed = Feed(b": open\n\n", ended=False)

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        return Answer(200, EVENTS, events=feed) if seen.rpc == "tools/call" else None

    async with scripted_web(script) as (web, url), connect(url) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "f")
            await web.wait_for("tools/call")
            nursery.cancel_scope.cancel()
        cancelled = await web.wait_for("notifications/cancelled")
        assert cancelled.message["params"]["requestId"] == web.of("tools/call")[0].message["id"]
        await client.ping()


async def test_a_call_that_was_never_written_needs_no_cancellation() -> None:
    release = trio.Event()

    async def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "notifications/initialized":
            await release.wait()
        return None

    async with scripted_web(script) as (web, url), connect(url) as client:
        with trio.move_on_after(0.05):
            await client.call_tool("f")
        release.set()
        await client.ping()
        assert web.of("tools/call") == []
        assert web.of("notifications/cancelled") == []


async def test_http_59_an_ended_session_is_replaced_once_for_all() -> None:
    """F-067: and what the server refused for it is sent again; subscriptions and level as well."""
    alive = {"s1"}

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "initialize":
            assert "mcp-session-id" not in seen.headers
            web.session = f"s{len(web.of('initialize'))}"
            if len(web.of("initialize")) > 1:
                alive.add(web.session)
            return None
        return Answer(404) if seen.headers.get("mcp-session-id") not in alive else None

    replaced: list[int] = []
    async with (
        scripted_web(script) as (web, url),
        connect(url, on_session_replaced=lambda: replaced.append(1)) as client,
    ):
        await client.set_log_level("error")
        await client.subscribe("test://x")
        alive.clear()
        async with trio.open_nursery() as nursery:
            for n in range(10):
                nursery.start_soon(client.call_tool, f"tool{n}")
        assert len(web.of("initialize")) == 2
        assert replaced == [1]
        assert [s.headers["mcp-session-id"] for s in web.of("logging/setLevel")] == ["s1", "s2"]
        assert [s.headers["mcp-session-id"] for s in web.of("resources/subscribe")] == ["s1", "s2"]
        assert client.revision == "2025-11-25"
        await client.ping()
    assert web.seen[-1].method == "DELETE"
    assert web.seen[-1].headers["mcp-session-id"] == "s2"


async def test_a_server_that_ends_every_session_is_not_asked_for_ever() -> None:
    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc in ("initialize", "notifications/initialized"):
            return None
        return Answer(404)

    async with (
        scripted_web(script) as (web, url),
        connect(HttpServer(url=url, listen=False)) as client,
    ):
        with pytest.raises(HttpError) as caught:
            await client.call_tool("f")
        assert caught.value.status == 404
        assert len(web.of("tools/call")) == 2


async def test_a_call_that_may_have_been_begun_is_not_repeated_unless_it_is_safe() -> None:
    """The session ends in the middle of its stream."""
    gone: list[str] = []

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "initialize":
            web.session = f"s{len(web.of('initialize'))}"
            return None
        if seen.headers.get("mcp-session-id") in gone:
            return Answer(404)
        if seen.rpc in ("tools/call", "tools/list") and web.session == "s1":
            gone.append("s1")
            return Answer(200, EVENTS, events=Feed(event(None, "e0", 100)))
        if seen.rpc == "tools/list":
            return web.json(answer(seen.message, tools=[]))
        return None

    for safe in (False, True):
        gone.clear()
        async with (
            scripted_web(script) as (web, url),
            connect(HttpServer(url=url, listen=False)) as client,
        ):
            if safe:
                assert await client.list_tools() == []
                assert len(web.of("tools/list")) == 2
            else:
                with pytest.raises(SessionEnded) as caught:
                    await client.call_tool("f")
                assert caught.value.delivered
                assert len(web.of("tools/call")) == 1
                await client.ping()


async def test_a_session_that_cannot_be_replaced_fails_the_call_and_the_next_tries_again() -> None:
    state = {"down": False}

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "initialize":
            web.session = f"s{len(web.of('initialize'))}"
            return Answer(503) if state["down"] else None
        return Answer(404) if seen.headers.get("mcp-session-id") == "s1" else None

    async with (
        scripted_web(script) as (_, url),
        connect(HttpServer(url=url, listen=False)) as client,
    ):
        state["down"] = True
        with pytest.raises(SessionEnded):
            await client.ping()
        state["down"] = False
        await client.ping()


async def test_f_068_a_server_that_says_by_400_that_the_session_is_over() -> None:
    """Its clients recover all the same. Any other 400 is what it is."""

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "initialize":
            web.session = f"s{len(web.of('initialize'))}"
            return None
        if seen.headers.get("mcp-session-id") == "s1" and seen.rpc == "ping":
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            return web.json({"jsonrpc": "2.0", "error": error, "id": None}, status=400)
        return Answer(400, (), b"no session of this kind") if seen.rpc == "tools/call" else None

    async with scripted_web(script) as (web, url), connect(url) as client:
        await client.ping()
        assert len(web.of("initialize")) == 2
        with pytest.raises(HttpError, match="HTTP 400"):
            await client.call_tool("f")
        assert len(web.of("initialize")) == 2


async def test_f_072_a_401_without_a_challenge_may_mean_the_session() -> None:
    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "initialize":
            web.session = f"s{len(web.of('initialize'))}"
            return None
        return Answer(401) if seen.headers.get("mcp-session-id") == "s1" else None

    async with scripted_web(script) as (web, url), connect(url) as client:
        await client.ping()
        assert len(web.of("initialize")) == 2


@pytest.mark.parametrize("status", [200, 202, 204, 404, 405, 500])
async def test_f_069_however_the_end_is_answered(status: int) -> None:
    """HTTP-58: it is the end."""

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        return Answer(status) if seen.method == "DELETE" else None

    async with scripted_web(script) as (web, url):
        async with connect(url) as client:
            await client.ping()
        assert len(web.of("DELETE")) == 1


async def test_f_069_an_end_that_is_never_answered_is_the_end_all_the_same(caplog: Any) -> None:
    async def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.method == "DELETE":
            await trio.sleep_forever()
        return None

    async with scripted_web(script) as (_, url):
        with trio.fail_after(10):
            async with connect(url) as client:
                await client.ping()


async def test_headers_of_the_connection_and_of_each_request() -> None:
    tokens = iter(range(100))

    async def fresh() -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        return {"Authorization": f"Bearer {next(tokens)}"}

    async with scripted_web(nothing) as (web, url):
        server = HttpServer(url=url, headers={"X-Team": "blue"}, headers_for=fresh)
        async with connect(server) as client:
            await client.ping()
        assert {seen.headers["x-team"] for seen in web.seen} == {"blue"}
        sent = [seen.headers["authorization"] for seen in web.seen]
        assert len(set(sent)) == len(sent)


async def test_headers_for_that_fails_fails_the_request() -> None:
    calls: list[int] = []

    def broken() -> dict[str, str]:
        calls.append(1)
        if len(calls) == 4:
            raise RuntimeError("no token")
        return {}

    async with scripted_web(nothing) as (_, url):
        server = HttpServer(url=url, headers_for=broken, listen=False)
        async with connect(server) as client:
            await client.ping()
            with pytest.raises(ConnectionLost, match="headers_for failed: RuntimeError"):
                await client.ping()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (HttpServer(url="ftp://x"), "http://"),
        (HttpServer(url="http://"), "names no host"),
        (HttpServer(url="http://x:99999/"), "no URL"),
        (HttpServer(url="http://x", headers={"a b": "c"}), "no name of a header"),
        (
            HttpServer(url="http://x", headers={"A": "secret\r\nB: d"}),
            "characters that no header has",
        ),
    ],
    ids=lambda part: str(part)[:30],
)
async def test_what_cannot_be_a_target(target: HttpServer, said: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        async with connect(target):
            pass
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_what_cannot_be_reached() -> None:
    """One plain error each, and soon."""
    listener = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener[0].socket.getsockname()[1]
    await listener[0].aclose()
    for url, said in (
        (f"http://127.0.0.1:{port}/mcp", "the connection was refused"),
        ("http://no-such-host.invalid/mcp", "the host is not known"),
        (f"https://127.0.0.1:{port}/mcp", "the connection was refused"),
    ):
        with pytest.raises(ConnectionLost, match=said):
            async with connect(HttpServer(url=url, network=Network(proxy=""))):
                pass


async def test_a_server_that_accepts_and_says_nothing() -> None:
    """Within the deadline for connecting."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    try:
        with pytest.raises(RequestTimeout, match="initialize"):
            async with connect(f"http://127.0.0.1:{port}/mcp", timeouts=Timeouts(connect=0.1)):
                pass
    finally:
        await listener.aclose()


async def test_the_server_goes_away_in_the_middle_of_a_stream() -> None:
    """The call fails at once, with a reason."""
    feed = Feed(b": open\n\n", ended=False)

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "tools/call":
            return Answer(200, EVENTS, events=feed)
        return None

    async with scripted_web(script) as (web, url), connect(url) as client:

        async def call() -> None:
            with pytest.raises(ConnectionLost, match="did not say where to resume"):
                await client.call_tool("f")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await web.wait_for("tools/call")
            feed.end()


async def test_an_answer_beyond_the_limit_fails_its_call() -> None:
    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "tools/call":
            return web.json(answer(seen.message, content=[{"type": "text", "text": "x" * 10_000}]))
        if seen.rpc == "ping":
            return Answer(200, EVENTS, events=Feed(event(answer(seen.message, x="y" * 10_000))))
        return None

    async with (
        scripted_web(script) as (_, url),
        connect(HttpServer(url=url, max_message=5000)) as client,
    ):
        with pytest.raises(ConnectionLost, match="more than 5000 bytes"):
            await client.call_tool("f")
        with pytest.raises(RemoteProtocolError, match="more than 5000 bytes"):
            await client.ping()
        await client.set_log_level("error")


async def test_many_calls_at_once_and_cancelled_ones_lose_no_connection() -> None:
    async def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "tools/call":
            await trio.lowlevel.checkpoint()
            if seen.message["params"]["name"] == "slow":
                await trio.sleep_forever()
        return None

    async with scripted_web(script) as (_, url):
        server = HttpServer(url=url, network=Network(connections=3))
        async with connect(server, timeouts=Timeouts(request=5)) as client:
            for _ in range(5):
                async with trio.open_nursery() as nursery:
                    for n in range(10):
                        nursery.start_soon(client.call_tool, f"quick{n}")
                with trio.move_on_after(0.02):
                    async with trio.open_nursery() as nursery:
                        for _ in range(10):
                            nursery.start_soon(client.call_tool, "slow")
            await client.call_tool("quick")


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_asks_to_come_back_later_is_quoted(status: int) -> None:
    busy = Answer(status, (("Retry-After", "120"),), b"busy")
    async with scripted_web(lambda web, seen: busy) as (_, url):
        with pytest.raises(HttpError, match="Retry-After is '120'"):
            async with connect(url):
                pass


async def test_a_server_that_says_nothing_is_named(autojump_clock: trio.testing.MockClock) -> None:
    ours, _theirs = trio.testing.memory_stream_pair()

    async def silent(*_: object) -> Any:
        return ours

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcpcore.transport.net.exchange.open_stream", silent)
        with pytest.raises(RequestTimeout, match=r"within 60 s from http://localhost:1; Timeouts"):
            async with connect("http://user:secret@localhost:1/mcp"):
                pass
