"""Server-sent events: where one event ends and the next begins, both ways.

A line ends with LF, CR or CRLF, and a blank line ends an event. The decoder treats a CR as the end of
its line at once, so that an event is never held back to see whether an LF follows. What counts is the
event stream format of the HTML standard; of its fields the transport uses `data` (one message), `id`
(where to resume) and `retry` (how long to wait first).
"""

from __future__ import annotations

from collections import deque

import msgspec

from mcpcore.protocol.framing import MAX_LINE, NEED_DATA, Frame, NeedData, too_long

COMMENT = b":\n\n"
"""Says nothing and keeps proxies from taking a quiet stream for a dead one."""

MESSAGE = "message"
"""The type of an event that names none; the only one that holds messages."""

_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One event. `data` is one message, or what stands in place of one that was too long; empty data is
    no message. `id` is where to resume after this event, None if the stream never gave an id.
    """

    data: Frame
    type: str = MESSAGE
    id: str | None = None


class SseDecoder:
    """Cuts received bytes into events; used like `LineDecoder`. `max_event` is in bytes of data.

    `last_event_id` and `retry` (milliseconds) are what the stream said last; events that only set them
    are not given out.
    """

    def __init__(self, max_event: int = MAX_LINE) -> None:
        if max_event < 1:
            raise ValueError("max_event must be at least one byte")
        self._max_event = max_event
        self.last_event_id: str | None = None
        self.retry: int | None = None
        self._events: deque[ServerSentEvent] = deque()
        self._at_start = True
        self._after_cr = False
        self._rest = bytearray()
        # The event under way.
        self._id: str | None = None
        self._type = ""
        self._data: list[bytes] = []
        self._size = 0

    def receive_data(self, data: bytes) -> None:
        """Take what was read, any number of bytes. The end of the stream needs no telling: an event
        that was not ended does not count.
        """
        if self._at_start:
            data = self._without_mark(data)
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if not data:
            return
        lines = data.splitlines()
        rest = b"" if data[-1:] in (b"\n", b"\r") else lines.pop()
        self._after_cr = data.endswith(b"\r")
        if lines and self._rest:
            lines[0] = bytes(self._rest + lines[0])
            self._rest = bytearray()
        for line in lines:
            if line:
                self._take_line(line)
            else:
                self._end_event()
        if len(self._rest) <= self._max_event + len("data: "):
            # Beyond the limit the rest of the line is not even kept.
            self._rest += rest

    def next_event(self) -> ServerSentEvent | NeedData:
        """Give the next event, or `NEED_DATA`."""
        return self._events.popleft() if self._events else NEED_DATA

    def _without_mark(self, data: bytes) -> bytes:
        data = bytes(self._rest) + data
        self._rest = bytearray()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._rest += data
            return b""
        self._at_start = False
        return data.removeprefix(_BOM)

    def _take_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            if self._size <= self._max_event:
                self._data.append(value)
                self._size += len(value) + 1
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value)

    def _end_event(self) -> None:
        # An empty id takes back what was said before (SSE-04).
        self.last_event_id = self._id or None
        if self._data:
            joined = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            data: Frame = joined
            if len(joined) > self._max_event:
                data = too_long(joined, self._max_event)
            self._events.append(ServerSentEvent(data, self._type or MESSAGE, self.last_event_id))
            self._data = []
            self._size = 0
        self._type = ""


def encode_event(data: bytes, id: str | None = None, retry: int | None = None) -> bytes:
    """Write one event. `data` is one message, or nothing; `retry` is in milliseconds."""
    if b"\r" in data or b"\n" in data:
        # Raw members may hold line ends, only between tokens, and there any white space will do.
        data = data.replace(b"\r", b" ").replace(b"\n", b" ")
    head = b"" if id is None else b"id: %b\n" % id.encode()
    if retry is not None:
        head += b"retry: %d\n" % retry
    return b"%bdata: %b\n\n" % (head, data)
