"""The event streams that a client reads: the answer to a request, and what the server says by itself.

A connection may break at any time without that the stream is over. Both are opened anew, from where the
events told; both wait longer the more often that was in vain, and both end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from mcpcore.errors import ConnectionLost, McpError, SessionEnded
from mcpcore.protocol.framing import Frame, NeedData
from mcpcore.protocol.headers import EVENT_STREAM, media_type
from mcpcore.protocol.sse import MESSAGE, SseDecoder
from mcpcore.transport.attempts import ATTEMPTS, Attempts
from mcpcore.transport.http_session import OVER, HttpSession
from mcpcore.transport.net.exchange import Exchange

logger = logging.getLogger("mcpcore.transport")

LINGER = 1.0
"""Seconds that a stream has to end after its answer came; then its connection is closed."""


def is_stream(exchange: Exchange) -> bool:
    return exchange.status == 200 and media_type(exchange.header(b"content-type")) == EVENT_STREAM


async def _read_events(
    exchange: Exchange,
    decoder: SseDecoder,
    deliver: Callable[[Frame], None],
    *,
    after: str | None,
    heard: Callable[[], None],
) -> int:
    """Read one connection to its end; gives how many messages came. An event that was had before (`after`)
    is passed over. `heard` is called after each piece, also one that says nothing.
    """
    messages = 0
    while True:
        try:
            chunk = await exchange.chunk()
        except ConnectionLost as error:
            logger.debug("a stream broke: %s", error.reason)
            return messages
        if not chunk:
            return messages
        decoder.receive_data(chunk)
        while not isinstance(event := decoder.next_event(), NeedData):
            if event.data and event.type == MESSAGE and (event.id is None or event.id != after):
                messages += 1
                deliver(event.data)
        heard()


class AnswerStream:
    """The stream that answers one request, on as many connections as it takes.

    `answered` tells whether the answer was among what was delivered. One that is not `resumable` is lost
    with its connection, whatever ids its events have.
    """

    def __init__(
        self,
        session: HttpSession,
        deliver: Callable[[Frame], None],
        answered: Callable[[], bool],
        *,
        resumable: bool = True,
    ) -> None:
        self._session = session
        self._resumable = resumable
        self._deliver = deliver
        self._answered = answered
        self._attempts = Attempts()
        self._where: str | None = None

    async def read(self, exchange: Exchange) -> None:
        """Read from the first connection on until the answer came. Raises what ends it before that."""
        await self._read(exchange)
        while not self._answered():
            if self._where is None or not self._resumable:
                raise ConnectionLost(
                    f"{self._session.url}: the stream broke before the answer, and the server did not "
                    "say where to resume it"
                )
            if self._attempts.hopeless:
                raise ConnectionLost(
                    f"{self._session.url}: the stream broke {ATTEMPTS} times in a row"
                )
            await trio.sleep(self._attempts.delay())
            try:
                again = await self._session.get(self._where)
            except ConnectionLost as error:
                self._attempts.failed()
                if self._attempts.hopeless:
                    raise ConnectionLost(f"{error.reason}; {ATTEMPTS} attempts") from None
                continue
            try:
                if self._session.gone(again):
                    raise SessionEnded(OVER, delivered=True)
                if not is_stream(again):
                    raise await self._session.error(again, "the stream cannot be resumed")
                await self._read(again)
            finally:
                again.close()

    async def _read(self, exchange: Exchange) -> None:
        decoder = SseDecoder(self._session.server.max_message)
        began = trio.current_time()
        messages = 0
        # A stream that is done may be slow to end.
        with trio.CancelScope() as patience:

            def heard() -> None:
                if self._answered():
                    patience.deadline = trio.current_time() + LINGER

            messages = await _read_events(
                exchange, decoder, self._deliver, after=self._where, heard=heard
            )
        self._attempts.ended(decoder, messages=messages, seconds=trio.current_time() - began)
        self._where = decoder.last_event_id or self._where


class StandaloneStream:
    """What the server says by itself, for as long as it has a stream for that.

    `settled` is set once it is known whether there is one. `on` tells whether it is being read.
    """

    def __init__(self, session: HttpSession, deliver: Callable[[Frame], None]) -> None:
        self.settled = trio.Event()
        self.on = False
        self._session = session
        self._deliver = deliver
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Open the stream, and open it anew whenever it ends. Never raises."""
        self.on = True
        try:
            await self._run()
        except McpError as error:
            logger.warning("not listening to what the server says by itself any more: %s", error)
        except Exception:
            logger.exception("listening ended because of an error in mcpcore")
        finally:
            self.settled.set()

    async def _run(self) -> None:
        attempts = Attempts()
        where: str | None = None
        while not self._session.over:
            began = trio.current_time()
            quiet = self._session.server.quiet
            self._scope = trio.CancelScope(deadline=began + quiet)
            had = False
            decoder = SseDecoder(self._session.server.max_message)
            try:
                with self._scope:
                    exchange = await self._session.get(where)
                    self.settled.set()
                    try:
                        if not self._is_offered(exchange):
                            return
                        if is_stream(exchange):
                            messages = await _read_events(
                                exchange, decoder, self._deliver, after=where, heard=self._heard
                            )
                            seconds = trio.current_time() - began
                            attempts.ended(decoder, messages=messages, seconds=seconds)
                            had = True
                    finally:
                        exchange.close()
            except ConnectionLost as error:
                logger.debug("the standalone stream: %s", error.reason)
                self.settled.set()
            # Also if the time was up in the middle of reading: what was had must not come again.
            where = decoder.last_event_id or where
            if self._scope.cancelled_caught:
                # Nothing was heard for so long that the connection may be dead without knowing it.
                attempts = Attempts()
            elif not had:
                attempts.failed()
            if attempts.hopeless:
                # The next message that gets through shows that it may be worth another try.
                self.on = False
                logger.warning("the server's own stream was given up after %d attempts", ATTEMPTS)
                return
            await trio.sleep(attempts.delay())

    def _heard(self) -> None:
        self._scope.deadline = trio.current_time() + self._session.server.quiet

    def _is_offered(self, exchange: Exchange) -> bool:
        """Whether it makes sense to ask again: 405 and its like mean that there is no such stream."""
        if self._session.gone(exchange):
            return False
        if exchange.status in (409, 429) or (exchange.status >= 500 and exchange.status != 501):
            return True
        if not is_stream(exchange):
            logger.debug("the server has no stream of its own: HTTP %d", exchange.status)
            return False
        return True
