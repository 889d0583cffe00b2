"""The Starlette app inside other apps: mounted, as routes, without any lifespan, under the wrong loop."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import hypercorn
import hypercorn.trio
import pytest
import trio
from starlette.applications import Starlette
from starlette.routing import Mount
from web_server import Web, call, request

from mcpcore import HttpServer, Server, connect, http_app, http_routes
from mcpcore.server.http.app import McpApp


def make_server(**options: Any) -> Server:
    server = Server("app", "1", **options)

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    return server


@asynccontextmanager
async def hypercorn_serving(app: Any) -> AsyncIterator[str]:
    config = hypercorn.Config()
    config.bind = ["127.0.0.1:0"]
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        serve: Any = partial(hypercorn.trio.serve, app, config, shutdown_trigger=stop.wait)
        (origin,) = await nursery.start(serve)
        yield origin
        stop.set()


async def use(url: str) -> None:
    async with connect(url) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


async def test_f_097_routes_in_another_app_need_nothing_else() -> None:
    """No lifespan was wired up."""
    app = Starlette(routes=http_routes(make_server(), "/tools/mcp"))
    async with hypercorn_serving(app) as origin:
        await use(f"{origin}/tools/mcp")
        await use(f"{origin}/tools/mcp/")


async def test_f_097_an_app_mounted_in_another() -> None:
    """Starlette runs no lifespan of what is mounted."""
    app = Starlette(routes=[Mount("/below", app=http_app(make_server(), older=True))])
    async with hypercorn_serving(app) as origin:
        await use(f"{origin}/below/mcp")
        async with connect(HttpServer(url=f"{origin}/below/sse", older=True)) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


async def test_several_servers_in_one_app() -> None:
    routes = [*http_routes(make_server(), "/one"), *http_routes(make_server(), "/two")]
    async with hypercorn_serving(Starlette(routes=routes)) as origin:
        await use(f"{origin}/one")
        await use(f"{origin}/two")


async def test_a_server_that_cannot_start_says_so_with_each_request(caplog: Any) -> None:
    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    app = Starlette(routes=http_routes(make_server(lifespan=lifespan)))
    async with hypercorn_serving(app) as origin:
        web = Web(f"{origin}/mcp")
        for _ in range(2):
            reply = await web.post(request("ping"))
            assert reply.status == 500
            assert b"could not start" in reply.body
        await web.client.aclose()
    assert "no database" in caplog.text


async def test_aclose_ends_all_sessions() -> None:
    app = McpApp(make_server())
    async with hypercorn_serving(Starlette(routes=[Mount("/mcp", app=app)])) as origin:
        web = Web(f"{origin}/mcp/")
        await web.initialize()
        stream = await web.open("GET")
        await app.aclose()
        await stream.read(10**6)
        assert (await web.post(call("add", a=1, b=2))).status in (500, 503)
        await web.client.aclose()


def test_under_asyncio_there_is_one_clear_error() -> None:
    """For each request, and at start-up where there is a lifespan."""
    app = http_app(make_server())
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def ask() -> None:
        scope = {
            "type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": [],
            "root_path": "", "http_version": "1.1", "scheme": "http", "server": ("localhost", 80),
        }  # fmt: skip
        await app(scope, receive, send)

    anyio.run(ask, backend="asyncio")
    assert sent[0]["status"] == 500
    assert b"hypercorn -k trio" in sent[1]["body"]

    async def start() -> None:
        async with app.router.lifespan_context(app):
            pass

    with pytest.raises(RuntimeError, match="hypercorn -k trio"):
        anyio.run(start, backend="asyncio")


def test_one_app_in_two_loops_after_one_another() -> None:
    app = Starlette(routes=http_routes(make_server()))

    async def once() -> None:
        async with hypercorn_serving(app) as origin:
            await use(f"{origin}/mcp")

    trio.run(once)
    trio.run(once)
