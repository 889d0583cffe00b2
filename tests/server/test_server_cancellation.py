"""A cancellation that comes in stops the handler, and no answer is written."""

from __future__ import annotations

import pytest
import trio
from scripted_client import served

from mcpcore import Context, Limits, Server, Timeouts


def cancel(client, id, reason=None):
    client.notify("notifications/cancelled", {"requestId": id, "reason": reason or "enough"})


async def test_a_cancelled_handler_stops_and_nothing_is_answered():
    """F-039: an error answer to a cancelled request confuses clients."""
    server = Server("cancel", "1")
    started, stopped = trio.Event(), trio.Event()

    @server.tool
    async def hang() -> None:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with served(server) as client:
        call = client.ask("tools/call", {"name": "hang"})
        await started.wait()
        cancel(client, call)
        await stopped.wait()
        assert await client.heard() == []


async def test_a_handler_that_swallows_the_cancellation_gets_no_answer_out():
    """F-039."""
    server = Server("cancel", "1")
    started, swallowed = trio.Event(), trio.Event()

    @server.tool
    async def stubborn(ctx: Context) -> str:
        started.set()
        with trio.CancelScope() as inner:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                inner.cancel()
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
            ctx.progress(1)
        swallowed.set()
        return "here it is anyway"

    async with served(server) as client:
        call = client.ask("tools/call", {"name": "stubborn", "_meta": {"progressToken": 5}})
        await started.wait()
        cancel(client, call)
        await swallowed.wait()
        assert await client.heard() == []
        again = client.ask("ping")
        assert (await client.answer(again))["result"] == {}


async def test_a_handler_that_turns_the_cancellation_into_an_error_gets_no_answer_out():
    server = Server("cancel", "1")
    started = trio.Event()

    @server.tool
    async def hang() -> None:
        started.set()
        try:
            await trio.sleep_forever()
        except BaseException:
            raise ValueError("instead") from None

    async with served(server) as client:
        call = client.ask("tools/call", {"name": "hang"})
        await started.wait()
        cancel(client, call)
        assert await client.heard() == []


async def test_the_id_of_a_cancelled_request_is_free_again():
    server = Server("cancel", "1")
    started = [trio.Event(), trio.Event()]

    @server.tool
    async def hang(n: int) -> None:
        started[n].set()
        await trio.sleep_forever()

    async with served(server) as client:
        for n in range(2):
            client.ask("tools/call", {"name": "hang", "arguments": {"n": n}}, id="same")
            await started[n].wait()
            cancel(client, "same")
            assert await client.heard() == []


async def test_a_request_that_waits_in_the_queue_is_forgotten_when_cancelled():
    server = Server("cancel", "1", limits=Limits(concurrent=1, queued=5))
    go = trio.Event()
    began = []

    @server.tool
    async def work(n: int) -> str:
        began.append(n)
        await go.wait()
        return str(n)

    async with served(server) as client:
        ids = [client.ask("tools/call", {"name": "work", "arguments": {"n": n}}) for n in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        assert began == [0]
        cancel(client, ids[1])
        assert await client.heard() == []
        go.set()
        assert (await client.answer(ids[0]))["result"]["content"][0]["text"] == "0"
        assert (await client.answer(ids[2]))["result"]["content"][0]["text"] == "2"
        assert began == [0, 2]
        assert await client.heard() == []


async def test_request_and_cancellation_in_one_read_run_nothing():
    server = Server("cancel", "1")
    began = []

    @server.tool
    async def work() -> str:
        began.append(1)
        return "x"

    async with served(server) as client:
        client.ask("tools/call", {"name": "work"}, id="a")
        cancel(client, "a")
        assert await client.heard() == []
    assert began == []


@pytest.mark.parametrize(
    "params", [{"requestId": 99}, {"requestId": "x"}, {}, {"requestId": None}, {"requestId": []}]
)
async def test_a_cancellation_of_nothing_is_silence(params):
    async with served(Server("cancel", "1")) as client:
        client.notify("notifications/cancelled", params)
        assert await client.heard() == []


async def test_a_cancellation_after_the_answer_is_silence():
    server = Server("cancel", "1")
    server.tool(name="f", inline=True)(lambda: "x")
    async with served(server) as client:
        call = client.ask("tools/call", {"name": "f"})
        await client.answer(call)
        cancel(client, call)
        assert await client.heard() == []


async def test_resources_and_prompts_are_cancelled_too():
    server = Server("cancel", "1")
    started, stopped = [], []

    async def hang() -> str:
        started.append(1)
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(1)

    server.prompt(name="p")(hang)
    server.resource("x:r")(hang)
    async with served(server) as client:
        for id in (
            client.ask("prompts/get", {"name": "p"}),
            client.ask("resources/read", {"uri": "x:r"}),
        ):
            await trio.testing.wait_all_tasks_blocked()
            cancel(client, id)
        assert await client.heard() == []
    assert len(started) == len(stopped) == 2


async def test_one_cancellation_leaves_the_others_alone():
    server = Server("cancel", "1")
    go = trio.Event()

    @server.tool
    async def work(n: int) -> str:
        await go.wait()
        return str(n)

    async with served(server) as client:
        ids = [client.ask("tools/call", {"name": "work", "arguments": {"n": n}}) for n in range(4)]
        await trio.testing.wait_all_tasks_blocked()
        cancel(client, ids[1])
        await trio.testing.wait_all_tasks_blocked()
        go.set()
        texts = [(await client.answer(ids[n]))["result"]["content"][0]["text"] for n in (0, 2, 3)]
        assert texts == ["0", "2", "3"]
        assert await client.heard() == []


async def test_fifty_cancelled_calls_leave_no_handler_running():
    """F-040: the server's half: every cancellation that comes in ends its handler."""
    server = Server("cancel", "1")
    running = 0

    @server.tool
    async def hang() -> None:
        nonlocal running
        running += 1
        try:
            await trio.sleep_forever()
        finally:
            running -= 1

    async with served(server) as client:
        ids = [client.ask("tools/call", {"name": "hang"}) for _ in range(50)]
        await trio.testing.wait_all_tasks_blocked()
        assert running == 50
        for id in ids:
            cancel(client, id)
        assert await client.heard() == []
        assert running == 0


async def test_the_end_of_the_input_gives_accepted_requests_time_to_finish(autojump_clock):
    server = Server("drain", "1", timeouts=Timeouts(drain=5))
    finished = []

    @server.tool
    async def work(seconds: float) -> None:
        try:
            await trio.sleep(seconds)
            finished.append(seconds)
        except trio.Cancelled:
            finished.append("cancelled")
            raise

    async with served(server) as client:
        client.ask("tools/call", {"name": "work", "arguments": {"seconds": 3}})
        client.ask("tools/call", {"name": "work", "arguments": {"seconds": 30}})
        await trio.testing.wait_all_tasks_blocked()
        started = trio.current_time()
        await client.channel.aclose()
        await trio.sleep(10)
        assert finished == [3, "cancelled"]
        assert trio.current_time() - started == 10


async def test_the_peers_cancellation_does_not_reach_the_next_request_of_the_same_worker():
    server = Server("cancel", "1", limits=Limits(concurrent=1))

    @server.tool
    async def hang() -> None:
        await trio.sleep_forever()

    @server.tool
    async def fine() -> str:
        await trio.lowlevel.checkpoint()
        return "fine"

    async with served(server) as client:
        hanging = client.ask("tools/call", {"name": "hang"})
        waiting = client.ask("tools/call", {"name": "fine"})
        await trio.testing.wait_all_tasks_blocked()
        cancel(client, hanging)
        assert (await client.answer(waiting))["result"]["content"][0]["text"] == "fine"
