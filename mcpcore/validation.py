"""Checks structured results against the schemas that a server gave for them.

Needs `jsonschema`, which the extra `mcpcore[schema]` brings. A schema that cannot be used (an unknown
dialect, a reference to nowhere, a pattern that is none) costs the check of that one tool and nothing
else. References that leave the schema are never fetched.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Iterator
from typing import Any

from mcpcore.types import JsonSchema

logger = logging.getLogger("mcpcore.client")

MISSING = "checking results against their schema needs jsonschema: pip install 'mcpcore[schema]'"


@functools.cache
def can_validate() -> bool:
    """Whether the extra is installed."""
    return importlib.util.find_spec("jsonschema") is not None


class UnusableSchema(ValueError):
    """A schema that nothing can be checked against, and why."""


class SchemaCheck:
    """A schema, made ready once. Raises `UnusableSchema`.

    A schema that is not `trusted` does not get its patterns run: matching one can take for ever, and
    nothing in this process could stop it. `complete` says whether that left nothing out. Where a pattern
    may be what makes a value right (below `not`, `if` and the like), the schema is unusable.
    """

    def __init__(self, schema: JsonSchema, *, trusted: bool = True) -> None:
        self.complete = True
        if not trusted:
            harmless = _without_patterns(schema)
            self.complete = harmless == schema
            if not self.complete and not _TURNING.isdisjoint(_keywords(schema)):
                raise UnusableSchema(
                    "patterns of a foreign schema are not run, and it depends on them"
                )
            schema = harmless
        # Optional extra: only those who check need it.
        import jsonschema  # noqa: PLC0415
        import referencing  # noqa: PLC0415

        # A foreign schema can go wrong in more ways than the library names: none may get out.
        try:
            dialect = schema.get("$schema")
            kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
            known = str(kind.META_SCHEMA.get("$id") or kind.META_SCHEMA.get("id", ""))
            kind.check_schema(schema)
            self._validator = kind(schema, registry=referencing.Registry())
        except jsonschema.SchemaError as error:
            raise UnusableSchema(f"not a valid schema: {error.message}") from None
        except Exception as error:
            raise UnusableSchema(f"not a usable schema: {error}") from error
        if dialect is not None and str(dialect).rstrip("#") != known.rstrip("#"):
            raise UnusableSchema(f"unknown dialect {dialect!r}")

    def problem(self, value: Any) -> str | None:
        """What is wrong with `value`, with its JSON path; None if nothing is. Raises `UnusableSchema`."""
        try:
            error = next(self._validator.iter_errors(value), None)
        except Exception as cause:
            raise UnusableSchema(f"cannot be followed: {cause}") from cause
        return None if error is None else f"{error.message} - at `{error.json_path}`"


_OF_SCHEMAS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members are schemas by names of their own."""

_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords below which there is data, and no schema."""


def _without_patterns(schema: Any) -> Any:
    """The schema without what runs a regular expression, and without what depends on that."""
    if isinstance(schema, list):
        return [_without_patterns(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    harmless = {}
    for keyword, value in schema.items():
        if keyword in _OF_SCHEMAS and isinstance(value, dict):
            harmless[keyword] = {name: _without_patterns(item) for name, item in value.items()}
        elif keyword in _DATA:
            harmless[keyword] = value
        elif keyword not in _RUN and not (
            keyword == "additionalProperties" and "patternProperties" in schema
        ):
            harmless[keyword] = _without_patterns(value)
    return harmless


_RUN = frozenset({"pattern", "patternProperties"})
"""Keywords that run a regular expression."""

_TURNING = frozenset(
    {"not", "if", "oneOf", "maxContains", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords below or beside which a weaker schema can refuse more than before."""


def _keywords(schema: Any) -> Iterator[str]:
    """All names in a schema, those of properties among them: better one too many than too few."""
    if isinstance(schema, dict):
        for name, item in schema.items():
            yield name
            yield from _keywords(item)
    elif isinstance(schema, list):
        for item in schema:
            yield from _keywords(item)
