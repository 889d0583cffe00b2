"""The engine: what may cross, which answer belongs to which call, and what neither side can break."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from pair import CLIENT_ALL, OTHER, SERVER_ALL, ConnectionPair, agreement, offer

from mcpcore import types as t
from mcpcore.errors import CapabilityMissing, LocalProtocolError
from mcpcore.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, ErrorObject
from mcpcore.protocol import (
    Cancel,
    Connection,
    ErrorResponse,
    Failed,
    Forgiven,
    LineDecoder,
    Malformed,
    Notification,
    Progress,
    Refused,
    Request,
    Response,
    Stale,
    State,
)
from mcpcore.protocol.gate import Declared, Gate
from mcpcore.protocol.lifecycle import Role
from mcpcore.revisions import HANDSHAKE, METHODS, REVISIONS, Method

ROLES: tuple[Role, Role] = ("client", "server")
NEWEST, THIRD, BATCHES, OLDEST = HANDSHAKE


def error_of(event: Any) -> dict[str, Any]:
    """The whole answer that a refusal carries."""
    assert isinstance(event, Refused)
    assert event.reply is not None
    return dict(json.loads(event.reply))


def code_of(event: Any) -> int:
    return int(error_of(event)["error"]["code"])


# The life of a session.


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_a_session_from_the_first_word_to_the_last(revision: str) -> None:
    pair = ConnectionPair()
    assert (pair.client.state, pair.server.state) == (State.FRESH, State.FRESH)
    assert pair.client.revision is None
    (asked,) = pair.send("client", Request(pair.client.next_id(), "initialize", offer(revision)))
    assert asked.params["protocolVersion"] == revision
    assert (pair.client.state, pair.server.state) == (State.OFFERED, State.OFFERED)
    assert isinstance(pair.server.peer, t.InitializeParams)
    (answer,) = pair.send("server", Response(1, agreement(revision)))
    assert answer.result["protocolVersion"] == revision
    assert (pair.client.state, pair.server.state) == (State.AGREED, State.AGREED)
    assert str(pair.client.revision) == str(pair.server.revision) == revision
    assert isinstance(pair.client.peer, t.InitializeResult)
    (said,) = pair.send("client", Notification("notifications/initialized"))
    assert said == Notification("notifications/initialized")
    assert (pair.client.state, pair.server.state) == (State.READY, State.READY)
    (asked,) = pair.send("client", Request(2, "tools/call", t.CallToolParams(name="a")))
    assert asked == Request(2, "tools/call", {"name": "a"})
    assert pair.client.in_flight == (2,)
    (answer,) = pair.send("server", Response(2, t.CallToolResult(content=[])))
    assert answer == Response(2, {"content": []})
    assert pair.client.in_flight == ()
    assert pair.client.lost() == pair.server.lost() == ()
    assert pair.client.state is pair.server.state is State.CLOSED


def test_ids_are_new_each_time() -> None:
    """JRPC-05."""
    connection = Connection("client")
    assert [connection.next_id() for _ in range(3)] == [1, 2, 3]


def test_a_role_speaks_all_handshake_revisions_unless_told_otherwise() -> None:
    assert [str(row) for row in Connection("client").revisions] == list(HANDSHAKE)
    assert [str(row) for row in Connection("server", revisions=[OLDEST, NEWEST]).revisions] == [
        NEWEST,
        OLDEST,
    ]
    with pytest.raises(ValueError, match="unknown protocol revision"):
        Connection("client", revisions=["2025-01-01"])


@pytest.mark.parametrize("role", ROLES)
def test_nothing_but_the_opening_may_be_said_first(role: Role) -> None:
    connection = Connection(role)
    for event in (
        Request(1, "tools/list"),
        Request(1, "roots/list"),
        Notification("notifications/message", {"level": "info", "data": 1}),
        Notification("notifications/initialized"),
    ):
        with pytest.raises(LocalProtocolError, match="in state fresh"):
            connection.send(event)
    assert connection.in_flight == ()


@pytest.mark.parametrize("state", [State.OFFERED, State.AGREED])
def test_in_the_handshake_only_pings_and_log_messages_cross(state: State) -> None:
    """LIFE-06, LIFE-07, PING-01."""
    pair = ConnectionPair()
    pair.send("client", Request(0, "initialize", offer()))
    if state is State.AGREED:
        pair.send("server", Response(0, agreement()))
    assert pair.client.state is pair.server.state is state
    for role, method in (("client", "tools/list"), ("server", "roots/list")):
        with pytest.raises(LocalProtocolError, match=f"must not send {method}"):
            pair.send(role, Request(5, method))  # type: ignore[arg-type]
    for role in ROLES:
        assert pair.send(role, Request("p", "ping")) == [Request("p", "ping", UNSET)]
        assert pair.send(OTHER[role], Response("p", t.EmptyResult())) == [Response("p", {})]
    log = Notification("notifications/message", {"level": "info", "data": 1})
    assert pair.send("server", log) == [log]


def test_a_ping_before_initialize_is_served() -> None:
    """LIFE-01."""
    pair = ConnectionPair()
    assert pair.send("client", Request(1, "ping")) == [Request(1, "ping")]
    assert pair.send("server", Response(1, {})) == [Response(1, {})]


def test_a_request_before_initialize_is_refused_with_an_error_that_explains_itself() -> None:
    """F-048, LIFE-11."""
    pair = ConnectionPair()
    (refused,) = pair.deliver("client", b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}')
    answer = error_of(refused)
    assert (answer["id"], answer["error"]["code"]) == (7, INVALID_REQUEST)
    assert "not initialized" in answer["error"]["message"]
    assert refused.rule == "LIFE-11"
    pair.handshake()
    assert pair.server.state is State.READY


def test_a_server_that_speaks_first_is_refused() -> None:
    pair = ConnectionPair()
    (refused,) = pair.deliver("server", b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}')
    assert code_of(refused) == INVALID_REQUEST
    (stale,) = pair.deliver("server", b'{"jsonrpc":"2.0","method":"notifications/message"}')
    assert isinstance(stale, Stale)


@pytest.mark.parametrize("role", ROLES)
def test_after_the_end_nothing_is_sent_and_nothing_served(role: Role) -> None:
    pair = ConnectionPair.ready()
    pair.send(OTHER[role], Request(8, "ping"))
    engine = pair.side[role]
    engine.send(Request(5, "ping"))
    engine.send(Request("x", "ping"))
    assert engine.lost() == (5, "x")
    assert engine.lost() == ()
    assert engine.state is State.CLOSED
    assert engine.in_flight == ()
    assert engine.send(Response(8, {})) is None
    assert engine.send(ErrorResponse(8, ErrorObject(1, "m"))) is None
    assert engine.send(Cancel(5)) is None
    for event in (
        Request(9, "ping"),
        Notification("notifications/x"),
        Request(9, "initialize", offer()),
        Notification("notifications/initialized"),
    ):
        with pytest.raises(LocalProtocolError, match="in state closed"):
            engine.send(event)
    (late,) = engine.receive(b'{"jsonrpc":"2.0","id":5,"result":{}}')
    assert isinstance(late, Stale)
    (late,) = engine.receive(b'{"jsonrpc":"2.0","id":5,"method":"ping"}')
    assert isinstance(late, Refused)


# Between the answer and initialized.


def agreed(*, strict: Role | None = None) -> ConnectionPair:
    pair = ConnectionPair(
        Connection("client", strict=strict == "client"),
        Connection("server", strict=strict == "server"),
    )
    pair.send("client", Request(0, "initialize", offer()))
    pair.send("server", Response(0, agreement()))
    return pair


def test_a_request_before_initialized_is_served_and_counted() -> None:
    """F-047, LIFE-05."""
    pair = agreed()
    seen = pair.deliver("client", b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}')
    assert [type(event) for event in seen] == [Forgiven, Request]
    assert seen[0].rule == "LIFE-05"
    assert "tools/list" in seen[0].detail
    assert pair.server.send(Response(7, t.ListToolsResult(tools=[]))) is not None


def test_a_request_before_initialized_is_refused_by_a_strict_server() -> None:
    pair = agreed(strict="server")
    (refused,) = pair.deliver("client", b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}')
    assert refused.rule == "LIFE-05"
    answer = error_of(refused)
    assert (answer["id"], answer["error"]["code"]) == (7, INVALID_REQUEST)
    pair.send("client", Notification("notifications/initialized"))
    assert pair.send("client", Request(7, "tools/list")) == [Request(7, "tools/list")]


def test_an_early_request_of_the_server_is_served_and_counted() -> None:
    """LIFE-07."""
    pair = agreed()
    seen = pair.deliver("server", b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}')
    assert [type(event) for event in seen] == [Forgiven, Request]
    assert seen[0].rule == "LIFE-07"
    pair = agreed(strict="client")
    (refused,) = pair.deliver("server", b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}')
    assert isinstance(refused, Refused)
    assert refused.rule == "LIFE-07"


def test_an_early_request_that_does_not_exist_is_counted_and_refused() -> None:
    seen = agreed().deliver("client", b'{"jsonrpc":"2.0","id":7,"method":"tools/nope"}')
    assert [type(event) for event in seen] == [Forgiven, Refused]
    assert code_of(seen[1]) == METHOD_NOT_FOUND


@pytest.mark.parametrize(("sender", "rule"), [("client", "LIFE-05"), ("server", "LIFE-07")])
def test_an_early_notification_is_passed_on_and_counted(sender: Role, rule: str) -> None:
    method = "notifications/roots/list_changed"
    if sender == "server":
        method = "notifications/tools/list_changed"
    frame = b'{"jsonrpc":"2.0","method":"%s"}' % method.encode()
    seen = agreed().deliver(sender, frame)
    assert [type(event) for event in seen] == [Forgiven, Notification]
    assert seen[0].rule == rule
    (refused,) = agreed(strict=OTHER[sender]).deliver(sender, frame)
    assert isinstance(refused, Refused)
    assert (refused.rule, refused.reply) == (rule, None)


def test_a_second_initialized_is_stale() -> None:
    pair = ConnectionPair.ready()
    (stale,) = pair.deliver("client", b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert isinstance(stale, Stale)
    assert pair.server.state is State.READY
    (stale,) = ConnectionPair().deliver(
        "client", b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    )
    assert isinstance(stale, Stale)
    (stale,) = pair.deliver("server", b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert isinstance(stale, Stale)


# The gate.

NO_CLIENT, NO_SERVER = t.ClientCapabilities(), t.ServerCapabilities()
EVERY_METHOD = sorted({row.name for row in METHODS})
OPENING = {"initialize", "notifications/initialized"}
OWN_CLASS = {"notifications/cancelled", "notifications/progress"}


def row_of(method: str, sender: Role, revision: str) -> Method | None:
    found = [
        row
        for row in METHODS
        if row.name == method
        and row.sender in (sender, "both")
        and row.exists_in(REVISIONS[revision])
    ]
    return found[0] if found else None


def is_request(method: str) -> bool:
    return not method.startswith("notifications/")


def needs(row: Method, sender: Role) -> str | None:
    """The capability that the row rests on, when nobody declared any."""
    server, client = row.server_capability, row.client_capability
    if row.is_request:
        return server if sender == "client" else client
    return server or client


@pytest.mark.parametrize("method", sorted(set(EVERY_METHOD) - OPENING - OWN_CLASS))
def test_every_method_by_revision_direction_and_capability(method: str) -> None:
    """VERS-09, CAP-01, CAP-05, CAP-08."""
    for revision, sender in product(HANDSHAKE, ROLES):
        row = row_of(method, sender, revision)
        if row is None:
            check_that_it_does_not_exist(method, sender, revision)
        else:
            event = message(method)
            assert ConnectionPair.ready(revision).send(sender, event) == [event]
            check_what_it_needs(row, sender, revision)


def message(method: str) -> Any:
    return Request(5, method) if is_request(method) else Notification(method)


def frame(method: str) -> bytes:
    envelope = {"jsonrpc": "2.0", "method": method}
    return json.dumps(envelope | ({"id": 5} if is_request(method) else {})).encode()


def check_that_it_does_not_exist(method: str, sender: Role, revision: str) -> None:
    pair = ConnectionPair.ready(revision)
    with pytest.raises(LocalProtocolError, match=f"cannot send {method}"):
        pair.send(sender, message(method))
    (seen,) = pair.deliver(sender, frame(method))
    if is_request(method):
        assert code_of(seen) == METHOD_NOT_FOUND
    else:
        assert isinstance(seen, Stale)


def check_what_it_needs(row: Method, sender: Role, revision: str) -> None:
    method = row.name
    bare = ConnectionPair.ready(
        revision, client_capabilities=NO_CLIENT, server_capabilities=NO_SERVER
    )
    missing = needs(row, sender)
    if missing is None:
        assert bare.send(sender, message(method)) == [message(method)]
        return
    with pytest.raises(CapabilityMissing) as told:
        bare.send(sender, message(method))
    assert (told.value.capability, told.value.method) == (missing, method)
    assert bare.side[sender].in_flight == ()
    seen = bare.deliver(sender, frame(method))
    if is_request(method):
        answer = error_of(seen[0])
        assert (answer["id"], answer["error"]["code"]) == (5, METHOD_NOT_FOUND)
        assert missing in answer["error"]["message"]
        assert seen[0].rule == "CAP-01"
    else:
        assert [type(one) for one in seen] == [Forgiven, Notification]
        assert seen[0].rule == "CAP-01"


def test_a_notification_without_its_capability_is_refused_by_a_strict_side() -> None:
    pair = ConnectionPair.ready(strict="client", server_capabilities=NO_SERVER)
    (refused,) = pair.deliver("server", b'{"jsonrpc":"2.0","method":"notifications/message"}')
    assert isinstance(refused, Refused)
    assert (refused.rule, refused.reply) == ("CAP-01", None)


@pytest.mark.parametrize(
    ("capabilities", "method", "missing"),
    [
        (t.ServerCapabilities(resources=t.ResourcesCapability()), "resources/subscribe", "resources.subscribe"),
        (t.ServerCapabilities(tools=t.ListChanged()), "notifications/tools/list_changed", "tools.listChanged"),
        (t.ServerCapabilities(tasks={}), "tasks/list", "tasks.list"),
        (t.ServerCapabilities(tasks={"list": None}), "tasks/list", "tasks.list"),
        (t.ServerCapabilities(tasks={"list": False}), "tasks/list", "tasks.list"),
        (t.ServerCapabilities(tasks={"list": 5}), "tasks/list", None),
        (t.ServerCapabilities(tasks={"list": {}}), "tasks/list", None),
        (t.ServerCapabilities(logging={}), "logging/setLevel", None),
        (t.ServerCapabilities(tools=t.ListChanged()), "tools/list", None),
    ],
)  # fmt: skip
def test_a_capability_is_on_when_present_and_a_flag_when_true(
    capabilities: t.ServerCapabilities, method: str, missing: str | None
) -> None:
    """CAP-02."""
    pair = ConnectionPair.ready(server_capabilities=capabilities)
    sender: Role = "client" if is_request(method) else "server"
    event: Any = Request(5, method) if is_request(method) else Notification(method)
    if missing is None:
        assert pair.send(sender, event) == [event]
    else:
        with pytest.raises(CapabilityMissing, match=missing):
            pair.send(sender, event)


def test_a_capability_below_one_that_is_off_is_off() -> None:
    pair = ConnectionPair.ready(client_capabilities=NO_CLIENT)
    with pytest.raises(CapabilityMissing, match="roots.listChanged"):
        pair.send("client", Notification("notifications/roots/list_changed"))


@pytest.mark.parametrize("sender", ROLES)
def test_what_no_revision_has_may_be_tried_and_is_not_found(sender: Role) -> None:
    """JRPC-16: an extension that the other side does not know."""
    pair = ConnectionPair.ready()
    (refused,) = pair.send(sender, Request("7", "x.example/do"))
    answer = error_of(refused)
    assert (answer["id"], answer["error"]["code"]) == ("7", METHOD_NOT_FOUND)
    assert pair.side[sender].receive(refused.reply or b"") == [
        ErrorResponse("7", ErrorObject(METHOD_NOT_FOUND, "Method not found: x.example/do"))
    ]
    assert pair.side[sender].in_flight == ()


@pytest.mark.parametrize("sender", ROLES)
def test_an_unknown_notification_is_passed_on_and_not_answered(sender: Role) -> None:
    """F-033, JRPC-13."""
    pair = ConnectionPair.ready()
    said = Notification("notifications/futurething", {"a": 1})
    assert pair.send(sender, said) == [said]


def test_methods_that_a_peer_makes_up_are_not_remembered() -> None:
    gate = Gate("client", REVISIONS[NEWEST], Declared(CLIENT_ALL, SERVER_ALL))
    for number in range(200):
        assert gate.judge(f"made/up{number}", request=True).unknown
    assert gate.judge("ping", request=True).open
    assert len(gate._verdicts) == 1
    assert set(gate.open) == {"ping"}


# Requests and notifications are not each other.


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "event",
    [Notification("ping"), Request(1, "notifications/initialized"), Request(1, "notifications/x")],
)
def test_a_method_of_the_other_kind_is_not_sent(role: Role, event: Any) -> None:
    pair = ConnectionPair.ready()
    with pytest.raises(LocalProtocolError):
        pair.send(role, event)
    assert pair.side[role].in_flight == ()


def test_initialize_is_no_notification() -> None:
    with pytest.raises(LocalProtocolError):
        Connection("client").send(Notification("initialize", offer()))


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled"])
def test_a_notification_with_an_id_is_answered_with_an_error(method: str) -> None:
    """JRPC-02, JRPC-12: whoever sends an id waits for an answer."""
    pair = ConnectionPair.ready()
    frame = b'{"jsonrpc":"2.0","id":3,"method":"%s"}' % method.encode()
    (refused,) = pair.deliver("client", frame)
    answer = error_of(refused)
    assert answer["id"] == 3
    assert answer["error"]["code"] in (METHOD_NOT_FOUND, INVALID_REQUEST)


def test_a_request_without_an_id_is_neither_served_nor_answered() -> None:
    """JRPC-13."""
    pair = ConnectionPair.ready()
    (stale,) = pair.deliver("client", b'{"jsonrpc":"2.0","method":"tools/call"}')
    assert isinstance(stale, Stale)


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/progress"])
def test_cancellation_and_progress_have_classes_of_their_own(method: str) -> None:
    pair = ConnectionPair.ready()
    with pytest.raises(LocalProtocolError, match="Cancel or Progress"):
        pair.send("client", Notification(method, {"requestId": 1}))


@pytest.mark.parametrize(
    "event", [Refused("", "", ""), Stale(""), Forgiven("", ""), Failed(1, "", "")]
)
def test_what_is_only_received_cannot_be_sent(event: Any) -> None:
    with pytest.raises(LocalProtocolError, match="only ever received"):
        ConnectionPair.ready().send("client", event)


# Correlation.

IDS = [0, 1, -1, 2**53 - 1, 10**30, "7", "", "a", "Ω—😀", "x" * 5000]


@pytest.mark.parametrize("sender", ROLES)
@pytest.mark.parametrize("id", IDS, ids=lambda id: repr(id)[:20])
def test_an_answer_finds_its_call_by_value_and_type(id: Any, sender: Role) -> None:
    """JRPC-07, F-026."""
    pair = ConnectionPair.ready()
    (asked,) = pair.send(sender, Request(id, "ping"))
    assert asked.id == id
    assert type(asked.id) is type(id)
    (answer,) = pair.send(OTHER[sender], Response(id, {"x": 1}))
    assert answer == Response(id, {"x": 1})
    assert type(answer.id) is type(id)
    assert pair.side[sender].in_flight == ()


def test_answers_in_any_order() -> None:
    """JRPC-26."""
    pair = ConnectionPair.ready()
    for id in (1, "1", 2):
        pair.send("client", Request(id, "ping"))
    assert pair.client.in_flight == (1, "1", 2)
    for id in (2, "1", 1):
        assert pair.send("server", Response(id, {})) == [Response(id, {})]
    assert pair.client.in_flight == ()


def test_the_two_sides_count_for_themselves() -> None:
    """JRPC-06."""
    pair = ConnectionPair.ready()
    pair.send("client", Request(1, "ping"))
    pair.send("server", Request(1, "ping"))
    assert pair.send("client", Response(1, {"from": "client"})) == [Response(1, {"from": "client"})]
    assert pair.send("server", Response(1, {"from": "server"})) == [Response(1, {"from": "server"})]


@pytest.mark.parametrize("sender", ROLES)
def test_an_id_in_use_is_not_sent_twice(sender: Role) -> None:
    pair = ConnectionPair.ready()
    pair.send(sender, Request(1, "ping"))
    with pytest.raises(LocalProtocolError, match="in use"):
        pair.send(sender, Request(1, "ping"))


@pytest.mark.parametrize("sender", ROLES)
def test_a_second_request_with_an_open_id_is_refused_and_the_first_lives(sender: Role) -> None:
    """F-029."""
    pair = ConnectionPair.ready()
    pair.send(sender, Request(1, "ping"))
    (refused,) = pair.deliver(sender, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    answer = error_of(refused)
    assert (answer["id"], answer["error"]["code"]) == (1, INVALID_REQUEST)
    assert refused.rule == "JRPC-02"
    assert pair.deliver(sender, b'{"jsonrpc":"2.0","id":"1","method":"ping"}') == [
        Request("1", "ping")
    ]
    assert pair.side[OTHER[sender]].send(Response(1, {})) is not None
    again = pair.deliver(sender, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert again == [Request(1, "ping")]


@pytest.mark.parametrize(
    "second",
    [
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\ud800"}}',
    ],
)
def test_a_deviating_second_request_costs_a_strict_side_not_the_first(second: bytes) -> None:
    pair = ConnectionPair.ready(strict="server")
    pair.send("client", Request(1, "ping"))
    (refused,) = pair.deliver("client", second)
    assert isinstance(refused, Refused)
    assert pair.send("server", Response(1, {})) == [Response(1, {})]


def test_an_answer_is_given_once() -> None:
    """JRPC-28."""
    pair = ConnectionPair.ready()
    pair.send("client", Request(1, "ping"))
    pair.send("server", Response(1, {}))
    for answer in (Response(1, {}), ErrorResponse(1, ErrorObject(1, "m"))):
        with pytest.raises(LocalProtocolError, match="no request with the id 1 is open"):
            pair.send("server", answer)


@pytest.mark.parametrize("id", [7, "7", "nope", None])
def test_an_answer_to_nothing_cannot_be_sent(id: Any) -> None:
    pair = ConnectionPair.ready()
    with pytest.raises(LocalProtocolError, match="is open"):
        pair.send("server", ErrorResponse(id, ErrorObject(1, "m")))


@pytest.mark.parametrize("receiver", ROLES)
@pytest.mark.parametrize(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":"nope","result":{}}',
        b'{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"m"}}',
    ],
)
def test_an_answer_to_nothing_is_stale(receiver: Role, answer: bytes) -> None:
    pair = ConnectionPair.ready()
    pair.send(receiver, Request(1, "ping"))
    (stale,) = pair.deliver(OTHER[receiver], answer)
    assert isinstance(stale, Stale)
    assert stale.id == json.loads(answer)["id"]
    assert pair.side[receiver].in_flight == (1,)


@pytest.mark.parametrize("id", ["", '"id":null,'])
@pytest.mark.parametrize("receiver", ROLES)
def test_an_error_without_an_id_belongs_to_nobody(receiver: Role, id: str) -> None:
    """JRPC-23: it neither crashes nor ends a call."""
    pair = ConnectionPair.ready()
    pair.send(receiver, Request(1, "ping"))
    frame = '{"jsonrpc":"2.0",%s"error":{"code":-32700,"message":"Parse error"}}' % id
    (stale,) = pair.deliver(OTHER[receiver], frame.encode())
    assert isinstance(stale, Stale)
    assert "Parse error" in stale.what
    assert pair.side[receiver].in_flight == (1,)


def test_a_second_answer_is_stale() -> None:
    pair = ConnectionPair.ready()
    pair.send("client", Request(1, "ping"))
    frame = pair.server.send(Response(1, {}))
    assert frame is not None
    assert [type(event) for event in pair.deliver("server", frame)] == [Response]
    assert [type(event) for event in pair.deliver("server", frame)] == [Stale]


@pytest.mark.parametrize("member", ['"result":{}', '"error":{"code":1,"message":"m"}'])
def test_an_integer_id_that_comes_back_as_text_is_matched_and_counted(member: str) -> None:
    """F-027."""
    pair = ConnectionPair.ready()
    pair.send("client", Request(0, "ping"))
    seen = pair.deliver("server", b'{"jsonrpc":"2.0","id":"0",%s}' % member.encode())
    assert isinstance(seen[0], Forgiven)
    assert seen[0].rule == "JRPC-07"
    assert isinstance(seen[1], Response | ErrorResponse)
    assert seen[1].id == 0
    assert type(seen[1].id) is int
    assert pair.client.in_flight == ()


def test_an_integer_id_that_comes_back_as_text_fails_in_strict_mode() -> None:
    """F-027: the caller is told at once, and does not wait for its timeout."""
    pair = ConnectionPair.ready(strict="client")
    pair.send("client", Request(12, "ping"))
    (failed,) = pair.deliver("server", b'{"jsonrpc":"2.0","id":"12","result":{}}')
    assert isinstance(failed, Failed)
    assert (failed.id, failed.rule) == (12, "JRPC-07")
    assert pair.client.in_flight == ()


@pytest.mark.parametrize("odd", ["01", "1.0", " 1", "+1", "1_0", "١", "9" * 30, "2", "-1"])
def test_text_that_is_not_the_very_number_matches_nothing(odd: str) -> None:
    """F-027: never the wrong one."""
    pair = ConnectionPair.ready()
    for id in (1, 10):
        pair.send("client", Request(id, "ping"))
    frame = json.dumps({"jsonrpc": "2.0", "id": odd, "result": {}}).encode()
    (stale,) = pair.deliver("server", frame)
    assert isinstance(stale, Stale)
    assert pair.client.in_flight == (1, 10)


def test_text_that_is_an_id_itself_is_not_taken_for_the_number() -> None:
    pair = ConnectionPair.ready()
    pair.send("client", Request(1, "ping"))
    pair.send("client", Request("1", "ping"))
    assert pair.deliver("server", b'{"jsonrpc":"2.0","id":"1","result":{}}') == [Response("1", {})]
    assert pair.client.in_flight == (1,)


def test_a_number_does_not_match_text() -> None:
    pair = ConnectionPair.ready()
    pair.send("client", Request("1", "ping"))
    (stale,) = pair.deliver("server", b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert isinstance(stale, Stale)


BROKEN_ANSWERS = [
    '"result":[]',
    '"result":null',
    '"result":{},"error":{"code":1,"message":"m"}',
    '"error":"no"',
    '"error":{"code":"1","message":"m"}',
]


@pytest.mark.parametrize("member", BROKEN_ANSWERS)
@pytest.mark.parametrize("id", ["1", '"1"'])
@pytest.mark.parametrize("receiver", ROLES)
def test_an_answer_that_cannot_be_read_ends_its_call(receiver: Role, member: str, id: str) -> None:
    """JRPC-08, JRPC-09: nobody waits for what already came."""
    pair = ConnectionPair.ready()
    pair.send(receiver, Request(1, "ping"))
    frame = b'{"jsonrpc":"2.0","id":%s,%s}' % (id.encode(), member.encode())
    (failed,) = pair.deliver(OTHER[receiver], frame)
    assert isinstance(failed, Failed)
    assert failed.id == 1
    assert pair.side[receiver].in_flight == ()
    (refused,) = pair.deliver(OTHER[receiver], frame)
    assert isinstance(refused, Refused)
    assert refused.reply is None


@pytest.mark.parametrize(
    ("frame", "rule"),
    [
        (b'{"id":1,"result":{}}', "JRPC-01"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', "JRPC-08"),
        (rb'{"jsonrpc":"2.0","id":1,"result":{"x":"\ud800"}}', "JSON-01"),
    ],
)
def test_an_answer_that_deviates_is_forgiven_or_fails_its_call(frame: bytes, rule: str) -> None:
    pair = ConnectionPair.ready()
    pair.send("client", Request(1, "ping"))
    seen = pair.deliver("server", frame)
    assert [type(event) for event in seen] == [Forgiven, Response]
    assert seen[0].rule == rule
    strict = ConnectionPair.ready(strict="client")
    strict.send("client", Request(1, "ping"))
    (failed,) = strict.deliver("server", frame)
    assert isinstance(failed, Failed)
    assert (failed.id, failed.rule) == (1, rule)
    assert strict.client.in_flight == ()
    (refused,) = strict.deliver("server", frame)
    assert isinstance(refused, Refused)
    assert refused.reply is None


def test_a_request_that_deviates_is_forgiven_or_refused() -> None:
    frame = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}'
    seen = ConnectionPair.ready().deliver("client", frame)
    assert [type(event) for event in seen] == [Forgiven, Request]
    assert seen[0].rule == "JRPC-14"
    (refused,) = ConnectionPair.ready(strict="server").deliver("client", frame)
    assert (code_of(refused), refused.rule) == (INVALID_REQUEST, "JRPC-14")
    assert error_of(refused)["id"] == 1


def test_a_notification_that_deviates_is_forgiven_or_dropped() -> None:
    frame = b'{"jsonrpc":"2.0","method":"notifications/x","params":null}'
    seen = ConnectionPair.ready().deliver("client", frame)
    assert [type(event) for event in seen] == [Forgiven, Notification]
    (refused,) = ConnectionPair.ready(strict="server").deliver("client", frame)
    assert isinstance(refused, Refused)
    assert refused.reply is None


# What this side must not send changes nothing.


def test_a_request_that_cannot_be_written_is_not_in_flight() -> None:
    pair = ConnectionPair.ready()
    for params in ({"x": float("nan")}, {"x": "\ud800"}, {"x": object()}):
        with pytest.raises(LocalProtocolError):
            pair.send("client", Request(1, "ping", params))
    assert pair.client.in_flight == ()
    assert pair.send("client", Request(1, "ping")) == [Request(1, "ping")]


def test_an_answer_that_cannot_be_written_leaves_the_request_open() -> None:
    """F-030: something else can still be answered."""
    pair = ConnectionPair.ready()
    pair.send("client", Request(1, "ping"))
    with pytest.raises(LocalProtocolError):
        pair.send("server", Response(1, {"x": float("nan")}))
    with pytest.raises(LocalProtocolError):
        pair.send("server", ErrorResponse(1, ErrorObject(1, "\ud800")))
    error = ErrorResponse(1, ErrorObject(-32603, "Internal error"))
    assert pair.send("server", error) == [error]


def test_a_cancellation_that_cannot_be_written_leaves_the_call_in_flight() -> None:
    pair = ConnectionPair.ready()
    pair.send("client", Request(1, "ping"))
    with pytest.raises(LocalProtocolError):
        pair.send("client", Cancel(1, "\ud800"))
    assert pair.client.in_flight == (1,)


# What is no message.


@pytest.mark.parametrize(
    ("frame", "code", "id"),
    [
        (b"{not json", PARSE_ERROR, UNSET),
        (b"\xff", PARSE_ERROR, UNSET),
        (b"42", INVALID_REQUEST, UNSET),
        (b"{}", INVALID_REQUEST, UNSET),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', INVALID_REQUEST, 7),
        (b'{"id":7,"method":"ping"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":"7","method":"ping","params":[]}', INVALID_REQUEST, "7"),
    ],
)
def test_a_server_answers_what_is_no_message_once(frame: bytes, code: int, id: Any) -> None:
    """F-008, F-032: with the id where there is one, never an invented one."""
    pair = ConnectionPair.ready()
    (refused,) = pair.deliver("client", frame)
    answer = error_of(refused)
    assert answer["error"]["code"] == code
    assert answer.get("id", UNSET) == id
    assert refused.rule == ("JRPC-17" if code == PARSE_ERROR else "JRPC-18")
    assert pair.send("client", Request(1, "ping")) == [Request(1, "ping")]


def test_a_client_reports_a_line_that_is_no_message_and_does_not_answer() -> None:
    """F-006."""
    pair = ConnectionPair.ready()
    (told,) = pair.deliver("server", b"Server started on stdio")
    assert told == Forgiven("STDIO-04", "Server started on stdio")
    strict = ConnectionPair.ready(strict="client")
    (refused,) = strict.deliver("server", b"Server started on stdio")
    assert isinstance(refused, Refused)
    assert (refused.rule, refused.reply) == ("STDIO-04", None)


def test_a_client_answers_a_broken_request_whose_id_it_can_read() -> None:
    (refused,) = ConnectionPair.ready().deliver("server", b'{"jsonrpc":"2.0","id":7,"method":5}')
    assert error_of(refused)["id"] == 7


@pytest.mark.parametrize("receiver", ROLES)
@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","method":5}',
        b'{"method":"notifications/x"}',
        b'{"jsonrpc":"2.0","method":"notifications/x","params":[]}',
        b'{"jsonrpc":"2.0","id":99,"result":[]}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":1E400,"result":{}}',
    ],
)
def test_broken_notifications_and_answers_are_not_answered(receiver: Role, frame: bytes) -> None:
    """JRPC-13."""
    (refused,) = ConnectionPair.ready().deliver(OTHER[receiver], frame)
    assert isinstance(refused, Refused)
    assert refused.reply is None


def test_a_line_beyond_the_limit_is_answered_and_the_next_is_served() -> None:
    pair = ConnectionPair.ready()
    decoder = LineDecoder(100)
    decoder.receive_data(b"x" * 500 + b'\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    long = decoder.next_message()
    assert isinstance(long, Malformed)
    (refused,) = pair.server.receive(long)
    assert code_of(refused) == INVALID_REQUEST
    line = decoder.next_message()
    assert isinstance(line, bytes)
    assert pair.server.receive(line) == [Request(1, "ping")]


# Whatever comes.

METHOD = st.sampled_from(
    ["initialize", "ping", "tools/call", "roots/list", "x/y", "notifications/cancelled"]
    + ["notifications/progress", "notifications/initialized", "notifications/message"]
)
ID = st.sampled_from([0, 1, 2, "1", "", None, 1.5, True])
VALUE = st.sampled_from(
    [None, {}, [], 5, "x", {"_meta": {"progressToken": 1}}, {"requestId": 1}, {"requestId": {}}]
    + [{"progressToken": 1, "progress": 1}, {"progressToken": 1, "progress": "x"}]
    + [{"code": 1, "message": "m"}, {"protocolVersion": NEWEST, "capabilities": {}}]
    + [json.loads(json.dumps({"protocolVersion": "x", "capabilities": True, "clientInfo": 5}))]
    + [{"protocolVersion": NEWEST, "capabilities": {"tools": True}, "clientInfo": {"name": "a", "version": "1"}}]
    + [{"protocolVersion": NEWEST, "capabilities": {"tools": True}, "serverInfo": {"name": "a", "version": "1"}}]
)  # fmt: skip
OBJECT = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0"])},
    optional={"id": ID, "method": METHOD, "params": VALUE, "result": VALUE, "error": VALUE},
)
FRAME = (OBJECT | st.lists(OBJECT, max_size=4)).map(lambda value: json.dumps(value).encode())


@settings(max_examples=100)
@given(
    st.sampled_from(ROLES),
    st.booleans(),
    st.sampled_from(["fresh", "offered", NEWEST, BATCHES]),
    st.lists(FRAME | st.binary(max_size=20), max_size=12),
    st.booleans(),
)
def test_nothing_that_comes_raises_and_every_call_ends_once(
    role: Role, strict: bool, stage: str, frames: list[bytes], answers: bool
) -> None:
    side = Connection(role, strict=strict)
    pair = ConnectionPair(**{role: side})  # type: ignore[arg-type]
    if stage == "offered":
        pair.send("client", Request(0, "initialize", offer()))
    elif stage != "fresh":
        pair.handshake(stage)
        side.send(Request(1, "ping"))
        side.send(Request("1", "ping", {"_meta": {"progressToken": 1}}))
    expected = list(side.in_flight)
    opened: list[Any] = []
    ended: list[Any] = []
    for frame in frames:
        for event in side.receive(frame):
            if isinstance(event, Response | ErrorResponse | Failed):
                ended.append(event.id)
            elif isinstance(event, Request):
                opened.append((event.id, event.method))
            elif isinstance(event, Progress):
                assert event.id in side.in_flight or event.id in ended
        while answers and opened:
            id, method = opened.pop()
            result = agreement() if method == "initialize" else {}
            side.send(Response(id, result))
    assert sorted(map(repr, ended)) == sorted(
        repr(id) for id in expected if id not in side.in_flight
    )
    assert side.lost() == tuple(id for id in expected if id not in ended)


def test_the_whole_declared_set_is_known_to_both() -> None:
    """The sets that most tests here open a session with."""
    pair = ConnectionPair.ready()
    assert isinstance(pair.server.peer, t.InitializeParams)
    assert pair.server.peer.capabilities == pair.server.client_capabilities == CLIENT_ALL
    assert pair.client.client_capabilities == CLIENT_ALL
    assert isinstance(pair.client.peer, t.InitializeResult)
    assert pair.client.peer.capabilities == SERVER_ALL


def test_what_a_client_declared_counts_as_far_as_the_revision_has_it() -> None:
    """The client meant the revision it offered; another one was agreed on."""
    pair = ConnectionPair()
    url_only = t.ClientCapabilities(elicitation=t.ElicitationCapability(url={}))
    pair.send("client", Request(0, "initialize", offer(NEWEST, url_only)))
    assert pair.server.client_capabilities == t.ClientCapabilities()
    pair.send("server", Response(0, agreement(THIRD)))
    pair.send("client", Notification("notifications/initialized"))
    assert pair.server.client_capabilities == t.ClientCapabilities()
    with pytest.raises(CapabilityMissing, match="elicitation"):
        pair.send("server", Request(1, "elicitation/create"))
    (refused,) = pair.deliver("server", b'{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}')
    assert code_of(refused) == METHOD_NOT_FOUND
