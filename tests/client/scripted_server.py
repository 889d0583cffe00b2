"""A server by hand: it hears every message of the client and answers exactly what a test wants."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import outcome
import trio
from handshake import open_client

from mcpcore import Client, memory_channels
from mcpcore.transport.channel import Channel

NEWEST = "2025-11-25"
EVERYTHING = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


class Begun:
    """A function at work in a task of its own."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self._work = (function, arguments, options)
        self._outcome: outcome.Outcome[Any] | None = None

    async def run(self) -> None:
        function, arguments, options = self._work
        with self.scope:
            self._outcome = await outcome.acapture(_plainly, function, arguments, options)
        self.done.set()

    async def result(self) -> Any:
        await self.done.wait()
        assert self._outcome is not None, "it was cancelled"
        return self._outcome.unwrap()


async def _plainly(function: Any, arguments: Any, options: Any) -> Any:
    return await function(*arguments, **options)


class ScriptedServer:
    def __init__(self, channel: Channel, nursery: trio.Nursery) -> None:
        self.channel = channel
        self.offered: dict[str, Any] = {}
        self._nursery = nursery
        self._unread: list[dict[str, Any]] = []

    def begin(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Begun:
        begun = Begun(function, *arguments, **options)
        self._nursery.start_soon(begun.run)
        return begun

    def send(self, message: Any) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.channel.send_nowait(data)

    def notify(self, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else message | {"params": params})

    def ask(self, id: Any, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.send(message if params is None else message | {"params": params})

    async def receive(self) -> dict[str, Any]:
        while not self._unread:
            self._unread += [json.loads(frame) for frame in await self.channel.receive()]
        return self._unread.pop(0)

    async def expect(self, method: str) -> dict[str, Any]:
        """The next message, which must be of this method."""
        message = await self.receive()
        assert message.get("method") == method, message
        return message

    async def expect_answer(self, id: Any) -> dict[str, Any]:
        message = await self.receive()
        assert "method" not in message, message
        assert message.get("id") == id, message
        return message

    def answer(self, request: dict[str, Any], result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: dict[str, Any], code: int, message: str, **more: Any) -> None:
        error = {"code": code, "message": message, **more}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    async def expect_silence(self) -> None:
        """Nothing was sent: the client's next message is the answer to a ping of ours."""
        await trio.testing.wait_all_tasks_blocked()
        self.ask("silence", "ping")
        await self.expect_answer("silence")

    async def welcome(
        self, capabilities: Any = None, revision: str | None = None, **more: Any
    ) -> None:
        request = await self.expect("initialize")
        self.offered = request["params"]
        result = {
            "protocolVersion": revision or self.offered["protocolVersion"],
            "capabilities": EVERYTHING if capabilities is None else capabilities,
            "serverInfo": {"name": "by hand", "version": "0"},
            **more,
        }
        self.answer(request, result)
        await self.expect("notifications/initialized")

    async def answer_the_rest(self) -> None:
        """Answer pings and empty lists of tools from now on."""
        while True:
            message = await self.receive()
            self.answer(message, {"tools": []} if message["method"] == "tools/list" else {})

    async def reply(self, method: str, *results: Any) -> None:
        """Answer requests of `method` with these results, one after another."""
        for result in results:
            self.answer(await self.expect(method), result)


@asynccontextmanager
async def plain_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery that is cancelled at the end, and lets a single exception out as it is."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


@asynccontextmanager
async def scripted(
    capabilities: Any = None, revision: str | None = None, **options: Any
) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    """A client that shook hands with a server by hand. The server's side is the test's."""
    ours, theirs = memory_channels()
    async with plain_nursery() as nursery:
        server = ScriptedServer(theirs, nursery)
        welcome = server.begin(server.welcome, capabilities, revision)
        client = await open_client(nursery, ours, **options)
        await welcome.result()
        yield client, server
        await client.aclose()


@asynccontextmanager
async def greeting() -> AsyncIterator[tuple[Channel, ScriptedServer]]:
    """The channel to give to a client, and the server by hand, before anything was said."""
    ours, theirs = memory_channels()
    async with plain_nursery() as nursery:
        yield ours, ScriptedServer(theirs, nursery)
