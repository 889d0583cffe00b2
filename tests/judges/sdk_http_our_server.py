"""Our server over Streamable HTTP behind both fronts: our listener, and `http_app` under hypercorn.

Each conversation has a copy of `programs/mcpcore_server.py` of its own.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import hypercorn
import hypercorn.trio
import trio
from sdk_http_programs import copy_of

from mcpcore import Context, Server
from mcpcore.revisions import HANDSHAKE
from mcpcore.server.http.app import http_app
from mcpcore.server.http.listener import serve_http

OTHERS: dict[str, dict[str, Any]] = {
    "more": {},
    "more-stateless": {"sessions": None},
    "more-forgetful": {"store": None},
    "events": {"answers": "events"},
    "forgetful": {"store": None},
}
"""Servers in the newest revision, and what is said of their endpoints; some have more tools."""


def add_tools(server: Server) -> None:
    """Tools for what there is over HTTP only."""
    held: list[trio.Event] = []

    @server.tool
    async def hold(ctx: Context) -> str:
        """Says a word, and the rest when it is released."""
        held.append(trio.Event())
        ctx.progress(1)
        await held[-1].wait()
        ctx.progress(2)
        return "kept"

    @server.tool
    async def poll(ctx: Context) -> str:
        """Lets go of the connection, and answers when it is released."""
        held.append(trio.Event())
        ctx.progress(1)
        ctx.hang_up(0.01)
        await held[-1].wait()
        return "polled"

    @server.tool(asks="replay")
    async def give_up(ctx: Context) -> str:
        """Asks the client, and does not wait for the answer when it is released."""
        held.append(trio.Event())
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def stop() -> None:
                await held[-1].wait()
                nursery.cancel_scope.cancel()

            await ctx.sample("well", "Well?")
        return "gave up"

    @server.tool
    async def release() -> str:
        held[-1].set()
        return "released"

    grown: list[str] = []

    @server.tool
    async def grow() -> str:
        """There is a tool more than before."""
        grown.append(f"grown_{len(grown)}")
        server.tool(grow, name=grown[-1])
        return grown[-1]


def made(name: str, *revisions: str) -> Server:
    server: Server = copy_of("mcpcore_server.py", name, *revisions).server
    return server


async def main() -> None:
    where: dict[str, str] = {}
    stop = trio.Event()
    async with trio.open_nursery() as nursery:

        async def listen(name: str, server: Server, **options: Any) -> None:
            serve: Any = partial(serve_http, server, port=0, stop=stop, **options)
            (where[f"listener-{name}"],) = await nursery.start(serve)

        # One app at the root, with a lifespan; the others are mounted in it, without.
        root: Any = None
        for name, options in OTHERS.items():
            for front in ("listener", "hypercorn"):
                server = made(f"{front}_{name}", HANDSHAKE[0])
                if name.startswith("more"):
                    add_tools(server)
                if front == "listener":
                    await listen(name, server, **options)
                elif root is None:
                    root = http_app(server, **options)
                    where[f"hypercorn-{name}"] = ""
                else:
                    root.mount(f"/{name}", http_app(server, **options))
                    where[f"hypercorn-{name}"] = f"/{name}"
        for revision in HANDSHAKE:
            await listen(revision, made(f"listener_{revision}", revision))
            root.mount(f"/{revision}", http_app(made(f"hypercorn_{revision}", revision)))
            where[f"hypercorn-{revision}"] = f"/{revision}"

        config = hypercorn.Config()
        config.bind = ["127.0.0.1:0"]
        serve: Any = partial(hypercorn.trio.serve, root, config, shutdown_trigger=stop.wait)
        (bound,) = await nursery.start(serve)
        for name, url in where.items():
            if name.startswith("hypercorn"):
                where[name] = f"{bound}{url}/mcp"
        print(json.dumps(where), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        stop.set()


if __name__ == "__main__":
    trio.run(main)
