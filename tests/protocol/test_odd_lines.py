"""Odd lines that engines are known to disagree on, after a handshake in the newest revision.

Each has one right outcome by JSON-RPC 2.0 and the specification: an answer, an error with this code
and this id, or silence. The table is held against the engine alone and against a whole server, which
is given the very bytes that would stand on its stdin.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing
from pair import ConnectionPair

from mcpcore import Server, memory_channels, serve_stream
from mcpcore.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from mcpcore.protocol import LineDecoder, Malformed, Refused, Request, Response
from mcpcore.revisions import HANDSHAKE

ABSENT = "absent"
"""The answer has no member `id`."""


class Row(NamedTuple):
    """`outcome`: an error code, `served`, `tool error` or `silence`; `id`: that of the answer."""

    name: str
    line: bytes
    outcome: int | str
    id: Any = ABSENT
    server_only: bool = False
    """The engine passes it on; what it means is known one floor up."""


def ping(id: str, more: str = "") -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"method":"ping"%s}' % (id.encode(), more.encode())


def call(params: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":%s}' % params.encode()


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "initialize",
    "params": {
        "protocolVersion": HANDSHAKE[0],
        "capabilities": {},
        "clientInfo": {"name": "n", "version": "1"},
    },
}

ROWS = [
    Row("not JSON", b"{this is not json", PARSE_ERROR),
    Row("empty line", b"", "silence"),
    Row("batch of two pings", b"[%s,%s]" % (ping("7"), ping("8")), INVALID_REQUEST),
    Row("no jsonrpc", b'{"id":7,"method":"ping"}', INVALID_REQUEST, 7),
    Row("jsonrpc 1.0", b'{"jsonrpc":"1.0","id":7,"method":"ping"}', INVALID_REQUEST, 7),
    Row("id null", ping("null"), INVALID_REQUEST),
    Row("id 1.5", ping("1.5"), INVALID_REQUEST),
    Row("id true", ping("true"), INVALID_REQUEST),
    Row('id "s-1"', ping('"s-1"'), "served", "s-1"),
    Row("params an array", ping("7", ',"params":[1]'), INVALID_REQUEST, 7),
    Row("unknown method", b'{"jsonrpc":"2.0","id":7,"method":"no/such"}', METHOD_NOT_FOUND, 7),
    Row("unknown notification", b'{"jsonrpc":"2.0","method":"notifications/no/such"}', "silence"),
    Row("unknown tool", call('{"name":"no such tool"}'), INVALID_PARAMS, 7, server_only=True),
    Row("wrong-typed argument", call('{"name":"add","arguments":{"a":"x","b":2}}'), "tool error", 7, server_only=True),
    Row("tools/call without a name", call('{"arguments":{}}'), INVALID_PARAMS, 7, server_only=True),
    Row("CRLF ending", ping("7") + b"\r", "served", 7),
    Row("byte-order mark first", b"\xef\xbb\xbf" + ping("7"), PARSE_ERROR),
    Row("invalid UTF-8 inside a string", ping("7", ',"params":{"x":"?"}').replace(b"?", b"\x92"), PARSE_ERROR),
    Row("raw U+2028 inside a string", ping("7", ',"params":{"x":"\u2028"}'), "served", 7),
    Row("duplicate id key", ping("7", ',"id":8'), "served", 8),
    Row("stray response", b'{"jsonrpc":"2.0","id":99,"result":{}}', "silence"),
    Row("cursor nobody issued", b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"made up"}}', INVALID_PARAMS, 7, server_only=True),
    Row("second initialize", json.dumps(INITIALIZE).encode(), INVALID_REQUEST, 7),
]  # fmt: skip


def check(row: Row, answers: list[dict[str, Any]]) -> None:
    if row.outcome == "silence":
        assert answers == []
        return
    (answer,) = answers
    assert answer.get("id", ABSENT) == row.id
    assert type(answer.get("id", ABSENT)) is type(row.id)
    assert answer["jsonrpc"] == "2.0"
    if row.outcome == "served":
        assert "result" in answer
    elif row.outcome == "tool error":
        assert answer["result"]["isError"] is True
        assert "a" in answer["result"]["content"][0]["text"]
    else:
        assert answer["error"]["code"] == row.outcome
        assert "result" not in answer


def test_the_table_is_whole() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) == 23


@pytest.mark.parametrize(
    "row", [row for row in ROWS if not row.server_only], ids=lambda row: row.name
)
@pytest.mark.parametrize("strict", [False, True])
def test_an_odd_line_before_the_engine(row: Row, strict: bool) -> None:
    pair = ConnectionPair.ready(HANDSHAKE[0], strict="server" if strict else None)
    decoder = LineDecoder()
    decoder.receive_data(row.line + b"\n" + ping('"after"') + b"\n")
    answers = []
    served = []
    while isinstance(frame := decoder.next_message(), bytes | Malformed):
        for event in pair.server.receive(frame):
            if isinstance(event, Request):
                served.append(event.id)
                answers.append(json.loads(pair.server.send(Response(event.id, {})) or b""))
            elif isinstance(event, Refused) and event.reply is not None:
                answers.append(json.loads(event.reply))
    # Whatever it was, the next line is served as if nothing had been.
    assert answers.pop() == {"jsonrpc": "2.0", "id": "after", "result": {}}
    assert served == ([row.id] if row.outcome == "served" else []) + ["after"]
    check(row, answers)


def adding(*, strict: bool = False) -> Server:
    server = Server("odd", "1", strict=strict)

    @server.tool(inline=True)
    def add(a: int, b: int) -> int:
        return a + b

    return server


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize("strict", [False, True])
async def test_an_odd_line_before_a_server(row: Row, strict: bool, autojump_clock: Any) -> None:
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, adding(strict=strict), far)
        opening = json.dumps(INITIALIZE | {"id": "open"}).encode()
        await near.send_all(opening + b'\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        await trio.testing.wait_all_tasks_blocked()
        await near.send_all(row.line + b"\n")
        await trio.testing.wait_all_tasks_blocked()
        await near.send_all(ping('"after"') + b"\n")
        await near.send_eof()
        received = b"".join([chunk async for chunk in near])
        await near.aclose()
    assert b"\r" not in received
    assert received.endswith(b"\n")
    first, *answers, last = [json.loads(line) for line in received.splitlines()]
    assert first["id"] == "open"
    assert last == {"jsonrpc": "2.0", "id": "after", "result": {}}
    check(row, answers)


@pytest.mark.parametrize("row", [row for row in ROWS if row.server_only], ids=lambda row: row.name)
async def test_an_odd_request_on_a_channel(row: Row, autojump_clock: Any) -> None:
    """The same over a channel within the process, where frames come whole."""
    near, far = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(adding().serve, far)
        near.send_nowait(json.dumps(INITIALIZE | {"id": "open"}).encode())
        near.send_nowait(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', row.line)
        answers: list[Any] = []
        while len(answers) < 2:
            answers += [json.loads(frame) for frame in await near.receive()]  # type: ignore[arg-type]
        await near.aclose()
    check(row, answers[1:])
