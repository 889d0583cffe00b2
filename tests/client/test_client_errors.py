"""What leaves a call and an `async with connect` block: one plain exception, never a group."""

from __future__ import annotations

import subprocess
import sys

import pytest
import trio
from handshake import connect, open_client
from scripted_server import greeting, scripted

import mcpcore
from mcpcore import (
    ConnectionLost,
    RequestFailed,
    RequestTimeout,
    Server,
    Timeouts,
    ToolError,
)
from mcpcore.transport.memory import MemoryChannel


def make_server() -> Server:
    server = Server("s", "1")

    @server.tool
    async def hang() -> None:
        await trio.sleep_forever()

    @server.tool
    async def fail() -> None:
        raise ToolError("no")

    return server


@pytest.mark.parametrize(
    "error",
    [
        ValueError("mine"),
        KeyError("k"),
        SystemExit(3),
        KeyboardInterrupt(),
        ExceptionGroup("own", [ValueError()]),
    ],
)
async def test_the_bodys_own_exception_comes_out_unchanged(error):
    """F-128: callers' except clauses must meet it, not a group around it."""
    with pytest.raises(type(error)) as caught:
        async with connect(make_server()):
            raise error
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


async def test_the_bodys_cause_and_context_are_kept():
    """F-128."""
    cause = KeyError("cause")
    with pytest.raises(ValueError, match="outer") as caught:
        async with connect(make_server()):
            raise ValueError("outer") from cause
    assert caught.value.__cause__ is cause


async def test_errors_of_calls_come_out_of_nested_connections_as_they_are():
    """F-128: nested up to five deep."""
    with pytest.raises(RequestFailed) as caught:
        async with connect(make_server()), connect(make_server()), connect(make_server()) as client:
            await client.call_tool("nope")
    assert caught.value.code == -32602


async def test_the_exception_of_a_body_whose_server_died_comes_out_plain():
    """F-034 F-128."""
    async with greeting() as (channel, server):
        server.begin(server.welcome)
        with pytest.raises(ConnectionLost) as caught:
            async with connect(channel) as client:
                call = server.begin(client.call_tool, "f")
                await trio.testing.wait_all_tasks_blocked()
                await server.channel.aclose()
                with pytest.raises(ConnectionLost):
                    await call.result()
                await client.ping()
        assert "closed the connection" in str(caught.value)


async def test_what_fails_while_opening_is_no_group():
    """F-128."""

    class Broken:
        async def serve(self, channel):
            raise OSError("no such database")

    with pytest.raises(ConnectionLost):
        async with connect(Broken()):
            pass
    with pytest.raises(TypeError):
        async with connect(5):
            pass


async def test_cancelled_passes_through_the_block():
    with trio.CancelScope() as scope:
        async with connect(make_server()) as client:
            scope.cancel()
            await client.call_tool("hang")
    assert scope.cancelled_caught


async def test_cancelling_while_the_block_is_left_passes_too():
    with trio.CancelScope() as scope:
        async with connect(make_server()):
            scope.cancel()
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_a_bodys_exception_goes_before_a_cancellation():
    with trio.CancelScope() as scope:
        with pytest.raises(ValueError, match="mine"):
            async with connect(make_server()):
                scope.cancel()
                raise ValueError("mine")
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_a_timeout_around_the_block_is_the_callers_own(autojump_clock):
    with pytest.raises(trio.TooSlowError):
        with trio.fail_after(5):
            async with connect(make_server()) as client:
                await client.call_tool("hang", timeout=float("inf"))


async def test_cancelling_while_opening_leaves_nothing_behind():
    async with greeting() as (channel, server):
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                await server.expect("initialize")
                scope.cancel()

            server.begin(cancel)
            async with connect(channel):
                raise AssertionError("must not get here")
        assert scope.cancelled_caught
        with pytest.raises(ConnectionLost):
            await server.receive()


async def test_the_end_of_the_channel_fails_all_waiters_at_once():
    """F-034: there is no way for a reader to end while callers wait."""
    async with scripted() as (client, server):
        calls = [server.begin(client.call_tool, f"f{n}") for n in range(20)]
        calls += [server.begin(client.list_tools), server.begin(client.ping)]
        await trio.testing.wait_all_tasks_blocked()
        await server.channel.aclose()
        with trio.fail_after(30):
            errors = []
            for call in calls:
                with pytest.raises(ConnectionLost) as caught:
                    await call.result()
                errors.append(caught.value)
        assert len({id(error) for error in errors}) == len(errors), "one instance for each caller"
        assert {error.reason for error in errors} == {"the peer closed the connection"}
        for use in (client.ping, client.list_tools, client.roots_changed):
            with pytest.raises(ConnectionLost):
                await use()


async def test_closing_fails_all_waiters_too():
    async with scripted() as (client, server):
        calls = [server.begin(client.call_tool, f"f{n}") for n in range(5)]
        await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
        for call in calls:
            with pytest.raises(ConnectionLost, match="this side closed"):
                await call.result()


async def test_a_transport_that_breaks_with_something_unexpected_fails_all_waiters(caplog):
    """F-034: a fatal error of the transport is the cause of every failure, not a log line."""
    async with greeting() as (channel, server):
        welcome = server.begin(server.welcome)
        client = await open_client(server._nursery, channel)
        await welcome.result()
        call = server.begin(client.call_tool, "f")
        await server.expect("tools/call")

        async def broken(self):
            raise OSError("the wire melted")

        channel_class = type(channel)
        assert channel_class is MemoryChannel
        original = MemoryChannel.receive
        MemoryChannel.receive = broken
        try:
            server.notify("notifications/vendor")
            with pytest.raises(ConnectionLost, match="the wire melted"):
                await call.result()
            await client.aclose()
        finally:
            MemoryChannel.receive = original


async def test_a_callers_cancelled_scope_tells_the_server_and_returns_at_once():
    """F-040: otherwise fifty cancelled calls leave fifty handlers running."""
    async with scripted() as (client, server):
        with trio.CancelScope() as scope:
            state = {}

            async def cancel_it() -> None:
                state["request"] = await server.expect("tools/call")
                scope.cancel()

            server.begin(cancel_it)
            await client.call_tool("f")
        assert scope.cancelled_caught
        cancelled = await server.expect("notifications/cancelled")
        assert cancelled["params"]["requestId"] == state["request"]["id"]
        # A late answer is nothing.
        server.answer(state["request"], {"content": []})
        await server.expect_silence()


async def test_a_timeout_tells_the_server_and_is_one_plain_exception(autojump_clock):
    """F-040."""
    async with scripted(timeouts=Timeouts(request=7)) as (client, server):
        call = server.begin(client.call_tool, "f")
        request = await server.expect("tools/call")
        with pytest.raises(RequestTimeout) as caught:
            await call.result()
        assert (caught.value.method, caught.value.seconds) == ("tools/call", 7)
        assert "within 7 s" in str(caught.value)
        cancelled = await server.expect("notifications/cancelled")
        assert cancelled["params"] == {"requestId": request["id"], "reason": "no answer in time"}
        server.answer(request, {"content": []})
        await server.expect_silence()


async def test_fifty_cancelled_calls_are_fifty_cancellations():
    """F-040."""
    async with scripted() as (client, server):
        calls = [server.begin(client.call_tool, "f") for _ in range(50)]
        requests = {(await server.expect("tools/call"))["id"] for _ in calls}
        for call in calls:
            call.scope.cancel()
        cancelled = [await server.expect("notifications/cancelled") for _ in calls]
        assert {message["params"]["requestId"] for message in cancelled} == requests
        await server.expect_silence()


async def test_a_cancelled_call_stops_its_handler_on_the_other_side():
    """F-040: client and server together."""
    server = Server("s", "1")
    started, stopped = trio.Event(), trio.Event()

    @server.tool
    async def hang() -> None:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with connect(server) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "hang")
            await started.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            await stopped.wait()
        await client.ping()


IMPORT = """
import sys
{statement}
loaded = sorted(
    name for name in sys.modules
    if name.split(".")[0] in {optional} or name.startswith("mcpcore.server")
)
print(",".join(loaded))
"""
OPTIONAL = {"jsonschema", "referencing", "click", "rich", "h11", "starlette", "pydantic"}


@pytest.mark.process
@pytest.mark.parametrize(
    "statement",
    ["import mcpcore.client", "from mcpcore import Client, connect, ToolError, StdioServer"],
)
def test_importing_the_client_loads_no_server_and_no_optional_dependency(statement):
    """F-130: a small client must not pay for a server, a web stack and model classes."""
    script = IMPORT.format(statement=statement, optional=OPTIONAL)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""


@pytest.mark.process
def test_importing_the_package_alone_loads_nothing_of_it():
    """F-130."""
    script = "import sys, mcpcore; print([n for n in sys.modules if n.startswith('mcpcore.') or n in ('trio', 'msgspec')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_public_names_are_all_there_and_no_others():
    for name in mcpcore.__all__:
        assert getattr(mcpcore, name) is not None
        assert name in dir(mcpcore)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mcpcore.nothing  # noqa: B018
