"""Requests of the peer at work: limits, cancellation, answers, and what goes wrong on the way."""

from __future__ import annotations

import contextvars

import pytest
import trio
from bare_peer import later, running
from msgspec import UNSET, Raw

from mcpcore import (
    CapabilityMissing,
    ConnectionLost,
    Limits,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    Timeouts,
)
from mcpcore import types as t
from mcpcore.protocol.events import Forgiven, Notification, Progress, Refused, Response, Stale
from mcpcore.runtime import BUSY, single
from mcpcore.transport.memory import MemoryChannel


def numbered(go: trio.Event, running_now: set, most: list):
    async def work(request):
        running_now.add(request.id)
        most.append(len(running_now))
        try:
            await go.wait()
        finally:
            running_now.discard(request.id)
        return {"content": []}

    return later(work)


async def test_no_more_than_the_ceiling_run_at_once_and_the_rest_wait_in_order():
    async with running("server", limits=Limits(concurrent=3, queued=100)) as (_, handler, peer):
        running_now, most, order = set(), [], []
        gates = {n: trio.Event() for n in range(10)}

        async def work(request):
            order.append(request.id)
            running_now.add(request.id)
            most.append(len(running_now))
            await gates[request.id].wait()
            running_now.discard(request.id)
            return {"content": []}

        handler.functions["tools/call"] = later(work)
        peer.send(*(peer.ask(n, "tools/call") for n in range(10)))
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(order) == [0, 1, 2]
        for n in range(10):
            gates[n].set()
            await trio.testing.wait_all_tasks_blocked()
        assert max(most) == 3
        assert order == list(range(10))
        assert len(await peer.heard()) == 10


async def test_beyond_the_queue_requests_are_refused_while_a_cancel_and_a_ping_get_through():
    limits = Limits(concurrent=2, queued=3)
    async with running("server", limits=limits) as (_, handler, peer):
        go, running_now, most = trio.Event(), set(), []
        handler.functions["tools/call"] = numbered(go, running_now, most)
        peer.send(*(peer.ask(n, "tools/call") for n in range(2)))
        await trio.testing.wait_all_tasks_blocked()
        peer.send(*(peer.ask(n, "tools/call") for n in range(2, 9)))
        refused = await peer.heard()
        assert {answer["id"] for answer in refused} == {5, 6, 7, 8}
        for answer in refused:
            assert answer["error"]["code"] == BUSY
            assert "3 requests are waiting" in answer["error"]["message"]
        peer.send(peer.ask("p", "ping"), peer.cancel(0), peer.cancel(3))
        assert [answer["id"] for answer in await peer.heard()] == ["p"]
        assert 0 not in running_now
        assert 2 in running_now
        # There is room again, and the id of a refused request is free.
        peer.send(peer.ask(5, "tools/call"))
        assert await peer.heard() == []
        go.set()
        assert sorted(answer["id"] for answer in await peer.heard()) == [1, 2, 4, 5]


async def test_a_flood_in_one_read_is_answered_whole():
    async with running("server", limits=Limits(concurrent=4, queued=10)) as (_, handler, peer):

        async def work(request):
            await trio.lowlevel.checkpoint()
            return {"content": []}

        handler.functions["tools/call"] = later(work)
        peer.send(*(peer.ask(n, "tools/call") for n in range(500)))
        answers = await peer.heard()
        assert sorted(answer["id"] for answer in answers) == list(range(500))
        refused = [answer for answer in answers if "error" in answer]
        assert len(refused) == 500 - 14
        assert {answer["error"]["code"] for answer in refused} == {BUSY}


async def test_a_context_variable_of_one_request_is_not_seen_by_the_next():
    variable = contextvars.ContextVar("variable", default="clean")
    async with running("server") as (_, handler, peer):
        seen = []

        async def work(request):
            seen.append(variable.get())
            variable.set("dirty")
            return {"content": []}

        handler.functions["tools/call"] = later(work)
        for n in range(5):
            peer.send(peer.ask(n, "tools/call"))
            await peer.receive()
        assert seen == ["clean"] * 5


async def test_idle_workers_are_used_again_and_few_are_kept():
    async with running("server") as (runtime, handler, peer):
        tasks = set()
        go = trio.Event()

        async def work(request):
            tasks.add(trio.lowlevel.current_task())
            await go.wait()
            return {"content": []}

        handler.functions["tools/call"] = later(work)
        peer.send(*(peer.ask(n, "tools/call") for n in range(30)))
        await trio.testing.wait_all_tasks_blocked()
        assert len(tasks) == 30
        go.set()
        await peer.heard()
        kept = set(runtime._nursery.child_tasks)
        assert 0 < len(kept) <= 6
        for n in range(3):
            peer.send(peer.ask(f"again {n}", "tools/call"))
            await peer.heard()
        assert set(runtime._nursery.child_tasks) == kept


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RequestFailed(-5, "no"), {"code": -5, "message": "no"}),
        (RequestFailed(-5, "no", {"a": 1}), {"code": -5, "message": "no", "data": {"a": 1}}),
        (ValueError("secret"), {"code": -32603, "message": "Internal error"}),
        (SystemExit(1), {"code": -32603, "message": "Internal error"}),
        (ExceptionGroup("g", [RequestFailed(-6, "in")]), {"code": -6, "message": "in"}),
        (
            ExceptionGroup("g", [RequestFailed(-6, "in"), ValueError()]),
            {"code": -32603, "message": "Internal error"},
        ),
    ],
)
@pytest.mark.parametrize("where", ["on the spot", "in a task"])
async def test_what_a_handler_raises_becomes_one_error_with_its_id(error, expected, where):
    """F-030."""
    async with running("server") as (_, handler, peer):

        def on_the_spot(request):
            raise error

        async def in_a_task(request):
            raise error

        function = on_the_spot if where == "on the spot" else later(in_a_task)
        handler.functions["tools/call"] = function
        peer.send(peer.ask("mine", "tools/call"), peer.ask("p", "ping"))
        answers = {answer["id"]: answer for answer in await peer.heard()}
        assert answers["mine"]["error"] == expected
        assert answers["p"]["result"] == {}


@pytest.mark.parametrize("result", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}])
async def test_an_answer_that_cannot_be_written_becomes_one_that_can(result):
    async with running("server") as (_, handler, peer):
        handler.functions["tools/call"] = lambda request: result
        peer.send(peer.ask(1, "tools/call"))
        (answer,) = await peer.heard()
        assert answer["error"]["code"] == -32603


async def test_an_error_whose_data_cannot_be_written_becomes_one_that_can():
    async with running("server") as (_, handler, peer):

        def fail(request):
            raise RequestFailed(-5, "no", object())

        handler.functions["tools/call"] = fail
        peer.send(peer.ask(1, "tools/call"))
        (answer,) = await peer.heard()
        assert answer["error"]["code"] == -32603


async def test_a_handler_of_notifications_that_raises_ends_nothing(caplog):
    async with running("server") as (_, handler, peer):

        def fail(notification):
            raise ValueError("broke")

        handler.on_notification = fail
        peer.send({"jsonrpc": "2.0", "method": "notifications/vendor"}, peer.ask(1, "ping"))
        assert [answer["id"] for answer in await peer.heard()] == [1]
    assert "handling notifications/vendor failed" in caplog.text


async def test_what_the_engine_passed_over_is_observed():
    async with running("server") as (_, handler, peer):
        peer.send(
            peer.cancel(99),
            {"jsonrpc": "2.0", "id": 5, "method": "nope"},
            {"jsonrpc": "2.0", "id": 6, "method": "ping", "params": None},
        )
        await peer.heard()
        assert [type(event) for event in handler.events] == [Stale, Refused, Forgiven]


async def test_an_observer_that_raises_ends_the_connection_with_its_reason():
    async with running("client") as (runtime, handler, peer):

        def observed(event):
            raise RemoteProtocolError("strict", "STDIO-04")

        handler.observed = observed
        call = peer.begin(runtime.request, "tools/list", UNSET)
        await peer.receive()
        peer.channel.send_nowait(b"junk")
        with pytest.raises(RemoteProtocolError, match="strict") as caught:
            await call.result()
        assert caught.value.rule == "STDIO-04"
        with pytest.raises(RemoteProtocolError):
            runtime.send(Notification("notifications/vendor"))
        assert isinstance(runtime.lost, RemoteProtocolError)


async def test_another_mcp_error_as_the_end_reads_as_a_lost_connection():
    async with running("client") as (runtime, handler, peer):

        def observed(event):
            raise LocalProtocolError("odd end")

        handler.observed = observed
        call = peer.begin(runtime.request, "tools/list", UNSET)
        await peer.receive()
        peer.channel.send_nowait(b"junk")
        with pytest.raises(ConnectionLost, match="odd end"):
            await call.result()


# Progress.


async def test_progress_reaches_its_own_call_and_nobody_else():
    """F-044 F-045: tokens that nobody gave are ignored, whatever they look like."""
    async with running("client") as (runtime, _handler, peer):
        seen = {"a": [], "b": []}
        calls = [
            peer.begin(runtime.request, "tools/list", UNSET, on_progress=seen[name].append)
            for name in "ab"
        ]
        requests = [await peer.receive() for _ in calls]
        tokens = [request["params"]["_meta"]["progressToken"] for request in requests]
        assert len(set(tokens)) == 2
        quiet = peer.begin(runtime.request, "tools/list", UNSET)
        plain = await peer.receive()
        assert "params" not in plain
        peer.send(
            peer.progress(tokens[0], 1, total=4, message="m"),
            peer.progress(tokens[1], 0.5),
            peer.progress(99, 1),
            peer.progress("tool-call-4", 1),
            peer.progress(str(tokens[0]), 2),
            peer.progress(plain["id"], 1),
            peer.progress(tokens[0], 2),
        )
        peer.send(*(peer.answer(request) for request in (*requests, plain)))
        for call in (*calls, quiet):
            await call.result()
        peer.send(peer.progress(tokens[0], 3))
        assert await peer.heard() == []
    first, second = seen.values()
    if len({tuple(p.progress for p in first), (1, 2)}) == 2:
        first, second = second, first
    assert [(p.progress, p.total, p.message) for p in first] == [(1, 4, "m"), (2, None, None)]
    assert [p.progress for p in second] == [0.5]


async def test_a_progress_callback_that_raises_harms_nothing(caplog):
    async with running("client") as (runtime, _handler, peer):

        def fail(progress):
            raise ValueError("callback broke")

        call = peer.begin(runtime.request, "tools/list", UNSET, on_progress=fail)
        request = await peer.receive()
        token = request["params"]["_meta"]["progressToken"]
        peer.send(peer.progress(token, 1), peer.progress(token, 2), peer.answer(request))
        await call.result()
    assert caplog.text.count("the progress callback of tools/list raised") == 2


async def test_an_async_progress_callback_is_refused_before_anything_is_sent():
    async with running("client") as (runtime, _handler, peer):

        async def callback(progress): ...

        with pytest.raises(TypeError, match="plain function"):
            await runtime.request("tools/list", UNSET, on_progress=callback)
        assert await peer.heard() == []


@pytest.mark.parametrize(
    "params",
    [
        {"name": "f", "_meta": {"vendor/x": 1}},
        t.CallToolParams(name="f", meta={"vendor/x": 1}),
    ],
)
async def test_the_token_stands_beside_what_else_is_in_meta(params):
    async with running("client") as (runtime, _, peer):
        peer.begin(runtime.request, "tools/call", params, on_progress=lambda _: None)
        sent = (await peer.receive())["params"]
        assert sent["name"] == "f"
        assert sent["_meta"]["vendor/x"] == 1
        assert "progressToken" in sent["_meta"]
    async with running("client") as (runtime, _handler, peer):
        for bare in ({"name": "f"}, t.CallToolParams(name="f")):
            peer.begin(runtime.request, "tools/call", bare, on_progress=lambda _: None)
            assert list((await peer.receive())["params"]["_meta"]) == ["progressToken"]


async def test_progress_goes_out_only_with_a_token_and_only_growing():
    """F-045."""
    async with running("server") as (runtime, handler, peer):
        started, go = trio.Event(), trio.Event()

        async def work(request):
            started.set()
            await go.wait()
            return {"content": []}

        handler.functions["tools/call"] = later(work)
        peer.send(peer.ask(1, "tools/call", {"_meta": {"progressToken": "t"}}))
        await started.wait()
        runtime.send(Progress("t", 1))
        runtime.send(Progress("other", 1))
        for stale in (1, 0.5):
            with pytest.raises(LocalProtocolError, match="must grow"):
                runtime.send(Progress("t", stale))
        runtime.send(Progress("t", 2, 4, "half"))
        sent = await peer.heard()
        assert [message["params"] for message in sent] == [
            {"progressToken": "t", "progress": 1},
            {"progressToken": "t", "progress": 2, "total": 4, "message": "half"},
        ]
        go.set()
        assert len(await peer.heard()) == 1
        runtime.send(Progress("t", 3))
        assert await peer.heard() == []


# A peer that reads slowly.


async def test_a_peer_that_does_not_read_holds_callers_back_and_then_times_out(autojump_clock):
    async with running("client", high_water=100) as (runtime, _handler, peer):
        long = {"cursor": "x" * 200}
        peer.begin(runtime.request, "tools/list", long, seconds=float("inf"))
        await trio.testing.wait_all_tasks_blocked()
        assert runtime.channel.crowded
        began = trio.current_time()
        with pytest.raises(RequestTimeout, match="not even sent"):
            await runtime.request("tools/list", UNSET, seconds=3)
        assert trio.current_time() - began == 3
        with pytest.raises(RequestTimeout, match="notifications/vendor"):
            await runtime.notify(Notification("notifications/vendor"))
        assert len(await peer.heard()) == 1


async def test_callers_go_on_when_the_peer_reads_again(autojump_clock):
    async with running("client", high_water=100) as (runtime, _handler, peer):
        peer.begin(runtime.request, "tools/list", {"cursor": "x" * 200})
        await trio.testing.wait_all_tasks_blocked()
        waiting = peer.begin(runtime.request, "tools/list", UNSET)
        telling = peer.begin(runtime.notify, Notification("notifications/vendor"))
        await trio.sleep(5)
        assert not telling.done.is_set()
        assert len(await peer.heard()) == 1
        await telling.result()
        messages = await peer.heard()
        assert {message["method"] for message in messages} == {"tools/list", "notifications/vendor"}
        for message in messages:
            if "id" in message:
                peer.send(peer.answer(message))
        await waiting.result()


async def test_progress_is_left_out_while_the_peer_does_not_read():
    async with running("server", high_water=100) as (runtime, handler, peer):
        go = trio.Event()

        async def work(request):
            await go.wait()
            return {"content": []}

        handler.functions["tools/call"] = later(work)
        peer.send(peer.ask(1, "tools/call", {"_meta": {"progressToken": "t"}}))
        await trio.testing.wait_all_tasks_blocked()
        for n in range(1, 1000):
            runtime.send(Progress("t", n), droppable=True)
        sent = await peer.heard()
        assert 0 < len(sent) < 10
        go.set()
        assert [message["id"] for message in await peer.heard()] == [1]


async def test_the_end_while_waiting_for_room_is_a_lost_connection():
    async with running("client", high_water=100) as (runtime, _handler, peer):
        peer.begin(runtime.request, "tools/list", {"cursor": "x" * 200})
        await trio.testing.wait_all_tasks_blocked()
        waiting = peer.begin(runtime.request, "tools/list", UNSET)
        await trio.testing.wait_all_tasks_blocked()
        await peer.channel.aclose()
        with pytest.raises(ConnectionLost):
            await waiting.result()


# The end.


async def test_nothing_can_be_sent_after_the_end():
    async with running("client") as (runtime, _handler, peer):
        await peer.channel.aclose()
        await runtime.closed.wait()
        assert isinstance(runtime.lost, ConnectionLost)
        with pytest.raises(ConnectionLost):
            await runtime.request("tools/list", UNSET)
        with pytest.raises(ConnectionLost):
            await runtime.notify(Notification("notifications/vendor"))
        with pytest.raises(ConnectionLost):
            runtime.send(Notification("notifications/vendor"))
        runtime.start_soon(trio.sleep, 0)
        await runtime.close()


async def test_a_channel_that_ends_between_two_messages_is_no_error_of_ours(caplog):
    """The channel is gone, and the reader has not heard of it: answers and cancels are dropped."""
    async with running("client") as (runtime, handler, peer):
        call = peer.begin(runtime.request, "tools/list", UNSET)
        await peer.receive()
        runtime.channel._end("gone")
        call.scope.cancel()
        await call.done.wait()
    async with running("server") as (runtime, handler, peer):

        async def work(request):
            runtime.channel._end("gone")
            return {"content": []}

        handler.functions["tools/call"] = later(work)
        peer.send(peer.ask(1, "tools/call"))
        await trio.testing.wait_all_tasks_blocked()
    assert "Traceback" not in caplog.text


async def test_a_request_whose_bytes_cannot_be_sent_leaves_nobody_waiting():
    async with running("client") as (runtime, _handler, _peer):
        runtime.channel._end("gone")
        with pytest.raises(ConnectionLost):
            await runtime.request("tools/list", UNSET)
        await runtime.close()


async def test_a_server_lets_accepted_requests_finish_within_its_bound(autojump_clock):
    async with running("server", timeouts=Timeouts(drain=5)) as (runtime, handler, peer):
        ended = []

        async def work(request):
            try:
                await trio.sleep(3 if request.id == 1 else 300)
                ended.append(request.id)
            except trio.Cancelled:
                ended.append("cancelled")
                raise
            return {"content": []}

        handler.functions["tools/call"] = later(work)
        peer.send(peer.ask(1, "tools/call"), peer.ask(2, "tools/call"))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await peer.channel.aclose()
        await runtime.closed.wait()
        assert trio.current_time() - began == 5
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [1, "cancelled"]


async def test_a_server_with_nothing_to_finish_ends_at_once(autojump_clock):
    async with running("server") as (runtime, _handler, peer):
        began = trio.current_time()
        await peer.channel.aclose()
        await runtime.closed.wait()
        assert trio.current_time() == began


async def test_close_does_not_wait_for_handlers(autojump_clock):
    async with running("server") as (runtime, handler, peer):

        async def work(request):
            await trio.sleep_forever()

        handler.functions["tools/call"] = later(work)
        peer.send(peer.ask(1, "tools/call"))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await runtime.close()
        assert trio.current_time() == began
        assert runtime.closed.is_set()


async def test_a_channel_that_cannot_be_closed_is_logged_and_done_with(monkeypatch, caplog):
    async with running("client") as (runtime, _handler, _peer):

        async def broken(self):
            raise OSError("will not close")

        monkeypatch.setattr(MemoryChannel, "aclose", broken)
        await runtime.close()
        monkeypatch.undo()
    assert "closing the channel failed" in caplog.text


async def test_functions_in_the_background_never_raise(caplog):
    async with running("client") as (runtime, _handler, peer):

        async def fail():
            raise ValueError("background broke")

        async def lose():
            raise ConnectionLost("gone")

        runtime.start_soon(fail)
        runtime.start_soon(lose)
        await trio.testing.wait_all_tasks_blocked()
        call = peer.begin(runtime.request, "tools/list", UNSET)
        peer.send(peer.answer(await peer.receive()))
        assert isinstance(await call.result(), Raw)
    assert caplog.text.count("Traceback") == 1


async def test_what_may_not_be_sent_raises_and_leaves_nothing_behind():
    async with running("client") as (runtime, _handler, peer):
        with pytest.raises(CapabilityMissing):
            await runtime.request("prompts/list", UNSET)
        with pytest.raises(LocalProtocolError):
            await runtime.request("tools/call", {"x": object()})
        assert await peer.heard() == []
        assert runtime.connection.in_flight == ()


def test_single_gives_what_a_group_of_one_holds():
    inner = ValueError()
    assert single(inner) is inner
    assert single(ExceptionGroup("a", [ExceptionGroup("b", [inner])])) is inner
    two = ExceptionGroup("two", [inner, KeyError()])
    assert single(two) is two


async def test_a_progress_token_of_an_unknown_call_reaches_no_callback():
    """F-044: late progress is a debug line, never the end of the transport."""
    async with running("client") as (runtime, _, peer):
        seen = []
        call = peer.begin(runtime.request, "tools/list", UNSET, on_progress=seen.append)
        request = await peer.receive()
        call.scope.cancel()
        await call.done.wait()
        peer.send(peer.progress(request["params"]["_meta"]["progressToken"], 1))
        peer.send(peer.progress(99, 1))
        again = peer.begin(runtime.request, "tools/list", UNSET)
        messages = await peer.heard()
        peer.send(peer.answer(messages[-1]))
        await again.result()
        assert seen == []


async def test_an_answer_that_comes_after_the_engine_gave_up_is_dropped():
    """An error answer that can be written no more, because the session is over, is nothing."""
    async with running("server") as (runtime, handler, peer):

        async def work(request):
            runtime.connection.lost()
            raise ValueError("too late")

        handler.functions["tools/call"] = later(work)
        peer.send(peer.ask(1, "tools/call"))
        assert await peer.heard() == []


async def test_a_request_whose_answer_is_made_twice_is_answered_once(caplog):
    async with running("server") as (runtime, handler, peer):
        handler.functions["tools/call"] = later(lambda request: twice(runtime, request))
        peer.send(peer.ask(1, "tools/call"))
        assert [answer["id"] for answer in await peer.heard()] == [1]
    assert "cannot be sent" in caplog.text


async def twice(runtime, request):
    runtime._answer(Response(request.id, {"content": []}))
    return {"content": []}
