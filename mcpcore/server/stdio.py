"""Running a server: on this process's stdin and stdout, or on a stream."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Protocol

import trio

from mcpcore.protocol.framing import MAX_LINE
from mcpcore.transport.channel import Channel
from mcpcore.transport.lines import open_stream
from mcpcore.transport.stdio import claim_stdio


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


def run_stdio(server: Serves, channel: Channel | None = None) -> None:
    """Serve on stdin and stdout in a loop of its own, and leave by `sys.exit` after a signal."""
    channel = channel or claim_stdio()
    number = trio.run(_until_signal, server, channel)
    if number:
        # A thread that still reads the terminal must not hold up the end of the process.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(128 + number) if threading.active_count() > 1 else sys.exit(128 + number)


async def _until_signal(server: Serves, channel: Channel) -> int:
    """Serve; give the number of the signal that ended it, or 0."""
    caught = 0
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal caught
                async for number in signals:
                    caught = number
                    nursery.cancel_scope.cancel()
                    return

            nursery.start_soon(watch)
            await server.serve(channel)
            nursery.cancel_scope.cancel()
    return caught
