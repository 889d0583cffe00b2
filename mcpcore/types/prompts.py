"""Prompts, which a person picks, and completion of what a person types."""

from __future__ import annotations

import msgspec

from mcpcore.types.base import Icon, Meta, PaginatedResult, Params, Result, WireObject
from mcpcore.types.content import Message


class PromptArgument(WireObject, frozen=True):
    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False


class Prompt(WireObject, frozen=True):
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ListPromptsResult(PaginatedResult, frozen=True):
    prompts: list[Prompt]


class GetPromptParams(Params, frozen=True):
    """`arguments` maps strings to strings."""

    name: str
    arguments: dict[str, str] | None = None
    input_responses: dict[str, object] | None = None
    request_state: str | None = None


class GetPromptResult(Result, frozen=True):
    messages: list[Message]
    description: str | None = None


class PromptReference(WireObject, frozen=True, tag_field="type", tag="ref/prompt"):
    name: str
    title: str | None = None


class ResourceTemplateReference(WireObject, frozen=True, tag_field="type", tag="ref/resource"):
    """`uri` is a URI or the text of a template."""

    uri: str


class CompletionArgument(WireObject, frozen=True):
    name: str
    value: str


class CompletionContext(WireObject, frozen=True):
    """What was chosen before, by argument name."""

    arguments: dict[str, str] | None = None


class CompleteParams(Params, frozen=True):
    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(WireObject, frozen=True):
    """At most 100 `values`; `total` may be more."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result, frozen=True):
    completion: Completion
