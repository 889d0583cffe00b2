"""The client's side of Streamable HTTP as a channel: a POST for each message, streams for the answers.

A request is posted by a task of its own, which reads the answer: JSON, or a stream of events that it
resumes when the connection breaks, as long as the events told where. Another task listens to what the
server says by itself, for as long as the server offers that. What fails, fails the one request it
belongs to; a session that the server ended fails all of them with `SessionEnded`, and whoever holds the
channel opens another.

What comes is handed on by the task that read it. Nothing here raises into the nursery it runs in.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
import trio

from mcpcore import jsonrpc
from mcpcore.errors import ConnectionLost, LocalProtocolError, McpError, SessionEnded
from mcpcore.jsonrpc import Batch, ErrorResponse, Malformed, Request, RequestId, Response
from mcpcore.protocol.events import Undelivered
from mcpcore.protocol.framing import Decoded, Frame
from mcpcore.protocol.headers import (
    EVENT_STREAM,
    JSON,
    media_type,
)
from mcpcore.protocol.mirrors import Path, headers_of
from mcpcore.protocol.terms import named_revision
from mcpcore.revisions import Revision
from mcpcore.transport.channel import BACKLOG, HIGH_WATER, Channel
from mcpcore.transport.http_session import EXCERPT, OVER, HttpSession
from mcpcore.transport.http_streams import AnswerStream, StandaloneStream
from mcpcore.transport.net.exchange import Exchange
from mcpcore.transport.web import HttpServer

logger = logging.getLogger("mcpcore.transport")

CLOSE_TIME = 2.0
"""Seconds that the end may take: for what was taken to be written, and for the server to end its session."""

OPENING = 2.0
"""Seconds that requests wait at most for the server's own stream to open."""


class _Call:
    """A request of ours on its way."""

    __slots__ = ("answered", "request", "scope", "size", "version", "written")

    def __init__(self, request: Request, size: int, version: str | None) -> None:
        self.request = request
        self.size = size
        self.version = version
        """The revision that a request names which stands alone; None for one of a session."""
        self.scope = trio.CancelScope()
        self.written = False
        self.answered = False

    @property
    def wants_words(self) -> bool:
        """Whether to cancel it takes a message. What was never written needs none, and what stands alone
        ends with its connection.
        """
        return self.written and self.version is None


class HttpChannel(Channel):
    """A channel to `server`. Raises ValueError for a URL or header that is none."""

    def __init__(self, server: HttpServer) -> None:
        self._session = HttpSession(server)
        self._standalone = StandaloneStream(self._session, self._deliver)
        self._take: Callable[[Frame], None] | None = None
        self._inbox: deque[Frame] = deque()
        self._arrived = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._lost: ConnectionLost | None = None
        self._closed = trio.Event()
        # Messages that were taken before `run` had begun.
        self._early: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._nursery: trio.Nursery | None = None
        self._calls: dict[RequestId, _Call] = {}
        self._telling = 0
        self._told = trio.lowlevel.ParkingLot()
        self._unwritten = 0
        # Everything else waits until the server took initialized, and opened its own stream if it has one.
        self._marked: Mapping[str, Mapping[str, Path]] = {}
        self._initialized = trio.Event()
        self._saying_initialized = False

    # What goes out.

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        for data in messages:
            if self._lost is not None:
                raise self._lost.again()
            if self._session.over:
                raise SessionEnded(OVER, delivered=False)
            if self._unwritten > BACKLOG:
                raise ConnectionLost(
                    f"{self._session.url}: {self._unwritten} bytes wait to be sent"
                )
            message = jsonrpc.decode(data, [])
            if isinstance(message, Request):
                call = _Call(message, len(data), named_revision(message, data))
                self._calls[message.id] = call
                self._unwritten += call.size
                self._start(self._ask, call, data)
            elif about is None or about not in self._calls or self._calls[about].wants_words:
                self._telling += 1
                self._unwritten += len(data)
                self._start(partial(self._tell, data, initialized=self._saying_initialized))
                self._saying_initialized = False

    def _start(self, function: Callable[..., object], *arguments: object) -> None:
        if self._nursery is None:
            self._early.append((function, arguments))
        else:
            self._nursery.start_soon(function, *arguments)  # type: ignore[arg-type]

    def agreed(self, revision: Revision) -> None:
        self._session.agreed(revision)
        self._saying_initialized = True

    def marked(self, tools: Mapping[str, Mapping[str, Path]]) -> bool:
        self._marked = tools
        return True

    def request_over(self, id: RequestId) -> None:
        call = self._calls.get(id)
        if call is not None:
            call.answered = True
            call.scope.cancel()

    @property
    def crowded(self) -> bool:
        return self._unwritten > HIGH_WATER and self._lost is None

    async def wait_for_room(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while self.crowded:
            await self._room.park()

    def _written(self, size: int) -> None:
        self._unwritten -= size
        if self._unwritten <= HIGH_WATER:
            self._room.unpark_all()

    # What comes in.

    def hand_over(
        self, take: Callable[[Frame], None], end: Callable[[ConnectionLost], None]
    ) -> bool:
        self._take = take
        return False

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
        if self._lost is not None:
            return
        if self._take is not None:
            self._take(frame)
        else:
            self._inbox.append(frame)
            self._arrived.unpark()

    async def _wait_for_opening(self) -> None:
        """Wait until a session is ready for more than its opening.

        Some servers lose what they say by themselves as long as nobody listens, even if it is a question
        that belongs to a request: so nothing is asked of them before.
        """
        await self._initialized.wait()
        with trio.move_on_after(OPENING):
            await self._standalone.settled.wait()
        self._standalone.settled.set()

    # One request of ours.

    async def _ask(self, call: _Call, data: bytes) -> None:
        failure: McpError | None = None
        try:
            with call.scope:
                if self._session.revision is not None and not self._standalone.settled.is_set():
                    await self._wait_for_opening()
                await self._exchange(call, data)
        except McpError as error:
            failure = error
        except Exception as error:
            logger.exception("a request failed because of an error in mcpcore")
            failure = ConnectionLost(f"internal error: {error!r}")
        finally:
            self._calls.pop(call.request.id, None)
            if not call.written:
                self._written(call.size)
        if not call.answered:
            if failure is None:
                failure = ConnectionLost(f"{self._session.url}: the answer ended without an answer")
            self._arrive(Undelivered(call.request.id, failure))
        self._end_if_over()

    async def _exchange(self, call: _Call, data: bytes) -> None:
        def sent() -> None:
            call.written = True
            self._written(call.size)

        mirrored: list[tuple[bytes, bytes]] = []
        if call.version is not None:
            mirrored = self._mirror(call.request, call.version)
        exchange = await self._session.post(data, sent=sent, mirrored=mirrored)
        try:
            if not 200 <= exchange.status < 300:
                await self._refused(exchange, call)
                return
            if not self._standalone.on and self._initialized.is_set():
                # It was given up, and the server is there again.
                self._listen_soon()
            if call.request.method == "initialize":
                self._session.opened(exchange)
            media = media_type(exchange.header(b"content-type"))
            if media == JSON:
                self._deliver(
                    await exchange.read(self._session.server.max_message), call, alone=True
                )
            elif media == EVENT_STREAM:
                await AnswerStream(
                    self._session,
                    partial(self._deliver, call=call),
                    lambda: call.answered,
                    resumable=call.version is None,
                ).read(exchange)
            else:
                what = f"of type {media!r}" if media else "without a content"
                raise await self._session.error(
                    exchange, f"HTTP {exchange.status} {what} is no answer"
                )
        finally:
            exchange.close()

    def _mirror(self, request: Request, version: str) -> list[tuple[bytes, bytes]]:
        try:
            headers = headers_of(request, version, self._marked)
        except ValueError as error:
            raise LocalProtocolError(f"{request.method} was not sent: {error}") from None
        return [(name.encode(), value.encode()) for name, value in headers]

    def _deliver(self, data: Frame, call: _Call | None = None, *, alone: bool = False) -> None:
        """Hand on a message. An error without an id that comes `alone` answers what was asked."""
        if not isinstance(data, bytes):
            self._arrive(data)
            return
        notes: list[str] = []
        message = jsonrpc.decode(data, notes)
        if isinstance(message, Malformed):
            if call is not None and alone:
                message = msgspec.structs.replace(message, id=call.request.id, answers=True)
                call.answered = True
            self._arrive(message)
            return
        if call is not None and not call.answered:
            if alone and isinstance(message, ErrorResponse) and message.id is None:
                message = ErrorResponse(call.request.id, message.error)
            call.answered = _answers(message, call.request.id)
        self._arrive(Decoded(message, data, tuple(notes)))

    def _listen_soon(self) -> None:
        if self._session.server.listen and not self._standalone.on and self._nursery is not None:
            self._standalone.on = True
            self._nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        await self._standalone.run()
        self._end_if_over()

    # Notifications and answers.

    async def _tell(self, data: bytes, *, initialized: bool) -> None:
        written = False

        def sent() -> None:
            nonlocal written
            written = True
            self._written(len(data))

        try:
            if (
                not initialized
                and self._session.revision is not None
                and not self._standalone.settled.is_set()
            ):
                await self._wait_for_opening()
            exchange = await self._session.post(data, sent=sent, urgent=True)
            try:
                if 200 <= exchange.status < 300:
                    # What is said to it besides means nothing; it is read to keep the connection.
                    await exchange.excerpt(EXCERPT)
                    self._listen_soon()
                else:
                    await self._refused(exchange, None)
            finally:
                exchange.close()
        except McpError as error:
            logger.warning("a message was not delivered: %s", error)
        except Exception:
            logger.exception("a message was not delivered because of an error in mcpcore")
        finally:
            if not written:
                self._written(len(data))
            self._telling -= 1
            self._told.unpark_all()
            if initialized:
                if not self._standalone.on:
                    self._standalone.settled.set()
                self._initialized.set()
        self._end_if_over()

    async def _refused(self, exchange: Exchange, call: _Call | None) -> None:
        """Raise what an HTTP status means, unless its body answers the request."""
        body = await exchange.excerpt(EXCERPT)
        message = jsonrpc.decode(body, []) if body else None
        if (
            call is not None
            and isinstance(message, ErrorResponse)
            and message.id == call.request.id
        ):
            self._deliver(body, call)
        else:
            raise self._session.refused(exchange, body, message)

    def _end_if_over(self) -> None:
        """A channel whose session is over ends with the last request that may still be answered."""
        if self._session.over and not self._calls:
            self._end(SessionEnded(OVER, delivered=True))

    # The life of the channel.

    async def run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            while self._early:
                function, arguments = self._early.popleft()
                self._nursery.start_soon(function, *arguments)  # type: ignore[arg-type]
            await self._closed.wait()
            self._nursery.cancel_scope.cancel()
        self._nursery = None

    def _end(self, reason: ConnectionLost) -> None:
        if self._lost is None:
            self._lost = reason
            self._arrived.unpark_all()
            self._room.unpark_all()

    async def aclose(self) -> None:
        self._end(ConnectionLost("this side closed the connection"))
        for call in tuple(self._calls.values()):
            self.request_over(call.request.id)
        try:
            with trio.move_on_after(CLOSE_TIME, shield=True):
                while self._telling and self._nursery is not None and not self._closed.is_set():
                    await self._told.park()
                if not self._closed.is_set():
                    await self._session.delete()
        finally:
            self._closed.set()
            with trio.CancelScope(shield=True):
                await self._session.aclose()


def _answers(message: object, id: RequestId) -> bool:
    """Whether a message, or one of a batch, answers the request with that id."""
    if isinstance(message, Batch):
        return any(_answers(member, id) for member, _ in message.members)
    return isinstance(message, Response | ErrorResponse) and str(message.id) == str(id)
