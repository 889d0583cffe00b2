"""A conversation over Streamable HTTP: each message a POST of its own, each on its own connection."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import trio

from ..transcript import UNREADABLE, Transcript, parse
from ..wire import web
from ..wire.events import EventReader
from .exchange import Exchange
from .peer import META, Peer, key
from .target import Target

SESSION = "mcp-session-id"


class WebPeer(Peer):
    """The server under test at a URL.

    ``session`` is the session id that the server gave, or None. ``headers`` replaces headers of one
    request; a value of None leaves the header out, a list gives it several times.
    """

    transport = "http"

    def __init__(
        self,
        revision: str,
        transcript: Transcript,
        limit: float,
        nursery: trio.Nursery,
        target: Target,
    ) -> None:
        super().__init__(revision, transcript, limit, nursery)
        self.target = target
        self.url = target.url or ""
        self.session: str | None = None
        self.agreed = False
        self._count = 0

    def usual_headers(self, method: str, message: Any) -> dict[str, str]:
        """The headers that a lawful client sends with this message."""
        headers = {
            "Accept": "application/json, text/event-stream"
            if method == "POST"
            else "text/event-stream"
        }
        if method == "POST":
            headers["Content-Type"] = "application/json"
        if self.session is not None and not self.stateless:
            headers["Mcp-Session-Id"] = self.session
        if self.agreed and not self.stateless:
            headers["MCP-Protocol-Version"] = self.revision
        if self.stateless and isinstance(message, dict):
            headers |= self.mirrored(message)
        return {**headers, **self.target.headers}

    def mirrored(self, message: dict[str, Any]) -> dict[str, str]:
        """The headers that repeat what a stateless request says in its body."""
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        terms = params.get("_meta")
        terms = terms if isinstance(terms, dict) else {}
        headers = {"MCP-Protocol-Version": str(terms.get(f"{META}protocolVersion", self.revision))}
        method = message.get("method")
        if isinstance(method, str):
            headers["Mcp-Method"] = method
            name = params.get("uri" if method == "resources/read" else "name")
            if method in ("tools/call", "prompts/get", "resources/read") and isinstance(name, str):
                headers["Mcp-Name"] = encoded(name)
        return headers

    async def post(self, message: Any, **transport: Any) -> Exchange:
        exchange = Exchange(message, message.get("id") if isinstance(message, dict) else None)
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and "id" in part and "method" in part:
                self.open[key(part["id"])] = (
                    exchange if part is message else Exchange(part, part["id"])
                )
        body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return self._send("POST", body, message, exchange, transport.get("headers"))

    async def send(
        self, method: str, body: bytes = b"", *, headers: Mapping[str, Any] | None = None
    ) -> Exchange:
        """Send any HTTP request; the usual headers go with it unless ``headers`` says otherwise."""
        if body:
            self.transcript.lawful = False
        return self._send(
            method,
            body,
            parse(body) if body else None,
            Exchange(brief_of(method, body), None),
            headers,
        )

    async def headed(self, exchange: Exchange) -> Exchange:
        """Wait for the head of the answer; ``refusal`` says why none came."""
        with trio.move_on_after(self.limit):
            async with trio.open_nursery() as nursery:

                async def first(event: trio.Event) -> None:
                    await event.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(first, exchange.headed)
                nursery.start_soon(first, exchange.ended)
        if exchange.status is None and exchange.refusal is None:
            exchange.refusal = f"nothing in {self.limit:g} s"
        return exchange

    async def ended(self, exchange: Exchange) -> Exchange:
        """Wait for the end of the answer, at most ``limit`` seconds; look at ``exchange.ended``
        afterwards.
        """
        with trio.move_on_after(self.limit):
            await exchange.ended.wait()
        return exchange

    def _send(
        self,
        method: str,
        body: bytes,
        message: Any,
        exchange: Exchange,
        headers: Mapping[str, Any] | None,
    ) -> Exchange:
        fields: list[tuple[str, str]] = []
        changed = {name.lower(): value for name, value in (headers or {}).items()}
        for name, value in self.usual_headers(method, message).items():
            if name.lower() not in changed:
                fields.append((name, value))
        for name, value in (headers or {}).items():
            fields += [
                (name, each)
                for each in (value if isinstance(value, list) else [value])
                if each is not None
            ]
        self._count += 1
        exchange.stream = f"{method} {self._count}"
        self.nursery.start_soon(self._carry, method, fields, body, exchange)
        return exchange

    async def _carry(
        self, method: str, fields: list[tuple[str, str]], body: bytes, exchange: Exchange
    ) -> None:
        stream = exchange.stream
        with exchange.scope:
            try:
                async with web.exchange(
                    self.url, method, fields, body, self.transcript, stream
                ) as answer:
                    exchange.status, exchange.headers = answer.status, answer.headers
                    exchange.media_type = answer.media_type
                    if SESSION in answer.headers and self.session is None and not self.stateless:
                        self.session = answer.headers[SESSION]
                    exchange.headed.set()
                    if answer.media_type == "text/event-stream":
                        await self._read_events(answer, exchange)
                    else:
                        await self._read_body(answer, exchange)
            except web.NoAnswer as error:
                exchange.refusal = str(error)
        if exchange.scope.cancelled_caught:
            self.transcript.add("client", stream, "event", b"connection cut")
        exchange.ended.set()
        exchange.headed.set()

    async def _read_events(self, answer: web.Answer, exchange: Exchange) -> None:
        reader = EventReader()
        async for part in answer.parts:
            for event in reader.feed(part):
                exchange.events.append(event)
                if event.data:
                    self.transcript.add("server", exchange.stream, "message", event.data.encode())
                    if event.kind == "message":
                        self.heard(parse(event.data.encode()), exchange)
                else:
                    self.transcript.add("server", exchange.stream, "text", event.raw)

    async def _read_body(self, answer: web.Answer, exchange: Exchange) -> None:
        async for part in answer.parts:
            exchange.body += part
        message = parse(exchange.body) if exchange.body else None
        known = message is not None and message is not UNREADABLE
        kind = "message" if known and answer.media_type == "application/json" else "body"
        if exchange.body:
            self.transcript.add("server", exchange.stream, kind, exchange.body)
        if kind == "message":
            self.heard(message, exchange)


def encoded(value: str) -> str:
    """A value as a mirrored header carries it: plain if it may be, else in the Base64 form."""
    plain = all(0x20 <= ord(c) <= 0x7E for c in value) and value == value.strip(" \t")
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def brief_of(method: str, body: bytes) -> str:
    """A request as a finding names it."""
    return f"{method} {body[:200].decode('utf-8', 'backslashreplace')}".strip()
