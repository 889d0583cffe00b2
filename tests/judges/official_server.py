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
    server.run("http", port=parser.parse_args().port)
