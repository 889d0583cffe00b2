"""The good server, and servers that are broken in one point: in this process, over a pipe in memory or HTTP.

A mutant stands between the good server and the suite and changes what one of them says. What it is given
and gives back are decoded messages, so that a mutant is usually one line.
"""

import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import trio
import trio.testing
from mcpcore.conformance.speaking import Target
from mcpcore.conformance.transcript import Transcript
from mcpcore.conformance.wire.nursery import open_nursery
from mcpcore.conformance.wire.process import Child

from mcpcore.server.http.endpoint import Endpoint
from mcpcore.transport.http import Answer, EventSource, HttpRequest
from mcpcore.transport.lines import open_stream
from mcpcore.transport.net.listen import HttpListener, ListenLimits

Message = dict[str, Any]
Said = Message | bytes | list[Any] | None
Change = Callable[[Message, str], Said]
"""Takes a message and its method (for a response: that of its request); gives what is said instead."""


@dataclass(frozen=True)
class Mutant:
    """How a server is broken. What is left out is as the good server has it.

    `says` changes what the server says, `hears` what it gets to hear. `unreadable` is said when a line comes
    that is no JSON, and `dies` makes such a line the last. On the pipe, `banner` comes first `stays` keeps the
    server when its input ends, and `unbatches` serves arrays as their members, one by one. Over HTTP, `request` may answer by itself or change the request, and
    `answer` changes the answer. `answers` and `head_size` are
    options of the good server behind it.
    `revision` and `transport` say where the mutant is met, `settled` which revisions it is known to speak.
    """

    says: Change | None = None
    hears: Change | None = None
    banner: bytes = b""
    unreadable: bytes = b""
    dies: bool = False
    stays: bool = False
    unbatches: bool = False
    request: (
        Callable[[HttpRequest], HttpRequest | Answer | Awaitable[HttpRequest | Answer]] | None
    ) = None
    answer: Callable[[HttpRequest, Answer], Answer] | None = None
    revision: str | None = None
    transport: str | None = None
    answers: str = "json"
    head_size: int = 64 * 1024
    settled: tuple[str, ...] | None = None


GOOD = Mutant()


class Between:
    """Applies a mutant to both directions, and knows what each response answers."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.methods: dict[str, str] = {}

    def heard(self, message: Any) -> list[Any]:
        """What the server hears instead of one message of the client."""
        if isinstance(message, list) and self.mutant.unbatches:
            return message
        if isinstance(message, dict):
            if "method" in message:
                self.methods[repr(message.get("id"))] = str(message["method"])
            if self.mutant.hears is not None:
                return _several(
                    self.mutant.hears(copy.deepcopy(message), str(message.get("method")))
                )
        return [message]

    def said(self, message: Any) -> list[Any]:
        """What the client hears instead of one message of the server."""
        if isinstance(message, dict) and self.mutant.says is not None:
            method = message.get("method") or self.methods.get(repr(message.get("id")), "")
            return _several(self.mutant.says(copy.deepcopy(message), str(method)))
        return [message]


def _several(said: Said) -> list[Any]:
    if said is None:
        return []
    return said if isinstance(said, list) else [said]


def _raw(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


async def _each_line(
    stream: trio.abc.ReceiveStream, take: Callable[[bytes], Awaitable[bool]]
) -> None:
    """Hand each line to `take` until the stream ends or `take` says that it was the last."""
    pending = b""
    async for chunk in stream:
        pending += chunk
        *whole, pending = pending.split(b"\n")
        for line in whole:
            if await take(line):
                return


class MemoryTarget(Target):
    """The server of `make` on a pipe in memory, with a mutant on it."""

    def __init__(self, server: Any, mutant: Mutant = GOOD) -> None:
        super().__init__(command="in memory")
        object.__setattr__(self, "_server", server)
        object.__setattr__(self, "_mutant", mutant)

    @asynccontextmanager
    async def start(self, transcript: Transcript) -> AsyncIterator[Child]:
        server, mutant = self._server, self._mutant
        suite_out, from_suite = trio.testing.memory_stream_one_way_pair()
        to_suite, suite_in = trio.testing.memory_stream_one_way_pair()
        to_server, server_in = trio.testing.memory_stream_one_way_pair()
        server_out, from_server = trio.testing.memory_stream_one_way_pair()
        between, gone = Between(mutant), trio.Event()

        async def hear(line: bytes) -> bool:
            try:
                message = json.loads(line)
            except ValueError:
                if mutant.unreadable:
                    await to_suite.send_all(mutant.unreadable + b"\n")
                await to_server.send_all(line + b"\n")
                return mutant.dies
            parts = between.heard(message)
            unchanged = len(parts) == 1 and parts[0] == message
            for part in [line] if unchanged else parts:
                await to_server.send_all(_raw(part) + b"\n")
            return False

        async def say(line: bytes) -> bool:
            message = json.loads(line)
            for part in [line] if mutant.says is None else between.said(message):
                await to_suite.send_all(_raw(part) + b"\n")
            return False

        async def hear_all() -> None:
            await _each_line(from_suite, hear)
            if not mutant.stays:
                await to_server.aclose()

        async def say_all() -> None:
            await to_suite.send_all(mutant.banner)
            await _each_line(from_server, say)
            await to_suite.aclose()
            gone.set()

        async def serve() -> None:
            await server.serve(open_stream(server_in, server_out))
            await server_out.aclose()

        child = Child((suite_out, suite_in, None), transcript, gone.wait, lambda number: None)
        async with open_nursery() as nursery:
            for task in (hear_all, say_all, serve, child.read):
                nursery.start_soon(task)
            yield child


class _Events(EventSource):
    """An event stream whose messages are changed on their way."""

    def __init__(self, events: EventSource, between: Between) -> None:
        self._events, self._between = events, between

    def take(self) -> bytes:
        blocks = self._events.take().split(b"\n\n")
        return b"\n\n".join(self._change(block) for block in blocks)

    def _change(self, block: bytes) -> bytes:
        lines = block.split(b"\n")
        data = b"".join(line[6:] for line in lines if line.startswith(b"data: "))
        if not data.strip():
            return block
        others = [line for line in lines if not line.startswith(b"data: ")]
        message = json.loads(data)
        said = self._between.said(message)
        return b"\n\n".join(b"\n".join([*others, b"data: " + _raw(part)]) for part in said)

    @property
    def ended(self) -> bool:
        return self._events.ended

    async def wait(self) -> None:
        await self._events.wait()

    def close(self) -> None:
        self._events.close()


@asynccontextmanager
async def http_target(server: Any, mutant: Mutant = GOOD, **options: Any) -> AsyncIterator[Target]:
    """The server over HTTP on a free port of the loopback, with a mutant on it."""
    endpoint = Endpoint(server, answers=mutant.answers, **options)
    between = Between(mutant)

    async def handle(request: HttpRequest) -> Answer:
        if mutant.request is not None:
            changed = mutant.request(request)
            if isinstance(changed, Awaitable):
                changed = await changed
            if isinstance(changed, Answer):
                return changed
            request = changed
        if request.method == "POST":
            body = await request.read(10**8) or b""
            request = msgspec.structs.replace(request, read=_reader(_changed(body, between.heard)))
        answer = await endpoint.handle(request)
        if mutant.says is not None and answer.events is not None:
            answer = msgspec.structs.replace(answer, events=_Events(answer.events, between))
        elif mutant.says is not None and answer.body:
            answer = msgspec.structs.replace(answer, body=_changed(answer.body, between.said))
        return mutant.answer(request, answer) if mutant.answer is not None else answer

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    listener = HttpListener(listeners, handle, ListenLimits(head_size=mutant.head_size))
    async with open_nursery() as nursery:
        await nursery.start(endpoint.run)
        await nursery.start(listener.run)
        yield Target(url=f"http://127.0.0.1:{port}/mcp")


def _reader(body: bytes) -> Callable[[int], Awaitable[bytes | None]]:
    async def read(limit: int) -> bytes | None:
        return body if len(body) <= limit else None

    return read


def _changed(body: bytes, change: Callable[[Any], list[Any]]) -> bytes:
    try:
        message = json.loads(body)
    except ValueError:
        return body
    parts = change(message)
    if len(parts) == 1 and parts[0] == message:
        return body
    return _raw(parts[0]) if parts else b""


def header(answer: Answer, name: str, value: str | None) -> Answer:
    """The answer with a header set, or without it."""
    kept = tuple((n, v) for n, v in answer.headers if n.lower() != name.lower())
    return msgspec.structs.replace(
        answer, headers=kept + (((name, value),) if value is not None else ())
    )


def with_header(request: HttpRequest, name: str, value: str | None) -> HttpRequest:
    """The request with a header set, or without it."""
    headers: Mapping[str, str] = {n: v for n, v in request.headers.items() if n != name.lower()}
    return msgspec.structs.replace(
        request, headers={**headers, **({name.lower(): value} if value else {})}
    )


__all__ = [
    "GOOD",
    "Between",
    "MemoryTarget",
    "Mutant",
    "header",
    "http_target",
    "replace",
    "with_header",
]
