"""The engine on a channel: the loop that client and server share.

One task reads the channel and acts on what the engine makes of it. Answers, progress, cancellations
and whatever can be answered at once are dealt with on the spot; every other request gets a task of
its own under a limit, so that a slow handler never keeps a ping, a cancellation or an answer waiting.

Cancellation is a cancel scope, both ways. A caller whose scope is cancelled or whose time is up
leaves at once, and the peer is told; a cancellation that comes in cancels the handler's scope, and
the engine sees to it that no answer is written.

Every wait ends. Each call has a deadline, watched by one task for all of them; when the channel ends,
all callers get the reason at once. Nothing here raises into the nursery it runs in.
"""

from __future__ import annotations

import inspect
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import trio
from msgspec import UNSET, Raw

from mcpcore.errors import (
    ConnectionLost,
    McpError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    SessionEnded,
)
from mcpcore.jsonrpc import INTERNAL_ERROR, ErrorObject
from mcpcore.protocol.connection import Connection
from mcpcore.protocol.events import (
    Cancel,
    ErrorResponse,
    Event,
    Failed,
    Forgiven,
    Notification,
    Progress,
    Refused,
    Request,
    RequestId,
    Response,
    Stale,
    Undelivered,
)
from mcpcore.protocol.framing import Frame
from mcpcore.protocol.lifecycle import State
from mcpcore.transport.channel import HIGH_WATER, Channel
from mcpcore.waiting import Call, ProgressCallback, Timeouts, WaitingCalls
from mcpcore.workers import Workers

logger = logging.getLogger("mcpcore.runtime")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much at once, per connection.

    `concurrent` requests of the peer run at the same time; `queued` more wait for their turn; what
    comes beyond is refused with an error. The queue is deep, since waiting requests are small.
    `subscriptions` is how many resources a client may be told of.
    """

    concurrent: int = 100
    queued: int = 10_000
    subscriptions: int = 10_000


BUSY = -32000
"""The code for a request that was refused because too many wait: of the range that JSON-RPC leaves to
implementations."""


class Later(msgspec.Struct, frozen=True):
    """A result that has to be waited for: `await function(*arguments)`."""

    function: Callable[..., Awaitable[Any]]
    arguments: tuple[Any, ...] = ()


HELD = object()
"""What `Handler.begin` gives for a request that stays open until somebody answers it."""


class Handler(ABC):
    """What one side does with what comes in."""

    @abstractmethod
    def begin(self, request: Request) -> Any:
        """The result of a request, an object that encodes to a JSON object, or `Later`, or `HELD`.

        This is called by the reading task and must not wait. It raises `RequestFailed`, as may what
        comes later, to answer with an error; anything else is logged and answered as an internal error
        without detail.
        """

    @abstractmethod
    def received(self, notification: Notification) -> None:
        """Act on a notification, without waiting."""

    def dropped(self, id: RequestId) -> None:  # noqa: B027
        """A request was cancelled that was not served yet, or is held."""

    def draining(self) -> None:  # noqa: B027
        """Nothing more will come in. Whoever is held gets an answer now, or none."""

    def ended(self, reason: McpError) -> None:  # noqa: B027
        """The connection is over. Called once, by whoever found out."""

    @abstractmethod
    def observed(self, event: Forgiven | Stale | Refused) -> None:
        """Take note of what the engine passed over or refused."""


class Runtime:
    """One end of a connection, at work. `run` is its one owner task."""

    def __init__(
        self,
        connection: Connection,
        channel: Channel,
        handler: Handler,
        *,
        timeouts: Timeouts,
        limits: Limits,
    ) -> None:
        self.connection = connection
        self.channel = channel
        self.timeouts = timeouts
        self._handler = handler
        self._limits = limits
        self._lost: McpError | None = None
        self._nursery: trio.Nursery | None = None
        # Only where the channel has to be read: the scopes of the reading task, and of the channel's own.
        self._pump_scope: trio.CancelScope | None = None
        self._background: trio.CancelScope | None = None
        self._closing = False
        self._input_ended = trio.Event()
        self.closed = trio.Event()
        self._waiting = WaitingCalls(timeouts, self._abandon)
        # Requests of the peer.
        self._workers: Workers | None = None
        self._cancelled: dict[RequestId, None] = {}
        # Nothing is to be told of a request that is over unless the channel has a way for each.
        self._routed = type(channel).request_over is not Channel.request_over
        # While the pump works through what one read brought, what is to be sent collects here.
        self._outbox: list[bytes] | None = None
        self._outbox_size = 0

    @property
    def lost(self) -> McpError | None:
        """Why the connection ended; None while it lives."""
        return self._lost

    # The owner task.

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until the channel ends or `close` is called. Never raises but for cancellation."""
        if self.channel.hand_over(self.take, self._input_over):
            await self._run_handlers(task_status)
            return
        self._pump_scope = trio.CancelScope()
        self._background = trio.CancelScope(shield=True)
        async with trio.open_nursery() as background:
            background.start_soon(self._in_background, self._background)
            await self._run_handlers(task_status, self._pump)
            background.cancel_scope.cancel()

    async def _run_handlers(
        self, task_status: trio.TaskStatus[None], *tasks: Callable[[], Awaitable[None]]
    ) -> None:
        """Own the tasks that serve requests, and see to the end."""
        async with trio.open_nursery() as self._nursery:
            for task in tasks:
                self._nursery.start_soon(task)
            try:
                task_status.started()
                await self._input_ended.wait()
                await self._drain()
            finally:
                await self._shut_down()
                self._nursery.cancel_scope.cancel()

    def _input_over(self, reason: ConnectionLost) -> None:
        """The channel ended, and told so by itself."""
        self._end(reason)
        self._input_ended.set()

    async def _in_background(self, scope: trio.CancelScope) -> None:
        with scope:
            await self.channel.run()

    async def _shut_down(self) -> None:
        """Fail whoever waits, end the channel, and only then let handlers be cancelled.

        A handler may be the one who asked for it, and must get its answer.
        """
        self._end(ConnectionLost("this side closed the connection"))
        self.connection.lost()
        with trio.CancelScope(shield=True):
            try:
                await self.channel.aclose()
            except Exception:
                logger.exception("closing the channel failed")
        if self._background is not None:
            self._background.cancel()
        self.closed.set()

    async def close(self) -> None:
        """End the connection; return when the channel is closed. Bounded, idempotent, legal anywhere."""
        self._closing = True
        if self._pump_scope is not None:
            self._pump_scope.cancel()
        self._input_ended.set()
        interrupt: KeyboardInterrupt | None = None
        while not self.closed.is_set():
            # A second Ctrl-C must not leave a child process behind; closing is bounded anyway.
            try:
                with trio.CancelScope(shield=True):
                    await self.closed.wait()
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    @trio.lowlevel.enable_ki_protection
    async def _pump(self) -> None:
        """The reading task. A task of its own, so that waking it wakes nothing around it."""
        take = self.take
        try:
            assert self._pump_scope is not None
            with self._pump_scope:
                while True:
                    frames = await self.channel.receive()
                    self._outbox = []
                    try:
                        for frame in frames:
                            if self._outbox_size > HIGH_WATER:
                                self._flush_outbox()
                            take(frame)
                        if self._outbox:
                            self._flush_outbox()
                    finally:
                        self._outbox = None
        except McpError as error:
            self._end(error)
        except Exception as error:
            logger.exception("the connection ends because of an error in mcpcore")
            self._end(ConnectionLost(f"internal error: {error!r}"))
        finally:
            self._input_ended.set()

    def take(self, frame: Frame) -> None:
        """Act on one message that came, on the spot."""
        for event in self.connection.receive(frame):
            if isinstance(event, Request):
                self._act_on_request(event)
            elif isinstance(event, Response):
                self._waiting.finish(event.id, result=event.result)
            else:
                self._act(event)

    def _flush_outbox(self) -> None:
        outbox, self._outbox, self._outbox_size = self._outbox or [], [], 0
        self.channel.send_nowait(*outbox)

    async def _drain(self) -> None:
        """The input ended: let accepted requests finish, and their answers leave."""
        if self._closing or self.connection.role == "client":
            return
        self._handler.draining()
        if self._workers is not None:
            with trio.move_on_after(self.timeouts.drain):
                await self._workers.wait_until_done()

    def _end(self, reason: McpError) -> None:
        """Note why the connection ended, and tell everybody who waits."""
        first = self._lost is None
        if first:
            self._lost = reason
        self._waiting.fail_all(self._why_lost)
        if first:
            self._handler.ended(reason)

    def _why_lost(self) -> McpError:
        """A fresh exception for each caller."""
        if isinstance(self._lost, ConnectionLost):
            return self._lost.again()
        if isinstance(self._lost, RemoteProtocolError):
            return RemoteProtocolError(str(self._lost), self._lost.rule)
        return ConnectionLost(str(self._lost))

    # What comes in.

    def _act(self, event: Event) -> None:
        if isinstance(event, ErrorResponse):
            assert event.id is not None
            error = event.error
            data = None if error.data is UNSET else error.data
            self._waiting.finish(event.id, error=RequestFailed(error.code, error.message, data))
        elif isinstance(event, Notification):
            try:
                self._handler.received(event)
            except Exception:
                logger.exception("handling %s failed", event.method)
        elif isinstance(event, Progress):
            self._act_on_progress(event)
        elif isinstance(event, Cancel):
            self._act_on_cancel(event)
        elif isinstance(event, Failed):
            self._waiting.finish(
                event.id, error=RemoteProtocolError(event.error, event.rule or None)
            )
        elif isinstance(event, Undelivered):
            self._waiting.finish(event.id, error=event.error)
        else:
            assert not isinstance(event, Request | Response)
            if isinstance(event, Refused) and event.reply is not None:
                self._post(event.reply)
            self._handler.observed(event)

    def _act_on_progress(self, progress: Progress) -> None:
        call = self._waiting.by_id.get(progress.id) if progress.id is not None else None
        if call is None:
            return
        self._waiting.extend(call)
        if call.on_progress is not None:
            try:
                call.on_progress(progress)
            except Exception:
                logger.exception("the progress callback of %s raised", call.method)

    def _act_on_cancel(self, cancel: Cancel) -> None:
        logger.debug("request %r was cancelled by the peer: %s", cancel.id, cancel.reason)
        if self._workers is not None and self._workers.cancel(cancel.id):
            self._cancelled[cancel.id] = None
        else:
            # It had not begun, or is held: nobody will try to answer it.
            self._handler.dropped(cancel.id)
            self._answer(Response(cancel.id, {}))

    def _act_on_request(self, request: Request) -> None:
        try:
            work = self._handler.begin(request)
        except BaseException as error:
            if _is_ours(error):
                raise
            self._answer(self._error(request, error))
            return
        if work is HELD:
            return
        if not isinstance(work, Later):
            self._answer(Response(request.id, work))
            return
        workers = self._workers
        if workers is None:
            assert self._nursery is not None
            workers = self._workers = Workers(
                self._nursery, concurrent=self._limits.concurrent, queued=self._limits.queued
            )
        if not workers.submit(request.id, partial(self._serve, request, work)):
            busy = ErrorObject(BUSY, f"Busy: {self._limits.queued} requests are waiting")
            self._answer(ErrorResponse(request.id, busy))

    async def _serve(self, request: Request, work: Later) -> None:
        """Serve one request, in a worker."""
        answer: Response | ErrorResponse
        try:
            result = await work.function(*work.arguments)
            if result is HELD:
                return
            answer = Response(request.id, result)
        except trio.Cancelled:
            if request.id in self._cancelled:
                # The engine writes nothing then; it only has to know that the request is over.
                self._answer(Response(request.id, {}))
            raise
        except BaseException as error:
            if _is_ours(error):
                raise
            answer = self._error(request, error)
        finally:
            self._cancelled.pop(request.id, None)
        assert self._workers is not None
        self._answer(answer, linger=self._workers.more_to_come)

    def _error(self, request: Request, error: BaseException) -> ErrorResponse:
        cause = single(error)
        if isinstance(cause, RequestFailed) and isinstance(cause.code, int):
            data = UNSET if cause.data is None else cause.data
            return ErrorResponse(request.id, ErrorObject(cause.code, str(cause.message), data))
        logger.error("handling %s failed", request.method, exc_info=error)
        return ErrorResponse(request.id, ErrorObject(INTERNAL_ERROR, "Internal error"))

    def answer(self, answer: Response) -> None:
        """Answer a request that was held."""
        self._answer(answer)

    def _answer(self, answer: Response | ErrorResponse, *, linger: bool = False) -> None:
        """Write an answer; one that cannot be written becomes an error that can."""
        try:
            data = self.connection.send(answer)
        except McpError as error:
            logger.warning("the answer to request %r cannot be sent: %s", answer.id, error)
            bad = ErrorObject(INTERNAL_ERROR, "Internal error: the answer cannot be sent")
            try:
                data = self.connection.send(ErrorResponse(answer.id, bad))
            except McpError:
                return
        # Channels know the client's requests by their ids; the server has the same ids for its own.
        serves = self.connection.role == "server"
        if data is not None:
            self._post(data, linger=linger, about=answer.id if serves else None)
        if self._routed and serves:
            assert answer.id is not None
            self.channel.request_over(answer.id)

    def _post(self, data: bytes, *, linger: bool = False, about: RequestId | None = None) -> None:
        if self._outbox is not None:
            self._outbox.append(data)
            self._outbox_size += len(data)
            return
        try:
            self.channel.send_nowait(data, linger=linger, about=about)
        except ConnectionLost as error:
            logger.debug("a message was not sent: %s", error.reason)

    # What goes out.

    async def request(
        self,
        method: str,
        params: Any,
        *,
        seconds: float | None = None,
        maximum: float | None = None,
        on_progress: ProgressCallback | None = None,
        extends: bool | None = None,
        about: RequestId | None = None,
        id: RequestId | None = None,
    ) -> Raw:
        """Send a request, wait for its answer, give the raw result.

        `params` is a Struct of `mcpcore.types`, a dict, or `UNSET`. The limits default to those of
        the connection. `about` is the client's request because of which a server asks. `id` is one that
        was had from the connection before. Raises
        `RequestFailed`, `RequestTimeout`, `ConnectionLost`, `RemoteProtocolError`,
        `LocalProtocolError` or `CapabilityMissing`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.channel.crowded:
            await self._wait_for_room(method, seconds)
        if self._lost is not None:
            error = self._why_lost()
            raise error.unsent() if isinstance(error, SessionEnded) else error
        waiting = self._waiting
        if not waiting.watched and self._nursery is not None:
            waiting.watched = True
            self._nursery.start_soon(waiting.watch)
        if seconds is not None and math.isnan(seconds):
            raise ValueError("the timeout must not be NaN")
        if id is None:
            id = self.connection.next_id()
        if on_progress is not None:
            if inspect.iscoroutinefunction(on_progress):
                raise TypeError("on_progress is called by the reading task: give a plain function")
            params = _with_token(params, id)
        data = self.connection.send(Request(id, method, params))
        assert data is not None
        self.channel.send_nowait(data, linger=len(waiting.by_id) > 0, about=about)
        return await waiting.wait(
            id,
            method,
            seconds=seconds,
            maximum=maximum,
            extends=extends,
            on_progress=on_progress,
            about=about,
        )

    async def _wait_for_room(self, method: str, seconds: float | None) -> None:
        limit = self.timeouts.request if seconds is None else seconds
        with trio.move_on_after(limit) as scope:
            await self.channel.wait_for_room()
        if scope.cancelled_caught:
            raise RequestTimeout(method, limit, ": the peer does not read, so it was not even sent")

    def _abandon(self, id: RequestId, call: Call, reason: str) -> None:
        """Nobody waits for this answer any more: tell the peer, unless the protocol forbids it."""
        if call.method == "initialize" or self.connection.state is State.FRESH:
            return
        # To a channel ids are those of the client's requests; a question of the server has an id of its own.
        asks = self.connection.role == "client"
        try:
            data = self.connection.send(Cancel(id, reason))
            if data is not None:
                self.channel.send_nowait(data, linger=True, about=id if asks else call.about)
            if self._routed and asks:
                self.channel.request_over(id)
        except ConnectionLost as error:
            logger.debug("a cancellation was not sent: %s", error.reason)

    def send(
        self,
        event: Notification | Progress,
        *,
        droppable: bool = False,
        about: RequestId | None = None,
    ) -> None:
        """Send a notification without waiting. `about` is the client's request that it belongs to.

        With `droppable` it is left out while the peer reads so slowly that messages pile up. Raises
        `LocalProtocolError`, `CapabilityMissing` or the reason why the connection ended.
        """
        # A server whose input ended still works on what it accepted, and that may speak to the last.
        draining = self.connection.role == "server" and self.connection.state is not State.CLOSED
        if self._lost is not None and not draining:
            raise self._why_lost()
        if droppable and self.channel.crowded:
            return
        data = self.connection.send(event, about=about)
        if data is not None:
            self._post(data, linger=True, about=about)

    async def notify(self, notification: Notification, *, about: RequestId | None = None) -> None:
        """Send a notification, after waiting for room if the peer reads slowly."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.channel.crowded:
            await self._wait_for_room(notification.method, None)
        self.send(notification, about=about)

    def start_soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Run an async function in this connection's nursery; what it raises is logged."""
        if self._nursery is not None and not self.closed.is_set():
            self._nursery.start_soon(self._guarded, function, *arguments)

    async def _guarded(self, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            await function(*arguments)
        except ConnectionLost as error:
            logger.debug("%s ended with the connection: %s", function, error.reason)
        except Exception:
            logger.exception("%s raised", function)

    def question_opens(self) -> None:
        """A question of the peer is with somebody on this side: our callers' deadlines stand still."""
        self._waiting.question_opens()

    def question_closes(self) -> None:
        """The counterpart of `question_opens`."""
        self._waiting.question_closes()


def _is_ours(error: BaseException) -> bool:
    """Whether an exception belongs to the loop and not to the handler that it came out of."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup((trio.Cancelled, KeyboardInterrupt, GeneratorExit)) is not None
    return isinstance(error, trio.Cancelled | KeyboardInterrupt | GeneratorExit)


def single(error: BaseException) -> BaseException:
    """What a group of one holds; the error itself otherwise."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _with_token(params: Any, token: RequestId) -> Any:
    """The params with a progress token in their `_meta`, beside what else is there."""
    if params is UNSET:
        return {"_meta": {"progressToken": token}}
    if isinstance(params, dict):
        return params | {"_meta": {**params.get("_meta", {}), "progressToken": token}}
    return msgspec.structs.replace(params, meta={**(params.meta or {}), "progressToken": token})
