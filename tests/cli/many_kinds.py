"""A server for the tests of the command line: results of all kinds, progress, logs, failures."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import trio
from msgspec import Meta

from mcpcore import (
    AudioContent,
    Context,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    Server,
    TextContent,
    ToolError,
)

server = Server("many kinds", "2.0", page_size=2)


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    The second paragraph is for those who read the schema.
    """
    return a + b


@server.tool(structured=False)
async def steps(to: Annotated[int, Meta(ge=1)], ctx: Context, unit: str = "step") -> str:
    ctx.log("warning", {"to": to})
    ctx.log("info", "plain")
    for number in range(1, to + 1):
        ctx.progress(number, to, unit)
    ctx.progress(to + 1)
    return "done"


@server.tool
def fail(why: str) -> str:
    raise ToolError(why)


@server.tool
def variable(name: str) -> str:
    return os.environ.get(name, "unset")


@server.tool
def directory() -> str:
    return os.getcwd()


@server.tool
async def sleep(ctx: Context) -> str:
    print(f"asleep in {os.getpid()}", file=sys.stderr, flush=True)
    await trio.sleep_forever()
    return "never"


@server.tool
def die() -> str:
    print("last words", file=sys.stderr, flush=True)
    os._exit(7)


@server.tool(structured=False)
def everything() -> list[object]:
    return [
        TextContent("text with \x1b[31mcolour\x07 and \u202eturned"),
        ImageContent.of(b"12345", "image/png"),
        AudioContent.of(b"1234", "audio/wav"),
        ResourceLink("x://link", "link", title="A link"),
        EmbeddedResource(ResourceContents("x://inner", text="inside")),
    ]


@server.resource("x://text", mime_type="text/plain")
def text() -> str:
    """Some text."""
    return "line one\nline two"


@server.resource("x://blob")
def blob() -> bytes:
    return b"\x00\x01\x02"


@server.resource("x://several")
def several() -> list[ResourceContents]:
    return [
        ResourceContents("x://several/1", text="one"),
        ResourceContents("x://several/2", text="two"),
    ]


@server.resource("x://item/{name}", mime_type="text/plain")
def item(name: str) -> str:
    return name


@server.prompt
def greet(name: str, tone: str = "warm") -> str:
    """Write a greeting."""
    return f"Greet {name}, {tone}"


@server.prompt
def plain() -> str:
    return "Just talk"


if __name__ == "__main__":
    print("many kinds is up", file=sys.stderr, flush=True)
    server.run()
