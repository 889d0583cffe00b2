"""Results against schemas: what fits, what does not, and schemas that nothing can be checked against."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from mcpcore import validation
from mcpcore.validation import SchemaCheck, UnusableSchema

WANTS_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_what_fits_has_no_problem() -> None:
    assert SchemaCheck(WANTS_NUMBER).problem({"n": 1, "more": None}) is None


def test_a_problem_is_told_with_its_path() -> None:
    """TOOL-24."""
    problem = SchemaCheck({"properties": {"a": {"items": WANTS_NUMBER}}}).problem(
        {"a": [{"n": 1}, {"n": "x"}]}
    )
    assert problem is not None
    assert "'x' is not of type 'integer'" in problem
    assert "$.a[1].n" in problem


@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-04/schema#",
    ],
)
def test_known_dialects(dialect: str) -> None:
    check = SchemaCheck({"$schema": dialect, "type": "integer"})
    assert check.problem(1) is None
    assert check.problem("1") is not None


def test_without_a_dialect_it_is_the_newest() -> None:
    """JSCH: 2020-12 unless it says otherwise."""
    schema = {"prefixItems": [{"type": "integer"}]}
    assert SchemaCheck(schema).problem(["x"]) is not None
    older = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    assert SchemaCheck(older).problem(["x"]) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "https://example.com/mine"},
        {"$schema": []},
        {"$schema": 5},
        {"type": "nonsense"},
        {"type": "object", "properties": 5},
        {"pattern": "("},
        {"properties": {"a": {"patternProperties": {"(": {}}}}},
    ],
    ids=str,
)
def test_a_schema_that_is_none_is_told_when_it_is_made_ready(schema: Any) -> None:
    with pytest.raises(UnusableSchema):
        SchemaCheck(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/nowhere"}, 1),
        ({"$ref": "#"}, 1),
        ({"$dynamicRef": "#nowhere"}, 1),
        ({"$ref": "#/x", "x": 5}, 1),
        ({"$ref": "#/x", "x": {"type": "nonsense"}}, 1),
        ({"$ref": "#/x", "x": {"pattern": "("}}, "a"),
        ({"$ref": "#/x", "x": {"patternProperties": {"(": {}}}}, {"a": 1}),
        ({"multipleOf": 0.5}, 10**400),
    ],
    ids=lambda part: str(part)[:60],
)
def test_a_schema_that_fails_in_use_is_told_as_unusable(schema: Any, value: Any) -> None:
    """It costs the check of one tool, never the call."""
    with pytest.raises(UnusableSchema):
        SchemaCheck(schema).problem(value)


def test_a_schema_nested_beyond_the_stack_is_unusable() -> None:
    schema: dict[str, Any] = {}
    for _ in range(600):
        schema = {"allOf": [schema]}
    with pytest.raises(UnusableSchema):
        SchemaCheck(schema).problem(1)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    tried: list[Any] = []

    def refuse(*args: Any, **kwargs: Any) -> Any:
        tried.append(args)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    yield tried


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x", "file:///etc/passwd", "other.json"])
def test_references_that_leave_the_schema_are_not_followed(
    reference: str, no_network: list[Any]
) -> None:
    with pytest.raises(UnusableSchema, match="cannot be followed"):
        SchemaCheck({"$ref": reference}).problem(1)
    assert no_network == []


def test_whether_the_extra_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    validation.can_validate.cache_clear()
    assert validation.can_validate()
    validation.can_validate.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not validation.can_validate()
    validation.can_validate.cache_clear()
    assert "mcpcore[schema]" in validation.MISSING
