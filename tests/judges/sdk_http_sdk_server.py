"""The server of the official SDK over Streamable HTTP under uvicorn, in all the ways it can be set up.

Each way is at a path of its own, with a copy of `programs/sdk_server.py` for each conversation.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from sdk_http_programs import copy_of
from starlette.applications import Starlette
from starlette.routing import Route

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class MemoryStore(EventStore):
    """All events in one list; an event's id is its place in it."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        last = int(last_event_id)
        stream = self._events[last][0]
        for place in range(last + 1, len(self._events)):
            owner, message = self._events[place]
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(place)))
        return stream


def add_tools(program: Any) -> None:
    """Tools that are not listed, for what there is over HTTP only."""
    text = program.text
    held: list[anyio.Event] = []

    async def hold(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Says a word, and the rest when it is released."""
        held.append(anyio.Event())
        await ctx.session.report_progress(1)
        await held[-1].wait()
        await ctx.session.report_progress(2)
        return text("kept")

    async def poll(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Lets go of the connection, and answers when it is released."""
        held.append(anyio.Event())
        await ctx.session.report_progress(1)
        await ctx.close_sse_stream()
        await held[-1].wait()
        return text("polled")

    async def give_up(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Asks the client, and does not wait for the answer when it is released."""
        held.append(anyio.Event())
        question = types.SamplingMessage(role="user", content=types.TextContent(text="Well?"))
        async with anyio.create_task_group() as group:

            async def stop() -> None:
                await held[-1].wait()
                group.cancel_scope.cancel()

            group.start_soon(stop)
            await ctx.session.create_message(
                [question], max_tokens=9, related_request_id=ctx.request_id
            )
        return text("gave up")

    async def release(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        held[-1].set()
        return text("released")

    async def tell(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
        """Says something about this request."""
        await ctx.session.send_log_message("info", "told", related_request_id=ctx.request_id)
        return text("told")

    for tool in (hold, poll, give_up, release, tell):
        program.TOOLS[tool.__name__] = tool


def managers() -> dict[str, StreamableHTTPSessionManager]:
    found: dict[str, StreamableHTTPSessionManager] = {}

    def add(name: str, **options: Any) -> None:
        program = copy_of("sdk_server.py", f"copy_{len(found)}")
        add_tools(program)
        changed = program.NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        # On stdio the program says this when it begins to serve; over HTTP the SDK does that by itself.
        server = program.server
        server.create_initialization_options = partial(
            server.create_initialization_options, changed
        )
        found[name] = StreamableHTTPSessionManager(server, **options)

    for revision in REVISIONS:
        add(f"events-{revision}")
        add(f"json-{revision}", json_response=True)
        add(f"stateless-{revision}", stateless=True)
        add(f"stateless-json-{revision}", stateless=True, json_response=True)
    for name in ("store-2025-11-25", "resumable", "polling", "ended-with-store"):
        add(name, event_store=MemoryStore(), retry_interval=300)
    for name in ("cancelled", "sessions", "ended", "ended-while-asked"):
        add(name)
    return found


async def main() -> None:
    found = managers()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for manager in found.values():
                await stack.enter_async_context(manager.run())
            yield

    routes = [
        Route(f"/{name}", endpoint=StreamableHTTPASGIApp(manager))
        for name, manager in found.items()
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    # asyncio sends without delay only on sockets that say that they are TCP.
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    port = listening.getsockname()[1]
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listening])
        print(json.dumps({name: f"http://127.0.0.1:{port}/{name}" for name in found}), flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)
        server.should_exit = True


if __name__ == "__main__":
    anyio.run(main)
