"""The official SDK's client drives our server over stdio, in each of the four revisions.

Its client always proposes 2025-11-25; the others are reached by our server's counter-offer.
"""

from __future__ import annotations

import base64
import json
import tempfile
import warnings
from functools import partial
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from observing import Heard, Observations, program

from mcpcore.revisions import HANDSHAKE

pytestmark = [pytest.mark.judge, pytest.mark.process]

OLDEST_FIRST = tuple(reversed(HANDSHAKE))
NEWEST_OFFER = OLDEST_FIRST[-1]
WITH_ELICITATION = OLDEST_FIRST[2:]
NEWEST = OLDEST_FIRST[3:]


class Person:
    """Who sits at the SDK's client."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.action = "accept"

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        self.asked.append(params)
        if self.action == "error":
            return types.ErrorData(code=-32099, message="leave me alone")
        if params.mode == "url" or self.action != "accept":
            return types.ElicitResult(action=self.action)
        return types.ElicitResult(action="accept", content={"name": "Zoë", "colour": "red"})

    async def sample(self, context: Any, params: Any) -> Any:
        self.asked.append(params)
        if self.action == "error":
            return types.ErrorData(code=-1, message="User rejected sampling request")
        last = params.messages[-1].content
        last = last[0] if isinstance(last, list) else last
        words = "three metres"
        if isinstance(last, types.ToolResultContent):
            words = f"said: {last.structured_content}"
        elif params.tools:
            use = types.ToolUseContent(id="call-1", name=params.tools[0].name, input={"at": "Oslo"})
            return types.CreateMessageResultWithTools(
                role="assistant", content=[use], model="m", stop_reason="toolUse"
            )
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(text=words),
            model="deep-1",
            stop_reason="endTurn",
        )

    async def roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[types.Root(uri="file:///work", name="work"), types.Root(uri="file:///home")]
        )


def target(revision: str, stderr: Any) -> Any:
    command, *arguments = program("mcpcore_server.py", revision)
    return stdio_client(StdioServerParameters(command=command, args=arguments), errlog=stderr)


async def converse(revision: str) -> Observations:
    seen = Observations()
    person = Person()
    logged, messages, progress = Heard(), Heard(), Heard()

    async def log(params: Any) -> None:
        logged.append(params)

    async def message(message: Any) -> None:
        messages.append(message)

    async def step(done: float, total: float | None, words: str | None) -> None:
        progress.append((done, total, words))

    with tempfile.TemporaryFile("w+") as stderr:
        async with Client(
            target(revision, stderr),
            mode="legacy",
            cache=None,
            elicitation_callback=person.elicit,
            sampling_callback=person.sample,
            sampling_capabilities=types.SamplingCapability(tools={}),
            list_roots_callback=person.roots,
            logging_callback=log,
            message_handler=message,
            client_info=types.Implementation(name="judge", version="9", title="A judge"),
        ) as client:
            seen.keep("revision", client.protocol_version)
            seen.keep("info", client.server_info)
            seen.keep("instructions", client.instructions)
            seen.keep("capabilities", client.server_capabilities)
            call = client.call_tool
            await seen.step("ping", client.send_ping)
            await seen.step("tool pages", partial(pages, client.list_tools))
            await seen.step("bad cursor", partial(client.list_tools, cursor="nonsense"))
            await seen.step("who", partial(call, "who", meta={"example.org/trace": "t1"}))
            await seen.step("echo", partial(call, "echo", {"word": "Grüße \u2028 \U0001f600"}))
            await seen.step("bad arguments", partial(call, "echo", {"n": -1}))
            await seen.step("unknown argument", partial(call, "echo", {"m": 1}))
            for name in ("kinds", "number", "nothing", "fails", "raises", "refuses"):
                await seen.step(name, partial(call, name))
            await seen.step("no such tool", partial(call, "no such tool"))
            await seen.step("structured", partial(call, "structured", {"a": 1, "b": 2.5}))
            await seen.step("printed", partial(call, "print_something"))
            await seen.step("progress", partial(call, "progress", progress_callback=step))
            seen.keep("progress heard", list(progress))
            await seen.step("cancelled", partial(cancel, client))

            await seen.step("log", partial(call, "log"))
            await seen.step("log heard", partial(logged.until, 7))
            await seen.step("set level", partial(client.set_logging_level, "error"))
            await seen.step("log less", partial(call, "log"))
            await seen.step("log heard less", partial(logged.until, 11))

            await seen.step("resource pages", partial(pages, client.list_resources))
            await seen.step("template pages", partial(pages, client.list_resource_templates))
            await seen.step("read", partial(client.read_resource, "note:///1"))
            await seen.step("read bytes", partial(client.read_resource, "note:///2"))
            await seen.step("read template", partial(client.read_resource, "shelf:///a%20b"))
            await seen.step("read unknown", partial(client.read_resource, "note:///99"))
            await seen.step("subscribe", partial(client.subscribe_resource, "note:///1"))
            before = len(messages)
            await seen.step("touch", partial(call, "touch"))
            await seen.step("updated", partial(messages.until, before + 1))
            await seen.step("unsubscribe", partial(client.unsubscribe_resource, "note:///1"))
            await seen.step("touch again", partial(call, "touch"))

            await seen.step("prompt pages", partial(pages, client.list_prompts))
            await seen.step("prompt", partial(client.get_prompt, "first", {"city": "Oslo"}))
            await seen.step("prompt kinds", partial(client.get_prompt, "second", {"city": "Rome"}))
            await seen.step("prompt without city", partial(client.get_prompt, "first"))
            await seen.step("unknown prompt", partial(client.get_prompt, "no such prompt"))
            await seen.step(
                "complete prompt",
                partial(
                    client.complete,
                    types.PromptReference(name="first"),
                    {"name": "city", "value": "Os"},
                ),
            )
            await seen.step(
                "complete template",
                partial(
                    client.complete,
                    types.ResourceTemplateReference(uri="shelf:///{name}"),
                    {"name": "name", "value": "a"},
                    {"shelf": "1"},
                ),
            )
            await seen.step(
                "complete nothing",
                partial(
                    client.complete,
                    types.PromptReference(name="no such prompt"),
                    {"name": "city", "value": "Os"},
                ),
            )

            await seen.step("roots", partial(call, "roots"))
            await seen.step("roots changed", client.send_roots_list_changed)
            await seen.step("sample", partial(call, "sample"))
            seen.keep("sample asked", person.asked[-1])
            await seen.step("sample with tools", partial(call, "sample_with_tools"))
            person.action = "error"
            await seen.step("sample refused", partial(call, "sample"))
            for action in ("accept", "decline", "cancel", "error"):
                person.action = action
                asked = len(person.asked)
                await seen.step(f"elicit {action}", partial(call, "elicit"))
                seen.keep(f"elicit {action} asked", person.asked[asked:])
            person.action = "accept"
            asked = len(person.asked)
            before = len(messages)
            await seen.step("elicit url", partial(call, "elicit_url"))
            seen.keep("elicit url asked", person.asked[asked:])
            if revision in NEWEST:
                await seen.step("elicit url done", partial(messages.until, before + 1))

            before = len(messages)
            await seen.step("change lists", partial(call, "change_lists"))
            await seen.step("changed", partial(messages.until, before + 3))
            await seen.step("ping at last", client.send_ping)
        seen.keep("messages", list(messages))
        stderr.seek(0)
        seen.keep("stderr", stderr.read())
    return seen


async def pages(fetch: Any) -> list[Any]:
    found, cursor = [], None
    while not found or cursor is not None:
        found.append(await fetch(cursor=cursor))
        cursor = found[-1].next_cursor
    return found


async def cancel(client: Client) -> list[str]:
    """Cancel a call once it is at work, and wait until the server says that it noticed."""
    with anyio.CancelScope() as scope:

        async def stop(*_: Any) -> None:
            scope.cancel()

        await client.call_tool("wait", progress_callback=stop)
    assert scope.cancelled_caught
    while True:
        words = texts(await client.call_tool("what_was_heard"))
        if "wait cancelled" in words:
            return words


async def probe(revision: str, mode: str) -> Observations:
    """Connect as the SDK does by default: with `server/discover` first."""
    seen = Observations()
    with tempfile.TemporaryFile("w+") as stderr:
        async with Client(target(revision, stderr), mode=mode, cache=None) as client:
            seen.keep("revision", client.protocol_version)
            await seen.step("echo", partial(client.call_tool, "echo"))
    return seen


def run(function: Any, *arguments: Any) -> Observations:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        seen: Observations = anyio.run(function, *arguments)
    return seen


@pytest.fixture(scope="module", params=OLDEST_FIRST)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def seen(revision: str) -> Observations:
    return run(converse, revision)


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


def items(pages: list[Any], member: str) -> list[Any]:
    return [item for page in pages for item in getattr(page, member)]


def test_the_counter_offer_is_agreed(seen: Observations, revision: str) -> None:
    assert seen["revision"] == revision
    assert texts(seen["who"])[0] == revision


def test_the_handshake_tells_who_both_are(seen: Observations, revision: str) -> None:
    info = seen["info"]
    assert (info.name, info.version) == ("judged", "1.0")
    assert info.title == ("The judged" if revision in WITH_ELICITATION else None)
    newest = revision in NEWEST
    assert info.website_url == ("https://example.org" if newest else None)
    assert bool(info.icons) == newest
    assert seen["instructions"] == "Call anything."
    assert texts(seen["who"])[1:3] == ["judge", "9"]


def test_the_capabilities_are_told(seen: Observations, revision: str) -> None:
    declared = seen["capabilities"]
    assert declared.tools.list_changed
    assert declared.prompts.list_changed
    assert declared.resources.list_changed
    assert declared.resources.subscribe
    assert declared.logging is not None
    assert (declared.completions is not None) == (revision != OLDEST_FIRST[0])


def test_meta_of_a_call_arrives(seen: Observations) -> None:
    assert json.loads(texts(seen["who"])[4])["example.org/trace"] == "t1"


def test_ping(seen: Observations) -> None:
    assert isinstance(seen["ping"], types.EmptyResult)
    assert isinstance(seen["ping at last"], types.EmptyResult)


def test_tools_are_listed_page_by_page(seen: Observations, revision: str) -> None:
    found = seen["tool pages"]
    assert {len(page.tools) for page in found[:-1]} == {2}
    tools = {tool.name: tool for tool in items(found, "tools")}
    assert len(tools) == 21
    echo = tools["echo"]
    assert echo.description == "Does echo."
    assert echo.input_schema["properties"]["n"] == {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "How many",
    }
    assert (echo.annotations is not None) == (revision != OLDEST_FIRST[0])
    assert echo.title == ("The tool echo" if revision in WITH_ELICITATION else None)
    assert (echo.icons is not None) == (revision in NEWEST)
    assert (tools["number"].output_schema is not None) == (revision in WITH_ELICITATION)
    with pytest.raises(MCPError) as caught:
        seen["bad cursor"]
    assert caught.value.code == -32602


def test_arguments_arrive_as_they_are(seen: Observations) -> None:
    (text,) = texts(seen["echo"])
    assert json.loads(text) == {"word": "Grüße \u2028 \U0001f600", "n": 0}


def test_bad_arguments_are_an_error_of_the_tool(seen: Observations) -> None:
    assert seen["bad arguments"].is_error
    assert "$.n" in texts(seen["bad arguments"])[0]
    assert seen["unknown argument"].is_error
    assert "`m`" in texts(seen["unknown argument"])[0]


def test_content_kinds_are_those_of_the_revision(seen: Observations, revision: str) -> None:
    text, image, audio, link, embedded, blob = seen["kinds"].content
    assert (text.text, text.annotations.audience) == ("Grüße", ["user"])
    assert base64.b64decode(image.data) == b"\x89PNG not really"
    assert audio.type == ("audio" if revision != OLDEST_FIRST[0] else "text")
    assert link.type == ("resource_link" if revision in WITH_ELICITATION else "text")
    assert embedded.resource.text == "one"
    assert base64.b64decode(blob.resource.blob) == b"two"
    assert seen["kinds"].meta == {"example.org/whole": True}
    has_meta = revision in WITH_ELICITATION
    assert text.meta == ({"example.org/k": 1} if has_meta else None)


def test_structured_content_where_the_revision_has_it(seen: Observations, revision: str) -> None:
    """The SDK checks it against the schema on its own."""
    has = revision in WITH_ELICITATION
    expected = {"sum": 3.5, "parts": [1.0, 2.5]}
    assert seen["structured"].structured_content == (expected if has else None)
    assert json.loads(texts(seen["structured"])[0]) == expected
    assert seen["number"].structured_content == ({"result": 42} if has else None)
    assert texts(seen["number"]) == ["42"]
    assert seen["nothing"].content == []


def test_what_goes_wrong_inside_a_tool_is_a_result(seen: Observations) -> None:
    assert seen["fails"].is_error
    assert texts(seen["fails"]) == ["it failed"]
    assert seen["raises"].is_error
    assert "secret" not in texts(seen["raises"])[0]


def test_code_message_and_data_of_an_error_arrive(seen: Observations) -> None:
    with pytest.raises(MCPError) as caught:
        seen["refuses"]
    error = caught.value
    assert (error.code, error.message, error.data) == (-32099, "not today", {"why": ["a", "b"]})


def test_an_unknown_tool_is_an_error(seen: Observations) -> None:
    with pytest.raises(MCPError) as caught:
        seen["no such tool"]
    assert caught.value.code == -32602


def test_prints_of_a_tool_go_to_stderr(seen: Observations) -> None:
    assert texts(seen["printed"]) == ["printed"]
    assert "this must not reach the client" in seen["stderr"]
    assert not [message for message in seen["messages"] if isinstance(message, Exception)]


def test_progress_arrives_in_order(seen: Observations, revision: str) -> None:
    assert texts(seen["progress"]) == ["done"]
    words = [f"step {n}" if revision != OLDEST_FIRST[0] else None for n in (1, 2, 3)]
    expected = [(n, 3, text) for n, text in zip((1, 2, 3), words, strict=True)]
    assert seen["progress heard"] == expected


def test_a_cancelled_call_is_cancelled_here(seen: Observations) -> None:
    assert seen["cancelled"] == ["wait cancelled"]


def test_log_messages_from_the_level_on(seen: Observations) -> None:
    assert [entry.level for entry in seen["log heard"]] == [
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    ]
    assert seen["log heard"][0].logger == "judge"
    assert seen["log heard"][0].data == {"level": "info"}
    assert isinstance(seen["set level"], types.EmptyResult)
    levels = [entry.level for entry in seen["log heard less"][7:]]
    assert levels == ["error", "critical", "alert", "emergency"]


def test_resources_are_listed_page_by_page(seen: Observations, revision: str) -> None:
    resources = items(seen["resource pages"], "resources")
    assert [resource.uri for resource in resources] == [f"note:///{n}" for n in range(1, 6)]
    note = resources[0]
    assert (note.name, note.mime_type, note.description) == ("note 1", "text/plain", "A note.")
    assert note.size == 3
    assert note.title == ("Note 1" if revision in WITH_ELICITATION else None)
    assert note.annotations.audience == ["assistant"]
    (shelf,) = items(seen["template pages"], "resource_templates")
    assert shelf.uri_template == "shelf:///{name}"


def test_text_and_blob_are_read(seen: Observations) -> None:
    (only,) = seen["read"].contents
    assert (only.uri, only.text, only.mime_type) == ("note:///1", "one", "text/plain")
    (binary,) = seen["read bytes"].contents
    assert base64.b64decode(binary.blob) == b"\x00\xff"
    text, blob = seen["read template"].contents
    assert text.text == "a b from a shelf"
    assert base64.b64decode(blob.blob) == b"\x89PNG not really"


def test_a_resource_that_is_not_there_is_an_error(seen: Observations) -> None:
    with pytest.raises(MCPError) as caught:
        seen["read unknown"]
    assert caught.value.code == -32002
    assert caught.value.data == {"uri": "note:///99"}


def test_a_subscription_is_told_of_changes_until_it_ends(seen: Observations) -> None:
    assert isinstance(seen["subscribe"], types.EmptyResult)
    assert isinstance(seen["unsubscribe"], types.EmptyResult)
    assert texts(seen["touch again"]) == ["touched"]
    assert isinstance(seen["updated"][-1], types.ResourceUpdatedNotification)
    updates = [
        message.params.uri
        for message in seen["messages"]
        if isinstance(message, types.ResourceUpdatedNotification)
    ]
    assert updates == ["note:///1"]


def test_prompts_are_listed_page_by_page(seen: Observations) -> None:
    prompts = items(seen["prompt pages"], "prompts")
    assert [prompt.name for prompt in prompts] == ["first", "second", "third"]
    city, days = prompts[0].arguments
    assert (city.name, city.description, city.required) == ("city", "Where", True)
    assert days.required in (None, False)


def test_a_prompt_is_filled_in(seen: Observations, revision: str) -> None:
    (only,) = seen["prompt"].messages
    assert (only.role, only.content.text) == ("user", "Go to Oslo for 1")
    first, second, third, fourth = seen["prompt kinds"].messages
    assert seen["prompt kinds"].description == "About Rome"
    assert first.content.text == "Go to Rome"
    assert (second.role, second.content.type) == ("assistant", "image")
    assert third.content.type == ("audio" if revision != OLDEST_FIRST[0] else "text")
    assert fourth.content.resource.text == "one"


@pytest.mark.parametrize("step", ["prompt without city", "unknown prompt"])
def test_a_prompt_that_cannot_be_filled_in_is_an_error(seen: Observations, step: str) -> None:
    with pytest.raises(MCPError) as caught:
        seen[step]
    assert caught.value.code == -32602


def test_completion_of_both_kinds(seen: Observations) -> None:
    """The context arrives in every revision: the SDK's client sends it in those that lack it, too."""
    assert seen["complete prompt"].completion.values == ["Oslo", "Osaka"]
    completion = seen["complete template"].completion
    assert completion.values == ["a", '{"shelf": "1"}']
    assert (completion.total, completion.has_more) == (200, True)
    with pytest.raises(MCPError) as caught:
        seen["complete nothing"]
    assert caught.value.code == -32602


def test_changed_lists_are_told(seen: Observations) -> None:
    kinds = {type(message) for message in seen["changed"][-3:]}
    assert kinds == {
        types.ToolListChangedNotification,
        types.ResourceListChangedNotification,
        types.PromptListChangedNotification,
    }


def test_roots(seen: Observations) -> None:
    assert texts(seen["roots"]) == ["work=file:///work", "None=file:///home"]
    assert seen["roots changed"] is None


def test_sampling(seen: Observations) -> None:
    assert texts(seen["sample"]) == ["assistant", "deep-1", "three metres", "endTurn"]
    asked = seen["sample asked"]
    assert asked.messages[0].content.text == "How deep?"
    assert (asked.max_tokens, asked.system_prompt, asked.temperature) == (50, "Be short.", 0.5)
    assert asked.stop_sequences == ["."]
    assert asked.include_context in (None, "none"), "the client did not declare sampling.context"


def test_sampling_with_tools(seen: Observations) -> None:
    """Where the revision has it. The SDK's client declares it in its offer, so it stays declared when
    an older revision is agreed; the server then must not use it."""
    result = seen["sample with tools"]
    if seen["revision"] in NEWEST:
        words = ["toolUse", "weather", '{"at": "Oslo"}', "said: {'mm': 3}"]
        assert texts(result) == words
    else:
        assert result.is_error
        assert "sampling.tools" in texts(result)[0]


def test_a_refused_question_is_an_error_of_the_tool(seen: Observations, revision: str) -> None:
    assert seen["sample refused"].is_error
    assert "User rejected sampling request" in texts(seen["sample refused"])[0]
    assert seen["elicit error"].is_error
    if revision in WITH_ELICITATION:
        assert "leave me alone" in texts(seen["elicit error"])[0]


def test_elicitation_by_form(seen: Observations, revision: str) -> None:
    if revision not in WITH_ELICITATION:
        assert seen["elicit accept"].is_error
        assert "elicitation" in texts(seen["elicit accept"])[0]
        assert seen["elicit accept asked"] == []
        return
    action, filled = texts(seen["elicit accept"])
    assert action == "accept"
    assert json.loads(filled) == {"name": "Zoë", "age": None, "colour": "red", "agreed": True}
    (asked,) = seen["elicit accept asked"]
    assert asked.message == "Who are you?"
    assert asked.requested_schema["required"] == ["name"]
    assert asked.requested_schema["properties"]["age"] == {"type": "integer", "minimum": 0}
    for action in ("decline", "cancel"):
        assert texts(seen[f"elicit {action}"]) == [action, "null"]


def test_elicitation_by_url_where_the_revision_has_it(seen: Observations, revision: str) -> None:
    if revision not in NEWEST:
        assert seen["elicit url"].is_error
        assert seen["elicit url asked"] == []
        return
    assert texts(seen["elicit url"]) == ["accept"]
    (asked,) = seen["elicit url asked"]
    assert (asked.url, asked.message) == ("https://example.org/pay", "Please pay")
    done = seen["elicit url done"][-1]
    assert isinstance(done, types.ElicitCompleteNotification)
    assert done.params.elicitation_id == asked.elicitation_id


def test_a_client_that_probes_for_the_stateless_revision_falls_back(revision: str) -> None:
    seen = run(probe, revision, "auto")
    assert seen["revision"] == revision
    assert json.loads(texts(seen["echo"])[0]) == {"word": "", "n": 0}


def test_a_client_that_insists_on_the_stateless_revision_gets_an_error() -> None:
    seen = run(probe, NEWEST_OFFER, "2026-07-28")
    with pytest.raises(MCPError) as caught:
        seen["echo"]
    assert -32768 <= caught.value.code <= -32000
