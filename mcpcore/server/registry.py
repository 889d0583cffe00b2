"""What a server offers, in a fixed order, and who wants to know when it changes."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

Kind = Literal["tools", "resources", "prompts"]


class Registry(Generic[T]):
    """Things by key, sorted by it. `changed` is called after each change."""

    def __init__(self, what: str, changed: Callable[[], None]) -> None:
        self._what = what
        self._changed = changed
        self.by_key: dict[str, T] = {}
        self.keys: list[str] = []
        """Sorted."""

    def add(self, key: str, item: T) -> None:
        """Raises ValueError if the key is taken: one of two things would be lost silently."""
        if key in self.by_key:
            raise ValueError(f"there is a {self._what} {key!r} already")
        self.by_key[key] = item
        bisect.insort(self.keys, key)
        self._changed()

    def remove(self, key: str) -> T:
        """Raises KeyError if there is none."""
        item = self.by_key.pop(key)
        self.keys.remove(key)
        self._changed()
        return item

    def get(self, key: str) -> T | None:
        return self.by_key.get(key)

    @property
    def items(self) -> list[T]:
        """In the order of their keys."""
        return [self.by_key[key] for key in self.keys]

    def __bool__(self) -> bool:
        return bool(self.by_key)
