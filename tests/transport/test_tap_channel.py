"""Watching a channel: everything whole is shown, and nothing is changed by it."""

from __future__ import annotations

import trio.testing

from mcpcore.testing import check_channel, memory_channels
from mcpcore.transport.lines import open_stream
from mcpcore.transport.tap import TapChannel


async def test_a_watched_channel_keeps_the_contract(autojump_clock):
    def make_pair():
        one, other = memory_channels()
        return TapChannel(one, lambda *_: None), TapChannel(other, lambda *_: None)

    await check_channel(make_pair)


async def test_what_crosses_is_shown_in_its_order_and_direction():
    seen = []
    one, other = memory_channels()
    tap = TapChannel(one, lambda direction, data: seen.append((direction, data)))
    tap.send_nowait(b"1", b"2", linger=True)
    other.send_nowait(b"3")
    assert await tap.receive() == [b"3"]
    assert await other.receive() == [b"1", b"2"]
    assert seen == [("sent", b"1"), ("sent", b"2"), ("received", b"3")]


async def test_what_stands_for_an_unreadable_line_is_handed_on_and_not_shown():
    seen = []
    one, other = trio.testing.memory_stream_pair()
    tap = TapChannel(open_stream(one, max_line=5), lambda *shown: seen.append(shown))
    await other.send_all(b"too long\n{}\n")
    bad, good = await tap.receive()
    assert "more than 5 bytes" in bad.error.message
    assert good == b"{}"
    assert seen == [("received", b"{}")]


async def test_a_watcher_that_raises_changes_nothing(caplog):
    def watch(direction, data):
        raise RuntimeError("the watcher is broken")

    one, other = memory_channels()
    tap = TapChannel(one, watch)
    tap.send_nowait(b"1")
    assert await other.receive() == [b"1"]
    other.send_nowait(b"2")
    assert await tap.receive() == [b"2"]
    assert "the watcher is broken" in caplog.text
