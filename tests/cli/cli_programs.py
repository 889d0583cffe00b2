"""The programs that the tests of the command line start."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def words(file: str, *more: str) -> list[str]:
    """A program of this folder, as `-- CMD ARGS` takes it."""
    return [sys.executable, str(HERE / file), *more]


def command_line(file: str, *more: str) -> str:
    """A program of this folder, as `--stdio CMD` takes it."""
    return shlex.join(words(file, *more))
