"""The client's side of the older HTTP transport, that of 2024-11-05: one stream in, a POST for each
message out.

The stream begins with an event `endpoint` that says where to post; everything that the server says comes
on the stream, answers as well. There are no session ids and nothing is resumed: the end of the stream is
the end of the session. Only for servers that have nothing newer.
"""

from __future__ import annotations

import logging
from collections import deque

import trio

from mcpcore import jsonrpc
from mcpcore.errors import ConnectionLost, McpError
from mcpcore.jsonrpc import Request, RequestId
from mcpcore.protocol.events import Undelivered
from mcpcore.protocol.framing import Frame, NeedData
from mcpcore.protocol.headers import EVENT_STREAM, JSON, media_type
from mcpcore.protocol.sse import MESSAGE, SseDecoder
from mcpcore.transport.channel import BACKLOG, HIGH_WATER, Channel
from mcpcore.transport.net.exchange import Exchange, HttpClient
from mcpcore.transport.net.refusals import meaning, refusal
from mcpcore.transport.net.url import Url, parse, resolve
from mcpcore.transport.web import HttpServer, encode_headers

logger = logging.getLogger("mcpcore.transport")

ENDPOINT = "endpoint"
"""The type of the first event: its data is where to post."""

CLOSE_TIME = 1.0
"""Seconds that messages which were taken have to leave in."""


class OlderHttpChannel(Channel):
    """A channel to `server`, whose URL is that of the stream. Raises ValueError for a URL that is none."""

    def __init__(self, server: HttpServer) -> None:
        self._url = parse(server.url)
        self._server = server
        self._client = HttpClient(server.network)
        self._headers = encode_headers(server.headers)
        self._post_to: Url | None = None
        self._inbox: deque[Frame] = deque()
        self._outbox: deque[bytes] = deque()
        self._unwritten = 0
        self._arrived = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._work = trio.lowlevel.ParkingLot()
        self._posting = 0
        self._posted = trio.lowlevel.ParkingLot()
        self._lost: ConnectionLost | None = None
        self._closed = trio.Event()

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        if self._lost is not None:
            raise self._lost.again()
        if self._unwritten > BACKLOG:
            raise ConnectionLost(f"{self._url}: {self._unwritten} bytes wait to be sent")
        self._outbox.extend(messages)
        self._unwritten += sum(map(len, messages))
        self._work.unpark()

    @property
    def crowded(self) -> bool:
        return self._unwritten > HIGH_WATER and self._lost is None

    async def wait_for_room(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while self.crowded:
            await self._room.park()

    async def receive(self) -> list[Frame]:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._inbox:
            if self._lost is not None:
                raise self._lost.again()
            await self._arrived.park()
        frames = list(self._inbox)
        self._inbox.clear()
        return frames

    def _arrive(self, frame: Frame) -> None:
        self._inbox.append(frame)
        self._arrived.unpark()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            nursery.start_soon(self._write, nursery)
            await self._closed.wait()
            nursery.cancel_scope.cancel()

    # The stream.

    async def _read(self) -> None:
        try:
            headers = [(b"Accept", EVENT_STREAM.encode()), *await self._own_headers()]
            exchange = await self._client.request(b"GET", self._url, headers, repeatable=True)
            try:
                await self._read_events(exchange)
            finally:
                exchange.close()
            self._end(ConnectionLost(f"{self._url}: the server ended the stream"))
        except ConnectionLost as error:
            self._end(error)
        except Exception as error:
            logger.debug("the stream of the older transport failed: %s", error)
            self._end(ConnectionLost(str(error)))

    async def _read_events(self, exchange: Exchange) -> None:
        if exchange.status != 200 or media_type(exchange.header(b"content-type")) != EVENT_STREAM:
            raise ConnectionLost(f"{self._url}: HTTP {exchange.status} is no event stream")
        decoder = SseDecoder(self._server.max_message)
        while chunk := await exchange.chunk():
            decoder.receive_data(chunk)
            while not isinstance(event := decoder.next_event(), NeedData):
                if self._post_to is None:
                    self._post_to = self._where(event.type, event.data)
                    self._work.unpark()
                elif event.type == MESSAGE and event.data:
                    self._arrive(event.data)

    def _where(self, type: str, data: Frame) -> Url:
        """Where to post, by the first event. It must be within the origin: the credentials go there."""
        if type != ENDPOINT or not isinstance(data, bytes):
            raise ConnectionLost(f"{self._url}: the stream does not begin with an endpoint")
        try:
            url = resolve(self._url, data.decode())
        except ValueError as error:
            raise ConnectionLost(f"{self._url}: the endpoint is no URL: {error}") from None
        if url.origin != self._url.origin:
            raise ConnectionLost(f"{self._url}: the endpoint is at another origin, {url.origin}")
        return url

    # Posts.

    async def _write(self, nursery: trio.Nursery) -> None:
        """Post each message once the one before was written, so that they arrive in their order."""
        while True:
            while not self._outbox or self._post_to is None:
                await self._work.park()
            data = self._outbox.popleft()
            written = trio.Event()
            self._posting += 1
            nursery.start_soon(self._post, data, self._post_to, written)
            await written.wait()
            self._unwritten -= len(data)
            if not self.crowded:
                self._room.unpark_all()

    async def _post(self, data: bytes, url: Url, written: trio.Event) -> None:
        error: McpError | None = None
        try:
            headers = [(b"Content-Type", JSON.encode()), *await self._own_headers()]
            exchange = await self._client.request(
                b"POST", url, headers, data, urgent=True, sent=written.set
            )
            try:
                body = await exchange.excerpt(4096)
                if not 200 <= exchange.status < 300:
                    error = refusal(exchange, meaning(exchange), body)
            finally:
                exchange.close()
        except McpError as failure:
            error = failure
        finally:
            written.set()
            self._posting -= 1
            self._posted.unpark_all()
        if error is not None:
            message = jsonrpc.decode(data, [])
            if isinstance(message, Request):
                self._arrive(Undelivered(message.id, error))
            else:
                logger.warning("a message was not delivered: %s", error)

    async def _own_headers(self) -> list[tuple[bytes, bytes]]:
        return self._headers + await self._server.fresh_headers()

    # The end.

    def _end(self, reason: ConnectionLost) -> None:
        if self._lost is None:
            self._lost = reason
            self._arrived.unpark_all()
            self._room.unpark_all()

    async def aclose(self) -> None:
        # Without a stream there is nobody left to post to, but what is under way may end.
        waiting = self._outbox if self._lost is None and self._post_to is not None else ()
        self._end(ConnectionLost("this side closed the connection"))
        try:
            with trio.move_on_after(CLOSE_TIME, shield=True):
                while (waiting or self._posting) and not self._closed.is_set():
                    await self._posted.park()
        finally:
            self._closed.set()
            with trio.CancelScope(shield=True):
                await self._client.aclose()
