"""Requests of the client: what goes out, what comes back, and what a broken answer does."""

from __future__ import annotations

import sys

import pytest
import trio
from handshake import connect
from msgspec import UNSET
from scripted_server import scripted

from mcpcore import (
    CapabilityMissing,
    ConnectionLost,
    Context,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    Server,
    TextContent,
    validation,
)
from mcpcore.client import client as client_module
from mcpcore.types import PromptReference, UnknownContent


async def test_a_call_carries_name_arguments_and_meta():
    async with scripted({"tools": {}}) as (client, server):
        call = server.begin(client.call_tool, "f", {"a": 1}, meta={"vendor/x": 2})
        request = await server.expect("tools/call")
        assert request["params"] == {"name": "f", "arguments": {"a": 1}, "_meta": {"vendor/x": 2}}
        server.answer(request, {"content": [{"type": "text", "text": "done"}]})
        result = await call.result()
        assert result.content == [TextContent("done")]
        assert not result.is_error
        assert result.validated is None
        call = server.begin(client.call_tool, "f")
        assert (await server.expect("tools/call"))["params"] == {"name": "f"}


async def test_every_method_sends_its_request():
    async with scripted() as (client, server):
        for use, method, params, result in (
            (client.ping, "ping", None, {}),
            (lambda: client.subscribe("x:a"), "resources/subscribe", {"uri": "x:a"}, {}),
            (lambda: client.unsubscribe("x:a"), "resources/unsubscribe", {"uri": "x:a"}, {}),
            (lambda: client.set_log_level("error"), "logging/setLevel", {"level": "error"}, {}),
            (
                lambda: client.read_resource("users/me"),
                "resources/read",
                {"uri": "users/me"},
                {"contents": []},
            ),
            (
                lambda: client.get_prompt("p", {"a": "b"}),
                "prompts/get",
                {"name": "p", "arguments": {"a": "b"}},
                {"messages": []},
            ),
            (lambda: client.get_prompt("p"), "prompts/get", {"name": "p"}, {"messages": []}),
            (
                lambda: client.complete(PromptReference("p"), "a", "v", context={"b": "c"}),
                "completion/complete",
                {
                    "ref": {"type": "ref/prompt", "name": "p"},
                    "argument": {"name": "a", "value": "v"},
                    "context": {"arguments": {"b": "c"}},
                },
                {"completion": {"values": []}},
            ),
        ):
            begun = server.begin(use)
            request = await server.expect(method)
            assert request.get("params") == params
            server.answer(request, result)
            await begun.result()


@pytest.mark.parametrize(
    "uri", ["users/me", "custom:thing", "http://[", "::", "\u00fc ber/\U0001f600", "%zz"]
)
async def test_uris_are_opaque(uri):
    """F-058: no validation beyond string, in either direction."""
    async with scripted() as (client, server):
        reading = server.begin(client.read_resource, uri)
        request = await server.expect("resources/read")
        assert request["params"]["uri"] == uri
        server.answer(request, {"contents": [{"uri": uri, "text": "x"}]})
        assert (await reading.result()).contents[0].uri == uri


async def test_raw_requests_and_notifications():
    async with scripted({}) as (client, server):
        raw = server.begin(client.request, "vendor/thing", {"a": [1]})
        request = await server.expect("vendor/thing")
        assert request["params"] == {"a": [1]}
        server.answer(request, {"any": {"thing": None}, "n": 1915883588174806058})
        assert await raw.result() == {"any": {"thing": None}, "n": 1915883588174806058}
        raw = server.begin(client.request, "vendor/other")
        request = await server.expect("vendor/other")
        assert "params" not in request
        server.refuse(request, -1, "no", data=[1])
        with pytest.raises(RequestFailed) as caught:
            await raw.result()
        assert (caught.value.code, caught.value.data) == (-1, [1])
        await client.notify("notifications/vendor", {"k": 1})
        assert (await server.expect("notifications/vendor"))["params"] == {"k": 1}
        await client.notify("notifications/bare")
        assert "params" not in await server.expect("notifications/bare")


async def test_protocol_notifications_cannot_be_sent_by_hand():
    async with scripted() as (client, server):
        for method in (
            "notifications/cancelled",
            "notifications/progress",
            "notifications/initialized",
        ):
            with pytest.raises(LocalProtocolError):
                await client.notify(method, {})
        with pytest.raises(LocalProtocolError):
            await client.request("initialize", {})
        await server.expect_silence()


async def test_roots_changed_is_told_only_where_roots_were_declared():
    async with scripted(roots=[]) as (client, server):
        await client.roots_changed()
        await server.expect("notifications/roots/list_changed")
    async with scripted() as (client, server):
        with pytest.raises(CapabilityMissing, match="roots"):
            await client.roots_changed()
        await server.expect_silence()


@pytest.mark.parametrize(
    ("use", "capability"),
    [
        (lambda client: client.list_tools(), "tools"),
        (lambda client: client.call_tool("f"), "tools"),
        (lambda client: client.list_resources(), "resources"),
        (lambda client: client.list_resource_templates(), "resources"),
        (lambda client: client.read_resource("x:a"), "resources"),
        (lambda client: client.subscribe("x:a"), "resources.subscribe"),
        (lambda client: client.unsubscribe("x:a"), "resources.subscribe"),
        (lambda client: client.list_prompts(), "prompts"),
        (lambda client: client.get_prompt("p"), "prompts"),
        (lambda client: client.complete(PromptReference("p"), "a", ""), "completions"),
        (lambda client: client.set_log_level("info"), "logging"),
        (lambda client: client.request("tools/list"), "tools"),
    ],
)
async def test_a_missing_capability_is_named_and_not_a_byte_is_sent(use, capability):
    async with scripted({}) as (client, server):
        with pytest.raises(CapabilityMissing) as caught:
            await use(client)
        assert caught.value.capability == capability
        assert capability in str(caught.value)
        await server.expect_silence()


async def test_subscribe_needs_its_flag():
    async with scripted({"resources": {"subscribe": False}}) as (client, server):
        with pytest.raises(CapabilityMissing, match=r"resources\.subscribe"):
            await client.subscribe("x:a")
        await server.expect_silence()


async def test_completion_needs_no_capability_in_the_first_revision():
    async with scripted({}, "2024-11-05") as (client, server):
        completing = server.begin(client.complete, PromptReference("p"), "a", "")
        await server.reply("completion/complete", {"completion": {"values": ["x"]}})
        assert (await completing.result()).values == ["x"]


async def test_a_method_of_another_revision_is_refused_here():
    async with scripted(revision="2024-11-05", capabilities={"tools": {}}) as (client, server):
        with pytest.raises(LocalProtocolError, match="tasks/list"):
            await client.request("tasks/list")
        await server.expect_silence()


async def answered(raw: bytes):
    """What a call makes of an answer: `raw` holds what follows the id. The session lives on."""
    async with scripted({"tools": {}}) as (client, server):
        call = server.begin(client.call_tool, "f")
        request = await server.expect("tools/call")
        server.begin(server.answer_the_rest)
        server.send(b'{"jsonrpc":"2.0","id":%d,%s}' % (request["id"], raw))
        try:
            return await call.result(), client.forgiven.counts
        finally:
            await client.ping()


@pytest.mark.parametrize(
    "raw",
    [
        b'"result":[]',
        b'"result":"text"',
        b'"result":null',
        b'"result":5',
        b'"result":{},"error":{"code":1,"message":"both"}',
        b'"error":{"code":"1","message":"m"}',
        b'"error":{"message":"m"}',
        b'"error":{}',
        b'"error":null',
        b'"error":"text"',
        b'"result":{"content":"text"}',
        b'"result":{"content":[],"isError":"no"}',
        b'"result":{"content":[],"_meta":5}',
        b'"result":{"content":5}',
    ],
)
async def test_a_garbled_answer_fails_its_call_and_nothing_else(raw):
    with pytest.raises(RemoteProtocolError):
        await answered(raw)


async def test_neither_result_nor_error_fails_the_call_it_names(autojump_clock):
    """An answer that holds nothing is still the only answer that this call will get."""
    async with scripted({"tools": {}}) as (client, server):
        call = server.begin(client.call_tool, "f")
        request = await server.expect("tools/call")
        server.send({"jsonrpc": "2.0", "id": request["id"]})
        with pytest.raises(RemoteProtocolError):
            await call.result()
        await server.expect_silence()


async def test_missing_content_is_tolerated_and_counted():
    """F-056: a successful call must not be shown as failed."""
    result, counts = await answered(b'"result":{"structuredContent":{"a":1}}')
    assert result.content == []
    assert result.structured_content == {"a": 1}
    assert counts["TOOL-12"] == 1


async def test_an_error_answer_of_null_beside_a_result_is_tolerated():
    result, counts = await answered(b'"result":{"content":[]},"error":null')
    assert result.content == []
    assert counts == {"JRPC-08": 1}


async def test_unknown_content_kinds_and_members_survive():
    """F-056 F-057: one odd block never costs the rest of a result."""
    result, counts = await answered(
        b'"result":{"content":['
        b'{"type":"text","text":"fine","annotations":{"audience":["robot"],"x":1},"_meta":{"k":1}},'
        b'{"type":"widget","size":[1,2],"deep":{"a":null}},'
        b'{"type":"image","odd":true},'
        b'{"no":"type"}],'
        b'"_meta":{"vendor/x":{"y":1}},"vendorField":{"big":1915883588174806058}}'
    )
    text, widget, image, odd = result.content
    assert (text.text, text.meta, text.annotations.audience) == ("fine", {"k": 1}, ["robot"])
    assert isinstance(widget, UnknownContent)
    assert widget.type == "widget"
    assert widget.raw == {"type": "widget", "size": [1, 2], "deep": {"a": None}}
    assert image.raw == {"type": "image", "odd": True}
    assert odd.raw == {"no": "type"}
    assert result.meta == {"vendor/x": {"y": 1}}
    assert b'"vendorField":{"big":1915883588174806058}' in bytes(result.raw)
    assert not counts


async def test_unknown_content_survives_a_server_that_hands_it_on():
    """F-057: parse, object, serialise: nothing is lost."""
    block = {"type": "widget", "size": [1, 2], "deep": {"a": None, "n": 1915883588174806058}}
    relay = Server("relay", "1")

    async with scripted({"tools": {}}) as (upstream, server):

        @relay.tool
        async def forward():
            return await upstream.call_tool("f")

        async with connect(relay) as client:
            call = server.begin(client.call_tool, "forward")
            result = {"content": [block], "_meta": {"vendor/x": 1}, "isError": True}
            await server.reply("tools/call", result)
            seen = await call.result()
            assert seen.content[0].raw == block
            assert seen.meta == {"vendor/x": 1}
            assert seen.is_error


async def test_an_error_result_is_a_result_and_never_raised():
    result, _ = await answered(b'"result":{"content":[{"type":"text","text":"no"}],"isError":true}')
    assert result.is_error
    assert result.text == "no"


async def test_the_text_helper_prefers_text_and_falls_back_to_structured_content():
    """F-059: neither an empty result nor everything twice."""
    both, _ = await answered(
        b'"result":{"content":[{"type":"text","text":"a"},{"type":"image","data":"","mimeType":"x"},'
        b'{"type":"text","text":"b"}],"structuredContent":{"n":1}}'
    )
    assert both.text == "a\nb"
    assert both.structured_content == {"n": 1}
    assert len(both.content) == 3
    only, _ = await answered(b'"result":{"content":[],"structuredContent":{"n":1}}')
    assert only.text == '{"n":1}'
    assert only.content == []
    nothing, _ = await answered(b'"result":{"content":[]}')
    assert nothing.text == ""
    assert nothing.structured_content is UNSET


async def test_nan_in_an_answer_is_no_json_and_the_session_lives():
    """F-054."""
    async with scripted({"tools": {}}) as (client, server):
        call = server.begin(client.call_tool, "f")
        request = await server.expect("tools/call")
        server.send(
            b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"x":NaN}}}'
            % request["id"]
        )
        await server.expect_silence()
        # The id stands in what is no JSON: nothing is read out of it.
        assert client.forgiven.counts == {"STDIO-04": 1}
        server.answer(request, {"content": []})
        await call.result()


async def test_nan_is_never_sent():
    """F-054."""
    async with scripted() as (client, server):
        for value in (float("nan"), [1, float("inf")], {"a": {"b": -float("inf")}}):
            with pytest.raises(LocalProtocolError, match="NaN"):
                await client.call_tool("f", {"x": value})
        with pytest.raises(LocalProtocolError):
            await client.call_tool("f", {"x": object()})
        with pytest.raises(LocalProtocolError):
            await client.call_tool("f", {"x": "\ud800"})
        await server.expect_silence()
        call = server.begin(client.call_tool, "f", {"x": None})
        request = await server.expect("tools/call")
        assert request["params"]["arguments"] == {"x": None}
        server.answer(request, {"content": []})
        await call.result()


async def test_integers_keep_every_digit():
    """F-055."""
    big = 1915883588174806058
    async with scripted() as (client, server):
        call = server.begin(client.call_tool, "f", {"n": big, "huge": 2**63 - 1})
        request = await server.expect("tools/call")
        assert request["params"]["arguments"] == {"n": big, "huge": 2**63 - 1}
        server.answer(request, {"content": [], "structuredContent": {"n": big}, "isError": True})
        assert (await call.result()).structured_content == {"n": big}


async def test_answers_may_come_in_any_order():
    async with scripted() as (client, server):
        calls = [server.begin(client.call_tool, f"f{n}") for n in range(5)]
        requests = [await server.expect("tools/call") for _ in calls]
        for request in reversed(requests):
            text = {"type": "text", "text": request["params"]["name"]}
            server.answer(request, {"content": [text]})
        assert [(await call.result()).text for call in calls] == [f"f{n}" for n in range(5)]
        ids = [request["id"] for request in requests]
        assert len(set(ids)) == 5


async def test_an_id_that_comes_back_as_a_string_is_matched_and_counted():
    """F-027."""
    async with scripted() as (client, server):
        call = server.begin(client.call_tool, "f")
        request = await server.expect("tools/call")
        server.answer(request | {"id": str(request["id"])}, {"content": []})
        await call.result()
        assert client.forgiven.counts == {"JRPC-07": 1}


async def test_late_foreign_and_double_answers_are_dropped():
    async with scripted() as (client, server):
        server.answer({"id": 999}, {"content": []})
        server.answer({"id": "x"}, {"content": []})
        server.send({"jsonrpc": "2.0", "error": {"code": 1, "message": "nobody asked"}})
        call = server.begin(client.call_tool, "f")
        request = await server.expect("tools/call")
        server.answer(request, {"content": [{"type": "text", "text": "first"}]})
        server.answer(request, {"content": [{"type": "text", "text": "second"}]})
        assert (await call.result()).text == "first"
        ping = server.begin(client.ping)
        await server.reply("ping", {})
        await ping.result()


async def test_logs_that_are_printed_on_the_wire_are_survived_and_counted():
    async with scripted() as (client, server):
        server.send(b"Server listening...")
        server.send(b"")
        ping = server.begin(client.ping)
        await server.reply("ping", {})
        await ping.result()
        assert client.forgiven.counts["STDIO-04"] >= 1


async def test_a_request_of_an_unknown_method_is_answered_not_found():
    async with scripted() as (_client, server):
        for id, method in enumerate(
            ("foo/bar", "tools/list", "vendor/x", "sampling/createMessage")
        ):
            server.ask(id, method, {})
            assert (await server.expect_answer(id))["error"]["code"] == -32601


async def test_what_is_cancelled_before_it_began_sends_nothing():
    async with scripted() as (client, server):
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.call_tool("f")
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.notify("notifications/vendor")
        await server.expect_silence()


# Validation against the output schema.

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def validated(schema, structured, *, is_error=False, **options):
    tools = [{"name": "f", "inputSchema": {"type": "object"}}]
    if schema is not None:
        tools[0]["outputSchema"] = schema
    async with scripted({"tools": {"listChanged": True}}, **options) as (client, server):
        call = server.begin(client.call_tool, "f")
        result = {"content": [], "structuredContent": structured, "isError": is_error}
        server.answer(await server.expect("tools/call"), result)
        if not is_error:
            await server.reply("tools/list", {"tools": tools})
        server.begin(server.answer_the_rest)
        try:
            return await call.result()
        finally:
            await client.ping()


async def test_structured_content_that_fits_is_marked_validated():
    assert (await validated(SCHEMA, {"n": 1})).validated is True
    assert (await validated(None, {"n": 1})).validated is None


async def test_structured_content_that_breaks_the_schema_is_the_servers_fault():
    with pytest.raises(RemoteProtocolError, match=r"structured content of f.*\$\.n") as caught:
        await validated(SCHEMA, {"n": "x"})
    assert caught.value.rule == "TOOL-24"


async def test_an_error_object_is_not_held_against_the_schema_of_success():
    """F-053: the error belongs to the caller."""
    result = await validated(SCHEMA, {"error": "x"}, is_error=True)
    assert result.is_error
    assert result.structured_content == {"error": "x"}
    assert result.validated is None


UNUSABLE = [
    {"type": "object", "properties": {"n": {"$ref": "#/$defs/nowhere"}}},
    {"type": "object", "properties": {"n": {"$ref": "https://example.org/never-fetched"}}},
    {"type": "object", "$schema": "urn:none"},
    {"type": "object", "properties": {"n": {"pattern": "("}}},
    {"type": "object", "properties": 5},
    {"type": "object", "allOf": [{"$ref": "#"}]},
    {"type": "object", "$id": 5},
    {"type": "object", "$schema": 5},
    {"type": "object", "$schema": "http://json-schema.org/draft-04/schema#", "$ref": 5},
]


@pytest.mark.parametrize("schema", UNUSABLE)
async def test_an_unusable_schema_costs_the_check_and_nothing_else(schema):
    """F-061: one bad schema must not take the session or the list with it."""
    assert (await validated(schema, {"n": "x"})).validated is False


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "$defs": {"node": {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}}},
            "$ref": "#/$defs/node",
        },
        {
            "type": "object",
            "properties": {"n": {"type": "object"}, "m": {"$ref": "#/properties/n"}},
        },
        {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"},
        {"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
async def test_references_and_recursion_are_followed(schema):
    """F-062."""
    assert (await validated(schema, {"n": {"n": {}}})).validated is True


async def test_a_recursive_schema_finds_what_is_wrong_deep_inside():
    """F-062."""
    schema = {
        "type": "object",
        "$defs": {"node": {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}}},
        "$ref": "#/$defs/node",
    }
    with pytest.raises(RemoteProtocolError, match=r"\$\.n\.n"):
        await validated(schema, {"n": {"n": 5}})


async def test_schemas_are_listed_unchanged():
    """F-061 F-062: lists are data; no keyword is stripped and no tool left out."""
    tools = [
        {"name": f"t{n}", "inputSchema": {"type": "object", "x-vendor": n}, "outputSchema": schema}
        for n, schema in enumerate(UNUSABLE)
    ]
    async with scripted({"tools": {}}) as (client, server):
        listing = server.begin(client.list_tools)
        await server.reply("tools/list", {"tools": tools})
        listed = await listing.result()
        assert [tool.output_schema for tool in listed] == UNUSABLE
        assert listed[3].input_schema == {"type": "object", "x-vendor": 3}


async def test_without_the_extra_nothing_is_checked_and_the_result_says_so(monkeypatch):
    monkeypatch.setattr(client_module, "can_validate", lambda: False)
    async with scripted({"tools": {}}) as (client, server):
        call = server.begin(client.call_tool, "f")
        result = {"content": [], "structuredContent": {"n": "x"}}
        await server.reply("tools/call", result)
        assert (await call.result()).validated is False
        await server.expect_silence()


async def test_without_the_extra_nothing_is_checked_where_the_tools_were_listed(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    validation.can_validate.cache_clear()
    try:
        async with scripted({"tools": {}}) as (client, server):
            listing = server.begin(client.list_tools)
            tool = {"name": "f", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}
            await server.reply("tools/list", {"tools": [tool]})
            await listing.result()
            call = server.begin(client.call_tool, "f")
            await server.reply("tools/call", {"content": [], "structuredContent": {"n": "x"}})
            assert (await call.result()).validated is False
    finally:
        validation.can_validate.cache_clear()


async def test_the_schemas_are_listed_once_and_again_after_a_change():
    async with scripted({"tools": {"listChanged": True}}) as (client, server):
        listed = {
            "tools": [{"name": "f", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}]
        }
        for _ in range(2):
            for n in range(2):
                call = server.begin(client.call_tool, "f")
                await server.reply("tools/call", {"content": [], "structuredContent": {"n": n}})
                if n == 0:
                    await server.reply("tools/list", listed)
                assert (await call.result()).validated is True
            server.notify("notifications/tools/list_changed")
            await server.expect_silence()


async def test_tools_that_cannot_be_listed_are_not_checked():
    async with scripted({"tools": {}}) as (client, server):
        call = server.begin(client.call_tool, "f")
        await server.reply("tools/call", {"content": [], "structuredContent": {"n": 1}})
        server.refuse(await server.expect("tools/list"), -32603, "broken")
        assert (await call.result()).validated is False


async def test_a_tool_whose_schema_proved_unusable_is_not_tried_again():
    async with scripted({"tools": {}}) as (client, server):
        listed = {
            "tools": [{"name": "f", "inputSchema": {"type": "object"}, "outputSchema": UNUSABLE[0]}]
        }
        for n in range(2):
            call = server.begin(client.call_tool, "f")
            await server.reply("tools/call", {"content": [], "structuredContent": {"n": 1}})
            if n == 0:
                await server.reply("tools/list", listed)
            assert (await call.result()).validated is False


async def test_the_end_of_the_channel_while_the_schemas_are_listed_is_no_end_of_the_result():
    async with scripted({"tools": {}}) as (client, server):
        call = server.begin(client.call_tool, "f")
        await server.reply("tools/call", {"content": [], "structuredContent": {"n": 1}})
        await server.expect("tools/list")
        await server.channel.aclose()
        assert (await call.result()).structured_content == {"n": 1}
        with pytest.raises(ConnectionLost):
            await client.call_tool("f")


async def test_a_promise_of_structured_content_that_is_not_kept_is_counted():
    """The schema was listed before, so the missing content is seen without another request."""
    async with scripted({"tools": {}}) as (client, server):
        listing = server.begin(client.list_tools)
        tool = {"name": "f", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}
        await server.reply("tools/list", {"tools": [tool]})
        await listing.result()
        call = server.begin(client.call_tool, "f")
        await server.reply("tools/call", {"content": [{"type": "text", "text": "words"}]})
        assert (await call.result()).text == "words"
        assert client.forgiven.counts == {"TOOL-23": 1}
        await server.expect_silence()


async def test_schemas_that_were_listed_by_pages_are_not_asked_for_again():
    async with scripted({"tools": {}}) as (client, server):
        listing = server.begin(client.list_tools)
        tool = {"name": "f", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}
        other = tool | {"name": "g"}
        await server.reply("tools/list", {"tools": [tool], "nextCursor": "2"}, {"tools": [other]})
        await listing.result()
        for name in ("f", "g"):
            call = server.begin(client.call_tool, name)
            await server.reply("tools/call", {"content": [], "structuredContent": {"n": 1}})
            assert (await call.result()).validated is True


async def test_a_page_from_the_middle_is_not_taken_for_the_whole_list():
    async with scripted({"tools": {}}) as (client, server):
        listing = server.begin(client.list_tools_page, "middle")
        tool = {"name": "f", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}
        await server.reply("tools/list", {"tools": []})
        await listing.result()
        call = server.begin(client.call_tool, "f")
        await server.reply("tools/call", {"content": [], "structuredContent": {"n": 1}})
        await server.reply("tools/list", {"tools": [tool]})
        assert (await call.result()).validated is True


async def test_progress_of_a_tool_reaches_the_callback_of_its_call():
    server = Server("progress", "1")

    @server.tool
    async def work(n: int, ctx: Context) -> int:
        for step in range(1, n + 1):
            ctx.progress(step, n, f"step {step}")
            await trio.lowlevel.checkpoint()
        return n

    async with connect(server) as client:
        seen = []
        result = await client.call_tool("work", {"n": 3}, on_progress=seen.append)
        assert result.structured_content == {"result": 3}
        assert [(p.progress, p.total, p.message) for p in seen] == [
            (1, 3, "step 1"),
            (2, 3, "step 2"),
            (3, 3, "step 3"),
        ]
        # Without a callback no token goes out, and the tool's progress says nothing.
        await client.call_tool("work", {"n": 2})
        assert len(seen) == 3


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_a_revision_without_structured_content_gives_the_same_words(revision):
    server = Server("old", "1", revisions=[revision])

    @server.tool(inline=True)
    def add(a: int, b: int) -> int:
        return a + b

    async with connect(server) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.text == ("3" if revision < "2025-06-18" else '{"result":3}')
        assert result.validated is None
