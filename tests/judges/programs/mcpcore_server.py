"""A server on mcpcore that offers everything the handshake revisions have, on stdio.

The arguments are the revisions that it speaks.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import Meta

from mcpcore import (
    AudioContent,
    CallToolResult,
    Context,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Message,
    RequestFailed,
    ResourceContents,
    ResourceLink,
    Server,
    TextContent,
    ToolAnnotations,
    ToolError,
)
from mcpcore.types import (
    LOGGING_LEVELS,
    Annotations,
    Completion,
    Icon,
    SamplingMessage,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)

ICON = Icon("https://example.org/icon.png", "image/png", ["48x48"])
heard: list[str] = []

server = Server(
    "judged",
    "1.0",
    title="The judged",
    description="Is judged",
    instructions="Call anything.",
    website_url="https://example.org",
    icons=[ICON],
    revisions=sys.argv[1:],
    page_size=2,
)


# Tools.


@server.tool(
    title="The tool echo",
    annotations=ToolAnnotations(title="ECHO", read_only_hint=True),
    icons=[ICON],
    meta={"example.org/tool": "echo"},
)
def echo(word: str = "", n: Annotated[int, Meta(ge=0, description="How many")] = 0) -> str:
    """Does echo."""
    return json.dumps({"n": n, "word": word}, ensure_ascii=False)


@server.tool
def kinds() -> CallToolResult:
    return CallToolResult(
        content=[
            TextContent(
                "Grüße", Annotations(["user"], 0.5, "2025-01-12T15:00:58Z"), {"example.org/k": 1}
            ),
            ImageContent.of(b"\x89PNG not really", "image/png"),
            AudioContent.of(b"RIFF not really", "audio/wav"),
            ResourceLink("note:///1", "one", title="The first", mime_type="text/plain", size=3),
            EmbeddedResource(ResourceContents("note:///1", "text/plain", text="one")),
            EmbeddedResource(ResourceContents.of("note:///2", b"two")),
        ],
        meta={"example.org/whole": True},
    )


@dataclass
class Sum:
    sum: float
    parts: list[float]


@server.tool
def structured(a: float, b: float) -> Sum:
    return Sum(a + b, [a, b])


@server.tool
def number() -> int:
    return 42


@server.tool
def nothing() -> None:
    return None


@server.tool
def fails() -> str:
    raise ToolError("it failed")


@server.tool
async def raises() -> str:
    raise RuntimeError("the secret of the house")


@server.tool
def refuses() -> str:
    raise RequestFailed(-32099, "not today", {"why": ["a", "b"]})


@server.tool
def progress(ctx: Context) -> str:
    for step in (1, 2, 3):
        ctx.progress(step, 3, f"step {step}")
    return "done"


@server.tool
async def log(ctx: Context) -> str:
    for level in LOGGING_LEVELS:
        ctx.log(level, {"level": level}, logger="judge")
    return "logged"


@server.tool
async def wait(ctx: Context) -> str:
    ctx.progress(1)
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        heard.append("wait cancelled")
        raise
    return "never"


@server.tool
def what_was_heard() -> list[TextContent]:
    return [TextContent(word) for word in heard]


@server.tool
def print_something() -> str:
    print("this must not reach the client")
    return "printed"


@server.tool
async def who(ctx: Context) -> list[TextContent]:
    told = msgspec.json.encode(ctx.client_capabilities).decode()
    words = (ctx.revision, ctx.client.name, ctx.client.version, told, json.dumps(dict(ctx.meta)))
    return [TextContent(word) for word in words]


# Tools that ask.


@server.tool(asks="replay")
async def sample(ctx: Context) -> list[TextContent]:
    answer = await ctx.sample(
        "depth",
        "How deep?",
        max_tokens=50,
        system_prompt="Be short.",
        temperature=0.5,
        stop_sequences=["."],
        include_context="thisServer",
    )
    (block,) = answer.blocks
    assert isinstance(block, TextContent)
    words = (answer.role, answer.model, block.text, str(answer.stop_reason))
    return [TextContent(word) for word in words]


@server.tool(asks="replay")
async def sample_with_tools(ctx: Context) -> list[TextContent]:
    weather = Tool(name="weather", input_schema={"type": "object"})
    question = SamplingMessage("user", TextContent("Weather?"))
    first = await ctx.sample(
        "first", [question], tools=[weather], tool_choice=ToolChoice("required")
    )
    (use,) = first.blocks
    assert isinstance(use, ToolUseContent)
    result = ToolResultContent(use.id, [TextContent("rain")], {"mm": 3})
    second = await ctx.sample(
        "second",
        [question, SamplingMessage("assistant", [use]), SamplingMessage("user", [result])],
        tools=[weather],
    )
    (said,) = second.blocks
    assert isinstance(said, TextContent)
    words = (str(first.stop_reason), use.name, json.dumps(use.input), said.text)
    return [TextContent(word) for word in words]


class Form(msgspec.Struct):
    name: Annotated[str, Meta(min_length=1, title="Name")]
    age: Annotated[int, Meta(ge=0)] | None = None
    colour: Literal["red", "blue"] = "blue"
    agreed: bool = True


@server.tool(asks="replay")
async def elicit(ctx: Context) -> list[TextContent]:
    answer = await ctx.elicit("who", Form, "Who are you?")
    filled = "null" if answer.value is None else msgspec.json.encode(answer.value).decode()
    return [TextContent(answer.action), TextContent(filled)]


@server.tool(asks="replay")
async def elicit_url(ctx: Context) -> str:
    answer = await ctx.elicit_url("pay", "https://example.org/pay", "Please pay")
    ctx.url_done("pay")
    return answer.action


@server.tool(asks="replay")
async def roots(ctx: Context) -> list[TextContent]:
    return [TextContent(f"{root.name}={root.uri}") for root in await ctx.list_roots()]


# Resources.


@server.resource(
    "note:///1",
    name="note 1",
    title="Note 1",
    mime_type="text/plain",
    size=3,
    annotations=Annotations(["assistant"], last_modified="2025-01-12T15:00:58Z"),
    icons=[ICON],
    subscribable=True,
)
def note() -> ResourceContents:
    """A note."""
    return ResourceContents("note:///1", "text/plain", text="one", meta={"example.org/r": 1})


for place in range(2, 6):

    @server.resource(f"note:///{place}", name=f"note {place}")
    def blank() -> bytes:
        return b"\x00\xff"


@server.resource("shelf:///{name}", name="shelf", title="Shelf", mime_type="text/plain")
def shelf(name: str) -> list[ResourceContents]:
    return [
        ResourceContents(f"shelf:///{name}", "text/plain", text=f"{name} from a shelf"),
        ResourceContents.of(f"shelf:///{name}#blob", b"\x89PNG not really", "image/png"),
    ]


@server.tool
def touch() -> str:
    for number in (1, 2):
        server.resource_updated(f"note:///{number}")
    return "touched"


# Prompts and completion.


@server.prompt(title="The prompt first", icons=[ICON])
def first(city: Annotated[str, Meta(description="Where")], days: int = 1) -> str:
    """A prompt."""
    return f"Go to {city} for {days}"


@server.prompt
def second(city: str) -> GetPromptResult:
    return GetPromptResult(
        description=f"About {city}",
        messages=[
            Message("user", TextContent(f"Go to {city}")),
            Message("assistant", ImageContent.of(b"\x89PNG not really", "image/png")),
            Message("user", AudioContent.of(b"RIFF not really", "audio/wav")),
            Message("user", EmbeddedResource(ResourceContents("note:///1", text="one"))),
        ],
    )


@server.prompt
def third() -> list[Message]:
    return [Message("user", TextContent("Nothing to fill in"))]


@server.completion("first", "city")
def cities(value: str) -> list[str]:
    return [city for city in ("Oslo", "Osaka", "Rome") if city.startswith(value)]


@server.completion("shelf:///{name}", "name")
def names(value: str, context: dict[str, str]) -> Completion:
    return Completion([value, json.dumps(context, sort_keys=True)], total=200, has_more=True)


# What changes at run time.


@server.tool
def change_lists() -> str:
    server.remove_tool("nothing")
    server.remove_resource("note:///5")
    server.remove_prompt("third")
    return "changed"


if __name__ == "__main__":
    server.run()
