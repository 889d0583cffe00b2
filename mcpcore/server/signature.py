r"""A function's signature as a JSON object: its schema, and the way from arguments to a call.

The parameters become the fields of a Struct, so that one decode checks the arguments, fills in the
defaults and converts what needs converting, and its error says where the fault is. `Annotated[...,
Meta(...)]` gives bounds and descriptions; a parameter that has none takes its description from the
docstring. A `pattern` is searched as Python does: `$` also matches before a last line feed, `\Z` does
not. Dataclasses, Structs, TypedDicts and enums come along; pydantic models are recognised by
their methods and never imported.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import trio

from mcpcore.server.context import Context
from mcpcore.types import JsonSchema

THREADS = 100
"""Calls of one plain function at once, each in a thread; as many as a connection's requests by default."""


class Signature:
    """What a handler takes and gives.

    `arguments` is a Struct of its parameters, without the context; `context` the name of the parameter
    that gets the `Context`, or None; `returns` the annotation of its result, `inspect.Signature.empty`
    if there is none. Raises TypeError, naming the function and the parameter, for what cannot be called
    by names or has no schema.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        # One limit for each function: what hangs holds up only itself.
        self._threads = trio.CapacityLimiter(THREADS)
        self.is_async = _is_async(function)
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.doc = inspect.getdoc(function) or ""
        self.context: str | None = None
        hints = _hints(function)
        self.returns = hints.get("return", inspect.Signature.empty)
        described = _described_parameters(self.doc)
        fields: list[Any] = []
        self.descriptions: dict[str, str] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            annotation = hints.get(name, Any)
            if _is_context(annotation):
                self.context = name
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"{self.name}: the parameter {name} cannot be given by name")
            text = _plain_description(annotation) or described.get(name)
            if text:
                self.descriptions[name] = text
            fields.append(_field(name, annotation, parameter.default))
        try:
            self.arguments: type[msgspec.Struct] = msgspec.defstruct(
                self.name, fields, forbid_unknown_fields=True, kw_only=True
            )
            self.decoder = msgspec.json.Decoder(self.arguments, dec_hook=from_json)
            self.schema = self._schema()
        except TypeError as error:
            culprit = next((field[0] for field in fields if not _has_schema(field)), None)
            where = self.name if culprit is None else f"{self.name}: the parameter {culprit}"
            raise TypeError(f"{where}: {error}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, without the context."""
        return self.arguments.__struct_fields__

    @property
    def summary(self) -> str | None:
        """The docstring up to where it describes parameters."""
        text = _SECTION.split(self.doc, maxsplit=1)[0].strip()
        return text or None

    async def call(self, keywords: dict[str, Any]) -> Any:
        """Call the function: an async one here, a plain one in a thread, which a cancellation leaves to
        itself since a thread cannot be interrupted.
        """
        if self.is_async:
            return await self.function(**keywords)
        return await trio.to_thread.run_sync(
            lambda: self.function(**keywords), abandon_on_cancel=True, limiter=self._threads
        )

    def bind(self, arguments: msgspec.Struct, context: Context[Any]) -> dict[str, Any]:
        """The keyword arguments of a call."""
        keywords = {name: getattr(arguments, name) for name in arguments.__struct_fields__}
        if self.context is not None:
            keywords[self.context] = context
        return keywords

    def _schema(self) -> JsonSchema:
        schema = schema_of(self.arguments)
        schema.pop("title", None)
        for name, text in self.descriptions.items():
            schema["properties"][name].setdefault("description", text)
        return schema


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.iscoroutinefunction(function)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isroutine(inner):
        inner = type(inner).__call__
    # Types that are local to the function's surroundings are found through its closure.
    nonlocals = {}
    for name, cell in zip(
        getattr(getattr(inner, "__code__", None), "co_freevars", ()),
        getattr(inner, "__closure__", None) or (),
        strict=False,
    ):
        with contextlib.suppress(ValueError):  # not assigned yet
            nonlocals[name] = cell.cell_contents
    try:
        return get_type_hints(inner, localns=nonlocals, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{inner.__qualname__}: {error}; define the type at the top of the module"
        ) from None


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return (
        annotation is Context
        or get_origin(annotation) is Context
        or any(argument is Context for argument in get_args(annotation))
    )


def _field(name: str, annotation: Any, default: Any) -> tuple[Any, ...]:
    if default is inspect.Parameter.empty:
        return (name, annotation)
    if isinstance(default, list | dict | set | bytearray):
        # Each call gets its own copy, so that none can change the default of the others.
        return (name, annotation, msgspec.field(default_factory=lambda: copy.deepcopy(default)))
    return (name, annotation, default)


def _has_schema(field: tuple[Any, ...]) -> bool:
    try:
        schema_of(msgspec.defstruct("Field", [field], kw_only=True))
    except TypeError:
        return False
    return True


def _plain_description(annotation: Any) -> str | None:
    """`Annotated[str, "what it is"]`."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((extra for extra in get_args(annotation)[1:] if isinstance(extra, str)), None)


_SECTION = re.compile(
    r"^\s*(?:(?:Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?)\s*:?\s*$|:param\b|:returns?\b|:raises?\b)",
    re.MULTILINE,
)
_GOOGLE = re.compile(r"^(\s*)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SPHINX = re.compile(r"^\s*:param\s+(?:\w+\s+)?(\w+)\s*:\s*(.*)$")
_NUMPY = re.compile(r"^(\w+)\s*:\s*\S.*$")


def _described_parameters(doc: str) -> dict[str, str]:
    """Descriptions by parameter, from a docstring in the style of Google, numpy or Sphinx."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    section = numpy = False
    indent = -1
    for line in doc.splitlines():
        text = line.strip()
        sphinx = _SPHINX.match(line)
        if sphinx:
            current = found.setdefault(sphinx.group(1), [sphinx.group(2)])
        elif re.fullmatch(r"(Args|Arguments|Parameters|Params)\s*:?", text):
            section, numpy, current, indent = True, False, None, -1
        elif section and text and set(text) == {"-"}:
            numpy = True
        elif not text or re.fullmatch(r"(Returns?|Raises|Yields|Examples?|Notes?)\s*:?", text):
            section, current = section and not text, None
        elif section and numpy and not line.startswith(" ") and _NUMPY.match(line):
            current = found.setdefault(text.split(":")[0].strip(), [])
        elif (
            section
            and not numpy
            and (google := _GOOGLE.match(line))
            and (indent < 0 or len(google.group(1)) <= indent)
        ):
            indent = len(google.group(1))
            current = found.setdefault(google.group(2), [google.group(3)])
        elif current is not None:
            current.append(text)
    return {name: " ".join(filter(None, lines)) for name, lines in found.items() if any(lines)}


def schema_of(type: Any) -> JsonSchema:
    """The JSON Schema of a type, with its root written out. Raises TypeError if it has none."""
    (schema,), components = msgspec.json.schema_components(
        [type], schema_hook=_foreign_schema, ref_template="#/$defs/{name}"
    )
    prefix = "#/$defs/"
    definitions = dict(components)
    if schema.keys() == {"$ref"} and not _mentions(definitions, schema["$ref"]):
        schema = definitions.pop(schema["$ref"].removeprefix(prefix))
    elif schema.keys() == {"$ref"}:
        schema = dict(definitions[schema["$ref"].removeprefix(prefix)])
    _hoist(schema, definitions)
    for definition in list(definitions.values()):
        _hoist(definition, definitions)
    _type_choices(schema)
    _type_choices(definitions)
    return schema | {"$defs": definitions} if definitions else dict(schema)


def _mentions(value: Any, reference: str) -> bool:
    if isinstance(value, dict):
        return value.get("$ref") == reference or any(
            _mentions(v, reference) for v in value.values()
        )
    return isinstance(value, list) and any(_mentions(item, reference) for item in value)


def _hoist(value: Any, definitions: dict[str, Any]) -> None:
    """Move definitions that stand deep inside to the root, where references look for them."""
    if isinstance(value, dict):
        inner = value.pop("$defs", None)
        if isinstance(inner, dict):
            definitions.update(inner)
            for definition in inner.values():
                _hoist(definition, definitions)
        for item in value.values():
            _hoist(item, definitions)
    elif isinstance(value, list):
        for item in value:
            _hoist(item, definitions)


def _type_choices(value: Any) -> None:
    """Say of choices that are all strings, or all integers, which they are: hosts want a type."""
    if isinstance(value, dict):
        choices = value.get("enum")
        if isinstance(choices, list) and choices and "type" not in value:
            kinds = {type(choice) for choice in choices}
            if kinds in ({str}, {int}):
                value["type"] = "string" if kinds == {str} else "integer"
        for item in value.values():
            _type_choices(item)
    elif isinstance(value, list):
        for item in value:
            _type_choices(item)


def _foreign_schema(type: Any) -> JsonSchema:
    """For types that msgspec does not know: pydantic models say their schema themselves."""
    if hasattr(type, "model_json_schema"):
        return dict(type.model_json_schema())
    raise NotImplementedError


def from_json(type: Any, value: Any) -> Any:
    """Make an object of a type that msgspec does not know. Raises ValueError with what is wrong."""
    if hasattr(type, "model_validate"):
        return type.model_validate(value)
    raise NotImplementedError(f"{type} cannot be made from JSON")


def to_json(value: Any) -> Any:
    """Give what JSON can hold for an object that msgspec does not know. Raises TypeError."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def check_asks(name: str, asks: str | None, signature: Signature) -> bool:
    """Whether a function may ask the client. Raises TypeError or ValueError if it was registered so
    and cannot.
    """
    if asks is None:
        return False
    if asks not in ("replay", "rounds"):
        raise ValueError(f"{name}: asks is 'replay', 'rounds' or nothing, not {asks!r}")
    if not signature.is_async:
        raise TypeError(f"{name}: a function that asks must be async")
    return True
