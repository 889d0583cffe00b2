"""Results that a client keeps for as long as the server said: lists, and resources that were read.

Only servers of the stateless era say so. What is kept is told apart by the method and by the params that
decide about the result; a notification that speaks of it, and a new connection, end it before its time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec
import trio
from msgspec import Raw

from mcpcore.client.listening import Change
from mcpcore.revisions import METHODS
from mcpcore.types import CacheableResult

LONGEST = 24 * 3600.0
"""Seconds that anything is kept at most, whatever the server says."""

ENTRIES = 1000
"""Results that are kept at once; those that were not asked for longest go first."""

CACHEABLE = frozenset(
    row.name
    for row in METHODS
    if row.result is not None and issubclass(row.result, CacheableResult)
)

_OF_LIST = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
}


class _Hint(msgspec.Struct, rename="camel"):
    ttl_ms: Any = None
    cache_scope: Any = None
    result_type: Any = None


_read_hint = msgspec.json.Decoder(_Hint).decode

Key = tuple[str, str]
"""The method, and the URI or cursor."""


class KeptResults:
    """The results of one client. With `only_public` nothing is kept that is for one caller alone: where who
    asks may be another each time.
    """

    def __init__(self, *, entries: int = ENTRIES, only_public: bool = False) -> None:
        self._entries = entries
        self._only_public = only_public
        self._kept: OrderedDict[Key, tuple[float, Raw]] = OrderedDict()

    def get(self, key: Key) -> Raw | None:
        """What is kept and still good."""
        found = self._kept.get(key)
        if found is None:
            return None
        until, raw = found
        if trio.current_time() >= until:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return raw

    def put(self, key: Key, raw: Raw) -> None:
        """Keep a result, if it says so. Its time begins now (CACHE-08)."""
        if key[0] not in CACHEABLE or bytes(raw).find(b'"ttlMs"') < 0:
            return
        try:
            hint = _read_hint(raw)
        except msgspec.DecodeError:
            return
        milliseconds = hint.ttl_ms
        if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
            return
        # What has no scope is for nobody else (CACHE-18).
        shared = hint.cache_scope == "public"
        if milliseconds <= 0 or hint.result_type not in (None, "complete"):
            return
        if self._only_public and not shared:
            return
        seconds = min(milliseconds / 1000, LONGEST)
        self._kept[key] = trio.current_time() + seconds, raw
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)

    def changed(self, change: Change) -> None:
        """Something is not what it was (CACHE-20)."""
        if change.kind == "resource":
            self._kept.pop(("resources/read", change.uri or ""), None)
            return
        methods = _OF_LIST[change.kind]
        for key in [key for key in self._kept if key[0] in methods]:
            del self._kept[key]

    def clear(self) -> None:
        self._kept.clear()
