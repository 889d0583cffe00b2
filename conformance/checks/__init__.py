"""The checks: each provokes one thing and looks at what comes.

A check is an async function with ``@check(rules, ...)`` above it and a docstring that says what it does.
The name of its parameter says what it gets:

- ``peer``: an opened conversation that it shares with others; it must leave it as it found it.
- ``bench``: a ``Bench``, to open conversations of its own, lawful or not.
- ``visit``: for clients under test, one run of the client against a scripted server.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..catalogue import Rule, rules


@dataclass(frozen=True, slots=True)
class Check:
    """A check, as data. ``rules`` are ids; of these, those that stand in the revision under test are
    judged.
    """

    name: str
    role: str
    rules: tuple[str, ...]
    level: int
    transport: str | None
    needs: tuple[str, ...]
    once: bool
    scenario: str
    strays: bool
    what: str
    run: Callable[..., Awaitable[None]]

    @property
    def shared(self) -> bool:
        """Whether it uses the common conversation."""
        return "peer" in inspect.signature(self.run).parameters

    def judged(self, revision: str) -> list[Rule]:
        """The rules of this check that stand in ``revision``."""
        return [rules()[each] for each in self.rules if revision in rules()[each].revisions]


def check(
    judged: str,
    *,
    level: int = 1,
    transport: str | None = None,
    needs: str = "",
    once: bool = False,
    scenario: str = "tools_call",
    strays: bool = False,
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Make a function a check of these rules (ids, separated by spaces).

    ``level`` 1 needs nothing of the peer, 2 uses what it has, 3 expects the fixture names. ``needs`` names
    capabilities without which the rules do not apply. ``once`` means that the newest revision of each era
    stands for the others. ``scenario`` is the name under which a client under test knows what to do.
    ``strays`` is for one that sends, on the common conversation, what no lawful client would send: such
    checks have that conversation among themselves, and no lint looks at it.
    """

    def mark(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        role, module = function.__module__.split(".")[-2:]
        function.check = Check(  # type: ignore[attr-defined]
            name=f"{module}.{function.__name__}",
            role=role,
            rules=tuple(judged.split()),
            level=level,
            transport=transport,
            needs=tuple(needs.split()),
            once=once,
            scenario=scenario,
            strays=strays,
            what=inspect.getdoc(function) or "",
            run=function,
        )
        return function

    return mark


@cache
def checks(role: str) -> tuple[Check, ...]:
    """All checks for a role under test, ``server`` or ``client``, in the order of their modules."""
    package = importlib.import_module(f".{role}", __package__)
    found = []
    for name in sorted(each.name for each in pkgutil.iter_modules(package.__path__)):
        module = importlib.import_module(f"{package.__name__}.{name}")
        found += [
            each.check
            for each in vars(module).values()
            if hasattr(each, "check") and each.__module__ == module.__name__
        ]
    return tuple(found)


__all__ = ["Check", "check", "checks"]


def same(one: Any, other: Any) -> bool:
    """Equal in value and in JSON type: ``1`` is neither ``"1"`` nor ``true``."""
    return type(one) is type(other) and one == other
