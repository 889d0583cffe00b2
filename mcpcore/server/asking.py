"""A request whose function may ask its client: how it is served in either era.

The primitive is that of the stateless era: a run of the function ends with its result, or with questions.
There the questions are the answer to the request. In the handshake era they are put to the client on the
spot, and the function is run again, which is how one that deals with rounds by hand is served there; one
that asks by `Context.elicit` and its like waits for the answer instead, and runs once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from mcpcore import types as t
from mcpcore.errors import CapabilityMissing, RequestFailed
from mcpcore.jsonrpc import INTERNAL_ERROR, Request, RequestId
from mcpcore.server.rounds import Round, Rounds, as_question
from mcpcore.server.sealing import Binding, digest


class Asked(msgspec.Struct, frozen=True):
    """What a request says, as far as its rounds are concerned. `target` is what it is about, `arguments`
    what with, as JSON values.
    """

    request: Request
    target: str
    arguments: Any
    responses: Mapping[str, Any] | None
    state: str | None


Call = Callable[[Round], Awaitable[Any]]
"""Runs the function once, in a round."""

Put = Callable[[str, Any, RequestId], Awaitable[Raw]]
"""Puts a question, by method and params, to the client of a request."""


async def in_rounds(
    asked: Asked,
    call: Call,
    rounds: Rounds,
    *,
    audience: str,
    principal: Any,
    capabilities: t.ClientCapabilities,
) -> Any:
    """Serve a request that stands alone: its result, or `InputRequiredResult`."""
    binding = Binding(
        asked.request.method,
        asked.target,
        digest(asked.arguments),
        audience,
        _digest_of(principal),
    )
    round = await rounds.begin(binding, asked.state, asked.responses)
    return await rounds.run(binding, round, lambda: call(round), capabilities)


async def at_once(asked: Asked, call: Call, put: Put, max_rounds: int) -> Any:
    """Serve a request of a session: questions that the function gives are put to the client here."""
    round = Round()
    for _ in range(max_rounds):
        result = await call(round)
        if not isinstance(result, t.InputRequiredResult):
            return result
        answers = {}
        for key, question in (result.input_requests or {}).items():
            whole = as_question(question)
            params = {} if whole.params is None else whole.params
            try:
                raw = await put(whole.method, params, asked.request.id)
            except (RequestFailed, CapabilityMissing) as error:
                raise RequestFailed(
                    INTERNAL_ERROR, f"the client refused {key!r}: {error}"
                ) from error
            answers[key] = msgspec.json.decode(raw)
        round = Round(round.number + 1, answers=answers, state=result.request_state)
    raise RequestFailed(INTERNAL_ERROR, f"Internal error: asked {max_rounds} times")


def _digest_of(principal: Any) -> str:
    """The same for the same principal, in every process."""
    if principal is None:
        return ""
    try:
        return digest(principal)
    except (TypeError, ValueError):
        return hashlib.sha256(repr(principal).encode()).hexdigest()
