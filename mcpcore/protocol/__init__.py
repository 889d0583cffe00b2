"""The protocol without I/O: lines, the engine, pages, URI templates.

Enough to speak MCP from any loop of your own: `LineDecoder` cuts bytes into frames, `Connection`
says what a frame means and gives the bytes to write.
"""

from mcpcore.protocol.connection import Connection
from mcpcore.protocol.events import (
    Cancel,
    ErrorResponse,
    Event,
    Failed,
    Forgiven,
    Malformed,
    Notification,
    Progress,
    Refused,
    Request,
    RequestId,
    Response,
    Sendable,
    Stale,
)
from mcpcore.protocol.framing import MAX_LINE, NEED_DATA, Frame, LineDecoder, NeedData
from mcpcore.protocol.lifecycle import State
from mcpcore.protocol.uri_template import TraversalRefused, UriTemplate

__all__ = [
    "MAX_LINE",
    "NEED_DATA",
    "Cancel",
    "Connection",
    "ErrorResponse",
    "Event",
    "Failed",
    "Forgiven",
    "Frame",
    "LineDecoder",
    "Malformed",
    "NeedData",
    "Notification",
    "Progress",
    "Refused",
    "Request",
    "RequestId",
    "Response",
    "Sendable",
    "Stale",
    "State",
    "TraversalRefused",
    "UriTemplate",
]
