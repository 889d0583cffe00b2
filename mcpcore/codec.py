"""From raw members to objects and back, fitted to a revision.

Decoding always aims at the union of all revisions. When the straight way fails, a second, slower
one forgives what peers are known to get wrong and notes which rule each of it broke; what cannot be
read even so is an error. Encoding drops, by the rows of `mcpcore.revisions`, what the agreed
revision does not have; objects that hold nothing of the kind are written as they are.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import UNSET

from mcpcore import jsonrpc
from mcpcore import types as t
from mcpcore.errors import LocalProtocolError
from mcpcore.revisions import (
    FIELDS,
    FILLED,
    KINDS,
    MULTIPLE_SAMPLING_CONTENT,
    RESOURCE_NOT_FOUND,
    REVISIONS,
    Field,
    Revision,
)

T = TypeVar("T")
Plan = Callable[[Any], Any]
"""Fits the objects of one Struct to one revision."""


class Note(NamedTuple):
    """A deviation that was forgiven: the id of the rule, and what was seen."""

    rule: str
    detail: str


_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = functools.cache(msgspec.json.Decoder)


def decode(raw: Any, type: type[T], notes: list[Note] | None = None) -> T:
    """Read a raw `params` or `result` as `type`.

    `UNSET` (an absent member) reads as an empty object. With `notes`, known deviations are forgiven
    and added to it; without, only what the schema allows passes. Raises `msgspec.ValidationError`,
    whose message ends in the JSON path, when the object cannot be read.
    """
    data = b"{}" if raw is UNSET else raw
    try:
        if notes is not None and type in _LOOKED_INTO:
            # Read once a session, and full of flags whose null or true the straight way would not see.
            value = _decode_leniently(bytes(data), type, notes)
        else:
            value = _decoder(type).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            value = _decode_leniently(bytes(data), type, notes)
        except RecursionError:
            raise msgspec.ValidationError("nested too deeply") from None
    if isinstance(value, t.Result):
        value.__dict__["raw"] = data
    return value  # type: ignore[no-any-return]


_LOOKED_INTO = (t.InitializeParams, t.InitializeResult)


def _decode_leniently(data: bytes, type: Any, notes: list[Note] | None) -> Any:
    found: list[Note] = []
    mended = jsonrpc.mend_surrogates(data)
    if mended is not None:
        found.append(Note("JSON-01", jsonrpc.excerpt(data)))
        data = mended
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise msgspec.ValidationError(str(error)) from error
    if isinstance(value, dict):
        if type in _HOLD_CONTENT:
            _wrap_unknown_content(value)
        if notes is not None:
            _forgive(value, type, found)
    result = msgspec.convert(value, type)
    if notes is not None:
        notes.extend(found)
    return result


_HOLD_CONTENT = (
    t.CallToolResult,
    t.GetPromptResult,
    t.CreateMessageParams,
    t.CreateMessageResult,
)


def _wrap_unknown_content(value: dict[str, Any]) -> None:
    """Mark, in place, the content blocks that no known kind can hold.

    Blocks stand under `content`, in the object itself or in its `messages`; user data that happens to
    use the same words is not entered.
    """
    content = value.get("content", UNSET)
    if isinstance(content, list):
        value["content"] = [_wrapped(block) for block in content]
    elif isinstance(content, dict):
        value["content"] = _wrapped(content)
    messages = value.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            _wrap_unknown_content(message)


def _wrapped(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    inner = dict(block)
    if isinstance(block.get("content"), list):
        _wrap_unknown_content(inner)
    try:
        msgspec.convert(inner, t.ContentBlock)
    except msgspec.ValidationError:
        return {"type": t.UNKNOWN_TAG, "raw": block}
    return inner


_LISTS = {
    t.ListToolsResult: ("tools", t.Tool),
    t.ListResourcesResult: ("resources", t.Resource),
    t.ListResourceTemplatesResult: ("resourceTemplates", t.ResourceTemplate),
    t.ListPromptsResult: ("prompts", t.Prompt),
    t.ListRootsResult: ("roots", t.Root),
}


def _forgive(value: dict[str, Any], type: Any, found: list[Note]) -> None:
    """Mend, in place, what peers are known to get wrong."""
    if type is t.CallToolResult and value.get("content") is None:
        value["content"] = []
        found.append(Note("TOOL-12", "the result has no content"))
    if type in (t.InitializeResult, t.InitializeParams) and isinstance(
        value.get("capabilities"), dict
    ):
        _forgive_capabilities(value["capabilities"], found)
    if type in _LISTS:
        member, item_type = _LISTS[type]
        items = value.get(member)
        if isinstance(items, list):
            value[member] = [item for item in items if _readable(item, item_type, member, found)]


def _forgive_capabilities(capabilities: dict[str, Any], found: list[Note]) -> None:
    for name, value in list(capabilities.items()):
        if value is True:
            capabilities[name] = {}
        elif value is None or value is False:
            del capabilities[name]
        else:
            for flag in (
                [flag for flag, on in value.items() if on is None]
                if isinstance(value, dict)
                else ()
            ):
                del value[flag]
                found.append(Note("CAP-02", f"the capability {name}.{flag} is null"))
            continue
        found.append(Note("CAP-02", f"the capability {name} is {value}"))


def _readable(item: Any, type: Any, member: str, found: list[Note]) -> bool:
    try:
        msgspec.convert(item, type)
    except msgspec.ValidationError as error:
        found.append(Note("SCHEMA-01", f"an entry of {member} was left out: {error}"))
        return False
    return True


def encode(message: jsonrpc.Message, revision: Revision) -> bytes:
    """Write a message for a peer of `revision`, as one line without its end.

    Members that the revision lacks are dropped, content kinds that it lacks become text. Raises
    `LocalProtocolError` where neither is possible, and for what JSON cannot hold.
    """
    if isinstance(message, jsonrpc.Request):
        params = fit(message.params, revision)
        return _write(jsonrpc.Outgoing("2.0", message.id, message.method, params), params)
    if isinstance(message, jsonrpc.Notification):
        params = fit(message.params, revision)
        return _write(jsonrpc.Outgoing("2.0", method=message.method, params=params), params)
    if isinstance(message, jsonrpc.Response):
        return encode_result(message.id, message.result, revision)
    return _write(jsonrpc.outgoing(message), message.error.data)


def fit_error(error: jsonrpc.ErrorObject, revision: Revision) -> jsonrpc.ErrorObject:
    """An error with the code that `revision` has for what it says (ERR-07)."""
    if error.code == RESOURCE_NOT_FOUND and revision.resource_not_found != error.code:
        return msgspec.structs.replace(error, code=revision.resource_not_found)
    return error


def encode_result(id: jsonrpc.RequestId, result: Any, revision: Revision) -> bytes:
    """Write the answer to request `id`, as `encode` does."""
    plan = _PLANS[revision.position].get(type(result))
    result = fit(result, revision) if plan is None else plan(result)
    return _write(jsonrpc.Outgoing("2.0", id=id, result=result), result)


def complete(result: Any, revision: Revision, meta: Mapping[str, Any]) -> Any:
    """A result with the members that `revision` asks of every one of its kind, and with `meta` beside what
    its own `_meta` holds.
    """
    if isinstance(result, t.Result):
        filled: dict[str, Any] = {
            name: value
            for name, value in _filled(type(result), revision)
            if getattr(result, name) is None
        }
        filled["meta"] = {**meta, **result.meta} if result.meta else meta
        return msgspec.structs.replace(result, **filled)
    if isinstance(result, dict):
        own = result.get("_meta") or {}
        return {**_FILLED_EVERYWHERE, **result, "_meta": {**meta, **own}}
    return result


_FILLED_EVERYWHERE = {
    field.encode_name: row.value
    for row in FILLED
    for field in msgspec.structs.fields(t.Result)
    if row.struct is t.Result and row.name == field.name
}


@functools.cache
def _filled(struct: type[t.Result], revision: Revision) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (row.name, row.value)
        for row in FILLED
        if issubclass(struct, row.struct) and row.since.position <= revision.position
    )


def _write(envelope: jsonrpc.Outgoing, payload: Any) -> bytes:
    try:
        data = jsonrpc.write(envelope)
        # bytes.find is three times as fast as the operator in, which first tries an integer.
        if data.find(b"null") >= 0 and _has_nan(payload):
            raise LocalProtocolError("NaN and infinity cannot be written as JSON")
        if data.find(_UNKNOWN) >= 0:
            data = _unwrap_unknown(data)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a string cannot be written as UTF-8: {error}") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"cannot be written as JSON: {error}") from None
    # Only raw members, which are written as they are, can hold a line feed, and only between tokens.
    return data if data.find(b"\n") < 0 else data.replace(b"\n", b" ")


def _has_nan(value: Any) -> bool:
    """Whether there is a NaN or an infinity anywhere, which msgspec writes as null."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, msgspec.Struct):
        return any(_has_nan(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    if dataclasses.is_dataclass(value):
        return any(_has_nan(getattr(value, f.name)) for f in dataclasses.fields(value))
    return isinstance(value, list | tuple | set | frozenset) and any(map(_has_nan, value))


_UNKNOWN = msgspec.json.encode(t.UNKNOWN_TAG)


def _unwrap_unknown(data: bytes) -> bytes:
    def unwrap(value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("type") == t.UNKNOWN_TAG and "raw" in value:
                return value["raw"]
            return {key: unwrap(item) for key, item in value.items()}
        return [unwrap(item) for item in value] if isinstance(value, list) else value

    return msgspec.json.encode(unwrap(msgspec.json.decode(data)))


class _Plan(NamedTuple):
    """What has to happen to a Struct: members to drop, members to look into, content to write alone."""

    dropped: tuple[tuple[str, Any], ...]
    nested: tuple[str, ...]
    alone: bool


def fit(value: Any, revision: Revision) -> Any:
    """Give `value` without what `revision` lacks: itself, if there is nothing to leave out."""
    plan = _PLANS[revision.position].get(type(value))
    if plan is not None:
        return plan(value)
    if isinstance(value, msgspec.Struct):
        plan = _PLANS[revision.position][type(value)] = _make_plan(type(value), revision)
        return plan(value)
    if isinstance(value, list):
        fitted = [fit(item, revision) for item in value]
        return value if all(map(operator.is_, fitted, value)) else fitted
    return value


_PLANS: tuple[dict[type, Plan], ...] = tuple({} for _ in REVISIONS)
"""How to fit the objects of a Struct: by the revision's position, filled as Structs are met."""


def _make_plan(struct: type[msgspec.Struct], revision: Revision) -> Plan:
    if _is_too_new(struct, revision):
        return lambda value: t.TextContent(_in_words(value))
    defaults = {field.name: field.default for field in msgspec.structs.fields(struct)}
    dropped = [(row.name, defaults[row.name]) for row in _lacking(struct, revision)]
    nested = [
        field.name
        for field in msgspec.structs.fields(struct)
        if (field.name, field.default) not in dropped
        and any(_depends(inner, revision, {struct}) for inner in _structs_in(field.type))
    ]
    alone = struct in _ALONE

    def drop(value: Any) -> Any:
        for name, default in dropped:
            if getattr(value, name) is not default:
                return msgspec.structs.replace(value, **dict(dropped))
        return value

    if not nested and not alone:
        return drop

    def plan(value: Any) -> Any:
        value = drop(value)
        changes: dict[str, Any] = {}
        for name in nested:
            old = getattr(value, name)
            new = fit(old, revision)
            if new is not old:
                changes[name] = new
        if alone and isinstance(value.content, list):
            changes["content"] = _alone(changes.get("content", value.content), revision)
        return msgspec.structs.replace(value, **changes) if changes else value

    return plan


def fit_capabilities(
    capabilities: t.ClientCapabilities, revision: Revision
) -> t.ClientCapabilities:
    """What a client's capabilities mean in `revision`.

    Elicitation by URL alone means none in a revision without modes, where what is left of it would
    read as elicitation by form.
    """
    fitted: t.ClientCapabilities = fit(capabilities, revision)
    before, after = capabilities.elicitation, fitted.elicitation
    if before is not None and after is not None and after.forms and not before.forms:
        return msgspec.structs.replace(fitted, elicitation=None)
    return fitted


def _alone(content: list[Any], revision: Revision) -> Any:
    """Sampling: one block is written without a list, in every revision."""
    if len(content) == 1:
        return content[0]
    if revision.position < MULTIPLE_SAMPLING_CONTENT.position:
        raise LocalProtocolError(
            f"a sampling message holds one content block in revision {revision}; "
            f"several are possible since {MULTIPLE_SAMPLING_CONTENT}"
        )
    return content


def _in_words(block: msgspec.Struct) -> str:
    """Say in text what a block was that the peer's revision has no kind for."""
    if isinstance(block, t.ResourceLink):
        return f"{block.title or block.name}: {block.uri}"
    if isinstance(block, t.AudioContent):
        return f"[audio, {block.mime_type}: this revision of the protocol has no audio content]"
    return msgspec.json.encode(block).decode()


_KIND_SINCE = {row.struct: row.since for row in KINDS}


_ALONE = (t.SamplingMessage, t.CreateMessageResult)


def _lacking(struct: type[msgspec.Struct], revision: Revision) -> list[Field]:
    return [
        row
        for row in FIELDS
        if issubclass(struct, row.struct)
        and not row.since.position <= revision.position <= row.until.position
    ]


def _is_too_new(struct: type[msgspec.Struct], revision: Revision) -> bool:
    return any(row.struct is struct and row.since.position > revision.position for row in KINDS)


def _depends(struct: type[msgspec.Struct], revision: Revision, seen: set[type]) -> bool:
    """Whether anything in `struct`, at any depth, has to change for `revision`."""
    if struct in seen:
        return False
    if struct in _ALONE or _is_too_new(struct, revision) or _lacking(struct, revision):
        return True
    return any(
        _depends(inner, revision, seen | {struct})
        for field in msgspec.structs.fields(struct)
        for inner in _structs_in(field.type)
    )


def _structs_in(annotation: Any) -> list[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    return [struct for inner in get_args(annotation) for struct in _structs_in(inner)]
