"""What attacks on the library have found: each once did harm, and is refused or bounded now."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from handshake import connect, open_client

from mcpcore import (
    CallToolResult,
    Client,
    ConnectionLost,
    Context,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    Server,
    Timeouts,
    memory_channels,
)
from mcpcore.jsonrpc import MAX_BATCH, MAX_BATCH_SIZE, Malformed, decode, mend_surrogates
from mcpcore.protocol import LineDecoder
from mcpcore.testing import ScriptedPeer
from mcpcore.transport.lines import LineChannel


def nested(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value]
    return value


# Batches


@pytest.mark.parametrize(
    "batch",
    [b"[" + b"1," * MAX_BATCH + b"1]", b"[" + b" " * MAX_BATCH_SIZE + b"1]"],
    ids=["many", "large"],
)
def test_a_batch_has_limits(batch: bytes) -> None:
    bad = decode(batch, [])
    assert isinstance(bad, Malformed)
    assert bad.error.code == -32600
    assert "batch of more than" in bad.error.message


# Lines


def test_a_line_of_backslashes_is_looked_at_once() -> None:
    """Without the bound this would not end."""
    assert mend_surrogates(b"\\" * 4_000_000) is None
    assert mend_surrogates(b"\\" * 3_000_001 + b"ud800") == b"\\" * 3_000_001 + b"ufffd"


@pytest.mark.parametrize(
    ("member", "answers"),
    [(b'"result":{"a":"', True), (b'"error":{', True), (b'"method":"x', False)],
)
@pytest.mark.parametrize(("id", "value"), [(b"7", 7), (b'"seven"', "seven")])
def test_a_line_that_is_too_long_still_tells_whose_it_was(
    member: bytes, answers: bool, id: bytes, value: int | str
) -> None:
    decoder = LineDecoder(100)
    decoder.receive_data(b'{"jsonrpc":"2.0","id":' + id + b"," + member + b"x" * 200 + b"\n")
    bad = decoder.next_message()
    assert isinstance(bad, Malformed)
    assert (bad.id, bad.answers) == (value, answers)


async def test_an_answer_that_is_too_long_fails_its_call_at_once() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        server = Server("long", "1")

        @server.tool
        def long() -> str:
            return "x" * 10_000

        nursery.start_soon(server.serve, LineChannel(theirs, theirs))
        async with connect(LineChannel(ours, ours, max_line=5000)) as client:
            with pytest.raises(RemoteProtocolError, match="more than 5000 bytes"):
                await client.call_tool("long")
            await client.ping()


# What handlers give and raise


@pytest.mark.parametrize("depth", [500, 700, 900])
@pytest.mark.parametrize("inline", [False, True])
async def test_a_deep_value_with_a_null_costs_its_call_and_nothing_else(
    depth: int, inline: bool
) -> None:
    server = Server("deep", "1")

    def result() -> CallToolResult:
        return CallToolResult(content=[], structured_content={"x": nested(depth)})

    def error() -> None:
        raise RequestFailed(-32000, "no", {"x": nested(depth)})

    async def later_result() -> CallToolResult:
        return result()

    async def later_error() -> None:
        error()

    server.tool(name="result", inline=inline)(result if inline else later_result)
    server.tool(name="error", inline=inline)(error if inline else later_error)
    async with connect(server) as client:
        for name in ("result", "error"):
            with pytest.raises((RequestFailed, RemoteProtocolError)):
                await client.request("tools/call", {"name": name})
        await client.ping()


async def test_middleware_that_gives_what_cannot_be_written_costs_its_call() -> None:
    server = Server("odd", "1")
    odd: list[Any] = []
    odd.append(odd)
    answers = iter([{"a": odd}, {"a": 10**5000}, {"a": nested(5000)}])

    @server.around
    async def give(proceed: Any, ctx: Context[Any], request: Any) -> Any:
        return next(answers) if request.method == "ping" else await proceed()

    async with connect(server) as client:
        for _ in range(3):
            with pytest.raises(RequestFailed, match="cannot be sent"):
                await client.ping()


class OfTheirOwn(BaseException):
    pass


@pytest.mark.parametrize("error", [asyncio.CancelledError(), OfTheirOwn(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("kind", ["async", "plain", "inline"])
async def test_no_exception_of_a_handler_ends_the_server(error: BaseException, kind: str) -> None:
    server = Server("raises", "1")

    def plain() -> None:
        raise error

    async def waits() -> None:
        raise error

    server.tool(name="raises", inline=kind == "inline")(waits if kind == "async" else plain)
    async with connect(server) as client:
        if isinstance(error, SystemExit):
            assert (await client.call_tool("raises")).is_error
        else:
            with pytest.raises(RequestFailed, match="Internal error"):
                await client.call_tool("raises")
        await client.ping()


@pytest.mark.parametrize("code", ["x", 1.5, None])
async def test_an_error_code_that_is_none_becomes_one(code: Any) -> None:
    server = Server("odd", "1")

    @server.tool
    async def odd() -> None:
        raise RequestFailed(code, "m")

    async with connect(server) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.call_tool("odd")
        assert caught.value.code == -32603


async def test_a_line_feed_in_raw_json_does_not_tear_the_line() -> None:
    server = Server("raw", "1")

    @server.tool
    def raw() -> CallToolResult:
        return CallToolResult(content=[], structured_content=msgspec.Raw(b'{"a":\n"b\\n"}'))

    async with connect(server) as client:
        assert (await client.call_tool("raw")).structured_content == {"a": "b\n"}


# Floods


async def test_answers_that_nobody_reads_end_the_connection_within_one_read() -> None:
    """What a read brings may cost a thousand times its size."""
    server = Server("large", "1")

    @server.tool(inline=True)
    def large() -> str:
        return "x" * 100_000

    ours, theirs = memory_channels(backlog=1_000_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs)
        peer = ScriptedPeer(ours)
        async with peer:
            await peer.offer_handshake()
            for id in range(10_000):
                peer.send(
                    {
                        "jsonrpc": "2.0",
                        "id": id,
                        "method": "tools/call",
                        "params": {"name": "large"},
                    }
                )
            await trio.testing.wait_all_tasks_blocked()
            received = 0
            with pytest.raises(ConnectionLost):
                while True:
                    received += sum(map(len, await ours.receive()))
            assert received < 2_000_000


async def test_a_flood_of_changed_roots_counts_as_one_more(autojump_clock: Any) -> None:
    server = Server("roots", "1")
    calls = 0

    @server.on_roots_changed
    async def changed(ctx: Context[Any]) -> None:
        nonlocal calls
        calls += 1
        await trio.sleep(1)

    async with connect(server, roots=["/"]) as client:
        await client.roots_changed()
        await trio.sleep(0.1)
        for _ in range(1000):
            await client.roots_changed()
        await trio.sleep(10)
        assert calls == 2


async def test_a_flood_for_a_slow_callback_is_bounded(autojump_clock: Any) -> None:
    server = Server("logs", "1")
    seen = []

    @server.tool
    async def flood(ctx: Context[Any]) -> None:
        for number in range(5000):
            ctx.log("info", number)

    async def slow(message: Any) -> None:
        await trio.sleep(0.001)
        seen.append(message.data)

    async with connect(server, on_log=slow) as client:
        await client.call_tool("flood")
        await trio.sleep(60)
        assert seen == list(range(len(seen)))
        assert 1000 <= len(seen) < 5000
        await client.call_tool("flood")
        await trio.sleep(60)
        assert len(seen) >= 2000


async def test_two_requests_with_one_token_each_have_their_progress() -> None:
    """The mistake is the client's; the tools do not fail for it."""
    server = Server("tokens", "1")
    both = trio.Event()

    @server.tool
    async def steps(first: int) -> str:
        return "unused"

    server.remove_tool("steps")

    @server.tool(name="steps")
    async def report(ctx: Context[Any], first: int) -> str:
        ctx.progress(first)
        if first == 1:
            both.set()
        await both.wait()
        ctx.progress(first + 1)
        return "done"

    ours, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs)
        async with ScriptedPeer(ours) as peer:
            await peer.offer_handshake()
            for id, first in ((1, 5), (2, 1)):
                params = {
                    "name": "steps",
                    "arguments": {"first": first},
                    "_meta": {"progressToken": 9},
                }
                peer.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
            answers = []
            while len(answers) < 2:
                message = await peer.receive()
                if "id" in message:
                    answers.append(message)
            assert not [answer for answer in answers if answer["result"].get("isError")]


# Callers


async def test_a_pattern_of_a_foreign_schema_is_not_run() -> None:
    """It could stall the whole process; the rest of the schema is checked."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "^(a+)+$"},
            "pattern": {"type": "integer"},
        },
        "required": ["a"],
    }
    results: list[Any] = [{"a": "a" * 50 + "!"}, {"a": "b", "pattern": "x"}, {"a": 5}]

    ours, theirs = memory_channels()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            with contextlib.suppress(ConnectionLost):
                async with ScriptedPeer(theirs) as peer:
                    await peer.accept_handshake(capabilities={"tools": {}})
                    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
                    while True:
                        request = await peer.receive()
                        if request["method"] == "tools/list":
                            result: Any = {"tools": [tool]}
                        else:
                            result = {"content": [], "structuredContent": results.pop(0)}
                        peer.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

        nursery.start_soon(serve)
        async with connect(ours) as client:
            assert (await client.call_tool("t")).validated is False
            for _ in range(2):
                with pytest.raises(RemoteProtocolError, match="output schema"):
                    await client.call_tool("t")
        nursery.cancel_scope.cancel()


async def test_learning_the_schemas_is_within_the_time_of_the_call(autojump_clock: Any) -> None:
    ours, theirs = memory_channels()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            with contextlib.suppress(ConnectionLost):
                async with ScriptedPeer(theirs) as peer:
                    await peer.accept_handshake(capabilities={"tools": {}})
                    number = 0
                    while True:
                        request = await peer.receive(within=1000)
                        if request.get("method") == "tools/list":
                            number += 1
                            await trio.sleep(0.5)
                            result: Any = {"tools": [], "nextCursor": str(number)}
                        elif "id" in request:
                            result = {"content": [], "structuredContent": {}}
                        else:
                            continue
                        peer.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

        nursery.start_soon(serve)
        async with connect(ours) as client:
            with trio.fail_after(2):
                assert (await client.call_tool("t", timeout=1)).validated is False
        nursery.cancel_scope.cancel()


async def test_a_timeout_that_is_no_number_is_refused_and_hurts_nobody() -> None:
    async with connect(Server("any", "1")) as client:
        with pytest.raises(ValueError, match="NaN"):
            await client.ping(timeout=float("nan"))
        await client.ping()


async def test_a_timeout_of_nothing_is_a_timeout() -> None:
    async with connect(Server("any", "1"), timeouts=Timeouts(request=0)) as client:
        with pytest.raises(RequestTimeout):
            await client.ping()
        await client.ping(timeout=5)


async def test_a_callback_may_close_the_client(autojump_clock: Any) -> None:
    server = Server("logs", "1")

    @server.tool
    async def log(ctx: Context[Any]) -> None:
        ctx.log("info", "close now")
        await trio.sleep_forever()

    client: Client

    async def close(_: Any) -> None:
        await client.aclose()

    async with trio.open_nursery() as nursery:
        client = await open_client(nursery, server, on_log=close)
        with pytest.raises(ConnectionLost, match="this side closed"):
            await client.call_tool("log")


# Descriptors


@pytest.mark.process
def test_one_socket_for_everything_carries_a_large_answer_whole() -> None:
    """As inetd starts a server: stdin, stdout and stderr are one socket."""
    program = (
        "from mcpcore import Server\n"
        "server = Server('inetd', '1')\n"
        "@server.tool\n"
        "async def blob(size: int) -> str: return 'x' * size\n"
        "server.run()\n"
    )
    near, far = socket.socketpair()
    with near:
        with far:
            child = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=far,
                stdout=far,
                stderr=far,
                env=dict(os.environ),
            )
        try:
            near.settimeout(30)
            call = {"name": "blob", "arguments": {"size": 3_000_000}}
            info = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            for message in (
                {"id": 1, "method": "initialize", "params": info},
                {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/call", "params": call},
            ):
                near.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            lines = near.makefile("rb")
            assert json.loads(lines.readline())["id"] == 1
            assert len(json.loads(lines.readline())["result"]["content"][0]["text"]) == 3_000_000
            near.shutdown(socket.SHUT_WR)
            assert child.wait(30) == 0
            lines.close()
        finally:
            child.kill()
            child.wait()
