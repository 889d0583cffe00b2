"""A program that has a server as its child, tells the child's pid, and waits to be interrupted."""

import sys

import trio

from mcpcore import StdioServer, connect


async def main():
    target = StdioServer(command=sys.argv[2:], close_grace=0.5, terminate_grace=0.5)
    async with connect(target) as client:
        print(client.runtime.channel.pid, flush=True)
        if sys.argv[1] == "calls":
            await client.call_tool("wait")
        elif sys.argv[1] == "waits":
            await trio.sleep_forever()


trio.run(main)
