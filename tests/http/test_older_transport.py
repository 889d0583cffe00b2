"""The older HTTP transport: our client and server, and the way down to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from handshake import connect
from scripted_web import EVENTS, Feed, ScriptedWeb, Seen, nothing, scripted_web
from web_server import Web, call, initialize, request, serving

from mcpcore import ConnectionLost, Context, HttpError, HttpServer, Server
from mcpcore.transport.http import Answer
from mcpcore.transport.older_http_channel import OlderHttpChannel

INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def make_server() -> Server:
    server = Server("older", "1")

    @server.tool
    async def count(n: int, ctx: Context[Any]) -> str:
        for step in range(n):
            ctx.progress(step + 1)
        return "counted"

    return server


def older_url(url: str) -> str:
    return url.removesuffix("/mcp") + "/sse"


async def test_our_client_and_server_by_the_older_transport(front: str) -> None:
    """HSSE-01 to HSSE-05: answers and all else on the one stream."""
    steps: list[float] = []
    async with serving(make_server(), front, older=True) as url:
        server = HttpServer(url=older_url(url), older=True)
        async with connect(server) as client, connect(server) as other:
            result = await client.call_tool(
                "count", {"n": 3}, on_progress=lambda step: steps.append(step.progress)
            )
            assert result.text == "counted"
            # HSSE-09: several clients at once.
            assert (await other.call_tool("count", {"n": 1})).text == "counted"
        # The newer transport is served beside it (HSSE-11).
        async with connect(url) as client:
            await client.ping()
    assert steps == [1, 2, 3]


async def test_the_client_finds_its_way_down() -> None:
    """HSSE-13: after 400, 404 or 405 to initialize, for a URL of which nothing else is known."""
    async with serving(make_server(), older=True) as url, connect(older_url(url)) as client:
        assert (await client.call_tool("count", {"n": 1})).text == "counted"


@pytest.mark.parametrize(
    ("status", "falls"), [(400, True), (404, True), (405, True), (401, False), (500, False)]
)
async def test_only_certain_statuses_lead_down(status: int, falls: bool) -> None:
    """And where the older transport is not there either, the first answer counts."""

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        return Answer(status) if seen.method == "POST" else None

    async with scripted_web(script) as (web, url):
        with pytest.raises(HttpError) as caught:
            async with connect(url):
                pass
        assert caught.value.status == status
        assert len(web.of("GET")) == int(falls)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"data: {}\n\n", "does not begin with an endpoint"),
        (b"event: endpoint\ndata: http://other.example.com/x\n\n", "another origin"),
        (b"event: endpoint\ndata: ftp://x\n\n", "no URL"),
        (b"", "ended the stream"),
    ],
)
async def test_an_endpoint_that_is_none(first: bytes, said: str) -> None:
    """Credentials go where the endpoint says, so it must be within the origin."""

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        return Answer(200, EVENTS, events=Feed(first)) if seen.method == "GET" else None

    async with scripted_web(script) as (_, url):
        with pytest.raises(ConnectionLost, match=said):
            async with connect(HttpServer(url=url, older=True)):
                pass


async def test_hsse_03_the_endpoint_is_taken_as_it_is() -> None:
    feed = Feed(b"event: endpoint\ndata: /post?a=1&b=%20c\n\n", ended=False)

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.method == "GET":
            return Answer(200, EVENTS, events=feed)
        if seen.rpc == "tools/call":
            return Answer(503, (), b"busy")
        usual = web.usual(seen)
        if usual.body:
            feed.say(b"data: " + usual.body + b"\n\n")
        return Answer(202)

    async with scripted_web(script) as (web, url):
        server = HttpServer(url=url, older=True, headers={"X-Team": "blue"})
        async with connect(server) as client:
            await client.ping()
            with pytest.raises(HttpError, match="busy"):
                await client.call_tool("f")
            assert {seen.headers["x-team"] for seen in web.seen} == {"blue"}
            feed.end()
            with pytest.raises(ConnectionLost, match="ended the stream"):
                while True:
                    await client.ping()


async def test_what_was_said_before_the_close_is_posted(caplog: pytest.LogCaptureFixture) -> None:
    feed = Feed(b"event: endpoint\ndata: /post\n\n", ended=False)

    def script(web: ScriptedWeb, seen: Seen) -> Answer | None:
        if seen.method == "GET":
            return Answer(200, EVENTS, events=feed)
        usual = web.usual(seen)
        if usual.body:
            feed.say(b"data: " + usual.body + b"\n\n")
        return Answer(202)

    async with scripted_web(script) as (web, url):
        channel = OlderHttpChannel(HttpServer(url=url))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run)
            channel.send_nowait(json.dumps(request("ping")).encode())
            await channel.receive()
            for _ in range(5):
                channel.send_nowait(INITIALIZED)
            await channel.aclose()
        assert len(web.of("notifications/initialized")) == 5
    assert "not delivered" not in caplog.text


async def test_what_the_server_refuses() -> None:
    """HSSE-06, and HSSE-10: the end of the stream is the end of the session."""
    async with serving(make_server(), older=True) as url:
        web = Web(older_url(url))
        evil = {"origin": "http://evil.example.com"}
        assert (await web.ask("GET", headers=evil)).status == 403
        assert (await web.post(initialize())).status == 405
        stream = await web.open("GET")
        first = await stream.chunk()
        path = first.split(b"data: ")[1].split(b"\n")[0].decode()
        posts = Web(url.removesuffix("/mcp") + path)
        assert (await posts.ask("GET")).status == 405
        assert (await posts.post(initialize(), origin="http://evil.example.com")).status == 403
        assert (await posts.post(b"{")).status == 400
        assert (await posts.post(b"x" * 5_000_000)).status == 413
        assert (await posts.post(initialize(), accept=None)).status == 202
        seen = b""
        while b"serverInfo" not in seen:
            seen += await stream.chunk()
        assert (
            await posts.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        ).status == 202
        assert (await posts.post(call("count", n=1))).status == 202
        while b"counted" not in seen:
            seen += await stream.chunk()
        nobody = Web(url.removesuffix("/mcp") + "/messages?session=nobody")
        assert (await nobody.post(request("ping"))).status == 404
        without = Web(url.removesuffix("/mcp") + "/messages")
        assert (await without.post(request("ping"))).status == 400
        stream.close()
        # The server notices with the next thing that it has to say.
        with trio.fail_after(20):
            while (await posts.post(call("count", n=1))).status == 202:
                await trio.lowlevel.checkpoint()
        for client in (web, posts, nobody, without):
            await client.client.aclose()


async def test_a_script_that_says_nothing_new() -> None:
    """`older=False` never looks for the older transport."""
    async with scripted_web(nothing) as (web, url):
        async with connect(HttpServer(url=url, older=False)) as client:
            await client.ping()
        assert len(web.of("initialize")) == 1
