"""A server on the official SDK that offers everything the handshake revisions have, on stdio."""

from __future__ import annotations

import base64
import json
import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

warnings.simplefilter("ignore", MCPDeprecationWarning)

PAGE = 2
PIXEL = base64.b64encode(b"\x89PNG not really").decode()
SOUND = base64.b64encode(b"RIFF not really").decode()
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
ICON = types.Icon(src="https://example.org/icon.png", mime_type="image/png", sizes=["48x48"])
NO_ARGUMENTS = {"type": "object"}

heard: list[str] = []
subscribed: set[str] = set()


def text(*words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=word) for word in words])


# The tools.


async def echo(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    return text(json.dumps(arguments, sort_keys=True, ensure_ascii=False))


async def kinds(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    notes = types.Annotations(audience=["user"], priority=0.5)
    return types.CallToolResult(
        content=[
            types.TextContent(text="Grüße", annotations=notes, _meta={"example.org/k": 1}),
            types.ImageContent(data=PIXEL, mime_type="image/png"),
            types.AudioContent(data=SOUND, mime_type="audio/wav"),
            types.ResourceLink(
                uri="note:///1", name="one", title="The first", mime_type="text/plain", size=3
            ),
            types.EmbeddedResource(
                resource=types.TextResourceContents(
                    uri="note:///1", mime_type="text/plain", text="one"
                )
            ),
            types.EmbeddedResource(
                resource=types.BlobResourceContents(
                    uri="note:///2", mime_type="application/octet-stream", blob=PIXEL
                )
            ),
        ],
        _meta={"example.org/whole": True},
    )


async def structured(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    value = {"sum": arguments["a"] + arguments["b"]}
    return types.CallToolResult(
        content=[types.TextContent(text=json.dumps(value))], structured_content=value
    )


async def liar(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[], structured_content={"sum": "not a number"})


async def fails(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text="it failed")], is_error=True)


async def raises(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    raise RuntimeError("the secret of the house")


async def refuses(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    raise MCPError(code=-32099, message="not today", data={"why": ["a", "b"]})


async def progress(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    for step in (1, 2, 3):
        await ctx.session.report_progress(step, 3, f"step {step}")
    return text("done")


async def log(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    for level in LEVELS:
        await ctx.session.send_log_message(level, {"level": level}, logger="judge")
    return text("logged")


async def wait(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    heard.append("wait began")
    await ctx.session.report_progress(1)
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        heard.append("wait cancelled")
        raise
    return text("never")


async def what_was_heard(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    return text(*heard)


async def sample(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    question = types.SamplingMessage(role="user", content=types.TextContent(text="How deep?"))
    answer = await ctx.session.create_message(
        [question], max_tokens=50, system_prompt="Be short.", temperature=0.5, stop_sequences=["."]
    )
    return text(answer.role, answer.model, answer.content.text, str(answer.stop_reason))


async def sample_with_tools(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    question = types.SamplingMessage(role="user", content=types.TextContent(text="Weather?"))
    tool = types.Tool(name="weather", input_schema=NO_ARGUMENTS)
    first = await ctx.session.create_message(
        [question], max_tokens=50, tools=[tool], tool_choice=types.ToolChoice(mode="required")
    )
    use = first.content[0] if isinstance(first.content, list) else first.content
    result = types.ToolResultContent(
        tool_use_id=use.id, content=[types.TextContent(text="rain")], structured_content={"mm": 3}
    )
    second = await ctx.session.create_message(
        [
            question,
            types.SamplingMessage(role="assistant", content=[use]),
            types.SamplingMessage(role="user", content=[result]),
        ],
        max_tokens=50,
        tools=[tool],
    )
    said = second.content[0] if isinstance(second.content, list) else second.content
    return text(str(first.stop_reason), use.name, json.dumps(use.input), said.text)


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
        "agreed": {"type": "boolean", "default": True},
    },
    "required": ["name"],
}


async def elicit(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    answer = await ctx.session.elicit_form("Who are you?", FORM, ctx.request_id)
    return text(answer.action, json.dumps(answer.content, sort_keys=True))


async def elicit_url(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    answer = await ctx.session.elicit_url(
        "Please pay", "https://example.org/pay", "pay-1", ctx.request_id
    )
    await ctx.session.send_elicit_complete("pay-1", ctx.request_id)
    return text(answer.action)


async def roots(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    found = await ctx.session.list_roots()
    return text(*(f"{root.name}={root.uri}" for root in found.roots))


async def ping_back(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    await ctx.session.send_ping()
    return text("pong")


async def change_lists(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_resource_list_changed()
    await ctx.session.send_prompt_list_changed()
    return text("changed")


async def touch(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    for uri in sorted(subscribed):
        await ctx.session.send_resource_updated(uri)
    return text(*sorted(subscribed))


async def who(ctx: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    params = ctx.session.client_params
    return text(
        ctx.protocol_version,
        params.client_info.name,
        params.capabilities.model_dump_json(by_alias=True, exclude_none=True),
        json.dumps(ctx.meta),
    )


TOOLS = {
    function.__name__: function
    for function in (
        echo, kinds, structured, liar, fails, raises, refuses, progress, log, wait, what_was_heard,
        sample, sample_with_tools, elicit, elicit_url, roots, ping_back, change_lists, touch, who,
    )
}  # fmt: skip

SUM = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
LISTED = [
    types.Tool(
        name=name,
        title=f"The tool {name}",
        description=f"Does {name}.",
        input_schema=NO_ARGUMENTS,
        output_schema=SUM if name in ("structured", "liar") else None,
        annotations=types.ToolAnnotations(read_only_hint=True, title=name.upper()),
        icons=[ICON],
        _meta={"example.org/tool": name},
    )
    for name in TOOLS
]


def page(items: list[Any], params: Any) -> tuple[list[Any], str | None]:
    cursor = params.cursor if params else None
    try:
        start = int(base64.b64decode(cursor)) if cursor is not None else 0
    except ValueError:
        raise MCPError(code=types.INVALID_PARAMS, message="no such cursor") from None
    rest = start + PAGE
    return items[start:rest], base64.b64encode(str(rest).encode()).decode() if rest < len(
        items
    ) else None


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    tools, cursor = page(LISTED, params)
    return types.ListToolsResult(tools=tools, next_cursor=cursor)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    function = TOOLS.get(params.name)
    if function is None:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    return await function(ctx, params.arguments or {})


# Resources.

RESOURCES = [
    types.Resource(
        uri=f"note:///{number}",
        name=f"note {number}",
        title=f"Note {number}",
        mime_type="text/plain",
        size=number,
        annotations=types.Annotations(audience=["assistant"], last_modified="2025-01-12T15:00:58Z"),
        icons=[ICON],
    )
    for number in range(1, 6)
]
TEMPLATES = [
    types.ResourceTemplate(
        uri_template=f"shelf{number}:///{{name}}", name=f"shelf {number}", title=f"Shelf {number}"
    )
    for number in range(1, 4)
]


async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    resources, cursor = page(RESOURCES, params)
    return types.ListResourcesResult(resources=resources, next_cursor=cursor)


async def list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    templates, cursor = page(TEMPLATES, params)
    return types.ListResourceTemplatesResult(resource_templates=templates, next_cursor=cursor)


async def read_resource(ctx: Any, params: Any) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri.startswith("shelf"):
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=uri, mime_type="text/plain", text="from a shelf"),
                types.BlobResourceContents(uri=f"{uri}#blob", mime_type="image/png", blob=PIXEL),
            ]
        )
    if uri == "note:///1":
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(
                    uri=uri, mime_type="text/plain", text="one", _meta={"example.org/r": 1}
                )
            ]
        )
    raise MCPError(code=-32002, message="Resource not found", data={"uri": uri})


async def subscribe(ctx: Any, params: Any) -> types.EmptyResult:
    subscribed.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(ctx: Any, params: Any) -> types.EmptyResult:
    subscribed.discard(str(params.uri))
    return types.EmptyResult()


# Prompts and completion.

PROMPTS = [
    types.Prompt(
        name=name,
        title=f"The prompt {name}",
        description="A prompt.",
        arguments=[types.PromptArgument(name="city", description="Where", required=True)],
        icons=[ICON],
    )
    for name in ("first", "second", "third")
]


async def list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    prompts, cursor = page(PROMPTS, params)
    return types.ListPromptsResult(prompts=prompts, next_cursor=cursor)


async def get_prompt(ctx: Any, params: Any) -> types.GetPromptResult:
    if params.name not in {prompt.name for prompt in PROMPTS}:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown prompt: {params.name}")
    city = (params.arguments or {}).get("city", "nowhere")
    embedded = types.TextResourceContents(uri="note:///1", text="one")
    return types.GetPromptResult(
        description=f"About {city}",
        messages=[
            types.PromptMessage(role="user", content=types.TextContent(text=f"Go to {city}")),
            types.PromptMessage(
                role="assistant", content=types.ImageContent(data=PIXEL, mime_type="image/png")
            ),
            types.PromptMessage(role="user", content=types.EmbeddedResource(resource=embedded)),
        ],
    )


async def complete(ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    before = (params.context.arguments or {}) if params.context else {}
    values = [
        params.ref.type,
        params.argument.name,
        params.argument.value,
        json.dumps(before, sort_keys=True),
    ]
    return types.CompleteResult(
        completion=types.Completion(values=values, total=200, has_more=True)
    )


# What comes in besides.


async def set_level(ctx: Any, params: Any) -> types.EmptyResult:
    heard.append(f"level {params.level}")
    return types.EmptyResult()


async def roots_changed(ctx: Any, params: Any) -> None:
    heard.append("roots changed")


server = Server(
    "sdk",
    version="2.3",
    title="The SDK",
    description="A judge",
    instructions="Call anything.",
    website_url="https://example.org",
    icons=[ICON],
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=set_level,
    on_roots_list_changed=roots_changed,
)


async def main() -> None:
    changed = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(changed))


if __name__ == "__main__":
    anyio.run(main)
