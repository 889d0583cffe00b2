"""A client by hand: it says exactly what a test wants to see answered, and hears every message."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from mcpcore import Server, memory_channels
from mcpcore.transport.channel import Channel

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST = REVISIONS[-1]


class ScriptedClient:
    """One end of a memory channel; messages are dicts, whatever is unread stays in order."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.unread: list[dict[str, Any]] = []
        self.welcome: dict[str, Any] = {}
        self._last_id = 1000

    def send(self, message: Any) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.channel.send_nowait(data)

    def notify(self, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else message | {"params": params})

    def ask(self, method: str, params: Any = None, *, id: Any = None) -> Any:
        """Send a request, give its id."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.send(message if params is None else message | {"params": params})
        return id

    async def receive(self) -> dict[str, Any]:
        """The next message, whatever it is."""
        while not self.unread:
            self.unread += [json.loads(frame) for frame in await self.channel.receive()]
        return self.unread.pop(0)

    async def answer(self, id: Any) -> dict[str, Any]:
        """The answer to request `id`; other messages stay unread."""
        passed: list[dict[str, Any]] = []
        while True:
            message = await self.receive()
            if "method" not in message and message.get("id") == id:
                self.unread[:0] = passed
                return message
            passed.append(message)

    async def request(self, method: str, params: Any = None) -> dict[str, Any]:
        return await self.answer(self.ask(method, params))

    async def result(self, method: str, params: Any = None) -> dict[str, Any]:
        answer = await self.request(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Any = None) -> dict[str, Any]:
        answer = await self.request(method, params)
        assert "error" in answer, answer
        return answer["error"]

    async def call(self, name: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
        params = {"name": name, **more}
        if arguments is not None:
            params["arguments"] = arguments
        return await self.result("tools/call", params)

    async def heard(self) -> list[dict[str, Any]]:
        """Everything that came in until a ping, sent now, is answered."""
        await trio.testing.wait_all_tasks_blocked()
        ping = self.ask("ping")
        messages: list[dict[str, Any]] = []
        while (message := await self.receive()).get("id") != ping:
            messages.append(message)
        assert message == {"jsonrpc": "2.0", "id": ping, "result": {}}
        return messages

    async def initialize(
        self, revision: str = NEWEST, capabilities: Any = None, *, initialized: bool = True
    ) -> dict[str, Any]:
        self.welcome = await self.result(
            "initialize",
            {
                "protocolVersion": revision,
                "capabilities": capabilities or {},
                "clientInfo": {"name": "by hand", "version": "0"},
            },
        )
        if initialized:
            self.notify("notifications/initialized")
            await self.result("ping")  # Now the server has read it.
        return self.welcome


@asynccontextmanager
async def served(
    server: Server, revision: str = NEWEST, capabilities: Any = None, *, initialize: bool = True
) -> AsyncIterator[ScriptedClient]:
    """Serve, and talk to the server by hand."""
    ours, theirs = memory_channels()
    client = ScriptedClient(ours)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, theirs)
            if initialize:
                await client.initialize(revision, capabilities)
            yield client
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
