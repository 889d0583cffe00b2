"""Which connection serves the next request: pure bookkeeping, which never waits.

There is one place per connection. `take` gives a connection that is idle, or a place for a new one, or
nothing; a place is given back by `free`, whatever became of it, and the longest waiting is told. Nobody
else counts, so no cancellation can lose a place.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import trio

C = TypeVar("C")


class Pool(Generic[C]):
    """The connections to one origin. `places` is how many there may be, `keep_alive` how many seconds an
    idle one is kept.
    """

    def __init__(self, places: int, keep_alive: float) -> None:
        if places < 1:
            raise ValueError("there must be a place for at least one connection")
        self._free = places
        self._keep_alive = keep_alive
        self._idle: deque[tuple[C, float]] = deque()
        self._waiting = trio.lowlevel.ParkingLot()

    def reuse(self, now: float) -> C | None:
        """The idle connection that was used last; it keeps its place. None if there is none."""
        if not self._idle:
            return None
        connection, since = self._idle[-1]
        if now - since > self._keep_alive:
            return None
        self._idle.pop()
        return connection

    def expired(self, now: float) -> C | None:
        """An idle connection to be closed, whose place is free then; None if there is none."""
        if not self._idle or now - self._idle[0][1] <= self._keep_alive:
            return None
        connection, _ = self._idle.popleft()
        self.free()
        return connection

    def take(self, *, urgent: bool = False) -> bool:
        """Take a place for a new connection; False if there is none. What is urgent gets one in any case."""
        if self._free <= 0 and not urgent:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """Wait until a place or an idle connection may be there."""
        await self._waiting.park()

    def keep(self, connection: C, now: float) -> None:
        """A connection has done its work and may be used again."""
        self._idle.append((connection, now))
        self._waiting.unpark()

    def free(self) -> None:
        """A connection is no more: its place is free."""
        self._free += 1
        self._waiting.unpark()

    def clear(self) -> list[C]:
        """Give out all idle connections, to be closed. All that wait are told, for nothing more will come."""
        connections = [connection for connection, _ in self._idle]
        self._idle.clear()
        self._free += len(connections)
        self._waiting.unpark_all()
        return connections
