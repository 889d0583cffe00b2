"""Arguments that do not fit: told to the model, in every revision. What is no call at all is an error."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from scripted_client import REVISIONS, served

from mcpcore import RequestFailed, Server, connect


@dataclasses.dataclass
class Point:
    x: int


class Level(enum.Enum):
    LOW = "low"


class Model(pydantic.BaseModel):
    n: int = pydantic.Field(ge=10)


def make_server() -> Server:
    server = Server("arguments", "1")

    @server.tool
    async def f(
        n: Annotated[int, msgspec.Meta(ge=1, le=9)],
        s: Annotated[str, msgspec.Meta(pattern="^a", max_length=3)] = "a",
        flag: bool = False,
        unit: Literal["C", "F"] = "C",
        point: Point | None = None,
        points: list[Point] = [],  # noqa: B006
        level: Level = Level.LOW,
        model: Model | None = None,
    ) -> str:
        return f"{n} {s}"

    @server.tool(inline=True)
    def quick(n: int) -> str:
        return f"quick {n}"

    @server.tool
    def slow(n: int) -> str:
        return f"slow {n}"

    @server.tool(inline=True)
    def bare() -> str:
        return "called"

    return server


BAD = [
    ({}, "missing required field `n`", ""),
    ({"n": "1"}, "`int`", "$.n"),
    ({"n": 1.5}, "`int`", "$.n"),
    ({"n": None}, "`int`", "$.n"),
    ({"n": True}, "`int`", "$.n"),
    ({"n": 0}, "1", "$.n"),
    ({"n": 10}, "9", "$.n"),
    ({"n": 10**30}, "", "$.n"),
    ({"n": 1, "s": "b"}, "^a", "$.s"),
    ({"n": 1, "s": "aaaa"}, "3", "$.s"),
    ({"n": 1, "s": 5}, "`str`", "$.s"),
    ({"n": 1, "flag": "yes"}, "`bool`", "$.flag"),
    ({"n": 1, "unit": "K"}, "'K'", "$.unit"),
    ({"n": 1, "point": {"x": "1"}}, "`int`", "$.point.x"),
    ({"n": 1, "point": {}}, "`x`", "$.point"),
    ({"n": 1, "point": []}, "", "$.point"),
    ({"n": 1, "points": [{"x": 1}, {"x": None}]}, "`int`", "$.points[1].x"),
    ({"n": 1, "level": "high"}, "'high'", "$.level"),
    ({"n": 1, "model": {"n": 5}}, "greater than or equal to 10", "$.model"),
    ({"n": 1, "surprise": 1}, "surprise", ""),
    ({"n": 1, "N": 1}, "N", ""),
]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("arguments", "says", "path"), BAD)
async def test_bad_arguments_are_a_tool_error_that_says_where(revision, arguments, says, path):
    async with served(make_server(), revision) as client:
        result = await client.call("f", arguments)
        assert result["isError"] is True
        (block,) = result["content"]
        assert block["text"].startswith("Invalid arguments: ")
        assert says in block["text"]
        assert path in block["text"]


@pytest.mark.parametrize("tool", ["f", "quick", "slow"])
async def test_bad_arguments_reach_no_function_of_any_kind(tool):
    async with served(make_server()) as client:
        result = await client.call(tool, {"n": "x"})
        assert result["isError"] is True
        assert "$.n" in result["content"][0]["text"]
        good = await client.call(tool, {"n": 3})
        assert "3" in good["content"][0]["text"]


@pytest.mark.parametrize(
    "params",
    [{"name": "bare"}, {"name": "bare", "arguments": {}}, {"name": "bare", "arguments": None}],
)
async def test_absent_null_and_empty_arguments_are_the_same(params):
    async with served(make_server()) as client:
        result = await client.result("tools/call", params)
        assert result["content"] == [{"type": "text", "text": "called"}]


async def test_null_arguments_of_a_tool_that_needs_some_name_the_missing_one():
    async with served(make_server()) as client:
        result = await client.result("tools/call", {"name": "quick", "arguments": None})
        assert result["isError"] is True
        assert "`n`" in result["content"][0]["text"]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("arguments", [[], [1], "x", 5, True])
async def test_arguments_that_are_no_object_are_invalid_params(revision, arguments):
    async with served(make_server(), revision) as client:
        for tool in ("quick", "f"):
            error = await client.error("tools/call", {"name": tool, "arguments": arguments})
            assert error["code"] == -32602


@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": None}, {"arguments": {}}, None])
async def test_a_call_without_a_name_is_invalid_params(params):
    async with served(make_server()) as client:
        assert (await client.error("tools/call", params))["code"] == -32602


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_unknown_tool_is_invalid_params_and_named(revision):
    async with served(make_server(), revision) as client:
        error = await client.error("tools/call", {"name": "nope", "arguments": {}})
        assert error["code"] == -32602
        assert error["message"] == "Unknown tool: nope"


async def test_an_unknown_tool_raises_request_failed_to_the_caller():
    async with connect(make_server()) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.call_tool("QUICK", {"n": 1})
        assert caught.value.code == -32602


async def test_half_a_surrogate_pair_in_an_argument_is_mended():
    server = Server("text", "1")

    @server.tool(inline=True)
    def echo(text: str) -> str:
        return text

    async with served(server) as client:
        client.send(
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call",'
            b'"params":{"name":"echo","arguments":{"text":"a\\ud800b"}}}'
        )
        answer = await client.answer(5)
        assert answer["result"]["content"][0]["text"] == "a\ufffdb"


async def test_deep_nesting_in_arguments_is_answered_and_the_session_lives():
    server = Server("deep", "1")

    @server.tool(inline=True)
    def f(a: Any) -> str:
        return "reached"

    async with served(server) as client:
        deep = b"[" * 100_000 + b"]" * 100_000
        client.send(
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call",'
            b'"params":{"name":"f","arguments":{"a":' + deep + b"}}}"
        )
        answer = await client.receive()
        assert "error" in answer or answer["result"]["isError"]
        assert await client.heard() == []


async def test_unknown_members_beside_the_arguments_are_ignored():
    async with served(make_server()) as client:
        result = await client.call("quick", {"n": 1}, vendor={"x": 1}, _meta={"vendor/y": 2})
        assert result["content"][0]["text"] == "quick 1"
