"""Bytes in and out of a connection on the shortest way.

trio's streams let other tasks run with each call, which costs a turn of the loop even where nothing has
to be waited for. On a plain socket a `Wire` reads and writes by the descriptor, and waits only if it has
to. Everything else (TLS, other kinds of streams) goes through the stream itself.
"""

from __future__ import annotations

import errno
import os
import select

import trio

READ_SIZE = 64 * 1024

_HANG_UP: int | None = getattr(select, "POLLRDHUP", None)

_TURNS = 16
"""Reads without waiting after which others get a turn all the same."""


class Wire:
    """A stream, read and written by one task each. Raises what trio's streams raise."""

    __slots__ = ("_reads", "_socket", "stream")

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        plain = isinstance(stream, trio.SocketStream) and os.name == "posix"
        self._socket = stream.socket if plain and isinstance(stream, trio.SocketStream) else None
        self._reads = 0

    async def receive(self) -> bytes:
        """Wait for bytes; none at the end."""
        socket = self._socket
        if socket is None:
            return bytes(await self.stream.receive_some(READ_SIZE))
        if self._reads > _TURNS:
            self._reads = 0
            await trio.lowlevel.checkpoint()
        try:
            self._reads += 1
            return os.read(socket.fileno(), READ_SIZE)
        except BlockingIOError:
            self._reads = 0
        except OSError as error:
            raise _translated(error) from error
        while True:
            await trio.lowlevel.wait_readable(socket)
            try:
                return os.read(socket.fileno(), READ_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise _translated(error) from error

    async def gone(self) -> bool:
        """Whether the other side closed its half, which clients do when they give up. It can be seen without
        reading on Linux, and not through TLS; elsewhere nothing is known.
        """
        if self._socket is None or _HANG_UP is None:
            return False
        poll = select.poll()
        poll.register(self._socket.fileno(), _HANG_UP)
        return bool(poll.poll(0))

    async def send(self, data: bytes) -> None:
        """Write all of `data`. If it is cancelled the stream is of no use any more."""
        if self._socket is not None:
            try:
                written = os.write(self._socket.fileno(), data)
            except BlockingIOError:
                written = 0
            except OSError as error:
                raise _translated(error) from error
            if written == len(data):
                return
            data = data[written:]
        await self.stream.send_all(data)


def _translated(error: OSError) -> trio.BrokenResourceError | trio.ClosedResourceError:
    """What trio's streams raise for an error of the system."""
    if error.errno == errno.EBADF:
        return trio.ClosedResourceError("this stream is closed")
    return trio.BrokenResourceError(str(error))
