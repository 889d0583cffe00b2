"""Pages of a sorted list, and the opaque cursors between them.

A cursor says after which name the next page begins, so it stays good while the list changes
around it. It carries a checksum and the name of its list: a cursor that was made up, cut, or taken
from another list is found out, and the answer is -32602 rather than a wrong page.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import zlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class BadCursor(ValueError):
    """This cursor was never given out for this list."""


def make_cursor(list_name: str, last: str) -> str:
    """The cursor for what follows `last` in the list called `list_name`."""
    body = f"{list_name}\n{last}".encode()
    return base64.urlsafe_b64encode(zlib.crc32(body).to_bytes(4, "big") + body).decode()


def read_cursor(list_name: str, cursor: str) -> str:
    """The name after which to go on. Raises `BadCursor`."""
    try:
        raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        checksum, body = raw[:4], raw[4:]
        name, found, last = body.decode().partition("\n")
    except (UnicodeError, binascii.Error) as error:
        raise BadCursor("not a cursor of this server") from error
    if checksum != zlib.crc32(body).to_bytes(4, "big") or not found or name != list_name:
        raise BadCursor("not a cursor of this list")
    return last


def page(
    list_name: str, names: Sequence[str], items: Sequence[T], cursor: str | None, size: int
) -> tuple[list[T], str | None]:
    """One page of `items`, whose sorted keys are `names`, and the cursor of the next page or None.

    Raises `BadCursor`.
    """
    start = 0 if cursor is None else bisect.bisect_right(names, read_cursor(list_name, cursor))
    stop = start + size
    more = stop < len(items)
    return list(items[start:stop]), make_cursor(list_name, names[stop - 1]) if more else None
