"""Requests that a server of the stateless era answers with questions: asked again with the answers.

The same functions answer as in the handshake era, those of one round side by side. The request is then
made anew, with what the server gave to be given back exactly as it came, until it has its result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import trio
from msgspec import UNSET, Raw

from mcpcore import codec
from mcpcore import types as t
from mcpcore.client.answers import Answers
from mcpcore.errors import RemoteProtocolError, RequestFailed, Unanswered
from mcpcore.jsonrpc import Request
from mcpcore.protocol.connection import Connection
from mcpcore.runtime import single

MAX_ROUNDS = 10
"""How often one request is answered with questions before it is given up."""

PAUSE, LONGEST_PAUSE = 0.05, 0.25
"""Seconds before a request is made anew whose answer had no question in it: doubled each time."""

Send = Callable[[Any], Awaitable[Raw]]
"""Sends the request with other params; gives the raw result."""


class _Kind(msgspec.Struct, rename="camel"):
    result_type: Any = None


_kind_of = msgspec.json.Decoder(_Kind).decode


class Asker(msgspec.Struct, frozen=True):
    """Who answers the questions of a server: the functions, and the seconds that one may take."""

    answers: Answers
    seconds: float
    max_rounds: int


def asks(raw: Raw) -> bool:
    """Whether a result is questions. Raises `RemoteProtocolError` for one that is of no known kind."""
    if bytes(raw).find(b'"resultType"') < 0:
        return False
    try:
        kind = _kind_of(raw).result_type
    except msgspec.DecodeError:
        return False
    if kind is None or kind == "complete":
        return False
    if kind != "input_required":
        raise RemoteProtocolError(f"the result is of an unknown type: {kind!r:.60}", "RT-06")
    return True


async def drive(
    raw: Raw, method: str, params: Any, send: Send, asker: Asker, connection: Connection
) -> Raw:
    """Answer questions until there is a result. Raises `Unanswered` when a function does not answer, and
    `RemoteProtocolError` when there is no end to the questions.
    """
    pause = PAUSE
    for _ in range(asker.max_rounds):
        try:
            asked = codec.decode(raw, t.InputRequiredResult)
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(f"the questions cannot be read: {error}", "MRTR-05") from None
        responses: Any = None
        if asked.input_requests:
            responses = await _answer(asked.input_requests, asker, connection)
        else:
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        raw = await send(_with_answers(params, responses, asked.request_state))
        if not asks(raw):
            return raw
    raise RemoteProtocolError(
        f"{method} was answered with questions {asker.max_rounds} times in a row "
        "(max_rounds= allows more)",
        "MRTR-44",
    )


async def _answer(
    questions: Mapping[str, Any], asker: Asker, connection: Connection
) -> dict[str, Any]:
    """The answers to the questions of one round, by key."""
    answers: dict[str, Any] = {}
    revision = connection.revision
    assert revision is not None

    async def one(key: str, question: Any) -> None:
        method = question.get("method") if isinstance(question, dict) else None
        if not isinstance(method, str):
            raise RemoteProtocolError(f"the question {key!r} is none", "MRTR-07")
        params = Raw(msgspec.json.encode(question["params"])) if "params" in question else UNSET
        request = Request(key, method, params)
        try:
            with trio.fail_after(asker.seconds):
                result = await asker.answers.answer(request, connection.client_capabilities)
        except trio.TooSlowError:
            raise Unanswered(key, method, "nobody answered in time") from None
        except RequestFailed as error:
            raise Unanswered(key, method, error.message) from error
        except Exception as error:
            raise Unanswered(key, method, f"the function that answers raised {error!r}") from error
        answers[key] = codec.fit(result, revision)

    try:
        async with trio.open_nursery() as nursery:
            for key, question in questions.items():
                nursery.start_soon(one, key, question)
    except BaseExceptionGroup as group:
        failures = group.subgroup((Unanswered, RemoteProtocolError))
        first: BaseException = failures if failures is not None else group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if failures is None:
            raise single(group) from None
        raise first from None
    return answers


def _with_answers(params: Any, responses: Any, state: str | None) -> Any:
    if isinstance(params, dict):
        members = {"inputResponses": responses, "requestState": state}
        return params | {name: value for name, value in members.items() if value is not None}
    return msgspec.structs.replace(params, input_responses=responses, request_state=state)
