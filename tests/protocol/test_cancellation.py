"""Cancellation, both ways and in every race."""

from __future__ import annotations

import json

import pytest
from pair import OTHER, ConnectionPair

from mcpcore.jsonrpc import ErrorObject
from mcpcore.protocol import Cancel, ErrorResponse, Request, Response, Stale
from mcpcore.protocol.lifecycle import Role
from mcpcore.revisions import HANDSHAKE

ROLES: tuple[Role, Role] = ("client", "server")
pytestmark = pytest.mark.parametrize("sender", ROLES)


def asking(sender: Role) -> ConnectionPair:
    """A session in which the request 1 of `sender` is open."""
    pair = ConnectionPair.ready()
    pair.send(sender, Request(1, "ping"))
    return pair


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize("id", [0, "0", "", -5])
def test_a_cancelled_call_is_over_at_once_and_never_answered(
    sender: Role, id: int | str, revision: str
) -> None:
    """F-039, CANC-01, CANC-06, CANC-13."""
    pair = ConnectionPair.ready(revision)
    pair.send(sender, Request(id, "ping"))
    assert pair.send(sender, Cancel(id, "enough")) == [Cancel(id, "enough")]
    assert json.loads(pair.wire[-1][1]) == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": id, "reason": "enough"},
    }
    assert pair.side[sender].in_flight == ()
    assert pair.side[OTHER[sender]].send(Response(id, {})) is None


def test_a_reason_may_be_left_out(sender: Role) -> None:
    pair = asking(sender)
    assert pair.send(sender, Cancel(1)) == [Cancel(1, None)]
    assert "reason" not in json.loads(pair.wire[-1][1])["params"]


def test_an_error_for_a_cancelled_request_is_not_sent_either(sender: Role) -> None:
    pair = asking(sender)
    pair.send(sender, Cancel(1))
    error = ErrorResponse(1, ErrorObject(0, "Request cancelled"))
    assert pair.side[OTHER[sender]].send(error) is None


def test_after_the_unsent_answer_the_request_is_forgotten(sender: Role) -> None:
    pair = asking(sender)
    pair.send(sender, Cancel(1))
    assert pair.side[OTHER[sender]].send(Response(1, {})) is None
    assert pair.deliver(sender, b'{"jsonrpc":"2.0","id":1,"method":"ping"}') == [Request(1, "ping")]


def test_the_cancellation_crosses_the_answer(sender: Role) -> None:
    """CANC-08, CANC-09."""
    pair = asking(sender)
    answer = pair.side[OTHER[sender]].send(Response(1, {}))
    cancellation = pair.side[sender].send(Cancel(1))
    assert answer is not None
    assert cancellation is not None
    (stale,) = pair.deliver(sender, cancellation)
    assert stale == Stale("a cancellation of nothing that is open", 1)
    (stale,) = pair.deliver(OTHER[sender], answer)
    assert stale == Stale("an answer to nothing that is open", 1)


def test_the_cancellation_crosses_an_error(sender: Role) -> None:
    pair = asking(sender)
    answer = pair.side[OTHER[sender]].send(ErrorResponse(1, ErrorObject(1, "m")))
    pair.send(sender, Cancel(1))
    (stale,) = pair.deliver(OTHER[sender], answer or b"")
    assert isinstance(stale, Stale)


def test_cancelling_twice_sends_one_cancellation(sender: Role) -> None:
    """CANC-09."""
    pair = asking(sender)
    assert pair.side[sender].send(Cancel(1)) is not None
    assert pair.side[sender].send(Cancel(1)) is None


def test_a_second_cancellation_of_the_peer_is_stale(sender: Role) -> None:
    """CANC-09, CANC-10."""
    pair = asking(sender)
    pair.send(sender, Cancel(1))
    (stale,) = pair.deliver(*pair.wire[-1])
    assert isinstance(stale, Stale)


def test_cancelling_what_is_over_sends_nothing(sender: Role) -> None:
    """CANC-02."""
    pair = asking(sender)
    pair.send(OTHER[sender], Response(1, {}))
    assert pair.side[sender].send(Cancel(1)) is None
    assert pair.side[sender].send(Cancel("never was")) is None


@pytest.mark.parametrize(
    "params",
    [
        "",
        ',"params":{}',
        ',"params":{"requestId":null}',
        ',"params":{"requestId":"nope"}',
        ',"params":{"requestId":"1"}',
        ',"params":{"requestId":{}}',
        ',"params":{"requestId":1.5}',
        ',"params":{"requestId":true}',
        ',"params":{"requestId":1,"reason":5}',
        ',"params":{"requestId":99}',
    ],
)
def test_a_cancellation_of_nothing_is_passed_over(sender: Role, params: str) -> None:
    """CANC-10: no answer, and the request 1 goes on."""
    pair = asking(sender)
    frame = '{"jsonrpc":"2.0","method":"notifications/cancelled"%s}' % params
    (stale,) = pair.deliver(sender, frame.encode())
    assert isinstance(stale, Stale)
    assert pair.send(OTHER[sender], Response(1, {})) == [Response(1, {})]


def test_nobody_cancels_the_calls_of_the_other_side(sender: Role) -> None:
    """CANC-02: ids belong to a direction."""
    pair = asking(sender)
    assert pair.side[OTHER[sender]].send(Cancel(1)) is None
    frame = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    (stale,) = pair.deliver(OTHER[sender], frame)
    assert isinstance(stale, Stale)
    assert pair.side[sender].in_flight == (1,)


def test_cancelling_one_leaves_the_others(sender: Role) -> None:
    pair = ConnectionPair.ready()
    for id in (1, 2, 3):
        pair.send(sender, Request(id, "ping"))
    pair.send(sender, Cancel(2))
    assert pair.side[sender].in_flight == (1, 3)
    for id in (3, 1):
        assert pair.send(OTHER[sender], Response(id, {})) == [Response(id, {})]


def test_after_the_end_a_cancellation_is_stale(sender: Role) -> None:
    pair = asking(sender)
    pair.side[OTHER[sender]].lost()
    (stale,) = pair.send(sender, Cancel(1))
    assert isinstance(stale, Stale)
