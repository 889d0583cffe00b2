"""Server-sent events, as the WHATWG standard reads them: bytes in, events out."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ``id`` is None where the block had no such field; ``data`` is None likewise."""

    kind: str
    data: str | None
    id: str | None
    retry: str | None
    raw: bytes


class EventReader:
    """Collects bytes until an event is whole. Comments alone make an event without any field."""

    def __init__(self) -> None:
        self._pending = b""
        self._started = False

    def feed(self, raw: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        self._pending += raw
        if not self._started and len(self._pending) >= 3:
            self._pending = self._pending.removeprefix(b"\xef\xbb\xbf")
            self._started = True
        while (cut := self._end_of_block()) is not None:
            block, self._pending = self._pending[:cut], self._pending[cut:]
            if block.strip(b"\r\n"):
                yield _event(block)

    @property
    def unfinished(self) -> bytes:
        """What came after the last whole event."""
        return self._pending

    def _end_of_block(self) -> int | None:
        """Where the blank line that ends the first block stops."""
        position = 0
        while position < len(self._pending):
            end = _line_end(self._pending, position)
            if end is None:
                return None
            if end[0] == position:
                return end[1]
            position = end[1]
        return None


def _line_end(raw: bytes, start: int) -> tuple[int, int] | None:
    ends = [at for at in (raw.find(b"\n", start), raw.find(b"\r", start)) if at >= 0]
    if not ends:
        return None
    first = min(ends)
    if raw[first : first + 1] == b"\r":
        if first + 1 == len(raw):
            return None
        return first, first + (2 if raw[first + 1 : first + 2] == b"\n" else 1)
    return first, first + 1


def _event(block: bytes) -> Event:
    kind, data, identity, retry = "message", None, None, None
    for line in (
        block.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    ):
        if not line or line.startswith(":"):
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value or "message"
        elif name == "data":
            data = value if data is None else f"{data}\n{value}"
        elif name == "id" and "\0" not in value:
            identity = value
        elif name == "retry" and value.isdigit():
            retry = value
    return Event(kind, data, identity, retry, block)
