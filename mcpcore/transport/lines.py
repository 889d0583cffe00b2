"""Messages as lines over any pair of trio streams.

Pipes, sockets and terminals have a descriptor that can be written without waiting. There a message
goes straight to the kernel while nothing is queued: no await stands between, so no cancellation can
tear a line. What the kernel did not take, and everything after it, belongs to one writing task, the
only one that ever waits on the stream. A stream without such a descriptor (TLS, a test's memory
stream, a thread) is left to that task alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Callable

import trio

from mcpcore.errors import ConnectionLost
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.framing import MAX_LINE, Frame, LineDecoder, NeedData
from mcpcore.transport.channel import BACKLOG, HIGH_WATER, Channel

READ_SIZE = 256 * 1024
"""Bytes asked for in one read: four times a pipe's usual capacity."""

LARGE = 64 * 1024
"""Bytes from which on a piece is written by itself: what a pipe takes at once."""

LAST_READ = 0.1
"""Seconds for reading what arrived before writing broke: it is there already."""

FLUSH_TIME = 0.5
"""Seconds that `aclose` gives to what is still queued."""


class LineChannel(Channel):
    """One message a line, read from `source` and written to `sink` (which may be one stream).

    `max_line`, `high_water` and `backlog` are in bytes, `flush_time` in seconds.
    """

    def __init__(
        self,
        source: trio.abc.ReceiveStream,
        sink: trio.abc.SendStream,
        *,
        max_line: int = MAX_LINE,
        high_water: int = HIGH_WATER,
        backlog: int = BACKLOG,
        flush_time: float = FLUSH_TIME,
    ) -> None:
        self._source = source
        self._sink = sink
        self._read_from = _descriptor(source)
        self._write_to = _descriptor(sink)
        self._reading = trio.CancelScope()
        self._decoder = LineDecoder(max_line)
        self._high_water = high_water
        self._backlog = backlog
        self._flush_time = flush_time
        self._queue: deque[bytes | memoryview] = deque()
        self._queued = 0
        self._writing = False
        self._ended = False
        self._closed = False
        self.closed = trio.Event()
        """Set when `aclose` is through."""
        self._lost: ConnectionLost | None = None
        self._work = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._flushed = trio.lowlevel.ParkingLot()

    # Sending.

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        if self._lost is not None:
            raise self._lost.again()
        if self._queued > self._backlog:
            raise self.lost(f"the peer does not read: {self._queued} bytes wait for it")
        queue = self._queue
        for message in messages:
            queue += (message, b"\n")
            self._queued += len(message) + 1
        if self._writing:
            return
        if linger or self._write_to is None:
            self._work.unpark()
        else:
            self._write_through()

    def _write_through(self) -> None:
        """Hand the kernel what it takes now; leave the rest to the writing task."""
        assert self._write_to is not None
        try:
            while self._queue:
                data = self._next_piece()
                written = os.write(self._write_to(), data)
                self._queued -= written
                if written < len(data):
                    self._queue.appendleft(memoryview(data)[written:])
                    break
        except BlockingIOError:
            self._queue.appendleft(data)
        except OSError as error:
            self._break(error)
            return
        if self._queue:
            self._work.unpark()
        else:
            self._flushed.unpark_all()
        if self._room and not self.crowded:
            self._room.unpark_all()

    def _next_piece(self) -> bytes | memoryview:
        """What to write next: small pieces joined, so that they leave together; a large one alone, so
        that it is not copied once more.
        """
        queue = self._queue
        if self._queued <= LARGE:
            data = b"".join(queue)
            queue.clear()
            return data
        if len(queue[0]) > LARGE:
            return queue.popleft()
        small = []
        while queue and len(queue[0]) <= LARGE:
            small.append(queue.popleft())
        return b"".join(small)

    @property
    def broken(self) -> bool:
        """Whether writing failed."""
        return self._lost is not None and not self._closed

    @property
    def crowded(self) -> bool:
        return self._queued > self._high_water and self._lost is None

    async def wait_for_room(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while self.crowded:
            await self._room.park()

    async def run(self) -> None:
        """The writing task."""
        try:
            while self._lost is None:
                if not self._queue:
                    await self._work.park()
                    continue
                data = self._next_piece()
                self._writing = True
                try:
                    await self._sink.send_all(data)
                finally:
                    self._writing = False
                self._queued -= len(data)
                if not self.crowded:
                    self._room.unpark_all()
                if not self._queue:
                    self._flushed.unpark_all()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            self._break(error)
        finally:
            # Whoever stops the writing task may have stopped it in the middle of a line.
            self.lost("this side closed the connection")

    # Receiving.

    async def receive(self) -> list[Frame]:
        frames: list[Frame] = []
        while not frames:
            if self._ended:
                # The other direction may still be open: a server answers what it was asked before
                # the end of its input.
                raise (
                    self._lost.again()
                    if self._lost
                    else ConnectionLost("the peer closed the connection")
                )
            if self._lost is None:
                data = await self._read()
            else:
                data = await self._read_rest()
            self._take(data, frames)
        return frames

    def _take(self, data: bytes | None, frames: list[Frame]) -> None:
        """Cut what was read into frames: nothing at all marks the end, None that reading was broken off."""
        decoder = self._decoder
        if data is None:
            return
        if data:
            decoder.receive_data(data)
            frame = decoder.next_message()
            while not isinstance(frame, NeedData):
                frames.append(frame)
                frame = decoder.next_message()
        else:
            self._ended = True
            last = decoder.end()
            if not isinstance(last, NeedData):
                frames.append(last)

    async def _read(self) -> bytes | None:
        """One read. Empty at the end of the input, also when the other side broke off; None if this
        channel ended meanwhile.
        """
        try:
            with trio.CancelScope() as self._reading:
                if self._read_from is None:
                    return bytes(await self._source.receive_some(READ_SIZE))
                while True:
                    # Waiting first makes each read one turn of the loop, and every one a checkpoint.
                    descriptor = self._read_from()
                    await trio.lowlevel.wait_readable(descriptor)
                    with contextlib.suppress(BlockingIOError):
                        return os.read(descriptor, READ_SIZE)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError, ValueError):
            return b""
        return None

    async def _read_rest(self) -> bytes:
        """After the channel broke: what had arrived before, which must not be lost with it."""
        if self._closed:
            return b""
        data = None
        with trio.move_on_after(LAST_READ):
            data = await self._read()
        return data or b""

    # The end.

    def lost(self, reason: str) -> ConnectionLost:
        """Note why the channel ended, unless that is known already, and make the exception."""
        if self._lost is None:
            self._lost = ConnectionLost(reason)
            self._queue.clear()
            self._queued = 0
            self._work.unpark_all()
            self._room.unpark_all()
            self._flushed.unpark_all()
            self._reading.cancel()
        return self._lost.again()

    def _break(self, error: Exception) -> None:
        number = error.errno if isinstance(error, OSError) else None
        if number in (errno.EPIPE, errno.ECONNRESET) or not isinstance(error, OSError):
            self.lost("the peer stopped reading")
        else:
            self.lost(f"writing failed: {error}")

    async def flush(self) -> None:
        """Wait until all that was sent has been written, at most `flush_time`."""
        with trio.move_on_after(self._flush_time):
            while self._lost is None and (self._queue or self._writing):
                await self._flushed.park()

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            await self.flush()
            self._closed = True
            self.lost("this side closed the connection")
            await trio.aclose_forcefully(self._sink)
            # The same stream may be both; closing it twice does no harm.
            await trio.aclose_forcefully(self._source)
            self.closed.set()


def open_stream(
    source: trio.abc.ReceiveStream,
    sink: trio.abc.SendStream | None = None,
    *,
    max_line: int = MAX_LINE,
) -> LineChannel:
    """A channel over a trio stream that goes both ways (a TCP or Unix socket, TLS), or over two that
    go one way each.
    """
    if sink is None:
        if not isinstance(source, trio.abc.SendStream):
            raise TypeError("this stream only receives: give the one that sends, too")
        sink = source
    return LineChannel(source, sink, max_line=max_line)


def _descriptor(stream: object) -> Callable[[], int] | None:
    """What gives the descriptor of a stream that can be read and written without waiting; None if it
    has none. It is asked each time: a number of a stream that was closed may be somebody else's.
    """
    if isinstance(stream, trio.SocketStream):
        return stream.socket.fileno
    if os.name == "posix" and isinstance(stream, trio.lowlevel.FdStream):
        return stream.fileno
    return None
