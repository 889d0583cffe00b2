"""Which era a server is of, and how a client finds out.

A client that speaks both begins with `server/discover`, a request that does no harm anywhere: a server of
the stateless era answers it, or says by an error of that era what it wants; whatever else comes back, or
nothing for a while, is a server of the handshake era, and initialize follows. What says nothing about the
era, such as a server that is down or wants a password, is told to the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from mcpcore import __version__, codec
from mcpcore import types as t
from mcpcore.client.answers import Answers
from mcpcore.errors import (
    HttpError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    VersionMismatch,
)
from mcpcore.protocol.terms import SERVER_INFO, Terms
from mcpcore.revisions import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_VERSION,
    Revision,
)
from mcpcore.runtime import Runtime

logger = logging.getLogger("mcpcore.client")

PROBE = 5.0
"""Seconds that a server on a pipe may be silent before that means the handshake era."""

_OF_THE_ERA = (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION)
"""Errors that no server of the handshake era gives (VERS26-11)."""

_NO_SUCH_ENDPOINT = (400, 404, 405, 406, 415)
"""HTTP statuses by which a server of the handshake era refuses what it does not know."""


class ServerFacts(msgspec.Struct, frozen=True):
    """What a server told of itself, whichever way."""

    info: t.Implementation
    capabilities: t.ServerCapabilities
    instructions: str | None = None


def terms_for(
    revision: Revision,
    *,
    answers: Answers,
    info: t.Implementation | None,
    log_level: str | None,
) -> Terms:
    """What a client says of each of its requests."""
    declared = codec.fit_capabilities(answers.capabilities(), revision)
    if declared.roots is not None:
        # Nobody could be told that they changed.
        declared = msgspec.structs.replace(declared, roots=t.ListChanged())
    return Terms(revision, declared, info or t.Implementation("mcpcore", __version__), log_level)


async def discover(
    runtime: Runtime,
    spoken: Sequence[Revision],
    make_terms: Callable[[Revision], Terms],
    *,
    seconds: float,
    fall_back: bool,
) -> ServerFacts | None:
    """Ask a server what it is; None if it is of the handshake era.

    `make_terms` gives what requests say in a revision; `spoken` are the revisions of the stateless era that
    the client speaks, newest first; `seconds` is how long silence may last before it means the other era,
    where a client can `fall_back` to that. Raises `VersionMismatch`, `ConnectionLost` or `HttpError` for
    what says nothing about the era, and without anything to fall back to whatever there was.
    """
    revision = spoken[0]
    for last in (False, True):
        runtime.connection.propose(make_terms(revision))
        try:
            raw = await runtime.request("server/discover", t.Params(), seconds=seconds)
            result = codec.decode(raw, t.DiscoverResult, [])
        except RequestFailed as error:
            if error.code not in _OF_THE_ERA:
                if not fall_back:
                    _give_up(error, spoken)
                break
            other = _mutual(error, spoken)
            if other is None or last:
                if (
                    fall_back
                    and other is None
                    and _names_another(error, runtime.connection.revisions)
                ):
                    break
                raise _mismatch(error, spoken) from error
            revision = other
            continue
        except (HttpError, RequestTimeout, RemoteProtocolError, msgspec.ValidationError) as error:
            if isinstance(error, HttpError) and error.status not in _NO_SUCH_ENDPOINT:
                raise
            if not fall_back:
                _give_up(error, spoken)
            break
        return _settle(runtime, result, spoken, revision, fall_back=fall_back)
    runtime.connection.propose(None)
    return None


def _settle(
    runtime: Runtime,
    result: t.DiscoverResult,
    spoken: Sequence[Revision],
    asked: Revision,
    *,
    fall_back: bool,
) -> ServerFacts | None:
    """Take the newest revision that both speak."""
    theirs = result.supported_versions
    revision = next((row for row in spoken if row.name in theirs), None)
    if revision is None:
        if fall_back and any(row.name in theirs for row in runtime.connection.revisions):
            # It says itself that another way is wanted.
            runtime.connection.propose(None)
            return None
        raise VersionMismatch([str(row) for row in spoken], theirs)
    connection = runtime.connection
    if revision is not asked:
        assert connection.own_terms is not None
        connection.propose(msgspec.structs.replace(connection.own_terms, revision=revision))
    connection.adopt(revision, result.capabilities)
    info = (result.meta or {}).get(SERVER_INFO)
    try:
        known = msgspec.convert(info, t.Implementation)
    except msgspec.ValidationError:
        known = t.Implementation("", "")
    return ServerFacts(known, result.capabilities, result.instructions)


def _supported(error: RequestFailed) -> list[str]:
    names = error.data.get("supported") if isinstance(error.data, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _mutual(error: RequestFailed, spoken: Sequence[Revision]) -> Revision | None:
    if error.code != UNSUPPORTED_VERSION:
        return None
    return next((row for row in spoken if row.name in _supported(error)), None)


def _names_another(error: RequestFailed, spoken: Sequence[Revision]) -> bool:
    return any(row.name in _supported(error) for row in spoken)


def _give_up(error: Exception, spoken: Sequence[Revision]) -> NoReturn:
    """A server that does not know how this era begins, for a client that knows no other (COMPAT-02)."""
    if isinstance(error, msgspec.ValidationError):
        raise RemoteProtocolError(f"the answer to server/discover: {error}", "DISC-03") from None
    # Other statuses may mean that the URL is wrong.
    if isinstance(error, RequestFailed) or (isinstance(error, HttpError) and error.status == 400):
        answer = f"HTTP {error.status}" if isinstance(error, HttpError) else str(error)
        reason = (
            f"the peer answered server/discover with {answer!r}, as a server of an earlier revision "
            "does"
        )
        raise VersionMismatch([str(row) for row in spoken], [], reason) from error
    raise error


def _mismatch(error: RequestFailed, spoken: Sequence[Revision]) -> Exception:
    if error.code == UNSUPPORTED_VERSION:
        return VersionMismatch([str(row) for row in spoken], _supported(error))
    return error
