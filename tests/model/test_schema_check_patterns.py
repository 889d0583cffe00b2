"""Foreign schemas: their patterns are never run, and never the reason for a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from mcpcore.validation import SchemaCheck, UnusableSchema

SLOW = "^(a+)+$"


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": SLOW},
        {"properties": {"x": {"pattern": SLOW}}},
        {"properties": {"default": {"pattern": SLOW}, "const": {"pattern": SLOW}}},
        {"$defs": {"enum": {"pattern": SLOW}}, "$ref": "#/$defs/enum"},
        {"anyOf": [{"pattern": SLOW}, {"items": {"pattern": SLOW}}]},
        {"patternProperties": {SLOW: {}}, "additionalProperties": False},
        {"propertyNames": {"pattern": SLOW}},
    ],
    ids=str,
)
def test_no_pattern_is_run(schema: dict[str, Any]) -> None:
    """Each of these takes minutes where a pattern is run."""
    check = SchemaCheck(schema, trusted=False)
    assert not check.complete
    text = "a" * 40 + "!"
    for value in (text, [text], {"x": text, "default": text, "const": text, text: 1}):
        assert check.problem(value) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"pattern": "^x"}},
        {"if": {"pattern": "^x"}, "then": False},
        {"oneOf": [{"pattern": "^x"}, {"pattern": "^y"}]},
        {"contains": {"pattern": "^x"}, "maxContains": 1},
        {"allOf": [{"patternProperties": {"x": {}}}], "unevaluatedProperties": False},
    ],
    ids=str,
)
def test_a_schema_that_depends_on_a_pattern_is_not_used(schema: dict[str, Any]) -> None:
    """Without its pattern it would refuse what is right."""
    with pytest.raises(UnusableSchema, match="depends on them"):
        SchemaCheck(schema, trusted=False)


def test_properties_and_data_that_are_called_pattern_are_none() -> None:
    schema = {
        "properties": {"pattern": {"type": "string"}, "not": {"type": "string"}},
        "enum": [{"pattern": "a"}, {"not": "b"}],
        "required": ["pattern"],
    }
    check = SchemaCheck(schema, trusted=False)
    assert check.complete
    assert check.problem({"pattern": "a"}) is None
    assert check.problem({"pattern": "b"}) is not None
