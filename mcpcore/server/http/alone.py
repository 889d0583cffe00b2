"""Requests that stand alone, over HTTP: one end of a connection for those of all clients.

No session holds them together, so nothing has to be opened for one and nothing is left of it. What would
be a session is here once for the whole endpoint; each request has a key of its own in it, since two
clients may use the same id, and a stream of its own, which is all there is to its connection: when that
breaks, the request is cancelled (HTTP26-37).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from mcpcore import jsonrpc
from mcpcore.errors import ConnectionLost
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.framing import Abandoned, Decoded
from mcpcore.server.http.streams import MAX_QUEUED, Pulse, SessionChannel, Stream

logger = logging.getLogger("mcpcore.server")

LOOK = 0.25
"""Seconds between two looks at whether the clients of open requests are still there."""


class AloneChannel(SessionChannel):
    """The channel of all requests that stand alone. `max_queued` is in bytes, for each of them."""

    def __init__(self, pulse: Pulse, *, max_queued: int = MAX_QUEUED) -> None:
        super().__init__("", pulse, max_queued=max_queued)
        self._keys = itertools.count(1)
        self.principals: dict[RequestId, Any] = {}
        self._clients: dict[RequestId, Callable[[], Awaitable[bool]]] = {}

    def serve(
        self, message: Decoded, principal: Any, gone: Callable[[], Awaitable[bool]]
    ) -> Stream:
        """Hand on a request of a principal. What is said about it goes on the stream. `gone` tells whether
        its client is known to have gone away.
        """
        key = next(self._keys)
        stream = self.open_stream([key])
        self.principals[key] = principal
        self._clients[key] = gone
        self.feed(
            Decoded(message.message, message.frame, message.notes, alone=True, key=key), stream
        )
        return stream

    async def watch(self) -> None:
        """Look after the clients of requests that take their time, for ever: who waits without a word being
        said would not be missed before the next sign of life.
        """
        while True:
            await trio.sleep(LOOK)
            for key, gone in list(self._clients.items()):
                stream = self._by_request.get(key)
                if stream is not None and await gone():
                    stream.abandon()

    def request_over(self, id: RequestId) -> None:
        self.principals.pop(id, None)
        self._clients.pop(id, None)
        super().request_over(id)

    def abandoned(self, stream: Stream) -> None:
        if self._take is not None:
            for key in tuple(stream.open):
                self._take(Abandoned(key))

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        if self._closed:
            assert self._lost is not None
            raise self._lost.again()
        stream = self._feeding if about is None else self._by_request.get(about)
        if stream is None:
            logger.debug("a message for a request that is over was dropped")
            return
        for data in messages:
            self._put(stream, data)

    def _put(self, stream: Stream, data: bytes) -> None:
        # A client that does not read harms nobody but itself.
        if stream.queued + len(data) > self._max_queued and jsonrpc.is_notification(data):
            if stream.queued > 4 * self._max_queued:
                stream.abandon()
                raise ConnectionLost("the client does not read")
            logger.warning("the client does not read: a notification was dropped")
            return
        stream.put(data)

    @property
    def crowded(self) -> bool:
        return False
