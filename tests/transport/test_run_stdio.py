"""Running a server in a loop of its own, within this process: when it returns and how it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
import trio
import trio.testing

from mcpcore.server import stdio
from mcpcore.transport.lines import LineChannel


class Serving:
    """Stands for a server: sends this process a signal, if there is one, and then waits."""

    def __init__(self, number=None):
        self.number = number
        self.channel = None

    async def serve(self, channel):
        self.channel = channel
        if self.number is not None:
            os.kill(os.getpid(), self.number)
            await trio.sleep_forever()


def a_channel():
    stream, _ = trio.testing.memory_stream_pair()
    return LineChannel(stream, stream)


class Left(BaseException):
    """Instead of the end of the process."""


@pytest.fixture
def leaves(monkeypatch):
    """Notes the status of an exit that skips everything, which a test must not survive otherwise."""

    def leave(status):
        raise Left(status)

    monkeypatch.setattr(os, "_exit", leave)
    return Left


def test_it_returns_when_the_server_has_served():
    ours = a_channel()
    server = Serving()
    stdio.run_stdio(server, ours)
    assert server.channel is ours


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_with_the_documented_status(leaves, monkeypatch, number, status):
    """F-023."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    with pytest.raises(SystemExit) as caught:
        stdio.run_stdio(Serving(number), a_channel())
    assert caught.value.code == status


def test_a_thread_that_still_reads_does_not_hold_up_the_exit(leaves, monkeypatch):
    """F-023."""
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    with pytest.raises(leaves, match="143"):
        stdio.run_stdio(Serving(signal.SIGTERM), a_channel())


def test_the_handlers_of_signals_are_given_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    stdio.run_stdio(Serving(), a_channel())
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_without_a_channel_it_claims_stdin_and_stdout(monkeypatch):
    ours = a_channel()
    monkeypatch.setattr(stdio, "claim_stdio", lambda: ours)
    server = Serving()
    stdio.run_stdio(server)
    assert server.channel is ours


def test_a_second_signal_ends_the_process_at_once(leaves):
    """A handler that does not stop does not keep the process either."""

    class Stubborn(Serving):
        async def serve(self, channel):
            os.kill(os.getpid(), signal.SIGTERM)
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
                os.kill(os.getpid(), signal.SIGTERM)
                await trio.sleep(60)

    with pytest.raises((leaves, BaseExceptionGroup, trio.TrioInternalError)):
        stdio.run_stdio(Stubborn(), a_channel())


@pytest.mark.process
@pytest.mark.parametrize("stubborn", ["shields", "swallows", "blocks"])
@pytest.mark.parametrize("end", ["eof", "signal"])
def test_a_handler_that_does_not_stop_does_not_keep_the_process(stubborn, end):
    """F-013: no orphan, whatever the handlers do; the process ends without them after a grace."""
    program = SERVER.replace("GRACE_HERE", "0.2").replace("HABIT", stubborn)
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stderr is not None
    child.stdin.write(HANDSHAKE_AND_CALL)
    child.stdin.flush()
    assert b"begun" in child.stderr.readline()
    if end == "eof":
        child.stdin.close()
    else:
        child.send_signal(signal.SIGTERM)
    try:
        assert child.wait(30) == (1 if end == "eof" else 143)
    finally:
        child.kill()
        for stream in (child.stdin, child.stdout, child.stderr):
            stream.close()


SERVER = """
import sys, time
import trio
from mcpcore import Server, Timeouts
from mcpcore.server import stdio
stdio.GRACE = GRACE_HERE
server = Server("stubborn", "1", timeouts=Timeouts(drain=0.1))

async def shields():
    with trio.CancelScope(shield=True):
        await trio.sleep(1000)

async def swallows():
    while True:
        try:
            await trio.sleep(0.01)
        except trio.Cancelled:
            pass

async def blocks():
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        time.sleep(0.01)
    await shields()

@server.tool
async def never() -> None:
    print("begun", file=sys.stderr, flush=True)
    await HABIT()

server.run()
"""

HANDSHAKE_AND_CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"never"}}\n'
)
