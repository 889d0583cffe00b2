"""What a client does with notifications: log lines, changed lists, updated resources.

The application's functions may be plain or async. Changes of a list are told apart from each other
no more than needed: while the function works on one, any number of others count as one more.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import trio

from mcpcore import codec
from mcpcore import types as t
from mcpcore.protocol.events import Notification

logger = logging.getLogger("mcpcore.client")

LIST_CHANGED = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}

QUIET = 0.1
"""Seconds between two calls for changes of one list, so that a storm of them stays ten a second."""


PENDING = 1000
"""Notifications that wait for an async callback; what comes beyond is dropped, with a warning."""


class Notices:
    """Hands notifications to the application; `start_soon` runs an async function for it."""

    def __init__(
        self,
        start_soon: Callable[..., None],
        *,
        on_log: Callable[[t.LoggingMessageParams], object] | None,
        on_list_changed: Callable[[str], object] | None,
        on_resource_updated: Callable[[str], object] | None,
        on_session_replaced: Callable[[], object] | None,
        on_notification: Callable[[Notification], object] | None,
    ) -> None:
        self._start_soon = start_soon
        self._on_log = on_log
        self._on_list_changed = on_list_changed
        self._on_resource_updated = on_resource_updated
        self._on_session_replaced = on_session_replaced
        self._on_notification = on_notification
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._pending: deque[Any] = deque()
        self._waiting_for_one = False
        self._dropped = 0

    def take(self, notification: Notification) -> None:
        """Act on one notification, without waiting. An unreadable one is dropped with a debug line."""
        method = notification.method
        try:
            if method == "notifications/message" and self._on_log is not None:
                self._call(self._on_log, codec.decode(notification.params, t.LoggingMessageParams))
            elif method in LIST_CHANGED:
                self._list_changed(LIST_CHANGED[method])
            elif (
                method == "notifications/resources/updated"
                and self._on_resource_updated is not None
            ):
                uri = codec.decode(notification.params, t.ResourceParams).uri
                self._call(self._on_resource_updated, uri)
            elif self._on_notification is not None:
                self._call(self._on_notification, notification)
        except msgspec.ValidationError as error:
            logger.debug("unreadable %s: %s", method, error)

    def session_replaced(self) -> None:
        """A new session took the place of one that the server ended."""
        if self._on_session_replaced is not None:
            try:
                self._call(self._on_session_replaced)
            except Exception:
                logger.exception("the callback for a replaced session raised")

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a plain function at once; what an async one gives is waited for, one after the other."""
        if len(self._pending) >= PENDING:
            if not self._dropped:
                logger.warning("notifications are dropped: the callback is slower than they come")
            self._dropped += 1
            return
        result = function(*arguments)
        if inspect.isawaitable(result):
            self._pending.append(result)
            if not self._waiting_for_one:
                self._waiting_for_one = True
                self._start_soon(self._wait_for_pending)

    async def _wait_for_pending(self) -> None:
        try:
            while self._pending:
                try:
                    await self._pending.popleft()
                except Exception:
                    logger.exception("a callback for notifications raised")
        finally:
            self._waiting_for_one = False
            for awaitable in self._pending:
                if inspect.iscoroutine(awaitable):
                    awaitable.close()

    def _list_changed(self, kind: str) -> None:
        if self._on_list_changed is None:
            return
        if kind in self._busy:
            self._again.add(kind)
            return
        self._busy.add(kind)
        self._start_soon(self._tell, kind)

    async def _tell(self, kind: str) -> None:
        assert self._on_list_changed is not None
        try:
            while True:
                self._again.discard(kind)
                try:
                    result = self._on_list_changed(kind)
                    if inspect.isawaitable(result):
                        await result
                except Exception:
                    logger.exception("the callback for changed lists raised")
                await trio.sleep(QUIET)
                if kind not in self._again:
                    return
        finally:
            self._busy.discard(kind)
