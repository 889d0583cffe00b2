"""What a server gave, in words for people."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any

import msgspec
from msgspec import UNSET

from mcpcore import types as t


def tool(tool: t.Tool) -> str:
    """A tool as it would be called, then its description."""
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    parameters = [
        f"{name}{'' if isinstance(required, list) and name in required else '?'}: {_type(schema)}"
        for name, schema in (properties.items() if isinstance(properties, dict) else ())
    ]
    return _entry(f"{tool.name}({', '.join(parameters)})", tool.description)


def resource(resource: t.Resource) -> str:
    mime_type = f" ({resource.mime_type})" if resource.mime_type else ""
    return _entry(f"{resource.uri}{mime_type}", resource.description or resource.name)


def template(template: t.ResourceTemplate) -> str:
    mime_type = f" ({template.mime_type})" if template.mime_type else ""
    return _entry(f"{template.uri_template}{mime_type}", template.description or template.name)


def prompt(prompt: t.Prompt) -> str:
    arguments = [
        argument.name if argument.required else f"{argument.name}?"
        for argument in prompt.arguments or ()
    ]
    return _entry(f"{prompt.name}({', '.join(arguments)})", prompt.description)


def call_result(result: t.CallToolResult) -> str:
    """The content, or where there is none the structured content."""
    if not result.content and result.structured_content is not UNSET:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(map(block, result.content))


def block(block: t.ContentBlock) -> str:
    """One content block: text as it is, anything else named."""
    if isinstance(block, t.TextContent):
        return block.text
    if isinstance(block, t.ImageContent | t.AudioContent):
        kind = "image" if isinstance(block, t.ImageContent) else "audio"
        return f"[{kind}, {block.mime_type}, {_size(block.data)}]"
    if isinstance(block, t.ResourceLink):
        return f"[resource {block.uri}: {block.title or block.name}]"
    if isinstance(block, t.EmbeddedResource):
        return f"[resource {block.resource.uri}]\n{contents(block.resource)}"
    if isinstance(block, t.UnknownContent):
        return msgspec.json.encode(block.raw).decode()
    return msgspec.json.encode(block).decode()


def contents(contents: t.ResourceContents) -> str:
    """What a resource holds: its text, or how much else."""
    if contents.blob is None:
        return contents.text or ""
    return f"[binary, {contents.mime_type or 'of no stated type'}, {_size(contents.blob)}]"


def _size(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes; --json shows them in base64"


def _type(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    return str(kind) if kind else "any"


def _entry(head: str, description: str | None) -> str:
    """A line, and the first paragraph of the description below it."""
    paragraph = (description or "").strip().split("\n\n")[0]
    width = shutil.get_terminal_size().columns
    return "\n".join([f"  {head}", *_wrapped(paragraph, width)])


def _wrapped(paragraph: str, width: int) -> list[str]:
    indent = "      "
    return textwrap.wrap(
        " ".join(paragraph.split()), max(width, 40), initial_indent=indent, subsequent_indent=indent
    )
