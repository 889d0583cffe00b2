"""What a tool returns, and what the caller gets: each row of the table in `mcpcore.server.results`."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest
from msgspec import UNSET
from scripted_client import REVISIONS, served

from mcpcore import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    Server,
    TextContent,
    connect,
)


@dataclasses.dataclass
class Weather:
    city: str
    degrees: float


class WeatherStruct(msgspec.Struct):
    city: str
    degrees: float


class WeatherDict(TypedDict):
    city: str
    degrees: float


class WeatherModel(pydantic.BaseModel):
    city: str
    degrees: float


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def returning(value: Any, annotation: Any = UNSET, **options: Any) -> Server:
    """A server with the tool `give`, which returns `value` and is annotated as told."""
    server = Server("results", "1")

    def give():
        return value

    if annotation is not UNSET:
        give.__annotations__["return"] = annotation
    server.tool(inline=True, **options)(give)
    return server


async def given(value: Any, annotation: Any = UNSET, **options: Any) -> CallToolResult:
    async with connect(returning(value, annotation, **options)) as client:
        return await client.call_tool("give")


async def output_schema(value: Any, annotation: Any = UNSET, **options: Any) -> Any:
    async with connect(returning(value, annotation, **options)) as client:
        (tool,) = await client.list_tools()
        return tool.output_schema


async def test_a_call_tool_result_goes_out_as_it_is():
    made = CallToolResult(
        content=[TextContent("a"), TextContent("b")], structured_content={"x": 1}, meta={"k": "v"}
    )
    result = await given(made, CallToolResult)
    assert result.content == made.content
    assert result.structured_content == {"x": 1}
    assert result.meta is not None
    assert result.meta["k"] == "v"


async def test_a_call_tool_result_that_is_an_error_goes_out_as_one():
    result = await given(CallToolResult(content=[TextContent("no")], is_error=True))
    assert result.is_error
    assert result.text == "no"


async def test_a_call_tool_result_passes_where_data_was_promised():
    made = CallToolResult(content=[TextContent("own words")], structured_content={"result": 3})
    result = await given(made, int)
    assert result.text == "own words"
    assert result.structured_content == {"result": 3}


@pytest.mark.parametrize("annotation", [UNSET, None, type(None)])
async def test_none_gives_no_content_and_nothing_structured(annotation):
    result = await given(None, annotation)
    assert result.content == []
    assert result.structured_content is UNSET


async def test_a_string_is_one_text_block_and_nothing_structured():
    result = await given("two\nlines", str)
    assert result.content == [TextContent("two\nlines")]
    assert result.structured_content is UNSET
    assert await output_schema("x", str) is None


async def test_a_string_is_structured_too_where_the_tool_says_so():
    result = await given("hello", str, structured=True)
    assert result.content == [TextContent("hello")]
    assert result.structured_content == {"result": "hello"}
    assert await output_schema("hello", str, structured=True) == {
        "type": "object",
        "properties": {"result": {"type": "string"}},
        "required": ["result"],
    }


@pytest.mark.parametrize(
    "block",
    [
        TextContent("x"),
        ImageContent.of(b"\x00\x01", "image/png"),
        AudioContent.of(b"\x02", "audio/wav"),
        ResourceLink("custom:thing", "thing"),
        EmbeddedResource(ResourceContents("custom:thing", text="inside")),
    ],
)
async def test_a_content_block_is_the_content(block):
    result = await given(block, type(block))
    assert result.content == [block]
    assert result.structured_content is UNSET


async def test_a_list_of_blocks_and_strings_keeps_its_order():
    value = ["before", ImageContent.of(b"\x00", "image/png"), "after"]
    result = await given(value, list[str | ImageContent])
    assert result.content == [TextContent("before"), value[1], TextContent("after")]
    assert result.structured_content is UNSET
    assert await output_schema(value, list[str | ImageContent]) is None


async def test_a_tuple_of_blocks_is_content_too():
    result = await given((TextContent("a"), TextContent("b")), tuple[TextContent, ...])
    assert result.text == "a\nb"
    assert result.structured_content is UNSET


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ({"city": "Oslo", "degrees": 3.5}, dict[str, Any]),
        (Weather("Oslo", 3.5), Weather),
        (WeatherStruct("Oslo", 3.5), WeatherStruct),
        (WeatherDict(city="Oslo", degrees=3.5), WeatherDict),
        (WeatherModel(city="Oslo", degrees=3.5), WeatherModel),
        (Weather("Oslo", 3.5), Annotated[Weather, "of today"]),
    ],
)
async def test_an_object_is_structured_content_and_its_json_as_text(value, annotation):
    """F-059: the serialised JSON is there for clients that read text only."""
    result = await given(value, annotation)
    assert result.structured_content == {"city": "Oslo", "degrees": 3.5}
    assert result.text == '{"city":"Oslo","degrees":3.5}'
    assert result.validated is True


@pytest.mark.parametrize(
    ("value", "annotation", "plain"),
    [
        (3, int, 3),
        (2.5, float, 2.5),
        (True, bool, True),
        (["a", "b"], list[str], ["a", "b"]),
        ([1, 2], list[int], [1, 2]),
        ([], list[str], []),
        (Colour.RED, Colour, "red"),
        (None, int | None, None),
    ],
)
async def test_what_is_no_object_is_wrapped_as_result(value, annotation, plain):
    result = await given(value, annotation)
    assert result.structured_content == {"result": plain}
    assert result.text == msgspec.json.encode(plain).decode()
    assert result.validated is True


async def test_a_list_of_objects_is_wrapped_with_its_definitions_at_the_root():
    schema = await output_schema([], list[Weather])
    assert schema["properties"] == {
        "result": {"type": "array", "items": {"$ref": "#/$defs/Weather"}}
    }
    assert schema["$defs"]["Weather"]["properties"]["city"] == {"type": "string"}
    result = await given([Weather("Oslo", 1.0)], list[Weather])
    assert result.structured_content == {"result": [{"city": "Oslo", "degrees": 1.0}]}
    assert result.validated is True


@pytest.mark.parametrize("annotation", [UNSET, Any])
async def test_without_an_annotation_data_is_text_only(annotation):
    result = await given({"a": 1}, annotation)
    assert result.text == '{"a":1}'
    assert result.structured_content is UNSET
    assert await output_schema({"a": 1}, annotation) is None


async def test_structured_false_gives_text_only():
    result = await given(Weather("Oslo", 1.0), Weather, structured=False)
    assert result.structured_content is UNSET
    assert result.text == '{"city":"Oslo","degrees":1.0}'
    assert await output_schema(Weather("Oslo", 1.0), Weather, structured=False) is None


@pytest.mark.parametrize("annotation", [UNSET, Any, None, ImageContent])
def test_structured_without_something_to_promise_is_refused_at_registration(annotation):
    with pytest.raises(TypeError, match="structured=True"):
        returning(None, annotation, structured=True)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [("three", int), ({"city": "Oslo"}, Weather), ([1, "x"], list[int]), ("green", Colour)],
)
async def test_a_value_that_breaks_its_annotation_is_a_tool_error(value, annotation):
    result = await given(value, annotation)
    assert result.is_error
    assert "something else than it promises" in result.text
    assert result.structured_content is UNSET


async def test_a_value_that_a_pydantic_model_refuses_is_a_tool_error():
    result = await given({"city": "Oslo", "degrees": "warm"}, WeatherModel)
    assert result.is_error
    assert "something else than it promises" in result.text


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("annotation", [UNSET, Any])
async def test_nan_and_infinity_never_reach_the_wire(bad, annotation):
    """F-054: strict peers drop a whole message that holds NaN."""
    for value in (bad, {"x": [bad]}, Weather("Oslo", bad), WeatherModel(city="x", degrees=bad)):
        result = await given(value, annotation)
        assert result.is_error
        assert "NaN or infinity" in result.text


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (float("nan"), float),
        ([1.0, float("inf")], list[float]),
        (Weather("null", float("nan")), Weather),
        ({"a": {"b": float("inf")}}, dict[str, Any]),
    ],
)
async def test_nan_in_structured_content_is_a_tool_error(value, annotation):
    """F-054."""
    result = await given(value, annotation)
    assert result.is_error
    assert result.structured_content is UNSET


async def test_nan_in_a_ready_made_result_is_an_error_and_the_session_lives():
    """F-054: what cannot be written becomes an error that can."""
    server = returning(CallToolResult(content=[], structured_content={"x": float("nan")}))
    async with served(server) as client:
        error = await client.error("tools/call", {"name": "give"})
        assert error["code"] == -32603
        assert await client.heard() == []


async def test_null_in_data_is_not_taken_for_nan():
    result = await given({"a": None, "b": "null", "c": [1.5]}, dict[str, Any])
    assert result.structured_content == {"a": None, "b": "null", "c": [1.5]}


@pytest.mark.parametrize("value", [object(), {1, object()}, {"x": lambda: 1}])
async def test_what_json_cannot_hold_is_a_tool_error(value):
    result = await given(value)
    assert result.is_error
    assert "JSON cannot hold" in result.text


async def test_a_null_beside_what_cannot_be_converted_is_a_tool_error():
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    result = await given([None, nested])
    assert result.is_error


async def test_integers_keep_every_digit_through_client_and_server():
    """F-055: numbers beyond 2**53 must not become floats on the way."""
    big = 1915883588174806058
    server = Server("digits", "1")

    @server.tool(inline=True)
    def echo(number: int) -> dict[str, int]:
        return {"number": number, "again": number * 1000 + 1}

    async with connect(server) as client:
        result = await client.call_tool("echo", {"number": big})
        assert result.structured_content == {"number": big, "again": big * 1000 + 1}
        assert type(result.structured_content["number"]) is int
        raw = await client.request("tools/call", {"name": "echo", "arguments": {"number": big}})
        assert raw["structuredContent"]["number"] == big


@pytest.mark.parametrize("revision", REVISIONS)
async def test_content_is_always_there_whatever_the_revision(revision):
    """F-059: a result without text would look empty to clients that read only content."""
    server = returning(Weather("Oslo", 1.0), Weather)
    async with served(server, revision) as client:
        result = await client.call("give")
        assert result["content"] == [{"type": "text", "text": '{"city":"Oslo","degrees":1.0}'}]
        assert ("structuredContent" in result) == (revision >= "2025-06-18")
    async with served(returning(None), revision) as client:
        assert (await client.call("give"))["content"] == []


async def test_kinds_that_an_old_revision_lacks_become_text():
    server = returning([AudioContent.of(b"x", "audio/wav"), ResourceLink("custom:a", "a")])
    async with served(server, "2024-11-05") as client:
        result = await client.call("give")
        assert [block["type"] for block in result["content"]] == ["text", "text"]
        assert "custom:a" in result["content"][1]["text"]
