"""One MCP endpoint, whatever listens in front of it: an HTTP request in, an HTTP answer out.

What is refused and how is decided by `mcpcore.protocol.httprules`; here is what happens to the rest. An
initialize opens a session, whose end is a runtime like any other, with streams for a channel. A request is
answered with JSON where its answer is all there is to say, and with a stream of events where more comes
first, or where the answer takes its time. A broken connection cancels nothing: the handler goes on, and
the client may come back for the answer (HTTP-20).

`run` owns the sessions and everything in them. Fronts call `handle`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypedDict, Unpack

import trio

from mcpcore import types as t
from mcpcore.jsonrpc import Request, RequestId
from mcpcore.protocol import httprules
from mcpcore.protocol.framing import Decoded
from mcpcore.protocol.headers import EVENT_STREAM, JSON, SESSION_ID
from mcpcore.protocol.httprules import Access, Head, Refusal, Verb
from mcpcore.protocol.mirrors import Path
from mcpcore.revisions import lookup
from mcpcore.server.http.alone import AloneChannel
from mcpcore.server.http.principals import Authenticate
from mcpcore.server.http.sessions import HttpSession, SessionLimits, Sessions
from mcpcore.server.http.store import EventStore, MemoryEventStore
from mcpcore.server.http.streams import Pulse, SessionChannel, Stream
from mcpcore.server.session import Session
from mcpcore.transport.channel import Channel
from mcpcore.transport.http import Answer, EventSource, HttpRequest, RequestLost
from mcpcore.waiting import Timeouts

logger = logging.getLogger("mcpcore.server")

KEEP_ALIVE = 15.0
"""Seconds after which a quiet stream gets a comment: half of what the most impatient proxies wait."""

_JSON_HEADERS = (("Content-Type", JSON),)
EVENT_HEADERS = (
    ("Content-Type", EVENT_STREAM),
    ("Cache-Control", "no-cache, no-transform"),
    # nginx would collect events into blocks (SSE-08).
    ("X-Accel-Buffering", "no"),
)


Serve = Callable[[HttpRequest, Any], Awaitable[Answer | Refusal]]
"""Serves a request that was admitted, of a principal."""


class Served(Protocol):
    """What an endpoint needs of its server."""

    revisions: Sequence[str]
    timeouts: Timeouts
    lifespan: Callable[[], AbstractAsyncContextManager[Any]]

    @property
    def marked_arguments(self) -> Mapping[str, Mapping[str, Path]]: ...
    def capabilities(self) -> t.ServerCapabilities: ...
    def make_session(self, channel: Channel, state: Any, principal: Any = None) -> Session: ...
    async def serve_session(
        self, session: Session, *, task_status: trio.TaskStatus[None] = ...
    ) -> None: ...


class EndpointOptions(TypedDict, total=False):
    """What may be said of an endpoint; everything has a default."""

    allowed_hosts: list[str]
    """Values of Host to serve, with or without a port; loopback always is. `*` serves all."""
    allowed_origins: list[str]
    """Values of Origin to serve, such as `https://example.com`. Default: those of the allowed hosts."""
    authenticate: Authenticate
    """Tells who makes a request; see `mcpcore.server.http.principals`. Default: nobody is asked."""
    answers: Literal["json", "events"]
    """How to answer a request about which nothing is said before its answer. Default: `json`. With
    `events` a client whose connection breaks can come back for any answer; with `json` only for those
    of which something was said, or that took longer than `keep_alive`."""
    sessions: SessionLimits | None
    """How many sessions for clients of the handshake era. With None none are kept: each of their requests
    is served by itself, and nothing can be asked of them."""
    store: EventStore | None
    """Remembers events for clients that come back. Default: in memory; None: nothing is remembered."""
    max_body: int
    """Bytes of one POST."""
    keep_alive: float
    """Seconds after which a quiet stream shows a sign of life."""


class Endpoint:
    """Serves a server's sessions over HTTP. `run` must be running."""

    def __init__(self, server: Served, **options: Unpack[EndpointOptions]) -> None:
        self._server = server
        origins = options.get("allowed_origins")
        self._access = Access(
            allowed_hosts=tuple(options.get("allowed_hosts", ())),
            allowed_origins=None if origins is None else tuple(origins),
        )
        self._authenticate = options.get("authenticate")
        self._prefers_json = options.get("answers", "json") == "json"
        limits = options.get("sessions", SessionLimits())
        self._limits = SessionLimits() if limits is None else limits
        self._store = options["store"] if "store" in options else MemoryEventStore()
        self.max_body = options.get("max_body", httprules.MAX_BODY)
        self._pulse = Pulse(options.get("keep_alive", KEEP_ALIVE))
        rows = lookup(server.revisions)
        self._spoken = tuple(row for row in rows if row.era == "handshake")
        self._stateless = tuple(row for row in rows if row.era == "stateless")
        self._keeps_sessions = limits is not None and bool(self._spoken)
        self._verbs: tuple[Verb, ...] = ("POST",)
        if self._keeps_sessions:
            self._verbs = ("POST", "GET", "DELETE")
        self._alone: AloneChannel
        self._alone_session: Session
        self._state: Any = None
        self._nursery: trio.Nursery
        self.sessions: Sessions
        self._stopping = trio.Event()
        self._stopped = trio.Event()

    # The owner.

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the sessions until `stop` is called. Raises what the server's lifespan raises."""
        try:
            async with self._server.lifespan() as self._state, trio.open_nursery() as self._nursery:
                self.sessions = Sessions(
                    self._nursery,
                    lambda channel, principal: self._server.make_session(
                        channel, self._state, principal
                    ),
                    self._server.serve_session,
                    limits=self._limits,
                    store=self._store,
                    pulse=self._pulse,
                )
                self._alone = AloneChannel(self._pulse, max_queued=self._limits.queued)
                self._alone_session = self._server.make_session(self._alone, self._state)
                self._alone_session.principals = self._alone.principals
                await self._nursery.start(self._server.serve_session, self._alone_session)
                self._nursery.start_soon(self._alone.watch)
                self._nursery.start_soon(self.sessions.sweep)
                self._nursery.start_soon(self._pulse.run)
                task_status.started()
                await self._stopping.wait()
                self._alone.end_input("the server stops")
                await self.sessions.end_all()
                await self._alone_session.runtime.closed.wait()
                self._nursery.cancel_scope.cancel()
        finally:
            self._stopping.set()
            self._stopped.set()

    async def stop(self) -> None:
        """Take no more requests, let handlers finish within the server's `timeouts.drain`, end all
        streams and sessions. Returns when that is done.
        """
        self._stopping.set()
        await self._stopped.wait()

    # Requests.

    async def handle(self, request: HttpRequest, serve: Serve | None = None) -> Answer:
        """Serve one request, by `serve` if that is given: a way for another path. Raises nothing but
        `RequestLost`, which the request itself raised.
        """
        try:
            answer = await self._admit(request, serve or self._serve_request)
        except RequestLost:
            raise
        except Exception:
            logger.exception("serving %s %s failed", request.method, request.path)
            return _plain(500, "Internal error")
        if isinstance(answer, Refusal):
            why = f"{answer.rule}: {answer.detail}" if answer.rule else answer.detail
            logger.info("%s %s was refused: %s", request.method, request.path, why)
            return Answer(answer.status, _JSON_HEADERS + answer.headers, answer.body)
        return answer

    async def _admit(self, request: HttpRequest, serve: Serve) -> Answer | Refusal:
        """Look at where a request comes from and who makes it, before anything else."""
        refusal = httprules.judge_access(request.headers, self._access)
        if refusal is not None:
            return refusal
        principal = None
        if self._authenticate is not None:
            principal = self._authenticate(request)
            if inspect.isawaitable(principal):
                principal = await principal
            if principal is None:
                challenge = ("WWW-Authenticate", "Bearer")
                return Refusal(401, "Unauthorized: a valid token is needed", "SEC-01", (challenge,))
        if self._stopping.is_set():
            return Refusal(503, "Service Unavailable: the server stops", "")
        return await serve(request, principal)

    async def _serve_request(self, request: HttpRequest, principal: Any) -> Answer | Refusal:
        head = httprules.judge_head(
            request.method, request.headers, max_body=self.max_body, verbs=self._verbs
        )
        if isinstance(head, Refusal):
            return head
        if head.verb == "POST":
            return await self._post(request, head, principal)
        return await self._get_or_delete(head, principal)

    async def _get_or_delete(self, head: Head, principal: Any) -> Answer | Refusal:
        session = self._find(head, principal)
        if isinstance(session, Refusal):
            return session
        if head.verb == "DELETE":
            await self.sessions.end(session)
            return Answer(204)
        channel = session.channel
        events: EventSource | None = None
        if head.last_event_id is not None:
            events = await channel.resume(head.last_event_id)
        if events is None:
            events = channel.read(channel.standalone)
        return Answer(200, EVENT_HEADERS, events=events)

    def _find(self, head: Head, principal: Any) -> HttpSession | Refusal:
        """The session that a request belongs to, after a look at its revision."""
        if head.session is None:
            return httprules.session_missing()
        session = self.sessions.find(head.session, principal)
        if session is None:
            return httprules.session_unknown()
        agreed = session.session.connection.revision
        revision = httprules.judge_version(head.version, agreed, self._spoken)
        return revision if isinstance(revision, Refusal) else session

    async def _post(self, request: HttpRequest, head: Head, principal: Any) -> Answer | Refusal:
        body = await request.read(self.max_body)
        if body is None:
            return httprules.too_large(self.max_body)
        message = httprules.judge_body(body)
        if isinstance(message, Refusal):
            return message
        if httprules.stands_alone(message, head.version, self._stateless) or not self._spoken:
            refusal = httprules.judge_mirrors(
                message, request.headers, self._stateless, self._server.marked_arguments
            )
            return refusal or await self._serve_alone(message, head, principal, request)
        if not self._keeps_sessions:
            return await self._serve_once(message, head, principal)
        if head.session is None and httprules.opens_session(message):
            return await self._open(message, head, principal)
        session = self._find(head, principal)
        if isinstance(session, Refusal):
            return session
        agreed = session.session.connection.revision
        refusal = httprules.judge_batch(message, agreed) if agreed is not None else None
        if refusal is not None:
            return refusal
        return await self._serve(session.channel, session.session, message, head)

    async def _open(self, message: Decoded, head: Head, principal: Any) -> Answer | Refusal:
        if self.sessions.full:
            return httprules.sessions_full()
        session = await self.sessions.open(principal)
        kept = False
        try:
            answer = await self._serve(session.channel, session.session, message, head)
            revision = session.session.connection.revision
            if revision is not None and isinstance(answer, Answer):
                kept = True
                session.channel.polls = revision.polling
                self.sessions.keep(session)
                given = (*answer.headers, (SESSION_ID, session.id))
                return Answer(answer.status, given, answer.body, answer.events)
        finally:
            if not kept:
                with trio.CancelScope(shield=True):
                    await self.sessions.end(session)
        return answer

    async def _serve_alone(
        self, message: Decoded, head: Head, principal: Any, request: HttpRequest
    ) -> Answer:
        """Serve a POST that belongs to no session, in the era that has none."""
        if not isinstance(message.message, Request):
            return Answer(202)
        channel = self._alone
        stream = channel.serve(message, principal, request.gone)
        self._close_refused(channel, self._alone_session, stream)
        try:
            if not head.events:
                await stream.wait_for_end()
            elif self._prefers_json and not stream.ended and not stream.pending:
                await stream.wait()
            elif not stream.ended:
                await trio.lowlevel.checkpoint()
        except BaseException:
            stream.abandon()
            raise
        # What has a status of its own is decided before anything is written.
        if stream.ended and len(stream.pending) == 1 and head.json:
            answer = stream.take()[0][1]
            return Answer(httprules.status_of(answer), _JSON_HEADERS, answer)
        return Answer(200, EVENT_HEADERS, events=channel.read(stream))

    async def _serve_once(self, message: Decoded, head: Head, principal: Any) -> Answer | Refusal:
        """Serve a POST of the handshake era by a session that lasts as long as its answer."""
        if httprules.requests_in(message) is None:
            return Answer(202)
        channel = SessionChannel("", self._pulse)
        session = self._server.make_session(channel, self._state, principal)
        if not httprules.opens_session(message):
            revision = httprules.judge_version(head.version, None, self._spoken)
            if isinstance(revision, Refusal):
                return revision
            refusal = httprules.judge_batch(message, revision)
            if refusal is not None:
                return refusal
            session.adopt(revision)
        await self._nursery.start(self._server.serve_session, session)
        try:
            answer = await self._serve(channel, session, message, head)
        except BaseException:
            self._nursery.start_soon(session.runtime.close)
            raise
        if isinstance(answer, Answer) and answer.events is not None:
            events = _EndsSession(answer.events, session, self._nursery)
            return Answer(answer.status, answer.headers, events=events)
        await session.runtime.close()
        return answer

    async def _serve(
        self, channel: SessionChannel, session: Session, message: Decoded, head: Head
    ) -> Answer | Refusal:
        """Feed a session, and answer with what it has to say."""
        ids = httprules.requests_in(message)
        if ids is None:
            channel.feed(message)
            return Answer(202)
        taken = channel.open_requests
        if len(set(ids)) < len(ids) or not taken.isdisjoint(ids):
            detail = "Invalid request: the id is in use by a request that is still open"
            return Refusal(400, detail, "JRPC-02")
        stream = channel.open_stream(ids)
        channel.feed(message, stream)
        self._close_refused(channel, session, stream)
        try:
            if httprules.opens_session(message):
                # Whether there will be a session has to be known before the headers are written.
                await stream.wait_for_end()
            return await self._answer(channel, stream, head)
        except BaseException:
            stream.abandon()
            raise

    def _close_refused(self, channel: SessionChannel, session: Session, stream: Stream) -> None:
        """What the engine refused it has answered, and nobody else will."""
        refused: list[RequestId] = [id for id in stream.open if not session.connection.is_open(id)]
        for id in refused:
            channel.request_over(id)
        if not stream.open and not stream.ended:
            stream.end()

    async def _answer(self, channel: SessionChannel, stream: Stream, head: Head) -> Answer:
        if not head.events:
            # A client that takes no events gets the answer, and nothing else of the stream.
            await stream.wait_for_end()
            return _json(stream) if stream.pending else Answer(202)
        if self._prefers_json and head.json:
            if not stream.ended and not stream.pending and stream.released is None:
                await stream.wait()
            if stream.ended and len(stream.pending) == 1:
                return _json(stream)
        else:
            # What is said within a turn or two of the loop leaves together with the headers.
            for _ in range(2):
                if not stream.ended:
                    await trio.lowlevel.checkpoint()
        return Answer(200, EVENT_HEADERS, events=channel.read(stream))


class _EndsSession(EventSource):
    """The events of a session that ends with them."""

    def __init__(self, events: EventSource, session: Session, nursery: trio.Nursery) -> None:
        self._events = events
        self._session = session
        self._nursery = nursery

    def take(self) -> bytes:
        return self._events.take()

    @property
    def ended(self) -> bool:
        return self._events.ended

    async def wait(self) -> None:
        await self._events.wait()

    def close(self) -> None:
        self._events.close()
        self._nursery.start_soon(self._session.runtime.close)


def _json(stream: Stream) -> Answer:
    """The last message of a stream that ended is the answer."""
    return Answer(200, _JSON_HEADERS, stream.take()[-1][1])


def _plain(status: int, text: str) -> Answer:
    return Answer(status, (("Content-Type", "text/plain; charset=utf-8"),), text.encode())
