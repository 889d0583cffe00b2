"""The other sides of the tests: servers of bytes, a proxy, listeners in memory."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio
from trio.testing import memory_stream_pair

from mcpcore.transport.net.exchange import HttpClient
from mcpcore.transport.web import Network

Talk = Callable[[trio.abc.Stream], Awaitable[None]]


@asynccontextmanager
async def talking(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve `talk` on a port of loopback for the length of the block; gives the port."""

    async def serve(stream: trio.SocketStream) -> None:
        try:
            if tls is None:
                await talk(stream)
            else:
                await talk(trio.SSLStream(stream, tls, server_side=True, https_compatible=True))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client went away, which is its right.

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def free_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def read_request(stream: trio.abc.Stream, buffer: bytearray | None = None) -> bytes:
    """Head and body (by its Content-Length) of one request; empty at the end of the stream."""
    data = bytearray() if buffer is None else buffer
    while b"\r\n\r\n" not in data:
        piece = await stream.receive_some(65536)
        if not piece:
            return b""
        data += piece
    head, _, _ = bytes(data).partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    end = len(head) + 4 + length
    while len(data) < end:
        piece = await stream.receive_some(65536)
        if not piece:
            return b""
        data += piece
    request = bytes(data[:end])
    del data[:end]
    return request


def answer(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Talker:
    """A server that answers each request by the next of its lines, and counts what it is asked.

    A line is the bytes of an answer, or None, which closes the connection instead. The last line is
    used over and over.
    """

    def __init__(self, *lines: bytes | None) -> None:
        self.lines = list(lines) or [answer()]
        self.requests: list[bytes] = []
        self.connections = 0

    async def __call__(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        buffer = bytearray()
        while request := await read_request(stream, buffer):
            self.requests.append(request)
            line = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
            if line is None:
                return
            await stream.send_all(line)


class TinyProxy:
    """A proxy for CONNECT and for absolute targets. `user` is the value of Proxy-Authorization it wants."""

    def __init__(self, user: str | None = None) -> None:
        self.user = user
        self.heads: list[bytes] = []

    async def __call__(self, stream: trio.abc.Stream) -> None:
        while request := await read_request(stream):
            self.heads.append(request)
            if self.user is not None and self.user.encode() not in request:
                await stream.send_all(answer(b"", "407 Proxy Authentication Required"))
                return
            method, target, _ = request.split(b"\r\n")[0].decode().split(" ")
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                onward = await trio.open_tcp_stream(host, int(port))
                await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _join(stream, onward)
                return
            authority = target.split("/")[2]
            host, _, port = authority.rpartition(":")
            onward = await trio.open_tcp_stream(host, int(port))
            async with onward:
                await onward.send_all(request.replace(f"http://{authority}".encode(), b"", 1))
                await stream.send_all(await onward.receive_some(65536))


async def _join(one: trio.abc.Stream, other: trio.abc.Stream) -> None:
    async def copy(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
        try:
            async for data in source:
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        nursery.cancel_scope.cancel()

    async with one, other, trio.open_nursery() as nursery:
        nursery.start_soon(copy, one, other)
        nursery.start_soon(copy, other, one)


class MemoryListener(trio.abc.Listener[trio.abc.Stream]):
    """A listener whose clients come by `connect`, without any socket."""

    def __init__(self) -> None:
        self._push, self._pull = trio.open_memory_channel[trio.abc.Stream](100)
        self.errors: list[Exception] = []
        self.clients: list[trio.StapledStream] = []
        self.closed = False

    def connect(self) -> trio.StapledStream:
        ours, theirs = memory_stream_pair()
        self.clients.append(ours)
        self._push.send_nowait(theirs)
        return ours

    async def accept(self) -> trio.abc.Stream:
        if self.errors:
            raise self.errors.pop(0)
        return await self._pull.receive()

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def http_client(**settings: object) -> AsyncIterator[HttpClient]:
    client = HttpClient(Network(**settings))  # type: ignore[arg-type]
    try:
        yield client
    finally:
        with trio.CancelScope(shield=True):
            await client.aclose()
