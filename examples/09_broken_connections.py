"""A call that outlives its connections.

Between client and server stands a relay that cuts all connections now and then, as networks do.

Notice: the tool never hears of it, for a broken connection cancels nothing. The server numbers what it says
and remembers it, the client comes back with the number of the last event that it got, and the call ends
with its answer, each progress exactly once.

Exercise: give `serve_http` the option `store=None`. What does the client say then, and why can it say no
more?
"""

from functools import partial
from typing import Any

import trio

from mcpcore import Context, Server, connect, serve_http
from mcpcore.revisions import HANDSHAKE

server = Server("traveller", "1.0")


@server.tool
async def travel(days: int, ctx: Context[Any]) -> str:
    """Travel, a tenth of a second for each day."""
    for day in range(days):
        await trio.sleep(0.1)
        ctx.progress(day + 1, days)
    return f"arrived after {days} days"


class Relay:
    """Passes bytes on to a port, on connections that can be cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[trio.CancelScope] = set()
        self.cuts = 0

    async def serve(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._open.add(scope)
            server_side = await trio.open_tcp_stream("127.0.0.1", self._port)
            async with client, server_side, trio.open_nursery() as nursery:
                nursery.start_soon(self._pass, client, server_side, scope)
                nursery.start_soon(self._pass, server_side, client, scope)
        self._open.discard(scope)

    async def _pass(
        self, source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        try:
            async for data in source:
                await sink.send_all(data)
        except trio.BrokenResourceError:
            pass
        scope.cancel()

    async def cut_now_and_then(self) -> None:
        while True:
            await trio.sleep(0.35)
            self.cuts += 1
            for scope in tuple(self._open):
                scope.cancel()


async def main() -> None:
    steps: list[float] = []
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        # Events from the first moment, so that the call can be resumed whenever the relay cuts.
        (url,) = await nursery.start(
            partial(serve_http, server, port=0, answers="events", stop=stop)
        )
        relay = Relay(int(url.split(":")[2].split("/")[0]))
        (listener,) = await nursery.start(partial(trio.serve_tcp, relay.serve, 0, host="127.0.0.1"))
        through = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
        # What breaks can be resumed in a session only: in the stateless era a broken call is a lost one.
        async with connect(through, revisions=HANDSHAKE) as client:
            nursery.start_soon(relay.cut_now_and_then)
            result = await client.call_tool(
                "travel", {"days": 12}, on_progress=lambda step: steps.append(step.progress)
            )
            print(result.text)
        print("each day was heard of once:", steps == list(range(1, 13)))
        print("connections were cut:", relay.cuts > 1)
        stop.set()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
