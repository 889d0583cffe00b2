"""What a server may ask of the client: a model's answer, a person's answer, the roots."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpcore.types.base import Meta, Params, Result, Role, WireObject
from mcpcore.types.content import ContentBlock, SamplingMessage
from mcpcore.types.session import TaskMetadata
from mcpcore.types.tools import JsonSchema, Tool


class ModelHint(WireObject, frozen=True):
    """A part of a model's name."""

    name: str | None = None


class ModelPreferences(WireObject, frozen=True):
    """Hints in order of preference, then priorities from 0 to 1."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class ToolChoice(WireObject, frozen=True):
    """`mode` is `auto` (also when absent), `required` or `none`."""

    mode: str | None = None


class CreateMessageParams(Params, frozen=True):
    messages: list[SamplingMessage]
    max_tokens: int
    model_preferences: ModelPreferences | None = None
    system_prompt: str | None = None
    include_context: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    task: TaskMetadata | None = None


class CreateMessageResult(Result, frozen=True):
    """`stop_reason` is open: `endTurn`, `stopSequence`, `maxTokens`, `toolUse` or another word."""

    role: Role
    content: ContentBlock | list[ContentBlock]
    model: str
    stop_reason: str | None = None

    @property
    def blocks(self) -> list[ContentBlock]:
        """The content as a list, whichever form it came in."""
        return self.content if isinstance(self.content, list) else [self.content]


class Option(WireObject, frozen=True):
    """One choice of a titled enumeration."""

    const: str
    title: str


class Options(WireObject, frozen=True):
    """The choices of a multiple selection: plain (`enum`) or titled (`any_of`)."""

    type: str | None = None
    enum: list[str] | None = None
    any_of: list[Option] | None = None


class PrimitiveSchema(WireObject, frozen=True):
    """One field of a form: text, number, yes or no, one of several, some of several.

    All the kinds in one Struct: `type` is `string`, `number`, `integer`, `boolean` or `array`. A
    choice is `enum` (with `enum_names` as its older titles) or `one_of`; several choices are an
    array of `items`.
    """

    type: str
    title: str | None = None
    description: str | None = None
    default: Any = msgspec.UNSET
    format: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    enum: list[str] | None = None
    enum_names: list[str] | None = None
    one_of: list[Option] | None = None
    items: Options | None = None
    min_items: int | None = None
    max_items: int | None = None


class ElicitParams(Params, frozen=True):
    """Asks the person: by a form (`requested_schema`), or by a page (`url`) with an id of its own.

    `mode` is `form` (also when absent) or `url`. The schema stays a plain JSON object;
    `fields` reads its properties.
    """

    message: str
    mode: str | None = None
    requested_schema: JsonSchema | None = None
    url: str | None = None
    elicitation_id: str | None = None
    task: TaskMetadata | None = None

    @property
    def fields(self) -> dict[str, PrimitiveSchema]:
        """The form's fields by name. Raises `msgspec.ValidationError` if one is not a flat primitive."""
        properties = (self.requested_schema or {}).get("properties", {})
        return msgspec.convert(properties, dict[str, PrimitiveSchema])


class ElicitResult(Result, frozen=True):
    """`action` is `accept`, `decline` or `cancel`; `content` only for an accepted form."""

    action: str
    content: dict[str, Any] | None = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


class Root(WireObject, frozen=True):
    """A place the server may work in: a `file://` URI."""

    uri: str
    name: str | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ListRootsResult(Result, frozen=True):
    roots: list[Root]


class InputRequiredResult(Result, frozen=True):
    """The stateless revision's way to ask: answer `input_requests` and send the request again with
    `request_state` exactly as it came.
    """

    input_requests: dict[str, Any] | None = None
    request_state: str | None = None
