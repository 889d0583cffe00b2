"""What a frame is, and which rule it follows.

The story of a session is told frame by frame. An answer says nothing of what it answers, so the
requests of both sides are remembered by their ids.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mcpcore.rules import RULES, Rule
from mcpcore.transport.tap import Direction

# By method: what the answer is said to be, and the rule it follows.
_ANSWERS = {
    "initialize": ("the server's revision, capabilities and name", "LIFE-04"),
    "server/discover": ("the server's revisions, capabilities and name", "DISC-03"),
    "ping": ("the server is there", "PING-02"),
    "resources/read": ("the contents", "RES-04"),
    "prompts/get": ("the messages", "PROMPT-04"),
}

_NOTIFICATIONS = {
    "notifications/initialized": ("the session is open", "LIFE-05"),
    "notifications/progress": ("how far the call is", "PROG-06"),
    "notifications/cancelled": ("nobody waits for that request any more", "CANC-02"),
    "notifications/message": ("a log message of the server", "LOG-01"),
}


class Told(msgspec.Struct, frozen=True):
    """One frame: what it is, the rule that it follows, and whether it breaks it instead."""

    what: str
    rule: Rule
    broken: bool = False


class Story:
    """Tells each frame of a session in the order in which they cross."""

    def __init__(self) -> None:
        self._requests: dict[tuple[Direction, str], str] = {}
        self._cancelled: set[tuple[Direction, str]] = set()

    def tell(self, direction: Direction, data: bytes) -> Told:
        try:
            message = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Told("no message: not JSON", RULES["STDIO-04"], broken=True)
        if not isinstance(message, dict):
            return Told("no message: not an object", RULES["JRPC-18"], broken=True)
        if isinstance(method := message.get("method"), str):
            params = message.get("params")
            members = params if isinstance(params, dict) else {}
            if "id" not in message:
                if method == "notifications/cancelled":
                    self._cancelled.add((direction, repr(members.get("requestId"))))
                return _notification(method)
            self._requests[direction, repr(message["id"])] = method
            return _request(method, members)
        # By value and type: 1 and "1" are two ids.
        asker: Direction = "sent" if direction == "received" else "received"
        key = asker, repr(message.get("id"))
        if key in self._cancelled:
            return Told("an answer to a cancelled request", RULES["CANC-06"], broken=True)
        return _answer(self._requests.get(key), message)


def _request(method: str, params: dict[str, Any]) -> Told:
    meta = params.get("_meta")
    if method == "initialize":
        return _told("request initialize: the client's revision and name", "LIFE-02")
    if method == "server/discover":
        return _told("request server/discover: what the server is", "DISC-01")
    if "cursor" in params:
        return _told(f"request {method}: the next page", "PAGE-02")
    if isinstance(meta, dict) and "progressToken" in meta:
        return _told(f"request {method}, with a token for progress", "PROG-01")
    if method.endswith("/list"):
        return _told(f"request {method}: the first page", "PAGE-01")
    return _told(f"request {method}", "TOOL-11" if method == "tools/call" else "JRPC-02")


def _notification(method: str) -> Told:
    what, rule = _NOTIFICATIONS.get(method, ("", "JRPC-12"))
    return _told(f"notification {method}" + (f": {what}" if what else ""), rule)


def _answer(method: str | None, message: dict[str, Any]) -> Told:
    if method is None:
        return Told("an answer to nothing that was asked", RULES["JRPC-07"], broken=True)
    result = message.get("result")
    if not isinstance(result, dict):
        return _told(f"answer to {method}: an error", "JRPC-08")
    if method == "tools/call":
        if result.get("isError") is True:
            return _told("answer to tools/call: the tool failed", "TOOL-17")
        return _told("answer to tools/call: the result", "TOOL-12")
    if "nextCursor" in result:
        return _told(f"answer to {method}: a page, and there are more", "PAGE-04")
    if method == "tools/list":
        return _told("answer to tools/list: the last page", "TOOL-02")
    if method.endswith("/list"):
        return _told(f"answer to {method}: the last page", "PAGE-04")
    what, rule = _ANSWERS.get(method, ("the result", "JRPC-07"))
    return _told(f"answer to {method}: {what}", rule)


def _told(what: str, rule: str) -> Told:
    return Told(what, RULES[rule])
