"""Streams in threads: for what cannot be waited on. They hold up neither a cancellation nor an exit."""

from __future__ import annotations

import fcntl
import os

import pytest
import trio
import trio.testing

from mcpcore.errors import ConnectionLost
from mcpcore.transport.lines import LineChannel
from mcpcore.transport.threads import ThreadReceiveStream, ThreadSendStream


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def test_a_regular_file_is_read_to_its_end(tmp_path):
    path = tmp_path / "requests.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":2}')
    stream = ThreadReceiveStream(os.open(path, os.O_RDONLY))
    channel = LineChannel(stream, ThreadSendStream(os.open(os.devnull, os.O_WRONLY)))
    assert await channel.receive() == [b'{"a":1}']
    assert await channel.receive() == [b'{"b":2}']
    with pytest.raises(ConnectionLost):
        await channel.receive()
    await channel.aclose()


async def test_a_regular_file_is_written_whole(tmp_path):
    path = tmp_path / "answers.jsonl"
    stream = ThreadSendStream(os.open(path, os.O_WRONLY | os.O_CREAT))
    await stream.send_all(b"x" * 1_000_000)
    await stream.wait_send_all_might_not_block()
    await stream.aclose()
    assert path.stat().st_size == 1_000_000


async def test_the_null_device_is_at_its_end_and_takes_everything():
    source = ThreadReceiveStream(os.open(os.devnull, os.O_RDONLY))
    assert await source.receive_some() == b""
    sink = ThreadSendStream(os.open(os.devnull, os.O_WRONLY))
    await sink.send_all(b"x" * 100_000)
    await source.aclose()
    await sink.aclose()


async def test_a_partial_write_is_continued():
    read_from, write_to = os.pipe()
    fcntl.fcntl(write_to, fcntl.F_SETPIPE_SZ, 4096)
    sink, source = ThreadSendStream(write_to), ThreadReceiveStream(read_from)
    data = os.urandom(50_000)
    received = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sink.send_all, data)
        while len(received) < len(data):
            received += await source.receive_some(1000)
    assert received == data
    await sink.aclose()
    assert await source.receive_some() == b""
    await source.aclose()


async def test_a_broken_pipe_is_an_error():
    read_from, write_to = os.pipe()
    os.close(read_from)
    sink = ThreadSendStream(write_to)
    with pytest.raises(BrokenPipeError):
        await sink.send_all(b"x")
    await sink.aclose()


@pytest.mark.parametrize("kind", [ThreadReceiveStream, ThreadSendStream])
async def test_a_closed_stream_says_so_and_closes_its_descriptor_once(kind):
    read_from, write_to = os.pipe()
    descriptor = read_from if kind is ThreadReceiveStream else write_to
    stream = kind(descriptor)
    await stream.aclose()
    assert not is_open(descriptor)
    again = os.open(os.devnull, os.O_RDONLY)
    os.dup2(again, descriptor)
    await stream.aclose()
    assert is_open(descriptor)
    with pytest.raises(trio.ClosedResourceError):
        await (stream.receive_some() if kind is ThreadReceiveStream else stream.send_all(b"x"))
    for number in {read_from, write_to, again}:
        os.close(number)


async def test_a_cancelled_read_returns_at_once_and_what_it_reads_comes_with_the_next():
    """F-023: a blocked read holds up nobody."""
    read_from, write_to = os.pipe()
    stream = ThreadReceiveStream(read_from)
    with trio.move_on_after(0.05) as scope:
        await stream.receive_some()
    assert scope.cancelled_caught
    os.write(write_to, b"hello")
    with trio.fail_after(2):
        assert await stream.receive_some() == b"hello"
    os.close(write_to)
    with trio.fail_after(2):
        assert await stream.receive_some() == b""
    await stream.aclose()


async def test_a_descriptor_that_a_thread_still_reads_is_closed_when_the_thread_is_done(world):
    read_from, write_to = os.pipe()
    stream = ThreadReceiveStream(read_from)
    with trio.move_on_after(0.05):
        await stream.receive_some()
    await stream.aclose()
    # Not yet: its number could be given to another file, which the thread would then read.
    assert is_open(read_from)
    os.close(write_to)
    assert await world.until(lambda: not is_open(read_from), within=2)


async def test_a_descriptor_that_a_thread_still_writes_is_closed_when_the_thread_is_done(world):
    read_from, write_to = os.pipe()
    stream = ThreadSendStream(write_to)
    with trio.move_on_after(0.05) as scope:
        await stream.send_all(b"x" * 1_000_000)
    assert scope.cancelled_caught
    await stream.aclose()
    assert is_open(write_to)
    os.close(read_from)
    assert await world.until(lambda: not is_open(write_to), within=2)


@pytest.mark.parametrize("kind", [ThreadReceiveStream, ThreadSendStream])
async def test_closing_ends_a_read_or_write_of_another_task(kind):
    read_from, write_to = os.pipe()
    stream = kind(read_from if kind is ThreadReceiveStream else write_to)
    ended = trio.Event()
    arguments = () if kind is ThreadReceiveStream else (b"x" * 1_000_000,)

    async def use():
        with pytest.raises(trio.ClosedResourceError):
            await (stream.receive_some if kind is ThreadReceiveStream else stream.send_all)(
                *arguments
            )
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use)
        await trio.testing.wait_all_tasks_blocked(0.02)
        await stream.aclose()
        with trio.move_on_after(2):
            await ended.wait()
        nursery.cancel_scope.cancel()
    os.close(write_to if kind is ThreadReceiveStream else read_from)
    assert ended.is_set()
