"""How the tests run the examples: as programs of their own, or imported from their path."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from mcpcore import StdioServer

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PATHS = sorted(EXAMPLES.glob("*.py"))

# A child finds mcpcore here even if it is not installed.
ENVIRONMENT = {"PYTHONPATH": str(ROOT)}


def load(name: str) -> ModuleType:
    """A fresh module of the example, which runs nothing of its own."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, stdin: str = "") -> str:
    """What the example prints. It must print nothing on stderr, warnings included, and exit with 0."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        input=stdin,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        env=os.environ | ENVIRONMENT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def as_child(name: str) -> StdioServer:
    """The example as a server that a client starts."""
    return StdioServer(command=[sys.executable, str(EXAMPLES / f"{name}.py")], env=ENVIRONMENT)
