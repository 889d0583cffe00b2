"""TapChannel: shows every whole message both ways, and changes nothing."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from mcpcore import ConnectionLost, Server, connect
from mcpcore.protocol.framing import Malformed
from mcpcore.testing import check_channel
from mcpcore.transport import memory_channels
from mcpcore.transport.lines import LineChannel
from mcpcore.transport.tap import TapChannel


async def test_a_tapped_channel_keeps_the_contract(autojump_clock):
    def tapped():
        one, other = memory_channels()
        return TapChannel(one, lambda *frame: None), TapChannel(other, lambda *frame: None)

    await check_channel(tapped)


async def test_messages_are_shown_in_order_both_ways(autojump_clock):
    one, other = memory_channels()
    seen = []
    tap = TapChannel(one, lambda *frame: seen.append(frame))
    tap.send_nowait(b"1", b"2")
    tap.send_nowait(b"3", linger=True)
    assert await other.receive() == [b"1", b"2", b"3"]
    other.send_nowait(b"4", b"5")
    assert await tap.receive() == [b"4", b"5"]
    assert seen == [
        ("sent", b"1"),
        ("sent", b"2"),
        ("sent", b"3"),
        ("received", b"4"),
        ("received", b"5"),
    ]


async def test_what_was_not_taken_is_not_shown(autojump_clock):
    one, _ = memory_channels()
    seen = []
    tap = TapChannel(one, lambda *frame: seen.append(frame))
    await tap.aclose()
    with pytest.raises(ConnectionLost):
        tap.send_nowait(b"1")
    assert seen == []


async def test_what_is_no_whole_message_is_handed_on_and_not_shown(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    seen = []
    tap = TapChannel(LineChannel(ours, ours, max_line=4), lambda *frame: seen.append(frame))
    await theirs.send_all(b"too long\n1234\n")
    frames = await tap.receive()
    assert isinstance(frames[0], Malformed)
    assert frames[1:] == [b"1234"]
    assert seen == [("received", b"1234")]


async def test_a_watcher_that_raises_is_logged_and_changes_nothing(autojump_clock, caplog):
    def raises(direction, data):
        raise ValueError("planted")

    server = Server("tapped", "1")
    one, other = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, other)
        with caplog.at_level(logging.ERROR, "mcpcore.transport"):
            async with connect(TapChannel(one, raises)) as client:
                await client.ping()
    assert "the function that watches the channel raised" in caplog.text


async def test_a_crowded_channel_is_a_crowded_tap(autojump_clock):
    one, other = memory_channels(high_water=1)
    tap = TapChannel(one, lambda *frame: None)
    tap.send_nowait(b"12")
    assert tap.crowded
    with trio.move_on_after(1) as scope:
        await tap.wait_for_room()
    assert scope.cancelled_caught
    await other.receive()
    await tap.wait_for_room()
    assert not tap.crowded
