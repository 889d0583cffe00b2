"""Objects on their way in and out: what is forgiven, what is kept, what a revision does not have."""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw
from samples import STRUCTS, filled, inside, value_of

from mcpcore import codec
from mcpcore import types as t
from mcpcore.codec import Note
from mcpcore.errors import LocalProtocolError
from mcpcore.jsonrpc import ErrorObject, ErrorResponse, Notification, Request, Response
from mcpcore.revisions import FIELDS, KINDS, METHODS, REVISIONS, Field, Kind, Revision

ALL = tuple(REVISIONS.values())
OLDEST, SECOND, THIRD, LAST, STATELESS = ALL


def decode(value: Any, type: Any) -> tuple[Any, list[Note]]:
    notes: list[Note] = []
    return codec.decode(json.dumps(value).encode(), type, notes), notes


def written(result: Any, revision: Revision = LAST) -> Any:
    """The `result` member as it goes out."""
    return json.loads(codec.encode(Response(1, result), revision))["result"]


def has(row: Field, revision: Revision) -> bool:
    return row.since.position <= revision.position <= row.until.position


# Out: members.


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: f"{row.struct.__name__}.{row.name}")
def test_a_member_is_written_exactly_where_the_revision_has_it(row: Field) -> None:
    structs = [struct for struct in STRUCTS if issubclass(struct, row.struct)]
    assert structs
    for struct, revision in product(structs, ALL):
        if any(kind.struct is struct and kind.since.position > revision.position for kind in KINDS):
            continue
        fields = {field.name: field for field in msgspec.structs.fields(struct)}
        whole = filled(struct)
        only = struct(
            **{f.name: getattr(whole, f.name) for f in fields.values() if f.required},
            **{row.name: getattr(whole, row.name)},
        )
        out = written(only, revision)
        assert (fields[row.name].encode_name in out) is has(row, revision), (struct, revision)


def lacks(whole: Any, revision: Revision) -> list[Any]:
    """What is set in `whole`, at any depth, and does not exist in `revision`."""
    found: list[Any] = []
    for part in inside(whole):
        defaults = {field.name: field.default for field in msgspec.structs.fields(type(part))}
        found += [
            (type(part), row.name)
            for row in FIELDS
            if isinstance(part, row.struct)
            and not has(row, revision)
            and getattr(part, row.name) is not defaults[row.name]
        ]
        found += [
            kind.struct
            for kind in KINDS
            if type(part) is kind.struct and kind.since.position > revision.position
        ]
    return found


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_nothing_that_a_revision_lacks_is_left_at_any_depth(struct: type[msgspec.Struct]) -> None:
    whole = filled(struct)
    for revision in ALL:
        fitted = codec.fit(whole, revision)
        assert lacks(fitted, revision) == []
        if not lacks(whole, revision):
            assert fitted is whole


@pytest.mark.parametrize("row", METHODS, ids=lambda row: f"{row.name}-{row.sender}")
def test_every_method_can_be_written_in_every_revision_that_has_it(row: Any) -> None:
    for revision in ALL:
        if row.exists_in(revision):
            params = filled(row.params)
            data = codec.encode(Request(1, row.name, params), revision)
            codec.decode(msgspec.json.decode(data, type=dict[str, Raw])["params"], row.params)
            if row.result is not None:
                data = codec.encode_result(1, filled(row.result), revision)
                codec.decode(msgspec.json.decode(data, type=dict[str, Raw])["result"], row.result)


def test_the_older_the_revision_the_less_a_tool_says() -> None:
    """One row spelt out, so that the tables are not only compared with themselves."""
    members = [set(written(t.ListToolsResult(tools=[filled(t.Tool)]), r)["tools"][0]) for r in ALL]
    first = {"name", "inputSchema", "description"}
    assert members == [
        first,
        first | {"annotations"},
        first | {"annotations", "title", "outputSchema", "_meta"},
        first | {"annotations", "title", "outputSchema", "_meta", "icons", "execution"},
        first | {"annotations", "title", "outputSchema", "_meta", "icons"},
    ]


def test_structured_content_is_dropped_where_results_have_none() -> None:
    result = t.CallToolResult(content=[t.TextContent("1")], structured_content={"n": 1})
    assert "structuredContent" not in written(result, SECOND)
    assert written(result, THIRD)["structuredContent"] == {"n": 1}


def test_progress_has_no_message_in_the_first_revision() -> None:
    params = t.ProgressParams(progress_token=1, progress=1, message="half")
    first = codec.encode(Notification("notifications/progress", params), OLDEST)
    assert b"half" not in first
    assert b"half" in codec.encode(Notification("notifications/progress", params), SECOND)


def test_params_that_are_no_object_of_ours_pass_unchanged() -> None:
    for revision in ALL:
        params = {"title": 1, "icons": [], "execution": {"x": [filled(t.Tool)]}}
        out = json.loads(codec.encode(Request(1, "x/y", params), revision))["params"]
        assert set(out) == set(params)
        assert "params" not in json.loads(codec.encode(Request(1, "x/y"), revision))


def test_elicitation_by_url_alone_is_none_where_there_are_no_modes() -> None:
    """What is left of it would read as elicitation by form."""

    def left(revision: Revision, **modes: Any) -> t.ElicitationCapability | None:
        declared = t.ClientCapabilities(elicitation=t.ElicitationCapability(**modes))
        return codec.fit_capabilities(declared, revision).elicitation

    assert left(THIRD, url={}) is None
    assert left(THIRD, form={}, url={}) == t.ElicitationCapability()
    assert left(THIRD) == t.ElicitationCapability()
    assert left(SECOND, form={}) is None
    assert left(LAST, url={}) == t.ElicitationCapability(url={})
    assert codec.fit_capabilities(t.ClientCapabilities(), OLDEST) == t.ClientCapabilities()


# Out: content kinds.


@pytest.mark.parametrize("revision", ALL, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.struct.__name__)
def test_a_content_kind_that_the_revision_lacks_becomes_text(
    kind: Kind, revision: Revision
) -> None:
    block = filled(kind.struct)
    exists = kind.since.position <= revision.position
    tag = kind.struct.__struct_config__.tag if exists else "text"
    places = [
        written(t.CallToolResult(content=[t.TextContent("a"), block]), revision)["content"][1],
        written(t.GetPromptResult(messages=[t.Message("user", block)]), revision)["messages"][0]["content"],
        written(t.CreateMessageResult(role="user", content=block, model="m"), revision)["content"],
        written(
            t.CreateMessageParams(messages=[t.SamplingMessage("user", [block])], max_tokens=1), revision
        )["messages"][0]["content"],
    ]  # fmt: skip
    for place in places:
        assert place["type"] == tag
        assert exists or place["text"]


def test_what_the_text_says() -> None:
    def in_words(block: Any) -> str:
        (out,) = written(t.CallToolResult(content=[block]), OLDEST)["content"]
        assert set(out) == {"type", "text"}
        return str(out["text"])

    assert in_words(t.ResourceLink("x:y", "name")) == "name: x:y"
    assert in_words(t.ResourceLink("x:y", "name", "Title")) == "Title: x:y"
    assert "audio/wav" in in_words(t.AudioContent("QUJD", "audio/wav"))
    assert "QUJD" not in in_words(t.AudioContent("QUJD", "audio/wav"))
    use = json.loads(in_words(t.ToolUseContent("1", "add", {"a": 1})))
    assert use == {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}


def test_content_within_a_tool_result_is_fitted_too() -> None:
    block = t.ToolResultContent("1", [t.TextContent("a", meta={"x": 1})], is_error=True)
    result = t.CreateMessageResult(role="user", content=[block], model="m")
    assert written(result, LAST)["content"]["content"] == [
        {"type": "text", "text": "a", "_meta": {"x": 1}}
    ]


def test_sampling_content_is_written_alone_where_it_is_one() -> None:
    one, two = [t.TextContent("a")], [t.TextContent("a"), t.TextContent("b")]
    for revision in ALL:
        message = t.SamplingMessage("user", one)
        params = t.CreateMessageParams(messages=[message], max_tokens=1)
        assert written(params, revision)["messages"][0]["content"]["text"] == "a"
        result = t.CreateMessageResult(role="assistant", content=one, model="m")
        assert written(result, revision)["content"]["text"] == "a"
        result = t.CreateMessageResult(role="assistant", content=one[0], model="m")
        assert written(result, revision)["content"]["text"] == "a"
    for revision in (LAST, STATELESS):
        result = t.CreateMessageResult(role="assistant", content=two, model="m")
        assert [block["text"] for block in written(result, revision)["content"]] == ["a", "b"]


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("revision", [OLDEST, SECOND, THIRD], ids=str)
def test_several_blocks_in_an_older_sampling_message_are_a_local_error(
    revision: Revision, count: int
) -> None:
    blocks = [t.TextContent("a")] * count
    with pytest.raises(LocalProtocolError, match="one content block"):
        written(t.CreateMessageResult(role="user", content=blocks, model="m"), revision)
    params = t.CreateMessageParams(messages=[t.SamplingMessage("user", blocks)], max_tokens=1)
    with pytest.raises(LocalProtocolError, match="one content block"):
        codec.encode(Request(1, "sampling/createMessage", params), revision)


# Out: what JSON cannot hold.


@dataclasses.dataclass
class Measured:
    value: float


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "around",
    [
        lambda x: {"x": x},
        lambda x: {"x": [1, (2, {"y": x})]},
        lambda x: t.CallToolResult(content=[], structured_content={"a": [x]}),
        lambda x: t.CompleteResult(completion=t.Completion([]), meta={"x": x}),
        lambda x: {"x": {x}},
        lambda x: {"x": frozenset([x])},
        lambda x: {"x": Measured(x)},
    ],
    ids=["dict", "nested", "structured", "meta", "set", "frozenset", "dataclass"],
)
def test_what_is_no_number_is_refused_and_not_written_as_null(around: Any, number: float) -> None:
    """F-054."""
    with pytest.raises(LocalProtocolError, match="NaN"):
        codec.encode(Response(1, around(number)), LAST)


def test_no_number_in_params_and_errors() -> None:
    with pytest.raises(LocalProtocolError, match="NaN"):
        codec.encode(Request(1, "a", {"x": float("nan")}), LAST)
    with pytest.raises(LocalProtocolError, match="NaN"):
        codec.encode(ErrorResponse(1, ErrorObject(1, "m", [float("inf")])), LAST)


def test_null_is_not_taken_for_nan() -> None:
    value = {"x": None, "y": "null", "z": [1.5, None, (True,)]}
    assert written(value) == {"x": None, "y": "null", "z": [1.5, None, [True]]}
    error = ErrorResponse(1, ErrorObject(1, "m", None))
    assert json.loads(codec.encode(error, LAST))["error"]["data"] is None


def test_half_a_surrogate_pair_cannot_be_written() -> None:
    with pytest.raises(LocalProtocolError, match="UTF-8"):
        codec.encode(Response(1, {"x": "\ud800"}), LAST)


def test_what_has_no_json_form_cannot_be_written() -> None:
    with pytest.raises(LocalProtocolError, match="JSON"):
        codec.encode(Response(1, {"x": object()}), LAST)
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(LocalProtocolError, match="JSON"):
        codec.encode(Response(1, {"x": ring}), LAST)


def test_big_integers_are_written_with_every_digit() -> None:
    assert b"123456789012345678901234567890" in codec.encode(
        Response(1, {"x": 123456789012345678901234567890}), LAST
    )


# In: content.

TEXT = {"type": "text", "text": "a"}
ODD_BLOCKS = [
    {"type": "hologram", "depth": 3, "nested": [{"type": "text"}]},
    {"type": "text"},
    {"type": "text", "text": 5},
    {"type": "image", "data": "x"},
    {"type": "resource_link", "uri": "x:y", "name": None},
    {"type": "resource", "resource": "x"},
    {"text": "a"},
    {"type": None},
    {"type": 5},
    {},
    {"type": "tool_result", "toolUseId": 1, "content": [{"type": "hologram"}]},
    {"type": "hologram", "n": 123456789012345678901234567890, "null": None, "s": "\u2028😀"},
]


@pytest.mark.parametrize("block", ODD_BLOCKS, ids=lambda block: json.dumps(block)[:40])
def test_an_odd_block_is_kept_and_costs_nothing_else(block: Any) -> None:
    result, _ = decode({"content": [TEXT, block, TEXT]}, t.CallToolResult)
    assert result.content[0] == result.content[2] == t.TextContent("a")
    assert isinstance(result.content[1], t.UnknownContent)
    assert result.content[1].type == block.get("type")
    assert written(result)["content"] == [TEXT, block, TEXT]


@pytest.mark.parametrize("block", ODD_BLOCKS, ids=lambda block: json.dumps(block)[:40])
def test_an_odd_block_goes_out_as_it_came_in_wherever_it_stands(block: Any) -> None:
    prompt, _ = decode({"messages": [{"role": "user", "content": block}]}, t.GetPromptResult)
    assert isinstance(prompt.messages[0].content, t.UnknownContent)
    for revision in ALL:
        assert written(prompt, revision)["messages"][0]["content"] == block
    for content in (block, [block]):
        answer, _ = decode({"role": "x", "model": "m", "content": content}, t.CreateMessageResult)
        for revision in ALL:
            assert written(answer, revision)["content"] == block


def test_an_odd_block_within_a_tool_result_of_sampling() -> None:
    inner = {"type": "hologram"}
    block = {"type": "tool_result", "toolUseId": "1", "content": [TEXT, inner]}
    params = {"messages": [{"role": "user", "content": [block]}], "maxTokens": 1}
    read, _ = decode(params, t.CreateMessageParams)
    (kept,) = read.messages[0].blocks
    assert isinstance(kept, t.ToolResultContent)
    assert kept.content == [t.TextContent("a"), t.UnknownContent(inner)]
    assert written(read)["messages"][0]["content"] == block


def test_messages_that_are_no_objects_are_an_error() -> None:
    for messages in ([5], [None, {"role": "user", "content": TEXT}], 5, "x"):
        with pytest.raises(msgspec.ValidationError, match="messages"):
            decode({"messages": messages, "maxTokens": 1}, t.CreateMessageParams)


def test_user_data_with_the_same_words_is_left_alone() -> None:
    data = {"content": [{"type": "hologram"}], "messages": [{"content": {"type": "x"}}]}
    value = {"content": [{"type": "hologram"}], "structuredContent": data, "_meta": {"m": data}}
    result, _ = decode(value, t.CallToolResult)
    assert result.structured_content == data
    assert result.meta == {"m": data}


def test_the_answer_to_a_form_is_no_content_block() -> None:
    notes: list[Note] = []
    data = rb'{"action":"accept","content":{"type":"dog","name":"Rex\ud83d"}}'
    result = codec.decode(data, t.ElicitResult, notes)
    assert result.content == {"type": "dog", "name": "Rex\ufffd"}
    assert [note.rule for note in notes] == ["JSON-01"]


def test_entries_of_content_that_are_no_objects_are_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"content\[1\]"):
        decode({"content": [TEXT, 5]}, t.CallToolResult)
    with pytest.raises(msgspec.ValidationError, match="content"):
        decode({"content": "text"}, t.CallToolResult)


@settings(max_examples=150)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["type", "text", "data", "uri", "name", "resource", "content", "x"]),
            st.sampled_from(["text", "image", "hologram", None, 5, {}, [], [{"type": "y"}], {"uri": "x:y"}]),
        ),
        max_size=3,
    )
)  # fmt: skip
def test_any_objects_as_content_come_through(blocks: list[dict[str, Any]]) -> None:
    result, notes = decode({"content": blocks}, t.CallToolResult)
    assert notes == []
    assert len(result.content) == len(blocks)
    for block, kept in zip(blocks, result.content, strict=True):
        if isinstance(kept, t.UnknownContent):
            assert kept.raw == block


# In: what is forgiven.


def test_a_result_without_content_has_none_and_is_noted() -> None:
    for value in ({}, {"content": None}, {"structuredContent": {"n": 1}}):
        result, notes = decode(value, t.CallToolResult)
        assert result.content == []
        assert [note.rule for note in notes] == ["TOOL-12"]


def test_without_notes_nothing_is_forgiven() -> None:
    with pytest.raises(msgspec.ValidationError):
        codec.decode(b"{}", t.CallToolResult)
    with pytest.raises(msgspec.ValidationError):
        codec.decode(b'{"tools":[{}]}', t.ListToolsResult)


def initialize_result(capabilities: Any) -> dict[str, Any]:
    info = {"name": "n", "version": "1"}
    return {"protocolVersion": "x", "capabilities": capabilities, "serverInfo": info}


def test_a_capability_that_is_true_is_on_and_noted() -> None:
    result, notes = decode(initialize_result({"tools": True, "logging": True}), t.InitializeResult)
    assert result.capabilities == t.ServerCapabilities(tools=t.ListChanged(), logging={})
    assert [note.rule for note in notes] == ["CAP-02", "CAP-02"]
    assert "tools" in notes[0].detail


@pytest.mark.parametrize("value", [None, False])
def test_a_capability_that_is_null_or_false_is_off_and_noted(value: Any) -> None:
    result, notes = decode(initialize_result({"tools": value, "x": {}}), t.InitializeResult)
    assert result.capabilities.tools is None
    assert [note.rule for note in notes] == ["CAP-02"]


def test_a_flag_that_is_null_is_off_and_noted() -> None:
    value = initialize_result({"resources": {"subscribe": None, "listChanged": True}})
    result, notes = decode(value, t.InitializeResult)
    assert result.capabilities.resources == t.ResourcesCapability(list_changed=True)
    assert [note.rule for note in notes] == ["CAP-02"]


def test_capabilities_of_a_client_are_forgiven_likewise() -> None:
    info = {"name": "n", "version": "1"}
    value = {
        "protocolVersion": "x",
        "capabilities": {"roots": True, "sampling": False},
        "clientInfo": info,
    }
    params, notes = decode(value, t.InitializeParams)
    assert params.capabilities == t.ClientCapabilities(roots=t.ListChanged())
    assert [note.rule for note in notes] == ["CAP-02", "CAP-02"]


@pytest.mark.parametrize("capabilities", [{"tools": "yes"}, {"tools": {"listChanged": "yes"}}, 5])
def test_a_capability_of_another_shape_is_an_error(capabilities: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(initialize_result(capabilities), t.InitializeResult)


def test_unknown_capabilities_are_no_matter() -> None:
    """CAP-03, VERS-11."""
    value = initialize_result({"x": {"y": 1}, "experimental": {"z": {}}, "tools": {"more": 1}})
    result, notes = decode(value, t.InitializeResult)
    assert notes == []
    assert result.capabilities.experimental == {"z": {}}


LISTS = [
    (t.ListToolsResult, "tools", {"name": "a", "inputSchema": {}}, {"name": "a"}),
    (t.ListResourcesResult, "resources", {"name": "a", "uri": "x:y"}, {"uri": 5, "name": "a"}),
    (t.ListResourceTemplatesResult, "resourceTemplates", {"name": "a", "uriTemplate": "x:{y}"}, "template"),
    (t.ListPromptsResult, "prompts", {"name": "a"}, {"name": "a", "arguments": [{}]}),
    (t.ListRootsResult, "roots", {"uri": "file:///"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("type", "member", "good", "bad"), LISTS, ids=[row[1] for row in LISTS])
def test_one_bad_entry_is_left_out_and_noted(type: Any, member: str, good: Any, bad: Any) -> None:
    result, notes = decode({member: [good, bad, good]}, type)
    (field,) = [f.name for f in msgspec.structs.fields(type) if f.encode_name == member]
    assert len(getattr(result, field)) == 2
    assert [note.rule for note in notes] == ["SCHEMA-01"]
    assert member in notes[0].detail


@pytest.mark.parametrize(("type", "member", "good", "bad"), LISTS, ids=[row[1] for row in LISTS])
def test_a_list_that_is_none_is_an_error(type: Any, member: str, good: Any, bad: Any) -> None:
    for value in ({}, {member: None}, {member: good}):
        with pytest.raises(msgspec.ValidationError):
            decode(value, type)


def test_half_a_surrogate_pair_is_mended_and_noted() -> None:
    notes: list[Note] = []
    result = codec.decode(
        rb'{"content":[{"type":"text","text":"\ud83d!"}]}', t.CallToolResult, notes
    )
    assert result.text == "\ufffd!"
    assert [note.rule for note in notes] == ["JSON-01"]
    again = codec.decode(rb'{"content":[{"type":"text","text":"\ud83d!"}]}', t.CallToolResult)
    assert again == result


# In: the rest.


def test_absent_params_are_an_empty_object() -> None:
    assert codec.decode(UNSET, t.PaginatedParams) == t.PaginatedParams()
    with pytest.raises(msgspec.ValidationError, match="name"):
        codec.decode(UNSET, t.CallToolParams)


def test_the_error_ends_in_the_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.argument\.value"):
        value = {"ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "a", "value": 5}}
        decode(value, t.CompleteParams)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"5", b'{"name":5}', b'{"name":"\xff"}', b'{"name":"a","arguments":{"x":1e999}}']
    + [b'{"name":5,"messages":5}', b'{"name":5,"messages":true}', b'{"name":5,"messages":"abc"}']
    + [b'{"name":5,"messages":{"a":1}}', b'{"name":5,"messages":[5]}', b'{"name":5,"content":5}'],
)  # fmt: skip
def test_what_cannot_be_read_is_a_validation_error(data: bytes) -> None:
    for notes in (None, []):
        with pytest.raises(msgspec.ValidationError):
            codec.decode(data, t.CallToolParams, notes)


def test_nesting_beyond_the_stack_is_a_validation_error() -> None:
    nested = b'{"name":"a","arguments":{"x":' + b"[" * 900 + b"]" * 900 + b"}}"

    def deeper(calls: int) -> None:
        if calls:
            deeper(calls - 1)
        else:
            codec.decode(nested, t.CallToolParams)

    with pytest.raises(msgspec.ValidationError, match="deep"):
        deeper(300)


def test_a_result_keeps_what_it_was_made_from() -> None:
    data = b'{"content":[],"later":{"x":1.50}}'
    envelope = msgspec.json.decode(b'{"result":' + data + b"}", type=dict[str, Raw])
    for raw in (data, envelope["result"]):
        result = codec.decode(raw, t.CallToolResult)
        assert isinstance(result.raw, bytes)
        assert result.raw == data
    forgiven = codec.decode(b'{"later":1}', t.CallToolResult, [])
    assert json.loads(bytes(forgiven.raw or b"")) == {"later": 1}


def test_meta_is_kept_whole() -> None:
    meta = {"progressToken": 1, "a.example/b": [None, 1.5], "": {}}
    params, _ = decode({"_meta": meta, "uri": "x:y"}, t.ReadResourceParams)
    assert params.meta == meta
    out = json.loads(codec.encode(Request(1, "resources/read", params), OLDEST))
    assert out["params"]["_meta"] == meta


def test_value_of_makes_no_defaults() -> None:
    """The samples that these tests rest on."""
    for struct in STRUCTS:
        for field in msgspec.structs.fields(struct):
            assert value_of(field.type) != field.default, (struct, field.name)
