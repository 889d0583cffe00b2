"""Whole sessions as they stand on the wire, one file a revision, played through the engine.

Each line of `tests/wire/session-*.jsonl` is a frame, who wrote it and what it means to the receiver.
An engine in either role takes what the other side wrote, and writes its own part member by member.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from mcpcore import codec, jsonrpc
from mcpcore import types as t
from mcpcore.protocol import Cancel, Connection, Progress, State
from mcpcore.protocol.lifecycle import Role
from mcpcore.revisions import HANDSHAKE, METHODS, REVISIONS, Method

WIRE = Path(__file__).parent.parent / "wire"


def session(revision: str) -> list[dict[str, Any]]:
    text = (WIRE / f"session-{revision}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def row(method: str, sender: str, revision: str) -> Method:
    (found,) = [
        row
        for row in METHODS
        if row.name == method
        and row.sender in (sender, "both")
        and row.exists_in(REVISIONS[revision])
    ]
    return found


def typed(lines: list[dict[str, Any]], revision: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each line with what its writer passes to `send`: objects of ours, as a program would."""
    asked: dict[tuple[str, Any], Method] = {}
    for line in lines:
        sender, frame = line["from"], line["frame"]
        event: Any = jsonrpc.decode(json.dumps(frame).encode(), [])
        if "method" in frame:
            method = row(frame["method"], sender, revision)
            if "id" in frame:
                asked[sender, frame["id"]] = method
            params = UNSET if event.params is UNSET else codec.decode(event.params, method.params)
            if isinstance(params, t.CancelledParams):
                assert params.request_id is not None
                event = Cancel(params.request_id, params.reason)
            elif isinstance(params, t.ProgressParams):
                event = Progress(
                    params.progress_token, params.progress, params.total, params.message
                )
            elif isinstance(event, jsonrpc.Request):
                event = jsonrpc.Request(event.id, event.method, params)
            else:
                event = jsonrpc.Notification(event.method, params)
        elif "result" in frame:
            answered = asked["server" if sender == "client" else "client", frame["id"]]
            assert answered.result is not None
            event = jsonrpc.Response(event.id, codec.decode(event.result, answered.result))
        yield line, event


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_session_as_it_stands_on_the_wire(revision: str, role: Role, strict: bool) -> None:
    engine = Connection(role, strict=strict)
    lines = session(revision)
    assert len(lines) > 20
    for line, event in typed(lines, revision):
        if line["from"] == role:
            data = engine.send(event)
            assert data is not None
            assert json.loads(data) == line["frame"]
        else:
            seen = engine.receive(json.dumps(line["frame"], ensure_ascii=False).encode())
            assert [type(one).__name__ for one in seen] == [line["means"]]
    assert engine.state is State.READY
    assert str(engine.revision) == revision
    assert engine.in_flight == ()


def test_every_handshake_revision_has_a_session() -> None:
    names = {path.stem.removeprefix("session-") for path in WIRE.glob("session-*.jsonl")}
    assert names == set(HANDSHAKE)
