"""The official SDK over the older HTTP transport, in both directions."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpcore import HttpServer, connect

pytestmark = [pytest.mark.judge, pytest.mark.process]

OURS = """
    import trio
    from mcpcore import Context, Server
    server = Server("ours", "1")
    @server.tool
    async def count(n: int, ctx: Context) -> str:
        for step in range(n):
            ctx.progress(step + 1, n)
        return "counted"
    @server.resource("test://x")
    def x() -> str:
        return "the text of x"
    server.run("http", port=0, older=True)
"""

THEIRS = """
    import socket, sys
    import uvicorn
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    server = MCPServer("theirs")
    @server.tool()
    async def count(n: int, ctx: Context) -> str:
        for step in range(n):
            await ctx.report_progress(step + 1, n)
        return "counted"
    @server.resource("test://x")
    def x() -> str:
        return "the text of x"
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    print(f"serving on http://127.0.0.1:{port}/sse", file=sys.stderr, flush=True)
    config = uvicorn.Config(server.sse_app(), log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])
"""


@contextmanager
def program(source: str, folder: Path) -> Iterator[str]:
    """The program in a child process; gives the origin that it serves on."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    with subprocess.Popen([sys.executable, str(path)], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        try:
            url = child.stderr.readline().removeprefix("serving on ").strip()
            yield url.rpartition("/")[0]
        finally:
            child.kill()


def test_their_client_and_our_server(tmp_path: Path) -> None:
    from mcp import Client
    from mcp.client.sse import sse_client

    async def converse(origin: str) -> None:
        steps: list[float] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        with anyio.fail_after(30):
            target: Any = sse_client(f"{origin}/sse")
            async with Client(target, mode="legacy", cache=None) as client:
                tools = await client.list_tools()
                assert [tool.name for tool in tools.tools] == ["count"]
                result = await client.call_tool("count", {"n": 3}, progress_callback=on_progress)
                assert result.content[0].text == "counted"
                read = await client.read_resource("test://x")
                assert read.contents[0].text == "the text of x"
        assert steps == [1, 2, 3]

    with program(OURS, tmp_path) as origin:
        anyio.run(converse, origin)


@pytest.mark.parametrize("older", [True, None])
async def test_our_client_and_their_server(tmp_path: Path, older: bool | None) -> None:
    """Told to, and by itself."""
    with program(THEIRS, tmp_path) as origin:
        steps: list[float] = []
        async with connect(HttpServer(url=f"{origin}/sse", older=older)) as client:
            assert [tool.name for tool in await client.list_tools()] == ["count"]
            result = await client.call_tool(
                "count", {"n": 3}, on_progress=lambda step: steps.append(step.progress)
            )
            assert result.text == "counted"
            assert (await client.read_resource("test://x")).contents[0].text == "the text of x"
        assert steps == [1, 2, 3]
