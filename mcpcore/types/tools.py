"""Tools: what a model may call."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from mcpcore.types.base import Icon, Meta, PaginatedResult, Params, Result, WireObject
from mcpcore.types.content import ContentBlock, TextContent
from mcpcore.types.session import TaskMetadata

JsonSchema = dict[str, Any]
"""A JSON Schema, 2020-12 unless it says otherwise in `$schema`; passed on unchanged."""


class ToolAnnotations(WireObject, frozen=True):
    """Hints, never to be trusted from a server that is not. None means the default of the
    specification: not read-only, destructive, not idempotent, open world.
    """

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(WireObject, frozen=True):
    """`task_support` is `forbidden`, `optional` or `required`. Only in 2025-11-25."""

    task_support: str | None = None


class Tool(WireObject, frozen=True):
    name: str
    input_schema: JsonSchema
    title: str | None = None
    description: str | None = None
    output_schema: JsonSchema | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    execution: ToolExecution | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")

    @property
    def display_name(self) -> str:
        """For people: `title`, else the title in the annotations, else `name`."""
        return self.title or (self.annotations and self.annotations.title) or self.name


class ListToolsResult(PaginatedResult, frozen=True):
    tools: list[Tool]


class CallToolParams(Params, frozen=True):
    name: str
    arguments: dict[str, Any] | None = None
    task: TaskMetadata | None = None
    input_responses: dict[str, Any] | None = None
    request_state: str | None = None


class CallToolResult(Result, frozen=True):
    """What a tool gave back.

    `is_error` marks a failure that the model should see. `validated` says whether
    `structured_content` was checked against the tool's output schema: None when there was nothing
    to check, False when it could not be checked whole: without the extra `mcpcore[schema]`, or with a
    schema that cannot be used or has patterns, which are not run.
    """

    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool = False

    @property
    def validated(self) -> bool | None:
        checked: bool | None = self.__dict__.get("validated")
        return checked

    @property
    def text(self) -> str:
        """All text blocks joined by line feeds; the structured content as JSON if there are none."""
        texts = [block.text for block in self.content if isinstance(block, TextContent)]
        if not texts and self.structured_content is not UNSET:
            return msgspec.json.encode(self.structured_content).decode()
        return "\n".join(texts)
