"""A small HTTP/1.1 server: connections in, requests to one function, its answers out.

One task per connection, which serves one request after another. Every wait for the client ends: for the
first byte of a request, for the rest of its head, for its body, and for room to write an answer. What is
no HTTP is answered with 400 and the end of the connection.
"""

from __future__ import annotations

import http
import logging
import math
import re
import time
from collections.abc import Sequence
from email.utils import formatdate

import h11
import msgspec
import trio

from mcpcore.protocol.headers import joined
from mcpcore.transport.http import Answer, EventSource, Handle, HttpRequest, RequestLost
from mcpcore.transport.net.wire import Wire

logger = logging.getLogger("mcpcore.transport")

SKIPPED = 64 * 1024
"""Bytes of a body that was refused unseen that are read all the same, to go on with the connection."""


class ListenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one client may do. Times are in seconds, sizes in bytes.

    `head` is for the head of a request, from its first byte; `body` for the whole body; `idle` for the
    next request, or the first; `write` for a piece of an answer, as long as the client
    does not read. `head_size` is that of the head. `connections` is how many there may be at once; more
    wait to be accepted.
    """

    head: float = 10.0
    body: float = 60.0
    idle: float = 75.0
    write: float = 60.0
    head_size: int = 64 * 1024
    connections: int = 10_000


class HttpListener:
    """Serves `handle` on `listeners`, until `stop` is called."""

    def __init__(
        self,
        listeners: Sequence[trio.abc.Listener[trio.abc.Stream]],
        handle: Handle,
        limits: ListenLimits | None = None,
    ) -> None:
        self._listeners = list(listeners)
        self._handle = handle
        self._limits = limits or ListenLimits()
        self._accepting = trio.CancelScope()
        self._stopping = False
        self._connections: set[_Connection] = set()
        self._left = trio.lowlevel.ParkingLot()
        self._date = 0, b""
        self._room = trio.CapacityLimiter(self._limits.connections)
        self.now = trio.lowlevel.current_clock().current_time

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve. Returns once `stop` was called and the last connection is closed."""
        async with trio.open_nursery() as nursery:
            watch = trio.CancelScope()
            try:
                with self._accepting:
                    nursery.start_soon(self._watch, watch)
                    async with trio.open_nursery() as accepting:
                        for listener in self._listeners:
                            accepting.start_soon(self._accept, listener, nursery)
                        task_status.started()
            finally:
                for listener in self._listeners:
                    # Shielded: if all of this is cancelled, the first would keep the others from closing.
                    with trio.CancelScope(shield=True) as at_once:
                        at_once.cancel()
                        await listener.aclose()
            await self._wait_for_connections()
            watch.cancel()

    async def _watch(self, scope: trio.CancelScope) -> None:
        """Keep the deadlines of all connections: a timer for each wait would cost more than the wait."""
        shortest = min(self._limits.head, self._limits.body, self._limits.idle, self._limits.write)
        with scope:
            while True:
                await trio.sleep(min(shortest / 4, 1.0))
                now = self.now()
                for connection in tuple(self._connections):
                    connection.expire(now)

    async def _wait_for_connections(self) -> None:
        while self._connections:
            await self._left.park()

    def stop(self) -> None:
        """Accept no more connections, and close those that wait for a request."""
        self._stopping = True
        self._accepting.cancel()
        for connection in tuple(self._connections):
            connection.stop()

    async def _accept(
        self, listener: trio.abc.Listener[trio.abc.Stream], nursery: trio.Nursery
    ) -> None:
        while True:
            await self._room.acquire_on_behalf_of(token := object())
            try:
                stream = await listener.accept()
            except OSError as error:
                # Out of file descriptors, mostly: what is open goes on, and frees some.
                self._room.release_on_behalf_of(token)
                logger.warning("a connection could not be accepted: %s", error)
                await trio.sleep(0.1)
                continue
            except BaseException:
                self._room.release_on_behalf_of(token)
                raise
            nursery.start_soon(self._serve, stream, token)

    async def _serve(self, stream: trio.abc.Stream, token: object) -> None:
        connection = _Connection(stream, self._handle, self._limits, self)
        self._connections.add(connection)
        if self._stopping:
            # It was accepted just before the stop, which did not know of it.
            connection.stop()
        try:
            await connection.serve()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("a client went away")
        except Exception:
            logger.exception("a connection ended because of an error in mcpcore")
        finally:
            self._connections.discard(connection)
            self._left.unpark_all()
            await trio.aclose_forcefully(stream)
            self._room.release_on_behalf_of(token)

    # What a connection asks.

    @property
    def stopping(self) -> bool:
        return self._stopping

    def date(self) -> bytes:
        """The Date header of this second."""
        now = int(time.time())
        if self._date[0] != now:
            self._date = now, formatdate(now, usegmt=True).encode()
        return self._date[1]


class _Connection:
    """One client's connection.

    There is one deadline, for whatever the client is waited for just now, kept by the listener;
    `_waiting_for` says what that is, and what to answer when it does not come.
    """

    def __init__(
        self, stream: trio.abc.Stream, handle: Handle, limits: ListenLimits, owner: HttpListener
    ) -> None:
        self._stream = stream
        self._wire = Wire(stream)
        self._handle = handle
        self._limits = limits
        self._owner = owner
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_size)
        self._scope = trio.CancelScope()
        self._waiting_for: str | None = None
        self._deadline = math.inf
        # The answer to HEAD is the head of what GET would get.
        self._bare = False

    def stop(self) -> None:
        """Close it, unless a request is being served."""
        if self._waiting_for is None:
            self._scope.cancel()

    def expire(self, now: float) -> None:
        """End the wait for the client if it took too long."""
        if now > self._deadline:
            self._scope.cancel()

    async def serve(self) -> None:
        """Serve requests until either side has enough."""
        refusal = None
        try:
            with self._scope:
                await self._serve()
        except h11.RemoteProtocolError as error:
            refusal = error.error_status_hint, str(error)
        except RequestLost as error:
            cause = error.__cause__
            broken = isinstance(cause, h11.RemoteProtocolError)
            refusal = 400 if broken else 408, str(error)
        if self._scope.cancelled_caught and self._waiting_for is not None:
            refusal = 408, f"{self._waiting_for} took too long"
        with trio.move_on_after(self._limits.write):
            if refusal is not None:
                await self._refuse(*refusal)
            await self._drain()

    async def _serve(self) -> None:
        http = self._http
        while (request := await self._next_request()) is not None:
            self._bare = request.method == b"HEAD"
            hesitates = http.they_are_waiting_for_100_continue
            described = self._describe(request)
            # A stream may be read for days: nothing of its request is kept meanwhile.
            del request
            answer = await self._handle(described)
            del described
            if answer.events is None:
                await self._answer(answer)
            else:
                await self._write_events(answer, answer.events)
            del answer
            if http.their_state is h11.SEND_BODY and not hesitates:
                # A small body that nobody wanted to see is no reason to close.
                await self._read_body(SKIPPED)
            if (http.our_state, http.their_state) != (h11.DONE, h11.DONE) or self._owner.stopping:
                return
            http.start_next_cycle()

    async def _next_request(self) -> h11.Request | None:
        """The head of the next request; None if there will be none."""
        self._waiting_for = None
        event = self._http.next_event()
        if event is h11.NEED_DATA:
            # Between requests the connection may be idle, and closed at any time.
            self._until(self._limits.idle)
            self._http.receive_data(await self._wire.receive())
            if self._scope.cancel_called:
                # It came at the moment of the end. Nothing of it may begin: it could not be finished.
                return None
            event = self._http.next_event()
        self._waiting_for = "the head of the request"
        if event is h11.NEED_DATA:
            self._until(self._limits.head)
            event = await self._next_event()
        self._deadline = math.inf
        return event if isinstance(event, h11.Request) else None

    def _until(self, seconds: float) -> None:
        self._deadline = self._owner.now() + seconds

    async def _next_event(self) -> h11.Event:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            if self._http.they_are_waiting_for_100_continue:
                deadline = self._deadline
                await self._send(
                    self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
                )
                self._deadline = deadline
            self._http.receive_data(await self._wire.receive())

    def _describe(self, request: h11.Request) -> HttpRequest:
        target = request.target.decode("latin-1")
        if not target.startswith("/"):
            # As a proxy is asked; the Host header says the same of it.
            target = _ABSOLUTE.sub("", target)
        path, _, query = target.partition("?")
        return HttpRequest(
            request.method.decode("ascii"),
            path,
            query,
            joined(request.headers),
            self._read_body,
            self._wire.gone,
        )

    async def _read_body(self, limit: int) -> bytes | None:
        try:
            return await self._read_all(limit)
        except h11.RemoteProtocolError as error:
            raise RequestLost(str(error)) from error
        except trio.BrokenResourceError as error:
            raise RequestLost("the connection broke in the middle of a body") from error
        finally:
            self._deadline = math.inf

    async def _read_all(self, limit: int) -> bytes | None:
        if self._http.their_state is not h11.SEND_BODY:
            return b""
        self._waiting_for = "the body of the request"
        pieces: list[bytes] = []
        size = 0
        while True:
            event: object = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._deadline == math.inf:
                    self._until(self._limits.body)
                event = await self._next_event()
            if isinstance(event, h11.EndOfMessage):
                break
            if not isinstance(event, h11.Data):
                raise RequestLost("the client went away in the middle of a body")
            size += len(event.data)
            if size > limit:
                return None
            pieces.append(event.data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _head(self, answer: Answer) -> bytes | None:
        headers = [
            (name.encode("ascii"), value.encode("latin-1")) for name, value in answer.headers
        ]
        headers.append((b"Date", self._owner.date()))
        if self._owner.stopping:
            headers.append((b"Connection", b"close"))
        if answer.events is None and answer.status >= 200 and answer.status != 204:
            headers.append((b"Content-Length", b"%d" % len(answer.body)))
        return self._http.send(_response(answer.status, headers))

    async def _answer(self, answer: Answer) -> None:
        self._waiting_for = "reading the answer"
        await self._send(
            self._head(answer),
            self._http.send(h11.Data(data=answer.body)) if answer.body and not self._bare else b"",
            self._http.send(h11.EndOfMessage()),
        )

    async def _write_events(self, answer: Answer, events: EventSource) -> None:
        self._waiting_for = "reading the answer"
        try:
            head = self._head(answer)
            if self._bare:
                await self._send(head, self._http.send(h11.EndOfMessage()))
                return
            while True:
                data = events.take()
                body = self._http.send(h11.Data(data=data)) if data else b""
                if events.ended:
                    break
                await self._send(head, body)
                head = body = b""
                await events.wait()
            await self._send(head, body, self._http.send(h11.EndOfMessage()))
        finally:
            events.close()

    async def _send(self, *pieces: bytes | None) -> None:
        data = b"".join(piece for piece in pieces if piece)
        if data:
            self._until(self._limits.write)
            await self._wire.send(data)
            self._deadline = math.inf

    async def _refuse(self, status: int, why: str) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = b"%b: %b" % (_REASONS.get(status, b"Bad Request"), why.encode())
        headers = [
            (b"Content-Type", b"text/plain; charset=utf-8"),
            (b"Content-Length", b"%d" % len(body)),
            (b"Connection", b"close"),
        ]
        await self._send(
            self._http.send(_response(status, headers)),
            self._http.send(h11.Data(data=body)) if not self._bare else b"",
            self._http.send(h11.EndOfMessage()),
        )

    async def _drain(self) -> None:
        """Read what the client still sends, for a moment: closing on it could cost it the answer."""
        if self._http.their_state is h11.CLOSED:
            return
        with trio.move_on_after(1.0):
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()
            for _ in range(64):
                if not await self._wire.receive():
                    return


_ABSOLUTE = re.compile(r"https?://[^/?]*", re.IGNORECASE)

_REASONS = {status.value: status.phrase.encode() for status in http.HTTPStatus}


def _response(status: int, headers: list[tuple[bytes, bytes]]) -> h11.Response:
    return h11.Response(status_code=status, headers=headers, reason=_REASONS.get(status, b""))
