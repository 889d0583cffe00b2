"""Frames that were read before they were handed on, and requests that were never delivered."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from mcpcore import jsonrpc
from mcpcore import types as t
from mcpcore.errors import ConnectionLost
from mcpcore.jsonrpc import Batch, Malformed, Notification, Request, Response
from mcpcore.protocol.connection import Connection
from mcpcore.protocol.events import Failed, Forgiven, Progress, Refused, Undelivered
from mcpcore.protocol.framing import Decoded
from mcpcore.revisions import REVISIONS


def decoded(frame: bytes) -> Decoded:
    notes: list[str] = []
    message = jsonrpc.decode(frame, notes)
    assert not isinstance(message, Malformed)
    return Decoded(message, frame, tuple(notes))


def ready(revision: str = "2025-11-25", **options: Any) -> Connection:
    connection = Connection("server", **options)
    connection.adopt(REVISIONS[revision], t.ServerCapabilities(tools=t.ListChanged()))
    return connection


REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


def test_a_frame_that_was_read_before_means_the_same() -> None:
    assert (
        ready().receive(decoded(REQUEST)) == ready().receive(REQUEST) == [Request(1, "tools/list")]
    )


@pytest.mark.parametrize("strict", [False, True])
def test_a_batch_is_refused_however_it_comes(strict: bool) -> None:
    """BATCH-10, in a revision without them."""
    batch = b"[" + REQUEST + b"]"
    given = decoded(batch)
    assert isinstance(given.message, Batch)
    (refused,) = ready(strict=strict).receive(given)
    assert isinstance(refused, Refused)
    assert refused.rule == "BATCH-10"
    assert ready(strict=strict).receive(batch) == [refused]


def test_what_was_adopted_needs_no_handshake_and_knows_no_client() -> None:
    connection = ready("2025-06-18")
    assert str(connection.revision) == "2025-06-18"
    assert connection.client_capabilities == t.ClientCapabilities()
    assert connection.receive(REQUEST) == [Request(1, "tools/list")]
    assert connection.is_open(1)
    connection.send(Response(1, {"tools": []}))
    assert not connection.is_open(1)


def test_a_request_that_was_not_delivered_is_over() -> None:
    connection = Connection("client")
    params = t.InitializeParams("2025-11-25", t.ClientCapabilities(), t.Implementation("c", "1"))
    connection.send(Request(1, "initialize", params))
    failure = Undelivered(1, ConnectionLost("refused"))
    assert connection.receive(failure) == [failure]
    assert connection.in_flight == ()
    # Initialize may be tried again, and nobody waits for the other any more.
    assert connection.receive(failure) == []
    connection.send(Request(2, "initialize", params))


@pytest.mark.parametrize(
    ("frame", "rule"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', "JRPC-09"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}', "JRPC-08"),
        (b'{"jsonrpc":"2.0","id":1}', "JRPC-08"),
    ],
)
def test_a_malformed_answer_fails_its_call_with_the_rule_it_broke(frame: bytes, rule: str) -> None:
    connection = Connection("client")
    params = t.InitializeParams("2025-11-25", t.ClientCapabilities(), t.Implementation("c", "1"))
    connection.send(Request(1, "initialize", params))
    (failed,) = connection.receive(frame)
    assert isinstance(failed, Failed)
    assert failed.rule == rule


def test_what_a_server_says_that_is_no_message() -> None:
    """On pipes it is a print; elsewhere it is what it is."""
    (forgiven,) = Connection("client").receive(b"listening on port 80")
    assert isinstance(forgiven, Forgiven)
    assert forgiven.rule == "STDIO-04"
    bad = jsonrpc.decode(b"listening", [])
    assert isinstance(bad, Malformed)
    (forgiven,) = Connection("client").receive(bad)
    assert isinstance(forgiven, Forgiven)
    assert forgiven.rule == "JRPC-17"


def test_what_was_written_here_is_known_by_its_beginning() -> None:
    assert jsonrpc.is_notification(jsonrpc.encode(Notification("notifications/progress")))
    assert not jsonrpc.is_notification(jsonrpc.encode(Request(1, "ping")))
    assert not jsonrpc.is_notification(jsonrpc.encode(Response(1, Raw(b"{}"))))


def test_escapes_that_only_look_like_half_a_character_are_left_alone() -> None:
    assert jsonrpc.mend_surrogates(rb'{"a":"\\ud800"}') is None
    assert jsonrpc.mend_surrogates(rb'{"a":"\\\ud800"}') == rb'{"a":"\\\ufffd"}'
    assert jsonrpc.mend_surrogates(rb'{"a":"\\ud800\udc00"}') == rb'{"a":"\\ud800\ufffd"}'


def test_progress_for_another_token_than_the_requests_own_is_not_sent() -> None:
    connection = ready()
    connection.receive(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":"t"}}}'
    )
    assert connection.send(Progress("other", 1, id=1)) is None
    assert connection.send(Progress("t", 1, id=1)) is not None


def test_any_request_may_come_to_nothing_on_its_way() -> None:
    client = Connection("client")
    params = t.InitializeParams("2025-11-25", t.ClientCapabilities(), t.Implementation("c", "1"))
    client.send(Request(1, "initialize", params))
    client.receive(
        b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},'
        b'"serverInfo":{"name":"s","version":"1"}}}'
    )
    client.send(Notification("notifications/initialized"))
    client.send(Request(2, "ping"))
    failure = Undelivered(2, ConnectionLost("refused"))
    assert client.receive(failure) == [failure]
    client.send(Request(3, "ping"))
    assert client.in_flight == (3,)


def test_an_array_that_is_no_json_is_a_parse_error_and_no_batch() -> None:
    bad = jsonrpc.refuse_batch(rb'["\ud800"', "no batches")
    assert bad.error.code == jsonrpc.PARSE_ERROR
    assert jsonrpc.refuse_batch(rb'["\ud800"]', "no batches").error.message.endswith("no batches")
