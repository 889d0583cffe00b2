"""Stands between a client and a server: sees the requests that go by, and cuts connections when told.

It runs in the test's own loop, which is trio's or asyncio's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import anyio
import anyio.abc

HEAD = re.compile(rb"(GET|POST|DELETE) \S+ HTTP/1\.1\r\n(.*?)\r\n\r\n", re.DOTALL)
ANSWER = re.compile(rb"HTTP/1\.1 (\d\d\d)[^\r]*\r\n(.*?)\r\n\r\n", re.DOTALL)

BROKEN = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Seen(NamedTuple):
    """One request, and the head of its answer. Names of headers are in lower case."""

    method: str
    headers: dict[str, str]
    status: int | None
    answered: dict[str, str]


class _Connection:
    def __init__(self) -> None:
        self.asked = bytearray()
        self.answered = bytearray()
        self.scope = anyio.CancelScope()
        self.over = anyio.Event()

    @property
    def seen(self) -> list[Seen]:
        answers = ANSWER.findall(bytes(self.answered))
        found = []
        for index, (method, head) in enumerate(HEAD.findall(bytes(self.asked))):
            status, answer = answers[index] if index < len(answers) else (None, b"")
            found.append(
                Seen(
                    method.decode(),
                    _headers(head),
                    None if status is None else int(status),
                    _headers(answer),
                )
            )
        return found


def _headers(head: bytes) -> dict[str, str]:
    lines = [line.split(":", 1) for line in head.decode("latin-1").split("\r\n") if line]
    return {name.lower(): value.strip() for name, value in lines}


class Witness:
    """`url` leads to the server by way of this."""

    def __init__(self, url: str, port: int) -> None:
        parts = urlsplit(url)
        self._server_port = parts.port or 80
        self.url = f"http://127.0.0.1:{port}{parts.path}"
        self._connections: list[_Connection] = []

    async def cut(self) -> None:
        """End all connections, whatever is on its way. Returns when both sides can know."""
        connections = tuple(self._connections)
        for connection in connections:
            connection.scope.cancel()
        for connection in connections:
            await connection.over.wait()

    @property
    def seen(self) -> list[Seen]:
        """All requests so far, those of one connection in their order."""
        return [seen for connection in self._connections for seen in connection.seen]

    def of(self, method: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.method == method]

    @property
    def session(self) -> str:
        """The one session that was spoken of so far, or the last of them."""
        return [
            seen.headers["mcp-session-id"] for seen in self.seen if "mcp-session-id" in seen.headers
        ][-1]

    @property
    def sessions(self) -> set[str | None]:
        return {seen.headers.get("mcp-session-id") for seen in self.seen}

    async def pass_on(self, client: anyio.abc.SocketStream) -> None:
        connection = _Connection()
        self._connections.append(connection)
        try:
            async with client:
                await self._pass_on(client, connection)
        finally:
            connection.over.set()

    async def _pass_on(self, client: anyio.abc.SocketStream, connection: _Connection) -> None:
        with connection.scope:
            async with await anyio.connect_tcp("127.0.0.1", self._server_port) as server:  # noqa: SIM117
                async with anyio.create_task_group() as group:
                    scope = group.cancel_scope
                    group.start_soon(_pump, client, server, connection.asked, scope)
                    group.start_soon(_pump, server, client, connection.answered, scope)


async def _pump(
    source: anyio.abc.SocketStream,
    sink: anyio.abc.SocketStream,
    kept: bytearray,
    scope: anyio.CancelScope,
) -> None:
    try:
        while True:
            data = await source.receive()
            kept += data
            await sink.send(data)
    except BROKEN:
        scope.cancel()


@asynccontextmanager
async def witness(url: str) -> AsyncIterator[Witness]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        seeing = Witness(url, port)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, seeing.pass_on)
            yield seeing
            group.cancel_scope.cancel()
