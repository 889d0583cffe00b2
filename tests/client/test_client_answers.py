"""What a client answers when the server asks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
from scripted_server import scripted

from mcpcore import (
    CreateMessageResult,
    ElicitResult,
    ImageContent,
    RequestFailed,
    Root,
    TextContent,
    Timeouts,
)

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "Ann"},
        "age": {"type": "integer"},
        "ok": {"type": "boolean", "default": False},
    },
    "required": ["name"],
}


async def asked(method: str, params=None, **options):
    """The client's answer: the result, or the error."""
    async with scripted(**options) as (client, server):
        server.ask("q", method, params)
        answer = await server.expect_answer("q")
        server.begin(server.answer_the_rest)
        await client.ping()
        return answer.get("result", answer.get("error"))


def elicit(result, **more):
    async def handler(params):
        if isinstance(result, Exception):
            raise result
        return result

    return {"elicit": handler, **more}


async def test_a_dict_accepts_and_defaults_are_filled_in():
    params = {"message": "m", "requestedSchema": FORM}
    answer = await asked("elicitation/create", params, **elicit({"age": 7}))
    assert answer == {"action": "accept", "content": {"name": "Ann", "ok": False, "age": 7}}
    answer = await asked("elicitation/create", params, **elicit({"name": "Bob", "ok": True}))
    assert answer["content"] == {"name": "Bob", "ok": True}
    full = ElicitResult(action="accept", content={"age": 1})
    assert (await asked("elicitation/create", params, **elicit(full)))["content"]["name"] == "Ann"


async def test_accepting_a_form_without_fields_sends_empty_content():
    """F-065."""
    schema = {"type": "object", "properties": {}}
    params = {"message": "m", "requestedSchema": schema}
    for result in ({}, ElicitResult(action="accept")):
        answer = await asked("elicitation/create", params, **elicit(result))
        assert answer == {"action": "accept", "content": {}}


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_content_is_sent_only_with_accept(action):
    """F-065."""
    params = {"message": "m", "requestedSchema": FORM}
    given = ElicitResult(action=action, content={"name": "x"})
    assert await asked("elicitation/create", params, **elicit(given)) == {"action": action}


async def test_the_handler_sees_the_fields_of_the_form():
    seen = []

    def handler(params):
        seen.append((params.message, params.fields["age"].type, params.fields["ok"].default))
        return {}

    params = {"message": "m", "requestedSchema": FORM, "mode": "form"}
    await asked("elicitation/create", params, elicit=handler)
    assert seen == [("m", "integer", False)]


async def test_a_form_whose_fields_cannot_be_read_is_answered_without_defaults():
    schema = {"type": "object", "properties": {"a": {"type": ["string"], "default": 1}}}
    params = {"message": "m", "requestedSchema": schema}
    answer = await asked("elicitation/create", params, **elicit({"b": 1}))
    assert answer["content"] == {"b": 1}


async def test_url_mode_has_a_handler_of_its_own_and_no_content():
    seen = []

    async def open_page(params):
        seen.append(params.url)
        return ElicitResult(action="accept", content={"leak": 1})

    params = {"mode": "url", "message": "m", "url": "https://example.org", "elicitationId": "e"}
    assert await asked("elicitation/create", params, elicit_url=open_page) == {"action": "accept"}
    assert seen == ["https://example.org"]


@pytest.mark.parametrize(
    ("mode", "given"),
    [("url", "elicit"), ("form", "elicit_url"), (None, "elicit_url"), ("voice", "elicit")],
)
async def test_a_mode_that_was_not_declared_is_invalid_params(mode, given):
    async def handler(params):
        raise AssertionError("must not be asked")

    params = {"message": "m", "requestedSchema": FORM, "url": "https://example.org"}
    if mode is not None:
        params["mode"] = mode
    error = await asked("elicitation/create", params, **{given: handler})
    assert error["code"] == -32602


@pytest.mark.parametrize("params", [None, {}, {"message": 5}])
async def test_unreadable_questions_are_invalid_params(params):
    async def anything(params): ...

    options = {"elicit": anything, "sample": anything}
    assert (await asked("elicitation/create", params, **options))["code"] == -32602
    assert (await asked("sampling/createMessage", params, **options))["code"] == -32602


@pytest.mark.parametrize("result", [None, 5, "text"])
async def test_a_handler_that_gives_something_else_is_an_internal_error(result):
    params = {"message": "m", "requestedSchema": FORM}
    error = await asked("elicitation/create", params, **elicit(result))
    assert error == {"code": -32603, "message": "Internal error"}
    sampling = {"messages": [], "maxTokens": 1}

    async def sample(params):
        return 5

    error = await asked("sampling/createMessage", sampling, sample=sample)
    assert error == {"code": -32603, "message": "Internal error"}


async def test_what_a_handler_raises_is_answered_and_never_fatal():
    params = {"message": "m", "requestedSchema": FORM}
    error = await asked("elicitation/create", params, **elicit(ValueError("secret")))
    assert error == {"code": -32603, "message": "Internal error"}
    error = await asked("elicitation/create", params, **elicit(RequestFailed(-1, "no", [1])))
    assert error == {"code": -1, "message": "no", "data": [1]}


def user(*blocks):
    content = list(blocks)
    return {"role": "user", "content": content[0] if len(content) == 1 else content}


def use(id):
    return {"type": "tool_use", "id": id, "name": "t", "input": {}}


def used(id):
    return {"type": "tool_result", "toolUseId": id, "content": []}


TEXT = {"type": "text", "text": "hello"}


async def sampled(params, **options):
    async def sample(params):
        return "hi"

    return await asked(
        "sampling/createMessage", {"maxTokens": 5} | params, sample=sample, **options
    )


async def test_sampling_with_text_and_with_a_result():
    assert await sampled({"messages": [user(TEXT)]}) == {
        "role": "assistant",
        "content": {"type": "text", "text": "hi"},
        "model": "unknown",
        "stopReason": "endTurn",
    }

    def sample(params):
        assert params.messages[0].blocks == [TextContent("hello")]
        content = ImageContent.of(b"x", "image/png")
        return CreateMessageResult(role="assistant", content=content, model="m", stop_reason="odd")

    answer = await asked(
        "sampling/createMessage", {"maxTokens": 5, "messages": [user(TEXT)]}, sample=sample
    )
    assert (answer["content"]["type"], answer["model"], answer["stopReason"]) == (
        "image",
        "m",
        "odd",
    )


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        {"toolChoice": {"mode": "auto"}},
        {"tools": []},
    ],
)
async def test_sampling_with_tools_is_gated(more):
    params = {"messages": [user(TEXT)], **more}
    assert (await sampled(params))["code"] == -32602
    assert (await sampled(params, sample_tools=True))["role"] == "assistant"


GOOD = [
    [user(TEXT), {"role": "assistant", "content": use("a")}, user(used("a"))],
    [{"role": "assistant", "content": [TEXT, use("a"), use("b")]}, user(used("b"), used("a"))],
    [{"role": "assistant", "content": use("a")}, user(used("a")), user(TEXT)],
]
BAD = [
    [user(used("a"))],
    [{"role": "assistant", "content": use("a")}],
    [{"role": "assistant", "content": use("a")}, user(TEXT)],
    [{"role": "assistant", "content": use("a")}, user(used("b"))],
    [{"role": "assistant", "content": use("a")}, user(used("a"), TEXT)],
    [{"role": "assistant", "content": [use("a"), use("b")]}, user(used("a"))],
]


@pytest.mark.parametrize("messages", GOOD)
async def test_tool_uses_with_their_results_are_sampled(messages):
    answer = await sampled({"messages": messages}, sample_tools=True)
    assert answer.get("role") == "assistant", answer


@pytest.mark.parametrize("messages", BAD)
async def test_tool_uses_without_their_results_are_invalid_params(messages):
    assert (await sampled({"messages": messages}, sample_tools=True))["code"] == -32602


async def test_roots_as_a_list_of_whatever_names_a_place(tmp_path):
    roots = [Root("file:///a", "A"), "file:///b%20c", tmp_path, str(tmp_path), "relative"]
    answer = await asked("roots/list", roots=roots)
    assert answer["roots"] == [
        {"uri": "file:///a", "name": "A"},
        {"uri": "file:///b%20c"},
        {"uri": tmp_path.as_uri()},
        {"uri": tmp_path.as_uri()},
        {"uri": Path(os.getcwd(), "relative").as_uri()},
    ]
    assert await asked("roots/list", roots=[]) == {"roots": []}


async def test_roots_from_a_function_plain_or_async():
    async def later():
        await trio.lowlevel.checkpoint()
        return ["file:///later"]

    assert await asked("roots/list", roots=lambda: ["file:///now"]) == {
        "roots": [{"uri": "file:///now"}]
    }
    assert await asked("roots/list", roots=later) == {"roots": [{"uri": "file:///later"}]}
    assert (await asked("roots/list", roots=lambda: 1 / 0))["code"] == -32603


async def test_a_cancelled_question_stops_its_handler_and_is_not_answered():
    started, stopped = trio.Event(), trio.Event()

    async def sample(params):
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with scripted(sample=sample) as (_client, server):
        server.ask("q", "sampling/createMessage", {"messages": [], "maxTokens": 1})
        await started.wait()
        server.notify("notifications/cancelled", {"requestId": "q"})
        await stopped.wait()
        await server.expect_silence()


async def test_a_handler_that_takes_too_long_is_an_internal_error(autojump_clock):
    async def sample(params):
        await trio.sleep_forever()

    began = trio.current_time()
    error = await asked(
        "sampling/createMessage",
        {"messages": [], "maxTokens": 1},
        sample=sample,
        timeouts=Timeouts(question=30),
    )
    assert error["code"] == -32603
    assert "nobody answered in time" in error["message"]
    assert trio.current_time() - began == 30


async def test_questions_are_answered_side_by_side(autojump_clock):
    """F-037: one slow question holds up no other and no ping."""

    async def sample(params):
        await trio.sleep(params.max_tokens)
        return "x"

    async with scripted(sample=sample) as (_client, server):
        for seconds in (5, 3, 1):
            server.ask(seconds, "sampling/createMessage", {"messages": [], "maxTokens": seconds})
        server.ask("p", "ping")
        assert [(await server.receive())["id"] for _ in range(4)] == ["p", 1, 3, 5]
        assert trio.current_time() == pytest.approx(5, abs=0.1)


async def test_a_handler_that_raises_a_timeout_of_its_own_is_an_internal_error():
    async def sample(params):
        raise trio.TooSlowError

    error = await asked("sampling/createMessage", {"messages": [], "maxTokens": 1}, sample=sample)
    assert error["code"] == -32603


async def test_a_method_that_the_revision_has_but_we_do_not_answer_is_not_found():
    error = await asked("vendor/question", {})
    assert error["code"] == -32601
