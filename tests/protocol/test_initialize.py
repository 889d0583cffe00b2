"""The opening: versions offered and agreed, capabilities read, and every way it can go wrong."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import msgspec
import pytest
from pair import ConnectionPair, agreement, offer

from mcpcore import types as t
from mcpcore.errors import LocalProtocolError
from mcpcore.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, ErrorObject
from mcpcore.protocol import (
    Cancel,
    Connection,
    ErrorResponse,
    Failed,
    Forgiven,
    Notification,
    Refused,
    Request,
    Response,
    Stale,
    State,
)
from mcpcore.revisions import HANDSHAKE, REVISIONS

NEWEST, OLDEST = HANDSHAKE[0], HANDSHAKE[-1]
INITIALIZED = Notification("notifications/initialized")


def offered(*, strict: bool = False) -> ConnectionPair:
    """After initialize, before its answer; `strict` is the client."""
    pair = ConnectionPair(Connection("client", strict=strict))
    pair.send("client", Request(1, "initialize", offer()))
    return pair


def initialize_frame(**params: Any) -> bytes:
    plain = msgspec.to_builtins(offer()) | params
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": plain}).encode()


def answer_frame(**result: Any) -> bytes:
    plain = msgspec.to_builtins(agreement()) | result
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": plain}).encode()


def error_of(event: Any) -> tuple[Any, int]:
    assert isinstance(event, Refused)
    assert event.reply is not None
    answer = json.loads(event.reply)
    return answer["id"], answer["error"]["code"]


# Versions.


@pytest.mark.parametrize(("asked", "answered"), [*product(HANDSHAKE, HANDSHAKE)], ids=str)
def test_the_answer_decides_the_revision(asked: str, answered: str) -> None:
    """VERS-03, VERS-04: what was asked for, or a counter-offer."""
    pair = ConnectionPair()
    pair.send("client", Request(0, "initialize", offer(asked)))
    (answer,) = pair.send("server", Response(0, agreement(answered)))
    assert answer.result["protocolVersion"] == answered
    pair.send("client", INITIALIZED)
    assert str(pair.client.revision) == str(pair.server.revision) == answered


@pytest.mark.parametrize("asked", ["1999-01-01", "9999-12-31", "x", "", " 2025-06-18"])
def test_an_unknown_version_can_be_answered_with_a_counter_offer(asked: str) -> None:
    """F-046, VERS-04, VERS-10."""
    pair = ConnectionPair()
    (request,) = pair.deliver("client", initialize_frame(protocolVersion=asked))
    assert isinstance(request, Request)
    assert isinstance(pair.server.peer, t.InitializeParams)
    assert pair.server.peer.protocol_version == asked
    assert pair.server.send(Response(1, agreement(NEWEST))) is not None
    assert pair.server.state is State.AGREED


def test_a_counter_offer_that_the_client_cannot_speak_agrees_on_nothing() -> None:
    """VERS-06, LIFE-12."""
    pair = offered()
    (answer,) = pair.deliver("server", answer_frame(protocolVersion="1999-01-01"))
    assert isinstance(answer, Response)
    assert pair.client.revision is None
    assert pair.client.in_flight == ()
    with pytest.raises(LocalProtocolError):
        pair.client.send(INITIALIZED)
    with pytest.raises(LocalProtocolError):
        pair.client.send(Request(2, "tools/list"))


def test_a_counter_offer_outside_the_clients_own_list() -> None:
    pair = ConnectionPair(Connection("client", revisions=[NEWEST]))
    pair.send("client", Request(1, "initialize", offer()))
    pair.send("server", Response(1, agreement(OLDEST)))
    assert pair.client.revision is None
    assert pair.client.state is State.FRESH


def test_a_client_offers_only_what_it_speaks() -> None:
    """VERS-01."""
    client = Connection("client", revisions=[OLDEST])
    for name in (NEWEST, "1999-01-01"):
        with pytest.raises(LocalProtocolError, match="not among those spoken here"):
            client.send(Request(1, "initialize", offer(name)))
    assert client.state is State.FRESH
    assert client.in_flight == ()


@pytest.mark.parametrize("name", [NEWEST, "1999-01-01", ""])
def test_a_server_answers_only_what_it_speaks(name: str) -> None:
    pair = ConnectionPair(server=Connection("server", revisions=[OLDEST]))
    pair.send("client", Request(1, "initialize", offer()))
    with pytest.raises(LocalProtocolError, match="not among those spoken here"):
        pair.server.send(Response(1, agreement(name)))
    assert pair.server.state is State.OFFERED
    pair.send("server", Response(1, agreement(OLDEST)))
    assert str(pair.client.revision) == OLDEST


@pytest.mark.parametrize("name", HANDSHAKE)
def test_the_opening_is_written_for_the_revision_it_names(name: str) -> None:
    """VERS-09: a title of the client is new in the third revision, icons in the fourth."""
    info = t.Implementation("n", "1", title="T", icons=[t.Icon("data:,")])
    params = t.InitializeParams(
        protocol_version=name,
        capabilities=t.ClientCapabilities(elicitation=t.ElicitationCapability(url={})),
        client_info=info,
    )
    data = Connection("client").send(Request(1, "initialize", params))
    sent = json.loads(data or b"")["params"]
    position = REVISIONS[name].position
    assert ("title" in sent["clientInfo"]) is (position >= 2)
    assert ("icons" in sent["clientInfo"]) is (position >= 3)
    assert ("elicitation" in sent["capabilities"]) is (position >= 2)


# What cannot be read.


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": 5},
        {"protocolVersion": None},
        {"capabilities": []},
        {"capabilities": {"roots": {"listChanged": "yes"}}},
        {"clientInfo": {"name": "n"}},
        {"clientInfo": "n"},
    ],
    ids=str,
)
def test_initialize_with_unreadable_params_is_refused_and_can_be_tried_again(params: Any) -> None:
    """JRPC-19, LIFE-02."""
    pair = ConnectionPair()
    (refused,) = pair.deliver("client", initialize_frame(**params))
    assert error_of(refused) == (1, INVALID_PARAMS)
    assert pair.server.state is State.FRESH
    assert pair.server.peer is None
    pair.handshake()
    assert pair.server.state is State.READY


def test_initialize_without_params_is_refused() -> None:
    pair = ConnectionPair()
    (refused,) = pair.deliver("client", b'{"jsonrpc":"2.0","id":1,"method":"initialize"}')
    assert error_of(refused) == (1, INVALID_PARAMS)


BROKEN_RESULTS = [
    answer_frame(protocolVersion=5),
    answer_frame(capabilities=[]),
    answer_frame(serverInfo={}),
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":[]}',
    b'{"jsonrpc":"2.0","id":1,"error":5}',
]


@pytest.mark.parametrize("frame", BROKEN_RESULTS)
@pytest.mark.parametrize("strict", [False, True])
def test_an_unreadable_answer_to_initialize_fails_it(frame: bytes, strict: bool) -> None:
    """LIFE-04: whoever opens the session does not wait for its timeout."""
    pair = offered(strict=strict)
    (failed,) = pair.deliver("server", frame)
    assert isinstance(failed, Failed)
    assert failed.id == 1
    assert pair.client.in_flight == ()
    assert pair.client.state is State.FRESH


def test_an_error_answer_to_initialize_ends_it() -> None:
    """VERS-12, LIFE-12."""
    pair = offered()
    error = ErrorResponse(1, ErrorObject(INVALID_PARAMS, "no", {"supported": ["x"]}))
    assert pair.send("server", error) == [error]
    assert pair.client.state is pair.server.state is State.FRESH
    assert pair.client.in_flight == ()
    with pytest.raises(LocalProtocolError):
        pair.client.send(INITIALIZED)
    pair.handshake()
    assert pair.client.state is State.READY


def test_an_error_answer_that_cannot_be_written_changes_nothing() -> None:
    pair = offered()
    with pytest.raises(LocalProtocolError):
        pair.server.send(ErrorResponse(1, ErrorObject(1, "\ud800")))
    assert pair.server.state is State.OFFERED
    pair.send("server", Response(1, agreement()))
    assert pair.server.state is State.AGREED


# What deviates.


@pytest.mark.parametrize(
    "capabilities",
    [
        {"roots": True},
        {"roots": None},
        {"roots": False},
        {"roots": {"listChanged": None}},
        {"roots": {}, "sampling": True},
    ],
    ids=str,
)
def test_odd_capabilities_of_a_client_are_forgiven_and_counted(capabilities: Any) -> None:
    """CAP-02: and under strict they are an error."""
    pair = ConnectionPair()
    seen = pair.deliver("client", initialize_frame(capabilities=capabilities))
    assert [type(event) for event in seen] == [Forgiven, Request]
    assert seen[0].rule == "CAP-02"
    strict = ConnectionPair(server=Connection("server", strict=True))
    (refused,) = strict.deliver("client", initialize_frame(capabilities=capabilities))
    assert isinstance(refused, Refused)
    assert refused.rule == "CAP-02"
    assert error_of(refused)[0] == 1
    assert strict.server.state is State.FRESH


@pytest.mark.parametrize("capabilities", [{"tools": True}, {"tools": None}], ids=str)
def test_odd_capabilities_of_a_server_are_forgiven_and_counted(capabilities: Any) -> None:
    pair = offered()
    seen = pair.deliver("server", answer_frame(capabilities=capabilities))
    assert [type(event) for event in seen] == [Forgiven, Response]
    assert seen[0].rule == "CAP-02"
    assert pair.client.state is State.AGREED
    strict = offered(strict=True)
    (failed,) = strict.deliver("server", answer_frame(capabilities=capabilities))
    assert isinstance(failed, Failed)
    assert (failed.id, failed.rule) == (1, "CAP-02")
    assert strict.client.state is State.FRESH
    assert strict.client.in_flight == ()
    assert strict.client.revision is None


def test_the_answer_with_its_id_as_text() -> None:
    frame = answer_frame().replace(b'"id": 1', b'"id": "1"')
    pair = offered()
    seen = pair.deliver("server", frame)
    assert [type(event) for event in seen] == [Forgiven, Response]
    assert seen[1].id == 1
    assert pair.client.state is State.AGREED
    strict = offered(strict=True)
    (failed,) = strict.deliver("server", frame)
    assert isinstance(failed, Failed)
    assert strict.client.state is State.FRESH


def test_unknown_capabilities_and_members_are_no_matter() -> None:
    """VERS-11, CAP-03, JRPC-24."""
    pair = ConnectionPair()
    frame = initialize_frame(
        capabilities={"experimental": {"x": {"y": 1}}, "later": {"z": True}},
        clientInfo={"name": "n", "version": "1", "x_conf": 1},
        x_conf=1,
    )
    (request,) = pair.deliver("client", frame)
    assert isinstance(request, Request)
    assert isinstance(pair.server.peer, t.InitializeParams)
    assert pair.server.peer.capabilities.experimental == {"x": {"y": 1}}


# Out of turn.


@pytest.mark.parametrize("stage", ["offered", "agreed", "ready"])
def test_a_second_initialize_is_refused_and_the_session_goes_on(stage: str) -> None:
    pair = offered()
    if stage != "offered":
        pair.send("server", Response(1, agreement()))
    if stage == "ready":
        pair.send("client", INITIALIZED)
    state = pair.server.state
    (refused,) = pair.deliver("client", initialize_frame().replace(b'"id": 1', b'"id": 2'))
    assert error_of(refused) == (2, INVALID_REQUEST)
    assert refused.rule == "LIFE-02"
    assert pair.server.state is state
    with pytest.raises(LocalProtocolError, match="must not send initialize"):
        pair.client.send(Request(2, "initialize", offer()))
    assert pair.send("client", Request(3, "ping")) == [Request(3, "ping")]


def test_a_server_does_not_initialize() -> None:
    server = Connection("server")
    with pytest.raises(LocalProtocolError, match="a server must not send initialize"):
        server.send(Request(1, "initialize", offer()))
    with pytest.raises(LocalProtocolError, match="a server must not (say|send) .*initialized"):
        server.send(INITIALIZED)


def test_a_client_is_not_initialized_by_its_server() -> None:
    (refused,) = ConnectionPair().deliver("server", initialize_frame())
    assert error_of(refused) == (1, INVALID_REQUEST)


def test_a_client_that_is_ready_has_no_such_method() -> None:
    (refused,) = ConnectionPair.ready().deliver("server", initialize_frame())
    assert error_of(refused) == (1, -32601)


def test_initialize_and_its_answer_are_objects_of_ours() -> None:
    with pytest.raises(LocalProtocolError, match="takes InitializeParams"):
        Connection("client").send(Request(1, "initialize", {"protocolVersion": NEWEST}))
    pair = offered()
    with pytest.raises(LocalProtocolError, match="answered with InitializeResult"):
        pair.server.send(Response(1, {"protocolVersion": NEWEST}))
    assert pair.server.state is State.OFFERED


def test_initialize_is_never_cancelled() -> None:
    """F-041, CANC-03, LIFE-09: neither sent nor obeyed."""
    pair = offered()
    with pytest.raises(LocalProtocolError, match="cannot be cancelled"):
        pair.client.send(Cancel(1))
    assert pair.client.in_flight == (1,)
    cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    (stale,) = pair.deliver("client", cancelled)
    assert isinstance(stale, Stale)
    assert stale.id == 1
    assert [type(event) for event in pair.send("server", Response(1, agreement()))] == [Response]


def test_an_answer_to_initialize_that_never_was_opens_nothing() -> None:
    client = Connection("client")
    (stale,) = client.receive(answer_frame())
    assert isinstance(stale, Stale)
    assert client.state is State.FRESH


def test_the_channel_ends_before_the_answer() -> None:
    pair = offered()
    assert pair.client.lost() == (1,)
    assert pair.server.lost() == ()
    assert pair.server.send(Response(1, agreement())) is None
