"""What crossed, in the order it crossed, each part with its time.

A transcript belongs to one conversation: one child process, or one HTTP peer with all its requests. Its
entries hold the raw bytes; what they mean is worked out by those who read them.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

UNREADABLE = object()
"""Stands for bytes that are no JSON."""


@dataclass(slots=True)
class Entry:
    """One thing that crossed.

    ``sender`` is ``client`` or ``server``. ``stream`` says where: ``stdin``, ``stdout``, ``stderr``, or the
    HTTP exchange (``POST 3``). ``kind`` is ``message`` (one JSON text), ``head`` (of a request or an answer),
    ``body`` (of an HTTP message that is no JSON-RPC), ``text`` (other bytes: standard error, comments) or
    ``event`` (something that happened: a process ended, a connection was cut). ``at`` is in seconds
    since the conversation began.
    """

    at: float
    sender: str
    stream: str
    kind: str
    raw: bytes
    _message: Any = field(default=None, repr=False)

    @property
    def message(self) -> Any:
        """The JSON value of a ``message``; ``UNREADABLE`` if it is none."""
        if self._message is None:
            self._message = parse(self.raw)
        return self._message

    @property
    def text(self) -> str:
        """The bytes for a reader."""
        return self.raw.decode("utf-8", "backslashreplace")


def parse(raw: bytes) -> Any:
    """The JSON value of these bytes, or ``UNREADABLE``. Numbers that JSON does not have are refused."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        return json.loads(raw.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError):
        return UNREADABLE


class Transcript:
    """Entries of one conversation, in order.

    ``limit`` bounds the bytes that are kept (a peer may flood): what comes later is counted, not kept.
    ``lawful`` turns false once the suite itself sent something that the protocol does not allow; from
    then on, the conversation says nothing about how the peer behaves among the law-abiding.
    """

    def __init__(
        self, *, limit: int = 16_000_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.entries: list[Entry] = []
        self.lawful = True
        self.dropped = 0
        self._left = limit
        self._clock = clock
        self._start = clock()

    def add(self, sender: str, stream: str, kind: str, raw: bytes) -> Entry:
        """Keep one entry, timed now."""
        entry = Entry(self._clock() - self._start, sender, stream, kind, raw)
        if self._left < len(raw):
            self.dropped += 1
        else:
            self._left -= len(raw)
            self.entries.append(entry)
        return entry
