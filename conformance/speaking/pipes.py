"""A conversation over the pipes of a child process."""

import json
from typing import Any

import trio

from ..transcript import Transcript, parse
from ..wire.process import Child
from .exchange import Exchange
from .peer import Peer, key


class PipePeer(Peer):
    """The server under test as our child."""

    transport = "stdio"

    def __init__(
        self,
        revision: str,
        transcript: Transcript,
        limit: float,
        nursery: trio.Nursery,
        child: Child,
    ) -> None:
        super().__init__(revision, transcript, limit, nursery)
        self.child = child

    async def post(self, message: Any, **transport: Any) -> Exchange:
        exchange = Exchange(message, message.get("id") if isinstance(message, dict) else None)
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and "id" in part and "method" in part:
                self.open[key(part["id"])] = (
                    exchange if part is message else Exchange(part, part["id"])
                )
        await self._write(
            json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        )
        return exchange

    async def expecting(self, message: dict[str, Any]) -> Exchange:
        """Wait for the answer to a message that the check itself will write, in a way of its own."""
        exchange = Exchange(message, message["id"])
        self.open[key(message["id"])] = exchange
        self.transcript.add(
            "client", "stdin", "message", json.dumps(message, ensure_ascii=False).encode()
        )
        return exchange

    async def write(self, raw: bytes) -> None:
        """Write bytes that need not be lawful."""
        self.transcript.lawful = False
        await self._write(raw, kind="text")

    async def _write(self, raw: bytes, kind: str = "message") -> None:
        try:
            with trio.fail_after(self.limit):
                await self.child.send(raw, kind=kind)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass

    async def read(self) -> None:
        """Hear the child until its output ends."""
        async for line in self.child.lines:
            if line.strip():
                self.heard(parse(line))
        self.closed.set()
        self.heard([])
