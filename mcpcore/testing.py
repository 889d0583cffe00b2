"""For your own tests: channels in memory, checks for channels, event stores and tools that ask, a peer
played by hand.

What fails raises AssertionError and says what was wrong. Nothing in here needs a test framework.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, Unpack

import msgspec
import trio
import trio.testing
from msgspec import Raw

from mcpcore.client import ClientOptions, connect
from mcpcore.client.open import answers_in
from mcpcore.errors import ConnectionLost, RemoteProtocolError
from mcpcore.jsonrpc import METHOD_NOT_FOUND, Request
from mcpcore.protocol.framing import Frame
from mcpcore.protocol.terms import SERVER_INFO
from mcpcore.revisions import HANDSHAKE, STATELESS
from mcpcore.runtime import single
from mcpcore.server import Server
from mcpcore.server.http.store import EventStore
from mcpcore.transport.channel import Channel
from mcpcore.transport.memory import memory_channels

__all__ = [
    "ScriptedPeer",
    "check_asking",
    "check_channel",
    "check_event_store",
    "memory_channels",
]

Pair = tuple[Channel, Channel]

PATIENCE = 10.0  # seconds that a part of `check_channel` may take before it counts as hanging
WAIT = 5.0  # seconds that a `ScriptedPeer` waits for a message


def _expect(condition: object, complaint: str) -> None:
    if not condition:
        raise AssertionError(complaint)


def _message(number: int, size: int = 0) -> bytes:
    """A whole message that tells its number and is at least `size` bytes long."""
    start = b'{"jsonrpc":"2.0","method":"n/%d","params":{"x":"' % number
    return start + b"x" * max(0, size - len(start) - 3) + b'"}}'


async def _receive(channel: Channel, count: int) -> list[Frame]:
    frames: list[Frame] = []
    while len(frames) < count:
        frames += await channel.receive()
    return frames


async def _loses(channel: Channel) -> None:
    """Both `receive` and `send_nowait` say that the channel ended, and go on saying it."""
    for _ in range(2):
        with contextlib.suppress(ConnectionLost):
            raise AssertionError(f"after the end receive gave {await channel.receive()!r:.200}")
    lost = 0
    while lost < 2:
        # What is sent before the end was noticed may be taken; but it must be noticed.
        try:
            channel.send_nowait(_message(0))
        except ConnectionLost:
            lost += 1
        await trio.sleep(0.001)


async def _everything_arrives(one: Channel, other: Channel) -> None:
    """Messages of any size arrive whole and in order, lingering or not, both ways at once."""
    edges = [size + by for size in (4096, 16384, 65536, 262144) for by in (-2, -1, 0, 1)]
    messages = [_message(size, size) for size in (*edges, 1 << 20, (4 << 20) + 1)]
    messages += [b"{}", b'{"text":"\xe2\x80\xa8\\n"}', *map(_message, range(300))]

    async def send(channel: Channel) -> None:
        for number, message in enumerate(messages):
            if number % 7 == 0:
                await channel.wait_for_room()
            channel.send_nowait(message, linger=number % 3 == 0)
        channel.send_nowait(*messages[:9])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, one)
        nursery.start_soon(send, other)
        for channel in (one, other):
            frames = await _receive(channel, len(messages) + 9)
            _expect(frames == messages + messages[:9], "messages were torn, lost or reordered")


async def _room(one: Channel, other: Channel) -> None:
    """A peer that does not read makes the channel crowded; one that reads makes room again."""
    sent = 0
    while not one.crowded:
        _expect(sent < 1024, "the channel is not crowded with 64 MiB waiting")
        one.send_nowait(_message(sent, 65536))
        sent += 1
        await trio.lowlevel.checkpoint()
    with trio.CancelScope() as scope:
        scope.cancel()
        await one.wait_for_room()
    _expect(scope.cancelled_caught, "wait_for_room cannot be cancelled")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.wait_for_room)
        frames = await _receive(other, sent)
    _expect(frames == [_message(number, 65536) for number in range(sent)], "messages were torn")
    await one.wait_for_room()
    _expect(not one.crowded, "wait_for_room returned while the channel was crowded")


async def _cancelled_receive(one: Channel, other: Channel) -> None:
    """A receive that is cancelled loses no message, whenever that happens."""
    got: list[Frame] = []

    async def collect() -> None:
        got.extend(await other.receive())

    for number in range(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect)
            for turn in range(7):
                if turn == number % 4:
                    one.send_nowait(_message(number))
                if turn == number % 7:
                    nursery.cancel_scope.cancel()
                await trio.lowlevel.cancel_shielded_checkpoint()
    while len(got) < 60:
        got += await other.receive()
    _expect(got == [_message(number) for number in range(60)], "messages were lost")


async def _closing(one: Channel, other: Channel) -> None:
    """Closing delivers what was taken before, lingering too; then both sides know the end."""
    sent = [_message(number, 1000) for number in range(20)]
    one.send_nowait(*sent[:10])
    one.send_nowait(*sent[10:], linger=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.aclose)
        await trio.testing.wait_all_tasks_blocked(0.01)
        _expect(await _receive(other, 20) == sent, "messages were lost")
    await _loses(other)
    await _loses(one)


async def _closed_while_used(one: Channel, other: Channel) -> None:
    """Closing, from any task and more than once, ends the waiting receives of both sides."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_loses, one)
        nursery.start_soon(_loses, other)
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.start_soon(one.aclose)
        nursery.start_soon(one.aclose)
    await one.aclose()
    await one.wait_for_room()


async def check_channel(make_pair: Callable[[], Pair | Awaitable[Pair]]) -> None:
    """Hold a kind of channel to the contract of `Channel`.

    `make_pair` gives two fresh channels that are each other's peer, and may be async; it is called
    several times. Raises AssertionError that names the part of the contract that does not hold.
    """
    for part in (_everything_arrives, _room, _cancelled_receive, _closing, _closed_while_used):
        pair = make_pair()
        one, other = await pair if inspect.isawaitable(pair) else pair
        try:
            with trio.fail_after(PATIENCE):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(one.run)
                    nursery.start_soon(other.run)
                    await trio.testing.wait_all_tasks_blocked()
                    await part(one, other)
                    await one.aclose()
                    await other.aclose()
        except trio.TooSlowError:
            raise AssertionError(f"hangs: {part.__doc__}") from None
        except BaseExceptionGroup as group:
            raise AssertionError(f"{single(group)!r}: {part.__doc__}") from group


class ScriptedPeer:
    """The other side of a connection, played by hand on a channel.

    async with ScriptedPeer(channel) as peer:
        await peer.accept_handshake()
        call = await peer.expect({"method": "tools/call", "id": ...})
        peer.send({"jsonrpc": "2.0", "id": call["id"], "result": {"content": []}})
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._frames: deque[Frame] = deque()

    async def __aenter__(self) -> Self:
        # The body's exception must not pass through a nursery, which would wrap it into a group.
        self._manager = trio.open_nursery()
        nursery = await self._manager.__aenter__()
        nursery.start_soon(self.channel.run)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.aclose()
        await self._manager.__aexit__(None, None, None)

    def send(self, message: Any) -> None:
        """Send anything that is JSON."""
        self.send_text(json.dumps(message, ensure_ascii=False))

    def send_text(self, text: str | bytes) -> None:
        """Send a line as it is, right or wrong."""
        self.channel.send_nowait(text.encode() if isinstance(text, str) else text)

    async def receive(self, within: float = WAIT) -> Any:
        """The next message, whatever it is. Raises `ConnectionLost` at the end."""
        with trio.move_on_after(within):
            while not self._frames:
                self._frames.extend(await self.channel.receive())
        _expect(self._frames, f"no message within {within:g} s")
        frame = self._frames.popleft()
        try:
            return json.loads(frame)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            raise AssertionError(f"not a message: {frame!r:.200}") from None

    async def expect(self, pattern: Any, within: float = WAIT) -> Any:
        """The next message, which must hold at least what `pattern` holds; `...` fits anything."""
        message = await self.receive(within)
        _expect(_fits(message, pattern), f"expected {pattern!r}, got {message!r}")
        return message

    async def expect_end(self, within: float = WAIT) -> None:
        """The peer must close, and say nothing before."""
        with contextlib.suppress(ConnectionLost):
            raise AssertionError(f"expected the end, got {await self.receive(within)!r}")

    async def accept_handshake(self, revision: str = HANDSHAKE[0], **result: Any) -> Any:
        """Be a server of the handshake era: answer initialize, with `result` over its members; give
        initialize. A client that asks first which era it is hears that this is not the other one.
        """
        offer = await self.expect({"method": ..., "id": ...})
        if offer["method"] == "server/discover":
            error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            self.send({"jsonrpc": "2.0", "id": offer["id"], "error": error})
            offer = await self.receive()
        _expect(offer["method"] == "initialize", f"expected initialize, got {offer!r}")
        info = {"name": "scripted server", "version": "0"}
        answer = {"protocolVersion": revision, "capabilities": {}, "serverInfo": info} | result
        self.send({"jsonrpc": "2.0", "id": offer["id"], "result": answer})
        await self.expect({"method": "notifications/initialized"})
        return offer

    async def accept_discovery(self, revision: str = STATELESS[0], **result: Any) -> Any:
        """Be a server of the stateless era: answer `server/discover`, with `result` over the members of the
        answer; give the request.
        """
        asked = await self.expect({"method": "server/discover", "id": ...})
        info = {SERVER_INFO: {"name": "scripted server", "version": "0"}}
        answer = {
            "resultType": "complete",
            "supportedVersions": [revision],
            "capabilities": {},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": info,
        } | result
        self.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
        return asked

    async def offer_handshake(self, revision: str = HANDSHAKE[0], **params: Any) -> Any:
        """Be a client: send initialize, with `params` over its members; give the answer."""
        info = {"name": "scripted client", "version": "0"}
        offer = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info} | params
        self.send({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": offer})
        answer = await self.expect({"id": "hello", "result": {"protocolVersion": ...}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer


def _fits(value: Any, pattern: Any) -> bool:
    if pattern is ...:
        return True
    if isinstance(pattern, dict) and isinstance(value, dict):
        return all(key in value and _fits(value[key], wanted) for key, wanted in pattern.items())
    if isinstance(pattern, list) and isinstance(value, list):
        return len(value) == len(pattern) and all(map(_fits, value, pattern))
    return type(value) is type(pattern) and bool(value == pattern)


async def check_event_store(make: Callable[[], EventStore]) -> None:
    """Put an event store through what a server relies on; `make` gives an empty one. Raises
    AssertionError, saying what it got wrong.
    """
    store = make()
    for number in range(1, 6):
        for session in ("one", "other"):
            for stream in (0, 7):
                store.append(session, stream, number, f"{session} {stream} {number}".encode())
    expected = [(number, f"one 7 {number}".encode()) for number in (3, 4, 5)]
    got = await store.after("one", 7, 2)
    assert got == expected, (
        f"after 2 come 3, 4 and 5 of that stream and session, in order; got {got}"
    )
    assert await store.after("one", 7, 2) == expected, "asking takes nothing away"
    assert len(await store.after("one", 7, 0)) == 5, "after 0 comes everything"
    assert await store.after("one", 7, 5) == [], "nothing comes after the last"
    assert await store.after("one", 99, 0) == [], "nothing is known of a stream without events"
    assert await store.after("nobody", 0, 0) == [], "nothing is known of another session"
    store.append("one", 7, 10, b"later")
    assert await store.after("one", 7, 5) == [(10, b"later")], "numbers may have gaps"
    store.forget("one")
    assert await store.after("one", 7, 0) == [], "a forgotten session has no events"
    assert len(await store.after("other", 7, 0)) == 5, "forgetting one session leaves the others"
    store.forget("nobody")
    store.append("one", 7, 1, b"again")
    assert await store.after("one", 7, 0) == [(1, b"again")], "a name may be used again"


async def check_asking(
    make: Callable[[], Server],
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    effects: Callable[[], object] | None = None,
    **answers: Unpack[ClientOptions],
) -> None:
    """Check that a tool which asks is the same in both eras, however often it is run.

    `make` gives a server for which everything begins anew, counters too; `answers` are the client's
    functions (`elicit`, `sample`, `roots`...), which have to answer the same question in the same way
    each time. The tool is called by a client of either era, and by one that makes each request twice, as
    after a lost answer. It must ask the same and give the same result each time. `effects`, a function
    that tells what the tool did so far (how many rows it wrote, say), must tell the same of a call in
    either era.

    Raises AssertionError: a question before which something random, or something that changes, decides; an
    effect before a question that is not in `Context.once`; and a first question which tells what was drawn
    in `Context.once` (a number, an id): a first request that comes twice draws twice, so such a question is
    another one each time, and belongs into a second round.
    """
    seen = {}
    for revision in (HANDSHAKE[0], STATELESS[0]):
        before = effects() if effects is not None else None
        asked, result = await _called(make(), tool, arguments, revision, answers)
        did = _difference(before, effects()) if effects is not None else None
        seen[revision] = asked, result, did
    (by_hand, first, once), (alone, second, again) = seen.values()
    _expect(by_hand == alone, f"it asks {by_hand} with a handshake, and {alone} standing alone")
    _expect(first == second, f"it gives {first} with a handshake, and {second} standing alone")
    _expect(
        once == again,
        f"it does {once} with a handshake, and {again} standing alone: is there an effect before a "
        "question that is not in ctx.once?",
    )
    await _check_rounds(make(), tool, arguments, answers)


def _difference(before: Any, after: Any) -> Any:
    if isinstance(before, int | float) and isinstance(after, int | float):
        return after - before
    return (before, after)


async def _called(
    server: Server,
    tool: str,
    arguments: Mapping[str, Any] | None,
    revision: str,
    answers: ClientOptions,
) -> tuple[list[str], Any]:
    """What a tool asks, in order, and its result."""
    asked: list[str] = []
    watched: dict[str, Any] = dict(answers)
    for name in ("elicit", "elicit_url", "sample"):
        if name in watched:
            watched[name] = _watched(watched[name], asked)
    options: Any = {**watched, "revisions": [revision]}
    async with connect(server, **options) as client:
        try:
            result = await client.call_tool(tool, arguments)
        except RemoteProtocolError:
            raise AssertionError(
                f"it asks {asked} and so on in revision {revision}, without end: is something random or "
                "changing in a question?"
            ) from None
    return asked, (result.is_error, result.text, result.structured_content)


def _watched(answer: Any, asked: list[str]) -> Any:
    async def watched(params: Any) -> Any:
        asked.append(getattr(params, "message", None) or repr(params))
        result = answer(params)
        return await result if inspect.isawaitable(result) else result

    return watched


async def _check_rounds(
    server: Server, tool: str, arguments: Mapping[str, Any] | None, answers: ClientOptions
) -> None:
    """Make each request of each round twice."""
    options: Any = {**answers, "revisions": STATELESS}
    functions = answers_in(answers)
    async with connect(server, **options) as client:
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments or {})}
        more: dict[str, Any] = {}
        for number in range(1, 100):
            one = await client.request("tools/call", params | more)
            other = await client.request("tools/call", params | more)
            questions = one.get("inputRequests")
            _expect(
                questions == other.get("inputRequests"),
                f"round {number} asks {questions} the first time, and {other.get('inputRequests')} "
                "the second: is something random or changing before a question?",
            )
            if one.get("resultType") != "input_required":
                same = one.get("content") == other.get("content")
                _expect(same, f"it gives {one} the first time, and {other} the second")
                return
            responses = {}
            for key, question in (questions or {}).items():
                raw = Raw(msgspec.json.encode(question.get("params", {})))
                declared = functions.capabilities()
                request = Request(key, question["method"], raw)
                responses[key] = msgspec.to_builtins(await functions.answer(request, declared))
            more = {"inputResponses": responses}
            if one.get("requestState") is not None:
                more["requestState"] = one["requestState"]
    raise AssertionError("it asks without end")
