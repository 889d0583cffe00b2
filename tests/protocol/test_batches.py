"""Batches: answered in the one revision that has them, refused in the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pair import OTHER, ConnectionPair

from mcpcore.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, ErrorObject
from mcpcore.protocol import (
    Cancel,
    ErrorResponse,
    Failed,
    Forgiven,
    Notification,
    Progress,
    Refused,
    Request,
    Response,
    Stale,
)
from mcpcore.protocol.lifecycle import Role
from mcpcore.revisions import HANDSHAKE, REVISIONS

ROLES: tuple[Role, Role] = ("client", "server")
BATCHES = next(name for name in HANDSHAKE if REVISIONS[name].batching)
OTHERS = [name for name in HANDSHAKE if name != BATCHES]
both_ways = pytest.mark.parametrize("sender", ROLES)


def ping(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def note(method: str = "notifications/x", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {})


def array(*members: Any) -> bytes:
    return json.dumps(members).encode()


def replies(events: list[Any]) -> list[bytes]:
    return [event.reply for event in events if isinstance(event, Refused) and event.reply]


@both_ways
def test_two_requests_are_answered_in_one_array(sender: Role) -> None:
    """BATCH-01, BATCH-04, BATCH-09."""
    pair = ConnectionPair.ready(BATCHES)
    assert pair.deliver(sender, array(ping(1), ping("1"))) == [
        Request(1, "ping"),
        Request("1", "ping"),
    ]
    other = pair.side[OTHER[sender]]
    assert other.send(Response("1", {"n": 2})) is None
    answer = other.send(ErrorResponse(1, ErrorObject(5, "no")))
    assert [one["id"] for one in json.loads(answer or b"")] == ["1", 1]


@both_ways
def test_a_batch_of_one_is_answered_with_a_batch_of_one(sender: Role) -> None:
    pair = ConnectionPair.ready(BATCHES)
    pair.deliver(sender, array(ping(1)))
    answer = pair.side[OTHER[sender]].send(Response(1, {}))
    assert json.loads(answer or b"") == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@both_ways
def test_a_mixed_batch(sender: Role) -> None:
    """BATCH-08: requests, notifications, garbage and what is not found, each by itself."""
    pair = ConnectionPair.ready(BATCHES)
    missing = {"jsonrpc": "2.0", "id": 2, "method": "no/such"}
    broken = {"jsonrpc": "2.0", "id": 3, "method": 5}
    seen = pair.deliver(sender, array(ping(1), note(), missing, broken, note(), ping(4)))
    assert [type(event) for event in seen] == [
        Request,
        Notification,
        Refused,
        Refused,
        Notification,
        Request,
    ]
    assert replies(seen) == []
    other = pair.side[OTHER[sender]]
    assert other.send(Response(4, {})) is None
    answer = json.loads(other.send(Response(1, {})) or b"")
    assert {one["id"]: one.get("error", {}).get("code") for one in answer} == {
        1: None,
        2: METHOD_NOT_FOUND,
        3: INVALID_REQUEST,
        4: None,
    }


def test_garbage_alone_is_answered_at_once_piece_by_piece() -> None:
    """BATCH-08."""
    pair = ConnectionPair.ready(BATCHES)
    seen = pair.deliver("client", b'[1,"x",{},[],{"jsonrpc":"2.0","method":5}]')
    assert [type(event) for event in seen] == [Refused] * 5
    (reply,) = replies(seen)
    answer = json.loads(reply)
    assert [one["error"]["code"] for one in answer] == [INVALID_REQUEST] * 4
    assert all("id" not in one for one in answer)


def test_a_batch_of_notifications_is_not_answered() -> None:
    """BATCH-08."""
    pair = ConnectionPair.ready(BATCHES)
    seen = pair.deliver("client", array(note(), note("notifications/y")))
    assert [type(event) for event in seen] == [Notification, Notification]


def test_an_empty_batch_is_answered_with_one_error_and_no_array() -> None:
    """BATCH-08."""
    (refused,) = ConnectionPair.ready(BATCHES).deliver("client", b"[]")
    (reply,) = replies([refused])
    answer = json.loads(reply)
    assert answer["error"]["code"] == INVALID_REQUEST
    assert "id" not in answer


def test_a_batch_that_is_no_json_is_answered_with_one_error() -> None:
    (refused,) = ConnectionPair.ready(BATCHES).deliver("client", array(ping(1))[:-1])
    (reply,) = replies([refused])
    assert json.loads(reply)["error"]["code"] == PARSE_ERROR


@both_ways
def test_a_cancelled_member_is_left_out_of_the_answer(sender: Role) -> None:
    """CANC-06."""
    pair = ConnectionPair.ready(BATCHES)
    pair.deliver(sender, array(ping(1), ping(2), note("notifications/cancelled", requestId=1)))
    other = pair.side[OTHER[sender]]
    assert other.send(Response(1, {})) is None
    answer = json.loads(other.send(Response(2, {})) or b"")
    assert [one["id"] for one in answer] == [2]


@both_ways
def test_the_last_open_member_is_cancelled(sender: Role) -> None:
    pair = ConnectionPair.ready(BATCHES)
    seen = pair.deliver(sender, array(ping(1), ping(2)))
    assert len(seen) == 2
    other = pair.side[OTHER[sender]]
    assert other.send(Response(1, {})) is None
    frame = array(note("notifications/cancelled", requestId=2))[1:-1]
    assert pair.deliver(sender, frame) == [Cancel(2)]
    answer = json.loads(other.send(Response(2, {})) or b"")
    assert [one["id"] for one in answer] == [1]


@both_ways
def test_when_all_members_are_cancelled_nothing_is_sent(sender: Role) -> None:
    pair = ConnectionPair.ready(BATCHES)
    cancel = note("notifications/cancelled", requestId=1)
    seen = pair.deliver(sender, array(ping(1), cancel))
    assert [type(event) for event in seen] == [Request, Cancel]
    assert pair.side[OTHER[sender]].send(Response(1, {})) is None


@both_ways
def test_an_id_twice_in_one_batch(sender: Role) -> None:
    """F-029."""
    pair = ConnectionPair.ready(BATCHES)
    seen = pair.deliver(sender, array(ping(1), ping(1)))
    assert [type(event) for event in seen] == [Request, Refused]
    answer = json.loads(pair.side[OTHER[sender]].send(Response(1, {})) or b"")
    assert [one["id"] for one in answer] == [1, 1]
    assert sum("error" in one for one in answer) == 1


@both_ways
def test_answers_in_a_batch_end_their_calls(sender: Role) -> None:
    pair = ConnectionPair.ready(BATCHES)
    pair.send(sender, Request(1, "ping"))
    pair.send(sender, Request(2, "ping", {"_meta": {"progressToken": 2}}))
    pair.send(sender, Request(3, "ping"))
    frame = array(
        note("notifications/progress", progressToken=2, progress=1),
        {"jsonrpc": "2.0", "id": 2, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m"}},
        {"jsonrpc": "2.0", "id": 3, "result": []},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        ping(1),
    )
    seen = pair.deliver(OTHER[sender], frame)
    kinds = [Progress, Response, ErrorResponse, Failed, Stale, Request]
    assert [type(event) for event in seen] == kinds
    assert pair.side[sender].in_flight == ()


@both_ways
def test_progress_for_a_member_of_a_batch(sender: Role) -> None:
    pair = ConnectionPair.ready(BATCHES)
    request = ping(1) | {"params": {"_meta": {"progressToken": "t"}}}
    pair.deliver(sender, array(request, ping(2)))
    other = pair.side[OTHER[sender]]
    data = json.loads(other.send(Progress("t", 1)) or b"")
    assert data["params"]["progressToken"] == "t"
    assert other.send(Progress("t", 2)) is not None


def test_initialize_in_a_batch_opens_no_session() -> None:
    """BATCH-03."""
    params = {
        "protocolVersion": BATCHES,
        "capabilities": {},
        "clientInfo": {"name": "n", "version": "1"},
    }
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    pair = ConnectionPair()
    (refused,) = pair.deliver("client", array(opening))
    assert refused.rule == "BATCH-10"
    assert pair.server.peer is None
    pair.handshake(BATCHES)
    seen = pair.deliver("client", array(opening, ping(2)))
    assert [type(event) for event in seen] == [Refused, Request]
    answer = json.loads(pair.server.send(Response(2, {})) or b"")
    assert [one.get("error", {}).get("code") for one in answer] == [INVALID_REQUEST, None]


@pytest.mark.parametrize("revision", OTHERS)
@pytest.mark.parametrize("frame", [array(ping(1), ping(2)), array(note()), b"[1]"])
def test_a_server_refuses_a_batch_where_there_are_none(revision: str, frame: bytes) -> None:
    """BATCH-10: one error, and no member is executed."""
    (refused,) = ConnectionPair.ready(revision).deliver("client", frame)
    assert refused.rule == "BATCH-10"
    (reply,) = replies([refused])
    answer = json.loads(reply)
    assert answer["error"]["code"] == INVALID_REQUEST
    assert "id" not in answer
    assert revision in answer["error"]["message"]


def test_a_batch_before_initialize_is_refused() -> None:
    (refused,) = ConnectionPair().deliver("client", array(ping(1)))
    assert refused.rule == "BATCH-10"
    assert "before initialize" in refused.error


@pytest.mark.parametrize("revision", OTHERS)
def test_a_client_forgives_a_batch_and_answers_message_by_message(revision: str) -> None:
    """BATCH-10, VERS-09: what the peer may not send, this side does not send either."""
    pair = ConnectionPair.ready(revision)
    pair.send("client", Request(7, "ping"))
    missing = {"jsonrpc": "2.0", "id": 2, "method": "no/such"}
    frame = array({"jsonrpc": "2.0", "id": 7, "result": {}}, ping(1), missing)
    seen = pair.deliver("server", frame)
    assert [type(event) for event in seen] == [Forgiven, Response, Request, Refused]
    assert seen[0].rule == "BATCH-10"
    (reply,) = replies(seen)
    assert json.loads(reply)["id"] == 2
    assert json.loads(pair.client.send(Response(1, {})) or b"")["id"] == 1


@pytest.mark.parametrize("revision", OTHERS)
def test_a_strict_client_refuses_a_batch(revision: str) -> None:
    pair = ConnectionPair.ready(revision, strict="client")
    (refused,) = pair.deliver("server", array(ping(1)))
    assert isinstance(refused, Refused)
    assert refused.rule == "BATCH-10"


def test_a_deviation_in_a_batch_is_counted() -> None:
    pair = ConnectionPair.ready(BATCHES)
    odd = ping(1) | {"params": None}
    seen = pair.deliver("client", array(odd, ping(2)))
    assert sorted(type(event).__name__ for event in seen) == ["Forgiven", "Request", "Request"]
    (forgiven,) = [event for event in seen if isinstance(event, Forgiven)]
    assert forgiven.rule == "JRPC-14"


def test_a_deviation_in_a_batch_costs_a_strict_side_that_member() -> None:
    pair = ConnectionPair.ready(BATCHES, strict="server")
    odd = ping(1) | {"params": None}
    seen = pair.deliver("client", array(odd, ping(2)))
    assert [type(event) for event in seen] == [Refused, Request]
    answer = json.loads(pair.server.send(Response(2, {})) or b"")
    assert [one.get("error", {}).get("code") for one in answer] == [INVALID_REQUEST, None]


def test_the_channel_ends_while_a_batch_is_open() -> None:
    pair = ConnectionPair.ready(BATCHES)
    pair.deliver("client", array(ping(1), ping(2)))
    pair.server.send(Response(1, {}))
    pair.server.lost()
    assert pair.server.send(Response(2, {})) is None


@pytest.mark.parametrize("revision", [name for name in HANDSHAKE if not REVISIONS[name].batching])
def test_a_batch_is_not_taken_apart_where_there_are_none(revision: str) -> None:
    """One answer for a million members, and not one for each."""
    server = ConnectionPair.ready(revision).server
    (event,) = server.receive(b"[" + b"1," * 1_000_000 + b"1]")
    assert isinstance(event, Refused)
    assert json.loads(event.reply or b"")["error"]["code"] == -32600


def test_a_broken_array_is_a_parse_error_everywhere() -> None:
    for revision in HANDSHAKE:
        (event,) = ConnectionPair.ready(revision).server.receive(b"[1,")
        assert isinstance(event, Refused)
        assert json.loads(event.reply or b"")["error"]["code"] == -32700
