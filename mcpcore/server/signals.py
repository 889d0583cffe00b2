"""Serving until a signal says stop, in a loop of its own, as the last thing that a process does."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable

import trio

logger = logging.getLogger("mcpcore.server")

GRACE = 3.0
"""Seconds that handlers have to end after a signal, or after the channel ended; then the process does."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_until_signal(
    work: Callable[[trio.Event, Callable[[int], None]], Awaitable[None]], *, grace: float = GRACE
) -> None:
    """Run `work(stop, end_later)`, and leave by `sys.exit` after a signal.

    The first SIGINT or SIGTERM sets `stop`. The process then ends for certain: what swallows its
    cancellation, shields itself from it or blocks the loop has `grace` seconds, and a second signal ends
    it at once. `end_later(status)` starts the same countdown for another reason.
    """
    number = trio.run(_until_signal, work, grace)
    if number:
        # A thread that still reads the terminal must not hold up the end of the process.
        _flush()
        os._exit(128 + number) if threading.active_count() > 1 else sys.exit(128 + number)


async def _until_signal(
    work: Callable[[trio.Event, Callable[[int], None]], Awaitable[None]], grace: float
) -> int:
    """Give the number of the signal that ended the work, or 0."""
    caught = 0
    token = trio.lowlevel.current_trio_token()
    stop = trio.Event()
    timers: list[threading.Timer] = []

    def end_later(status: int) -> None:
        timers.append(_end_later(status, grace))

    def on_signal(number: int, _: object) -> None:
        nonlocal caught
        if caught:
            os._exit(128 + number)
        caught = number
        end_later(128 + number)
        token.run_sync_soon(stop.set)

    previous = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        await work(stop, end_later)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for timer in timers:
            timer.cancel()
            timer.join()
    return caught


def _end_later(status: int, grace: float) -> threading.Timer:
    """End the process after the grace, whatever it does then. A thread, since the loop may be stuck; a
    daemon, so that it does not hold up an end that comes by itself.
    """

    def end() -> None:
        logger.error("a handler does not end: the process ends without it")
        _flush()
        os._exit(status)

    timer = threading.Timer(grace, end)
    timer.daemon = True
    timer.start()
    return timer


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
