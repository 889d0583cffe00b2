"""One server program, clients of both eras: on pipes, and at a URL."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import trio

from mcpcore import HttpServer, Network, StdioServer, connect
from mcpcore.revisions import STATELESS

pytestmark = pytest.mark.process

PROGRAM = """
    import os, sys
    from typing import Any
    import msgspec
    from mcpcore import Context, Server, StateOptions

    class Name(msgspec.Struct):
        name: str

    server = Server("both", "1", states=StateOptions(keys=[bytes.fromhex(os.environ["KEY"])]))

    @server.tool(asks="replay")
    async def names(n: int, ctx: Context[Any]) -> str:
        given = []
        for step in range(n):
            answer = await ctx.elicit(f"name-{step}", Name, f"Name {step}?")
            given.append(answer.value.name if answer.value else answer.action)
        return " ".join(given)

    if sys.argv[1:]:
        server.run("http", port=0)
    else:
        server.run()
"""

ENVIRONMENT = {"KEY": "ab" * 32}
REVISIONS = ["2025-06-18", STATELESS[0]]


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    return [sys.executable, str(path)]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_tool_that_asks_in_a_loop_on_pipes(revision: str, program: list[str]) -> None:
    target = StdioServer(command=program, env=ENVIRONMENT)
    with trio.fail_after(60):
        async with connect(
            target, revisions=[revision], elicit=lambda p: {"name": p.message}
        ) as client:
            assert (await client.call_tool("names", {"n": 2})).text == "Name 0? Name 1?"


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_tool_that_asks_in_a_loop_at_a_url(revision: str, program: list[str]) -> None:
    async def ask(url: str) -> str:
        target = HttpServer(url=url, network=Network(proxy=""))
        with trio.fail_after(60):
            async with connect(
                target, revisions=[revision], elicit=lambda p: {"name": p.message}
            ) as client:
                return (await client.call_tool("names", {"n": 2})).text

    with subprocess.Popen(
        [*program, "http"], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found
        assert trio.run(ask, found[0]) == "Name 0? Name 1?"
        process.terminate()


async def test_each_round_may_be_served_by_another_process(program: list[str]) -> None:
    """MRTR-22: the key is all that they share."""
    target = StdioServer(command=program, env=ENVIRONMENT)
    params: dict[str, object] = {"name": "names", "arguments": {"n": 2}}
    more: dict[str, object] = {}
    for step in range(3):
        async with connect(target, revisions=STATELESS, elicit=lambda _: {"name": "x"}) as client:
            result = await client.request("tools/call", params | more)
        if step == 2:
            assert result["content"][0]["text"] == "x x"
            break
        (key,) = result["inputRequests"]
        accepted = {"action": "accept", "content": {"name": "x"}}
        more = {"inputResponses": {key: accepted}, "requestState": result["requestState"]}
