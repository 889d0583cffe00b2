"""A runtime of either side with a peer by hand, below `Client` and `Server`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import outcome
import trio

from mcpcore import Limits, Timeouts, memory_channels
from mcpcore import types as t
from mcpcore.protocol.connection import Connection
from mcpcore.protocol.events import Notification, Request
from mcpcore.runtime import Handler, Later, Runtime
from mcpcore.transport.memory import MemoryChannel

CAPABILITIES = {"tools": {"listChanged": True}, "logging": {}}


class Scripted(Handler):
    """Answers each method with what a test put under its name."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[[Request], Any]] = {"ping": lambda _: t.EmptyResult()}
        self.notifications: list[Notification] = []
        self.events: list[Any] = []
        self.on_notification: Callable[[Notification], None] = self.notifications.append

    def begin(self, request: Request) -> Any:
        return self.functions[request.method](request)

    def received(self, notification: Notification) -> None:
        self.on_notification(notification)

    def observed(self, event: Any) -> None:
        self.events.append(event)


class Peer:
    """The other end, by hand."""

    def __init__(self, channel: MemoryChannel, nursery: trio.Nursery) -> None:
        self.channel = channel
        self._nursery = nursery
        self._unread: list[dict[str, Any]] = []

    def send(self, *messages: Any) -> None:
        self.channel.send_nowait(*(json.dumps(message).encode() for message in messages))

    def ask(self, id: Any, method: str, params: Any = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}

    def cancel(self, id: Any) -> dict[str, Any]:
        return {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "test"},
        }

    def progress(self, token: Any, value: float, **more: Any) -> dict[str, Any]:
        params = {"progressToken": token, "progress": value, **more}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    def answer(self, request: dict[str, Any], result: Any = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": request["id"], "result": result or {}}

    async def receive(self) -> dict[str, Any]:
        while not self._unread:
            self._unread += [json.loads(frame) for frame in await self.channel.receive()]
        return self._unread.pop(0)

    async def heard(self) -> list[dict[str, Any]]:
        """Everything that was sent until now."""
        await trio.testing.wait_all_tasks_blocked()
        if self.channel._inbox:
            self._unread += [json.loads(frame) for frame in await self.channel.receive()]
        unread, self._unread = self._unread, []
        return unread

    def begin(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Begun:
        begun = Begun()
        self._nursery.start_soon(begun.run, function, arguments, options)
        return begun


class Begun:
    """A function at work in a task of its own."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self._outcome: outcome.Outcome[Any] | None = None

    async def run(self, function: Any, arguments: Any, options: Any) -> None:
        async def call() -> Any:
            return await function(*arguments, **options)

        with self.scope:
            self._outcome = await outcome.acapture(call)
        self.done.set()

    async def result(self) -> Any:
        await self.done.wait()
        assert self._outcome is not None, "it was cancelled"
        return self._outcome.unwrap()


@asynccontextmanager
async def running(
    role: str, *, high_water: int = 1 << 20, capabilities: Any = None, **options: Any
) -> AsyncIterator[tuple[Runtime, Scripted, Peer]]:
    """A runtime whose session is open."""
    ours, theirs = memory_channels(high_water)
    handler = Scripted()
    connection = Connection(role)
    runtime = Runtime(
        connection,
        ours,
        handler,
        timeouts=options.get("timeouts", Timeouts()),
        limits=options.get("limits", Limits()),
    )
    try:
        async with trio.open_nursery() as nursery:
            peer = Peer(theirs, nursery)
            await nursery.start(runtime.run)
            if role == "client":
                await _shake_hands_as_client(runtime, peer, capabilities)
            else:
                await _shake_hands_as_server(handler, peer, capabilities)
            handler.notifications.clear()
            yield runtime, handler, peer
            await runtime.close()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


async def _shake_hands_as_client(runtime: Runtime, peer: Peer, capabilities: Any) -> None:
    params = t.InitializeParams(
        protocol_version="2025-11-25",
        capabilities=t.ClientCapabilities(
            sampling=t.SamplingCapability(), roots=t.ListChanged(list_changed=True)
        ),
        client_info=t.Implementation("c", "1"),
    )
    opening = peer.begin(runtime.request, "initialize", params)
    request = await peer.receive()
    result = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities or CAPABILITIES,
        "serverInfo": {"name": "s", "version": "1"},
    }
    peer.send(peer.answer(request, result))
    await opening.result()
    await runtime.notify(Notification("notifications/initialized"))
    await peer.receive()


async def _shake_hands_as_server(handler: Scripted, peer: Peer, capabilities: Any) -> None:
    handler.functions["initialize"] = lambda _: t.InitializeResult(
        protocol_version="2025-11-25",
        capabilities=t.ServerCapabilities(tools=t.ListChanged(list_changed=True), logging={}),
        server_info=t.Implementation("s", "1"),
    )
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities or {"sampling": {}, "roots": {}},
        "clientInfo": {"name": "c", "version": "1"},
    }
    peer.send(peer.ask("init", "initialize", params))
    await peer.receive()
    peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, peer.ask("ready", "ping"))
    await peer.receive()


def later(function: Callable[..., Any]) -> Callable[[Request], Later]:
    """A handler's function that has to be waited for; it gets the request."""
    return lambda request: Later(function, (request,))
