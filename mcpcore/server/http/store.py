"""Remembers events, so that a client whose connection broke can have what it missed.

A session numbers the events of each of its streams from 1 and hands each to the store before it is
written. When a client comes back with the id of the last event that it got, the store gives what came
after it on that stream. A store may live elsewhere and outlive the process: `append` must not wait, so
one that writes somewhere slow keeps what is on its way, and gives it from `after` all the same.
`mcpcore.testing.check_event_store` tells whether one works.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import msgspec
import trio

MAX_EVENTS = 10_000
MAX_BYTES = 64 * 1024 * 1024
MAX_AGE = 300.0


class EventStore(ABC):
    """Events by session, stream and number. A stream's numbers grow; its numbers may have gaps."""

    @abstractmethod
    def append(self, session: str, stream: int, number: int, data: bytes) -> None:
        """Remember an event: `data` is its message. Never waits."""

    @abstractmethod
    async def after(self, session: str, stream: int, number: int) -> list[tuple[int, bytes]]:
        """The events of the stream after `number` that are still remembered, oldest first."""

    @abstractmethod
    def forget(self, session: str) -> None:
        """The session is over: nobody will ask for its events any more. Never waits."""


class _Entry(msgspec.Struct):
    session: str
    stream: int
    number: int
    data: bytes
    time: float


class MemoryEventStore(EventStore):
    """Keeps events in memory: of all sessions together at most `max_events` and `max_bytes`, each for at
    most `max_age` seconds. What is beyond any limit goes, the oldest first.
    """

    def __init__(
        self,
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_age: float = MAX_AGE,
    ) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._entries: deque[_Entry] = deque()
        self._streams: dict[str, dict[int, list[_Entry]]] = {}
        self._bytes = 0

    def append(self, session: str, stream: int, number: int, data: bytes) -> None:
        now = trio.current_time()
        entry = _Entry(session, stream, number, data, now)
        self._entries.append(entry)
        self._streams.setdefault(session, {}).setdefault(stream, []).append(entry)
        self._bytes += len(data)
        self._evict(now)

    async def after(self, session: str, stream: int, number: int) -> list[tuple[int, bytes]]:
        self._evict(trio.current_time())
        entries = self._streams.get(session, {}).get(stream, ())
        return [(entry.number, entry.data) for entry in entries if entry.number > number]

    def forget(self, session: str) -> None:
        # The entries stay in the queue, empty, until it is their turn: taking them out of its middle
        # would cost its length.
        for entries in self._streams.pop(session, {}).values():
            for entry in entries:
                self._bytes -= len(entry.data)
                entry.data = b""

    def _evict(self, now: float) -> None:
        entries = self._entries
        while entries and (
            len(entries) > self._max_events
            or self._bytes > self._max_bytes
            or entries[0].time <= now - self._max_age
        ):
            entry = entries.popleft()
            self._bytes -= len(entry.data)
            streams = self._streams.get(entry.session)
            # A forgotten session may have begun anew under the same name.
            if streams is None or entry.stream not in streams:
                continue
            queue = streams[entry.stream]
            if queue and queue[0] is entry:
                del queue[0]
                if not queue:
                    del streams[entry.stream]
                    if not streams:
                        del self._streams[entry.session]
