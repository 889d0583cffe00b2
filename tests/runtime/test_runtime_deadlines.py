"""Every wait ends: defaults, limits per call, the hard maximum, and clocks that stand still."""

from __future__ import annotations

import pytest
import trio
from bare_peer import later, running
from msgspec import UNSET

from mcpcore import RequestTimeout, Timeouts

NEVER = float("inf")


async def timed(call) -> tuple[float, RequestTimeout]:
    began = trio.current_time()
    with pytest.raises(RequestTimeout) as caught:
        await call.result()
    return trio.current_time() - began, caught.value


async def test_the_default_is_sixty_seconds(autojump_clock):
    """F-042: a server that accepts and never answers must not hold the caller for ever."""
    async with running("client") as (runtime, _handler, peer):
        seconds, error = await timed(peer.begin(runtime.request, "tools/list", UNSET))
        assert (seconds, error.seconds, error.method) == (60, 60, "tools/list")
        assert "timeout=" in str(error)


async def test_a_call_may_have_a_limit_of_its_own(autojump_clock):
    async with running("client", timeouts=Timeouts(request=10)) as (runtime, _handler, peer):
        seconds, _ = await timed(peer.begin(runtime.request, "tools/list", UNSET))
        assert seconds == 10
        for limit in (0.5, 300.0):
            seconds, error = await timed(
                peer.begin(runtime.request, "tools/list", UNSET, seconds=limit)
            )
            assert (seconds, error.seconds) == (limit, limit)


async def test_infinity_waits_until_the_hard_maximum(autojump_clock):
    async with running("client") as (runtime, _, peer):
        call = peer.begin(runtime.request, "tools/list", UNSET, seconds=NEVER)
        seconds, error = await timed(call)
        assert (seconds, error.seconds) == (3600, 3600)
        assert "timeout=" not in str(error)
    async with running("client", timeouts=Timeouts(maximum=NEVER)) as (runtime, _handler, peer):
        call = peer.begin(runtime.request, "tools/list", UNSET, seconds=NEVER)
        await trio.sleep(80_000)
        assert not call.done.is_set()
        request = (await peer.heard())[0]
        peer.send(peer.answer(request))
        await call.result()


async def test_the_hard_maximum_holds_from_the_start_without_any_progress(autojump_clock):
    """F-043: a silent server must not outlive the overall limit."""
    async with running("client") as (runtime, _handler, peer):
        call = peer.begin(runtime.request, "tools/list", UNSET, seconds=60, maximum=0.4)
        seconds, error = await timed(call)
        assert seconds == pytest.approx(0.4)
        assert error.seconds == pytest.approx(0.4)


async def send_progress(peer, request, every: float) -> None:
    token = request["params"]["_meta"]["progressToken"]
    n = 0
    while True:
        await trio.sleep(every)
        n += 1
        peer.send(peer.progress(token, n))


async def test_progress_extends_only_where_asked(autojump_clock):
    for extends, limit in ((False, 10), (True, 100)):
        timeouts = Timeouts(request=10, maximum=100, progress_extends=extends)
        async with running("client", timeouts=timeouts) as (runtime, _handler, peer):
            seen = []
            call = peer.begin(runtime.request, "tools/list", UNSET, on_progress=seen.append)
            request = await peer.receive()
            peer.begin(send_progress, peer, request, 3)
            seconds, _ = await timed(call)
            assert seconds == pytest.approx(limit, abs=3)
            assert seen


async def test_progress_never_extends_beyond_the_hard_maximum(autojump_clock):
    """F-043."""
    timeouts = Timeouts(request=10, maximum=25)
    async with running("client", timeouts=timeouts) as (runtime, _handler, peer):
        call = peer.begin(
            runtime.request, "tools/list", UNSET, on_progress=lambda _: None, extends=True
        )
        request = await peer.receive()
        peer.begin(send_progress, peer, request, 2)
        seconds, error = await timed(call)
        assert seconds == 25
        assert error.seconds == 25


async def test_after_the_last_progress_the_limit_counts_anew(autojump_clock):
    async with running("client", timeouts=Timeouts(request=10)) as (runtime, _handler, peer):
        call = peer.begin(
            runtime.request, "tools/list", UNSET, on_progress=lambda _: None, extends=True
        )
        request = await peer.receive()
        await trio.sleep(8)
        peer.send(peer.progress(request["params"]["_meta"]["progressToken"], 1))
        seconds, error = await timed(call)
        assert seconds == 10
        assert error.seconds == 10


async def test_many_calls_each_end_at_their_own_time(autojump_clock):
    async with running("client") as (runtime, _handler, _peer):
        began = trio.current_time()
        ended = {}

        async def call(seconds: float) -> None:
            with pytest.raises(RequestTimeout):
                await runtime.request("tools/list", UNSET, seconds=seconds)
            ended[seconds] = trio.current_time() - began

        limits = [5.0, 1.0, 3.0, 60.0, 2.0, 4.0]
        async with trio.open_nursery() as nursery:
            for limit in limits:
                nursery.start_soon(call, limit)
        assert ended == {limit: limit for limit in limits}


async def test_a_later_call_with_an_earlier_limit_is_not_late(autojump_clock):
    async with running("client") as (runtime, _handler, peer):
        long = peer.begin(runtime.request, "tools/list", UNSET, seconds=50)
        await trio.sleep(10)
        seconds, _ = await timed(peer.begin(runtime.request, "tools/list", UNSET, seconds=1))
        assert seconds == 1
        seconds, _ = await timed(long)
        assert seconds == 39


async def test_the_clock_stands_still_while_a_question_is_open(autojump_clock):
    """The person who is asked takes time that the server cannot help."""
    timeouts = Timeouts(request=10)
    async with running("client", timeouts=timeouts) as (runtime, _handler, peer):
        call = peer.begin(runtime.request, "tools/list", UNSET)
        await trio.sleep(4)
        runtime.question_opens()
        await trio.sleep(100)
        runtime.question_opens()
        await trio.sleep(100)
        runtime.question_closes()
        await trio.sleep(100)
        assert not call.done.is_set()
        runtime.question_closes()
        seconds, error = await timed(call)
        assert seconds == 6
        assert error.seconds == 10


async def test_a_call_made_while_a_question_is_open_has_its_whole_time_afterwards(autojump_clock):
    async with running("client", timeouts=Timeouts(request=10)) as (runtime, _handler, peer):
        runtime.question_opens()
        await trio.sleep(30)
        call = peer.begin(runtime.request, "tools/list", UNSET)
        await trio.sleep(30)
        runtime.question_closes()
        seconds, _ = await timed(call)
        assert seconds == 10


async def test_the_hard_maximum_holds_while_a_question_is_open(autojump_clock):
    timeouts = Timeouts(request=10, maximum=50)
    async with running("client", timeouts=timeouts) as (runtime, _handler, peer):
        call = peer.begin(runtime.request, "tools/list", UNSET)
        await trio.sleep(1)
        runtime.question_opens()
        seconds, error = await timed(call)
        assert seconds == 49
        assert error.seconds == 50
        runtime.question_closes()
        seconds, _ = await timed(peer.begin(runtime.request, "tools/list", UNSET))
        assert seconds == 10


async def test_progress_while_a_question_is_open_shortens_nothing(autojump_clock):
    async with running("client", timeouts=Timeouts(request=10)) as (runtime, _handler, peer):
        call = peer.begin(
            runtime.request, "tools/list", UNSET, on_progress=lambda _: None, extends=True
        )
        request = await peer.receive()
        runtime.question_opens()
        await trio.sleep(100)
        peer.send(peer.progress(request["params"]["_meta"]["progressToken"], 1))
        await trio.sleep(1)
        runtime.question_closes()
        await trio.sleep(5)
        assert not call.done.is_set()


async def test_an_answer_in_time_is_no_timeout(autojump_clock):
    async with running("client", timeouts=Timeouts(request=10)) as (runtime, _handler, peer):
        call = peer.begin(runtime.request, "tools/list", UNSET)
        request = await peer.receive()
        await trio.sleep(9.99)
        peer.send(peer.answer(request, {"tools": []}))
        assert bytes(await call.result()) == b'{"tools": []}'
        await trio.sleep(100)
        assert await peer.heard() == []


async def test_a_server_that_asks_has_deadlines_too(autojump_clock):
    async with running("server", timeouts=Timeouts(request=5)) as (runtime, _handler, peer):
        seconds, _ = await timed(peer.begin(runtime.request, "roots/list", UNSET))
        assert seconds == 5
        asked, cancelled = await peer.heard()
        assert asked["method"] == "roots/list"
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == asked["id"]


async def test_a_handler_may_wait_for_its_peer_while_the_peer_calls(autojump_clock):
    """F-036: the reading task never waits for a handler."""
    async with running("server") as (runtime, handler, peer):

        async def call(request):
            await runtime.request("roots/list", UNSET)
            return {"content": []}

        handler.functions["tools/call"] = later(call)
        peer.send(*(peer.ask(n, "tools/call") for n in range(20)), peer.ask("p", "ping"))
        first = await peer.receive()
        assert first["id"] == "p"
        answered = []
        while len(answered) < 20:
            message = await peer.receive()
            if message.get("method") == "roots/list":
                peer.send(peer.answer(message, {"roots": []}))
            else:
                assert message["result"] == {"content": []}
                answered.append(message["id"])
        assert sorted(answered) == list(range(20))
