"""The endpoint on the wire, behind both fronts: statuses, headers, sessions, streams."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
import trio
from web_server import Web, call, initialize, request, serving, web

from mcpcore import ConnectionLost, Context, Server, Timeouts
from mcpcore.server.http.principals import bearer_tokens
from mcpcore.server.http.sessions import SessionLimits


def make_server(**options: Any) -> Server:
    server = Server("web", "1.0", **options)
    server.finish = trio.Event()  # type: ignore[attr-defined]
    server.finished = trio.Event()  # type: ignore[attr-defined]

    @server.tool(inline=True)
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(n: int, ctx: Context[Any]) -> str:
        for step in range(n):
            ctx.progress(step + 1, n)
        return "counted"

    @server.tool
    async def slow(ctx: Context[Any]) -> str:
        ctx.progress(1)
        await server.finish.wait()  # type: ignore[attr-defined]
        server.finished.set()  # type: ignore[attr-defined]
        return "slow"

    @server.tool
    async def polled(ctx: Context[Any]) -> str:
        ctx.hang_up(retry=0.01)
        await server.finish.wait()  # type: ignore[attr-defined]
        return "polled"

    class Name(msgspec.Struct):
        name: str

    @server.tool(asks="replay")
    async def ask(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("name", Name, "Who?")
        return answer.value.name if answer.value else answer.action

    @server.tool
    def whoami(ctx: Context[Any]) -> str:
        return str(ctx.principal)

    return server


def text(message: Any) -> str:
    return str(message["result"]["content"][0]["text"])


async def test_http_12_an_answer_alone_is_json(front: str) -> None:
    async with web(make_server(), front) as client:
        opened = await client.initialize()
        assert opened.headers["content-type"] == "application/json"
        assert opened.json["result"]["protocolVersion"] == "2025-11-25"
        reply = await client.post(call("add", a=1, b=2))
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert text(reply.json) == "3"
        assert "mcp-session-id" not in reply.headers


async def test_http_10_notifications_and_answers_get_202_without_a_body(front: str) -> None:
    """F-084."""
    async with web(make_server(), front) as client:
        await client.initialize()
        for message in (
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
            {"jsonrpc": "2.0", "id": 99, "result": {}},
        ):
            reply = await client.post(message)
            assert (reply.status, reply.body) == (202, b"")
            assert "content-type" not in reply.headers


async def test_http_16_what_belongs_to_a_request_comes_on_its_stream(front: str) -> None:
    async with web(make_server(), front) as client:
        await client.initialize()
        reply = await client.post(call("count", 5, token="t", n=3))
        assert reply.headers["content-type"].startswith("text/event-stream")
        # F-093: nothing on the way may collect or compress it.
        assert reply.headers["x-accel-buffering"] == "no"
        assert reply.headers["cache-control"] == "no-cache, no-transform"
        *progress, answer = [event for event in reply.events if event is not None]
        assert [event["params"]["progress"] for event in progress] == [1, 2, 3]
        assert answer["id"] == 5
        # HTTP-43: ids are unique, HTTP-22: the first event has an id and no data.
        ids = [id for id, _ in reply.raw_events]
        assert len(set(ids)) == len(ids) == 5
        assert reply.events[0] is None


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_older_revisions_get_no_event_without_data(front: str, revision: str) -> None:
    async with web(make_server(), front) as client:
        await client.initialize(revision)
        reply = await client.post(call("count", token="t", n=1))
        assert None not in reply.events


async def test_a_server_may_answer_with_events_always(front: str) -> None:
    async with web(make_server(), front, answers="events") as client:
        opened = await client.post(initialize())
        assert opened.events[-1]["result"]["serverInfo"]["name"] == "web"
        client.session = opened.headers["mcp-session-id"]
        reply = await client.post(call("add", a=1, b=2))
        assert text(reply.events[-1]) == "3"


async def test_a_client_that_takes_json_only_gets_the_answer(front: str) -> None:
    async with web(make_server(), front) as client:
        await client.initialize()
        reply = await client.post(call("count", token="t", n=3), accept="application/json")
        assert text(reply.json) == "counted"
        reply = await client.post(call("count", token="t", n=3), accept="text/event-stream")
        assert text(reply.events[-1]) == "counted"


@pytest.mark.parametrize(
    ("method", "body", "headers", "status"),
    [
        ("POST", b"{", {}, 400),
        ("POST", b"", {}, 400),
        ("POST", b"[]", {}, 400),
        ("POST", [request("ping")], {}, 400),
        ("POST", request("ping"), {"mcp-session-id": None}, 400),
        ("POST", request("ping"), {"mcp-session-id": "unknown"}, 404),
        ("POST", request("ping"), {"mcp-protocol-version": "1999-01-01"}, 400),
        ("POST", request("ping"), {"mcp-protocol-version": "2025-11-25"}, 200),
        ("POST", request("ping"), {"content-type": "text/plain"}, 415),
        ("POST", request("ping"), {"accept": "text/html"}, 406),
        ("POST", request("ping"), {"accept": None}, 200),
        ("POST", request("ping"), {"origin": "http://evil.example.com"}, 403),
        ("POST", request("ping"), {"origin": "null"}, 403),
        ("POST", request("ping"), {"origin": "http://localhost:5173"}, 200),
        ("POST", b" " * 2000, {}, 413),
        ("GET", None, {"mcp-session-id": None}, 400),
        ("GET", None, {"mcp-session-id": "unknown"}, 404),
        ("GET", None, {"accept": "application/json"}, 406),
        ("GET", None, {"origin": "http://evil.example.com"}, 403),
        ("DELETE", None, {"mcp-session-id": "unknown"}, 404),
        ("DELETE", None, {"mcp-session-id": None}, 400),
        ("DELETE", None, {"origin": "http://evil.example.com"}, 403),
        ("PUT", b"{}", {}, 405),
        ("OPTIONS", None, {}, 405),
        ("PATCH", b"{}", {}, 405),
    ],
)
async def test_the_status_of_a_request(
    front: str, method: str, body: Any, headers: dict[str, str | None], status: int
) -> None:
    """F-068 F-071 F-088 F-089 F-090: and afterwards the session is as it was."""
    async with web(make_server(), front, max_body=1000) as client:
        await client.initialize()
        reply = await client.ask(method, body, headers)
        assert reply.status == status
        if status >= 400:
            assert "error" in reply.json
            assert "id" not in reply.json
            assert "mcp-session-id" not in reply.headers
        if status == 405:
            assert set(reply.headers["allow"].split(", ")) == {"POST", "GET", "DELETE"}
        assert (await client.post(request("ping", 2))).json["result"] == {}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_both_spellings_of_the_path_are_served(front: str, path: str) -> None:
    """F-091: without a redirect."""
    async with web(make_server(), front) as client:
        client.url = msgspec.structs.replace(client.url, target=path)
        assert (await client.initialize()).status == 200
        client.url = msgspec.structs.replace(client.url, target="/other")
        assert (await client.post(request("ping"))).status == 404


async def test_http_51_session_ids_are_random(front: str) -> None:
    async with web(make_server(), front) as client:
        ids = set()
        for _ in range(20):
            await client.initialize()
            assert client.session is not None
            ids.add(client.session)
        assert len(ids) == 20
        assert all(len(id) >= 32 for id in ids)


async def test_http_56_a_session_that_ended_gets_404(front: str) -> None:
    async with web(make_server(), front) as client:
        await client.initialize()
        assert (await client.ask("DELETE")).status == 204
        for method, body in (("POST", request("ping")), ("GET", None), ("DELETE", None)):
            assert (await client.ask(method, body)).status == 404


async def test_a_refused_initialize_opens_no_session(front: str) -> None:
    """F-071: and gives out no id."""
    async with web(make_server(), front, sessions=SessionLimits(sessions=1)) as client:
        for _ in range(3):
            reply = await client.post(request("initialize"), mcp_session_id=None)
            assert reply.json["error"]["code"] == -32602
            assert "mcp-session-id" not in reply.headers
        await client.initialize()


async def test_a_second_initialize_in_a_session_is_refused(front: str) -> None:
    async with web(make_server(), front) as client:
        await client.initialize()
        reply = await client.post(initialize())
        assert reply.json["error"]["code"] == -32600
        assert (await client.post(request("ping"))).status == 200


async def test_too_many_sessions_are_refused_with_a_hint_when_to_come_back(front: str) -> None:
    """F-070."""
    async with web(make_server(), front, sessions=SessionLimits(sessions=2)) as client:
        await client.initialize()
        first, client.session = client.session, None
        await client.initialize()
        reply = await client.post(initialize(), mcp_session_id=None)
        assert reply.status == 503
        assert reply.headers["retry-after"] == "60"
        client.session = first
        assert (await client.ask("DELETE")).status == 204
        await client.initialize()


async def test_f_098_any_number_of_clients_at_once(front: str) -> None:
    async with web(make_server(), front) as client:

        async def use(number: int) -> None:
            other = Web(str(client.url))
            await other.initialize()
            reply = await other.post(call("add", a=number, b=1))
            assert text(reply.json) == str(number + 1)
            await other.client.aclose()

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(use, number)


async def test_an_id_in_use_is_refused(front: str) -> None:
    server = make_server()
    async with web(server, front) as client:
        await client.initialize()
        stream = await client.open("POST", call("slow", 7, token="t"))
        assert (await client.post(request("ping", 7))).status == 400
        assert (await client.post(request("ping", "7"))).status == 200
        server.finish.set()  # type: ignore[attr-defined]
        assert b"slow" in await stream.read(10**6)


async def test_a_batch_is_answered_as_one_in_the_revision_that_has_them(front: str) -> None:
    async with web(make_server(), front) as client:
        await client.initialize("2025-03-26")
        batch = [call("add", 1, a=1, b=1), call("count", 2, n=1), request("ping", "3"), 5]
        reply = await client.post(batch)
        assert sorted(str(answer.get("id")) for answer in reply.json) == ["1", "2", "3", "None"]
        reply = await client.post([{"jsonrpc": "2.0", "method": "notifications/cancelled"}])
        assert (reply.status, reply.body) == (202, b"")
        reply = await client.post([5])
        assert reply.json[0]["error"]["code"] == -32600
        assert (await client.post([request("ping", 1), request("ping", 1)])).status == 400


async def test_questions_and_their_answers(front: str) -> None:
    """The question comes on the stream of the request, the answer is posted."""
    async with web(make_server(), front) as client:
        await client.initialize(capabilities={"elicitation": {}})
        stream = await client.open("POST", call("ask", 4))
        seen = b""
        while b"elicitation/create" not in seen:
            seen += await stream.chunk()
        line = next(line for line in seen.split(b"\n") if b"elicitation/create" in line)
        question = json.loads(line.removeprefix(b"data: "))
        answer = {"action": "accept", "content": {"name": "Ada"}}
        told = await client.post({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert told.status == 202
        assert b"Ada" in await stream.read(10**6)


async def test_canc_a_cancelled_request_ends_its_stream_without_an_answer(front: str) -> None:
    async with web(make_server(), front) as client:
        await client.initialize()
        stream = await client.open("POST", call("slow", 3, token="t"))
        cancelled = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 3},
        }
        assert (await client.post(cancelled)).status == 202
        assert b"result" not in await stream.read(10**6)


async def test_http_20_a_broken_connection_cancels_nothing(front: str) -> None:
    """F-095 F-087: the tool goes on, and its answer can be had by resuming."""
    server = make_server()
    async with web(server, front) as client:
        await client.initialize()
        stream = await client.open("POST", call("slow", 3, token="t"))
        seen = b""
        while b"progress" not in seen:
            seen += await stream.chunk()
        ids = [line[4:] for line in seen.decode().split("\n") if line.startswith("id: ")]
        stream.close()
        server.finish.set()  # type: ignore[attr-defined]
        await server.finished.wait()  # type: ignore[attr-defined]
        reply = await client.ask("GET", headers={"last-event-id": ids[-1]})
        assert text(reply.events[-1]) == "slow"
        # HTTP-46: no gap, no repeat. The answer may be had again.
        assert len(reply.events) == 1
        again = await client.ask("GET", headers={"last-event-id": ids[0]})
        assert [event["method"] for event in again.events[:-1]] == ["notifications/progress"]
        assert text(again.events[-1]) == "slow"


async def test_a_server_without_a_store_gives_no_ids(front: str) -> None:
    async with web(make_server(), front, store=None) as client:
        await client.initialize()
        reply = await client.post(call("count", token="t", n=1))
        assert {id for id, _ in reply.raw_events} == {None}


async def test_http_47_a_stream_replays_its_own_events_only(front: str) -> None:
    """F-086."""
    async with web(make_server(), front) as client:
        await client.initialize()
        first = await client.post(call("count", 1, token="a", n=2))
        second = await client.post(call("count", 2, token="b", n=2))
        id = first.raw_events[1][0]
        replayed = (await client.ask("GET", headers={"last-event-id": id})).events
        assert replayed == first.events[2:]
        assert second.events[2:] != replayed


@pytest.mark.parametrize("id", ["nonsense", "9-1", "1-99", "0-5", "", "1-1-1"])
async def test_an_unknown_event_id_replays_nothing(front: str, id: str) -> None:
    """F-086: it is a fresh stream."""
    async with web(make_server(), front) as client:
        await client.initialize()
        await client.post(call("count", 1, token="a", n=2))
        stream = await client.open("GET", headers={"last-event-id": id})
        assert stream.status == 200
        assert b"progress" not in await stream.chunk()
        stream.close()


async def test_the_events_of_one_session_are_not_replayed_in_another(front: str) -> None:
    async with web(make_server(), front) as client:
        await client.initialize()
        reply = await client.post(call("count", 1, token="a", n=2))
        await client.initialize()
        stream = await client.open("GET", headers={"last-event-id": str(reply.raw_events[0][0])})
        assert b"progress" not in await stream.chunk()
        stream.close()


async def test_polling_the_server_lets_go_and_the_client_comes_back(front: str) -> None:
    """HTTP-22 HTTP-23 HTTP-25: an event with an id, a retry, the end; and the answer later."""
    server = make_server()
    async with web(server, front) as client:
        await client.initialize()
        reply = await client.post(call("polled", 3))
        assert reply.events == [None]
        assert b"retry: 10\n" in reply.body
        id = reply.raw_events[0][0]
        stream = await client.open("GET", headers={"last-event-id": str(id)})
        server.finish.set()  # type: ignore[attr-defined]
        assert b"polled" in await stream.read(10**6)


async def test_f_077_a_new_get_takes_the_place_of_the_old(front: str) -> None:
    """HTTP-41: and what comes later comes once."""
    server = make_server()
    async with web(server, front) as client:
        await client.initialize()
        old = await client.open("GET")
        new = await client.open("GET")
        await old.read(10**6)
        server.tool(name="late")(lambda: "late")
        seen = b""
        while b"list_changed" not in seen:
            seen += await new.chunk()
        new.close()


async def test_f_079_what_nobody_listens_to_waits(front: str) -> None:
    server = make_server()
    async with web(server, front) as client:
        await client.initialize()
        server.tool(name="late")(lambda: "late")
        await client.post(request("ping"))
        stream = await client.open("GET")
        seen = b""
        while b"list_changed" not in seen:
            seen += await stream.chunk()
        stream.close()


async def test_f_094_a_quiet_stream_shows_signs_of_life(front: str) -> None:
    server = make_server()
    async with web(server, front, keep_alive=0.02) as client:
        await client.initialize()
        stream = await client.open("GET")
        seen = b""
        while seen.count(b":\n\n") < 3:
            seen += await stream.chunk()
        stream.close()
        # A request whose answer takes its time becomes a stream of events.
        slow = await client.open("POST", call("slow", 3))
        while b":\n\n" not in await slow.chunk():
            pass
        server.finish.set()  # type: ignore[attr-defined]
        assert b"slow" in await slow.read(10**6)


async def test_idle_sessions_end(front: str) -> None:
    """F-070: but not those whose client listens or waits."""
    server = make_server()
    limits = SessionLimits(idle=0.2)
    async with web(server, front, sessions=limits, keep_alive=0.05) as client:
        await client.initialize()
        idle, client.session = client.session, None
        await client.initialize()
        stream = await client.open("GET")
        # A sign of life each 50 ms: after ten of them both sessions are old enough.
        for _ in range(10):
            await stream.chunk()
        assert (await client.post(request("ping"))).status == 200
        stream.close()
        client.session = idle
        assert (await client.post(request("ping"))).status == 404


TOKENS = {"a-token-of-ada-1234": "ada", "a-token-of-bob-5678": "bob"}


async def test_who_asks_is_found_out_before_anything_else(front: str) -> None:
    """401 with a challenge, for whatever is sent."""
    async with web(make_server(), front, authenticate=bearer_tokens(TOKENS)) as client:
        for token in (None, "Bearer wrong", "Basic a-token-of-ada-1234", "Bearer"):
            reply = await client.ask("POST", b"{", {"authorization": token})
            assert reply.status == 401
            assert reply.headers["www-authenticate"] == "Bearer"
        ada = "bearer a-token-of-ada-1234"
        await client.initialize(authorization=ada)
        reply = await client.post(call("whoami"), authorization=ada)
        assert text(reply.json) == "ada"
        # SEC-01: the id of a session is no credential.
        assert (await client.post(call("whoami"))).status == 401
        # SEC-02: somebody else's session does not exist.
        for method, body in (("POST", call("whoami")), ("GET", None), ("DELETE", None)):
            headers: dict[str, str | None] = {"authorization": "Bearer a-token-of-bob-5678"}
            assert (await client.ask(method, body, headers)).status == 404


def test_tokens_must_be_worth_the_name() -> None:
    with pytest.raises(ValueError, match="16 characters"):
        bearer_tokens({"short": "ada"})
    with pytest.raises(ValueError, match="None is nobody"):
        bearer_tokens({"long-enough-token-1": None})
    with pytest.raises(ValueError, match="at least one"):
        bearer_tokens({})


async def test_authenticate_may_be_async_and_an_error_in_it_is_told_to_nobody(front: str) -> None:
    async def authenticate(request: Any) -> str:
        await trio.lowlevel.checkpoint()
        if "x-crash" in request.headers:
            raise RuntimeError("secret")
        return "somebody"

    async with web(make_server(), front, authenticate=authenticate) as client:
        await client.initialize()
        assert text((await client.post(call("whoami"))).json) == "somebody"
        reply = await client.post(request("ping"), x_crash="1")
        assert (reply.status, reply.body) == (500, b"Internal error")


async def test_without_sessions_each_request_stands_alone(front: str) -> None:
    async with web(make_server(), front, sessions=None) as client:
        opened = await client.initialize()
        assert "mcp-session-id" not in opened.headers
        told = await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert told.status == 202
        reply = await client.post(call("add", a=1, b=2), mcp_protocol_version="2025-11-25")
        assert text(reply.json) == "3"
        reply = await client.post(call("count", token="t", n=2))
        assert text(reply.events[-1]) == "counted"
        assert {id for id, _ in reply.raw_events} == {None}
        # HTTP-68: without a header it is the revision that has batches.
        assert len((await client.post([request("ping", 1), request("ping", 2)])).json) == 2
        two = [request("ping", 1)]
        assert (await client.post(two, mcp_protocol_version="2025-11-25")).status == 400
        assert (await client.post(request("ping"), mcp_protocol_version="x")).status == 400
        # Nothing can be asked of a client that nobody knows.
        reply = await client.post(call("ask"), mcp_protocol_version="2025-11-25")
        assert reply.json["result"]["isError"]
        for method in ("GET", "DELETE"):
            assert (await client.ask(method)).status == 405


async def test_public_hosts_have_to_be_named(front: str) -> None:
    """F-090: the refusal names the setting."""
    async with web(make_server(), front, allowed_hosts=["mcp.example.com"]) as client:
        assert (await client.initialize()).status == 200
        # HTTP-03, for each method: the wrong host and the wrong origin.
        client.url = msgspec.structs.replace(client.url, host="localhost")
        reply = await client.post(request("ping"), origin="https://other.example.com")
        assert reply.status == 403
        assert b"allowed_origins" in reply.body
        reply = await client.post(request("ping"), origin="https://mcp.example.com")
        assert reply.status == 200


async def test_f_096_the_end_is_graceful_and_bounded(front: str) -> None:
    """Handlers get a bounded time, streams end, and then everything is over."""
    server = make_server(timeouts=Timeouts(drain=0.1))
    async with serving(server, front) as url:
        client = Web(url)
        await client.initialize()
        stream = await client.open("GET")
        slow = await client.open("POST", call("slow", 3, token="t"))
    # The block ended although the tool still waits. hypercorn cuts what is open, our listener ends it.
    with contextlib.nullcontext() if front == "listener" else contextlib.suppress(ConnectionLost):
        assert b"result" not in await slow.read(10**6)
        await stream.read(10**6)
    await client.client.aclose()


async def test_what_was_accepted_is_answered_before_the_end() -> None:
    server = make_server()
    async with serving(server) as url:
        client = Web(url)
        await client.initialize()
        slow = await client.open("POST", call("slow", 3, token="t"))
        server.finish.set()  # type: ignore[attr-defined]
    assert b"slow" in await slow.read(10**6)
    await client.client.aclose()


async def test_a_question_and_a_request_of_the_same_id_have_nothing_in_common(front: str) -> None:
    """Both sides count from one: what is cancelled on one side is not what has that id on the other."""
    server = make_server()
    async with web(server, front) as client, trio.open_nursery() as nursery:
        await client.initialize(capabilities={"elicitation": {}})
        slow: list[Any] = []
        asked = await client.open("POST", call("ask", id=2), {})
        question = b""
        while b"elicitation/create" not in question:
            question += await asked.chunk()
        number = json.loads(question.split(b"data: ")[-1])["id"]

        async def keep() -> None:
            slow.append(await client.post(call("slow", id=number, token="t")))

        nursery.start_soon(keep)
        while True:
            # Until the call with the question's id is under way.
            reply = await client.post(call("add", id=number, a=1, b=2))
            if reply.status == 400:
                break
        cancelled = {"requestId": 2, "reason": "enough"}
        await client.post(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
        )
        rest = b""
        while chunk := await asked.chunk():
            rest += chunk
        # The question is given up where it was asked, and the call of the same id goes on.
        told = json.loads(rest.split(b"data: ")[-1])
        assert told["method"] == "notifications/cancelled"
        assert told["params"]["requestId"] == number
        server.finish.set()  # type: ignore[attr-defined]
    (reply,) = slow
    assert [message.get("id") for message in reply.events if message] == [None, number]
