"""What the two sides of a connection agreed on, and how they come to agree.

The client offers a revision with initialize, the server answers with one that it speaks, the client
says initialized. Each step is looked at before it is written (`check_...`, which raise) and noted once
it was (the methods named after what happened), so that a message that cannot be written moves nothing.
"""

from __future__ import annotations

from typing import Any

from mcpcore import codec
from mcpcore import types as t
from mcpcore.errors import CapabilityMissing, LocalProtocolError
from mcpcore.protocol.gate import Declared, Gate
from mcpcore.protocol.lifecycle import State, Step, allows, move
from mcpcore.revisions import Revision, Role


class Agreement:
    """The state of a session, the agreed revision, the capabilities and the gates they make."""

    def __init__(self, role: Role, revisions: tuple[Revision, ...]) -> None:
        self.role: Role = role
        self.other: Role = "server" if role == "client" else "client"
        self.revisions = revisions
        self.state = State.FRESH
        self.revision: Revision | None = None
        self.writing = revisions[0]
        """The revision to write messages in: the agreed one, or before that the newest of ours."""
        self.peer: t.InitializeParams | t.InitializeResult | None = None
        self.declared = Declared(t.ClientCapabilities(), t.ServerCapabilities())
        self.outbound: Gate | None = None
        self.inbound: Gate | None = None
        self._offer: t.InitializeParams | None = None

    def spoken(self, name: str) -> Revision | None:
        """The row of the revision called `name`, if this side speaks it."""
        return next((row for row in self.revisions if row.name == name), None)

    # The client's initialize.

    def check_offer(self, params: Any) -> Revision:
        """The revision that `params` offer. Raises `LocalProtocolError` if this side must not."""
        if not isinstance(params, t.InitializeParams):
            raise LocalProtocolError("initialize takes InitializeParams")
        self._check(self.role, "initialize")
        return self._check_spoken(params.protocol_version)

    def offered(self, params: t.InitializeParams) -> None:
        """We sent initialize."""
        self._offer = params
        self._move(self.role, "initialize")

    def can_receive_offer(self) -> bool:
        return self.role == "server" and move(self.state, "client", "initialize") is not None

    def received_offer(self, params: t.InitializeParams) -> None:
        """The client sent initialize."""
        self.peer = params
        self._move("client", "initialize")

    # The server's answer.

    def check_answer(self, result: Any) -> Revision:
        """The revision that `result` answers with. Raises `LocalProtocolError`."""
        if not isinstance(result, t.InitializeResult):
            raise LocalProtocolError("initialize is answered with InitializeResult")
        return self._check_spoken(result.protocol_version)

    def answered(self, revision: Revision, result: t.InitializeResult) -> None:
        """We answered initialize."""
        assert isinstance(self.peer, t.InitializeParams)
        self._agree(revision, self.peer.capabilities, result.capabilities)

    def received_answer(self, result: t.InitializeResult) -> None:
        """The server answered. If it named a revision that is not spoken here nothing is agreed:
        whoever opened the session sees that, and closes (VERS-06).
        """
        self.peer = result
        revision = self.spoken(result.protocol_version)
        if revision is None:
            self.refused()
        else:
            assert self._offer is not None
            self._agree(revision, self._offer.capabilities, result.capabilities)

    def adopt(
        self, revision: Revision, server: t.ServerCapabilities, client: t.ClientCapabilities
    ) -> None:
        """There is no handshake, and will be none: this is how things are."""
        self.state = State.READY
        self._settle(revision, client, server)

    def refused(self) -> None:
        """Initialize came to nothing."""
        self.state = move(self.state, "server", "initialize refused") or self.state

    def _agree(
        self, revision: Revision, client: t.ClientCapabilities, server: t.ServerCapabilities
    ) -> None:
        self._move("server", "initialize answered")
        self._settle(revision, client, server)

    def _settle(
        self, revision: Revision, client: t.ClientCapabilities, server: t.ServerCapabilities
    ) -> None:
        # What was offered with one revision in mind may mean less in the one that was agreed on.
        self.declared = Declared(codec.fit_capabilities(client, revision), server)
        self.revision = self.writing = revision
        self.outbound = Gate(self.role, revision, self.declared)
        self.inbound = Gate(self.other, revision, self.declared)

    # The client's initialized.

    def check_initialized(self) -> None:
        """Raises `LocalProtocolError` if this side must not say it."""
        self._check(self.role, "initialized")

    def initialized(self) -> bool:
        """The client said it; False if it did not belong."""
        state = move(self.state, "client", "initialized")
        self.state = state or self.state
        return state is not None

    # Everything else.

    def check_outbound(self, method: str, *, request: bool) -> None:
        """Raises `LocalProtocolError` or `CapabilityMissing` if this side must not send `method` now."""
        gate = self.outbound
        if self.state is State.READY and gate is not None and request and method in gate.open:
            return
        if not allows(self.state, self.role, method):
            raise LocalProtocolError(
                f"a {self.role} must not send {method} in state {self.state.value}"
            )
        if method.startswith("notifications/") is request:
            kind = "request" if request else "notification"
            raise LocalProtocolError(f"{method} is not a {kind}")
        if gate is None:
            return
        verdict = gate.judge(method, request=request)
        if verdict.missing is not None:
            raise CapabilityMissing(verdict.missing, method)
        if verdict.row is None and not verdict.unknown:
            raise LocalProtocolError(
                f"a {self.role} cannot send {method} in revision {self.revision}"
            )

    def _check(self, sender: Role, step: Step) -> None:
        if move(self.state, sender, step) is None:
            raise LocalProtocolError(f"a {sender} must not send {step} in state {self.state.value}")

    def _check_spoken(self, name: str) -> Revision:
        revision = self.spoken(name)
        if revision is None:
            raise LocalProtocolError(f"revision {name} is not among those spoken here")
        return revision

    def _move(self, sender: Role, step: Step) -> None:
        state = move(self.state, sender, step)
        assert state is not None
        self.state = state
