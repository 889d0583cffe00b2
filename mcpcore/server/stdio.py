"""Running a server: on this process's stdin and stdout, or on a stream."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from typing import Protocol

import trio

from mcpcore.protocol.framing import MAX_LINE
from mcpcore.transport.channel import Channel
from mcpcore.transport.lines import LineChannel, open_stream
from mcpcore.transport.stdio import claim_stdio

logger = logging.getLogger("mcpcore.server")


class Serves(Protocol):
    """A server: whatever can serve a channel."""

    async def serve(self, channel: Channel) -> None: ...


async def serve_stdio(
    server: Serves, *, threads: bool | None = None, max_line: int = MAX_LINE
) -> None:
    """Serve on stdin and stdout until the input ends; see `mcpcore.transport.stdio.claim_stdio`."""
    await server.serve(claim_stdio(threads=threads, max_line=max_line))


async def serve_stream(
    server: Serves, stream: trio.abc.Stream, *, max_line: int = MAX_LINE
) -> None:
    """Serve one client on a trio stream: `trio.serve_tcp(partial(serve_stream, server), port)`."""
    await server.serve(open_stream(stream, max_line=max_line))


GRACE = 3.0
"""Seconds that handlers have to end after a signal, or after the channel ended; then the process does."""


def run_stdio(server: Serves, channel: LineChannel | None = None) -> None:
    """Serve on stdin and stdout in a loop of its own, and leave by `sys.exit` after a signal.

    The process ends for certain: a handler that swallows its cancellation, shields itself from it or
    blocks the loop has `GRACE` seconds, a second signal ends it at once.
    """
    channel = channel or claim_stdio()
    number = trio.run(_until_signal, server, channel)
    if number:
        # A thread that still reads the terminal must not hold up the end of the process.
        _flush()
        os._exit(128 + number) if threading.active_count() > 1 else sys.exit(128 + number)


async def _until_signal(server: Serves, channel: LineChannel) -> int:
    """Serve; give the number of the signal that ended it, or 0."""
    caught = 0
    token = trio.lowlevel.current_trio_token()
    main = trio.CancelScope()
    timers: list[threading.Timer] = []

    def on_signal(number: int, _: object) -> None:
        nonlocal caught
        if caught:
            os._exit(128 + number)
        caught = number
        timers.append(_end_later(128 + number))
        token.run_sync_soon(main.cancel)

    previous = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        with main:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_watch_end, channel, timers)
                await server.serve(channel)
                nursery.cancel_scope.cancel()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for timer in timers:
            timer.cancel()
            timer.join()
    return caught


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def _watch_end(channel: LineChannel, timers: list[threading.Timer]) -> None:
    await channel.closed.wait()
    timers.append(_end_later(1))


def _end_later(status: int) -> threading.Timer:
    """End the process after the grace, whatever it does then. A thread, since the loop may be stuck; a
    daemon, so that it does not hold up an end that comes by itself.
    """

    def end() -> None:
        logger.error("a handler does not end: the process ends without it")
        _flush()
        os._exit(status)

    timer = threading.Timer(GRACE, end)
    timer.daemon = True
    timer.start()
    return timer


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
