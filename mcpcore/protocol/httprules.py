"""What the transport says of an HTTP request, without any HTTP: serve it, or refuse it and how.

Each function looks at one thing and gives a `Refusal` or what it found, in the order in which a server
asks: from where (`judge_access`), what for (`judge_head`), with which content (`judge_body`), in which
revision (`judge_version`) and session (`judge_session`). Nothing is decoded, and no session exists, for a
request that was refused before. Every refusal carries a JSON-RPC error without an id, whose message says
what to change.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from mcpcore import jsonrpc
from mcpcore.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Batch,
    ErrorObject,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
)
from mcpcore.protocol import mirrors
from mcpcore.protocol.framing import Decoded
from mcpcore.protocol.headers import (
    EVENT_STREAM,
    JSON,
    LAST_EVENT_ID,
    PROTOCOL_VERSION,
    SESSION_ID,
    accepts,
    is_visible_ascii,
    media_type,
)
from mcpcore.protocol.terms import named_revision
from mcpcore.revisions import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    REVISIONS,
    UNNAMED,
    UNSUPPORTED_VERSION,
    Revision,
)

MAX_BODY = 4 * 1024 * 1024
"""Bytes of one POST: far above any call met in practice, and little enough for many at once."""

Verb = Literal["POST", "GET", "DELETE"]


class Refusal(msgspec.Struct, frozen=True):
    """An HTTP answer that is no service. `rule` is the rule that was broken, or empty where
    it is a matter of limits; `detail` says how.
    """

    status: int
    detail: str
    rule: str
    headers: tuple[tuple[str, str], ...] = ()
    code: int = INVALID_REQUEST
    data: dict[str, object] | None = None
    id: jsonrpc.RequestId | None = None

    @property
    def body(self) -> bytes:
        data = msgspec.UNSET if self.data is None else self.data
        return jsonrpc.encode(ErrorResponse(self.id, ErrorObject(self.code, self.detail, data)))


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """From where requests may come: what keeps a web page in a browser from using a server that is not
    its own, by a name that it made point here (HTTP-02).

    `allowed_hosts` are values of Host, with or without a port; without one any port will do.
    `allowed_origins` are values of Origin; None stands for all whose host is an allowed host. Loopback
    is always allowed. `*` admits everything.
    """

    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] | None = None

    # The same few values come with each request.
    @functools.lru_cache(maxsize=256)  # noqa: B019 - there are as many of these as there are servers
    def admits_host(self, host: str) -> bool:
        return "*" in self.allowed_hosts or self._is_known(host)

    def admits_origin(self, origin: str) -> bool:
        if self.allowed_origins is not None and (
            "*" in self.allowed_origins or origin.lower() in map(str.lower, self.allowed_origins)
        ):
            return True
        scheme, separator, host = origin.partition("://")
        if not separator or scheme.lower() not in ("http", "https"):
            return False
        return _name(host) in LOOPBACK or (self.allowed_origins is None and self._is_known(host))

    def _is_known(self, host: str) -> bool:
        name, host = _name(host), host.lower()
        return name in LOOPBACK or any(
            allowed.lower() in (host, name) for allowed in self.allowed_hosts
        )


LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def _name(host: str) -> str:
    """The host without its port, in lower case; empty for what is no host."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return ""
    if parts.netloc != host or "@" in host or not parts.hostname:
        return ""
    return f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname


def judge_access(headers: Mapping[str, str], access: Access) -> Refusal | None:
    """Whether a request comes from where it may (HTTP-02, HTTP-03). No Origin is no wrong one
    (HTTP-04).
    """
    host = headers.get("host", "")
    if not access.admits_host(host):
        detail = f"Forbidden: the Host {host!r} is not among allowed_hosts"
        return Refusal(403, detail, "HTTP-02")
    origin = headers.get("origin")
    if origin is not None and not access.admits_origin(origin):
        detail = f"Forbidden: the Origin {origin!r} is not among allowed_origins"
        return Refusal(403, detail, "HTTP-02")
    return None


class Head(msgspec.Struct, frozen=True):
    """A request before its body: what it is, and what answer it takes."""

    verb: Verb
    json: bool
    events: bool
    session: str | None
    version: str | None
    last_event_id: str | None


_TAKEN: tuple[Verb, ...] = ("POST", "GET", "DELETE")


def judge_head(
    method: str,
    headers: Mapping[str, str],
    *,
    max_body: int = MAX_BODY,
    verbs: Sequence[Verb] = _TAKEN,
) -> Head | Refusal:
    """What a request is, by its method and headers. `verbs` are those that the server takes."""
    verb = next((verb for verb in verbs if verb == method), None)
    if verb is None:
        allow = ("Allow", ", ".join(verbs))
        return Refusal(405, f"Method Not Allowed: {method}", "HTTP-01", (allow,))
    accept = headers.get("accept")
    json, events = accepts(accept, JSON), accepts(accept, EVENT_STREAM)
    if verb == "POST":
        if not (json or events):
            detail = f"Not Acceptable: Accept must list {JSON} and {EVENT_STREAM}"
            return Refusal(406, detail, "HTTP-08")
        if media_type(headers.get("content-type")) != JSON:
            return Refusal(415, f"Unsupported Media Type: Content-Type must be {JSON}", "HTTP-09")
        length = headers.get("content-length", "0")
        # So many digits are too many bytes, whatever they say.
        if length.isdecimal() and (len(length) > 18 or int(length) > max_body):
            return too_large(max_body)
    if verb == "GET" and not events:
        return Refusal(406, f"Not Acceptable: Accept must list {EVENT_STREAM}", "HTTP-31")
    session = headers.get(SESSION_ID)
    if session is not None and not is_visible_ascii(session):
        return Refusal(400, "Bad Request: Mcp-Session-Id is not a session id", "HTTP-52")
    return Head(
        verb, json, events, session, headers.get(PROTOCOL_VERSION), headers.get(LAST_EVENT_ID)
    )


def too_large(max_body: int) -> Refusal:
    """The body is beyond the limit. The connection cannot be used again: the rest is not read."""
    detail = f"Content Too Large: more than {max_body} bytes (max_body)"
    return Refusal(413, detail, "HTTP-09", (("Connection", "close"),))


def judge_body(body: bytes) -> Decoded | Refusal:
    """The message, or batch of messages, in the body of a POST."""
    notes: list[str] = []
    message = jsonrpc.decode(body, notes)
    if isinstance(message, Malformed):
        id = None if message.answers or message.notifies else message.id
        return Refusal(400, message.error.message, message.rule, code=message.error.code, id=id)
    return Decoded(message, body, tuple(notes))


def stands_alone(decoded: Decoded, version: str | None, stateless: Sequence[Revision]) -> bool:
    """Whether a POST belongs to no session, in a server that speaks `stateless`: because its header names
    such a revision, or its body any.
    """
    if any(row.name == version for row in stateless):
        return True
    message = decoded.message
    if not stateless or not isinstance(message, Request) or message.method == "initialize":
        return False
    return named_revision(message, decoded.frame) is not None


def judge_mirrors(
    decoded: Decoded,
    headers: Mapping[str, str],
    stateless: Sequence[Revision],
    parameters: Mapping[str, Mapping[str, mirrors.Path]],
) -> Refusal | None:
    """Whether the headers of a request that stands alone say what its body says (HDR-06). What is no
    request must be a single notification (HTTP26-10).
    """
    message = decoded.message
    if isinstance(message, Notification):
        return None
    if opens_session(decoded) and PROTOCOL_VERSION not in headers:
        # A client of the other era: it knows no such header, and is told what is spoken here (VERS26-10).
        return None
    if not isinstance(message, Request):
        return Refusal(400, "Invalid request: one request or notification in a POST", "HTTP26-10")
    named = named_revision(message, decoded.frame)
    problem = mirrors.judge(headers, message, named, stateless, parameters)
    if problem is None:
        return None
    return Refusal(
        400, f"Header mismatch: {problem}", "HDR-06", code=HEADER_MISMATCH, id=message.id
    )


_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
}


def status_of(answer: bytes) -> int:
    """The HTTP status of an answer that stands alone, as long as nothing was written (HTTP26-53)."""
    # Errors are small, and where they begin is known: they are written here.
    if answer.find(b'"error":{"code":', 0, 200) < 0:
        return 200
    message = jsonrpc.decode(answer, [])
    return _STATUS.get(message.error.code, 200) if isinstance(message, ErrorResponse) else 200


def opens_session(decoded: Decoded) -> bool:
    """Whether it is the initialize that begins a session."""
    message = decoded.message
    return isinstance(message, Request) and message.method == "initialize"


def requests_in(decoded: Decoded) -> tuple[jsonrpc.RequestId, ...] | None:
    """The ids of the requests that want an answer; None if nothing in it wants any."""
    message = decoded.message
    if isinstance(message, Request):
        return (message.id,)
    if not isinstance(message, Batch):
        return None
    members = [member for member, _ in message.members]
    ids = tuple(member.id for member in members if isinstance(member, Request))
    return ids if ids or any(isinstance(member, Malformed) for member in members) else None


def judge_version(
    version: str | None, agreed: Revision | None, spoken: Sequence[Revision]
) -> Revision | Refusal:
    """The revision of a request: that of its session if there is one, else what the header says, else
    what no header means (HTTP-67, HTTP-68).
    """
    names = [str(row) for row in spoken]
    if version is not None and version not in names:
        return Refusal(
            400,
            f"Bad Request: unsupported protocol version {version[:40]!r}; "
            f"this server speaks {', '.join(names)}",
            "HTTP-67",
            data={"requested": version[:40], "supported": names},
        )
    if agreed is not None:
        return agreed
    if version is not None:
        return REVISIONS[version]
    return UNNAMED if UNNAMED in spoken else spoken[0]


def judge_batch(decoded: Decoded, revision: Revision) -> Refusal | None:
    """Whether the revision has what was sent (BATCH-10)."""
    if isinstance(decoded.message, Batch) and not revision.batching:
        detail = f"Invalid request: revision {revision} has no batches"
        return Refusal(400, detail, "BATCH-10")
    return None


def sessions_full() -> Refusal:
    """There are as many sessions as may be."""
    detail = "Service Unavailable: too many sessions are open"
    return Refusal(503, detail, "", (("Retry-After", "60"),))


def session_missing() -> Refusal:
    """The server needs a session id, and the request has none (HTTP-55)."""
    detail = "Bad Request: Mcp-Session-Id is missing; initialize opens a session"
    return Refusal(400, detail, "HTTP-55")


def session_unknown() -> Refusal:
    """There is no such session (any more), or it is somebody else's, which is not told (HTTP-56)."""
    detail = "Not Found: the session is over or never was; initialize opens a new one"
    return Refusal(404, detail, "HTTP-56")
