"""Opening and closing in every order and from every task: what breaks others.

Each order is tried in memory, where it is quick, and with real children.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing
from handshake import connect, open_client

from mcpcore import Client, ConnectionLost, Context, Server, Timeouts
from mcpcore.testing import ScriptedPeer, memory_channels

PATIENT = Timeouts(connect=20, request=20)


def server_in_memory():
    server = Server("here", "1")

    @server.tool
    async def any() -> str:
        return "done"

    return server


@pytest.fixture(
    params=["memory", pytest.param("process", marks=pytest.mark.process)],
)
def target(request, world):
    """Gives a target that answers pings and the tool `any`."""
    if request.param == "memory":
        return server_in_memory

    def make():
        return world.peer("plain")

    return make


async def works(client):
    result = await client.call_tool("any")
    return result.text == "done"


async def is_closed(client):
    with pytest.raises(ConnectionLost, match="this side closed"):
        await client.ping()
    return True


# F-127: the orders that break others.


async def test_open_a_open_b_close_a_close_b(target):
    """F-127: not the reverse of the order of opening."""
    async with trio.open_nursery() as nursery:
        a = await open_client(nursery, target(), timeouts=PATIENT)
        b = await open_client(nursery, target(), timeouts=PATIENT)
        await a.aclose()
        assert await is_closed(a)
        assert await works(b)
        await b.aclose()
        assert await is_closed(b)


async def test_opened_in_one_task_and_closed_in_another(target):
    """F-127: neither is the task that owns the nursery."""
    opened: list[Client] = []
    unrelated = trio.CancelScope()

    async with trio.open_nursery() as nursery:

        async def open_it():
            opened.append(await open_client(nursery, target(), timeouts=PATIENT))

        async def close_it():
            await opened[0].aclose()

        async def something_else():
            with unrelated:
                await trio.sleep_forever()

        nursery.start_soon(something_else)
        async with trio.open_nursery() as first:
            first.start_soon(open_it)
        assert await works(opened[0])
        async with trio.open_nursery() as second:
            second.start_soon(close_it)
        assert await is_closed(opened[0])
        assert not unrelated.cancel_called
        unrelated.cancel()


async def test_opened_within_a_scope_that_is_gone_it_lives_on(target):
    """F-127: a deadline around the opening is no deadline for the connection."""
    async with trio.open_nursery() as nursery:
        with trio.fail_after(20) as scope:
            client = await open_client(nursery, target(), timeouts=PATIENT)
        scope.cancel()
        assert await works(client)
        await client.aclose()


async def test_closed_twice_and_by_several_tasks_at_once(target):
    """F-049."""
    async with trio.open_nursery() as nursery:
        client = await open_client(nursery, target(), timeouts=PATIENT)
        async with trio.open_nursery() as closers:
            for _ in range(3):
                closers.start_soon(client.aclose)
        await client.aclose()
        assert await is_closed(client)


async def test_the_nursery_can_be_left_when_its_connections_are_closed(target):
    """No task stays behind."""
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            client = await open_client(nursery, target(), timeouts=PATIENT)
            await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_nested_blocks_may_close_in_any_order(target):
    """F-127: the outer is closed by hand while the inner is in use."""
    async with connect(target(), timeouts=PATIENT) as outer:
        async with connect(target(), timeouts=PATIENT) as inner:
            await outer.aclose()
            assert await works(inner)
        assert await is_closed(inner)


async def test_a_block_whose_connection_was_closed_inside_is_left_quietly(target):
    async with connect(target(), timeouts=PATIENT) as client:
        await client.aclose()
        assert await is_closed(client)


async def test_calls_in_flight_fail_when_another_task_closes():
    """F-049, F-034: at once, with one plain exception each."""
    ours, theirs = memory_channels()
    failures = []
    async with ScriptedPeer(theirs) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(peer.accept_handshake)
        client = await open_client(nursery, ours)

        async def call():
            with pytest.raises(ConnectionLost, match="this side closed") as caught:
                await client.ping()
            failures.append(caught.value)

        async with trio.open_nursery() as callers:
            for _ in range(3):
                callers.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            await client.aclose()
    assert len(failures) == 3


async def test_closed_during_connect_by_cancelling():
    """F-041, F-049: nothing more is sent, least of all a cancellation of initialize."""
    ours, theirs = memory_channels()
    async with ScriptedPeer(theirs) as peer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_client, nursery, ours)
            await peer.expect({"method": "initialize"})
            nursery.cancel_scope.cancel()
        await peer.expect_end()


async def test_closed_during_connect_by_the_peer():
    ours, theirs = memory_channels()
    async with trio.open_nursery() as nursery, ScriptedPeer(theirs) as peer:

        async def open_it():
            with pytest.raises(ConnectionLost, match="the peer closed"):
                await open_client(nursery, ours)

        nursery.start_soon(open_it)
        await peer.expect({"method": "initialize"})


async def test_closed_inside_a_handler_that_answers_the_server(autojump_clock):
    """F-049: the handler is a task of the connection that it closes."""
    ours, theirs = memory_channels()
    closed = trio.Event()
    async with ScriptedPeer(theirs) as peer, trio.open_nursery() as nursery:

        async def sample(params):
            await client.aclose()
            closed.set()
            return "never sent"

        nursery.start_soon(peer.accept_handshake)
        client = await open_client(nursery, ours, sample=sample)
        peer.send(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "sampling/createMessage",
                "params": {"messages": [], "maxTokens": 1},
            }
        )
        await closed.wait()
        await peer.expect_end()
        assert await is_closed(client)


async def test_closed_inside_a_callback(autojump_clock):
    """F-049."""
    ours, theirs = memory_channels()
    closed = trio.Event()
    async with ScriptedPeer(theirs) as peer, trio.open_nursery() as nursery:

        async def on_list_changed(kind):
            await client.aclose()
            closed.set()

        nursery.start_soon(
            lambda: peer.accept_handshake(capabilities={"tools": {"listChanged": True}})
        )
        client = await open_client(nursery, ours, on_list_changed=on_list_changed)
        peer.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await closed.wait()
        await peer.expect_end()


async def test_closed_inside_a_tool_by_its_server(autojump_clock):
    """The server's side closes its channel while a handler runs: the call of the client fails."""
    ours, theirs = memory_channels()
    server = Server("closing", "1")

    @server.tool
    async def hang_up(ctx: Context) -> None:
        await theirs.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs)
        async with connect(ours) as client:
            with pytest.raises(ConnectionLost):
                await client.call_tool("hang_up")


async def test_a_server_that_is_cancelled_answers_nothing_more():
    """A signal ends it in the middle of a call: no answer may be made up for the call."""
    server = Server("cancelled", "1")

    @server.tool
    async def wait() -> None:
        await trio.sleep_forever()

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait"}}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    # The order in which tasks are cancelled is random: enough rounds meet all of them.
    for _ in range(30):
        ours, theirs = memory_channels()
        async with ScriptedPeer(theirs) as peer, trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, ours)
            await peer.offer_handshake()
            peer.send(call)
            peer.send(ping)
            await peer.expect({"id": 2})
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await peer.expect_end()


@pytest.mark.process
async def test_closed_after_the_child_died(world):
    """F-049, F-019."""
    async with trio.open_nursery() as nursery:
        client = await open_client(nursery, world.peer("dies_in_a_call"), timeouts=PATIENT)
        with pytest.raises(ConnectionLost, match="exited with status 7"):
            await client.call_tool("any")
        await client.aclose()
        await client.aclose()
        with pytest.raises(ConnectionLost, match="exited with status 7"):
            await client.ping()


async def test_a_connection_can_be_opened_again_after_it_was_closed(target):
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            client = await open_client(nursery, target(), timeouts=PATIENT)
            assert await works(client)
            await client.aclose()


async def test_many_connections_close_in_a_mixed_order(target):
    """F-127: closing one never disturbs the others."""
    async with trio.open_nursery() as nursery:
        clients = [await open_client(nursery, target(), timeouts=PATIENT) for _ in range(6)]
        for number in (3, 0, 5, 1, 4, 2):
            await clients[number].aclose()
            for other in clients:
                if other.state.value == "ready":
                    assert await works(other)
        assert [client.state.value for client in clients] == ["closed"] * 6
