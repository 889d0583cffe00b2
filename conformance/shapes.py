"""The shapes of wire objects, as data, and what is wrong with a value that should have one.

A shape is a type (``str``, ``int``, ``float`` for any number, ``bool``, ``dict`` for any object), a list with
one shape (an array of such), a dict (an object with these members; a name that ends in ``?`` may be absent;
members not named are allowed, since every object of the protocol is open), a tuple of strings (one of
these), or a function that takes the value and says what is wrong with it.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from . import revisions


def ANY(_: Any) -> str | None:  # noqa: N802 - it stands among types
    """Anything at all."""
    return None


Shape = Any


def wrong(value: Any, shape: Shape, path: str = "it") -> str | None:
    """What keeps ``value`` from having ``shape``, in words; None if nothing does."""
    if isinstance(shape, dict):
        return _wrong_object(value, shape, path)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{path} is {kind_of(value)}, not an array"
        problems = (wrong(each, shape[0], f"{path}[{index}]") for index, each in enumerate(value))
        return next((problem for problem in problems if problem), None)
    if isinstance(shape, tuple):
        return None if value in shape else f"{path} is {value!r}, none of {', '.join(shape)}"
    if isinstance(shape, type):
        return None if _is(value, shape) else f"{path} is {kind_of(value)}, not {NAMES[shape]}"
    problem = shape(value)
    return f"{path}: {problem}" if problem else None


NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    dict: "an object",
    list: "an array",
}


def kind_of(value: Any) -> str:
    """The JSON type of a value, in words."""
    if value is None:
        return "null"
    return NAMES.get(type(value), "no JSON")


def _is(value: Any, wanted: type) -> bool:
    if isinstance(value, bool):
        return wanted is bool
    if wanted is float:
        return isinstance(value, int | float)
    if wanted is int:
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, wanted)


def _wrong_object(value: Any, shape: dict[str, Shape], path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path} is {kind_of(value)}, not an object"
    for name, inner in shape.items():
        plain = name.removesuffix("?")
        if plain in value:
            if problem := wrong(value[plain], inner, f"{path}.{plain}"):
                return problem
        elif plain == name:
            return f"{path} has no {name}"
    return None


def either(*shapes: Shape) -> Callable[[Any], str | None]:
    """One of several shapes."""

    def judge(value: Any) -> str | None:
        problems = [wrong(value, shape) for shape in shapes]
        return None if None in problems else problems[0]

    return judge


def within(low: float, high: float) -> Callable[[Any], str | None]:
    """A number between two others, both included."""

    def judge(value: Any) -> str | None:
        problem = wrong(value, float)
        return problem or (
            None if low <= value <= high else f"{value} is not between {low:g} and {high:g}"
        )

    return judge


def encoded(value: Any) -> str | None:
    """Base64 with padding."""
    if not isinstance(value, str):
        return f"{kind_of(value)}, not a string"
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        return f"no Base64: {error}"
    return None


def uri(value: Any) -> str | None:
    """A URI with a scheme, as RFC 3986 writes it."""
    if not isinstance(value, str):
        return f"{kind_of(value)}, not a string"
    return (
        None
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`]*", value)
        else f"{value!r} is no URI"
    )


def moment(value: Any) -> str | None:
    """An ISO 8601 date, with or without a time."""
    if not isinstance(value, str):
        return f"{kind_of(value)}, not a string"
    pattern = r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?"
    return None if re.fullmatch(pattern, value) else f"{value!r} is no ISO 8601 date"


def object_schema(value: Any) -> str | None:
    """A JSON Schema whose root is an object."""
    if not isinstance(value, dict):
        return f"{kind_of(value)}, not an object"
    if value.get("type") != "object":
        return f'its type is {value.get("type")!r}, not "object"'
    return wrong(value, {"properties?": dict, "required?": [str]}, "the schema")


MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+(\s*;.*)?")


def media_type(value: Any) -> str | None:
    """A media type such as ``image/png``."""
    return (
        None
        if isinstance(value, str) and MEDIA_TYPE.fullmatch(value)
        else f"{value!r} is no media type"
    )


LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
META_KEY = re.compile(
    rf"(?:{LABEL}(?:\.{LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
"""A key in ``_meta``: an optional prefix, and a name."""

ICONS = [{"src": str, "mimeType?": str, "sizes?": [str], "theme?": ("light", "dark")}]
ANNOTATIONS = {
    "audience?": [("user", "assistant")],
    "priority?": within(0, 1),
    "lastModified?": moment,
}
CONTENTS = {"uri": str, "mimeType?": str, "text?": str, "blob?": encoded, "_meta?": dict}


def contents(value: Any) -> str | None:
    """What a resource holds: exactly one of text and blob."""
    if problem := wrong(value, CONTENTS):
        return problem
    return (
        None if ("text" in value) != ("blob" in value) else "it needs exactly one of text and blob"
    )


RESOURCE = {
    "uri": str,
    "name": str,
    "title?": str,
    "description?": str,
    "mimeType?": str,
    "annotations?": ANNOTATIONS,
    "size?": int,
    "icons?": ICONS,
    "_meta?": dict,
}
TEMPLATE = {
    "uriTemplate": str,
    "name": str,
    "title?": str,
    "description?": str,
    "mimeType?": str,
    "annotations?": ANNOTATIONS,
    "icons?": ICONS,
}
PROMPT = {
    "name": str,
    "title?": str,
    "description?": str,
    "arguments?": [{"name": str, "title?": str, "description?": str, "required?": bool}],
    "icons?": ICONS,
    "_meta?": dict,
}
TOOL_ANNOTATIONS = {
    "title?": str,
    "readOnlyHint?": bool,
    "destructiveHint?": bool,
    "idempotentHint?": bool,
    "openWorldHint?": bool,
}
IMPLEMENTATION = {
    "name": str,
    "version": str,
    "title?": str,
    "description?": str,
    "websiteUrl?": str,
    "icons?": ICONS,
}
CHANGES = {"listChanged?": bool}
SERVER_CAPABILITIES = {
    "experimental?": dict,
    "logging?": dict,
    "completions?": dict,
    "prompts?": CHANGES,
    "resources?": {"listChanged?": bool, "subscribe?": bool},
    "tools?": CHANGES,
    "extensions?": dict,
}
CLIENT_CAPABILITIES = {
    "experimental?": dict,
    "roots?": CHANGES,
    "sampling?": {"tools?": dict, "context?": dict},
    "elicitation?": {"form?": dict, "url?": dict},
    "extensions?": dict,
}


def tool(revision: str) -> Shape:
    """A tool; its output schema has an object at the root while there was a handshake."""
    output = dict if revisions.is_stateless(revision) else object_schema
    return {
        "name": str,
        "inputSchema": object_schema,
        "title?": str,
        "description?": str,
        "annotations?": TOOL_ANNOTATIONS,
        "outputSchema?": output,
        "icons?": ICONS,
        "_meta?": dict,
    }


def block(revision: str) -> Callable[[Any], str | None]:
    """A content block, of a type that the revision has."""
    common = {"annotations?": ANNOTATIONS, "_meta?": dict}
    media = {"data": encoded, "mimeType": media_type, **common}
    types: dict[str, Shape] = {
        "text": {"text": str, **common},
        "image": media,
        "resource": {"resource": contents, **common},
    }
    if revisions.since(revision, revisions.WITH_BATCHES):
        types["audio"] = media
    if revisions.since(revision, revisions.WITH_STRUCTURE):
        types["resource_link"] = RESOURCE

    def judge(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"{kind_of(value)}, not an object"
        name = value.get("type")
        if name not in types:
            return f"the type {name!r} is none of {', '.join(types)}"
        return wrong(value, types[name], str(name))

    return judge


def call_result(revision: str) -> Shape:
    """The result of a tool; structured content is an object while there was a handshake."""
    structured = ANY if revisions.is_stateless(revision) else dict
    return {"content": [block(revision)], "structuredContent?": structured, "isError?": bool}


def prompt_result(revision: str) -> Shape:
    """The result of a prompt."""
    return {
        "description?": str,
        "messages": [{"role": ("user", "assistant"), "content": block(revision)}],
    }


COMPLETION = {"completion": {"values": [str], "total?": int, "hasMore?": bool}}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LOG = {"level": LEVELS, "data": ANY, "logger?": str}
TOKEN = either(str, int)


JSON_TYPES = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
    "array": list,
}


def schema_problem(value: Any, schema: Any, path: str = "it") -> str | None:
    """What keeps ``value`` from a JSON Schema, by the keywords that say most; the others are passed over."""
    if not isinstance(schema, dict):
        return None if schema is not False else f"{path} may not be there"
    types = schema.get("type")
    wanted = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    if wanted and not any(_has_type(value, name) for name in wanted):
        return f"{path} is {kind_of(value)}, not {' or '.join(wanted)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path} is {value!r}, none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        return f"{path} is {value!r}, not {schema['const']!r}"
    return _problem_inside(value, schema, path)


def _has_type(value: Any, name: str) -> bool:
    return value is None if name == "null" else _is(value, JSON_TYPES.get(name, object))


def _problem_inside(value: Any, schema: dict[str, Any], path: str) -> str | None:
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                return f"{path} has no {name}"
        fields = schema.get("properties", {})
        parts += [(value[name], fields[name], f"{path}.{name}") for name in fields if name in value]
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        parts += [(each, schema["items"], f"{path}[{at}]") for at, each in enumerate(value)]
    return next((problem for part in parts if (problem := schema_problem(*part))), None)
