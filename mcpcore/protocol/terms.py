"""Requests that stand alone: what each says of itself in its `_meta`, and what then holds for it.

In the stateless era nothing is agreed on beforehand. Every request names its revision and what its client
can do; nothing is remembered from one to the next, so two requests on one connection may differ in both
(STATE26-01). The server says nothing of itself before it is asked either: `server/discover` is a request
like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from mcpcore import types as t
from mcpcore.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Request
from mcpcore.protocol.gate import Declared, Gate
from mcpcore.revisions import UNSUPPORTED_VERSION, Revision

PREFIX = "io.modelcontextprotocol/"
REVISION = PREFIX + "protocolVersion"
CLIENT_CAPABILITIES = PREFIX + "clientCapabilities"
CLIENT_INFO = PREFIX + "clientInfo"
LOG_LEVEL = PREFIX + "logLevel"
SERVER_INFO = PREFIX + "serverInfo"
SUBSCRIPTION_ID = PREFIX + "subscriptionId"

MARK = REVISION.encode()
"""What no request of a session holds, unless by accident."""


_KNOWN, _LONGEST_KNOWN, _TOKEN = 100, 4096, b"progressToken"
"""How many terms a server remembers by the bytes that said them, up to which length; those with a token for
progress are said once only."""


class Terms(msgspec.Struct, frozen=True):
    """What holds for one request. `log_level` is None for a client that wants no log messages."""

    revision: Revision
    capabilities: t.ClientCapabilities
    info: t.Implementation | None = None
    log_level: str | None = None

    def meta(self) -> dict[str, Any]:
        """What a client says of a request by its `_meta`."""
        meta: dict[str, Any] = {
            REVISION: str(self.revision),
            CLIENT_CAPABILITIES: self.capabilities,
        }
        if self.info is not None:
            meta[CLIENT_INFO] = self.info
        if self.log_level is not None:
            meta[LOG_LEVEL] = self.log_level
        return meta


class Unacceptable(msgspec.Struct, frozen=True):
    """Why a request that stands alone is not served: the error to answer with, and the broken rule."""

    code: int
    error: str
    rule: str
    data: dict[str, Any] | None = None


class _Meta(msgspec.Struct):
    revision: Any = msgspec.field(default=UNSET, name=REVISION)
    capabilities: Any = msgspec.field(default=UNSET, name=CLIENT_CAPABILITIES)
    info: Any = msgspec.field(default=None, name=CLIENT_INFO)
    log_level: Any = msgspec.field(default=None, name=LOG_LEVEL)


class _Typed(msgspec.Struct):
    """As `_Meta`, for the usual case in which everything is as it should be."""

    revision: str = msgspec.field(name=REVISION)
    capabilities: t.ClientCapabilities = msgspec.field(name=CLIENT_CAPABILITIES)
    info: t.Implementation | None = msgspec.field(default=None, name=CLIENT_INFO)
    log_level: str | None = msgspec.field(default=None, name=LOG_LEVEL)


class _Params(msgspec.Struct):
    meta: _Meta | None = msgspec.field(default=None, name="_meta")


class _TypedParams(msgspec.Struct):
    meta: _Typed = msgspec.field(name="_meta")


class _RawParams(msgspec.Struct):
    meta: Raw = msgspec.field(name="_meta")


_read = msgspec.json.Decoder(_Params).decode
_read_raw = msgspec.json.Decoder(_RawParams).decode
_read_typed = msgspec.json.Decoder(_TypedParams).decode


def named_revision(request: Request, frame: bytes) -> str | None:
    """The revision that a request names in its `_meta`; None if it names none, or not by a string."""
    named = _named(request, frame)
    return named if isinstance(named, str) else None


def _named(request: Request, frame: bytes) -> Any:
    """What a request has in the place of its revision; UNSET if nothing is there."""
    if frame.find(MARK) < 0 or request.params is UNSET:
        return UNSET
    try:
        meta = _read(request.params).meta
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNSET
    return meta.revision if meta is not None else UNSET


class Standing:
    """A server's judgement of requests that stand alone, one for all its connections.

    `revisions` are those of the stateless era that it speaks; `capabilities` tells what the server can do
    at the moment; `stamp` goes into the `_meta` of its results.
    """

    def __init__(
        self,
        revisions: tuple[Revision, ...],
        capabilities: Callable[[], t.ServerCapabilities],
        stamp: Mapping[str, Any] | None = None,
    ) -> None:
        self.revisions = revisions
        # It goes into each result, so it is written once.
        self.stamp = {key: Raw(msgspec.json.encode(value)) for key, value in (stamp or {}).items()}
        self._capabilities = capabilities
        self._gates: dict[Revision, tuple[Gate, Gate]] = {}
        # A client says the same of nearly all its requests.
        self._known: dict[bytes, Terms] = {}

    def at_once(self, request: Request) -> Terms | None:
        """The terms of a request like others before: its `_meta` is known, and its method was found open."""
        try:
            terms = self._known.get(bytes(_read_raw(request.params).meta))
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            return None
        if terms is None or request.method not in self._gates_of(terms.revision)[0].open:
            return None
        return terms

    def concerns(self, request: Request, frame: bytes) -> bool:
        """Whether a request says that it stands alone, be it with a revision that is none."""
        if frame.find(MARK) < 0:
            return False
        try:
            if bytes(_read_raw(request.params).meta) in self._known:
                return True
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            return False
        return _named(request, frame) is not UNSET

    def changed(self) -> None:
        """The server can do something else now."""
        self._gates.clear()

    def judge(self, request: Request) -> Terms | Unacceptable:
        """The terms of a request, if it can be served: first its `_meta`, then its revision, then its
        method (AMB-04: no order is prescribed).
        """
        if request.method == "initialize":
            return self._no_handshake()
        terms = self._read(request.params)
        if isinstance(terms, Unacceptable):
            return terms
        inbound, _ = self._gates_of(terms.revision)
        if request.method not in inbound.open:
            verdict = inbound.judge(request.method, request=True)
            if not verdict.open:
                error = f"Method not found: {request.method}"
                if verdict.missing:
                    error += f" (needs the capability {verdict.missing}, which was not declared)"
                return Unacceptable(METHOD_NOT_FOUND, error, "HTTP26-24")
        return terms

    def _no_handshake(self) -> Unacceptable:
        """What a client learns that opens a session, with whatever terms (VERS26-09, VERS26-10)."""
        names = [str(row) for row in self.revisions]
        error = (
            "Method not found: initialize; there is no handshake in the revisions spoken here: "
            f"{', '.join(names)}"
        )
        return Unacceptable(METHOD_NOT_FOUND, error, "VERS26-10", {"supported": names})

    def _read(self, params: Any) -> Terms | Unacceptable:
        try:
            raw = bytes(_read_raw(params).meta)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            raw = b""
        terms: Terms | Unacceptable | None = self._known.get(raw)
        if terms is None:
            terms = self._read_anew(params)
            if isinstance(terms, Terms) and len(raw) <= _LONGEST_KNOWN and _TOKEN not in raw:
                if len(self._known) >= _KNOWN:
                    self._known.clear()
                self._known[raw] = terms
        return terms

    def _read_anew(self, params: Any) -> Terms | Unacceptable:
        try:
            meta: Any = _read_typed(params).meta
            revision, capabilities, info = meta.revision, meta.capabilities, meta.info
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            read = self._read_slowly(params)
            if isinstance(read, Unacceptable):
                return read
            meta, (revision, capabilities, info) = read
        row = next((row for row in self.revisions if row.name == revision), None)
        if row is None:
            return Unacceptable(
                UNSUPPORTED_VERSION,
                f"Unsupported protocol version {revision[:40]!r}",
                "VERS26-02",
                {"supported": [str(row) for row in self.revisions], "requested": revision},
            )
        if meta.log_level is not None and meta.log_level not in t.LOGGING_LEVELS:
            levels = ", ".join(t.LOGGING_LEVELS)
            return _invalid(f"{LOG_LEVEL} is one of {levels}", "LOG26-09")
        return Terms(row, capabilities, info, meta.log_level)

    def _read_slowly(self, params: Any) -> tuple[_Meta, tuple[Any, ...]] | Unacceptable:
        """Find out what is wrong, or forgive it: a flag that is true, an info that is null."""
        try:
            meta = None if params is UNSET else _read(params).meta
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _invalid("_meta is no object", "META26-04")
        if meta is None:
            return _invalid(f"the request needs _meta with {REVISION} and {CLIENT_CAPABILITIES}")
        for name, value, kind in (
            (REVISION, meta.revision, str),
            (CLIENT_CAPABILITIES, meta.capabilities, dict),
        ):
            if value is UNSET:
                return _invalid(f"the request needs {name} in its _meta")
            if not isinstance(value, kind):
                return _invalid(f"{name} is of the wrong type", "META26-07")
        capabilities = {
            name: {} if value is True else value
            for name, value in meta.capabilities.items()
            if value is not None and value is not False
        }
        try:
            declared = msgspec.convert(capabilities, t.ClientCapabilities)
            info = msgspec.convert(meta.info, t.Implementation | None)
        except msgspec.ValidationError as error:
            return _invalid(f"_meta: {error}", "META26-07")
        return meta, (meta.revision, declared, info)

    def outbound(self, terms: Terms) -> Gate:
        """What may be said on account of a request."""
        return self._gates_of(terms.revision)[1]

    def _gates_of(self, revision: Revision) -> tuple[Gate, Gate]:
        gates = self._gates.get(revision)
        if gates is None:
            # What a client can do decides about none of its requests, and about no notification.
            declared = Declared(t.ClientCapabilities(), self._capabilities())
            gates = Gate("client", revision, declared), Gate("server", revision, declared)
            self._gates[revision] = gates
        return gates


def _invalid(problem: str, rule: str = "META26-04") -> Unacceptable:
    return Unacceptable(INVALID_PARAMS, f"Invalid params: {problem}", rule)


def with_terms(params: Any, meta: Mapping[str, Any]) -> Any:
    """The params with the terms of a client in their `_meta`, beside what else is there."""
    if params is UNSET:
        return {"_meta": meta}
    if isinstance(params, dict):
        return params | {"_meta": {**params.get("_meta", {}), **meta}}
    return msgspec.structs.replace(params, meta={**(params.meta or {}), **meta})
