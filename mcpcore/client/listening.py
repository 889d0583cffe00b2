"""Hearing of changes, whichever way the server tells of them.

In the stateless era a client asks by `subscriptions/listen`, a request that stays open; each notification
carries the id of the one that it is for. In the handshake era lists are told of anyway, and resources are
subscribed to one by one. A `Subscription` is the same in both: changes, in the order in which they came,
each no more often than it was looked at.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Literal

import msgspec
import trio

from mcpcore import codec
from mcpcore import types as t
from mcpcore.client.notices import LIST_CHANGED
from mcpcore.errors import McpError, RequestFailed, RequestTimeout
from mcpcore.jsonrpc import Notification, RequestId
from mcpcore.protocol.terms import SUBSCRIPTION_ID
from mcpcore.runtime import Runtime
from mcpcore.waiting import NEVER

logger = logging.getLogger("mcpcore.client")

FIRST_DELAY, LONGEST_DELAY, ATTEMPTS = 0.5, 30.0, 5
"""Seconds before a subscription whose connection broke is opened anew, doubled each time, and how often in
a row that may be in vain."""


class Change(msgspec.Struct, frozen=True):
    """What is not what it was: a list, or the resource at `uri`."""

    kind: Literal["tools", "resources", "prompts", "resource"]
    uri: str | None = None


class Subscription(AsyncIterator[Change]):
    """Changes as they come: `async for change in subscription`.

    The iteration ends when the server ends the subscription in good order, and raises the reason when it
    does not. `honoured` is what the server agreed to tell, which may be less than was asked for.
    """

    def __init__(self, asked: t.SubscriptionFilter, *, for_callbacks: bool = False) -> None:
        self.asked = asked
        self.for_callbacks = for_callbacks
        """Whether what comes is for the client's callbacks, and nobody iterates."""
        self.honoured: t.SubscriptionFilter | None = None
        self.times_acknowledged = 0
        self._changes: dict[Change, None] = {}
        self._something = trio.lowlevel.ParkingLot()
        self.ended = False
        self._error: McpError | None = None
        self.scope = trio.CancelScope()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Change:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._changes:
            if self._error is not None:
                raise self._error
            if self.ended:
                raise StopAsyncIteration
            await self._something.park()
        change = next(iter(self._changes))
        del self._changes[change]
        return change

    def acknowledged(self, honoured: t.SubscriptionFilter) -> None:
        if self.honoured is not None:
            # The connection was another one meanwhile, and nothing is told again.
            for change in _all_of(honoured):
                self.add(change)
        self.honoured = honoured
        self.times_acknowledged += 1
        self._something.unpark_all()

    def add(self, change: Change) -> None:
        self._changes[change] = None
        self._something.unpark_all()

    def end(self, error: McpError | None) -> None:
        """It is over; the first reason counts."""
        if not self.ended:
            self.ended = True
            self._error = error
        self._something.unpark_all()

    async def wait_for_acknowledgement(self, seconds: float) -> None:
        """Raises what ended the subscription before, or `RequestTimeout`."""
        with trio.move_on_after(seconds):
            while self.honoured is None and not self.ended:
                await self._something.park()
            if self._error is not None:
                raise self._error
            return
        raise RequestTimeout("subscriptions/listen", seconds, ": it was not acknowledged")


def _all_of(filter: t.SubscriptionFilter) -> list[Change]:
    changes = [Change("resource", uri) for uri in filter.resource_subscriptions or ()]
    if filter.tools_list_changed:
        changes.append(Change("tools"))
    if filter.resources_list_changed:
        changes.append(Change("resources"))
    if filter.prompts_list_changed:
        changes.append(Change("prompts"))
    return changes


class Subscriptions:
    """The subscriptions of one connection."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._by_id: dict[RequestId, Subscription] = {}
        self._plain: list[Subscription] = []

    # The stateless era.

    async def open(
        self, asked: t.SubscriptionFilter, *, for_callbacks: bool = False
    ) -> Subscription:
        """Subscribe; return once the server agreed."""
        subscription = Subscription(asked, for_callbacks=for_callbacks)
        self._runtime.start_soon(self._keep, subscription)
        try:
            await subscription.wait_for_acknowledgement(self._runtime.timeouts.request)
        except BaseException:
            subscription.scope.cancel()
            raise
        return subscription

    async def _keep(self, subscription: Subscription) -> None:
        """Listen, and listen anew when the connection broke."""
        attempts = 0
        with subscription.scope:
            while not subscription.ended:
                before = subscription.times_acknowledged
                error = await self._listen_once(subscription)
                if subscription.ended:
                    break
                attempts = 0 if subscription.times_acknowledged > before else attempts + 1
                if self._runtime.lost is not None or attempts >= ATTEMPTS:
                    subscription.end(error)
                    break
                logger.debug("a subscription broke: %s", error)
                await trio.sleep(min(FIRST_DELAY * 2.0**attempts, LONGEST_DELAY))
        subscription.end(None)

    async def _listen_once(self, subscription: Subscription) -> McpError | None:
        """Listen until the server ends it, or the connection breaks, which is told."""
        id = self._runtime.connection.next_id()
        self._by_id[id] = subscription
        params = t.ListenParams(notifications=subscription.asked)
        try:
            await self._runtime.request(
                "subscriptions/listen", params, id=id, seconds=NEVER, maximum=NEVER
            )
        except RequestFailed as error:
            subscription.end(error)
        except McpError as error:
            return error
        else:
            subscription.end(None)
        finally:
            del self._by_id[id]
        return None

    # The handshake era.

    def plain(self, honoured: t.SubscriptionFilter) -> Subscription:
        """Listen to what comes anyway, now that it was subscribed to."""
        subscription = Subscription(honoured)
        subscription.honoured = honoured
        self._plain.append(subscription)
        return subscription

    def drop(self, subscription: Subscription) -> None:
        """The counterpart of `open` and `plain`."""
        subscription.scope.cancel()
        if subscription in self._plain:
            self._plain.remove(subscription)
        subscription.end(None)

    def end(self, error: McpError) -> None:
        """The connection is over."""
        for subscription in self._plain:
            subscription.end(error)

    # What comes in.

    def take(self, notification: Notification) -> Subscription | None:
        """Act on a notification; gives the subscription that it was for."""
        method = notification.method
        if not self._by_id and not self._plain:
            return None
        try:
            meta = codec.decode(notification.params, t.Params).meta or {}
            subscription = self._by_id.get(meta.get(SUBSCRIPTION_ID, ""))
            if method == "notifications/subscriptions/acknowledged":
                if subscription is not None:
                    params = codec.decode(notification.params, t.AcknowledgedParams)
                    subscription.acknowledged(params.notifications)
                return subscription
            change = change_in(notification)
        except (msgspec.ValidationError, TypeError):
            return None
        if change is None:
            return None
        if subscription is not None and not subscription.for_callbacks:
            subscription.add(change)
        for plain in self._plain:
            if change in _all_of(plain.asked):
                plain.add(change)
        return subscription


def change_in(notification: Notification) -> Change | None:
    """The change that a notification tells; None if it is another. Raises `msgspec.ValidationError`."""
    if notification.method in LIST_CHANGED:
        return Change(LIST_CHANGED[notification.method])  # type: ignore[arg-type]
    if notification.method == "notifications/resources/updated":
        return Change("resource", codec.decode(notification.params, t.ResourceParams).uri)
    return None


class Wanted:
    """What an application wants its callbacks to hear, in the stateless era: one subscription for all of it.

    `lists` says whether there is a callback for lists; `uris` are the resources that it subscribed to.
    """

    def __init__(self, *, lists: bool) -> None:
        self.uris: set[str] = set()
        self._lists = lists
        self._open: Subscription | None = None
        self._lock = trio.Lock()

    def forget(self) -> None:
        """The connection that it was open on is over."""
        self._open = None

    async def renew(
        self, subscriptions: Subscriptions, can: t.ServerCapabilities
    ) -> t.SubscriptionFilter:
        """Listen to what is wanted now; gives what the server agreed to tell. The old subscription ends when
        the new one is there, so nothing is missed.
        """
        async with self._lock:
            asked = filter_of(
                tools=self._lists and can.tools is not None,
                prompts=self._lists and can.prompts is not None,
                resources=self._lists and can.resources is not None,
                uris=sorted(self.uris),
            )
            new = None
            if asked != t.SubscriptionFilter():
                new = await subscriptions.open(asked, for_callbacks=True)
            old, self._open = self._open, new
            if old is not None:
                subscriptions.drop(old)
        honoured = new.honoured if new is not None else None
        return honoured or t.SubscriptionFilter()


class Listening:
    """`async with client.listen(...) as changes`: a subscription for the length of a block."""

    def __init__(
        self,
        open: Callable[[], Awaitable[Subscription]],
        close: Callable[[Subscription], Awaitable[None]],
    ) -> None:
        self._open = open
        self._close = close

    async def __aenter__(self) -> Subscription:
        self._subscription = await self._open()
        return self._subscription

    async def __aexit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close(self._subscription)


def filter_of(
    *, tools: bool, prompts: bool, resources: bool, uris: Sequence[str]
) -> t.SubscriptionFilter:
    """What to ask for."""
    return t.SubscriptionFilter(
        tools_list_changed=tools,
        prompts_list_changed=prompts,
        resources_list_changed=resources,
        resource_subscriptions=list(uris) or None,
    )


def declared_part(asked: t.SubscriptionFilter, can: t.ServerCapabilities) -> t.SubscriptionFilter:
    """What of it a server of the handshake era says that it tells."""
    resources = can.resources
    return t.SubscriptionFilter(
        tools_list_changed=asked.tools_list_changed and _tells(can.tools),
        prompts_list_changed=asked.prompts_list_changed and _tells(can.prompts),
        resources_list_changed=asked.resources_list_changed and _tells(resources),
        resource_subscriptions=asked.resource_subscriptions
        if resources is not None and resources.subscribe
        else None,
    )


def _tells(feature: t.ListChanged | t.ResourcesCapability | None) -> bool:
    return feature is not None and feature.list_changed
