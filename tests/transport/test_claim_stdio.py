"""Claiming stdin and stdout, within this process: which streams are chosen, and where the rest goes."""

from __future__ import annotations

import os
import sys
from functools import partial

import pytest
import trio
import trio.testing
from handshake import connect

from mcpcore import Server, serve_stdio
from mcpcore.transport.stdio import claim_descriptors, claim_stdio
from mcpcore.transport.threads import ThreadReceiveStream, ThreadSendStream


@pytest.fixture
def standard(capfd):
    """Puts other descriptors at 0, 1 and 2 for a while; gives a function that does so."""
    with capfd.disabled():
        kept = [os.dup(number) for number in range(3)]
        opened = []

        def put(*descriptors):
            for number, descriptor in enumerate(descriptors):
                if descriptor is None:
                    os.close(number)
                else:
                    os.dup2(descriptor, number)
            opened.extend(descriptors)

        yield put
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        for descriptor in {descriptor for descriptor in opened if descriptor is not None}:
            os.close(descriptor)


def kinds(channel):
    return type(channel._source), type(channel._sink)


async def test_pipes_are_waited_on(standard):
    (read_from, _), (_, write_to), (_, errors) = pipes = os.pipe(), os.pipe(), os.pipe()
    standard(read_from, write_to, errors)
    channel = claim_stdio()
    assert kinds(channel) == (trio.lowlevel.FdStream, trio.lowlevel.FdStream)
    os.write(pipes[0][1], b"{}\n")
    assert await channel.receive() == [b"{}"]
    channel.send_nowait(b'{"a":1}')
    os.write(1, b"stray")
    assert os.read(pipes[1][0], 100) == b'{"a":1}\n'
    assert os.read(pipes[2][0], 100) == b"stray"
    assert os.read(0, 100) == b""
    await channel.aclose()
    for descriptor in (pipes[0][1], pipes[1][0], pipes[2][0]):
        os.close(descriptor)


async def test_threads_can_be_asked_for(standard):
    (read_from, feed), (result, write_to) = os.pipe(), os.pipe()
    standard(read_from, write_to)
    channel = claim_stdio(threads=True, max_line=10)
    assert kinds(channel) == (ThreadReceiveStream, ThreadSendStream)
    os.write(feed, b"x" * 20 + b"\n{}\n")
    bad, good = await channel.receive()
    assert "more than 10 bytes" in bad.error.message
    assert good == b"{}"
    await channel.aclose()
    os.close(feed)
    os.close(result)


async def test_threads_can_be_refused(standard):
    (read_from, feed), (result, write_to) = os.pipe(), os.pipe()
    standard(read_from, write_to, write_to)
    channel = claim_stdio(threads=False)
    assert kinds(channel) == (trio.lowlevel.FdStream, trio.lowlevel.FdStream)
    await channel.aclose()
    os.close(feed)
    os.close(result)


async def test_files_go_through_threads(standard, tmp_path):
    source = os.open(tmp_path / "in", os.O_RDWR | os.O_CREAT)
    sink = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    standard(source, sink)
    channel = claim_stdio()
    assert kinds(channel) == (ThreadReceiveStream, ThreadSendStream)
    await channel.aclose()


async def test_a_pipe_that_is_stderr_too_is_written_by_a_thread(standard):
    (read_from, feed), (result, write_to) = os.pipe(), os.pipe()
    standard(read_from, write_to, write_to)
    channel = claim_stdio()
    assert kinds(channel) == (trio.lowlevel.FdStream, ThreadSendStream)
    assert os.get_blocking(2)
    await channel.aclose()
    os.close(feed)
    os.close(result)


async def test_without_stderr_stray_output_goes_nowhere(standard):
    (read_from, feed), (result, write_to) = os.pipe(), os.pipe()
    standard(read_from, write_to, None)
    claimed = claim_descriptors()
    assert os.path.samestat(os.fstat(1), os.stat(os.devnull))
    os.write(1, b"stray")
    os.write(claimed[1], b"kept")
    assert os.read(result, 100) == b"kept"
    for descriptor in (*claimed, feed, result):
        os.close(descriptor)


async def test_a_stdout_that_cannot_be_told_how_to_buffer_is_left_alone(standard, monkeypatch):
    (read_from, feed), (result, write_to) = os.pipe(), os.pipe()
    standard(read_from, write_to)
    monkeypatch.setattr(sys, "stdout", object())
    channel = claim_stdio()
    await channel.aclose()
    os.close(feed)
    os.close(result)


async def test_where_nothing_can_be_waited_on_threads_are_used(standard, monkeypatch):
    """As on Windows."""
    (read_from, feed), (result, write_to) = os.pipe(), os.pipe()
    standard(read_from, write_to)
    monkeypatch.setattr("mcpcore.transport.stdio.os.name", "nt")
    channel = claim_stdio()
    monkeypatch.undo()
    assert kinds(channel) == (ThreadReceiveStream, ThreadSendStream)
    await channel.aclose()
    os.close(feed)
    os.close(result)


@pytest.mark.parametrize("threads", [None, True])
async def test_a_server_serves_on_claimed_descriptors_until_the_input_ends(standard, threads):
    (read_from, feed), (result, write_to) = os.pipe(), os.pipe()
    standard(read_from, write_to)
    server = Server("here", "1")

    @server.tool
    def shout(text: str) -> str:
        print("stray")
        return text.upper()

    from mcpcore import open_stream

    channel = open_stream(trio.lowlevel.FdStream(result), trio.lowlevel.FdStream(feed))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_stdio, server, threads=threads))
        await trio.testing.wait_all_tasks_blocked(0.01)
        os.dup2(os.open(os.devnull, os.O_RDWR), read_from)
        os.dup2(read_from, write_to)
        async with connect(channel) as client:
            assert (await client.call_tool("shout", {"text": "hello"})).text == "HELLO"
