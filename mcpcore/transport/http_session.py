"""The session of a client with an HTTP server: where requests go, with what headers, and what refusals mean.

It begins with the answer to initialize and is over when the server says so, by 404 or what comes near to
it. The channel and its streams ask through it; nobody else knows the id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from mcpcore import __version__
from mcpcore.errors import HttpError, McpError, SessionEnded
from mcpcore.jsonrpc import ErrorResponse
from mcpcore.protocol.headers import (
    EVENT_STREAM,
    JSON,
    LAST_EVENT_ID,
    PROTOCOL_VERSION,
    SESSION_ID,
)
from mcpcore.revisions import Revision
from mcpcore.transport.net.exchange import Exchange, HttpClient
from mcpcore.transport.net.refusals import meaning, refusal
from mcpcore.transport.net.url import parse
from mcpcore.transport.web import HttpServer, encode_headers

logger = logging.getLogger("mcpcore.transport")

OVER = "the server ended the session"

EXCERPT = 4096
"""Bytes that are read of what is no answer."""


class HttpSession:
    """A session with `server`. Raises ValueError for a URL or header that is none."""

    def __init__(self, server: HttpServer) -> None:
        self.url = parse(server.url)
        self.server = server
        self.revision: Revision | None = None
        self.over = False
        self._client = HttpClient(server.network)
        self._id: str | None = None
        self._own_headers = encode_headers(
            {"User-Agent": f"mcpcore/{__version__}"} | dict(server.headers)
        )
        self._post_headers = self._make_post_headers()

    def agreed(self, revision: Revision) -> None:
        self.revision = revision
        self._post_headers = self._make_post_headers()

    def opened(self, answer: Exchange) -> None:
        """Take the id from the answer to initialize."""
        self._id = answer.header(SESSION_ID.encode())
        self._post_headers = self._make_post_headers()

    # Requests.

    async def post(
        self,
        data: bytes,
        *,
        sent: Callable[[], None],
        urgent: bool = False,
        mirrored: Sequence[tuple[bytes, bytes]] = (),
    ) -> Exchange:
        """`mirrored` are the headers that repeat what the body says."""
        headers = await self._headers_now([*self._post_headers, *mirrored])
        return await self._client.request(
            b"POST", self.url, headers, data, urgent=urgent, sent=sent
        )

    async def get(self, last_event_id: str | None) -> Exchange:
        headers = [(b"Accept", EVENT_STREAM.encode()), *self._headers(), *self._own_headers]
        if last_event_id is not None:
            headers.append((LAST_EVENT_ID.encode(), last_event_id.encode()))
        return await self._client.request(
            b"GET", self.url, await self._headers_now(headers), repeatable=True, urgent=True
        )

    async def delete(self) -> None:
        """Tell the server that the session is done with. Any answer will do."""
        if self._id is None or self.over:
            return
        self.over = True
        try:
            headers = await self._headers_now([*self._headers(), *self._own_headers])
            exchange = await self._client.request(
                b"DELETE", self.url, headers, repeatable=True, urgent=True
            )
            exchange.close()
            if exchange.status not in (404, 405) and not 200 <= exchange.status < 300:
                logger.debug("ending the session was answered with HTTP %d", exchange.status)
        except McpError as error:
            logger.debug("ending the session failed: %s", error)

    async def aclose(self) -> None:
        await self._client.aclose()

    def _make_post_headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"Content-Type", JSON.encode()),
            (b"Accept", f"{JSON}, {EVENT_STREAM}".encode()),
            *self._headers(),
            *self._own_headers,
        ]

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = []
        if self._id is not None:
            headers.append((SESSION_ID.encode(), self._id.encode("latin-1")))
        if self.revision is not None and self.revision.version_header:
            headers.append((PROTOCOL_VERSION.encode(), str(self.revision).encode()))
        return headers

    async def _headers_now(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        if self.server.headers_for is None:
            return headers
        return headers + await self.server.fresh_headers()

    # Refusals.

    def gone(self, exchange: Exchange) -> bool:
        """Whether a stream is refused because there is no such session (any more). Then it is over."""
        if exchange.status != 404 or self._id is None:
            return False
        self.over = True
        return True

    def refused(self, exchange: Exchange, body: bytes, message: object) -> McpError:
        """What it means that a message was refused with this body, which may be a message itself."""
        error = refusal(exchange, meaning(exchange), body)
        if self._id is None or not _says_session_is_over(exchange, message):
            return error
        self.over = True
        return SessionEnded(f"{self.url}: {OVER}", delivered=False, answer=error)

    async def error(self, exchange: Exchange, problem: str) -> HttpError:
        return refusal(exchange, problem, await exchange.excerpt(EXCERPT))


def _says_session_is_over(exchange: Exchange, message: object) -> bool:
    """404 says so. A widespread example of a server says it by 400, with an error that names the session;
    and a 401 that asks for nothing, of a server that was content so far, mostly comes from one that was
    started anew.
    """
    if exchange.status == 400 and isinstance(message, ErrorResponse):
        return "session" in message.error.message.lower()
    if exchange.status == 401:
        return exchange.header(b"www-authenticate") is None
    return exchange.status == 404
