"""A small server whose tools do what stdio servers suffer from."""

import os
import subprocess
import sys
import time

import trio

from mcpcore import Server, Timeouts

server = Server("tools", "1.0", timeouts=Timeouts(drain=float(os.environ.get("DRAIN", "5"))))


@server.tool
def noisy() -> str:
    print("a stray print")
    os.write(1, b"a stray write\n")
    print("not flushed, no end of line", end="")
    return "done"


@server.tool
def spawn() -> int:
    """A subprocess with default settings that reads all of its stdin and prints."""
    code = "import sys; print('the child read', len(sys.stdin.read()))"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode


@server.tool
def spawn_in_background() -> int:
    """A subprocess that outlives the call, and holds what it inherited."""
    return subprocess.Popen(["sleep", "1000"]).pid


@server.tool
async def nap(seconds: float) -> str:
    await trio.sleep(seconds)
    return "rested"


@server.tool
def doze(seconds: float) -> str:
    print("dozing", file=sys.stderr, flush=True)
    time.sleep(seconds)
    return "rested"


@server.tool
def blob(size: int) -> str:
    return "x" * size


if __name__ == "__main__":
    if "QUIET" not in os.environ:
        print("printed before the server runs and never flushed", end="")
    server.run()
