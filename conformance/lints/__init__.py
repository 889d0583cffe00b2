"""Lints: rules that any recorded conversation can be held against, without provoking anything.

A lint is a generator with ``@lint(rules)`` above it. It goes through a ``Story`` and gives, for each thing
that its rules speak of, the message and what is wrong with it, or None where nothing is. Its docstring
says what is expected. A lint that gives nothing had nothing to look at.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from ..transcript import Entry
from .story import Story, Told

Seen = Iterator[tuple[Told | Entry, str | None]]


@dataclass(frozen=True, slots=True)
class Lint:
    """A lint, as data. ``level`` and ``shared`` are as with a check."""

    name: str
    rules: tuple[str, ...]
    expected: str
    run: Callable[[Story], Seen]


def lint(judged: str) -> Callable[[Callable[[Story], Seen]], Callable[[Story], Seen]]:
    """Make a generator the lint of these rules (ids, separated by spaces)."""

    def mark(function: Callable[[Story], Seen]) -> Callable[[Story], Seen]:
        module = function.__module__.rpartition(".")[2]
        function.lint = Lint(  # type: ignore[attr-defined]
            name=f"{module}.{function.__name__}",
            rules=tuple(judged.split()),
            expected=inspect.getdoc(function) or "",
            run=function,
        )
        return function

    return mark


@cache
def lints() -> tuple[Lint, ...]:
    """All lints, in the order of their modules."""
    package = importlib.import_module(__package__ or __name__)
    found = []
    for name in sorted(each.name for each in pkgutil.iter_modules(package.__path__)):
        module = importlib.import_module(f"{package.__name__}.{name}")
        found += [
            each.lint
            for each in vars(module).values()
            if hasattr(each, "lint") and each.__module__ == module.__name__
        ]
    return tuple(found)


__all__ = ["Lint", "Seen", "Story", "Told", "lint", "lints"]
