"""Lines: where one message ends and the next begins on a stream of bytes.

The stdio transport says that messages are delimited by newlines and hold none themselves. So the
bytes are split on 0x0A and nowhere else, before any decoding: U+2028 inside a string, a character
torn between two reads, or a thousand messages in one read make no difference. One carriage return
before the line feed is taken off, blank lines carry nothing, and a line beyond the limit is reported
and skipped, so that what follows it is still read.
"""

from __future__ import annotations

import enum
import re
from collections import deque

import msgspec

from mcpcore import jsonrpc
from mcpcore.jsonrpc import Batch, ErrorObject, Malformed, Message, RequestId
from mcpcore.protocol.events import Undelivered

MAX_LINE = 64 * 1024 * 1024
"""Bytes. Far above any message met in practice (results of 10 MB are), low enough that a peer which
never ends its line cannot take all memory."""

_OPENING = re.compile(
    rb'\s*{\s*"jsonrpc"\s*:\s*"2.0"\s*,\s*"id"\s*:\s*'
    rb'(?:(?P<number>-?\d{1,19})|"(?P<text>[ !#-\[\]-~]{0,100})")'
    rb'\s*,\s*"(?P<member>method|result|error)"'
)
"""How nearly all messages begin: enough to tell whose answer a line was that is too long to be read."""


class Decoded(msgspec.Struct, frozen=True):
    """A frame that had to be read before it could be handed on, and which rules it broke.

    `alone`: the transport says that it belongs to no session. `key`: what its request is called here,
    where the requests of several clients meet whose ids may be the same.
    """

    message: Message | Batch
    frame: bytes
    notes: tuple[str, ...] = ()
    alone: bool = False
    key: RequestId | None = None


class Abandoned(msgspec.Struct, frozen=True):
    """The peer went away, and waits no more for the answer to its request `id`."""

    id: RequestId


Frame = bytes | Malformed | Decoded | Undelivered | Abandoned
"""One message still to be read, or what stands in its place."""


class NeedData(enum.Enum):
    """The type of `NEED_DATA`: a type checker narrows by it."""

    NEED_DATA = "need data"

    def __repr__(self) -> str:
        return "NEED_DATA"


NEED_DATA = NeedData.NEED_DATA
"""What a decoder returns when no whole message is there yet."""


class LineDecoder:
    """Cuts received bytes into lines.

    Feed it with `receive_data`, then ask `next_message` until it says `NEED_DATA`. The outcome
    depends on the bytes alone, never on how they were split. `max_line` is in bytes, without the end.
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        if max_line < 1:
            raise ValueError("max_line must be at least one byte")
        self._max_line = max_line
        self._lines: deque[bytes] = deque()
        # The unfinished line grows in place: joining it anew at each read would make one long line
        # cost the square of its length, and keeping many small pieces many times its size.
        self._rest = bytearray()

    def receive_data(self, data: bytes) -> None:
        """Take what was read, any number of bytes."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._rest:
                lines[0] = bytes(self._rest + lines[0])
                self._rest = bytearray()
            self._lines.extend(lines)
        if len(self._rest) <= self._max_line + 1:
            # Beyond the limit the rest of the line is not even kept.
            self._rest += rest

    def next_message(self) -> Frame | NeedData:
        """Give the next line, or a `Malformed` for one beyond the limit, or `NEED_DATA`."""
        while self._lines:
            line = self._lines.popleft()
            if line.endswith(b"\r"):
                line = line[:-1]
            if len(line) > self._max_line:
                return too_long(line, self._max_line)
            if line.startswith(b"{") or line.strip(b" \t\r"):
                return line
        return NEED_DATA

    def end(self) -> Frame | NeedData:
        """After the end of the input: a last line without its newline, if there is one."""
        if self._rest:
            self._lines.append(bytes(self._rest))
            self._rest = bytearray()
        return self.next_message()


def too_long(message: bytes, limit: int) -> Malformed:
    """What stands in place of a message of more than `limit` bytes. Whose answer it is, or which request,
    is read from its beginning where that has the usual form.
    """
    error = ErrorObject(
        jsonrpc.INVALID_REQUEST, f"Invalid request: a message of more than {limit} bytes"
    )
    seen = message[: limit + 1]
    opening = _OPENING.match(seen)
    if opening is None:
        return Malformed(error, jsonrpc.excerpt(seen), rule="")
    id = int(opening["number"]) if opening["number"] else opening["text"].decode()
    answers = opening["member"] != b"method"
    return Malformed(error, jsonrpc.excerpt(seen), id, answers=answers, rule="")
