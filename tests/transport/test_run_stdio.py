"""Running a server in a loop of its own, within this process: when it returns and how it leaves."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import trio

from mcpcore.server import stdio
from mcpcore.testing import memory_channels


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
    ours, _ = memory_channels()
    server = Serving()
    stdio.run_stdio(server, ours)
    assert server.channel is ours


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_with_the_documented_status(leaves, monkeypatch, number, status):
    """F-023."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    with pytest.raises(SystemExit) as caught:
        stdio.run_stdio(Serving(number), memory_channels()[0])
    assert caught.value.code == status


def test_a_thread_that_still_reads_does_not_hold_up_the_exit(leaves, monkeypatch):
    """F-023."""
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    with pytest.raises(leaves, match="143"):
        stdio.run_stdio(Serving(signal.SIGTERM), memory_channels()[0])


def test_the_handlers_of_signals_are_given_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    stdio.run_stdio(Serving(), memory_channels()[0])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_without_a_channel_it_claims_stdin_and_stdout(monkeypatch):
    ours, _ = memory_channels()
    monkeypatch.setattr(stdio, "claim_stdio", lambda: ours)
    server = Serving()
    stdio.run_stdio(server)
    assert server.channel is ours
