"""Every channel there is keeps the contract, and a channel that breaks it in one point is found out."""

from __future__ import annotations

import os
import socket
from functools import partial

import pytest
import trio
import trio.testing

from mcpcore.errors import ConnectionLost
from mcpcore.testing import check_channel, memory_channels
from mcpcore.transport.lines import LineChannel, open_stream
from mcpcore.transport.memory import MemoryChannel
from mcpcore.transport.threads import ThreadReceiveStream, ThreadSendStream


def unix_sockets():
    one, other = socket.socketpair()
    return tuple(
        open_stream(trio.SocketStream(trio.socket.from_stdlib_socket(end))) for end in (one, other)
    )


async def tcp_sockets():
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        one = await trio.testing.open_stream_to_socket_listener(listener)
        other = await listener.accept()
    return open_stream(one), open_stream(other)


def crossed(receive, send):
    """Two channels on two pipes, one for each direction."""
    (read_a, write_a), (read_b, write_b) = os.pipe(), os.pipe()
    return LineChannel(receive(read_a), send(write_b)), LineChannel(receive(read_b), send(write_a))


def lockstep_streams():
    one, other = trio.testing.lockstep_stream_pair()
    return open_stream(one), open_stream(other)


async def test_memory_channels_keep_the_contract(autojump_clock):
    await check_channel(memory_channels)


async def test_lines_on_memory_streams_keep_the_contract(autojump_clock):
    await check_channel(lockstep_streams)


async def test_lines_on_unix_sockets_keep_the_contract():
    await check_channel(unix_sockets)


async def test_lines_on_tcp_sockets_keep_the_contract():
    await check_channel(tcp_sockets)


async def test_lines_on_pipes_keep_the_contract():
    await check_channel(partial(crossed, trio.lowlevel.FdStream, trio.lowlevel.FdStream))


async def test_lines_on_thread_streams_keep_the_contract():
    await check_channel(partial(crossed, ThreadReceiveStream, ThreadSendStream))


async def test_lines_on_a_thread_stream_one_way_keep_the_contract():
    """The server's stdin may be a terminal while its stdout is a pipe."""
    await check_channel(partial(crossed, ThreadReceiveStream, trio.lowlevel.FdStream))
    await check_channel(partial(crossed, trio.lowlevel.FdStream, ThreadSendStream))


# Channels that break one promise each.


def broken(**methods):
    """A pair of memory channels whose class has other `methods`."""

    def make_pair():
        pair = memory_channels()
        for channel in pair:
            channel.__class__ = type("Broken", (MemoryChannel,), methods)
        return pair

    return make_pair


def reorders(self, *messages, linger=False):
    if linger:
        self.later = [*getattr(self, "later", []), *messages]
    else:
        MemoryChannel.send_nowait(self, *messages, *self.__dict__.pop("later", ()))


def drops_big_ones(self, *messages, linger=False):
    MemoryChannel.send_nowait(self, *(message for message in messages if len(message) < 1 << 20))


def cuts(self, *messages, linger=False):
    MemoryChannel.send_nowait(self, *(message[:65536] for message in messages))


async def never_room(self):
    if not self.crowded:
        return
    await trio.sleep_forever()


async def no_waiting(self):
    return


async def loses_when_cancelled(self):
    frames = await MemoryChannel.receive(self)
    await trio.lowlevel.checkpoint()
    return frames


async def closes_quietly(self):
    self._lost = self._lost or ConnectionLost("closed")
    await trio.lowlevel.checkpoint()


async def closes_and_forgets(self):
    self._peer._inbox.clear()
    await MemoryChannel.aclose(self)


async def raises_at_the_second_close(self):
    if self._lost is not None and self._lost.reason.startswith("this side"):
        raise trio.ClosedResourceError
    await MemoryChannel.aclose(self)


async def runs_for_ever(self):
    await trio.sleep_forever()


async def raises_from_run(self):
    raise OSError("the writing task failed")


async def receives_nothing(self):
    try:
        return await MemoryChannel.receive(self)
    except ConnectionLost:
        return []


@pytest.mark.parametrize(
    ("methods", "complaint"),
    [
        ({"send_nowait": reorders}, "in order"),
        ({"send_nowait": drops_big_ones}, "hangs: Messages of any size"),
        ({"send_nowait": cuts}, "torn"),
        ({"wait_for_room": never_room}, "hangs"),
        ({"wait_for_room": no_waiting}, "wait_for_room cannot be cancelled"),
        ({"crowded": False}, "not crowded with 64 MiB waiting"),
        ({"receive": loses_when_cancelled}, "cancelled"),
        ({"receive": receives_nothing}, "after the end receive gave"),
        ({"aclose": closes_quietly}, "hangs"),
        ({"aclose": closes_and_forgets}, "ConnectionLost.*Closing delivers"),
        ({"aclose": raises_at_the_second_close}, "ClosedResourceError|from any task"),
        ({"run": runs_for_ever}, "hangs"),
        ({"run": raises_from_run}, "the writing task failed"),
    ],
    ids=lambda value: (
        value
        if isinstance(value, str)
        else next(iter(value.values())).__name__
        if callable(next(iter(value.values())))
        else "never crowded"
    ),
)
async def test_a_channel_that_breaks_its_promise_is_found_out(methods, complaint, autojump_clock):
    with pytest.raises(AssertionError, match=complaint):
        await check_channel(broken(**methods))
