"""The server's side of the older HTTP transport, that of 2024-11-05, for clients of that time.

A GET opens a session and is its one stream; the first event says where its client posts, and everything
that the server says comes on the stream. The end of the stream is the end of the session.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from mcpcore.protocol import httprules
from mcpcore.protocol.httprules import Refusal
from mcpcore.server.http.endpoint import EVENT_HEADERS, Endpoint
from mcpcore.server.http.sessions import HttpSession, Sessions
from mcpcore.transport.http import Answer, EventSource, HttpRequest

NAME = "session"
"""The parameter in the query that says which session a POST belongs to."""


class OlderTransport:
    """The two paths of the older transport, `stream` for GET and `messages` for POST."""

    def __init__(self, endpoint: Endpoint, *, stream: str, messages: str) -> None:
        self._endpoint = endpoint
        self._stream = stream
        self._messages = messages

    async def handle(self, request: HttpRequest) -> Answer | None:
        """Serve a request to one of the two paths; None for another path."""
        path = request.path.rstrip("/")
        if path == self._stream:
            return await self._endpoint.handle(request, self._open)
        if path == self._messages:
            return await self._endpoint.handle(request, self._post)
        return None

    async def _open(self, request: HttpRequest, principal: Any) -> Answer | Refusal:
        head = httprules.judge_head(request.method, request.headers, verbs=("GET",))
        if isinstance(head, Refusal):
            return head
        sessions = self._endpoint.sessions
        if sessions.full:
            return httprules.sessions_full()
        session = await sessions.open(principal)
        sessions.keep(session, remember=False)
        where = f"event: endpoint\ndata: {self._messages}?{NAME}={session.id}\n\n".encode()
        events = session.channel.read(session.channel.standalone)
        return Answer(200, EVENT_HEADERS, events=_OnlyStream(where, events, session, sessions))

    async def _post(self, request: HttpRequest, principal: Any) -> Answer | Refusal:
        limit = self._endpoint.max_body
        # Clients of that time say nothing of what they accept.
        headers = {name: value for name, value in request.headers.items() if name != "accept"}
        head = httprules.judge_head(request.method, headers, max_body=limit, verbs=("POST",))
        if isinstance(head, Refusal):
            return head
        ids = parse_qs(request.query).get(NAME, [])
        if len(ids) != 1:
            return httprules.session_missing()
        session = self._endpoint.sessions.find(ids[0], principal)
        if session is None:
            return httprules.session_unknown()
        body = await request.read(limit)
        if body is None:
            return httprules.too_large(limit)
        message = httprules.judge_body(body)
        if isinstance(message, Refusal):
            return message
        # No stream of its own is opened for it, so what it causes goes on the one that there is.
        session.channel.feed(message)
        return Answer(202)


class _OnlyStream(EventSource):
    """The one stream of a session, which ends with it."""

    def __init__(
        self, first: bytes, events: EventSource, session: HttpSession, sessions: Sessions
    ) -> None:
        self._first = first
        self._events = events
        self._session = session
        self._sessions = sessions

    def take(self) -> bytes:
        first, self._first = self._first, b""
        return first + self._events.take()

    @property
    def ended(self) -> bool:
        return not self._first and self._events.ended

    async def wait(self) -> None:
        await self._events.wait()

    def close(self) -> None:
        self._events.close()
        self._sessions.end_soon(self._session)
