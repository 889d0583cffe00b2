"""HTTP as a server sees it, whichever library reads and writes it: a request, and the answer to it.

The endpoint takes an `HttpRequest` and gives an `Answer`; a front turns its own into the one and the
other into its own. An answer is either a body or a stream of events, which the front asks for one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping

import msgspec


class RequestLost(Exception):
    """The body of a request did not come: the client went away, or took too long."""


class HttpRequest(msgspec.Struct, frozen=True):
    """The head of a request, and a way to its body.

    `path` and `query` are as they came, apart. `headers` are by lower-case name, several of one name
    joined by commas. `read(limit)` gives the whole body, or None if it has more than `limit` bytes; it
    is called at most once, and raises `RequestLost`. `gone()` tells, once the body was read, whether the
    client is known to have gone away. `scope` is what the front knows besides, for `authenticate`: the ASGI
    scope, or nothing.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    read: Callable[[int], Awaitable[bytes | None]]
    gone: Callable[[], Awaitable[bool]]
    scope: Mapping[str, object] = {}


class EventSource(ABC):
    """What a stream of events is read from. One reader, who takes what is there, and waits for more as
    long as it has not ended.
    """

    @abstractmethod
    def take(self) -> bytes:
        """The encoded events that are there now; nothing if there are none."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether nothing will come after what was taken."""

    @abstractmethod
    async def wait(self) -> None:
        """Wait until there may be something to take. Never raises but for cancellation."""

    @abstractmethod
    def close(self) -> None:
        """Nobody reads any more. Idempotent."""


class Answer(msgspec.Struct, frozen=True):
    """An HTTP answer: `body`, or `events` until they end or the peer is gone; then `events.close()`."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    events: EventSource | None = None


Handle = Callable[[HttpRequest], Awaitable[Answer]]
"""What serves requests. It raises nothing but `RequestLost`."""
