"""One long conversation with a peer, of which each test looks at one piece.

Starting a peer costs seconds, so it is started once for each revision; what happens in each step is
kept, errors too, and given or raised again to the test that asks for the step.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 30
"""Seconds that one step may take before it is taken for hanging; no step needs one."""


def program(name: str, *arguments: str) -> list[str]:
    """The command that starts one of the programs beside this file."""
    return [sys.executable, str(PROGRAMS / name), *arguments]


class Observations:
    """What happened, by the name of the step."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._errors: dict[str, Exception] = {}

    async def step(self, name: str, action: Callable[[], Awaitable[Any]]) -> None:
        """Do one thing and keep how it went. It never raises."""
        assert name not in self._values
        assert name not in self._errors
        try:
            with anyio.fail_after(PATIENCE):
                self._values[name] = await action()
        except Exception as error:
            self._errors[name] = error

    def keep(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __getitem__(self, name: str) -> Any:
        if name in self._errors:
            raise self._errors[name]
        return self._values[name]


class Heard(list[Any]):
    """Things that arrive by themselves, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = anyio.Event()

    def append(self, item: Any) -> None:
        super().append(item)
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, count: int) -> list[Any]:
        """Wait for `count` of them and give them all, in their order."""
        while len(self) < count:
            await self._changed.wait()
        return list(self)
