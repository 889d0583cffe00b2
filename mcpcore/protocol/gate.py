"""What may cross: method by method, for one revision, one direction and the declared capabilities.

The rows of `mcpcore.revisions` say which methods exist and what they rest on; a gate is those rows
narrowed down to one connection. It is made anew when the revision and the capabilities are agreed.
"""

from __future__ import annotations

import msgspec

from mcpcore import types as t
from mcpcore.revisions import Method, Revision, Role, is_known, method_row


class Declared(msgspec.Struct, frozen=True):
    """What both sides said they can do."""

    client: t.ClientCapabilities
    server: t.ServerCapabilities

    def missing(self, row: Method, *, answering: Role) -> str | None:
        """The capability that `row` needs and nobody declared; None if nothing is missing.

        A request rests on the capabilities of the side that answers it. A notification names in its
        row the side whose capability it rests on.
        """
        if row.is_request:
            needs_server, needs_client = answering == "server", answering == "client"
        else:
            needs_server = needs_client = True
        if (
            needs_server
            and row.server_capability
            and not _is_on(self.server, row.server_capability)
        ):
            return row.server_capability
        if (
            needs_client
            and row.client_capability
            and not _is_on(self.client, row.client_capability)
        ):
            return row.client_capability
        return None


def _is_on(capabilities: msgspec.Struct, path: str) -> bool:
    """Whether a dotted path is on: present as an object, `{}` included, or a flag that is true."""
    value: object = capabilities
    for member in path.split("."):
        if isinstance(value, msgspec.Struct):
            names = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
            value = getattr(value, names[member], None)
        else:
            value = value.get(member) if isinstance(value, dict) else None
        if value is None or value is False:
            return False
    return True


class Verdict(msgspec.Struct, frozen=True):
    """What the gate says of a method: its row, and what speaks against sending it."""

    row: Method | None = None
    unknown: bool = False
    """No revision knows it: an extension, or a method of the future."""
    missing: str | None = None
    """The capability that was not declared."""
    open: bool = False
    """Nothing speaks against it."""


class Gate:
    """Judges the methods that `sender` sends in `revision`."""

    def __init__(self, sender: Role, revision: Revision, declared: Declared) -> None:
        self._sender: Role = sender
        self._answering: Role = "server" if sender == "client" else "client"
        self._revision = revision
        self._declared = declared
        self._verdicts: dict[tuple[str, bool], Verdict] = {}
        self.open: dict[str, None] = {}
        """The requests that were found open so far, for whoever asks often. A set, as the keys of a dict: of
        the two gates one stays empty, and an empty dict is small."""

    def judge(self, method: str, *, request: bool) -> Verdict:
        """Judge `method` as a request, or as a notification."""
        verdict = self._verdicts.get((method, request))
        if verdict is None:
            verdict = self._decide(method, request=request)
            # A peer may make up methods without end; only those of the tables are remembered.
            if not verdict.unknown:
                self._verdicts[method, request] = verdict
                if verdict.open and request:
                    self.open[method] = None
        return verdict

    def _decide(self, method: str, *, request: bool) -> Verdict:
        row = method_row(method, self._sender, self._revision)
        if row is None:
            return Verdict(unknown=not is_known(method))
        if row.is_request is not request:
            return Verdict()
        missing = self._declared.missing(row, answering=self._answering)
        return Verdict(row, missing=missing, open=missing is None)
