"""The server that the official conformance suite wants to meet: `official_server.py --port PORT`."""

from __future__ import annotations

import argparse
import base64
from typing import Annotated, Any, Literal

import msgspec
import trio
from msgspec import Meta

from mcpcore import (
    AudioContent,
    Context,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Message,
    ResourceContents,
    Server,
    TextContent,
    ToolError,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = base64.b64encode(
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"
    b"\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"
).decode()

server = Server("official-fixture", "1.0", instructions="For the official conformance suite.")


@server.tool
def a_simple_tool() -> str:
    """Needs no arguments."""
    return "fine"


@server.tool(structured=False)
def test_simple_text() -> str:
    """One text."""
    return "This is a simple text."


@server.tool
def test_image_content() -> ImageContent:
    """One picture."""
    return ImageContent(data=PIXEL, mime_type="image/png")


@server.tool
def test_audio_content() -> AudioContent:
    """One sound."""
    return AudioContent(data=SILENCE, mime_type="audio/wav")


class Weather(msgspec.Struct):
    temperature: float
    conditions: list[str]


@server.tool
def test_structured_content() -> Weather:
    """Structured content that conforms to an output schema."""
    return Weather(21.5, ["sunny", "dry"])


def _resource(text: str) -> EmbeddedResource:
    contents = ResourceContents(uri="test://embedded", mime_type="text/plain", text=text)
    return EmbeddedResource(resource=contents)


@server.tool
def test_embedded_resource() -> EmbeddedResource:
    """One resource."""
    return _resource("embedded")


@server.tool
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """One of each."""
    return [TextContent("text"), ImageContent(data=PIXEL, mime_type="image/png"), _resource("more")]


@server.tool
def test_error_handling() -> str:
    """Fails."""
    raise ToolError("this tool always fails")


@server.tool(structured=False)
async def test_tool_with_logging(ctx: Context[Any]) -> str:
    """Logs while it works."""
    for step in ("started", "halfway", "done"):
        ctx.log("info", step)
        await trio.sleep(0.05)
    return "logged"


@server.tool(structured=False)
async def test_tool_with_progress(ctx: Context[Any]) -> str:
    """Tells how far it is."""
    for done in (0, 50, 100):
        ctx.progress(done, 100)
        await trio.sleep(0.05)
    return "complete"


EFFECTS: dict[str, int] = {}


@server.tool(structured=False)
async def test_wait(milliseconds: int, effect: str) -> str:
    """Waits, and only then has its effect: a call that is cancelled has none."""
    await trio.sleep(milliseconds / 1000)
    EFFECTS[effect] = EFFECTS.get(effect, 0) + 1
    return "waited"


@server.tool(structured=False)
def test_effects(effect: str) -> str:
    """How often this effect was had."""
    return str(EFFECTS.get(effect, 0))


@server.tool(structured=False, asks="replay")
async def test_sampling(prompt: str, ctx: Context[Any]) -> str:
    """Asks the client's model."""
    answer = await ctx.sample("model", prompt, max_tokens=100)
    return str(answer.content)


class Login(msgspec.Struct):
    username: str
    email: str


@server.tool(structured=False, asks="replay")
async def test_elicitation(message: str, ctx: Context[Any]) -> str:
    """Asks the person."""
    answer = await ctx.elicit("login", Login, message)
    return f"{answer.action}: {answer.value}"


class Defaults(msgspec.Struct):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@server.tool(structured=False, asks="replay")
async def test_elicitation_sep1034_defaults(ctx: Context[Any]) -> str:
    """Asks the person, with defaults."""
    answer = await ctx.elicit("defaults", Defaults, "Anything to change?")
    return f"{answer.action}: {answer.value}"


_CHOICES = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]


class Choices(msgspec.Struct, rename="camel"):
    untitled_single: Literal["option1", "option2", "option3"]
    titled_single: Annotated[str, Meta(extra_json_schema={"oneOf": _CHOICES})]
    legacy_enum: Annotated[
        str,
        Meta(
            extra_json_schema={
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option one", "Option two", "Option three"],
            }
        ),
    ]
    untitled_multi: list[Literal["option1", "option2", "option3"]]
    titled_multi: list[Annotated[str, Meta(extra_json_schema={"anyOf": _CHOICES})]]


@server.tool(structured=False, asks="replay")
async def test_elicitation_sep1330_enums(ctx: Context[Any]) -> str:
    """Asks the person to choose, in every way there is."""
    answer = await ctx.elicit("choices", Choices, "Which?")
    return f"{answer.action}: {answer.value}"


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=SCHEMA, structured=False)
def json_schema_2020_12_tool(arguments: dict[str, Any]) -> str:
    """Has a schema with everything in it."""
    return str(arguments)


@server.tool(structured=False)
async def test_reconnection(ctx: Context[Any]) -> str:
    """Lets go of the connection; the client has to come back for the answer."""
    ctx.hang_up(retry=0.5)
    await trio.sleep(0.2)
    return "had on the second connection"


# What belongs to the stateless revision.


class Name(msgspec.Struct):
    name: str


class Confirmation(msgspec.Struct):
    ok: bool


@server.tool(structured=False, asks="replay")
async def test_missing_capability(ctx: Context[Any]) -> str:
    """Cannot do without the client's model."""
    await ctx.sample("model", "Anything.")
    return "sampled"


@server.tool(structured=False, asks="replay")
async def test_streaming_elicitation(ctx: Context[Any]) -> str:
    """Asks the person."""
    answer = await ctx.elicit("user_name", Name, "Your name?")
    return f"{answer.action}: {answer.value}"


@server.tool(structured=False)
async def test_logging_tool(ctx: Context[Any]) -> str:
    """Logs."""
    ctx.log("info", "logged")
    return "done"


def _flip(remove: Any, add: Any) -> None:
    """Change a list: take away what is there, or put it back."""
    try:
        remove()
    except KeyError:
        add()


@server.tool(structured=False)
async def test_trigger_tool_change() -> str:
    """Changes the list of tools."""
    _flip(lambda: server.remove_tool("flips"), lambda: server.tool(name="flips")(a_simple_tool))
    return "changed"


@server.tool(structured=False)
async def test_trigger_prompt_change() -> str:
    """Changes the list of prompts."""
    _flip(lambda: server.remove_prompt("flips"), lambda: server.prompt(name="flips")(a_prompt))
    return "changed"


def a_prompt() -> str:
    """Comes and goes."""
    return "It is here now and then."


@server.tool(name="test_x_mcp_header", structured=False)
def in_region(
    region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})] = "",
) -> str:
    """Wants one of its arguments in a header."""
    return f"in {region}"


@server.tool(structured=False, asks="replay")
async def test_input_required_result_elicitation(ctx: Context[Any]) -> str:
    """Asks the person for a name."""
    answer = await ctx.elicit("user_name", Name, "Your name?")
    return f"{answer.action}: {answer.value}"


@server.tool(structured=False, asks="replay")
async def test_input_required_result_sampling(ctx: Context[Any]) -> str:
    """Asks the client's model."""
    return str((await ctx.sample("model", "What is the capital of France?")).content)


@server.tool(structured=False, asks="replay")
async def test_input_required_result_list_roots(ctx: Context[Any]) -> str:
    """Asks for the roots."""
    return ", ".join(root.uri for root in await ctx.list_roots())


@server.tool(structured=False, asks="replay")
async def test_input_required_result_request_state(ctx: Context[Any]) -> str:
    """Asks the person to confirm, and keeps a state."""
    return f"{(await ctx.elicit('confirm', Confirmation, 'Go on?')).action}, by the state"


@server.tool(structured=False, asks="replay")
async def test_input_required_result_multiple_inputs(ctx: Context[Any]) -> str:
    """Asks three things at once."""
    answers: list[Any] = []

    async def ask(question: Any) -> None:
        answers.append(await question)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, ctx.elicit("user_name", Name, "Your name?"))
        nursery.start_soon(ask, ctx.sample("greeting", "Greet somebody."))
        nursery.start_soon(ask, ctx.list_roots("client_roots"))
    return f"{len(answers)} answers"


@server.tool(structured=False, asks="replay")
async def test_input_required_result_multi_round(ctx: Context[Any]) -> str:
    """Asks twice."""
    name = await ctx.elicit("step1", Name, "Your name?")
    confirmed = await ctx.elicit("step2", Confirmation, f"Is it {name.value}?")
    return f"{name.action}, {confirmed.action}"


@server.tool(structured=False, asks="replay")
async def test_input_required_result_tampered_state(ctx: Context[Any]) -> str:
    """Asks the person to confirm, and refuses a state that is not its own."""
    return (await ctx.elicit("confirm", Confirmation, "Go on?")).action


@server.tool(structured=False, asks="replay")
async def test_input_required_result_capabilities(ctx: Context[Any]) -> str:
    """Asks what the client can be asked."""
    if ctx.can("sampling"):
        return str((await ctx.sample("model", "Anything.")).content)
    return (await ctx.elicit("user_name", Name, "Your name?")).action


@server.prompt(asks="replay")
async def test_input_required_result_prompt(ctx: Context[Any]) -> str:
    """Asks the person what it is about."""
    answer = await ctx.elicit("context", Topic, "What is it about?")
    return f"Something about {answer.value}."


class Topic(msgspec.Struct):
    context: str


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Some text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """Some bytes."""
    return base64.b64decode(PIXEL)


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> str:
    """Data of anything."""
    return f'{{"id": "{id}", "templateTest": true}}'


@server.resource("test://watched-resource", mime_type="text/plain", subscribable=True)
def watched() -> str:
    """Changes now and then."""
    return "watched"


@server.prompt
def test_simple_prompt() -> str:
    """One message."""
    return "This is a simple prompt."


@server.prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Repeats its arguments."""
    return f"arg1 is {arg1!r}, arg2 is {arg2!r}"


@server.completion("test_prompt_with_arguments", "arg1")
def complete_arg1(value: str) -> list[str]:
    return [word for word in ("testing", "tested", "other") if word.startswith(value)]


@server.prompt(name="test_prompt_with_embedded_resource")
def prompt_with_resource(resourceUri: str) -> GetPromptResult:  # noqa: N803 - the suite's name
    """Holds the resource at a URI."""
    contents = ResourceContents(uri=resourceUri, mime_type="text/plain", text="embedded")
    return GetPromptResult(
        messages=[
            Message("user", EmbeddedResource(resource=contents)),
            Message("user", TextContent("Look at this resource.")),
        ]
    )


@server.prompt
def test_prompt_with_image() -> GetPromptResult:
    """Holds a picture."""
    return GetPromptResult(
        messages=[
            Message("user", ImageContent(data=PIXEL, mime_type="image/png")),
            Message("user", TextContent("Look at this picture.")),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stdio", action="store_true")
    options = parser.parse_args()
    if options.stdio:
        server.run()
    else:
        server.run("http", port=options.port)
