"""A recorded conversation, put into the terms in which rules speak.

Who said what in which order; which response belongs to which request; which revision governs a message;
what either side declared. All of it is worked out from the messages alone, so that a recording of
strangers can be read as well as one of the suite's own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .. import revisions
from ..transcript import UNREADABLE, Entry

META = "io.modelcontextprotocol/"


@dataclass(slots=True)
class Told:
    """One JSON-RPC message (a batch gives several). ``request`` is what a response answers, if it was
    seen.
    """

    entry: Entry
    message: Any
    position: int
    in_batch: bool = False
    request: "Told | None" = None
    response: "Told | None" = None
    revision: str | None = None

    @property
    def sender(self) -> str:
        """``client`` or ``server``."""
        return self.entry.sender

    @property
    def stream(self) -> str:
        """Where it crossed; a pipe has one stream in each direction."""
        return self.entry.stream

    @property
    def kind(self) -> str:
        """``request``, ``response``, ``notification`` or ``other``."""
        if not isinstance(self.message, dict):
            return "other"
        if "method" in self.message:
            return "request" if "id" in self.message else "notification"
        return "response" if "result" in self.message or "error" in self.message else "other"

    @property
    def method(self) -> str | None:
        """The method of a request or notification, or that of the request which a response answers."""
        if self.kind == "response":
            return self.request.method if self.request else None
        method = self.message.get("method") if isinstance(self.message, dict) else None
        return method if isinstance(method, str) else None

    @property
    def params(self) -> dict[str, Any]:
        """The params, or an empty object."""
        params = self.message.get("params") if isinstance(self.message, dict) else None
        return params if isinstance(params, dict) else {}

    @property
    def meta(self) -> dict[str, Any]:
        """``params._meta``, or an empty object."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def result(self) -> Any:
        """The result of a response, or None."""
        return self.message.get("result") if isinstance(self.message, dict) else None

    @property
    def stateless(self) -> bool:
        """Whether a revision without a handshake governs this message."""
        return self.revision is not None and revisions.is_stateless(self.revision)

    def since(self, first: str) -> bool:
        """Whether the governing revision is ``first`` or later; not so while none is known."""
        return self.revision in revisions.ALL and revisions.since(str(self.revision), first)


def identity(value: Any) -> Any:
    """Something hashable that tells ids apart by value and JSON type."""
    return (
        type(value).__name__,
        value if isinstance(value, str | int | float | bool | None) else repr(value),
    )


@dataclass
class Story:
    """A conversation. ``told`` has every message in order; ``entries`` all that was recorded."""

    entries: list[Entry]
    told: list[Told] = field(default_factory=list)

    def __post_init__(self) -> None:
        for entry in self.entries:
            if entry.kind != "message":
                continue
            message = entry.message
            parts = message if isinstance(message, list) else [message]
            self.told += [
                Told(entry, part, len(self.told) + index, isinstance(message, list))
                for index, part in enumerate(parts)
            ]
        self._pair()
        self._govern()

    def _pair(self) -> None:
        open_requests: dict[tuple[str, Any], Told] = {}
        for told in self.told:
            if told.kind == "request":
                open_requests[told.sender, identity(told.message["id"])] = told
            elif told.kind == "response" and "id" in told.message:
                other = "server" if told.sender == "client" else "client"
                request = open_requests.get((other, identity(told.message["id"])))
                if request is not None:
                    told.request = request
                    if request.response is None:
                        request.response = told

    def _govern(self) -> None:
        agreed: str | None = None
        for told in self.told:
            if told.kind == "request" and isinstance(told.meta.get(f"{META}protocolVersion"), str):
                told.revision = told.meta[f"{META}protocolVersion"]
            elif told.kind == "response" and told.request is not None and told.request.stateless:
                told.revision = told.request.revision
            elif (
                told.kind == "response"
                and told.method == "initialize"
                and isinstance(told.result, dict)
            ):
                version = told.result.get("protocolVersion")
                agreed = version if isinstance(version, str) else agreed
                told.revision = agreed
                if told.request is not None:
                    told.request.revision = agreed
            else:
                told.revision = agreed
        if agreed is None:
            era = next((told.revision for told in self.told if told.stateless), None)
            for told in self.told:
                told.revision = told.revision or era

    def said(
        self, *, by: str = "", kind: str = "", method: str | Iterable[str] = ""
    ) -> Iterator[Told]:
        """Messages by sender, kind and method; what is left empty does not matter."""
        methods = {method} if isinstance(method, str) and method else set(method)
        for told in self.told:
            if by not in ("", told.sender) or kind not in ("", told.kind):
                continue
            if not methods or told.method in methods:
                yield told

    def results(self, method: str | Iterable[str] = "") -> Iterator[Told]:
        """Responses with a result that is an object, and whose request was seen."""
        for told in self.said(kind="response", method=method):
            if told.request is not None and isinstance(told.result, dict):
                yield told

    @cached_property
    def unreadable(self) -> list[Entry]:
        """Entries that should be messages and are no JSON."""
        return [
            entry
            for entry in self.entries
            if entry.kind == "message" and entry.message is UNREADABLE
        ]

    def capabilities(self, side: str, at: Told | None = None) -> dict[str, Any] | None:
        """What a side has declared, by the message ``at``; None while nothing is known."""
        if side == "client":
            if at is not None and at.stateless:
                request = at if at.kind == "request" else at.request
                declared = request.meta.get(f"{META}clientCapabilities") if request else None
            else:
                opening = next(self.said(kind="request", method="initialize"), None)
                declared = opening.params.get("capabilities") if opening else None
        else:
            answers = (told for told in self.results(("initialize", "server/discover")))
            opening = next(answers, None)
            declared = opening.result.get("capabilities") if opening else None
        return declared if isinstance(declared, dict) else None
