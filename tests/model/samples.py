"""An object of any wire Struct with every member set, made from its annotations alone."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

import msgspec

from mcpcore import types as t

STRUCTS: tuple[type[msgspec.Struct], ...] = tuple(
    value
    for value in (getattr(t, name) for name in t.__all__)
    if isinstance(value, type) and issubclass(value, msgspec.Struct)
)


def filled(struct: type[msgspec.Struct]) -> Any:
    """An instance in which no member has its default."""
    return struct(**{f.name: value_of(f.type) for f in msgspec.structs.fields(struct)})


def value_of(annotation: Any) -> Any:
    """A value that fits `annotation` and is no default of anything."""
    plain = {str: "x", int: 7, float: 0.5, bool: True}
    if annotation in plain:
        return plain[annotation]
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return filled(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return value_of(next(one for one in inner if one is not type(None)))
    if origin is list:
        return [value_of(inner[0])]
    if origin is dict:
        return {"key": value_of(inner[1])}
    assert annotation in (Any, object), annotation
    return {"any": [1]}


def inside(value: Any) -> Iterator[msgspec.Struct]:
    """Every Struct in `value`, itself included, at any depth."""
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from inside(getattr(value, name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from inside(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from inside(item)
