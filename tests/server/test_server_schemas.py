"""Input schemas that are made from signatures, and what calls with them do."""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Annotated, Any, Literal, Optional, TypedDict

import jsonschema
import msgspec
import pydantic
import pytest
from msgspec import Meta

from mcpcore import CallToolResult, Context, Server, connect


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Line(msgspec.Struct):
    start: Point
    end: Point | None = None


class Options(TypedDict, total=False):
    depth: int


class Street(pydantic.BaseModel):
    name: str


class Address(pydantic.BaseModel):
    street: Street
    zip: int = pydantic.Field(ge=1)


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


async def schema_of(function: Any, **options: Any) -> dict[str, Any]:
    """The input schema of `function`, as a client sees it."""
    server = Server("schemas", "1")
    server.tool(**options)(function)
    async with connect(server) as client:
        (tool,) = await client.list_tools()
    return tool.input_schema


async def echoed(function: Any, arguments: dict[str, Any]) -> Any:
    """What `function`, called by a client, got."""
    server = Server("schemas", "1")
    server.tool(inline=True, name="f")(function)
    async with connect(server) as client:
        result = await client.call_tool("f", arguments)
    assert not result.is_error, result.text
    return result.text


async def test_a_signature_without_parameters_allows_none():
    def nothing() -> None: ...

    schema = await schema_of(nothing)
    assert schema["type"] == "object"
    assert schema["properties"] == {}
    assert not schema.get("required")
    assert schema["additionalProperties"] is False


async def test_required_and_optional_parameters():
    def f(a: int, b: str, c: float = 1.5, *, d: bool = False) -> None: ...

    schema = await schema_of(f)
    assert schema["type"] == "object"
    assert schema["required"] == ["a", "b"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["a"] == {"type": "integer"}
    assert schema["properties"]["b"] == {"type": "string"}
    assert schema["properties"]["c"] == {"type": "number", "default": 1.5}
    assert schema["properties"]["d"] == {"type": "boolean", "default": False}
    assert "title" not in schema


async def test_bounds_and_descriptions_from_annotated_meta():
    def f(
        n: Annotated[int, Meta(ge=1, le=30, description="how many")],
        s: Annotated[str, Meta(pattern="^x", min_length=2, max_length=5)] = "xy",
    ) -> None: ...

    schema = await schema_of(f)
    assert schema["properties"]["n"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 30,
        "description": "how many",
    }
    assert schema["properties"]["s"] == {
        "type": "string",
        "pattern": "^x",
        "minLength": 2,
        "maxLength": 5,
        "default": "xy",
    }


async def test_a_plain_string_in_annotated_is_the_description():
    def f(city: Annotated[str, "where"]) -> None: ...

    assert (await schema_of(f))["properties"]["city"]["description"] == "where"


async def test_meta_goes_before_the_docstring():
    def f(city: Annotated[str, Meta(description="from meta")], other: str) -> None:
        """Do it.

        Args:
            city: from the docstring
            other: from the docstring
        """

    properties = (await schema_of(f))["properties"]
    assert properties["city"]["description"] == "from meta"
    assert properties["other"]["description"] == "from the docstring"


async def test_literals_and_enums_are_enums():
    def f(unit: Literal["C", "F"], mood: Mood = Mood.GOOD) -> str:
        return f"{unit} {mood!r}"

    schema = await schema_of(f)
    assert schema["properties"]["unit"] == {"type": "string", "enum": ["C", "F"]}
    assert schema["$defs"]["Mood"]["enum"] == ["bad", "good"]
    assert schema["properties"]["mood"]["default"] == "good"
    assert await echoed(f, {"unit": "C", "mood": "bad"}) == f"C {Mood.BAD!r}"
    assert await echoed(f, {"unit": "F"}) == f"F {Mood.GOOD!r}"


async def test_choices_of_several_kinds_and_of_numbers():
    def f(a: Literal[1, 2], b: Literal[1, "x"]) -> str:
        return repr((a, b))

    schema = await schema_of(f)
    assert schema["properties"]["a"] == {"type": "integer", "enum": [1, 2]}
    assert sorted(map(str, schema["properties"]["b"]["enum"])) == ["1", "x"]
    assert "type" not in schema["properties"]["b"]
    assert await echoed(f, {"a": 2, "b": "x"}) == "(2, 'x')"


async def test_optional_parameters_may_be_null_or_left_out():
    def f(a: Optional[int] = None, b: int | None = 3) -> str:  # noqa: UP045
        return repr((a, b))

    schema = await schema_of(f)
    assert {"type": "null"} in schema["properties"]["a"]["anyOf"]
    assert schema["properties"]["a"]["default"] is None
    assert not schema.get("required")
    assert await echoed(f, {}) == "(None, 3)"
    assert await echoed(f, {"a": 1, "b": None}) == "(1, None)"


async def test_dataclass_struct_and_typed_dict_arrive_as_such():
    def f(point: Point, line: Line, options: Options) -> str:
        assert type(point) is Point
        assert type(line) is Line
        return repr((point, line.start, line.end, options))

    schema = await schema_of(f)
    assert schema["properties"]["point"] == {"$ref": "#/$defs/Point"}
    assert schema["$defs"]["Line"]["properties"]["start"] == {"$ref": "#/$defs/Point"}
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert not schema["$defs"]["Options"].get("required")
    got = await echoed(
        f, {"point": {"x": 1}, "line": {"start": {"x": 2, "y": 3}}, "options": {"depth": 4}}
    )
    assert got == "(Point(x=1, y=0), Point(x=2, y=3), None, {'depth': 4})"


async def test_pydantic_models_bring_their_definitions_to_the_root():
    def f(address: Address) -> str:
        assert type(address) is Address
        return f"{address.street.name} {address.zip}"

    schema = await schema_of(f)
    assert msgspec.json.encode(schema).count(b'"$defs"') == 1
    assert schema["$defs"]["Street"]["properties"]["name"]["type"] == "string"
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"address": {"street": {"name": "a"}, "zip": 1}})
    assert not validator.is_valid({"address": {"street": {"name": 1}, "zip": 1}})
    assert await echoed(f, {"address": {"street": {"name": "Main"}, "zip": 7}}) == "Main 7"


async def test_lists_of_pydantic_models():
    def f(all: list[Address]) -> str:
        return ",".join(address.street.name for address in all)

    schema = await schema_of(f)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"all": [{"street": {"name": "a"}, "zip": 1}]})
    assert not validator.is_valid({"all": [{"street": {}, "zip": 1}]})
    assert await echoed(f, {"all": [{"street": {"name": "Main"}, "zip": 7}]}) == "Main"


async def test_recursive_types_keep_their_references():
    """F-062: definitions that mention themselves must not be inlined for ever."""

    def f(tree: Tree) -> int:
        return tree.children[0].value

    schema = await schema_of(f)
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert await echoed(f, {"tree": {"value": 1, "children": [{"value": 2}]}}) == "2"


async def test_a_recursive_type_as_result_has_a_root_that_says_object():
    """F-062."""
    server = Server("schemas", "1")

    @server.tool(inline=True)
    def plant() -> Tree:
        return Tree(1, [Tree(2)])

    async with connect(server) as client:
        (tool,) = await client.list_tools()
        assert tool.output_schema["type"] == "object"
        assert tool.output_schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
        result = await client.call_tool("plant")
        assert result.validated is True
        assert result.structured_content["children"][0]["value"] == 2


async def test_a_mutable_default_is_not_shared_between_calls():
    def f(items: list[int] = [], seen: dict[str, int] = {"a": 1}) -> str:  # noqa: B006
        items.append(1)
        seen["b"] = len(items)
        return repr((items, seen))

    server = Server("schemas", "1")
    server.tool(inline=True)(f)
    async with connect(server) as client:
        for _ in range(3):
            assert (await client.call_tool("f")).text == "([1], {'a': 1, 'b': 1})"


def test_a_default_that_no_schema_can_show_is_refused_by_name():
    class Odd: ...

    def f(fine: int, strange: Any = Odd()) -> None: ...  # noqa: B008

    with pytest.raises(TypeError, match=r"f: .*strange"):
        Server("x", "1").tool(f)


GOOGLE = """Find flights.

    They may be late.

    Args:
        origin: the airport to
            start from
        days (int): how many
            of which: none
        untyped:

    Returns:
        origin: not a parameter
    """

NUMPY = """Find flights.

    They may be late.

    Parameters
    ----------
    origin : str
        the airport to
        start from
    days : int, optional
        how many

    Returns
    -------
    untyped : str
        not a parameter
    """

SPHINX = """Find flights.

    They may be late.

    :param origin: the airport to
        start from
    :param int days: how many
    :returns: nothing
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
async def test_docstrings_describe_the_tool_and_its_parameters(doc):
    server = Server("docs", "1")

    def flights(origin: str, days: int = 1, untyped: str = "") -> None: ...

    flights.__doc__ = doc
    server.tool(flights)
    async with connect(server) as client:
        (tool,) = await client.list_tools()
    assert tool.description == "Find flights.\n\nThey may be late."
    properties = tool.input_schema["properties"]
    assert properties["origin"]["description"] == "the airport to start from"
    assert properties["days"]["description"].startswith("how many")
    assert "description" not in properties["untyped"]


async def test_a_docstring_that_is_only_parameters_gives_no_description():
    server = Server("docs", "1")

    @server.tool
    def f(a: int) -> None:
        """
        Args:
            a: the only one
        """

    async with connect(server) as client:
        (tool,) = await client.list_tools()
    assert tool.description is None
    assert tool.input_schema["properties"]["a"]["description"] == "the only one"


async def test_options_go_before_what_the_function_says():
    server = Server("docs", "1")

    @server.tool(name="other", title="Title", description="said", meta={"vendor/x": [1]})
    def f() -> None:
        """Not this."""

    async with connect(server) as client:
        (tool,) = await client.list_tools()
        assert (tool.name, tool.title, tool.description) == ("other", "Title", "said")
        assert tool.meta == {"vendor/x": [1]}
        assert (await client.call_tool("other")).content == []


async def test_a_partial_function():
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    server = Server("callables", "1")
    server.tool(name="plus", inline=True)(functools.partial(add, b=10))
    async with connect(server) as client:
        assert (await client.call_tool("plus", {"a": 1})).structured_content == {"result": 11}
        (tool,) = await client.list_tools()
        assert "a" in tool.input_schema["required"]


async def test_a_partial_of_an_async_function_is_awaited():
    async def add(a: int, b: int) -> int:
        return a + b

    server = Server("callables", "1")
    server.tool(name="plus")(functools.partial(functools.partial(add, b=1)))
    async with connect(server) as client:
        assert (await client.call_tool("plus", {"a": 1})).structured_content == {"result": 2}


async def test_a_callable_object_plain_and_async():
    class Plain:
        """Adds."""

        def __call__(self, a: int) -> int:
            return a + 1

    class Async:
        async def __call__(self, a: int, ctx: Context) -> int:
            return a + 2

    server = Server("callables", "1")
    server.tool(inline=True)(Plain())
    server.tool(Async())
    async with connect(server) as client:
        assert (await client.call_tool("Plain", {"a": 1})).structured_content == {"result": 2}
        assert (await client.call_tool("Async", {"a": 1})).structured_content == {"result": 3}


async def test_bound_methods():
    class Shop:
        def __init__(self) -> None:
            self.stock = 5

        def sell(self, n: int) -> int:
            self.stock -= n
            return self.stock

        async def fill(self, n: int) -> int:
            self.stock += n
            return self.stock

    shop = Shop()
    server = Server("callables", "1")
    server.tool(inline=True)(shop.sell)
    server.tool(shop.fill)
    async with connect(server) as client:
        assert (await client.call_tool("sell", {"n": 2})).structured_content == {"result": 3}
        assert (await client.call_tool("fill", {"n": 9})).structured_content == {"result": 12}


async def test_types_that_are_local_to_a_function_are_found_through_its_closure():
    @dataclasses.dataclass
    class Local:
        a: int

    def f(local: Local) -> int:
        assert isinstance(local, Local)
        return local.a

    assert await echoed(f, {"local": {"a": 4}}) == "4"


def test_a_type_that_cannot_be_found_is_named_at_registration():
    def f(a: Missing) -> None: ...  # noqa: F821

    with pytest.raises(TypeError, match=r"f: .*Missing.*top of the module"):
        Server("x", "1").tool(f)


def test_a_type_without_a_schema_is_refused_at_registration():
    class NoSchema: ...

    def f(fine: int, strange: NoSchema) -> None: ...

    f.__annotations__["strange"] = NoSchema
    with pytest.raises(TypeError, match=r"f: .*strange"):
        Server("x", "1").tool(f)


async def test_the_context_is_no_parameter_in_whatever_way_it_is_written():
    def plain(ctx: Context) -> None: ...
    def typed(ctx: Context[int]) -> None: ...
    def optional(ctx: Context | None = None) -> None: ...
    def annotated(*, c: Annotated[Context, "the context"]) -> None: ...

    for function in (plain, typed, optional, annotated):
        assert not (await schema_of(function))["properties"]


async def test_parameters_whose_names_are_odd_for_a_struct():
    def f(self_: int, class_: str, items: int, _private: int = 0) -> str:
        return f"{self_}{class_}{items}{_private}"

    assert await echoed(f, {"self_": 1, "class_": "a", "items": 2, "_private": 3}) == "1a23"


async def test_schemas_of_generated_tools_are_valid_2020_12():
    server = Server("schemas", "1")

    @server.tool
    def one(a: Line, b: Literal[1, 2], c: Address, d: list[Mood], e: dict[str, Point]) -> Line: ...

    async with connect(server) as client:
        (tool,) = await client.list_tools()
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)


async def test_an_explicit_schema_replaces_the_signature():
    server = Server("schemas", "1")
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 3}},
        "required": ["a"],
        "x-vendor": {"kept": True},
    }

    @server.tool(input_schema=schema, inline=True)
    def f(arguments: dict[str, Any]) -> Any:
        return arguments

    async with connect(server) as client:
        (tool,) = await client.list_tools()
        assert tool.input_schema == schema
        assert (await client.call_tool("f", {"a": 3, "b": 1})).text == '{"a":3,"b":1}'
        bad = await client.call_tool("f", {"a": 1})
        assert bad.is_error
        assert "$.a" in bad.text
        missing = await client.call_tool("f")
        assert missing.is_error
        assert "'a' is a required property" in missing.text


async def test_an_explicit_output_schema_is_held_against_what_the_tool_gives():
    server = Server("schemas", "1")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    values: list[Any] = [{"n": 1}, {"n": "x"}, "words"]

    @server.tool(output_schema=schema, inline=True)
    def f() -> Any:
        return values.pop(0)

    async with connect(server) as client:
        (tool,) = await client.list_tools()
        assert tool.output_schema == schema
        good = await client.call_tool("f")
        assert (good.structured_content, good.text, good.validated) == ({"n": 1}, '{"n":1}', True)
        wrong = await client.call_tool("f")
        assert wrong.is_error
        assert "promises" in wrong.text
        none = await client.call_tool("f")
        assert none.is_error
        assert "returned none" in none.text


async def test_an_explicit_output_schema_takes_a_ready_made_result():
    server = Server("schemas", "1")
    schema = {"type": "object", "required": ["n"]}
    values = [
        CallToolResult(content=[], structured_content={"n": 1}),
        CallToolResult(content=[], structured_content={}),
        CallToolResult(content=[], is_error=True),
    ]

    @server.tool(output_schema=schema, inline=True)
    def f() -> CallToolResult:
        return values.pop(0)

    async with connect(server) as client:
        assert (await client.call_tool("f")).structured_content == {"n": 1}
        assert (await client.call_tool("f")).is_error
        failed = await client.call_tool("f")
        assert failed.is_error
        assert failed.content == []
