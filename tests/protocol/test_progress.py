"""Progress: for whoever asked, growing, and not after the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET
from pair import OTHER, ConnectionPair

from mcpcore import types as t
from mcpcore.errors import LocalProtocolError
from mcpcore.jsonrpc import ErrorObject
from mcpcore.protocol import (
    Cancel,
    ErrorResponse,
    Forgiven,
    Progress,
    Refused,
    Request,
    Response,
    Stale,
)
from mcpcore.protocol.lifecycle import Role
from mcpcore.revisions import HANDSHAKE

ROLES: tuple[Role, Role] = ("client", "server")
both_ways = pytest.mark.parametrize("sender", ROLES)


def asking(sender: Role, token: Any = 7, *, strict: Role | None = None) -> ConnectionPair:
    """A session in which `sender` asks with a token."""
    pair = ConnectionPair.ready(strict=strict)
    pair.send(sender, Request(1, "ping", t.Params(meta={"progressToken": token})))
    return pair


def frame(token: str = "7", progress: str = "0.5", more: str = "") -> bytes:
    params = f'{{"progressToken":{token},"progress":{progress}{more}}}'
    return f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}'.encode()


@both_ways
@pytest.mark.parametrize("token", [7, "7", 0, "", -1, "tool-call-4", 2**60])
def test_progress_reaches_the_call_that_asked(sender: Role, token: Any) -> None:
    """PROG-01, PROG-09, PROG-14, F-045: the token keeps its type."""
    pair = asking(sender, token)
    (seen,) = pair.send(OTHER[sender], Progress(token, 0.25, 1.0, "a quarter"))
    assert seen == Progress(token, 0.25, 1.0, "a quarter", id=1)
    assert type(seen.token) is type(token)
    sent = json.loads(pair.wire[-1][1])["params"]
    assert sent == {
        "progressToken": token,
        "progress": 0.25,
        "total": 1.0,
        "message": "a quarter",
    }


@both_ways
def test_a_token_may_stand_in_plain_params(sender: Role) -> None:
    pair = ConnectionPair.ready()
    pair.send(sender, Request(1, "ping", {"_meta": {"progressToken": "t"}}))
    assert pair.send(OTHER[sender], Progress("t", 1)) == [Progress("t", 1.0, id=1)]


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_the_message_is_left_out_where_the_revision_has_none(revision: str) -> None:
    """PROG-05."""
    pair = ConnectionPair.ready(revision)
    pair.send("client", Request(1, "ping", {"_meta": {"progressToken": 1}}))
    (seen,) = pair.send("server", Progress(1, 1, message="m"))
    assert seen.message == (None if revision == HANDSHAKE[-1] else "m")


@both_ways
def test_progress_grows(sender: Role) -> None:
    """PROG-06: our side keeps the rule, fractions and unknown totals included."""
    pair = asking(sender)
    for progress in (0, 0.1, 0.25, 7):
        assert len(pair.send(OTHER[sender], Progress(7, progress))) == 1
    for progress in (7, 6.9, 0, -1):
        with pytest.raises(LocalProtocolError, match="progress must grow"):
            pair.send(OTHER[sender], Progress(7, progress))
    assert len(pair.send(OTHER[sender], Progress(7, 7.5))) == 1


@both_ways
def test_progress_that_cannot_be_written_does_not_count(sender: Role) -> None:
    pair = asking(sender)
    for progress in (
        Progress(7, float("inf")),
        Progress(7, 5, float("nan")),
        Progress(7, 5, 6, "\ud800"),
    ):
        with pytest.raises(LocalProtocolError):
            pair.send(OTHER[sender], progress)
    assert len(pair.send(OTHER[sender], Progress(7, 1))) == 1


@both_ways
def test_progress_of_the_peer_that_does_not_grow_is_counted(sender: Role) -> None:
    pair = asking(sender)
    assert [type(e) for e in pair.deliver(OTHER[sender], frame(progress="2"))] == [Progress]
    for progress in ("2", "1"):
        seen = pair.deliver(OTHER[sender], frame(progress=progress))
        assert [type(event) for event in seen] == [Forgiven, Progress]
        assert seen[0].rule == "PROG-06"
    strict = asking(sender, strict=sender)
    strict.deliver(OTHER[sender], frame(progress="2"))
    (refused,) = strict.deliver(OTHER[sender], frame(progress="2"))
    assert isinstance(refused, Refused)
    assert (refused.rule, refused.reply) == ("PROG-06", None)
    assert strict.side[sender].in_flight == (1,)


@both_ways
@pytest.mark.parametrize("answer", [Response(1, {}), ErrorResponse(1, ErrorObject(1, "m"))])
def test_after_the_answer_no_progress_is_sent(sender: Role, answer: Any) -> None:
    """PROG-10."""
    pair = asking(sender)
    pair.send(OTHER[sender], answer)
    assert pair.side[OTHER[sender]].send(Progress(7, 1)) is None


@both_ways
def test_after_a_cancellation_no_progress_is_sent(sender: Role) -> None:
    """F-039."""
    pair = asking(sender)
    pair.send(sender, Cancel(1))
    assert pair.side[OTHER[sender]].send(Progress(7, 1)) is None


@both_ways
def test_without_a_token_no_progress_is_sent(sender: Role) -> None:
    """F-045."""
    pair = ConnectionPair.ready()
    pair.send(sender, Request(1, "ping"))
    for token in (1, "1", None):
        assert pair.side[OTHER[sender]].send(Progress(token, 1)) is None  # type: ignore[arg-type]


@both_ways
@pytest.mark.parametrize(("token", "other"), [(7, "7"), ("7", 7), (1, True), (7, 7.0)])
def test_a_token_of_another_type_is_another_token(sender: Role, token: Any, other: Any) -> None:
    """F-045."""
    pair = asking(sender, token)
    assert pair.side[OTHER[sender]].send(Progress(other, 1)) is None


@both_ways
def test_two_tokens_are_not_mixed_up(sender: Role) -> None:
    """PROG-09: 1 and "1" in two calls."""
    pair = ConnectionPair.ready()
    pair.send(sender, Request("a", "ping", {"_meta": {"progressToken": 1}}))
    pair.send(sender, Request("b", "ping", {"_meta": {"progressToken": "1"}}))
    assert pair.send(OTHER[sender], Progress("1", 5)) == [Progress("1", 5.0, id="b")]
    assert pair.send(OTHER[sender], Progress(1, 3)) == [Progress(1, 3.0, id="a")]


@both_ways
@pytest.mark.parametrize("token", ["99", '"7"', '"made up"'])
def test_progress_of_nothing_is_stale(sender: Role, token: str) -> None:
    """F-044, F-045, PROG-12."""
    pair = asking(sender)
    (stale,) = pair.deliver(OTHER[sender], frame(token))
    assert isinstance(stale, Stale)
    assert stale.id == json.loads(token)
    assert pair.side[sender].in_flight == (1,)


@both_ways
def test_late_progress_is_stale(sender: Role) -> None:
    pair = asking(sender)
    pair.send(OTHER[sender], Response(1, {}))
    (stale,) = pair.deliver(OTHER[sender], frame())
    assert isinstance(stale, Stale)


@both_ways
@pytest.mark.parametrize(
    "odd",
    [
        frame(progress='"x"'),
        frame(token="1.5"),
        frame(token="null"),
        frame(more=',"message":5'),
        b'{"jsonrpc":"2.0","method":"notifications/progress"}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}',
    ],
)
def test_unreadable_progress_is_stale(sender: Role, odd: bytes) -> None:
    pair = asking(sender)
    (stale,) = pair.deliver(OTHER[sender], odd)
    assert isinstance(stale, Stale)


@both_ways
@pytest.mark.parametrize(
    "params",
    [
        '{"_meta":{"progressToken":1.5}}',
        '{"_meta":{"progressToken":true}}',
        '{"_meta":{"progressToken":null}}',
        '{"_meta":{"progressToken":{}}}',
        '{"_meta":5,"progressToken":1}',
        '{"_meta":null,"x":{"progressToken":1}}',
        '{"progressToken":1}',
    ],
)
def test_what_is_no_token_asks_for_nothing(sender: Role, params: str) -> None:
    """PROG-02."""
    pair = ConnectionPair.ready()
    request = '{"jsonrpc":"2.0","id":1,"method":"ping","params":%s}' % params
    assert [type(event) for event in pair.deliver(sender, request.encode())] == [Request]
    for token in (1, 1.5, True, None):
        assert pair.side[OTHER[sender]].send(Progress(token, 1)) is None  # type: ignore[arg-type]


@both_ways
def test_the_word_outside_of_params_asks_for_nothing(sender: Role) -> None:
    pair = ConnectionPair.ready()
    (request,) = pair.deliver(
        sender, b'{"jsonrpc":"2.0","id":1,"method":"ping","x":{"progressToken":1}}'
    )
    assert request == Request(1, "ping", UNSET)
    assert pair.side[OTHER[sender]].send(Progress(1, 1)) is None
