"""What the tests of transports share: programs to start, and a look at what they leave behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from pathlib import Path
from types import MappingProxyType

import pytest
import trio

import mcpcore
from mcpcore import StdioServer

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = str(Path(mcpcore.__file__).parent.parent)


def exists(pid):
    """Whether there is such a process. A child of ours that nobody reaped counts; what became a child
    of process 1 is that one's business once it is dead.
    """
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return state != "Z" or int(parent) == os.getpid()


def children():
    pids = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            pids |= set(map(int, (task / "children").read_text().split()))
    return pids


def descriptors():
    """What is open, by number, without the directory that is being read."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[number] = os.readlink(f"/proc/self/fd/{number}")
    return {number for number, target in found.items() if not target.startswith("/proc/")}


async def until(condition, within=5.0):
    """Wait until `condition()`; False if that takes too long. For what no event tells."""
    with trio.move_on_after(within):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)
    return condition()


# Without what would unbuffer the prints of a program.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
    "PYTHONPATH": SOURCE,
}


class World:
    """The processes of a test."""

    exists = staticmethod(exists)
    children = staticmethod(children)
    descriptors = staticmethod(descriptors)
    programs = PROGRAMS
    until = staticmethod(until)
    environment = MappingProxyType(ENVIRONMENT)

    def peer(self, habit, *arguments, **settings):
        """A `StdioServer` that starts `programs/peer.py` with one of its habits."""
        settings = {"close_grace": 2.0, "terminate_grace": 2.0} | settings
        return StdioServer(command=self.peer_command(habit, *arguments), **settings)

    def peer_command(self, habit, *arguments):
        script = str(PROGRAMS / "peer.py")
        return [sys.executable, "-I", "-S", script, habit, *map(str, arguments)]

    def tools_command(self):
        return [sys.executable, str(PROGRAMS / "tools_server.py")]

    def tools(self, **settings):
        """A `StdioServer` that starts `programs/tools_server.py`."""
        env = {"PYTHONPATH": SOURCE} | settings.pop("env", {})
        return StdioServer(command=self.tools_command(), env=env, **settings)

    async def gone(self, *pids, within=5.0):
        """Wait until none of the processes is there any more; False if one stays."""
        return await until(lambda: not any(map(exists, pids)), within)

    def gone_blocking(self, *pids, within=5.0):
        end = time.monotonic() + within
        while any(map(exists, pids)) and time.monotonic() < end:
            time.sleep(0.005)
        return not any(map(exists, pids))


@pytest.fixture
def world():
    return World()


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request):
    """Every test with real processes leaves no child and no descriptor."""
    if request.node.get_closest_marker("process") is None:
        yield
        return
    before = descriptors()
    yield
    left = children()
    for pid in left:  # or one failed test would fail all that follow
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert not left
    if not descriptors() <= before:
        gc.collect()  # what a failed test keeps alive in its traceback is another matter
    assert descriptors() <= before
