"""What is refused when a function is registered, and what the error says."""

from __future__ import annotations

from typing import Any

import pytest
from handshake import connect

from mcpcore import Context, Server
from mcpcore.server import tools


def test_two_tools_of_one_name_are_refused():
    server = Server("x", "1")
    server.tool(name="same")(lambda: None)
    with pytest.raises(ValueError, match="there is a tool 'same' already"):
        server.tool(name="same")(lambda: None)


def test_two_prompts_resources_templates_and_completions_of_one_name_are_refused():
    server = Server("x", "1")
    server.prompt(name="p")(lambda: "")
    server.resource("x:a")(lambda: "")
    server.resource("x:{a}")(lambda a: a)
    server.completion("p", "q")(lambda value: [])
    with pytest.raises(ValueError, match="prompt 'p' already"):
        server.prompt(name="p")(lambda: "")
    with pytest.raises(ValueError, match="resource 'x:a' already"):
        server.resource("x:a")(lambda: "")
    with pytest.raises(ValueError, match=r"template 'x:\{a\}' already"):
        server.resource("x:{a}")(lambda a: a)
    with pytest.raises(ValueError, match="already"):
        server.completion("p", "q")(lambda value: [])


def test_parameters_that_cannot_be_given_by_name_are_refused():
    def many(*things: int) -> None: ...
    def keywords(**things: int) -> None: ...
    def positional(a: int, /) -> None: ...

    for function, name in ((many, "things"), (keywords, "things"), (positional, "a")):
        with pytest.raises(TypeError, match=f"{function.__name__}: the parameter {name}"):
            Server("x", "1").tool(function)


def test_a_plain_function_cannot_ask():
    with pytest.raises(TypeError, match="a function that asks must be async"):

        @Server("x", "1").tool(asks="replay")
        def f(ctx: Context) -> None: ...


def test_another_word_for_asks_is_refused():
    with pytest.raises(ValueError, match="asks is 'replay', 'rounds' or nothing"):

        @Server("x", "1").tool(asks="twice")
        async def f(ctx: Context) -> None: ...


def test_an_async_function_cannot_be_inline():
    with pytest.raises(TypeError, match="an inline tool is a plain function"):

        @Server("x", "1").tool(inline=True)
        async def f() -> None: ...


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="colour"):
        Server("x", "1").tool(colour="red")(lambda: None)


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"type": ["object"]}])
@pytest.mark.parametrize("which", ["input_schema", "output_schema"])
def test_an_explicit_schema_must_be_of_an_object(which, schema):
    with pytest.raises(ValueError, match='"type": "object"'):

        @Server("x", "1").tool(**{which: schema})
        def f(arguments: dict[str, Any]) -> Any: ...


def test_an_explicit_schema_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a valid schema"):

        @Server("x", "1").tool(input_schema={"type": "object", "properties": 5})
        def f(arguments: dict[str, Any]) -> Any: ...


def test_an_explicit_input_schema_needs_a_function_of_one_dict():
    with pytest.raises(TypeError, match="takes the arguments as one dict"):

        @Server("x", "1").tool(input_schema={"type": "object"})
        def f(a: int, b: int) -> Any: ...


def test_an_explicit_schema_needs_the_extra(monkeypatch):
    monkeypatch.setattr(tools, "can_validate", lambda: False)
    with pytest.raises(TypeError, match="pip install"):

        @Server("x", "1").tool(output_schema={"type": "object"})
        def f() -> Any: ...


def test_a_template_and_its_function_must_name_the_same_variables():
    server = Server("x", "1")
    with pytest.raises(TypeError, match=r"\['b'\].*\['a'\]"):
        server.resource("x://{a}")(lambda b: "")
    with pytest.raises(TypeError, match="variables"):
        server.resource("x://fixed")(lambda a: "")
    with pytest.raises(TypeError, match="variables"):
        server.resource("x://{a}")(lambda: "")


@pytest.mark.parametrize("template", ["x://{a", "x://{}", "x://{a*}", "x://{a}{a}"])
def test_a_bad_template_is_refused(template):
    with pytest.raises(ValueError, match="malformed URI template"):
        Server("x", "1").resource(template)(lambda a: "")


@pytest.mark.parametrize(
    "function",
    [lambda: [], lambda value, other: [], lambda value, context, more: []],  # noqa: PIE807
)
def test_a_completion_takes_the_value_and_perhaps_the_context(function):
    with pytest.raises(TypeError, match="a completion takes the value"):
        Server("x", "1").completion("p", "a")(function)


def test_bad_server_options_are_refused():
    with pytest.raises(ValueError, match="page_size"):
        Server("x", "1", page_size=0)
    with pytest.raises(ValueError, match="unknown protocol revision"):
        Server("x", "1", revisions=["1999-01-01"])
    with pytest.raises(ValueError, match="at least one"):
        Server("x", "1", revisions=[])


def test_removing_what_is_not_there_raises_key_error():
    server = Server("x", "1")
    for remove in (server.remove_tool, server.remove_resource, server.remove_prompt):
        with pytest.raises(KeyError):
            remove("nothing")


async def test_decorators_give_the_function_back_with_and_without_parentheses():
    server = Server("x", "1")

    def one() -> str:
        return "1"

    def two() -> str:
        return "2"

    assert server.tool(one) is one
    assert server.tool()(two) is two
    assert server.prompt(one) is one
    assert server.prompt()(two) is two
    assert server.resource("x:1")(one) is one
    assert server.completion("one", "a")(lambda value: []) is not None
    async with connect(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["one", "two"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["one", "two"]


async def test_a_server_tells_what_it_was_given():
    server = Server(
        "full",
        "2.1",
        title="Full",
        description="All of it",
        website_url="https://example.org",
        instructions="use it well",
    )
    async with connect(server) as client:
        info = client.server_info
        assert (info.name, info.version, info.title) == ("full", "2.1", "Full")
        assert (info.description, info.website_url) == ("All of it", "https://example.org")
        assert client.instructions == "use it well"
        assert client.revision == "2025-11-25"
