"""The HTTP headers of the transport, and how their values are read.

Names are lower-case here; a header that came several times holds its values joined by commas, as HTTP
says. So one that must come once and came twice holds a value that fits nothing, and is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

SESSION_ID = "mcp-session-id"
PROTOCOL_VERSION = "mcp-protocol-version"
LAST_EVENT_ID = "last-event-id"

JSON = "application/json"
EVENT_STREAM = "text/event-stream"


def joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name. The names are lower-case already, as h11 and ASGI give them."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def media_type(value: str | None) -> str:
    """The media type of a Content-Type, without parameters, in lower case; empty if there is none."""
    return (value or "").partition(";")[0].strip().lower()


@functools.lru_cache(maxsize=64)
def accepts(value: str | None, wanted: str) -> bool:
    """Whether an Accept header admits the media type `wanted`. No header admits everything (HTTP-08).

    The most specific range decides, and a weight of zero means no.
    """
    if value is None or not value.strip():
        return True
    major = wanted.partition("/")[0]
    best, weight = -1, 0.0
    for part in value.split(","):
        range_, *parameters = (item.strip().lower() for item in part.split(";"))
        rank = {"*/*": 0, f"{major}/*": 1, wanted: 2}.get(range_, -1)
        if rank > best:
            best, weight = rank, _weight(parameters)
    return best >= 0 and weight > 0


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 1.0
    return 1.0


_VISIBLE = re.compile(r"[!-~]+")


def is_visible_ascii(value: str) -> bool:
    """Whether a session id is made of the characters 0x21 to 0x7E, and of at least one (HTTP-52)."""
    return _VISIBLE.fullmatch(value) is not None
