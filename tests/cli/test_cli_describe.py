"""What a server gave, in words."""

from __future__ import annotations

import pytest

from mcpcore import types as t
from mcpcore.cli import describe
from mcpcore.types.content import ToolUseContent


@pytest.mark.parametrize(
    ("schema", "head"),
    [
        ({"type": "object"}, "  t()"),
        ({"properties": {"a": {"type": "string"}}}, "  t(a?: string)"),
        ({"properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}, "  t(a: string or null)"),
        ({"properties": {"a": {}, "b": True}, "required": ["b"]}, "  t(a?: any, b: any)"),
        ({"properties": 7, "required": 7}, "  t()"),
        ({"properties": {"a": {"type": 7}}, "required": "a"}, "  t(a?: 7)"),
    ],
)  # fmt: skip
def test_a_tool_is_shown_as_it_is_called_whatever_its_schema(schema, head):
    assert describe.tool(t.Tool("t", schema)) == head


def test_a_description_is_wrapped_and_only_its_first_paragraph_is_shown(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    words = "one two three four five six seven eight nine ten\n\nmore"
    text = describe.tool(t.Tool("t", {}, description=words))
    assert text == "  t()\n      one two three four five six seven\n      eight nine ten"


def test_structured_content_alone_is_shown_as_json():
    assert (
        describe.call_result(t.CallToolResult(content=[], structured_content={"a": 1})) == '{"a":1}'
    )


def test_a_result_of_nothing_is_an_empty_text():
    assert describe.call_result(t.CallToolResult(content=[])) == ""


def test_a_block_that_belongs_elsewhere_is_shown_as_json():
    block = ToolUseContent("1", "add", {"a": 1})
    assert describe.block(block) == '{"type":"tool_use","id":"1","name":"add","input":{"a":1}}'


def test_binary_contents_without_a_type_are_named_as_such():
    contents = t.ResourceContents("x://b", blob="AAA=")
    assert describe.contents(contents).startswith("[binary, of no stated type, 2 bytes;")


def test_contents_of_nothing_are_an_empty_text():
    assert describe.contents(t.ResourceContents("x://b")) == ""
