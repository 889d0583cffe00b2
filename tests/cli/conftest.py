"""How the tests of the command line run it: in this process where that is enough, or as a real one."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from cli_programs import ROOT
from click.testing import CliRunner, Result


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Iterator[None]:
    """Commands set up the logger of mcpcore, as the script that they are may."""
    logger = logging.getLogger("mcpcore")
    before = logger.handlers, logger.propagate
    yield
    logger.handlers, logger.propagate = before


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run the command line in this process. Servers that it starts are real ones."""
    from mcpcore.cli.app import app

    def run(*words: str) -> Result:
        result = CliRunner().invoke(app, words, prog_name="mcpcore")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def script() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `python -m mcpcore` to its end."""

    def script(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mcpcore", *words],
            check=False,
            **{"capture_output": True, "text": True, "timeout": 60, "cwd": ROOT, **options},
        )

    return script
