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
from collections.abc import Callable
from functools import partial

import msgspec
import trio

from mcpcore import __version__, jsonrpc
from mcpcore.errors import ConnectionLost, HttpError, McpError, SessionEnded
from mcpcore.jsonrpc import Batch, ErrorResponse, Malformed, Request, RequestId, Response
from mcpcore.protocol.events import Undelivered
from mcpcore.protocol.framing import Decoded, Frame, NeedData
from mcpcore.protocol.headers import (
    EVENT_STREAM,
    JSON,
    LAST_EVENT_ID,
    PROTOCOL_VERSION,
    SESSION_ID,
    media_type,
)
from mcpcore.protocol.sse import MESSAGE, SseDecoder
from mcpcore.revisions import Revision
from mcpcore.transport.attempts import ATTEMPTS, Attempts
from mcpcore.transport.channel import BACKLOG, HIGH_WATER, Channel
from mcpcore.transport.net.exchange import Exchange, HttpClient
from mcpcore.transport.net.refusals import meaning, refusal
from mcpcore.transport.net.url import parse
from mcpcore.transport.web import HttpServer, encode_headers

logger = logging.getLogger("mcpcore.transport")

CLOSE_TIME = 2.0
"""Seconds that the end may take: for what was taken to be written, and for the server to end its session."""

LINGER = 1.0
"""Seconds that a stream has to end after its answer came; then its connection is closed."""

OPENING = 2.0
"""Seconds that requests wait at most for the server's own stream to open."""

_EXCERPT = 4096


class _Call:
    """A request of ours on its way."""

    __slots__ = ("answered", "id", "method", "scope", "size", "written")

    def __init__(self, id: RequestId, method: str, size: int) -> None:
        self.id = id
        self.method = method
        self.size = size
        self.scope = trio.CancelScope()
        self.written = False
        self.answered = False


class HttpChannel(Channel):
    """A channel to `server`. Raises ValueError for a URL or header that is none."""

    def __init__(self, server: HttpServer) -> None:
        self._url = parse(server.url)
        self._server = server
        self._client = HttpClient(server.network)
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
        self._session: str | None = None
        self._session_over = False
        self._revision: Revision | None = None
        # Everything else waits until the server took initialized, and opened its own stream if it has one.
        self._initialized = trio.Event()
        self._stream_settled = trio.Event()
        self._saying_initialized = False
        self._listens = False
        self._own_headers = encode_headers(
            {"User-Agent": f"mcpcore/{__version__}"} | dict(server.headers)
        )
        self._post_headers = self._make_headers()

    # What goes out.

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        for data in messages:
            if self._lost is not None:
                raise self._lost.again()
            if self._session_over:
                raise SessionEnded(_OVER, delivered=False)
            if self._unwritten > BACKLOG:
                raise ConnectionLost(f"{self._url}: {self._unwritten} bytes wait to be sent")
            message = jsonrpc.decode(data, [])
            if isinstance(message, Request):
                call = _Call(message.id, message.method, len(data))
                self._calls[call.id] = call
                self._unwritten += call.size
                self._start(self._ask, call, data)
            elif about is None or about not in self._calls or self._calls[about].written:
                # To cancel what was never written needs no words.
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
        self._revision = revision
        self._post_headers = self._make_headers()
        self._saying_initialized = True

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
            await self._stream_settled.wait()
        self._stream_settled.set()

    # One request of ours.

    async def _ask(self, call: _Call, data: bytes) -> None:
        failure: McpError | None = None
        try:
            with call.scope:
                if self._revision is not None and not self._stream_settled.is_set():
                    await self._wait_for_opening()
                await self._exchange(call, data)
        except McpError as error:
            failure = error
        except Exception as error:
            logger.exception("a request failed because of an error in mcpcore")
            failure = ConnectionLost(f"internal error: {error!r}")
        finally:
            self._calls.pop(call.id, None)
            if not call.written:
                self._written(call.size)
        if not call.answered:
            if failure is None:
                failure = ConnectionLost(f"{self._url}: the answer ended without an answer")
            self._arrive(Undelivered(call.id, failure))
        self._end_if_over()

    async def _exchange(self, call: _Call, data: bytes) -> None:
        def sent() -> None:
            call.written = True
            self._written(call.size)

        headers = await self._headers_now(self._post_headers)
        exchange = await self._client.request(b"POST", self._url, headers, data, sent=sent)
        try:
            if not 200 <= exchange.status < 300:
                await self._refused(exchange, call)
                return
            if not self._listens and self._initialized.is_set():
                # It was given up, and the server is there again.
                self._listen_soon()
            if call.method == "initialize":
                self._session = exchange.header(SESSION_ID.encode())
                self._post_headers = self._make_headers()
            media = media_type(exchange.header(b"content-type"))
            if media == JSON:
                self._deliver(await exchange.read(self._server.max_message), call, alone=True)
            elif media == EVENT_STREAM:
                await self._read_stream(exchange, call)
            else:
                what = f"of type {media!r}" if media else "without a content"
                raise await self._error(exchange, f"HTTP {exchange.status} {what} is no answer")
        finally:
            exchange.close()

    def _deliver(self, data: Frame, call: _Call | None, *, alone: bool = False) -> None:
        """Hand on a message. An error without an id that comes `alone` answers what was asked."""
        if not isinstance(data, bytes):
            self._arrive(data)
            return
        notes: list[str] = []
        message = jsonrpc.decode(data, notes)
        if isinstance(message, Malformed):
            if call is not None and alone:
                message = msgspec.structs.replace(message, id=call.id, answers=True)
                call.answered = True
            self._arrive(message)
            return
        if call is not None and not call.answered:
            if alone and isinstance(message, ErrorResponse) and message.id is None:
                message = ErrorResponse(call.id, message.error)
            call.answered = _answers(message, call.id)
        self._arrive(Decoded(message, data, tuple(notes)))

    # Streams.

    async def _read_stream(self, exchange: Exchange, call: _Call) -> None:
        """Read the events that answer a request, on as many connections as it takes."""
        attempts = Attempts()
        began = trio.current_time()
        decoder = self._decoder()
        messages = await self._read_events(exchange, decoder, call, None)
        where = decoder.last_event_id
        attempts.ended(decoder, messages=messages, seconds=trio.current_time() - began)
        while not call.answered:
            if where is None:
                raise ConnectionLost(
                    f"{self._url}: the stream broke before the answer, and the server did not say "
                    "where to resume it"
                )
            if attempts.hopeless:
                raise ConnectionLost(f"{self._url}: the stream broke {ATTEMPTS} times in a row")
            await trio.sleep(attempts.delay())
            began = trio.current_time()
            try:
                again = await self._get(where)
            except ConnectionLost as error:
                attempts.failed()
                if attempts.hopeless:
                    raise ConnectionLost(f"{error.reason}; {ATTEMPTS} attempts") from None
                continue
            try:
                if again.status == 404 and self._session is not None:
                    self._end_session()
                    raise SessionEnded(_OVER, delivered=True)
                if not _is_stream(again):
                    raise await self._error(again, "the stream cannot be resumed")
                decoder = self._decoder()
                messages = await self._read_events(again, decoder, call, where)
                attempts.ended(decoder, messages=messages, seconds=trio.current_time() - began)
                where = decoder.last_event_id or where
            finally:
                again.close()

    async def _read_events(
        self, exchange: Exchange, decoder: SseDecoder, call: _Call | None, after: str | None
    ) -> int:
        """Read one connection to its end; gives how many messages came. An event that was had before
        (`after`) is passed over.
        """
        messages = 0
        # A stream that is done may be slow to end.
        with trio.CancelScope() as patience:
            while True:
                try:
                    chunk = await exchange.chunk()
                except ConnectionLost as error:
                    logger.debug("a stream broke: %s", error.reason)
                    break
                if not chunk:
                    break
                decoder.receive_data(chunk)
                while not isinstance(event := decoder.next_event(), NeedData):
                    if (
                        event.data
                        and event.type == MESSAGE
                        and (event.id is None or event.id != after)
                    ):
                        messages += 1
                        self._deliver(event.data, call)
                if call is None:
                    self._heard()
                elif call.answered:
                    patience.deadline = trio.current_time() + LINGER
        return messages

    def _decoder(self) -> SseDecoder:
        return SseDecoder(self._server.max_message)

    async def _get(self, last_event_id: str | None) -> Exchange:
        headers = [(b"Accept", EVENT_STREAM.encode()), *self._session_headers(), *self._own_headers]
        if last_event_id is not None:
            headers.append((LAST_EVENT_ID.encode(), last_event_id.encode()))
        return await self._client.request(
            b"GET", self._url, await self._headers_now(headers), repeatable=True, urgent=True
        )

    # What the server says by itself.

    def _listen_soon(self) -> None:
        if self._server.listen and not self._listens and self._nursery is not None:
            self._listens = True
            self._nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        try:
            await self._keep_listening()
        except McpError as error:
            logger.warning("not listening to what the server says by itself any more: %s", error)
        except Exception:
            logger.exception("listening ended because of an error in mcpcore")
        finally:
            self._stream_settled.set()
        self._end_if_over()

    async def _keep_listening(self) -> None:
        """Open the standalone stream, and open it anew whenever it ends."""
        attempts = Attempts()
        where: str | None = None
        while not self._session_over:
            began = trio.current_time()
            self._listening_scope = trio.CancelScope(deadline=began + self._server.quiet)
            had = False
            decoder = self._decoder()
            try:
                with self._listening_scope:
                    exchange = await self._get(where)
                    self._stream_settled.set()
                    try:
                        if not self._offers_stream(exchange):
                            return
                        if _is_stream(exchange):
                            messages = await self._read_events(exchange, decoder, None, where)
                            seconds = trio.current_time() - began
                            attempts.ended(decoder, messages=messages, seconds=seconds)
                            had = True
                    finally:
                        exchange.close()
            except ConnectionLost as error:
                logger.debug("the standalone stream: %s", error.reason)
                self._stream_settled.set()
            # Also if the time was up in the middle of reading: what was had must not come again.
            where = decoder.last_event_id or where
            if self._listening_scope.cancelled_caught:
                # Nothing was heard for so long that the connection may be dead without knowing it.
                attempts = Attempts()
            elif not had:
                attempts.failed()
            if attempts.hopeless:
                # The next message that gets through shows that it may be worth another try.
                self._listens = False
                logger.warning("the server's own stream was given up after %d attempts", ATTEMPTS)
                return
            await trio.sleep(attempts.delay())

    def _heard(self) -> None:
        self._listening_scope.deadline = trio.current_time() + self._server.quiet

    def _offers_stream(self, exchange: Exchange) -> bool:
        """Whether it makes sense to ask again: 405 and its like mean that there is no such stream."""
        if exchange.status == 404 and self._session is not None:
            self._end_session()
            return False
        if exchange.status in (409, 429) or (exchange.status >= 500 and exchange.status != 501):
            return True
        if not _is_stream(exchange):
            logger.debug("the server has no stream of its own: HTTP %d", exchange.status)
            return False
        return True

    # Notifications and answers.

    async def _tell(self, data: bytes, *, initialized: bool) -> None:
        written = False

        def sent() -> None:
            nonlocal written
            written = True
            self._written(len(data))

        try:
            if not initialized and self._revision is not None and not self._stream_settled.is_set():
                await self._wait_for_opening()
            headers = await self._headers_now(self._post_headers)
            exchange = await self._client.request(
                b"POST", self._url, headers, data, urgent=True, sent=sent
            )
            try:
                if 200 <= exchange.status < 300:
                    # What is said to it besides means nothing; it is read to keep the connection.
                    await exchange.excerpt(_EXCERPT)
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
                if not self._listens:
                    self._stream_settled.set()
                self._initialized.set()
        self._end_if_over()

    # Refusals.

    async def _refused(self, exchange: Exchange, call: _Call | None) -> None:
        """Raise what an HTTP status means, unless its body answers the request."""
        body = await exchange.excerpt(_EXCERPT)
        message = jsonrpc.decode(body, []) if body else None
        if call is not None and isinstance(message, ErrorResponse) and message.id == call.id:
            self._deliver(body, call)
            return
        error = refusal(exchange, meaning(exchange), body)
        if self._session is not None and _says_session_is_over(exchange, message):
            self._end_session()
            raise SessionEnded(f"{self._url}: {_OVER}", delivered=False, answer=error)
        raise error

    async def _error(self, exchange: Exchange, problem: str) -> HttpError:
        return refusal(exchange, problem, await exchange.excerpt(_EXCERPT))

    def _end_session(self) -> None:
        self._session_over = True

    def _end_if_over(self) -> None:
        """A channel whose session is over ends with the last request that may still be answered."""
        if self._session_over and not self._calls:
            self._end(SessionEnded(_OVER, delivered=True))

    # Headers.

    def _make_headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"Content-Type", JSON.encode()),
            (b"Accept", f"{JSON}, {EVENT_STREAM}".encode()),
            *self._session_headers(),
            *self._own_headers,
        ]

    def _session_headers(self) -> list[tuple[bytes, bytes]]:
        headers = []
        if self._session is not None:
            headers.append((SESSION_ID.encode(), self._session.encode("latin-1")))
        if self._revision is not None and self._revision.version_header:
            headers.append((PROTOCOL_VERSION.encode(), str(self._revision).encode()))
        return headers

    async def _headers_now(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        if self._server.headers_for is None:
            return headers
        return headers + await self._server.fresh_headers()

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
            self.request_over(call.id)
        try:
            with trio.move_on_after(CLOSE_TIME, shield=True):
                while self._telling and self._nursery is not None and not self._closed.is_set():
                    await self._told.park()
                await self._delete()
        finally:
            self._closed.set()
            with trio.CancelScope(shield=True):
                await self._client.aclose()

    async def _delete(self) -> None:
        """Tell the server that the session is done with. Any answer will do."""
        if self._session is None or self._session_over or self._closed.is_set():
            return
        headers = [*self._session_headers(), *self._own_headers]
        self._session_over = True
        try:
            exchange = await self._client.request(
                b"DELETE", self._url, await self._headers_now(headers), repeatable=True, urgent=True
            )
            exchange.close()
            if exchange.status not in (404, 405) and not 200 <= exchange.status < 300:
                logger.debug("ending the session was answered with HTTP %d", exchange.status)
        except McpError as error:
            logger.debug("ending the session failed: %s", error)


_OVER = "the server ended the session"


def _answers(message: object, id: RequestId) -> bool:
    """Whether a message, or one of a batch, answers the request with that id."""
    if isinstance(message, Batch):
        return any(_answers(member, id) for member, _ in message.members)
    return isinstance(message, Response | ErrorResponse) and str(message.id) == str(id)


def _says_session_is_over(exchange: Exchange, message: object) -> bool:
    """Whether a refusal means that there is no such session (any more).

    404 says so. A widespread example of a server says it by 400, with an error that names the session; and
    a 401 that asks for nothing, of a server that was content so far, mostly comes from one that was started
    anew.
    """
    if exchange.status == 400 and isinstance(message, ErrorResponse):
        return "session" in message.error.message.lower()
    if exchange.status == 401:
        return exchange.header(b"www-authenticate") is None
    return exchange.status == 404


def _is_stream(exchange: Exchange) -> bool:
    return exchange.status == 200 and media_type(exchange.header(b"content-type")) == EVENT_STREAM
