"""Telling clients what changed, in both eras: the one bus, and who listens to it.

A client of the handshake era is told of every list that it was told may change, and of the resources that
it subscribed to. One of the stateless era asks for what it wants to hear by `subscriptions/listen`, a
request that stays open; what it hears carries the id of that request. Changes are levels, not events:
several in a short while are told as one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

import trio

from mcpcore import types as t
from mcpcore.errors import McpError
from mcpcore.jsonrpc import Notification, RequestId
from mcpcore.protocol.connection import Connection
from mcpcore.protocol.events import Response
from mcpcore.protocol.lifecycle import State
from mcpcore.protocol.terms import SUBSCRIPTION_ID
from mcpcore.server.registry import Kind

logger = logging.getLogger("mcpcore.server")

DEBOUNCE = 0.05
"""Seconds after which changes of a list are told, together: what a program registers in one go is one
change to a client."""

_CHANGED: dict[Kind, str] = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}


class Line(Protocol):
    """What is needed of a runtime."""

    @property
    def lost(self) -> McpError | None: ...
    def send(self, event: Notification, *, about: RequestId | None = None) -> None: ...
    async def notify(self, event: Notification, *, about: RequestId | None = None) -> None: ...
    def answer(self, answer: Response) -> None: ...
    def start_soon(self, function: Callable[..., Any], *arguments: Any) -> None: ...


class Subscription:
    """One open `subscriptions/listen`: `id` is what its client calls it."""

    __slots__ = ("id", "kinds", "uris")

    def __init__(self, id: RequestId, kinds: frozenset[Kind], uris: frozenset[str]) -> None:
        self.id = id
        self.kinds = kinds
        self.uris = uris


class Bus:
    """Tells the client, or the clients, at the other end of one connection."""

    __slots__ = ("_changed", "_connection", "_line", "_listening", "subscribed", "told")

    def __init__(self, connection: Connection, line: Line) -> None:
        self._connection = connection
        self._line = line
        self.told = t.ServerCapabilities()
        """What a client of the handshake era was told in it."""
        # These are used as sets: empty, which they mostly are, dicts take less, and there may be thousands.
        self.subscribed: dict[str, None] = {}
        """The resources that a client of the handshake era subscribed to."""
        self._listening: dict[RequestId, Subscription] = {}
        self._changed: dict[Kind, None] = {}

    # subscriptions/listen.

    def listen(self, key: RequestId, honoured: t.SubscriptionFilter) -> None:
        """Begin to tell a client what it asked for and is to get. That is acknowledged before anything
        else is said on its account (SUBS-05).
        """
        kinds: list[Kind] = []
        if honoured.tools_list_changed:
            kinds.append("tools")
        if honoured.resources_list_changed:
            kinds.append("resources")
        if honoured.prompts_list_changed:
            kinds.append("prompts")
        subscription = Subscription(
            self._connection.wire_id(key),
            frozenset(kinds),
            frozenset(honoured.resource_subscriptions or ()),
        )
        self._listening[key] = subscription
        params = t.AcknowledgedParams(notifications=honoured, meta=_tag(subscription))
        self._say(Notification("notifications/subscriptions/acknowledged", params), key)

    def __len__(self) -> int:
        """How many listen."""
        return len(self._listening)

    def forget(self, key: RequestId) -> None:
        """The client listens no more. Does nothing for a request that was another."""
        self._listening.pop(key, None)

    def end(self, *, cancels: bool) -> None:
        """Nothing will be told any more: each `subscriptions/listen` gets its answer (SUBS-16). With
        `cancels` it is said as a cancellation first, as one text has it for pipes (SUBS-18).
        """
        for key, subscription in list(self._listening.items()):
            del self._listening[key]
            if cancels:
                params = t.CancelledParams(request_id=subscription.id, meta=_tag(subscription))
                self._say(Notification("notifications/cancelled", params), key)
            self._line.answer(Response(key, t.ListenResult(meta=_tag(subscription))))

    # Changes.

    def list_changed(self, kind: Kind) -> None:
        """A list is not what it was."""
        if not self._may_tell(kind) and not any(
            kind in subscription.kinds for subscription in self._listening.values()
        ):
            return
        if not self._changed:
            self._line.start_soon(self._tell_soon)
        self._changed[kind] = None

    def resource_updated(self, uri: str) -> None:
        """A resource is not what it was."""
        if self._line.lost is not None:
            return
        method = "notifications/resources/updated"
        if uri in self.subscribed:
            self._say(Notification(method, t.ResourceParams(uri=uri)), None)
        for key, subscription in list(self._listening.items()):
            if uri in subscription.uris:
                params = t.ResourceParams(uri=uri, meta=_tag(subscription))
                self._say(Notification(method, params), key)

    def _may_tell(self, kind: Kind) -> bool:
        return self._connection.state is State.READY and getattr(self.told, kind) is not None

    async def _tell_soon(self) -> None:
        await trio.sleep(DEBOUNCE)
        kinds, self._changed = self._changed, {}
        for kind in sorted(kinds):
            if self._may_tell(kind):
                try:
                    await self._line.notify(Notification(_CHANGED[kind]))
                except McpError as error:
                    logger.debug("not told: %s", error)
            for key, subscription in list(self._listening.items()):
                if kind in subscription.kinds:
                    params = t.Params(meta=_tag(subscription))
                    self._say(Notification(_CHANGED[kind], params), key)

    def _say(self, notification: Notification, about: RequestId | None) -> None:
        try:
            self._line.send(notification, about=about)
        except McpError as error:
            logger.debug("not told: %s", error)


def _tag(subscription: Subscription) -> dict[str, Any]:
    return {SUBSCRIPTION_ID: subscription.id}
