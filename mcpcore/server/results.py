"""What a tool returns, and what the caller gets: one table.

| the tool returns                           | content                        | structured content       |
|--------------------------------------------|--------------------------------|--------------------------|
| `CallToolResult`, `InputRequiredResult`    | as it is                       | as it is                 |
| None                                       | nothing                        | none                     |
| `str`                                      | one text block                 | none, unless `structured`|
| a content block, or a list of blocks,      | those blocks; strings become   | none                     |
| strings among them                         | text blocks                    |                          |
| an object: dict, dataclass, Struct,        | its JSON as text               | the object               |
| TypedDict, pydantic model                  |                                |                          |
| anything else: number, bool, list, enum    | its JSON as text               | `{"result": value}`      |

Structured content and an output schema exist only where the return annotation says what to expect
(or `structured=True`). The value is then checked against the annotation before it is sent. A value
that is no JSON object is wrapped, because no revision of the handshake era allows it bare.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Raw

from mcpcore.errors import ToolError
from mcpcore.server.signature import from_json, schema_of, to_json
from mcpcore.types import CallToolResult, ContentBlock, InputRequiredResult, JsonSchema, TextContent

ToolResult = CallToolResult | InputRequiredResult
Convert = Callable[[Any], ToolResult]

_BLOCKS: tuple[type, ...] = get_args(ContentBlock)
_WORDS = (str, *_BLOCKS)
_encode = msgspec.json.Encoder(enc_hook=to_json).encode


class Output(msgspec.Struct, frozen=True):
    """How the results of one tool are made: `schema` is its output schema, if it has one."""

    schema: JsonSchema | None
    convert: Convert


def output_of(annotation: Any, *, structured: bool | None) -> Output:
    """The way from what a tool returns to its result.

    `structured` asks for structured content where the table has none (True), or for none at all
    (False). Raises TypeError where the annotation has no schema.
    """
    plain = structured is False or annotation in (inspect.Signature.empty, Any)
    if plain or (_is_content(annotation) and not (structured and _bare(annotation) is str)):
        if structured:
            raise TypeError(
                "structured=True needs a return annotation that says which data is returned; content "
                "blocks are none"
            )
        return Output(None, unstructured)
    schema = schema_of(annotation)
    decode = msgspec.json.Decoder(annotation, dec_hook=from_json).decode
    if schema.get("type") == "object":
        return Output(schema, lambda value: _structured(value, decode, wrap=False))
    definitions = schema.pop("$defs", None)
    wrapped: JsonSchema = {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
    }
    if definitions:
        wrapped["$defs"] = definitions
    return Output(wrapped, lambda value: _structured(value, decode, wrap=True))


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_content(annotation: Any) -> bool:
    """Whether the annotation promises text, blocks or nothing rather than data."""
    annotation = _bare(annotation)
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType) or origin in (list, tuple):
        inner = [item for item in get_args(annotation) if item is not ...]
        return (
            bool(inner) and all(map(_is_content, inner)) and not (origin is list and inner == [str])
        )
    finished = (str, None, type(None), CallToolResult, InputRequiredResult)
    return annotation in finished or annotation in _BLOCKS


def unstructured(value: Any) -> ToolResult:
    """Text and blocks only."""
    if isinstance(value, str):
        return CallToolResult(content=[TextContent(value)])
    if isinstance(value, CallToolResult | InputRequiredResult):
        return value
    if value is None:
        return CallToolResult(content=[])
    items = value if isinstance(value, list | tuple) and value else [value]
    if all(isinstance(item, _WORDS) for item in items):
        blocks: list[Any] = [TextContent(item) if isinstance(item, str) else item for item in items]
        return CallToolResult(content=blocks)
    return CallToolResult(content=[TextContent(json_of(value).decode())])


def _structured(value: Any, decode: Callable[[bytes], Any], *, wrap: bool) -> ToolResult:
    if isinstance(value, CallToolResult | InputRequiredResult):
        return value
    data = json_of(value)
    try:
        decode(data)
    except msgspec.ValidationError as error:
        raise ToolError(f"the tool returned something else than it promises: {error}") from None
    structured = Raw(b'{"result":' + data + b"}") if wrap else Raw(data)
    text = value if isinstance(value, str) else data.decode()
    return CallToolResult(content=[TextContent(text)], structured_content=structured)


def json_of(value: Any) -> bytes:
    """A returned value as JSON. Raises `ToolError` for what JSON cannot hold, NaN among it."""
    try:
        data = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"the function returned something that JSON cannot hold: {error}"
        ) from error
    if data.find(b"null") >= 0 and _not_finite(value):
        raise ToolError("the function returned NaN or infinity, which JSON cannot hold")
    return data


def _not_finite(value: Any) -> bool:
    """Whether there is a NaN or an infinity anywhere: they would be written as null."""
    if isinstance(value, float):
        return not math.isfinite(value)
    try:
        value = msgspec.to_builtins(value, enc_hook=to_json)
    except (TypeError, RecursionError):
        return False
    if isinstance(value, dict):
        return any(map(_not_finite, value.values()))
    return isinstance(value, list) and any(map(_not_finite, value))
