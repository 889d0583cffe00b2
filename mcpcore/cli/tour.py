"""`mcpcore tour`: a whole session with a real server, frame by frame.

Nothing is staged. A client of this library talks to a child process, a `TapChannel` between them
shows what crosses, and each step checks that what should happen did.
"""

from __future__ import annotations

import importlib.resources
import shlex
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click
import msgspec
import trio
from rich.console import Console
from rich.text import Text

from mcpcore.cli.frames import Story
from mcpcore.cli.output import PROTOCOL, say, say_warnings, visible
from mcpcore.cli.running import run
from mcpcore.client import Client, connect
from mcpcore.protocol.events import Progress
from mcpcore.rules import RULES
from mcpcore.runtime import Timeouts
from mcpcore.transport import StdioServer, start_server
from mcpcore.transport.tap import Direction, TapChannel

PATIENCE = 30.0
"""Seconds for each answer: plenty on a slow machine, and the tour still ends."""

ARROWS = {"sent": ("-->", "cyan"), "received": ("<--", "green")}


class Unexpected(Exception):
    """The session went on, but not as a step of the tour says it goes."""
