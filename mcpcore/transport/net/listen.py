"""A small HTTP/1.1 server: connections in, requests to one function, its answers out.

One task per connection, which serves one request after another. Every wait for the client ends: for the
first byte of a request, for the rest of its head, for its body, and for room to write an answer. What is
no HTTP is answered with 400 and the end of the connection.
"""

from __future__ import annotations

import http
import logging
from collections.abc import Sequence
from email.utils import formatdate

import h11
import msgspec
import trio

from mcpcore.protocol.headers import joined
from mcpcore.transport.http import Answer, Handle, HttpRequest, RequestLost

logger = logging.getLogger("mcpcore.transport")

READ_SIZE = 64 * 1024

SKIPPED = 64 * 1024
"""Bytes of a body that was refused unseen that are read all the same, to go on with the connection."""


class ListenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one client may do. Times are in seconds, sizes in bytes.

    `head` is for the head of a request, from its first byte; `body` for the whole body; `idle` for the
    next request on a connection that was used; `write` for a piece of an answer, as long as the client
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
        self._waiting: set[trio.CancelScope] = set()
        self._room = trio.CapacityLimiter(self._limits.connections)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve. Returns once `stop` was called and the last connection is closed."""
        async with trio.open_nursery() as nursery:
            try:
                with self._accepting:
                    async with trio.open_nursery() as accepting:
                        for listener in self._listeners:
                            accepting.start_soon(self._accept, listener, nursery)
                        task_status.started()
            finally:
                for listener in self._listeners:
                    await trio.aclose_forcefully(listener)

    def stop(self) -> None:
        """Accept no more connections, and close those that wait for a request."""
        self._stopping = True
        self._accepting.cancel()
        for scope in tuple(self._waiting):
            scope.cancel()

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
        try:
            await _Connection(stream, self._handle, self._limits, self).serve()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("a client went away")
        except Exception:
            logger.exception("a connection ended because of an error in mcpcore")
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await trio.aclose_forcefully(stream)
            self._room.release_on_behalf_of(token)

    # What a connection asks.

    @property
    def stopping(self) -> bool:
        return self._stopping

    def waits(self, scope: trio.CancelScope) -> None:
        """A connection begins to wait for a request, in `scope`."""
        self._waiting.add(scope)

    def waits_no_more(self, scope: trio.CancelScope) -> None:
        self._waiting.discard(scope)


class _Connection:
    """One client's connection."""

    def __init__(
        self, stream: trio.abc.Stream, handle: Handle, limits: ListenLimits, owner: HttpListener
    ) -> None:
        self._stream = stream
        self._handle = handle
        self._limits = limits
        self._owner = owner
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_size)

    async def serve(self) -> None:
        """Serve requests until either side has enough."""
        http = self._http
        while True:
            try:
                request = await self._next_request()
                if request is None:
                    return
                hesitates = http.they_are_waiting_for_100_continue
                answer = await self._handle(self._describe(request))
                await self._answer(request, answer)
                if not hesitates and http.our_state is h11.DONE and not self._owner.stopping:
                    # A small body that nobody wanted to see is no reason to close.
                    await self._read_body(SKIPPED)
            except h11.RemoteProtocolError as error:
                await self._refuse(error.error_status_hint, str(error))
                return
            except RequestLost as error:
                await self._refuse(408, str(error))
                return
            if (http.our_state, http.their_state) != (h11.DONE, h11.DONE):
                await self._drain()
                return
            http.start_next_cycle()

    async def _next_request(self) -> h11.Request | None:
        """The head of the next request; None if there will be none."""
        event = self._http.next_event()
        if event is h11.NEED_DATA:
            # Between requests the connection may be idle, and closed at any time.
            scope = trio.CancelScope(deadline=trio.current_time() + self._limits.idle)
            self._owner.waits(scope)
            try:
                with scope:
                    if self._owner.stopping:
                        return None
                    self._http.receive_data(bytes(await self._stream.receive_some(READ_SIZE)))
            finally:
                self._owner.waits_no_more(scope)
            if scope.cancelled_caught:
                return None
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                with trio.move_on_after(self._limits.head) as scope:
                    event = await self._next_event()
                if scope.cancelled_caught:
                    await self._refuse(408, "the head of the request took too long")
                    return None
        return event if isinstance(event, h11.Request) else None

    async def _next_event(self) -> h11.Event:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            if self._http.they_are_waiting_for_100_continue:
                await self._send(
                    self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
                )
            self._http.receive_data(bytes(await self._stream.receive_some(READ_SIZE)))

    def _describe(self, request: h11.Request) -> HttpRequest:
        return HttpRequest(
            request.method.decode("ascii"),
            request.target.decode("latin-1").partition("?")[0],
            joined(request.headers),
            self._read_body,
        )

    async def _read_body(self, limit: int) -> bytes | None:
        if self._http.their_state is not h11.SEND_BODY:
            return b""
        pieces: list[bytes] = []
        size = 0
        with trio.move_on_after(self._limits.body) as scope:
            while True:
                event = await self._next_event()
                if isinstance(event, h11.EndOfMessage):
                    break
                if not isinstance(event, h11.Data):
                    raise RequestLost("the client went away in the middle of a body")
                size += len(event.data)
                if size > limit:
                    return None
                pieces.append(event.data)
        if scope.cancelled_caught:
            raise RequestLost("the body took too long")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _answer(self, request: h11.Request, answer: Answer) -> None:
        headers = [
            (name.encode("ascii"), value.encode("latin-1")) for name, value in answer.headers
        ]
        headers.append((b"Date", formatdate(usegmt=True).encode()))
        if self._owner.stopping:
            headers.append((b"Connection", b"close"))
        events = answer.events
        if events is None:
            if answer.status >= 200 and answer.status != 204:
                headers.append((b"Content-Length", b"%d" % len(answer.body)))
            head = self._http.send(_response(answer.status, headers))
            body = self._http.send(h11.Data(data=answer.body)) if answer.body else b""
            end = self._http.send(h11.EndOfMessage())
            await self._send((head or b"") + (body or b"") + (end or b""))
            return
        try:
            await self._send(self._http.send(_response(answer.status, headers)))
            if request.method != b"HEAD":
                while (data := await events.next()) is not None:
                    await self._send(self._http.send(h11.Data(data=data)))
            await self._send(self._http.send(h11.EndOfMessage()))
        finally:
            events.close()

    async def _send(self, data: bytes | None) -> None:
        if not data:
            return
        with trio.move_on_after(self._limits.write) as scope:
            await self._stream.send_all(data)
        if scope.cancelled_caught:
            raise trio.BrokenResourceError("the client does not read")

    async def _refuse(self, status: int, why: str) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = f"Bad Request: {why}".encode()
        headers = [
            (b"Content-Type", b"text/plain; charset=utf-8"),
            (b"Content-Length", b"%d" % len(body)),
            (b"Connection", b"close"),
        ]
        head = self._http.send(_response(status, headers)) or b""
        body = self._http.send(h11.Data(data=body)) or b""
        await self._send(head + body + (self._http.send(h11.EndOfMessage()) or b""))
        await self._drain()

    async def _drain(self) -> None:
        """Read what the client still sends, for a moment: closing on it could cost it the answer."""
        with trio.move_on_after(1.0):
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()
            for _ in range(64):
                if not await self._stream.receive_some(READ_SIZE):
                    return


_REASONS = {status.value: status.phrase.encode() for status in http.HTTPStatus}


def _response(status: int, headers: list[tuple[bytes, bytes]]) -> h11.Response:
    return h11.Response(status_code=status, headers=headers, reason=_REASONS.get(status, b""))
