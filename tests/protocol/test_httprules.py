"""The rules of an HTTP request, without a socket: what is served, and what is refused and how."""

from __future__ import annotations

import json

import pytest

from mcpcore.protocol import httprules
from mcpcore.protocol.headers import accepts, is_visible_ascii, joined, media_type
from mcpcore.protocol.httprules import Access, Head, Refusal
from mcpcore.revisions import HANDSHAKE, REVISIONS, lookup

POST = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "content-length": "10",
}


@pytest.mark.parametrize(
    ("accept", "json", "events"),
    [
        (None, True, True),
        ("", True, True),
        ("*/*", True, True),
        ("application/json, text/event-stream", True, True),
        ("Application/JSON;charset=utf-8, TEXT/Event-Stream; q=0.5", True, True),
        ("application/*, text/event-stream;q=0.9", True, True),
        ("application/json", True, False),
        ("text/event-stream", False, True),
        ("text/*", False, True),
        ("text/html", False, False),
        ("*/*, application/json;q=0", False, True),
        ("*/*;q=0.0", False, False),
        ("application/*;q=0, application/json;q=1", True, False),
        ("application/json;q=much", True, False),
        ("application/jsonp", False, False),
    ],
)
def test_http_08_accept_is_negotiated(accept: str | None, json: bool, events: bool) -> None:
    """F-088: wildcards, parameters and weights; no header admits everything."""
    assert accepts(accept, "application/json") is json
    assert accepts(accept, "text/event-stream") is events


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("text/event-stream;charset=UTF-8", "text/event-stream"),
        (None, ""),
    ],
)
def test_media_types_are_compared_without_parameters(value: str | None, expected: str) -> None:
    """F-089."""
    assert media_type(value) == expected


def test_headers_of_one_name_are_joined() -> None:
    pairs = [(b"mcp-session-id", b"a"), (b"mcp-session-id", b"b"), (b"x", b"\xe9")]
    assert joined(pairs) == {"mcp-session-id": "a, b", "x": "\xe9"}


@pytest.mark.parametrize(
    ("value", "good"), [("", False), ("abc-1!~", True), ("a b", False), ("a,b", True), ("é", False)]
)
def test_http_52_a_session_id_is_visible_ascii(value: str, good: bool) -> None:
    assert is_visible_ascii(value) is good


LOOPBACK = Access()
PUBLIC = Access(
    allowed_hosts=(
        "mcp.example.com",
        "other.example.com:8443",
    )
)
NAMED = Access(allowed_hosts=("mcp.example.com",), allowed_origins=("https://app.example.com",))
OPEN = Access(allowed_hosts=("*",), allowed_origins=("*",))


@pytest.mark.parametrize(
    ("access", "host", "origin", "allowed"),
    [
        # HTTP-04: no Origin is no wrong one. F-090: any port, IPv6 included.
        (LOOPBACK, "localhost:8000", None, True),
        (LOOPBACK, "LOCALHOST", None, True),
        (LOOPBACK, "127.0.0.1:1", "http://localhost:5173", True),
        (LOOPBACK, "[::1]:8000", "http://[::1]:3000", True),
        (LOOPBACK, "evil.example.com", None, False),
        (LOOPBACK, "localhost.evil.example.com", None, False),
        (LOOPBACK, "localhost:8000", "http://evil.example.com", False),
        (LOOPBACK, "localhost:8000", "http://localhost.evil.example.com", False),
        (LOOPBACK, "localhost:8000", "http://evil.example.com#localhost", False),
        (LOOPBACK, "localhost:8000", "http://user@localhost", False),
        (LOOPBACK, "localhost:8000", "null", False),
        (LOOPBACK, "localhost:8000", "file://localhost", False),
        (LOOPBACK, "localhost:port", None, False),
        (LOOPBACK, "", None, False),
        (PUBLIC, "mcp.example.com", None, True),
        (PUBLIC, "MCP.example.com:443", "https://mcp.example.com", True),
        (PUBLIC, "other.example.com:8443", None, True),
        (PUBLIC, "other.example.com", None, False),
        (PUBLIC, "mcp.example.com", "https://app.example.com", False),
        (PUBLIC, "127.0.0.1", None, True),
        (NAMED, "mcp.example.com", "https://APP.example.com", True),
        (NAMED, "mcp.example.com", "http://app.example.com", False),
        (NAMED, "mcp.example.com", "https://mcp.example.com", False),
        (NAMED, "mcp.example.com", "http://localhost:3000", True),
        (OPEN, "anything", "http://anywhere", True),
        (Access(allowed_hosts=("*",)), "anything", "http://anything", False),
    ],
)
def test_http_02_where_requests_may_come_from(
    access: Access,
    host: str,
    origin: str | None,
    allowed: bool,
) -> None:
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    refusal = httprules.judge_access(headers, access)
    assert (refusal is None) is allowed
    if refusal is not None:
        # HTTP-03: the status; the message names the setting to change.
        assert refusal.status == 403
        assert "allowed_" in refusal.detail


@pytest.mark.parametrize(
    ("method", "changes", "status"),
    [
        ("POST", {}, None),
        ("POST", {"content-type": "application/json; charset=utf-8"}, None),
        ("POST", {"content-type": "text/plain"}, 415),
        ("POST", {"content-type": None}, 415),
        ("POST", {"content-type": "application/json, application/json"}, 415),
        ("POST", {"accept": "text/html"}, 406),
        ("POST", {"accept": "application/json"}, None),
        ("POST", {"content-length": "101"}, 413),
        ("POST", {"content-length": "100"}, None),
        ("POST", {"mcp-session-id": "abc"}, None),
        ("POST", {"mcp-session-id": "a, b"}, 400),
        ("POST", {"mcp-session-id": ""}, 400),
        ("GET", {}, None),
        ("GET", {"accept": "application/json"}, 406),
        ("GET", {"accept": None}, None),
        ("DELETE", {}, None),
        ("PUT", {}, 405),
        ("HEAD", {}, 405),
        ("OPTIONS", {}, 405),
        ("post", {}, 405),
    ],
)
def test_the_head_of_a_request(
    method: str, changes: dict[str, str | None], status: int | None
) -> None:
    """F-071: refused before anything is decoded or any session exists."""
    headers = {name: value for name, value in (POST | changes).items() if value is not None}
    verdict = httprules.judge_head(method, headers, max_body=100)
    if status is None:
        assert isinstance(verdict, Head)
        assert verdict.verb == method
    else:
        assert isinstance(verdict, Refusal)
        assert verdict.status == status
        if status == 405:
            assert verdict.headers == (("Allow", "POST, GET, DELETE"),)


def test_a_server_without_sessions_takes_posts_only() -> None:
    """F-073: 405 says that there is no such stream."""
    verdict = httprules.judge_head("GET", POST, verbs=("POST",))
    assert isinstance(verdict, Refusal)
    assert (verdict.status, verdict.headers) == (405, (("Allow", "POST"),))


def test_what_the_head_says() -> None:
    headers = {"mcp-session-id": "s", "mcp-protocol-version": "v", "last-event-id": "1-2"}
    assert httprules.judge_head("GET", headers) == Head("GET", True, True, "s", "v", "1-2")


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"{", -32700, None),
        (b"", -32700, None),
        (b"\xff{}", -32700, None),
        (b"[]", -32600, None),
        (b'"text"', -32600, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","method":5}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"result":5}', -32600, None),
    ],
)
def test_http_09_a_body_that_is_no_message_gets_400(body: bytes, code: int, id: int | None) -> None:
    refusal = httprules.judge_body(body)
    assert isinstance(refusal, Refusal)
    assert refusal.status == 400
    answer = json.loads(refusal.body)
    assert answer["error"]["code"] == code
    assert answer.get("id") == id
    assert ("id" in answer) is (id is not None)


REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        (REQUEST, (1,)),
        (NOTIFICATION, None),
        (ANSWER, None),
        (b"[" + NOTIFICATION + b"," + ANSWER + b"]", None),
        (b"[" + NOTIFICATION + b"," + REQUEST + b"]", (1,)),
        (b"[5]", ()),
    ],
)
def test_http_10_what_wants_an_answer(body: bytes, ids: tuple[int, ...] | None) -> None:
    decoded = httprules.judge_body(body)
    assert not isinstance(decoded, Refusal)
    assert httprules.requests_in(decoded) == ids
    assert not httprules.opens_session(decoded)


def test_initialize_opens_a_session() -> None:
    decoded = httprules.judge_body(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}')
    assert not isinstance(decoded, Refusal)
    assert httprules.opens_session(decoded)


SPOKEN = lookup(HANDSHAKE)


@pytest.mark.parametrize(
    ("version", "agreed", "expected"),
    [
        # HTTP-68: a session knows its own; without one, no header means one certain revision.
        (None, "2025-11-25", "2025-11-25"),
        (None, None, "2025-03-26"),
        ("2025-06-18", None, "2025-06-18"),
        ("2025-06-18", "2025-06-18", "2025-06-18"),
        # HTTP-67.
        ("1999-01-01", None, None),
        ("junk", "2025-11-25", None),
        ("2025-06-18, 2025-06-18", "2025-06-18", None),
    ],
)
def test_the_revision_of_a_request(
    version: str | None, agreed: str | None, expected: str | None
) -> None:
    row = None if agreed is None else REVISIONS[agreed]
    verdict = httprules.judge_version(version, row, SPOKEN)
    if expected is None:
        assert isinstance(verdict, Refusal)
        assert verdict.status == 400
        error = json.loads(verdict.body)["error"]
        assert error["data"]["supported"] == list(HANDSHAKE)
        assert "2025-11-25" in error["message"]
    else:
        assert str(verdict) == expected


def test_no_header_means_the_newest_where_the_old_revision_is_not_spoken() -> None:
    newest = lookup(["2025-11-25"])
    assert str(httprules.judge_version(None, None, newest)) == "2025-11-25"


@pytest.mark.parametrize(("revision", "refused"), [("2025-03-26", False), ("2025-06-18", True)])
def test_batch_10_batches_in_one_revision(revision: str, refused: bool) -> None:
    decoded = httprules.judge_body(b"[" + REQUEST + b"]")
    assert not isinstance(decoded, Refusal)
    refusal = httprules.judge_batch(decoded, REVISIONS[revision])
    assert (refusal is not None) is refused
    assert refusal is None or refusal.status == 400


def test_sessions_that_are_missing_or_unknown() -> None:
    """F-068: 400 only for a missing id, 404 for one that is not known."""
    assert httprules.session_missing().status == 400
    assert httprules.session_unknown().status == 404


def test_too_many_sessions_are_refused_with_a_time_to_come_back() -> None:
    refusal = httprules.sessions_full()
    assert refusal.status == 503
    assert refusal.headers == (("Retry-After", "60"),)


def test_a_body_that_is_too_large_ends_the_connection() -> None:
    refusal = httprules.too_large(10)
    assert refusal.status == 413
    assert ("Connection", "close") in refusal.headers
    assert "max_body" in refusal.detail
