"""Checks structured results against the schemas that a server gave for them.

Needs `jsonschema`, which the extra `mcpcore[schema]` brings. A schema that cannot be used (an unknown
dialect, a reference to nowhere, a pattern that is none) costs the check of that one tool and nothing
else. References that leave the schema are never fetched.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
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
    nothing in this process could stop it. `complete` says whether that left nothing out.
    """

    def __init__(self, schema: JsonSchema, *, trusted: bool = True) -> None:
        self.complete = True
        if not trusted:
            harmless = _without_patterns(schema)
            self.complete = harmless == schema
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


def _without_patterns(schema: Any) -> Any:
    """The schema without what runs a regular expression, and without what depends on that."""
    if isinstance(schema, list):
        return [_without_patterns(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    gone = {name for name in ("pattern", "patternProperties") if _is_keyword(schema, name)}
    if "patternProperties" in gone:
        gone |= {"additionalProperties", "unevaluatedProperties"}
    return {name: _without_patterns(item) for name, item in schema.items() if name not in gone}


def _is_keyword(schema: dict[str, Any], name: str) -> bool:
    """Whether a member is the keyword, and not a property that happens to be called so."""
    return isinstance(schema.get(name), str if name == "pattern" else dict)
