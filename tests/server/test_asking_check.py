"""The check for tools that ask finds what goes wrong only in one era, or only the second time."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from mcpcore import Context, ElicitParams, Server
from mcpcore.testing import check_asking


class Name(msgspec.Struct):
    name: str


async def answer(params: ElicitParams) -> dict[str, Any]:
    return {"name": params.message}


def make() -> Server:
    server = Server("checked", "1")
    numbers = itertools.count()

    @server.tool(asks="replay")
    async def good(ctx: Context[Any]) -> str:
        number = await ctx.once("number", lambda: 7)
        first = await ctx.elicit("first", Name, f"First of {number}?")
        second = await ctx.elicit("second", Name, f"After {first.action}?")
        return f"{number} {second.action}"

    @server.tool(asks="replay")
    async def effect(ctx: Context[Any]) -> str:
        DONE.append("before")
        return (await ctx.elicit("q", Name, "?")).action

    @server.tool(asks="replay")
    async def random_question(ctx: Context[Any]) -> str:
        return (await ctx.elicit("q", Name, f"{next(numbers)}?")).action

    @server.tool(asks="replay")
    async def random_result(ctx: Context[Any]) -> str:
        await ctx.elicit("q", Name, "?")
        return str(next(numbers))

    @server.tool(asks="replay")
    async def other_result(ctx: Context[Any]) -> str:
        runs = next(numbers)
        await ctx.elicit("q", Name, "?")
        return str(runs)

    return server


DONE: list[str] = []


async def test_a_good_tool_passes() -> None:
    await check_asking(make, "good", elicit=answer, effects=lambda: len(DONE))


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("effect", "ctx.once"),
        ("random_question", "asks"),
        ("random_result", "the second"),
        ("other_result", "standing alone"),
    ],
)
async def test_what_goes_wrong_is_found(tool: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        await check_asking(make, tool, elicit=answer, effects=lambda: len(DONE))
