"""An HTTP server that answers as a test tells it, to see what the client does."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from mcpcore.transport.http import Answer, EventSource, HttpRequest
from mcpcore.transport.net.listen import HttpListener

JSON = (("Content-Type", "application/json"),)
EVENTS = (("Content-Type", "text/event-stream"),)


class Feed(EventSource):
    """A stream that a test writes to and ends."""

    def __init__(self, *pieces: bytes, ended: bool = True) -> None:
        self.pieces = deque(pieces)
        self._ended = ended
        self._changed = trio.Event()
        self.closed = trio.Event()

    def say(self, data: bytes) -> None:
        self.pieces.append(data)
        self._changed.set()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    def take(self) -> bytes:
        return self.pieces.popleft() if self.pieces else b""

    @property
    def ended(self) -> bool:
        return self._ended and not self.pieces

    async def wait(self) -> None:
        if not self.pieces:
            await self._changed.wait()
            self._changed = trio.Event()

    def close(self) -> None:
        self.closed.set()


def event(message: Any, id: str | None = None, retry: int | None = None) -> bytes:
    data = b"" if message is None else json.dumps(message).encode()
    head = b"" if id is None else b"id: " + id.encode() + b"\n"
    if retry is not None:
        head += b"retry: %d\n" % retry
    return head + b"data: " + data + b"\n\n"


def answer(request: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


class Seen:
    """A request, as it came."""

    def __init__(self, request: HttpRequest, body: bytes) -> None:
        self.method = request.method
        self.headers = dict(request.headers)
        self.raw = body
        self.message = json.loads(body) if body else None

    @property
    def rpc(self) -> str | None:
        return self.message.get("method") if isinstance(self.message, dict) else None


Script = Callable[["ScriptedWeb", Seen], Awaitable[Answer] | Answer | None]


class ScriptedWeb:
    """`script` answers what it wants to; the rest gets what a plain server says: a handshake with the
    session `s1`, 202 for notifications, 405 for GET, an empty result for other requests.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.seen: list[Seen] = []
        self.session: str | None = "s1"
        self.revision = "2025-11-25"
        self.capabilities: dict[str, Any] = {
            "tools": {},
            "resources": {"subscribe": True},
            "logging": {},
        }
        self._came = trio.lowlevel.ParkingLot()

    async def handle(self, request: HttpRequest) -> Answer:
        body = await request.read(10**7) or b""
        seen = Seen(request, body)
        self.seen.append(seen)
        self._came.unpark_all()
        result = self._script(self, seen)
        if isinstance(result, Awaitable):
            result = await result
        return result if result is not None else self.usual(seen)

    def usual(self, seen: Seen) -> Answer:
        if seen.method == "DELETE":
            return Answer(204)
        if seen.method == "GET":
            return Answer(405, (("Allow", "POST"),))
        if not isinstance(seen.message, dict) or "id" not in seen.message or seen.rpc is None:
            return Answer(202)
        if seen.rpc == "initialize":
            headers = JSON if self.session is None else (*JSON, ("Mcp-Session-Id", self.session))
            result = {
                "protocolVersion": self.revision,
                "capabilities": self.capabilities,
                "serverInfo": {"name": "scripted", "version": "0"},
            }
            return self.json(answer(seen.message, **result), headers)
        if seen.rpc == "tools/call":
            return self.json(answer(seen.message, content=[]))
        return self.json(answer(seen.message))

    def json(self, message: Any, headers: Any = JSON, status: int = 200) -> Answer:
        return Answer(status, headers, json.dumps(message).encode())

    def of(self, what: str) -> list[Seen]:
        """The requests with that HTTP or MCP method, so far."""
        return [seen for seen in self.seen if what in (seen.method, seen.rpc)]

    async def wait_for(self, what: str, count: int = 1) -> Seen:
        """Wait until that many of them came; gives the last."""
        while len(self.of(what)) < count:
            await self._came.park()
        return self.of(what)[count - 1]


@asynccontextmanager
async def scripted_web(script: Script) -> AsyncIterator[tuple[ScriptedWeb, str]]:
    """The server and its URL."""
    web = ScriptedWeb(script)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listener = HttpListener(listeners, web.handle)
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(listener.run)
        yield web, f"http://127.0.0.1:{port}/mcp"
        nursery.cancel_scope.cancel()


def nothing(web: ScriptedWeb, seen: Seen) -> None:
    """A script that leaves everything to the usual."""
