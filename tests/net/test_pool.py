"""The pool's bookkeeping: places are taken, kept, given back, and never lost."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcpcore.transport.net.pool import Pool


def test_there_is_at_least_one_place() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Pool[str](0, 1.0)


async def test_as_many_places_as_were_said_and_one_more_only_for_the_urgent() -> None:
    pool = Pool[str](2, 1.0)
    assert [pool.take(), pool.take(), pool.take()] == [True, True, False]
    assert pool.take(urgent=True)
    pool.free()
    assert not pool.take()  # The urgent one had a place that was not there.
    pool.free()
    assert pool.take()


async def test_the_connection_used_last_is_used_next() -> None:
    pool = Pool[str](2, 4.0)
    assert pool.reuse(0.0) is None
    assert pool.expired(100.0) is None
    pool.take()
    pool.take()
    pool.keep("a", 1.0)
    pool.keep("b", 2.0)
    assert pool.reuse(3.0) == "b"
    assert pool.reuse(3.0) == "a"
    assert pool.reuse(3.0) is None


async def test_an_idle_connection_is_used_until_keep_alive_and_then_given_out_to_be_closed() -> (
    None
):
    pool = Pool[str](1, 4.0)
    pool.take()
    pool.keep("a", 1.0)
    assert pool.expired(5.0) is None
    assert pool.reuse(5.1) is None
    assert not pool.take()
    assert pool.expired(5.1) == "a"
    assert pool.take()


async def test_who_waits_longest_is_told_first() -> None:
    pool = Pool[str](1, 4.0)
    pool.take()
    told: list[int] = []

    async def wait(number: int) -> None:
        await pool.wait()
        told.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(wait, number)
            await wait_all_tasks_blocked()
        pool.free()
        await wait_all_tasks_blocked()
        assert told == [0]
        pool.keep("a", 0.0)
        await wait_all_tasks_blocked()
        assert told == [0, 1]
        pool.free()
    assert told == [0, 1, 2]


async def test_clearing_gives_out_the_idle_and_tells_all_that_wait() -> None:
    pool = Pool[str](1, 4.0)
    pool.take()
    pool.keep("a", 0.0)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(pool.wait)
        await wait_all_tasks_blocked()
        assert pool.clear() == ["a"]
    assert pool.clear() == []
    assert pool.take()
    assert not pool.take()
