"""The wire objects: each survives a round trip whole, and has the few conveniences it promises."""

from __future__ import annotations

import base64
import json
import re

import msgspec
import pytest
from samples import STRUCTS, filled

from mcpcore import codec
from mcpcore import types as t


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_object_survives_a_round_trip_with_every_member(
    struct: type[msgspec.Struct],
) -> None:
    whole = filled(struct)
    data = msgspec.json.encode(whole)
    assert len(json.loads(data)) >= len(msgspec.structs.fields(struct))
    assert codec.decode(data, struct) == whole


def test_members_are_written_in_camel_case_and_meta_with_its_underscore() -> None:
    for struct in STRUCTS:
        for name in json.loads(msgspec.json.encode(filled(struct))):
            assert name == "_meta" or re.fullmatch(r"[a-z][A-Za-z]*", name), (struct, name)
        for field in msgspec.structs.fields(struct):
            assert (field.name == "meta") is (field.encode_name == "_meta"), struct


def test_members_that_are_not_set_are_not_written() -> None:
    for struct in STRUCTS:
        fields = msgspec.structs.fields(struct)
        whole = filled(struct)
        bare = struct(**{f.name: getattr(whole, f.name) for f in fields if f.required})
        written = json.loads(msgspec.json.encode(bare))
        tag = {"type"} if struct.__struct_config__.tag is not None else set()
        assert set(written) == {f.encode_name for f in fields if f.required} | tag, struct


def test_no_object_can_be_changed() -> None:
    for struct in STRUCTS:
        assert struct.__struct_config__.frozen, struct


def test_a_result_made_here_has_no_raw_form() -> None:
    assert t.EmptyResult().raw is None
    assert t.CallToolResult(content=[]).validated is None


def test_images_and_sounds_are_made_from_bytes() -> None:
    for kind in (t.ImageContent, t.AudioContent):
        made = kind.of(b"\x00\xff", "a/b")
        assert base64.b64decode(made.data) == b"\x00\xff"
        assert made.mime_type == "a/b"


def test_contents_of_a_resource_as_bytes() -> None:
    binary = t.ResourceContents.of("x:y", b"\x00\xff")
    assert (binary.mime_type, binary.text) == ("application/octet-stream", None)
    assert binary.data() == b"\x00\xff"
    assert t.ResourceContents("x:y", text="ü").data() == "ü".encode()
    assert t.ResourceContents("x:y").data() == b""


def test_an_unknown_block_says_what_it_calls_itself() -> None:
    assert t.UnknownContent({"type": "hologram"}).type == "hologram"
    assert t.UnknownContent({}).type is None


def test_sampling_content_as_a_list_whichever_form_it_came_in() -> None:
    text = t.TextContent("a")
    assert t.SamplingMessage("user", text).blocks == [text]
    assert t.SamplingMessage("user", [text, text]).blocks == [text, text]
    assert t.CreateMessageResult(role="user", content=text, model="m").blocks == [text]
    assert t.CreateMessageResult(role="user", content=[text], model="m").blocks == [text]


def test_the_fields_of_a_form() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    params = t.ElicitParams(message="?", requested_schema=schema)
    assert params.fields == {"n": t.PrimitiveSchema("integer", minimum=1)}
    assert t.ElicitParams(message="?").fields == {}


def test_a_form_that_is_not_flat_is_told() -> None:
    params = t.ElicitParams(message="?", requested_schema={"properties": {"n": {"type": {}}}})
    with pytest.raises(msgspec.ValidationError, match="type"):
        _ = params.fields


def test_only_accept_accepts() -> None:
    assert t.ElicitResult(action="accept").accepted
    assert not t.ElicitResult(action="decline").accepted


@pytest.mark.parametrize(
    ("capability", "forms"), [("{}", True), ('{"form":{}}', True), ('{"url":{}}', False)]
)
def test_an_empty_elicitation_capability_means_forms(capability: str, forms: bool) -> None:
    assert msgspec.json.decode(capability, type=t.ElicitationCapability).forms is forms


def test_the_name_of_a_tool_for_people() -> None:
    assert t.Tool("n", {}).display_name == "n"
    assert t.Tool("n", {}, annotations=t.ToolAnnotations()).display_name == "n"
    assert t.Tool("n", {}, annotations=t.ToolAnnotations(title="a")).display_name == "a"
    assert t.Tool("n", {}, "t", annotations=t.ToolAnnotations(title="a")).display_name == "t"


def test_the_text_of_a_tool_result() -> None:
    image = t.ImageContent("", "a/b")
    text = [t.TextContent("a"), image, t.TextContent("b")]
    assert t.CallToolResult(content=text, structured_content={"x": 1}).text == "a\nb"
    assert t.CallToolResult(content=[image], structured_content={"x": 1}).text == '{"x":1}'
    assert t.CallToolResult(content=[image], structured_content=None).text == "null"
    assert t.CallToolResult(content=[]).text == ""


def test_levels_rise() -> None:
    assert t.LOGGING_LEVELS[0] == "debug"
    assert t.LOGGING_LEVELS[-1] == "emergency"
    assert len(t.LOGGING_LEVELS) == 8
