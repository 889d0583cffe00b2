"""Running a server: on this process's stdin and stdout, or on a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from mcpcore.protocol.framing import MAX_LINE
from mcpcore.server.signals import run_until_signal
from mcpcore.transport.channel import Channel
from mcpcore.transport.lines import LineChannel, open_stream
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


def run_stdio(server: Serves, channel: LineChannel | None = None) -> None:
    """Serve on stdin and stdout in a loop of its own; see `mcpcore.server.signals`."""
    channel = channel or claim_stdio()

    async def serve(stop: trio.Event, end_later: Callable[[int], None]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at, stop, nursery)
            nursery.start_soon(_watch_end, channel, end_later)
            await server.serve(channel)
            nursery.cancel_scope.cancel()

    run_until_signal(serve)


async def _cancel_at(stop: trio.Event, nursery: trio.Nursery) -> None:
    await stop.wait()
    nursery.cancel_scope.cancel()


async def _watch_end(channel: LineChannel, end_later: Callable[[int], None]) -> None:
    await channel.closed.wait()
    end_later(1)
