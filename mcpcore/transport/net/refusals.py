"""What an HTTP answer means that is none to the request, in words that a person can act on."""

from __future__ import annotations

import http

from mcpcore import jsonrpc
from mcpcore.errors import HttpError
from mcpcore.protocol.headers import joined
from mcpcore.transport.net.exchange import Exchange
from mcpcore.transport.net.url import resolve


def refusal(exchange: Exchange, problem: str, body: bytes) -> HttpError:
    """The error for an answer: what the problem is, where, and how its body begins."""
    return HttpError(
        problem,
        status=exchange.status,
        url=str(exchange.url),
        excerpt=jsonrpc.excerpt(body),
        headers=joined(exchange.headers),
    )


def meaning(exchange: Exchange) -> str:
    """What an HTTP status says, and what to do about it."""
    try:
        phrase = http.HTTPStatus(exchange.status).phrase
    except ValueError:
        phrase = ""
    said = f"HTTP {exchange.status} {phrase}".rstrip()
    location = exchange.header(b"location")
    if 300 <= exchange.status < 400 and location is not None:
        try:
            target = str(resolve(exchange.url, location))
        except ValueError:
            target = "somewhere else"
        return f"{said}: the server is at {target}; connect to that"
    hints = {
        401: "; credentials are needed: headers={'Authorization': ...}",
        403: "; the credentials do not suffice, or the server does not serve this origin",
        404: "; is this the endpoint's path?",
        405: "; is this the endpoint's path, and does it speak Streamable HTTP?",
    }
    after = exchange.header(b"retry-after")
    if after is not None and exchange.status in (429, 503):
        # Seconds, or a date: it is passed on as it is, but for what a terminal should not see.
        return f"{said}; the server asks to come back later: Retry-After is {after[:40]!r}"
    return said + hints.get(exchange.status, "")
