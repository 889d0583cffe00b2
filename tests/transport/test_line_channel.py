"""Lines over streams: what is written at once, what waits, and that no line is ever torn."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket

import pytest
import trio
import trio.testing

from mcpcore.errors import ConnectionLost
from mcpcore.transport.lines import LineChannel, open_stream

A_MESSAGE = b'{"jsonrpc":"2.0","method":"a"}'
ANOTHER = b'{"jsonrpc":"2.0","method":"b"}'


class CountingSink(trio.abc.SendStream):
    """Notes what is written; a write may be held up, or fail."""

    def __init__(self):
        self.writes = []
        self.gate = trio.Event()
        self.gate.set()
        self.error = None
        self.closed = False

    async def send_all(self, data):
        await trio.lowlevel.checkpoint()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.writes.append(bytes(data))

    async def wait_send_all_might_not_block(self):
        await trio.lowlevel.checkpoint()

    async def aclose(self):
        self.closed = True
        self.gate.set()
        self.error = trio.ClosedResourceError()
        await trio.lowlevel.checkpoint()


class Pipes:
    """A channel on a pair of pipes whose other ends are plain descriptors."""

    def __init__(self, **options):
        channel_reads, self.write_to = os.pipe()
        self.read_from, channel_writes = os.pipe()
        self.capacity = fcntl.fcntl(channel_writes, fcntl.F_SETPIPE_SZ, 4096)
        self.source = trio.lowlevel.FdStream(channel_reads)
        self.sink = trio.lowlevel.FdStream(channel_writes)
        self.channel = LineChannel(self.source, self.sink, **options)
        os.set_blocking(self.read_from, False)

    def read(self):
        """What can be read from the channel now."""
        try:
            return os.read(self.read_from, 1 << 20)
        except BlockingIOError:
            return b""

    def hang_up(self):
        for name in ("read_from", "write_to"):
            if (descriptor := self.__dict__.pop(name, None)) is not None:
                os.close(descriptor)


@pytest.fixture
async def pipes():
    pipes = Pipes(high_water=10_000)
    yield pipes
    await pipes.channel.aclose()
    pipes.hang_up()


@contextlib.asynccontextmanager
async def running(channel):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        await trio.testing.wait_all_tasks_blocked()
        yield nursery
        nursery.cancel_scope.cancel()


# Written at once.


async def test_a_message_is_written_through_without_the_writing_task(pipes):
    pipes.channel.send_nowait(A_MESSAGE)
    assert pipes.read() == A_MESSAGE + b"\n"


async def test_several_messages_leave_in_one_write(pipes):
    pipes.channel.send_nowait(A_MESSAGE, ANOTHER)
    assert pipes.read() == A_MESSAGE + b"\n" + ANOTHER + b"\n"


async def test_exactly_one_line_feed_ends_a_message_and_no_carriage_return(pipes):
    """F-004."""
    pipes.channel.send_nowait(A_MESSAGE)
    data = pipes.read()
    assert data.count(b"\n") == 1
    assert b"\r" not in data


async def test_what_lingers_leaves_with_the_next_message_in_order(pipes):
    pipes.channel.send_nowait(A_MESSAGE, linger=True)
    assert pipes.read() == b""
    pipes.channel.send_nowait(ANOTHER)
    assert pipes.read() == A_MESSAGE + b"\n" + ANOTHER + b"\n"


async def test_what_lingers_leaves_by_itself_in_one_write():
    sink = CountingSink()
    channel = open_stream(trio.testing.MemoryReceiveStream(), sink)
    async with running(channel):
        for _ in range(3):
            channel.send_nowait(A_MESSAGE, linger=True)
        await trio.testing.wait_all_tasks_blocked()
        assert sink.writes == [(A_MESSAGE + b"\n") * 3]


async def test_what_lingers_leaves_by_itself_on_a_pipe(pipes):
    async with running(pipes.channel):
        pipes.channel.send_nowait(A_MESSAGE, linger=True)
        pipes.channel.send_nowait(ANOTHER, linger=True)
        await trio.testing.wait_all_tasks_blocked()
        assert pipes.read() == A_MESSAGE + b"\n" + ANOTHER + b"\n"


# Written later.


@pytest.mark.parametrize("size", [4096 + by for by in range(-2, 3)] + [20_000, 300_000, 1 << 20])
async def test_a_message_larger_than_the_pipe_arrives_whole(pipes, size):
    """F-011: one write takes a part, the writing task the rest."""
    message = b'"' + b"x" * (size - 3) + b'"'
    async with running(pipes.channel):
        pipes.channel.send_nowait(message, ANOTHER)
        received = bytearray()
        while len(received) < size + len(ANOTHER) + 1:
            received += pipes.read()
            await trio.testing.wait_all_tasks_blocked()
        assert received == message + b"\n" + ANOTHER + b"\n"


async def test_nothing_overtakes_the_remainder_of_a_partial_write(pipes):
    """Sent before the writing task came round, and while it writes."""
    big = b"x" * 9000
    pipes.channel.send_nowait(big)
    pipes.channel.send_nowait(A_MESSAGE)
    async with running(pipes.channel):
        pipes.channel.send_nowait(ANOTHER)
        pipes.channel.send_nowait(A_MESSAGE, linger=True)
        received = bytearray()
        while not received.endswith(b"\n" + ANOTHER + b"\n" + A_MESSAGE + b"\n"):
            received += pipes.read()
            await trio.testing.wait_all_tasks_blocked()
    assert received == b"\n".join((big, A_MESSAGE, ANOTHER, A_MESSAGE, b""))


async def test_a_full_pipe_delays_the_message_and_loses_nothing(pipes):
    os.write(pipes.sink.fileno(), b"y" * pipes.capacity)
    async with running(pipes.channel):
        pipes.channel.send_nowait(A_MESSAGE)
        await trio.testing.wait_all_tasks_blocked()
        assert pipes.read() == b"y" * pipes.capacity
        await trio.testing.wait_all_tasks_blocked()
        assert pipes.read() == A_MESSAGE + b"\n"


async def test_cancelled_senders_never_tear_a_line():
    """Tasks that send are cancelled in every state; what arrives is whole lines in order."""
    pipes = Pipes(high_water=5000)
    sent, received = [], bytearray()

    async def send(first):
        for number in range(first, first + 20):
            await pipes.channel.wait_for_room()
            message = b'{"n":%d,"x":"%s"}' % (number, b"x" * (number * 37 % 3000))
            sent.append(message)
            pipes.channel.send_nowait(message, linger=number % 2 == 0)
            await trio.lowlevel.checkpoint()

    async with running(pipes.channel):
        for round in range(12):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(send, round * 100)
                    nursery.start_soon(send, round * 100 + 50)
                    for _ in range(round * 5):
                        received += pipes.read()
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
        while received.count(b"\n") < len(sent):
            received += pipes.read()
            await trio.testing.wait_all_tasks_blocked()
    assert bytes(received).split(b"\n")[:-1] == sent
    assert len(sent) > 100
    pipes.hang_up()
    await pipes.channel.aclose()


# Room.


async def test_beyond_high_water_senders_wait_until_the_peer_reads(pipes):
    async with running(pipes.channel) as nursery:
        assert not pipes.channel.crowded
        pipes.channel.send_nowait(b"x" * 20_000)
        assert pipes.channel.crowded
        waited = trio.Event()

        async def wait():
            await pipes.channel.wait_for_room()
            waited.set()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not waited.is_set()
        while not waited.is_set():
            pipes.read()
            await trio.testing.wait_all_tasks_blocked()
        assert not pipes.channel.crowded


async def test_room_made_by_writing_through_is_noticed_by_those_who_wait():
    """What lingered crowds the channel; a plain message of the same turn takes it all along."""
    pipes = Pipes(high_water=100)

    async def linger():
        pipes.channel.send_nowait(b"x" * 200, linger=True)

    async def send():
        pipes.channel.send_nowait(A_MESSAGE)

    async with running(pipes.channel):
        # The order of tasks within a turn is random: enough rounds meet all of them.
        for _ in range(60):
            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(linger)
                    nursery.start_soon(pipes.channel.wait_for_room)
                    nursery.start_soon(send)
            pipes.read()
    pipes.hang_up()
    await pipes.channel.aclose()


async def test_waiting_for_room_ends_with_the_channel(pipes, world):
    async with running(pipes.channel) as nursery:
        pipes.channel.send_nowait(b"x" * 20_000)
        nursery.start_soon(pipes.channel.wait_for_room)
        await trio.testing.wait_all_tasks_blocked()
        pipes.hang_up()
        assert await world.until(lambda: not pipes.channel._room)
        assert not pipes.channel.crowded


# Receiving.


async def test_all_complete_lines_of_one_read_come_together(pipes):
    """F-003: two and a half messages in one read."""
    os.write(pipes.write_to, A_MESSAGE + b"\n" + ANOTHER + b"\r\n" + A_MESSAGE[:9])
    assert await pipes.channel.receive() == [A_MESSAGE, ANOTHER]
    os.write(pipes.write_to, A_MESSAGE[9:] + b"\n")
    assert await pipes.channel.receive() == [A_MESSAGE]


async def test_a_character_cut_by_a_read_is_whole_again(pipes):
    """F-002: byte by byte, with characters of two, three and four bytes, and F-001 raw U+2028."""
    message = '{"text":"é\u2028—😀"}'.encode()
    got = []

    async def receive():
        got.extend(await pipes.channel.receive())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        for byte in message + b"\n":
            os.write(pipes.write_to, bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
    assert got == [message]


async def test_blank_lines_are_nothing(pipes):
    """F-005."""
    os.write(pipes.write_to, b"\n\r\n  \t\n" + A_MESSAGE + b"\n")
    assert await pipes.channel.receive() == [A_MESSAGE]


async def test_a_last_line_without_its_end_is_a_message_and_then_comes_the_end(pipes):
    """F-010."""
    os.write(pipes.write_to, A_MESSAGE + b"\n" + ANOTHER)
    os.close(pipes.__dict__.pop("write_to"))
    got = []
    while len(got) < 2:
        got += await pipes.channel.receive()
    assert got == [A_MESSAGE, ANOTHER]
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="the peer closed the connection"):
            await pipes.channel.receive()


async def test_after_the_end_of_its_input_a_side_may_still_answer(pipes):
    """F-014: half closed is not closed."""
    os.close(pipes.__dict__.pop("write_to"))
    with pytest.raises(ConnectionLost):
        await pipes.channel.receive()
    pipes.channel.send_nowait(A_MESSAGE)
    assert pipes.read() == A_MESSAGE + b"\n"


async def test_a_spurious_wakeup_of_the_reader_is_no_end(pipes, monkeypatch):
    real, calls = os.read, []

    def read(descriptor, size):
        calls.append(descriptor)
        if len(calls) == 1:
            raise BlockingIOError
        return real(descriptor, size)

    os.write(pipes.write_to, A_MESSAGE + b"\n")
    monkeypatch.setattr(os, "read", read)
    assert await pipes.channel.receive() == [A_MESSAGE]
    assert len(calls) == 2


async def test_a_connection_that_was_reset_has_ended():
    one, other = socket.socketpair()
    channel = open_stream(trio.SocketStream(trio.socket.from_stdlib_socket(one)))
    channel.send_nowait(A_MESSAGE)
    other.close()  # with unread bytes: the kernel answers ECONNRESET
    with pytest.raises(ConnectionLost):
        await channel.receive()
    await channel.aclose()


async def test_a_stream_that_breaks_while_it_is_read_has_ended(autojump_clock):
    source = trio.testing.MemoryReceiveStream()

    async def broken():
        raise trio.BrokenResourceError

    source.receive_some_hook = broken
    channel = open_stream(source, CountingSink())
    with pytest.raises(ConnectionLost, match="the peer closed"):
        await channel.receive()


async def test_a_line_beyond_the_limit_is_reported_and_the_next_is_read():
    pipes = Pipes(max_line=100)
    os.write(pipes.write_to, b"x" * 101 + b"\n" + A_MESSAGE + b"\n")
    bad, good = await pipes.channel.receive()
    assert "more than 100 bytes" in bad.error.message
    assert good == A_MESSAGE
    await pipes.channel.aclose()
    pipes.hang_up()


# Breaking.


async def test_a_peer_that_reads_no_more_breaks_the_channel(pipes):
    os.close(pipes.__dict__.pop("read_from"))
    pipes.channel.send_nowait(A_MESSAGE)
    with pytest.raises(ConnectionLost, match="the peer stopped reading"):
        pipes.channel.send_nowait(A_MESSAGE)


async def test_what_arrived_before_the_peer_stopped_reading_is_still_received(pipes):
    """A peer that writes its last answer and exits, while this side is about to send."""
    os.write(pipes.write_to, A_MESSAGE + b"\n")
    pipes.hang_up()
    pipes.channel.send_nowait(ANOTHER)
    assert await pipes.channel.receive() == [A_MESSAGE]
    with pytest.raises(ConnectionLost):
        await pipes.channel.receive()


async def test_a_waiting_receive_ends_when_the_peer_stops_reading(pipes):
    """F-034: the peer closed its input and keeps its output open; nobody may wait for it for ever."""
    ended = trio.Event()

    async def receive():
        with pytest.raises(ConnectionLost, match="the peer stopped reading"):
            await pipes.channel.receive()
        ended.set()

    async with running(pipes.channel) as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        os.close(pipes.__dict__.pop("read_from"))
        pipes.channel.send_nowait(A_MESSAGE)
        with trio.fail_after(2):
            await ended.wait()


async def test_a_write_that_fails_for_another_reason_says_which(pipes, monkeypatch):
    def write(descriptor, data):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "write", write)
    pipes.channel.send_nowait(A_MESSAGE)
    monkeypatch.undo()
    with pytest.raises(ConnectionLost, match=r"writing failed: .*Input/output error"):
        pipes.channel.send_nowait(A_MESSAGE)


@pytest.mark.parametrize("error", [trio.BrokenResourceError(), OSError(errno.EPIPE, "gone")])
async def test_a_stream_that_fails_in_the_writing_task_breaks_the_channel(error):
    sink = CountingSink()
    sink.error = error
    channel = open_stream(trio.testing.MemoryReceiveStream(), sink)
    async with running(channel):
        channel.send_nowait(A_MESSAGE)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionLost, match="the peer stopped reading"):
            channel.send_nowait(A_MESSAGE)


async def test_the_writing_task_stopped_in_the_middle_of_a_line_ends_the_channel():
    """Nobody may write after half a line."""
    sink = CountingSink()
    sink.gate = trio.Event()
    channel = open_stream(trio.testing.MemoryReceiveStream(), sink)
    async with running(channel):
        channel.send_nowait(A_MESSAGE)
        await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(ConnectionLost, match="this side closed"):
        channel.send_nowait(A_MESSAGE)


@pytest.mark.parametrize("end", ["source", "sink"])
async def test_a_descriptor_number_that_was_reused_is_not_touched(end):
    """A stream closed by somebody else leaves a number that the next open file gets."""
    pipes = Pipes()
    stranger_reads, stranger_writes = os.pipe()
    number = getattr(pipes, end).fileno()
    await getattr(pipes, end).aclose()
    mine = stranger_reads if end == "source" else stranger_writes
    os.dup2(mine, number)
    os.set_blocking(stranger_reads, False)
    with contextlib.suppress(ConnectionLost):
        if end == "source":
            os.write(stranger_writes, A_MESSAGE + b"\n")
            with trio.move_on_after(0.2):
                await pipes.channel.receive()
            assert os.read(stranger_reads, 100) == A_MESSAGE + b"\n"
        else:
            pipes.channel.send_nowait(A_MESSAGE)
            with pytest.raises(BlockingIOError):
                os.read(stranger_reads, 100)
    await pipes.channel.aclose()
    pipes.hang_up()
    for descriptor in {stranger_reads, stranger_writes, number}:
        os.close(descriptor)


# Closing.


async def test_closing_writes_out_what_is_queued(autojump_clock):
    sink = CountingSink()
    sink.gate = trio.Event()
    channel = open_stream(trio.testing.MemoryReceiveStream(), sink)
    async with running(channel) as nursery:
        channel.send_nowait(A_MESSAGE)
        nursery.start_soon(channel.aclose)
        await trio.testing.wait_all_tasks_blocked()
        assert not sink.closed
        sink.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sink.closed
    assert sink.writes == [A_MESSAGE + b"\n"]


async def test_closing_waits_for_a_peer_that_does_not_read_no_longer_than_the_flush_time(
    autojump_clock,
):
    sink = CountingSink()
    sink.gate = trio.Event()
    channel = LineChannel(trio.testing.MemoryReceiveStream(), sink, flush_time=3)
    async with running(channel):
        channel.send_nowait(A_MESSAGE)
        await channel.aclose()
        assert trio.current_time() == pytest.approx(3)
        assert sink.closed
        assert sink.writes == []


async def test_closing_does_not_wait_for_what_was_written_through_meanwhile():
    """A plain message of the same turn takes along what lingers: nothing is left to wait for."""
    for _ in range(12):
        pipes = Pipes(flush_time=60)

        async def close(channel=pipes.channel):
            channel.send_nowait(A_MESSAGE, linger=True)
            await channel.aclose()

        async def send(channel=pipes.channel):
            channel.send_nowait(ANOTHER)

        with trio.fail_after(5):
            async with running(pipes.channel), trio.open_nursery() as nursery:
                nursery.start_soon(close)
                nursery.start_soon(send)
        assert pipes.read().startswith((A_MESSAGE, ANOTHER))
        pipes.hang_up()


async def test_a_cancelled_close_closes_all_the_same(pipes):
    with trio.CancelScope() as scope:
        scope.cancel()
        await pipes.channel.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await pipes.sink.send_all(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await pipes.source.receive_some(1)


async def test_the_first_reason_for_the_end_stays(pipes):
    pipes.channel.lost("the first")
    pipes.channel.lost("the second")
    with pytest.raises(ConnectionLost, match="the first"):
        pipes.channel.send_nowait(A_MESSAGE)


# Opening.


async def test_a_stream_that_only_receives_needs_one_that_sends():
    with pytest.raises(TypeError, match="give the one that sends"):
        open_stream(trio.testing.MemoryReceiveStream())


async def test_open_stream_takes_a_limit():
    one, other = trio.testing.memory_stream_pair()
    channel = open_stream(one, max_line=10)
    await other.send_all(b"x" * 20 + b"\n")
    (bad,) = await channel.receive()
    assert "more than 10 bytes" in bad.error.message


async def test_a_peer_that_asks_and_never_reads_does_not_fill_the_memory() -> None:
    """What cannot be held back is bounded: the channel ends, and says why, to the reading task too."""
    near, _far = trio.testing.memory_stream_pair()
    channel = LineChannel(near, near, backlog=1000)
    for _ in range(11):
        channel.send_nowait(b"x" * 99)
    with pytest.raises(ConnectionLost, match="does not read: 1100 bytes wait"):
        channel.send_nowait(b"x")
    with pytest.raises(ConnectionLost, match="does not read"):
        await channel.receive()
