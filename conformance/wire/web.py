"""One HTTP request and its answer, on a connection of its own, with every byte of the message recorded.

A connection for each request is slower than keeping one, and proves more: nothing that the peer does can
be owed to an earlier request.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11
import trio

from ..transcript import Transcript

BODY_LIMIT = 64_000_000


class NoAnswer(Exception):
    """The peer could not be reached, or what it sent was no HTTP."""


@dataclass(slots=True)
class Answer:
    """The head of an answer; ``parts`` gives its body as it comes."""

    status: int
    headers: dict[str, str]
    parts: AsyncIterator[bytes]

    @property
    def media_type(self) -> str:
        """The media type in lower case, without parameters; empty if there is none."""
        return self.headers.get("content-type", "").split(";")[0].strip().lower()


@asynccontextmanager
async def exchange(
    url: str,
    method: str,
    headers: Mapping[str, str] | list[tuple[str, str]],
    body: bytes,
    transcript: Transcript,
    stream: str,
) -> AsyncIterator[Answer]:
    """Send one request and give the head of its answer; the connection closes with the block.

    Raises NoAnswer when nothing that is HTTP comes back.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (443 if secure else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    names = {name.lower() for name, _ in fields}
    if "host" not in names:
        fields.insert(0, ("Host", parts.netloc.rpartition("@")[2]))
    if body or method in ("POST", "PUT"):
        fields.append(("Content-Length", str(len(body))))
    fields.append(("Connection", "close"))
    try:
        connection: trio.abc.Stream = await trio.open_tcp_stream(host, port)
        if secure:
            connection = trio.SSLStream(
                connection,
                ssl.create_default_context(),
                server_hostname=host,
                https_compatible=True,
            )
    except OSError as error:
        raise NoAnswer(f"{url}: {error}") from None
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=1_000_000)
    async with connection:
        try:
            # The head is written by hand, since a judge must be able to send what no library would; h11
            # only has to know that a request of this method is on its way.
            lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
            head = "\r\n".join(lines).encode("latin-1", "replace")
            machine.send(h11.Request(method=method, target=target, headers=[("Host", "x")]))
            machine.send(h11.EndOfMessage())
            transcript.add("client", stream, "head", head)
            if body:
                transcript.add("client", stream, "message", body)
            await _send(connection, head + b"\r\n\r\n" + body)
            event = await _next(machine, connection)
            while isinstance(event, h11.InformationalResponse):
                event = await _next(machine, connection)
            if not isinstance(event, h11.Response):
                transcript.add("server", stream, "event", b"closed without an answer")
                raise NoAnswer(f"{method} {url}: the connection ended without an answer")
        except (
            h11.RemoteProtocolError,
            trio.BrokenResourceError,
            ConnectionError,
            ssl.SSLError,
        ) as error:
            transcript.add("server", stream, "event", str(error).encode())
            raise NoAnswer(f"{method} {url}: {error}") from None
        lines = [f"HTTP/1.1 {event.status_code} {bytes(event.reason).decode('latin-1')}"]
        lines += [
            f"{bytes(n).decode('latin-1')}: {bytes(v).decode('latin-1')}"
            for n, v in event.headers.raw_items()
        ]
        transcript.add("server", stream, "head", "\r\n".join(lines).encode("latin-1"))
        answered: dict[str, str] = {}
        for name, value in event.headers:
            key = bytes(name).decode("latin-1").lower()
            text = bytes(value).decode("latin-1")
            answered[key] = f"{answered[key]}, {text}" if key in answered else text
        yield Answer(event.status_code, answered, _Body(machine, connection))


async def _send(connection: trio.abc.Stream, raw: bytes) -> None:
    """Send all; a peer that stops reading may still have answered."""
    with contextlib.suppress(trio.BrokenResourceError, ConnectionError):
        await connection.send_all(raw)


async def _next(machine: h11.Connection, connection: trio.abc.Stream) -> object:
    while True:
        event = machine.next_event()
        if event is not h11.NEED_DATA:
            return event
        machine.receive_data(bytes(await connection.receive_some(65536)))


class _Body:
    """The parts of a body until its end; an end that comes too early is an end."""

    def __init__(self, machine: h11.Connection, connection: trio.abc.Stream) -> None:
        self._machine, self._connection = machine, connection
        self._seen = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._seen > BODY_LIMIT:
            raise StopAsyncIteration
        try:
            event = await _next(self._machine, self._connection)
        except (h11.RemoteProtocolError, trio.BrokenResourceError, ConnectionError, ssl.SSLError):
            raise StopAsyncIteration from None
        if not isinstance(event, h11.Data):
            raise StopAsyncIteration
        self._seen += len(event.data)
        return bytes(event.data)
