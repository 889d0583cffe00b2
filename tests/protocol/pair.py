"""Two engines and no network: what one side sends, the other receives at once.

    pair = ConnectionPair.ready(revision)
    (request,) = pair.send("client", Request(1, "ping"))
    (answer,) = pair.send("server", Response(1, {}))

Every frame that crossed stands in `pair.wire`. `plain` makes events comparable by decoding what they
hold raw.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from mcpcore import types as t
from mcpcore.protocol import Connection, Event, Notification, Request, Response, Sendable
from mcpcore.protocol.lifecycle import Role
from mcpcore.revisions import HANDSHAKE

CLIENT_ALL = t.ClientCapabilities(
    roots=t.ListChanged(list_changed=True),
    sampling=t.SamplingCapability(),
    elicitation=t.ElicitationCapability(form={}, url={}),
    tasks={"list": {}, "cancel": {}},
)
SERVER_ALL = t.ServerCapabilities(
    logging={},
    completions={},
    prompts=t.ListChanged(list_changed=True),
    resources=t.ResourcesCapability(subscribe=True, list_changed=True),
    tools=t.ListChanged(list_changed=True),
    tasks={"list": {}, "cancel": {}},
)

OTHER: dict[Role, Role] = {"client": "server", "server": "client"}


def offer(
    revision: str = HANDSHAKE[0], capabilities: t.ClientCapabilities = CLIENT_ALL
) -> t.InitializeParams:
    """The params of initialize."""
    return t.InitializeParams(
        protocol_version=revision,
        capabilities=capabilities,
        client_info=t.Implementation("client", "1"),
    )


def agreement(
    revision: str = HANDSHAKE[0], capabilities: t.ServerCapabilities = SERVER_ALL
) -> t.InitializeResult:
    """The answer to initialize."""
    return t.InitializeResult(
        protocol_version=revision,
        capabilities=capabilities,
        server_info=t.Implementation("server", "1"),
    )


def plain(event: Event) -> Any:
    """The event with its raw members decoded, so that two of them can be compared."""
    for member in ("params", "result"):
        value = getattr(event, member, UNSET)
        if isinstance(value, Raw):
            event = msgspec.structs.replace(event, **{member: msgspec.json.decode(value)})
    return event


class ConnectionPair:
    """A client and a server engine, joined by nothing but method calls."""

    def __init__(self, client: Connection | None = None, server: Connection | None = None) -> None:
        self.client = client or Connection("client")
        self.server = server or Connection("server")
        self.side: dict[Role, Connection] = {"client": self.client, "server": self.server}
        self.wire: list[tuple[Role, bytes]] = []
        """Who sent what, in order."""

    @classmethod
    def ready(
        cls,
        revision: str = HANDSHAKE[0],
        *,
        client_capabilities: t.ClientCapabilities = CLIENT_ALL,
        server_capabilities: t.ServerCapabilities = SERVER_ALL,
        strict: Role | None = None,
    ) -> ConnectionPair:
        """A pair after the handshake; `strict` names the side that forgives nothing."""
        pair = cls(
            Connection("client", strict=strict == "client"),
            Connection("server", strict=strict == "server"),
        )
        pair.handshake(revision, client_capabilities, server_capabilities)
        return pair

    def handshake(
        self,
        revision: str = HANDSHAKE[0],
        client_capabilities: t.ClientCapabilities = CLIENT_ALL,
        server_capabilities: t.ServerCapabilities = SERVER_ALL,
    ) -> None:
        """Open the session. The request initialize has the id 0."""
        self.send("client", Request(0, "initialize", offer(revision, client_capabilities)))
        self.send("server", Response(0, agreement(revision, server_capabilities)))
        self.send("client", Notification("notifications/initialized"))
        self.wire.clear()

    def send(self, sender: Role, event: Sendable) -> list[Any]:
        """Let `sender` say `event`; gives what the other side received of it."""
        data = self.side[sender].send(event)
        return [] if data is None else self.deliver(sender, data)

    def deliver(self, sender: Role, frame: bytes) -> list[Any]:
        """Give the other side a frame as if `sender` had written it."""
        self.wire.append((sender, frame))
        return [plain(event) for event in self.side[OTHER[sender]].receive(frame)]
