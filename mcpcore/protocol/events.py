"""What the engine takes and gives.

The same classes go both ways: what one side passes to `Connection.send` is what the other side gets
from `Connection.receive`. The four kinds of message come from `mcpcore.jsonrpc`; the two notifications
that the engine understands have classes of their own. The rest is only ever received.
"""

from __future__ import annotations

import msgspec

from mcpcore.errors import McpError
from mcpcore.jsonrpc import (
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
)


class Cancel(msgspec.Struct, frozen=True):
    """The sender of the request `id` waits no more. `notifications/cancelled`."""

    id: RequestId
    reason: str | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far the request is that carried `token`. `notifications/progress`.

    `id` is that request's. Whoever sends may leave it out, unless a careless peer gave two requests
    the same token.
    """

    token: RequestId
    progress: float
    total: float | None = None
    message: str | None = None
    id: RequestId | None = None


class Refused(msgspec.Struct, frozen=True):
    """A message that the engine judged itself.

    `reply` is what to write now, None if the rules want silence. `error` says what was wrong,
    `excerpt` begins what was received, `rule` names the broken rule.
    """

    error: str
    excerpt: str
    rule: str
    reply: bytes | None = None


class Stale(msgspec.Struct, frozen=True):
    """Something that came too late or for nobody: an answer to a call that is over, progress or a
    cancellation of one. Legal, as such messages cross on the wire; to be logged and dropped.
    """

    what: str
    id: RequestId | None = None


class Forgiven(msgspec.Struct, frozen=True):
    """A deviation that was passed over. `rule` is its id in `mcpcore.rules`."""

    rule: str
    detail: str


class Failed(msgspec.Struct, frozen=True):
    """The answer to the request `id` came, and cannot be read. The call is over."""

    id: RequestId
    error: str
    rule: str


class Undelivered(msgspec.Struct, frozen=True):
    """The request `id` of this side came to nothing on its way, or its answer did. The call is over.

    Only transports that carry each message by itself can know; it takes the place of the answer.
    """

    id: RequestId
    error: McpError


Sendable = Request | Notification | Response | ErrorResponse | Cancel | Progress
Event = Sendable | Refused | Stale | Forgiven | Failed | Undelivered

__all__ = [
    "Cancel",
    "ErrorResponse",
    "Event",
    "Failed",
    "Forgiven",
    "Malformed",
    "Notification",
    "Progress",
    "Refused",
    "Request",
    "RequestId",
    "Response",
    "Sendable",
    "Stale",
    "Undelivered",
]
