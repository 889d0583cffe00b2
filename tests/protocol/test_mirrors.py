"""Headers that repeat the body: how values are written, what may be marked, what a server refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpcore import jsonrpc
from mcpcore.jsonrpc import Request
from mcpcore.protocol import mirrors
from mcpcore.protocol.mirrors import BadMark, decode, encode, headers_of, judge, marked, render
from mcpcore.revisions import REVISIONS, STATELESS

E = STATELESS[0]
SPOKEN = tuple(REVISIONS[name] for name in STATELESS)


# Values (HDR-17 to HDR-25).


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("plain", "plain"),
        ("two words", "two words"),
        ("", ""),
        (" lead", "=?base64?IGxlYWQ=?="),
        ("trail ", "=?base64?dHJhaWwg?="),
        ("\ttab", "=?base64?CXRhYg==?="),
        ("a\nb", "=?base64?YQpi?="),
        ("Zoë", "=?base64?Wm/Dqw==?="),
        ("=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="),
        ("=?base64?no end", "=?base64?no end"),
    ],
)
def test_hdr_18_what_no_header_holds_is_encoded(value: str, header: str) -> None:
    assert encode(value) == header
    assert decode(header) == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_string_comes_back(value: str) -> None:
    header = encode(value)
    assert header.isascii()
    assert header == header.strip()
    assert "\r" not in header
    assert "\n" not in header
    assert decode(header) == value


@pytest.mark.parametrize("header", ["=?BASE64?SGVsbG8=?=", "SGVsbG8=?=", "=?base64?SGVsbG8="])
def test_hdr_21_what_is_no_sentinel_is_literal(header: str) -> None:
    assert decode(header) == header


@pytest.mark.parametrize(
    "header", ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?=", "a\x01b", "é"]
)
def test_hdr_22_what_cannot_be_decoded_is_an_error(header: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
        decode(header)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (42, "42"),
        (-7, "-7"),
        (42.0, "42"),
        ("x", "x"),
        (None, None),
        (1.5, None),
        ([], None),
        ({}, None),
    ],
)
def test_hdr_17_values_are_rendered(value: Any, text: str | None) -> None:
    assert render(value) == text


def test_hdr_54_an_integer_that_would_be_lossy_is_not_sent() -> None:
    assert render(2**53 - 1) == "9007199254740991"
    with pytest.raises(ValueError, match="9007199254740992"):
        render(2**53)


# Marks (HDR-33 to HDR-39).


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def field(name: Any, type: Any = "string") -> dict[str, Any]:
    return {"type": type, mirrors.MARK: name}


def test_marks_are_found_wherever_properties_lead() -> None:
    inner = schema(zone=field("Zone", "integer"))
    assert marked(schema(region=field("Region"), where=inner, plain={"type": "string"})) == {
        "region": ("region",),
        "zone": ("where", "zone"),
    }


@pytest.mark.parametrize(
    "bad",
    [
        schema(a=field("")),
        schema(a=field("two words")),
        schema(a=field("co:lon")),
        schema(a=field("Zoë")),
        schema(a=field("tab\t")),
        schema(a=field(7)),
        schema(a=field("A", "number")),
        schema(a=field("A", "object")),
        schema(a=field("A", "array")),
        schema(a=field("A", "null")),
        schema(a=field("A", None)),
        schema(a=field("Same"), b=field("SAME")),
        schema(a={"type": "array", "items": field("A")}),
        schema(a={"anyOf": [field("A"), {"type": "null"}]}),
        {**schema(a={"$ref": "#/$defs/a"}), "$defs": {"a": field("A")}},
        {**schema(), "if": schema(a=field("A"))},
        {**schema(), "patternProperties": {"a": field("A")}},
        {**schema(), "additionalProperties": field("A")},
        {**schema(), mirrors.MARK: "Root"},
    ],
)
def test_hdr_39_a_mark_elsewhere_makes_the_tool_invalid(bad: Any) -> None:
    with pytest.raises(BadMark):
        marked(bad)


def test_a_mark_among_values_is_none() -> None:
    assert marked(schema(a={"type": "object", "default": {mirrors.MARK: "no"}})) == {}


# What the client sends, and what the server makes of it.

MARKED = {"f": {"region": ("region",), "zone": ("where", "zone")}}


def request(method: str, **params: Any) -> Request:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    message = jsonrpc.decode(json.dumps(body).encode(), [])
    assert isinstance(message, Request)
    return message


CALL = {"name": "f", "arguments": {"region": "eu west ", "where": {"zone": 3}, "other": 1}}


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("tools/list", {}, {}),
        ("tools/call", CALL, {
            "mcp-name": "f", "mcp-param-region": "=?base64?ZXUgd2VzdCA=?=", "mcp-param-zone": "3"
        }),
        ("tools/call", {"name": "f", "arguments": {"region": None}}, {"mcp-name": "f"}),
        ("tools/call", {"name": "f"}, {"mcp-name": "f"}),
        ("tools/call", {"name": "f", "arguments": {"where": 7}}, {"mcp-name": "f"}),
        ("tools/call", {"name": "unknown", "arguments": {"region": "x"}}, {"mcp-name": "unknown"}),
        ("prompts/get", {"name": "Zoë"}, {"mcp-name": "=?base64?Wm/Dqw==?="}),
        ("resources/read", {"uri": "x:a"}, {"mcp-name": "x:a"}),
        ("of/an/extension", {"name": "n"}, {}),
    ],
)  # fmt: skip
def test_hdr_01_the_client_repeats_what_it_asks(method: str, params: Any, expected: Any) -> None:
    """HDR-01, HDR-02, HDR-15, HDR-24, HDR-25; and the server agrees to all of it."""
    headers = dict(headers_of(request(method, **params), E, MARKED))
    assert headers == {"mcp-protocol-version": E, "mcp-method": method, **expected}
    assert judge(headers, request(method, **params), E, SPOKEN, MARKED) is None


def good() -> dict[str, str]:
    return dict(headers_of(request("tools/call", **CALL), E, MARKED))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mcp-protocol-version": None}, "mcp-protocol-version is missing"),
        ({"mcp-protocol-version": "2025-11-25"}, "mcp-protocol-version is '2025-11-25'"),
        ({"mcp-method": None}, "mcp-method is missing"),
        ({"mcp-method": "TOOLS/CALL"}, "mcp-method is 'TOOLS/CALL'"),
        ({"mcp-method": "tools/call, tools/call"}, "mcp-method"),
        ({"mcp-name": None}, "mcp-name is missing"),
        ({"mcp-name": "g"}, "mcp-name is 'g'"),
        ({"mcp-name": "=?base64?!?="}, "mcp-name cannot be decoded"),
        ({"mcp-param-region": None}, "mcp-param-region is missing"),
        ({"mcp-param-region": "us"}, "mcp-param-region is 'us'"),
        ({"mcp-param-region": "=?base64?!?="}, "mcp-param-region cannot be decoded"),
        ({"mcp-param-zone": "4"}, "mcp-param-zone is '4'"),
        ({"mcp-param-zone": "three"}, "mcp-param-zone is 'three'"),
    ],
)
def test_hdr_06_headers_that_differ_are_refused(change: dict[str, Any], says: str) -> None:
    headers = {name: value for name, value in (good() | change).items() if value is not None}
    problem = judge(headers, request("tools/call", **CALL), E, SPOKEN, MARKED)
    assert problem is not None
    assert says in problem


def test_hdr_26_a_header_without_its_argument_is_refused_too() -> None:
    """AMB-09: somebody on the way may have decided by it."""
    without = request("tools/call", name="f", arguments={"region": None})
    headers = dict(headers_of(without, E, MARKED)) | {"mcp-param-region": "eu"}
    assert judge(headers, without, E, SPOKEN, MARKED) is not None


@pytest.mark.parametrize("zone", ["3", "3.0", "3e0"])
def test_hdr_29_integers_are_compared_as_numbers(zone: str) -> None:
    headers = good() | {"mcp-param-zone": zone}
    assert judge(headers, request("tools/call", **CALL), E, SPOKEN, MARKED) is None


def test_what_the_body_lacks_is_not_a_matter_of_headers() -> None:
    """META26-04 speaks of it: a request is refused for the first thing that is wrong with it."""
    call = request("tools/call", **CALL)
    assert judge({"mcp-protocol-version": E}, call, None, SPOKEN, MARKED) is None
    assert judge({"mcp-protocol-version": "x"}, call, "x", SPOKEN, MARKED) is None


@pytest.mark.parametrize(
    "params",
    [{"name": 7}, {"arguments": {}}, {"name": "f", "arguments": []}, {"name": "f", "arguments": 7}],
)
def test_params_that_cannot_be_read_are_left_to_whoever_serves_them(params: Any) -> None:
    call = request("tools/call", **params)
    headers = {"mcp-protocol-version": E, "mcp-method": "tools/call", "mcp-name": "f"}
    assert judge(headers, call, E, SPOKEN, MARKED) is None


def test_arguments_of_a_kind_that_no_header_holds_are_left_to_the_schema() -> None:
    call = request("tools/call", name="f", arguments={"region": ["eu"]})
    headers = {"mcp-protocol-version": E, "mcp-method": "tools/call", "mcp-name": "f"}
    assert judge(headers, call, E, SPOKEN, MARKED) is None
    flags = {"f": {"on": ("on",)}}
    call = request("tools/call", name="f", arguments={"on": True})
    assert judge(headers | {"mcp-param-on": "true"}, call, E, SPOKEN, flags) is None
    assert judge(headers | {"mcp-param-on": "True"}, call, E, SPOKEN, flags) is not None


def test_a_request_without_params_is_left_to_whoever_serves_it() -> None:
    call = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', [])
    assert isinstance(call, Request)
    headers = {"mcp-protocol-version": E, "mcp-method": "tools/call"}
    assert judge(headers, call, E, SPOKEN, MARKED) is None


def test_the_client_repeats_only_what_has_a_name() -> None:
    """What has none is for the server to refuse."""
    assert dict(headers_of(request("tools/call", name=7), E, MARKED)) == {
        "mcp-protocol-version": E,
        "mcp-method": "tools/call",
    }
