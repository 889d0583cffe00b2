"""The pair in memory, beyond the contract that every channel keeps."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mcpcore import ConnectionLost
from mcpcore.testing import memory_channels


async def test_high_water_counts_the_bytes_that_the_peer_has_not_received():
    one, other = memory_channels(high_water=10)
    one.send_nowait(b"x" * 10)
    assert not one.crowded
    one.send_nowait(b"x")
    assert one.crowded
    assert not other.crowded
    assert await other.receive() == [b"x" * 10, b"x"]
    assert not one.crowded


async def test_each_side_learns_who_closed():
    one, other = memory_channels()
    await one.aclose()
    with pytest.raises(ConnectionLost, match="this side closed"):
        await one.receive()
    with pytest.raises(ConnectionLost, match="the peer closed"):
        await other.receive()
    with pytest.raises(ConnectionLost, match="the peer closed"):
        other.send_nowait(b"{}")


async def test_waiting_for_room_ends_with_the_channel(autojump_clock):
    one, other = memory_channels(high_water=1)
    one.send_nowait(b"{}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.wait_for_room)
        await trio.testing.wait_all_tasks_blocked()
        await other.aclose()
    assert not one.crowded


async def test_a_peer_that_asks_and_never_reads_does_not_fill_the_memory() -> None:
    """What cannot be held back is bounded: the channel ends, and says why."""
    ours, theirs = memory_channels(backlog=1000)
    for _ in range(11):
        ours.send_nowait(b"x" * 100)
    with pytest.raises(ConnectionLost, match="does not read: 1100 bytes wait"):
        ours.send_nowait(b"x")
    with pytest.raises(ConnectionLost, match="does not read"):
        await ours.receive()
    assert len(await theirs.receive()) == 11
