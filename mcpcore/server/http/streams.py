"""What a session has to say, on the streams it says it on.

Each POST with requests opens a stream for them: their answers go there, and what concerns them (progress,
log messages, questions) goes there as well. Everything else goes on the standalone stream, which a client
reads by GET. A message is on one stream only. A stream is not a connection: a connection that reads it
may break, the stream goes on, and another connection reads what is left (HTTP-16, HTTP-34, HTTP-41).

Events are numbered and put into the store before they are written, so that what a broken connection
swallowed can be had again. Their ids hold the number of their stream: `3-17` is the seventeenth event of
the third, and nothing is ever replayed on another (HTTP-43, HTTP-44, HTTP-47).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

import trio

from mcpcore import jsonrpc
from mcpcore.errors import ConnectionLost
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.framing import Frame
from mcpcore.protocol.sse import COMMENT, encode_event
from mcpcore.server.http.store import EventStore
from mcpcore.transport.channel import HIGH_WATER, Channel
from mcpcore.transport.http import EventSource

logger = logging.getLogger("mcpcore.server")

MAX_QUEUED = 4 * 1024 * 1024
"""Bytes that a session keeps for a client that does not read. Beyond it notifications are dropped;
answers never are, but at four times as much the session ends."""

STANDALONE = 0
"""The number of the stream that belongs to no request."""

_EVENT_ID = re.compile(r"(0|[1-9]\d{0,9})-(0|[1-9]\d{0,14})")


class Pulse:
    """Wakes streams on which nothing was said for `seconds`, so that they show a sign of life.

    One task for all: a timer for each wait would cost more than most answers do. `run` is that task.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Stream, float] = {}

    def begin(self, stream: Stream) -> None:
        """A stream begins to wait."""
        self._since[stream] = trio.current_time()

    def end(self, stream: Stream) -> None:
        """It waits no more."""
        self._since.pop(stream, None)

    async def run(self) -> None:
        while True:
            await trio.sleep(self._seconds / 4)
            before = trio.current_time() - self._seconds * 3 / 4
            # Those that wait longest come first.
            for stream, since in list(self._since.items()):
                if since > before:
                    break
                del self._since[stream]
                stream.wake()


class Stream:
    """One stream of a session; `open` are the requests that it still owes an answer."""

    __slots__ = (
        "_channel",
        "_pulse",
        "_stored",
        "_waiting",
        "abandoned",
        "ended",
        "last",
        "number",
        "open",
        "pending",
        "queued",
        "reader",
        "released",
    )

    def __init__(
        self, channel: SessionChannel, number: int, open: Sequence[RequestId], pulse: Pulse
    ) -> None:
        self._channel = channel
        self._waiting: trio.lowlevel.Task | None = None
        self._pulse = pulse
        self._stored = False
        self.number = number
        self.open = list(open)
        self.last = 0
        self.pending: list[tuple[int, bytes]] = []
        self.queued = 0
        """Bytes that are pending."""
        self.reader: StreamReader | None = None
        self.ended = False
        self.abandoned = False
        """Whether the connection broke off: what is said now waits for nobody, though it is stored."""
        self.released: float | None = None
        """Seconds after which the client is to come back, once the handler let go of its connection."""

    def put(self, data: bytes) -> None:
        self.last += 1
        if self._stored:
            self._channel.store(self.number, self.last, data)
        if not self.abandoned:
            self.pending.append((self.last, data))
            self.queued += len(data)
            self.wake()

    def begin_events(self) -> None:
        """From now on it is a stream of events: they are stored, as far as there is a store."""
        if not self._stored and self._channel.stores:
            self._stored = True
            for number, data in self.pending:
                self._channel.store(self.number, number, data)

    def wake(self) -> None:
        """Wake the one task that waits, if there is one."""
        if self._waiting is not None:
            task, self._waiting = self._waiting, None
            trio.lowlevel.reschedule(task)

    async def _park(self) -> None:
        # A reader that was replaced may not have left yet; waking it makes room.
        self.wake()
        self._waiting = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._waiting = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def abandon(self) -> None:
        """Its connection broke off, or has its answer. The standalone stream waits for the next one."""
        if self.number != STANDALONE:
            self.abandoned = True
            self.take()
            self._channel.abandoned(self)

    def end(self) -> None:
        """Nothing more will be said on it."""
        self.ended = True
        self.wake()

    async def wait(self) -> bool:
        """Wait until something happens; False if it is only time for a sign of life."""
        said = self.last
        self._pulse.begin(self)
        try:
            await self._park()
        finally:
            self._pulse.end(self)
        return self.last != said or self.ended or self.released is not None

    async def wait_for_end(self) -> None:
        while not self.ended:
            await self._park()

    def take(self) -> list[tuple[int, bytes]]:
        """What waits to be written, which then waits no more."""
        taken = self.pending
        if taken:
            self.pending = []
            self._channel.took(self.queued)
            self.queued = 0
        return taken

    def event_id(self, number: int) -> str | None:
        return f"{self.number}-{number}" if self._stored else None


class StreamReader(EventSource):
    """A connection that reads a stream. A new one takes the place of the one before.

    `first` is what it begins with: the priming event, and what a client that came back had missed.
    """

    __slots__ = ("_closed", "_first", "_quiet", "_stream")

    def __init__(self, stream: Stream, first: bytes) -> None:
        self._stream = stream
        self._first = first
        self._quiet = False
        self._closed = False
        before, stream.reader = stream.reader, self
        if before is not None:
            before.close()

    def take(self) -> bytes:
        stream = self._stream
        data, self._first = self._first, b""
        if self._closed:
            return b""
        if stream.pending:
            data += b"".join(
                encode_event(event, stream.event_id(number)) for number, event in stream.take()
            )
        if stream.released is not None:
            data += b"retry: %d\n\n" % round(stream.released * 1000)
            stream.released = None
            self.close()
        elif self._quiet and not data and not stream.ended:
            data = COMMENT
        self._quiet = False
        return data

    @property
    def ended(self) -> bool:
        return self._closed or (self._stream.ended and not self._stream.pending)

    async def wait(self) -> None:
        stream = self._stream
        if not (self._closed or stream.pending or stream.ended or stream.released is not None):
            self._quiet = not await stream.wait()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._stream.reader is self:
                self._stream.reader = None
                self._stream.abandon()
            self._stream.wake()


class ReplayReader(EventSource):
    """Gives what a finished stream had said after the last event that the client got."""

    def __init__(self, events: bytes) -> None:
        self._events = events

    def take(self) -> bytes:
        events, self._events = self._events, b""
        return events

    @property
    def ended(self) -> bool:
        return not self._events

    async def wait(self) -> None:
        """There is nothing to wait for."""

    def close(self) -> None:
        self._events = b""


class SessionChannel(Channel):
    """The channel of one session. What comes is fed by the endpoint; what goes waits on its stream.

    `name` is what the store knows the session by; `max_queued` is in bytes.
    """

    def __init__(
        self,
        name: str,
        pulse: Pulse,
        *,
        store: EventStore | None = None,
        max_queued: int = MAX_QUEUED,
    ) -> None:
        self._name = name
        self.event_store = store
        """Where events are remembered; None where they are not."""
        self._pulse = pulse
        self._max_queued = max_queued
        self._queued = 0
        self._take: Callable[[Frame], None] | None = None
        self._feeding: Stream | None = None
        self._by_request: dict[RequestId, Stream] = {}
        self._streams: dict[int, Stream] = {}
        self._last_stream = STANDALONE
        self.standalone = Stream(self, STANDALONE, (), pulse)
        self.polls = False
        """Whether the revision lets a server let go of a connection."""
        self._lost: ConnectionLost | None = None
        self._tell_end: Callable[[ConnectionLost], None] | None = None
        self._closed = False
        self._room = trio.lowlevel.ParkingLot()

    # What comes in.

    def feed(self, frame: Frame, stream: Stream | None = None) -> None:
        """Hand on what a POST brought; what is said to it at once goes on `stream`."""
        assert self._take is not None
        self._feeding = stream
        try:
            self._take(frame)
        finally:
            self._feeding = None

    def hand_over(
        self, take: Callable[[Frame], None], end: Callable[[ConnectionLost], None]
    ) -> bool:
        self._take = take
        self._tell_end = end
        return True

    async def receive(self) -> list[Frame]:
        raise NotImplementedError("what comes is handed over")

    # Streams.

    @property
    def stores(self) -> bool:
        return self.event_store is not None

    @property
    def open_requests(self) -> frozenset[RequestId]:
        return frozenset(self._by_request)

    @property
    def in_use(self) -> bool:
        """Whether the client reads a stream or waits for an answer."""
        return bool(self._by_request) or self.standalone.reader is not None

    def open_stream(self, requests: Sequence[RequestId]) -> Stream:
        """A stream for `requests`, none of which may be open."""
        self._last_stream += 1
        stream = Stream(self, self._last_stream, requests, self._pulse)
        self._streams[stream.number] = stream
        for id in requests:
            self._by_request[id] = stream
        return stream

    def read(self, stream: Stream) -> StreamReader:
        """Begin to read a stream as events; the first says where to resume, in revisions that know of it
        (HTTP-22).
        """
        stream.begin_events()
        first = b""
        if self.polls and self.stores:
            # What waits will be sent with its own numbers, after this one.
            before = stream.pending[0][0] - 1 if stream.pending else stream.last
            first = encode_event(b"", f"{stream.number}-{before}")
        return StreamReader(stream, first)

    async def resume(self, event_id: str) -> EventSource | None:
        """Read on after an event; None for one that this session never sent."""
        match = _EVENT_ID.fullmatch(event_id)
        if match is None or self.event_store is None:
            return None
        number, last = int(match[1]), int(match[2])
        stream = self.standalone if number == STANDALONE else self._streams.get(number)
        if number > self._last_stream or (stream is not None and last > stream.last):
            return None
        if stream is None:
            missed = await self.event_store.after(self._name, number, last)
            return ReplayReader(b"".join(_event(number, *event) for event in missed))
        # While the store is asked, the stream keeps what comes.
        stream.abandoned = False
        try:
            missed = await self.event_store.after(self._name, number, last)
        except BaseException:
            stream.abandon()
            raise
        # What waits on the stream was stored too: nothing is to be given twice.
        reached = missed[-1][0] if missed else last
        waiting = [event for event in stream.take() if event[0] > reached]
        first = b"".join(_event(number, *event) for event in (*missed, *waiting))
        return StreamReader(stream, first or COMMENT)

    def abandoned(self, stream: Stream) -> None:
        """The connection of a stream broke off. A session goes on (HTTP-20)."""

    def store(self, stream: int, number: int, data: bytes) -> None:
        if self.event_store is not None:
            self.event_store.append(self._name, stream, number, data)

    def took(self, size: int) -> None:
        self._queued -= size
        if self._room and self._queued <= HIGH_WATER:
            self._room.unpark_all()

    # What goes out.

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        if self._closed:
            assert self._lost is not None
            raise self._lost.again()
        stream = self._feeding if about is None else self._by_request.get(about)
        stream = stream or self.standalone
        for data in messages:
            self._put(stream, data)

    def _put(self, stream: Stream, data: bytes) -> None:
        if self._queued + len(data) > self._max_queued:
            if jsonrpc.is_notification(data):
                logger.warning("the client does not read: a notification was dropped")
                return
            if self._queued > 4 * self._max_queued:
                self.end_input(f"the client does not read: {self._queued} bytes wait for it")
                raise ConnectionLost("the client does not read")
        before = stream.queued
        stream.put(data)
        self._queued += stream.queued - before

    def request_over(self, id: RequestId) -> None:
        stream = self._by_request.pop(id, None)
        if stream is not None:
            stream.open.remove(id)
            if not stream.open:
                # A finished stream lives on in the store only.
                self._streams.pop(stream.number, None)
                stream.end()

    def hang_up(self, id: RequestId, retry: float) -> None:
        stream = self._by_request.get(id)
        if stream is not None and self.polls and self.stores:
            stream.released = retry
            stream.begin_events()
            stream.wake()

    @property
    def crowded(self) -> bool:
        return self._queued > HIGH_WATER and self._lost is None

    async def wait_for_room(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while self.crowded:
            await self._room.park()

    # The end.

    async def run(self) -> None:
        """Nothing to do: the connections of the client do the work."""

    def end_input(self, reason: str) -> None:
        """Take nothing more; what was accepted may still be answered."""
        if self._lost is None:
            self._lost = ConnectionLost(reason)
            self._room.unpark_all()
            if self._tell_end is not None:
                self._tell_end(self._lost)

    async def aclose(self) -> None:
        self.end_input("this side closed the session")
        self._closed = True
        for stream in (self.standalone, *self._streams.values()):
            stream.end()
        self._streams.clear()
        self._by_request.clear()
        if self.event_store is not None:
            self.event_store.forget(self._name)
        await trio.lowlevel.cancel_shielded_checkpoint()


def _event(stream: int, number: int, data: bytes) -> bytes:
    return encode_event(data, f"{stream}-{number}")
