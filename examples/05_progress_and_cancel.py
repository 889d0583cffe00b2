"""Progress and cancellation: to follow a long call, and to stop one.

Notice: to cancel a call, leave it. A cancel scope, a deadline or a closed block does it, as everywhere
in trio; the server is told, its function sees `trio.Cancelled` at its next `await`, and no answer is
written. A time limit is the same with an exception: `RequestTimeout`. The connection lives on.

Exercise: cancel the scope of `count` from inside `on_progress`, at three. What does the server still do?
"""

import os
import sys
from pathlib import Path

import trio

from mcpcore import RequestTimeout, StdioServer, connect
from mcpcore.protocol import Progress
from mcpcore.types import LoggingMessageParams

SERVER = StdioServer(
    command=[sys.executable, str(Path(__file__).with_name("calculator.py"))],
    env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
)


async def main() -> None:
    heard = {"waiting": trio.Event(), "wait was cancelled": trio.Event()}

    def on_log(log: LoggingMessageParams) -> None:
        print(f"  log, {log.level}: {log.data}")
        if log.data in heard:
            heard[log.data].set()

    def on_progress(progress: Progress) -> None:
        print(f"  progress: {progress.progress:g} of {progress.total:g}")

    async with connect(SERVER, on_log=on_log) as client:
        print("a call with progress:")
        result = await client.call_tool("count", {"to": 3}, on_progress=on_progress)
        print(result.text)

        print("\na slow call, a quick one beside it, and the end of the slow one:")
        await client.set_log_level("debug")  # to hear what becomes of it
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait", {"seconds": 60})
            await heard["waiting"].wait()
            quick = await client.call_tool("calculate_expression", {"expression": "6 * 7"})
            print("the quick one is", quick.text)
            nursery.cancel_scope.cancel()
        await heard["wait was cancelled"].wait()
        await client.set_log_level("info")

        print("\na call with a time limit:")
        try:
            await client.call_tool("wait", {"seconds": 60}, timeout=0.2)
        except RequestTimeout as error:
            print(f"{type(error).__name__} of {error.method} after {error.seconds} s")

        await client.ping()
        print("\nthe connection lives: the ping was answered")


if __name__ == "__main__":
    trio.run(main)
