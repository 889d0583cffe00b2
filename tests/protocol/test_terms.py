"""Requests that stand alone: what each has to say of itself, and what comes of it when it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET, Raw

from mcpcore import jsonrpc
from mcpcore import types as t
from mcpcore.errors import CapabilityMissing, LocalProtocolError
from mcpcore.jsonrpc import ErrorObject, ErrorResponse, Notification, Request, Response
from mcpcore.protocol import terms as names
from mcpcore.protocol.connection import Connection
from mcpcore.protocol.events import Cancel, Progress, Refused
from mcpcore.protocol.framing import Abandoned, Decoded
from mcpcore.protocol.lifecycle import State
from mcpcore.protocol.terms import Standing, Terms, with_terms
from mcpcore.revisions import ALL, HANDSHAKE, REVISIONS, STATELESS

E = STATELESS[0]
META = {names.REVISION: E, names.CLIENT_CAPABILITIES: {}}
INFO = t.Implementation("s", "1")


def server(revisions: Any = ALL, capabilities: Any = None) -> Connection:
    can = capabilities or t.ServerCapabilities(
        tools=t.ListChanged(list_changed=True), logging={}, resources=t.ResourcesCapability()
    )
    rows = tuple(REVISIONS[name] for name in STATELESS)
    standing = Standing(rows, lambda: can, {names.SERVER_INFO: INFO})
    return Connection("server", revisions=revisions, standing=standing)


def request(method: str = "tools/list", meta: Any = META, id: Any = 1, **params: Any) -> bytes:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if meta is not None:
        params["_meta"] = meta
    if params:
        body["params"] = params
    return json.dumps(body).encode()


def only(events: list[Any]) -> Any:
    (event,) = events
    return event


def refusal(connection: Connection, frame: Any) -> dict[str, Any]:
    event = only(connection.receive(frame))
    assert isinstance(event, Refused), event
    assert event.reply is not None
    answer: dict[str, Any] = json.loads(event.reply)
    return answer["error"] | {"rule": event.rule, "id": answer.get("id")}


def test_a_request_needs_no_handshake_and_leaves_nothing_behind() -> None:
    """STATE26-01, VERS26-07: what one request says holds for no other."""
    connection = server()
    assert isinstance(only(connection.receive(request())), Request)
    assert connection.state is State.FRESH
    terms = connection.terms(1)
    assert terms is not None
    assert terms.revision is REVISIONS[E]
    assert refusal(connection, request(meta={}, id=2))["code"] == -32602


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        (None, "_meta"),
        ({}, names.REVISION),
        ({names.REVISION: E}, names.CLIENT_CAPABILITIES),
        ({names.CLIENT_CAPABILITIES: {}}, names.REVISION),
        ({**META, names.REVISION: 7}, names.REVISION),
        ({**META, names.REVISION: None}, names.REVISION),
        ({**META, names.CLIENT_CAPABILITIES: []}, names.CLIENT_CAPABILITIES),
        ({**META, names.CLIENT_CAPABILITIES: {"roots": 7}}, "roots"),
        ({**META, names.CLIENT_INFO: {"name": "no version"}}, "version"),
        ("no object", "_meta"),
    ],
)
def test_meta26_04_what_a_request_lacks_is_invalid_params(meta: Any, says: str) -> None:
    """META26-04, META26-07: -32602, and the message names what is missing."""
    connection = server(STATELESS)
    error = refusal(connection, request(meta=meta))
    assert error["code"] == -32602
    assert says in error["message"]
    assert error["id"] == 1


@pytest.mark.parametrize(
    "meta",
    [
        {**META, names.CLIENT_INFO: None},
        {**META, names.CLIENT_INFO: {"name": "a", "version": "1"}},
        {**META, names.CLIENT_CAPABILITIES: {"elicitation": True, "roots": None}},
        {**META, "io.modelcontextprotocol/unheard": 1, "traceparent": "garbage"},
    ],
)
def test_meta26_06_what_is_optional_or_unknown_disturbs_nothing(meta: Any) -> None:
    """META26-06, META26-22, OTEL-03."""
    assert isinstance(only(server().receive(request(meta=meta))), Request)


@pytest.mark.parametrize("name", ["1900-01-01", "zzz", "2025-11-25"])
def test_vers26_02_an_unknown_revision_is_told_which_there_are(name: str) -> None:
    """VERS26-02, VERS26-03; a revision of the handshake era has no such requests (AMB-41)."""
    error = refusal(server(), request(meta={**META, names.REVISION: name}))
    assert error["code"] == -32022
    assert error["data"] == {"supported": [E], "requested": name}


def test_vers26_06_each_request_is_judged_by_itself() -> None:
    connection = server()
    assert isinstance(only(connection.receive(request(id=1))), Request)
    assert refusal(connection, request(id=2, meta={**META, names.REVISION: "x"}))["code"] == -32022
    assert isinstance(only(connection.receive(request(id=3))), Request)


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "tasks/list", "foo/bar"]
)
def test_http26_24_what_the_revision_does_not_have_is_not_found(method: str) -> None:
    assert refusal(server(), request(method))["code"] == -32601


def test_err_11_what_is_not_declared_is_not_found() -> None:
    error = refusal(server(), request("prompts/list"))
    assert error["code"] == -32601
    assert "prompts" in error["message"]


def test_capabilities_that_change_open_the_gate() -> None:
    can = [t.ServerCapabilities()]
    standing = Standing((REVISIONS[E],), lambda: can[0])
    connection = Connection("server", revisions=ALL, standing=standing)
    assert refusal(connection, request())["code"] == -32601
    can[0] = t.ServerCapabilities(tools=t.ListChanged())
    standing.changed()
    assert isinstance(only(connection.receive(request())), Request)


def test_vers26_10_a_server_without_a_handshake_says_what_it_speaks() -> None:
    """VERS26-09, VERS26-10: initialize is an unknown method, and the error names the revisions."""
    frame = request("initialize", meta=META, protocolVersion="2025-11-25")
    error = refusal(server(STATELESS), frame)
    assert error["code"] == -32601
    assert E in error["message"]
    # On a server of both eras it asks for a session, whatever it says besides.
    answered = server().receive(
        request("initialize", META, protocolVersion=HANDSHAKE[0], capabilities={},
                clientInfo={"name": "c", "version": "1"})
    )  # fmt: skip
    assert isinstance(only(answered), Request)


def test_amb_24_a_session_and_requests_that_stand_alone_share_a_pipe() -> None:
    connection = server()
    initialize = request(
        "initialize",
        None,
        protocolVersion=HANDSHAKE[0],
        capabilities={},
        clientInfo={"name": "c", "version": "1"},
    )
    connection.receive(initialize)
    result = t.InitializeResult(
        protocol_version=HANDSHAKE[0],
        capabilities=t.ServerCapabilities(tools=t.ListChanged()),
        server_info=INFO,
    )
    connection.send(Response(1, result))
    connection.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert isinstance(only(connection.receive(request(meta=None, id=2))), Request)
    assert isinstance(only(connection.receive(request(id=3))), Request)
    old, new = (
        json.loads(connection.send(Response(id, t.ListToolsResult(tools=[]))) or b"")
        for id in (2, 3)
    )
    assert old["result"] == {"tools": []}
    assert new["result"]["resultType"] == "complete"


def test_rt_01_every_result_says_what_the_revision_wants() -> None:
    """RT-01, META26-13, CACHE-01: the type, the server's name, and how long it may be kept."""
    connection = server()
    connection.receive(request())
    connection.receive(request("tools/call", id=2, name="f"))
    connection.receive(request("tools/call", id=3, name="f"))
    first = json.loads(connection.send(Response(1, t.ListToolsResult(tools=[]))) or b"")
    assert first["result"] == {
        "tools": [],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {names.SERVER_INFO: {"name": "s", "version": "1"}},
    }
    made = t.CallToolResult(content=[], meta={"mine": 1})
    second = json.loads(connection.send(Response(2, made)) or b"")
    assert second["result"]["_meta"] == {
        "mine": 1,
        names.SERVER_INFO: {"name": "s", "version": "1"},
    }
    assert "ttlMs" not in second["result"]
    third = json.loads(connection.send(Response(3, {"content": [], "_meta": {"a": 1}})) or b"")
    assert third["result"]["resultType"] == "complete"
    assert third["result"]["_meta"]["a"] == 1


@pytest.mark.parametrize(("sent_code", "seen_code"), [(-32002, -32602), (-31000, -31000)])
def test_err_07_the_code_of_another_era_is_not_used(sent_code: int, seen_code: int) -> None:
    connection = server()
    connection.receive(request("resources/read", uri="x:a"))
    error = ErrorObject(sent_code, "Resource not found", {"uri": "x:a"})
    answer = json.loads(connection.send(ErrorResponse(1, error)) or b"")
    assert answer["error"] == {
        "code": seen_code,
        "message": "Resource not found",
        "data": {"uri": "x:a"},
    }


def test_a_notification_is_judged_by_the_request_that_it_is_about() -> None:
    connection = server()
    connection.receive(request("tools/call", {**META, "progressToken": "t"}, name="f"))
    message = Notification("notifications/message", t.LoggingMessageParams(level="info", data=1))
    assert connection.send(message, about=1) is not None
    assert connection.send(Progress("t", 1.0), about=1) is not None
    with pytest.raises(LocalProtocolError, match=E):
        connection.send(Notification("notifications/elicitation/complete", {}), about=1)
    with pytest.raises(CapabilityMissing, match="prompts"):
        connection.send(Notification("notifications/prompts/list_changed"), about=1)
    assert connection.send(Notification("notifications/of/an/extension", {}), about=1) is not None


@pytest.mark.parametrize("level", ["info", "loud"])
def test_log26_09_a_level_that_there_is_not_refuses_the_request(level: str) -> None:
    event = only(server().receive(request(meta={**META, names.LOG_LEVEL: level})))
    assert isinstance(event, Request if level == "info" else Refused)


def test_jrpc26_21_there_are_no_batches() -> None:
    error = refusal(server(STATELESS), b"[" + request() + b"]")
    assert error["code"] == -32600


def test_jrpc26_21_not_even_in_a_session_that_has_them() -> None:
    connection = server()
    connection.adopt(REVISIONS["2025-03-26"], t.ServerCapabilities(tools=t.ListChanged()))
    events = connection.receive(b"[" + request() + b"]")
    (refused,) = [event for event in events if isinstance(event, Refused)]
    assert refused.rule == "JRPC26-21"


def test_jrpc26_05_an_id_is_in_use_until_it_is_answered() -> None:
    connection = server()
    connection.receive(request())
    assert refusal(connection, request())["code"] == -32600
    connection.send(Response(1, t.ListToolsResult(tools=[])))
    assert isinstance(only(connection.receive(request())), Request)


def decoded(frame: bytes, key: int) -> Decoded:
    message = jsonrpc.decode(frame, [])
    assert isinstance(message, Request)
    return Decoded(message, frame, alone=True, key=key)


def test_requests_of_several_clients_have_keys_and_keep_their_ids() -> None:
    """Two clients may use the same id; each gets its own back."""
    connection = server()
    first = only(connection.receive(decoded(request(id="a"), 1)))
    second = only(connection.receive(decoded(request(id="a"), 2)))
    assert (first.id, second.id) == (1, 2)
    assert connection.wire_id(2) == "a"
    for key in (1, 2):
        answer = connection.send(Response(key, t.ListToolsResult(tools=[])))
        assert json.loads(answer or b"")["id"] == "a"


def test_canc26_04_a_client_that_goes_away_cancels_its_request() -> None:
    connection = server()
    connection.receive(decoded(request(id="a"), 1))
    assert only(connection.receive(Abandoned(1))) == Cancel(1, "the client went away")
    assert connection.receive(Abandoned(1)) == []
    assert connection.receive(Abandoned(7)) == []
    assert connection.send(Response(1, t.ListToolsResult(tools=[]))) is None


def test_strict_refuses_a_deviation_in_a_request_that_stands_alone() -> None:
    standing = Standing((REVISIONS[E],), t.ServerCapabilities)
    connection = Connection("server", revisions=ALL, strict=True, standing=standing)
    frame = request(cursor="\ud800")
    notes: list[str] = []
    message = jsonrpc.decode(frame, notes)
    assert isinstance(message, Request)
    event = only(connection.receive(Decoded(message, frame, tuple(notes), alone=True)))
    assert isinstance(event, Refused)


# The client's side.


def client() -> Connection:
    connection = Connection("client", revisions=ALL)
    connection.propose(Terms(REVISIONS[E], t.ClientCapabilities(), INFO, "info"))
    return connection


def sent(connection: Connection, id: int, method: str, params: Any = None) -> dict[str, Any]:
    data = connection.send(Request(id, method, t.Params() if params is None else params))
    body: dict[str, Any] = json.loads(data or b"")
    return body["params"]


def test_meta26_01_a_client_says_it_in_each_request() -> None:
    """META26-01 to META26-03; what else is in `_meta` stays there."""
    connection = client()
    meta = sent(connection, 1, "server/discover")["_meta"]
    assert meta == {
        names.REVISION: E,
        names.CLIENT_CAPABILITIES: {},
        names.CLIENT_INFO: {"name": "s", "version": "1"},
        names.LOG_LEVEL: "info",
    }
    connection.adopt(REVISIONS[E], t.ServerCapabilities(tools=t.ListChanged()))
    params = sent(connection, 2, "tools/call", t.CallToolParams(name="f", meta={"mine": 1}))
    assert params["_meta"] == meta | {"mine": 1}
    assert sent(connection, 3, "tools/list", {"cursor": "c"})["cursor"] == "c"


def test_without_terms_the_handshake_comes_first() -> None:
    connection = client()
    sent(connection, 1, "server/discover")
    connection.propose(None)
    assert connection.own_terms is None
    with pytest.raises(LocalProtocolError):
        connection.send(Request(2, "tools/list", t.Params()))


def test_jrpc26_19_a_client_never_answers() -> None:
    """A server that asks by a request of its own is passed over in silence."""
    connection = client()
    connection.adopt(REVISIONS[E], t.ServerCapabilities())
    event = only(connection.receive(b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}'))
    assert isinstance(event, Refused)
    assert event.reply is None


def test_canc26_08_a_server_may_cancel_what_a_client_listens_to() -> None:
    connection = client()
    connection.adopt(REVISIONS[E], t.ServerCapabilities())
    sent(
        connection, 1, "subscriptions/listen", t.ListenParams(notifications=t.SubscriptionFilter())
    )
    cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    assert only(connection.receive(cancelled)) == Response(1, Raw(b"{}"))
    assert connection.in_flight == ()


def test_canc26_07_a_server_cancels_nothing_but_what_is_listened_to() -> None:
    connection = server()
    params = t.CancelledParams(request_id="l")
    cancelled = Notification("notifications/cancelled", params)
    connection.receive(request("subscriptions/listen", id="l", notifications={}))
    connection.receive(request("tools/call", id="c", name="f"))
    assert connection.send(cancelled, about="l") is not None
    for about in ("c", "nothing", None):
        with pytest.raises(LocalProtocolError):
            connection.send(cancelled, about=about)


def test_terms_go_beside_what_is_there() -> None:
    assert with_terms(UNSET, {"a": 1}) == {"_meta": {"a": 1}}
    assert with_terms({"x": 1, "_meta": {"b": 2}}, {"a": 1}) == {"x": 1, "_meta": {"a": 1, "b": 2}}


def test_what_may_be_left_out_is_left_out() -> None:
    assert set(Terms(REVISIONS[E], t.ClientCapabilities()).meta()) == {
        names.REVISION,
        names.CLIENT_CAPABILITIES,
    }


def test_a_request_that_only_mentions_the_key_belongs_to_no_era_by_it() -> None:
    """In an argument, or in what cannot be read, it names nothing."""
    connection = server()
    for params in (b'{"x":"%b"}', b'{"_meta":"%b"}'):
        frame = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":%b}'
        frame %= params % names.REVISION.encode()
        assert "not initialized" in refusal(connection, frame)["message"]


def test_what_many_clients_say_of_themselves_is_read_right_each_time() -> None:
    """Terms are remembered by what said them, and there may be any number."""
    connection = server()
    for number in range(250):
        info = {"name": f"client {number % 150}", "version": "1"}
        connection.receive(request(id=number, meta={**META, names.CLIENT_INFO: info}))
        terms = connection.terms(number)
        assert terms is not None
        assert terms.info is not None
        assert terms.info.name == info["name"]
        connection.receive(request(id=f"again {number}", meta={**META, names.CLIENT_INFO: info}))
        assert connection.terms(f"again {number}") == terms
