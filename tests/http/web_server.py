"""A server over HTTP in this loop, behind either front, and raw requests to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import hypercorn
import hypercorn.trio
import trio

from mcpcore.protocol.headers import joined
from mcpcore.protocol.sse import SseDecoder
from mcpcore.server import Server
from mcpcore.server.http.app import http_app
from mcpcore.server.http.listener import serve_http
from mcpcore.transport.net.exchange import Exchange, HttpClient
from mcpcore.transport.net.url import parse


@asynccontextmanager
async def serving(server: Server, front: str = "listener", **options: Any) -> AsyncIterator[str]:
    """Serve for the length of the block, and stop gracefully; gives the URL."""
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        if front == "listener":
            serve: Any = partial(serve_http, server, port=0, stop=stop, **options)
            (url,) = await nursery.start(serve)
        else:
            config = hypercorn.Config()
            config.bind = ["127.0.0.1:0"]
            config.graceful_timeout = 5.0
            app: Any = http_app(server, **options)
            serve = partial(hypercorn.trio.serve, app, config, shutdown_trigger=stop.wait)
            (bound,) = await nursery.start(serve)
            url = f"{bound}/mcp"
        yield url
        stop.set()


class Reply:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The messages in the body; None for an event without data."""
        return [json.loads(data) if data else None for _, data in self.raw_events]

    @property
    def raw_events(self) -> list[tuple[str | None, bytes]]:
        decoder = SseDecoder()
        decoder.receive_data(self.body)
        found = []
        while True:
            event = decoder.next_event()
            if not hasattr(event, "data"):
                return found
            assert isinstance(event.data, bytes)
            found.append((event.id, event.data))


class Web:
    """Raw requests to one URL."""

    def __init__(self, url: str) -> None:
        self.url = parse(url)
        self.client = HttpClient()
        self.session: str | None = None

    async def open(
        self, method: str, body: Any = None, headers: Mapping[str, str | None] = {}
    ) -> Exchange:
        """A request whose answer is read by the caller. Headers with the value None are left out."""
        given: dict[str, str | None] = {"accept": "application/json, text/event-stream"}
        if method == "POST":
            given["content-type"] = "application/json"
        if self.session is not None:
            given["mcp-session-id"] = self.session
        given |= headers
        data = b"" if body is None else body
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        pairs = [
            (name.encode(), value.encode()) for name, value in given.items() if value is not None
        ]
        return await self.client.request(method.encode(), self.url, pairs, data)

    async def ask(
        self, method: str, body: Any = None, headers: Mapping[str, str | None] = {}
    ) -> Reply:
        exchange = await self.open(method, body, headers)
        try:
            return Reply(exchange.status, joined(exchange.headers), await exchange.read(10**7))
        finally:
            exchange.close()

    async def post(self, body: Any, **headers: str | None) -> Reply:
        return await self.ask("POST", body, {n.replace("_", "-"): v for n, v in headers.items()})

    async def initialize(
        self, revision: str = "2025-11-25", capabilities: Any = None, **headers: str
    ) -> Reply:
        """Open a session, and say initialized."""
        self.session = None
        reply = await self.post(initialize(revision, capabilities), **headers)
        assert reply.status == 200, reply.body
        self.session = reply.headers.get("mcp-session-id")
        if self.session is not None:
            told = await self.post(
                {"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers
            )
            assert told.status == 202
        return reply


def initialize(revision: str = "2025-11-25", capabilities: Any = None) -> dict[str, Any]:
    return request(
        "initialize",
        0,
        protocolVersion=revision,
        capabilities=capabilities or {},
        clientInfo={"name": "test", "version": "1"},
    )


def request(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    return message | ({"params": params} if params else {})


def call(name: str, id: Any = 1, token: Any = None, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request("tools/call", id, **params)


@asynccontextmanager
async def web(server: Server, front: str = "listener", **options: Any) -> AsyncIterator[Web]:
    """A server and raw requests to it."""
    async with serving(server, front, **options) as url:
        client = Web(url)
        try:
            yield client
        finally:
            await client.client.aclose()
