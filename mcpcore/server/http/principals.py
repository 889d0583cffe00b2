"""Who makes a request.

`authenticate` of a server is a function from the request to a principal: any object that stands for the
user, compared by `==`, or None for nobody. It may be async. A session belongs to the principal that opened
it and to no one else, and every request is asked anew: the id of a session proves nothing (SEC-01).
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcpcore.transport.http import HttpRequest

Authenticate = Callable[[HttpRequest], Any | Awaitable[Any]]


def bearer_tokens(tokens: Mapping[str, Any]) -> Authenticate:
    """Authenticates by `Authorization: Bearer ...`: `tokens` gives the principal of each token.

    The time it takes tells nothing of the tokens.
    """
    if not tokens or any(len(token) < 16 for token in tokens):
        raise ValueError("give at least one token, each of 16 characters or more")
    known = [(token.encode(), principal) for token, principal in tokens.items()]
    if any(principal is None for _, principal in known):
        raise ValueError("None is nobody: give each token a principal")

    def authenticate(request: HttpRequest) -> Any:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip().encode() if scheme.lower() == "bearer" else b""
        found = None
        for expected, principal in known:
            if hmac.compare_digest(given, expected):
                found = principal
        return found

    return authenticate
