"""Prompts and completion."""

from __future__ import annotations

import enum
from typing import Annotated, Literal

import pytest
from msgspec import Meta
from scripted_client import REVISIONS, served

from mcpcore import Context, GetPromptResult, ImageContent, Message, Server, TextContent, connect
from mcpcore.types import Completion, Icon, PromptReference, ResourceTemplateReference


class Tone(enum.Enum):
    KIND = "kind"
    RUDE = "rude"


def make_server() -> Server:  # noqa: C901
    server = Server("prompts", "1")

    @server.prompt(title="Greeting")
    def greet(
        name: Annotated[str, Meta(description="whom")], times: int = 1, tone: Tone = Tone.KIND
    ) -> str:
        """Greet somebody.

        Args:
            times: how often
        """
        return f"Greet {name} {times} times, {tone.value}."

    @server.prompt
    async def typed(
        ctx: Context, flag: bool, unit: Literal["C", "F"] = "C", ratio: float = 0.5
    ) -> str:
        return repr((flag, unit, ratio, ctx.client.name))

    @server.prompt
    def picture() -> ImageContent:
        return ImageContent.of(b"\x00", "image/png")

    @server.prompt
    def dialogue() -> list:
        return [
            "question",
            Message("assistant", TextContent("answer")),
            ImageContent.of(b"\x01", "image/png"),
            {"a": 1},
        ]

    @server.prompt
    def ready() -> GetPromptResult:
        return GetPromptResult(messages=[], description="own", meta={"k": 1})

    @server.prompt
    def data() -> dict[str, int]:
        return {"a": 1}

    @server.resource("x://{city}")
    def place(city: str) -> str:
        return city

    server.resource("x:fixed")(lambda: "")

    @server.completion("greet", "name")
    def complete_name(value: str) -> list[str]:
        return [name for name in ("ann", "anton", "bob") if name.startswith(value)]

    @server.completion("greet", "tone")
    async def complete_tone(value: str, context: dict[str, str], ctx: Context) -> list[str]:
        return [f"{value}-{key}-{chosen}" for key, chosen in context.items()]

    @server.completion("x://{city}", "city")
    def complete_city(value: str) -> Completion:
        return Completion(values=["Oslo"], total=500, has_more=True)

    @server.completion("typed", "unit")
    def many(value: str) -> tuple[str, ...]:
        return tuple(str(n) for n in range(250))

    @server.completion("typed", "ratio")
    def many_more(value: str) -> Completion:
        return Completion(values=[str(n) for n in range(101)], total=1000)

    return server


async def test_prompts_are_listed_with_their_arguments():
    async with connect(make_server()) as client:
        prompts = {prompt.name: prompt for prompt in await client.list_prompts()}
        greet = prompts["greet"]
        assert greet.title == "Greeting"
        assert greet.description == "Greet somebody."
        assert [(a.name, a.description, a.required) for a in greet.arguments] == [
            ("name", "whom", True),
            ("times", "how often", False),
            ("tone", None, False),
        ]
        assert prompts["picture"].arguments is None
        assert [a.name for a in prompts["typed"].arguments] == ["flag", "unit", "ratio"]


async def test_string_arguments_are_converted_to_what_the_parameters_say():
    async with connect(make_server()) as client:
        result = await client.get_prompt("greet", {"name": "Ann", "times": "3", "tone": "rude"})
        assert result.description == "Greet somebody."
        assert result.messages == [Message("user", TextContent("Greet Ann 3 times, rude."))]
        result = await client.get_prompt("typed", {"flag": "true", "unit": "F", "ratio": "1.25"})
        assert result.messages[0].content.text == "(True, 'F', 1.25, 'mcpcore')"
        assert (
            (await client.get_prompt("greet", {"name": "5"}))
            .messages[0]
            .content.text.startswith("Greet 5 1")
        )


async def test_the_shapes_that_a_prompt_may_return():
    async with connect(make_server()) as client:
        picture = await client.get_prompt("picture")
        assert picture.messages == [Message("user", ImageContent.of(b"\x00", "image/png"))]
        dialogue = await client.get_prompt("dialogue")
        assert [(m.role, type(m.content).__name__) for m in dialogue.messages] == [
            ("user", "TextContent"),
            ("assistant", "TextContent"),
            ("user", "ImageContent"),
            ("user", "TextContent"),
        ]
        assert dialogue.messages[3].content.text == '{"a":1}'
        ready = await client.get_prompt("ready")
        assert (ready.messages, ready.description) == ([], "own")
        assert ready.meta is not None
        assert ready.meta["k"] == 1
        assert (await client.get_prompt("data")).messages[0].content.text == '{"a":1}'


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("greet", {}, "name"),
        ("greet", None, "name"),
        ("greet", {"name": "a", "surprise": "b"}, "surprise"),
        ("greet", {"name": "a", "times": "often"}, "$.times"),
        ("greet", {"name": "a", "tone": "loud"}, "$.tone"),
        ("typed", {"flag": "perhaps"}, "$.flag"),
        ("nope", {}, "nope"),
    ],
)
async def test_missing_unknown_and_unfit_arguments_are_invalid_params(
    revision, name, arguments, says
):
    async with served(make_server(), revision) as client:
        params = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        error = await client.error("prompts/get", params)
        assert error["code"] == -32602
        assert says in error["message"]


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"name": 1},
        {"name": "greet", "arguments": {"name": 1}},
        {"name": "greet", "arguments": []},
    ],
)
async def test_params_of_another_shape_are_invalid_params(params):
    async with served(make_server()) as client:
        assert (await client.error("prompts/get", params))["code"] == -32602


async def test_removed_prompts_are_unknown():
    server = make_server()
    async with served(server) as client:
        server.remove_prompt("greet")
        assert (await client.error("prompts/get", {"name": "greet"}))["code"] == -32602


async def test_completion_of_a_prompt_and_of_a_template():
    async with connect(make_server()) as client:
        found = await client.complete(PromptReference("greet"), "name", "an")
        assert found == Completion(values=["ann", "anton"], total=2)
        found = await client.complete(ResourceTemplateReference("x://{city}"), "city", "O")
        assert found == Completion(values=["Oslo"], total=500, has_more=True)


async def test_completion_is_given_what_was_chosen_before():
    async with connect(make_server()) as client:
        ref = PromptReference("greet")
        assert (await client.complete(ref, "tone", "k", context={"name": "Ann"})).values == [
            "k-name-Ann"
        ]
        assert (await client.complete(ref, "tone", "k")).values == []


@pytest.mark.parametrize(("argument", "total"), [("unit", 250), ("ratio", 1000)])
async def test_a_completion_holds_at_most_a_hundred_values(argument, total):
    async with connect(make_server()) as client:
        found = await client.complete(PromptReference("typed"), argument, "")
        assert len(found.values) == 100
        assert found.values[0] == "0"
        assert found.total == total
        assert found.has_more is True


async def test_an_argument_without_a_completion_completes_to_nothing():
    async with connect(make_server()) as client:
        assert (await client.complete(PromptReference("greet"), "times", "1")).values == []
        assert (await client.complete(ResourceTemplateReference("x:fixed"), "a", "1")).values == []


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "ref", [{"type": "ref/prompt", "name": "nope"}, {"type": "ref/resource", "uri": "x://nope"}]
)
async def test_completion_of_something_unknown_is_invalid_params(revision, ref):
    async with served(make_server(), revision) as client:
        params = {"ref": ref, "argument": {"name": "a", "value": ""}}
        error = await client.error("completion/complete", params)
        assert error["code"] == -32602
        assert "nope" in error["message"]


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"ref": {"type": "ref/other"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "greet"}},
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name"}},
    ],
)
async def test_completion_with_params_of_another_shape_is_invalid_params(params):
    async with served(make_server()) as client:
        assert (await client.error("completion/complete", params))["code"] == -32602


async def test_without_completions_there_is_no_capability_and_no_method():
    server = Server("none", "1")
    server.prompt(name="p")(lambda a: "")
    params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
    async with served(server) as client:
        assert "completions" not in client.welcome["capabilities"]
        assert (await client.error("completion/complete", params))["code"] == -32601
    async with served(server, "2024-11-05") as client:
        assert (await client.result("completion/complete", params))["completion"] == {"values": []}


async def test_icons_and_meta_of_a_prompt_are_told_where_the_revision_has_them():
    server = Server("x", "1")
    server.prompt(name="p", icons=[Icon("data:,")], meta={"k": 1})(lambda: "")
    async with served(server) as client:
        (prompt,) = (await client.result("prompts/list"))["prompts"]
        assert (prompt["icons"], prompt["_meta"]) == ([{"src": "data:,"}], {"k": 1})
    async with served(server, "2025-03-26") as client:
        (prompt,) = (await client.result("prompts/list"))["prompts"]
        assert prompt == {"name": "p"}
