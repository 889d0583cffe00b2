"""The official SDK in the stateless era, in both directions, over stdio and HTTP; and in its other modes."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from mcp import Client as SdkClient
from mcp import MCPError, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from mcpcore import HttpServer, Network, RequestFailed, StdioServer, Unanswered, connect
from mcpcore.client import Client
from mcpcore.revisions import STATELESS

pytestmark = [pytest.mark.judge, pytest.mark.process]

E = STATELESS[0]
PATIENCE = 60

OURS = """
    import sys
    from typing import Annotated, Any
    import msgspec, trio
    from mcpcore import Context, Server, ToolError
    server = Server("ours", "1", instructions="Use it.")

    class Name(msgspec.Struct):
        name: str

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def fails() -> str:
        raise ToolError("it failed")

    @server.tool
    def placed(
        region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]
    ) -> str:
        return f"in {region}"

    @server.tool
    async def steps(ctx: Context[Any]) -> str:
        for step in (1, 2):
            ctx.progress(step, 2, "step")
            # A client may lose what comes in one write with the answer: TypeScript's does, over stdio.
            await trio.sleep(0.05)
        ctx.log("warning", "logged")
        return "stepped"

    @server.tool(asks="replay")
    async def names(n: int, ctx: Context[Any]) -> str:
        given = []
        for step in range(n):
            answer = await ctx.elicit(f"name-{step}", Name, f"Name {step}?")
            given.append(answer.value.name if answer.value else answer.action)
        return " ".join(given)

    @server.tool
    async def change() -> str:
        server.tool(name="added")(lambda: "x")
        server.resource_updated("x:a")
        return "changed"

    @server.resource("x:a", subscribable=True)
    def a() -> str:
        return "text of a"

    @server.prompt
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    if sys.argv[1:] == ["http"]:
        server.run("http", port=0)
    else:
        server.run()
"""

THEIRS = """
    import socket, sys
    from typing import Annotated
    import uvicorn
    from pydantic import BaseModel
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context, Elicit, Resolve

    server = MCPServer("theirs", instructions="Use it.")

    class Name(BaseModel):
        name: str

    async def ask(ctx: Context) -> Elicit:
        return Elicit("Name?", Name)

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    def fails() -> str:
        raise ValueError("it failed")

    @server.tool()
    async def steps(ctx: Context) -> str:
        for step in (1, 2):
            await ctx.report_progress(step, 2)
        return "stepped"

    @server.tool()
    async def named(name: Annotated[Name, Resolve(ask)]) -> str:
        return f"named {name.name}"

    @server.resource("x:a")
    def a() -> str:
        return "text of a"

    @server.prompt()
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    if sys.argv[1:] == ["http"]:
        listening = socket.create_server(("127.0.0.1", 0))
        print(f"serving on http://127.0.0.1:{listening.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[listening])
    else:
        server.run("stdio")
"""


@contextmanager
def at_url(source: str, folder: Path) -> Iterator[str]:
    """The program serving over HTTP; gives its URL."""
    path = written(source, folder)
    command = [sys.executable, str(path), "http"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            found = re.search(r"http://\S+", said)
            assert found, said + process.stderr.read()
            yield found[0]
        finally:
            process.kill()


def written(source: str, folder: Path) -> Path:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


# The SDK's client and our server.


class Heard:
    def __init__(self) -> None:
        self.progress: list[Any] = []
        self.logged: list[Any] = []

    async def step(self, done: float, total: float | None, message: str | None) -> None:
        self.progress.append((done, total, message))

    async def log(self, params: Any) -> None:
        self.logged.append(params.data)

    async def elicit(self, context: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content={"name": params.message})


async def drive_ours(target: Any, mode: Any) -> None:
    heard = Heard()
    with anyio.fail_after(PATIENCE):
        async with SdkClient(
            target,
            mode=mode,
            cache=None,
            elicitation_callback=heard.elicit,
            logging_callback=heard.log,
            log_level=None if mode == "legacy" else "info",
        ) as client:
            assert client.protocol_version == ("2025-11-25" if mode == "legacy" else E)
            if mode != E:
                # A pinned client of the SDK asks nothing before its first call.
                assert client.server_info.name == "ours"
                assert client.instructions == "Use it."
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert {"add", "names", "placed"} <= set(tools)
            added = await client.call_tool("add", {"a": 1, "b": 2})
            assert added.structured_content == {"result": 3}
            assert (await client.call_tool("fails")).is_error
            placed = await client.call_tool("placed", {"region": "Zoë "})
            assert placed.content[0].text == "in Zoë "
            stepped = await client.call_tool("steps", progress_callback=heard.step)
            assert stepped.content[0].text == "stepped"
            assert [done for done, _, _ in heard.progress] == [1, 2]
            assert heard.logged == ["logged"]
            named = await client.call_tool("names", {"n": 3})
            assert named.content[0].text == "Name 0? Name 1? Name 2?"
            assert (await client.read_resource("x:a")).contents[0].text == "text of a"
            prompt = await client.get_prompt("greet", {"name": "Ada"})
            assert prompt.messages[0].content.text == "Hello, Ada!"
            with pytest.raises(MCPError) as caught:
                await client.read_resource("x:nope")
            assert caught.value.code == (-32002 if mode == "legacy" else -32602)
            with pytest.raises(MCPError):
                await client.call_tool("nope")
            if mode != "legacy":
                async with client.listen(
                    tools_list_changed=True, resource_subscriptions=["x:a"]
                ) as subscription:
                    await client.call_tool("change")
                    kinds = {type(await anext(subscription)).__name__ for _ in range(2)}
                    assert len(kinds) == 2


MODES = ["auto", E, "legacy"]


@pytest.mark.parametrize("mode", MODES)
def test_the_sdk_drives_our_server_over_stdio(mode: str, tmp_path: Path) -> None:
    path = written(OURS, tmp_path)
    parameters = StdioServerParameters(command=sys.executable, args=[str(path)])
    anyio.run(drive_ours, stdio_client(parameters), mode)


@pytest.mark.parametrize("mode", MODES)
def test_the_sdk_drives_our_server_over_http(mode: str, tmp_path: Path) -> None:
    with at_url(OURS, tmp_path) as url:
        anyio.run(drive_ours, url, mode)


# Our client and the SDK's server.


async def drive_theirs(client: Client, revision: str) -> None:
    assert client.revision == revision
    assert client.server_info.name == "theirs"
    assert {"add", "named"} <= {tool.name for tool in await client.list_tools()}
    added = await client.call_tool("add", {"a": 1, "b": 2})
    assert added.structured_content == {"result": 3}
    assert added.validated
    assert (await client.call_tool("fails")).is_error
    progress: list[float] = []
    stepped = await client.call_tool("steps", on_progress=lambda p: progress.append(p.progress))
    assert (stepped.text, progress) == ("stepped", [1, 2])
    assert (await client.call_tool("named")).text == "named Zoë"
    (contents,) = (await client.read_resource("x:a")).contents
    assert contents.text == "text of a"
    assert len((await client.get_prompt("greet", {"name": "Ada"})).messages) == 1
    with pytest.raises(RequestFailed):
        await client.read_resource("x:nope")
    await client.ping()
    assert not client.forgiven, client.forgiven


REVISIONS = [None, E, "2025-11-25"]


async def meet(target: Any, revision: str | None) -> None:
    options: Any = {} if revision is None else {"revisions": [revision]}
    with trio.fail_after(PATIENCE):
        async with connect(target, elicit=lambda _: {"name": "Zoë"}, **options) as client:
            await drive_theirs(client, revision or E)
        if revision == E:
            async with connect(target, elicit=_refuse, **options) as client:
                with pytest.raises(Unanswered):
                    await client.call_tool("named")


def _refuse(_: Any) -> Any:
    raise RequestFailed(-1, "not now")


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_our_client_drives_the_sdks_server_over_stdio(revision: str | None, tmp_path: Path) -> None:
    command = [sys.executable, str(written(THEIRS, tmp_path))]
    trio.run(meet, StdioServer(command=command), revision)


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_our_client_drives_the_sdks_server_over_http(revision: str | None, tmp_path: Path) -> None:
    with at_url(THEIRS, tmp_path) as url:
        trio.run(meet, HttpServer(url=url, network=Network(proxy="")), revision)
