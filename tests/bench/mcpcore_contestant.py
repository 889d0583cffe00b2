"""mcpcore as a contestant of the benchmark harness (see CONTRIBUTING.md).

Run as a script it is a server or a client; the harness imports it for the constants.
"""

from __future__ import annotations

NAME = "mcpcore"
KIND = "peer"
NEEDS = ("mcpcore",)
STDIO_ERAS = ("legacy", "modern")
HTTP = {"json": ("legacy", "modern"), "sse": ("legacy", "modern")}
CLIENT = {"stdio": ("legacy", "modern"), "http": ("legacy", "modern")}
LOOP = "trio"
INLINE = False


def make_server(*, inline: bool):
    """The tools that all contestants offer; plain functions on the spot, or async ones in tasks."""
    from _tools import EXTRA, add, blob, block

    from mcpcore import Server, TextContent

    server = Server("bench", "1", page_size=5000)

    if inline:
        server.tool(name="add", inline=True)(add)
        server.tool(name="blob", inline=True)(blob)

        @server.tool(name="blocks", inline=True)
        def blocks(n: int) -> list[TextContent]:
            return [TextContent(block(i)) for i in range(n)]

    else:

        @server.tool(name="add")
        async def async_add(a: int, b: int) -> str:
            return add(a, b)

        @server.tool(name="blob")
        async def async_blob(size: int) -> str:
            return blob(size)

        @server.tool(name="blocks")
        async def async_blocks(n: int) -> list[TextContent]:
            return [TextContent(block(i)) for i in range(n)]

    for i in range(EXTRA):

        @server.tool(name=f"tool_{i}", description=f"Tool {i} looks for things and reports them")
        def look(path: str, limit: int = 10, deep: bool = False) -> str:
            """Look.

            Args:
                path: Where to look
                limit: At most this many
                deep: Whether to look in subfolders
            """
            return ""

    return server


def serve_stdio() -> None:
    make_server(inline=INLINE).run()


def serve_http(port: int, mode: str) -> None:
    answers = "json" if mode == "json" else "events"
    make_server(inline=INLINE).run("http", port=port, answers=answers)


def client(kind, target, era):
    import os
    from contextlib import asynccontextmanager

    from mcpcore import StdioServer, connect
    from mcpcore.revisions import HANDSHAKE, STATELESS

    class Caller:
        def __init__(self, client):
            self._client = client

        async def call(self, tool, arguments):
            result = await self._client.call_tool(tool, arguments)
            return [block.text for block in result.content]

        async def list_tools(self):
            return len(await self._client.list_tools())

    @asynccontextmanager
    async def opened():
        # The harness tells its children where things are by the environment.
        server = target
        if kind == "stdio":
            server = StdioServer(command=target, env=dict(os.environ), exact_env=True)
        revisions = STATELESS if era == "modern" else HANDSHAKE
        async with connect(server, revisions=revisions) as client:
            yield Caller(client)

    return opened()


if __name__ == "__main__":
    from _child import main

    main(globals())
