"""What the engine remembers of a request that is open, in either direction."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from mcpcore import jsonrpc
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.terms import Terms


class BatchAnswer:
    """The answer to a batch, as it comes together: the requests still open in it, and the answers so far."""

    __slots__ = ("answers", "open")

    def __init__(self) -> None:
        self.open = 0
        self.answers: list[bytes] = []

    def result(self) -> bytes | None:
        """The whole answer once no request is open; None before, or if there is nothing to say."""
        if self.open or not self.answers:
            return None
        return jsonrpc.encode_batch(self.answers)


class OutgoingCall(msgspec.Struct):
    """A request of ours that has no answer yet. `progress` is the last that came."""

    method: str
    token: RequestId | None
    progress: float | None = None


class IncomingCall(msgspec.Struct):
    """A request of the peer that we have not answered yet. `id` is what the peer calls it, `progress` the
    last that was sent, `terms` what holds for a request that stands alone.
    """

    id: RequestId
    method: str
    token: RequestId | None
    batch: BatchAnswer | None
    terms: Terms | None = None
    progress: float | None = None
    cancelled: bool = False


class _TokenInMeta(msgspec.Struct):
    progressToken: int | str | None = None  # noqa: N815 - read off the wire


class _MetaInParams(msgspec.Struct):
    meta: _TokenInMeta | None = msgspec.field(default=None, name="_meta")


_read_token = msgspec.json.Decoder(_MetaInParams).decode


def sent_token(params: Any) -> RequestId | None:
    """The progress token in params that are about to be sent."""
    meta = params.get("_meta") if isinstance(params, dict) else getattr(params, "meta", None)
    return meta.get("progressToken") if meta else None


def received_token(params: Any) -> RequestId | None:
    """The progress token in raw params."""
    if params is UNSET:
        return None
    try:
        meta = _read_token(params).meta
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return meta.progressToken if meta is not None else None
