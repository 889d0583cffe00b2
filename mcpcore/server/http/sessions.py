"""The sessions of an endpoint: opened by initialize, found by their ids, ended when idle or done with.

A session belongs to the principal that opened it: to all others it does not exist (SEC-02).
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from mcpcore.server.http.store import EventStore
from mcpcore.server.http.streams import MAX_QUEUED, Pulse, SessionChannel
from mcpcore.server.session import Session

logger = logging.getLogger("mcpcore.server")


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions, and how much of each. Times are in seconds, sizes in bytes.

    `idle` is how long a session stays that nobody uses: its client reads no stream, waits for no answer
    and sends nothing. `sessions` is how many there may be; beyond that nobody can open one. `queued` is
    what is kept for a client that does not read.
    """

    idle: float = 1800.0
    sessions: int = 10_000
    queued: int = MAX_QUEUED


class HttpSession:
    """One session: its channel, and the server's end of it."""

    __slots__ = ("channel", "id", "principal", "session", "used")

    def __init__(self, id: str, principal: Any, channel: SessionChannel, session: Session) -> None:
        self.id = id
        self.principal = principal
        self.channel = channel
        self.session = session
        self.used = trio.current_time()

    @property
    def is_over(self) -> bool:
        return self.session.runtime.lost is not None


class Sessions:
    """The sessions of one endpoint. `make` makes the server's end for a channel and a principal; `serve`
    runs it, in `nursery`.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        make: Callable[[SessionChannel, Any], Session],
        serve: Callable[..., Awaitable[None]],
        *,
        limits: SessionLimits,
        store: EventStore | None,
        pulse: Pulse,
    ) -> None:
        self._nursery = nursery
        self._make = make
        self._serve = serve
        self._limits = limits
        self._store = store
        self._pulse = pulse
        self._by_id: OrderedDict[str, HttpSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def full(self) -> bool:
        return len(self._by_id) >= self._limits.sessions

    async def open(self, principal: Any) -> HttpSession:
        """A new session, which is not found by its id until `keep` is called."""
        id = secrets.token_urlsafe(32)
        channel = SessionChannel(id, self._pulse, max_queued=self._limits.queued)
        session = HttpSession(id, principal, channel, self._make(channel, principal))
        await self._nursery.start(self._serve, session.session)
        return session

    def keep(self, session: HttpSession, *, remember: bool = True) -> None:
        """From now on the session is found by its id. With `remember` there are events to come back for."""
        if remember:
            session.channel.event_store = self._store
        self._by_id[session.id] = session

    def find(self, id: str, principal: Any) -> HttpSession | None:
        """The session of that id, if it lives and belongs to `principal`. It counts as used."""
        session = self._by_id.get(id)
        if session is None or session.principal != principal:
            return None
        if session.is_over:
            del self._by_id[id]
            return None
        session.used = trio.current_time()
        self._by_id.move_to_end(id)
        return session

    async def end(self, session: HttpSession) -> None:
        """End a session now: its handlers are cancelled."""
        self._by_id.pop(session.id, None)
        await session.session.runtime.close()

    def end_soon(self, session: HttpSession) -> None:
        """End a session without waiting for it."""
        self._by_id.pop(session.id, None)
        session.channel.end_input("the client went away")

    async def sweep(self) -> None:
        """End sessions that nobody uses, for ever."""
        pause = max(min(self._limits.idle / 4, 30.0), 0.01)
        while True:
            await trio.sleep(pause)
            now = trio.current_time()
            # The least recently used come first.
            for session in list(self._by_id.values()):
                if session.used > now - self._limits.idle:
                    break
                if session.is_over or not session.channel.in_use:
                    logger.info("a session ended: it was not used for %g s", self._limits.idle)
                    await self.end(session)
                else:
                    session.used = now
                    self._by_id.move_to_end(session.id)

    async def end_all(self) -> None:
        """End all sessions; requests that were accepted get the server's time to finish."""
        sessions = list(self._by_id.values())
        self._by_id.clear()
        for session in sessions:
            session.channel.end_input("the server stops")
        for session in sessions:
            await session.session.runtime.closed.wait()
