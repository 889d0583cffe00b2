"""Which era an HTTP server is of: by the body of what it answers, and never by its silence or its trouble."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from scripted_web import EVENTS, Feed, ScriptedWeb, Seen, answer, event, scripted_web

from mcpcore import ConnectionLost, HttpError, HttpServer, RequestFailed, VersionMismatch, connect
from mcpcore.protocol.terms import SERVER_INFO
from mcpcore.revisions import HANDSHAKE, STATELESS
from mcpcore.transport.http import Answer

E, OLD = STATELESS[0], HANDSHAKE[0]


def discovered(seen: Seen, *versions: str) -> dict[str, Any]:
    return answer(
        seen.message,
        resultType="complete",
        supportedVersions=list(versions or [E]),
        capabilities={"tools": {}, "resources": {}},
        ttlMs=0,
        cacheScope="private",
        _meta={SERVER_INFO: {"name": "alone", "version": "1"}},
    )


def failed(seen: Seen, code: int, **data: Any) -> dict[str, Any]:
    error = {"code": code, "message": "no", **({"data": data} if data else {})}
    return {"jsonrpc": "2.0", "id": seen.message["id"], "error": error}


class First:
    """Answers the question for the era as it is told; the rest is usual."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)

    def __call__(self, web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc != "server/discover":
            return None
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        result: Answer | None = reply(web, seen) if callable(reply) else reply
        return result


def text(status: int, body: bytes = b"", kind: str = "text/plain") -> Answer:
    return Answer(status, (("Content-Type", kind),), body)


def error(status: int, code: int, **data: Any) -> Any:
    return lambda web, seen: web.json(failed(seen, code, **data), status=status)


@pytest.mark.parametrize(
    "first",
    [
        text(400),
        text(400, b"Bad Request: no session"),
        text(404, b"<html>", "text/html"),
        text(405),
        text(406),
        text(415),
        error(400, -32600),
        error(400, -32000),
        error(200, -32601),
        error(404, -32601),
        lambda web, seen: web.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "x"}}, status=400),
        lambda web, seen: web.json(answer(seen.message)),
        lambda web, seen: web.json(discovered(seen, OLD)),
    ],
    ids=range(13),
)  # fmt: skip
async def test_f_115_an_older_server_is_met_by_a_handshake(first: Any) -> None:
    """HTTP26-44, TRAP-30: decided by the body, whatever the status."""
    async with scripted_web(First(first)) as (web, url):
        async with connect(url) as client:
            assert client.revision == OLD
        assert [seen.rpc for seen in web.seen[:3]] == [
            "server/discover",
            "initialize",
            "notifications/initialized",
        ]
        # A handshake is asked for in the words of its era.
        assert "mcp-method" not in web.seen[1].headers


async def test_f_115_a_newer_server_that_refuses_is_none_of_the_older() -> None:
    again = error(400, -32022, supported=[E], requested=E)
    async with scripted_web(First(again, lambda w, s: w.json(discovered(s)))) as (web, url):
        async with connect(url) as client:
            assert (client.revision, client.server_info.name) == (E, "alone")
        assert len(web.of("server/discover")) == 2
        assert not web.of("initialize")
    for code, kind in ((-32020, RequestFailed), (-32021, RequestFailed), (-32022, VersionMismatch)):
        refused = First(error(400, code, supported=["2099-01-01"], requested=E))
        async with scripted_web(refused) as (web, url):
            with pytest.raises(kind):
                async with connect(url):
                    pass
            assert not web.of("initialize")


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_trouble_says_nothing_about_the_era(status: int) -> None:
    async with scripted_web(First(text(status, b"trouble"))) as (web, url):
        with pytest.raises(HttpError) as caught:
            async with connect(url):
                pass
        assert caught.value.status == status
        assert not web.of("initialize")


async def test_a_server_with_nothing_newer_than_the_older_transport_is_found() -> None:
    """HTTP26-48: the question, initialize, and then the stream of 2024-11-05."""
    feed = Feed(b"event: endpoint\ndata: /post\n\n", ended=False)

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.method == "GET":
            return Answer(200, EVENTS, events=feed)
        if "mcp-method" in seen.headers or not web.of("GET"):
            return text(405)
        usual = web.usual(seen)
        if usual.body and seen.rpc != "server/discover":
            feed.say(b"data: " + usual.body + b"\n\n")
        elif seen.rpc == "server/discover":
            feed.say(event(failed(seen, -32601)))
        return Answer(202)

    async with scripted_web(script) as (web, url), connect(url) as client:
        await client.ping()
        assert client.revision == OLD
        assert web.of("GET")


# What a client of the stateless era sends, and what it makes of the answers.


def alone(script: Any) -> Any:
    def both(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.rpc == "server/discover":
            return web.json(discovered(seen))
        result: Answer | None = script(web, seen)
        return result

    return both


async def test_hdr_01_each_request_says_in_headers_what_it_is() -> None:
    """HDR-01, HDR-02, HTTP26-20; F-114: names beyond ASCII are encoded. No session, no GET, no DELETE."""
    script = alone(lambda web, seen: web.json(answer(seen.message, content=[], contents=[])))
    async with scripted_web(script) as (web, url):
        async with connect(HttpServer(url=url, headers={"X-Team": "blue"})) as client:
            await client.call_tool("Zoë")
            await client.read_resource("x:a")
        assert [seen.method for seen in web.seen] == ["POST"] * 3
        first, call, read = (seen.headers for seen in web.seen)
        assert {seen.headers["mcp-protocol-version"] for seen in web.seen} == {E}
        assert "mcp-name" not in first
        assert (call["mcp-method"], call["mcp-name"]) == ("tools/call", "=?base64?Wm/Dqw==?=")
        assert (read["mcp-method"], read["mcp-name"]) == ("resources/read", "x:a")
        assert {seen.headers["x-team"] for seen in web.seen} == {"blue"}
        assert not any("mcp-session-id" in seen.headers for seen in web.seen)


MARKED = {
    "name": "placed",
    "inputSchema": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
}


async def test_hdr_43_a_mismatch_has_the_tools_listed_anew_and_one_more_try() -> None:
    """HDR-43 to HDR-45."""
    schemas = [{**MARKED, "inputSchema": {"type": "object"}}, MARKED]

    def script(web: ScriptedWeb, seen: Seen) -> Answer:
        if seen.rpc == "tools/list":
            tool = schemas.pop(0) if len(schemas) > 1 else schemas[0]
            return web.json(answer(seen.message, tools=[tool]))
        if "mcp-param-region" not in seen.headers:
            return web.json(failed(seen, -32020), status=400)
        return web.json(answer(seen.message, content=[]))

    async with scripted_web(alone(script)) as (web, url), connect(url) as client:
        await client.list_tools()
        assert not (await client.call_tool("placed", {"region": "eu"})).is_error
        assert len(web.of("tools/call")) == 2
        assert web.of("tools/call")[1].headers["mcp-param-region"] == "eu"
        # Where the list says nothing new there is no second try.
        with pytest.raises(RequestFailed):
            await client.call_tool("placed", {})
        assert len(web.of("tools/call")) == 3


async def test_hdr_40_a_tool_that_marks_it_wrong_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = json.loads(json.dumps(MARKED).replace("Region", "Re gion").replace("placed", "bad"))
    script = alone(lambda web, seen: web.json(answer(seen.message, tools=[bad, MARKED])))
    async with scripted_web(script) as (_, url), connect(url) as client:
        assert [tool.name for tool in await client.list_tools()] == ["placed"]
    assert "bad" in caplog.text


async def test_hdr_54_an_argument_that_no_header_carries_is_not_sent() -> None:
    numbered = json.loads(json.dumps(MARKED).replace('"string"', '"integer"'))
    script = alone(lambda web, seen: web.json(answer(seen.message, tools=[numbered])))
    async with scripted_web(script) as (web, url), connect(url) as client:
        await client.list_tools()
        with pytest.raises(Exception, match="safely"):
            await client.call_tool("placed", {"region": 2**60})
        assert not web.of("tools/call")


async def test_http26_36_what_breaks_is_lost_and_not_resumed() -> None:
    """HTTP26-35, HTTP26-36, HTTP26-46: ids of events mean nothing, and nothing is asked again by itself."""
    told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    script = alone(lambda web, seen: Answer(200, EVENTS, events=Feed(event(told, "7", 10))))
    async with scripted_web(script) as (web, url), connect(url) as client:
        with pytest.raises(ConnectionLost, match="broke"):
            await client.call_tool("f")
        assert [seen.rpc for seen in web.seen] == ["server/discover", "tools/call"]


async def test_subs_19_a_subscription_that_breaks_is_opened_anew() -> None:
    """SUBS-19, SUBS-21: there is no replay, so everything may have changed."""
    feeds: list[Feed] = []

    def script(web: ScriptedWeb, seen: Seen) -> Answer:
        meta = {"io.modelcontextprotocol/subscriptionId": seen.message["id"]}
        params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        method = "notifications/subscriptions/acknowledged"
        feeds.append(
            Feed(event({"jsonrpc": "2.0", "method": method, "params": params}), ended=False)
        )
        return Answer(200, EVENTS, events=feeds[-1])

    async with (
        scripted_web(alone(script)) as (web, url),
        connect(url) as client,
        client.listen(tools=True) as changes,
    ):
        feeds[0].end()
        with trio.fail_after(20):
            change = await anext(changes)
        assert change.kind == "tools"
        ids = [seen.message["id"] for seen in web.of("subscriptions/listen")]
        assert len(set(ids)) == 2


async def test_a_cancelled_caller_closes_and_says_nothing() -> None:
    """CANC26-03."""
    feed = Feed(ended=False)
    script = alone(lambda web, seen: Answer(200, EVENTS, events=feed))
    async with scripted_web(script) as (web, url), connect(url) as client:
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "f")
                await web.wait_for("tools/call")
                nursery.cancel_scope.cancel()
        assert [seen.rpc for seen in web.seen] == ["server/discover", "tools/call"]
