"""What is under test, and how to reach it."""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from ..transcript import Transcript
from ..wire import process


@dataclass(frozen=True, slots=True)
class Target:
    """A server under test: a command for stdio, or a URL.

    ``environment`` is added to the child's; ``headers`` go with every HTTP request (credentials).
    """

    command: str | None = None
    url: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    directory: str | None = None

    @property
    def transport(self) -> str:
        """``stdio`` or ``http``."""
        return "stdio" if self.command is not None else "http"

    def start(self, transcript: Transcript) -> AbstractAsyncContextManager[process.Child]:
        """Start the command (stdio)."""
        assert self.command is not None
        return process.start(
            self.command,
            transcript,
            environment=self.environment,
            directory=self.directory or os.getcwd(),
        )


Members = dict[str, Any]
Answerer = Callable[[Members], Awaitable[Members] | Members]
"""Takes the params of a request from the peer; gives the members of the answer, e.g. ``{"result": {}}``."""
