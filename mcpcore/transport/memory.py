"""A pair of channels within one process.

The messages cross as the same bytes that a pipe would carry, so what works here has been encoded,
decoded and judged like anywhere else.
"""

from __future__ import annotations

from collections import deque

import trio

from mcpcore.errors import ConnectionLost
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.framing import Frame
from mcpcore.transport.channel import BACKLOG, HIGH_WATER, Channel

CLOSE_GRACE = 2.0
"""Seconds that a server in this process has to finish after its client closed."""


class MemoryChannel(Channel):
    """One end; made by `memory_channels`."""

    def __init__(self, high_water: int, backlog: int) -> None:
        self._peer: MemoryChannel
        self._high_water = high_water
        self._backlog = backlog
        self._inbox: deque[bytes] = deque()
        self._waiting = 0
        self._lost: ConnectionLost | None = None
        self.served: trio.Event | None = None
        """Set by whoever serves the other end in this process, when it is done; `aclose` then waits
        for it, at most `CLOSE_GRACE`."""
        self._arrived = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        if self._lost is not None:
            raise self._lost.again()
        peer = self._peer
        if peer._waiting > self._backlog:
            self._end(f"the peer does not read: {peer._waiting} bytes wait for it")
            peer._end("the peer closed the connection")
            raise ConnectionLost(f"the peer does not read: {peer._waiting} bytes wait for it")
        peer._inbox.extend(messages)
        peer._waiting += sum(map(len, messages))
        peer._arrived.unpark()

    @property
    def crowded(self) -> bool:
        return self._peer._waiting > self._high_water and self._lost is None

    async def wait_for_room(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while self.crowded:
            await self._room.park()

    async def receive(self) -> list[Frame]:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._inbox:
            if self._lost is not None:
                raise self._lost.again()
            await self._arrived.park()
        frames: list[Frame] = list(self._inbox)
        self._inbox.clear()
        self._waiting = 0
        self._peer._room.unpark_all()
        return frames

    async def run(self) -> None:
        """Nothing to do: what is sent has arrived."""

    async def aclose(self) -> None:
        self._end("this side closed the connection")
        self._peer._end("the peer closed the connection")
        if self.served is not None:
            with trio.move_on_after(CLOSE_GRACE, shield=True):
                await self.served.wait()
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _end(self, reason: str) -> None:
        if self._lost is None:
            self._lost = ConnectionLost(reason)
            self._arrived.unpark_all()
            self._room.unpark_all()


def memory_channels(
    high_water: int = HIGH_WATER, backlog: int = BACKLOG
) -> tuple[MemoryChannel, MemoryChannel]:
    """Two channels, each the other end of the other. `high_water` and `backlog` are in bytes."""
    one, other = MemoryChannel(high_water, backlog), MemoryChannel(high_water, backlog)
    one._peer, other._peer = other, one
    return one, other
