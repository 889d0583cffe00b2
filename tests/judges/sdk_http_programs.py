"""Servers in a child process, many behind one: starting an interpreter is what costs.

The programs beside this file are written for one conversation on stdio: what they heard is kept in
globals. `copy_of` runs such a program once more as a module of its own, so that each conversation meets
a server that heard nothing yet. A child says on stdout where its servers are, as one line of JSON, and
ends when its stdin does.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from observing import PATIENCE, PROGRAMS


def copy_of(program: str, name: str, *arguments: str) -> ModuleType:
    """The program as a new module; `arguments` are what it finds in `sys.argv`."""
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its annotations are looked up by the name of the module.
    sys.modules[name] = module
    before, sys.argv = sys.argv, [program, *arguments]
    try:
        spec.loader.exec_module(module)
    finally:
        sys.argv = before
    return module


SECRET = "the secret of the house"
"""What the one exception says that the programs raise on purpose."""


@contextmanager
def serving(program: str) -> Iterator[dict[str, str]]:
    """Run a program beside this file for the length of the block; gives the URLs by their names.

    At the end it has to leave by itself, and must not have said of any error but the one on purpose.
    """
    command = [
        sys.executable,
        "-W",
        "always::ResourceWarning",
        str(Path(__file__).parent / program),
    ]
    with tempfile.TemporaryFile("w+") as stderr:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with child.stdin, child.stdout:
                where = child.stdout.readline()
                if where:
                    yield json.loads(where)
            status = child.wait(PATIENCE)
        finally:
            child.kill()
            child.wait()
        stderr.seek(0)
        said = stderr.read()
    assert where, said
    assert status == 0, said
    assert said.count("Traceback") == said.count(f"RuntimeError: {SECRET}"), said
    assert "ResourceWarning" not in said, said
