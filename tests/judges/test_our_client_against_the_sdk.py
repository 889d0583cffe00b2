"""Our client drives a server on the official SDK over stdio, in each of the four revisions."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any

import pytest
import trio
from observing import Heard, Observations, program

from mcpcore import (
    AudioContent,
    Client,
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    RemoteProtocolError,
    RequestFailed,
    ResourceLink,
    Root,
    TextContent,
    connect,
)
from mcpcore.revisions import HANDSHAKE
from mcpcore.types import (
    PromptReference,
    ResourceTemplateReference,
    ToolResultContent,
    ToolUseContent,
)

pytestmark = [pytest.mark.judge, pytest.mark.process]

OLDEST_FIRST = tuple(reversed(HANDSHAKE))
WITH_ELICITATION = OLDEST_FIRST[2:]
NEWEST = OLDEST_FIRST[3:]

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Person:
    """Who sits at the client: answers what the server asks."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.form: Any = {"name": "Zoë", "colour": "red"}

    async def elicit(self, params: ElicitParams) -> ElicitResult:
        self.asked.append(params)
        if isinstance(self.form, Exception):
            raise self.form
        return self.form  # type: ignore[no-any-return]

    async def elicit_url(self, params: ElicitParams) -> ElicitResult:
        self.asked.append(params)
        return ElicitResult(action="accept")

    async def sample(self, params: CreateMessageParams) -> CreateMessageResult:
        self.asked.append(params)
        last = params.messages[-1].blocks[0]
        if isinstance(last, TextContent) and last.text == "How deep?" and len(self.asked) > 1:
            raise RequestFailed(-1, "User rejected sampling request")
        if params.tools and isinstance(last, TextContent):
            use = ToolUseContent("call-1", params.tools[0].name, {"city": "Oslo"})
            return CreateMessageResult(
                role="assistant", content=use, model="m", stop_reason="toolUse"
            )
        words = "three metres"
        if isinstance(last, ToolResultContent):
            words = f"said: {last.structured_content}"
        return CreateMessageResult(
            role="assistant", content=TextContent(words), model="deep-1", stop_reason="endTurn"
        )


async def converse(revision: str) -> Observations:
    seen = Observations()
    logged, changed, updated, others, progress = Heard(), Heard(), Heard(), Heard(), Heard()
    person = Person()
    async with connect(
        program("sdk_server.py"),
        revisions=[revision],
        elicit=person.elicit,
        elicit_url=person.elicit_url,
        sample=person.sample,
        sample_tools=True,
        roots=[Root("file:///work", "work"), Root("file:///home")],
        on_log=logged.append,
        on_list_changed=changed.append,
        on_resource_updated=updated.append,
        on_notification=others.append,
    ) as client:
        seen.keep("client", client)
        call = client.call_tool
        await seen.step("who", partial(call, "who", meta={"example.org/trace": "t1"}))
        await seen.step("ping", client.ping)
        await seen.step("no such method", partial(client.request, "no/such"))

        await seen.step("tools", client.list_tools)
        await seen.step("first page", client.list_tools_page)
        await seen.step("bad cursor", partial(client.list_tools_page, "nonsense"))
        await seen.step("echo", partial(call, "echo", {"word": "Grüße \u2028 \U0001f600", "n": 1}))
        await seen.step("no arguments", partial(call, "echo"))
        for name in ("kinds", "fails", "raises", "refuses", "no such tool"):
            await seen.step(name, partial(call, name))
        await seen.step("structured", partial(call, "structured", {"a": 1, "b": 2}))
        await seen.step("liar", partial(call, "liar"))

        await seen.step("progress", partial(call, "progress", on_progress=progress.append))
        seen.keep("progress heard", list(progress))
        await seen.step("set level", partial(client.set_log_level, "warning"))
        await seen.step("log", partial(call, "log"))
        await seen.step("log heard", partial(logged.until, len(LEVELS)))
        await seen.step("cancelled", partial(cancel, client))

        await seen.step("resources", client.list_resources)
        await seen.step("templates", client.list_resource_templates)
        await seen.step("read", partial(client.read_resource, "note:///1"))
        await seen.step("read template", partial(client.read_resource, "shelf1:///x"))
        await seen.step("read unknown", partial(client.read_resource, "note:///99"))
        await seen.step("subscribe", partial(client.subscribe, "note:///1"))
        await seen.step("touch", partial(call, "touch"))
        await seen.step("updated", partial(updated.until, 1))
        await seen.step("unsubscribe", partial(client.unsubscribe, "note:///1"))
        await seen.step("touch again", partial(call, "touch"))

        await seen.step("prompts", client.list_prompts)
        await seen.step("prompt", partial(client.get_prompt, "second", {"city": "Oslo"}))
        await seen.step("unknown prompt", partial(client.get_prompt, "no such prompt"))
        await seen.step(
            "complete prompt", partial(client.complete, PromptReference("first"), "city", "Os")
        )
        await seen.step(
            "complete template",
            partial(
                client.complete,
                ResourceTemplateReference("shelf1:///{name}"),
                "name",
                "a",
                context={"shelf": "1"},
            ),
        )

        await seen.step("change lists", partial(call, "change_lists"))
        await seen.step("changed", partial(changed.until, 3))
        await seen.step("roots", partial(call, "roots"))
        await seen.step("roots changed", client.roots_changed)
        await seen.step("ping back", partial(call, "ping_back"))
        await seen.step("what was heard", partial(call, "what_was_heard"))

        await seen.step("sample", partial(call, "sample"))
        seen.keep("sample asked", person.asked[-1])
        await seen.step("sample refused", partial(call, "sample"))
        await seen.step("sample with tools", partial(call, "sample_with_tools"))
        seen.keep("sample with tools asked", person.asked[-1])

        asked = len(person.asked)
        await seen.step("elicit", partial(call, "elicit"))
        seen.keep("elicit asked", person.asked[asked:])
        for action in ("decline", "cancel"):
            person.form = ElicitResult(action=action)
            await seen.step(f"elicit {action}", partial(call, "elicit"))
        person.form = RuntimeError("the secret of the house")
        await seen.step("elicit raises", partial(call, "elicit"))
        asked = len(person.asked)
        await seen.step("elicit url", partial(call, "elicit_url"))
        seen.keep("elicit url asked", person.asked[asked:])
        if revision in NEWEST:
            await seen.step("elicit url done", partial(others.until, 1))
        await seen.step("ping at last", client.ping)
        seen.keep("forgiven", str(client.forgiven))
        seen.keep("other notifications", [other.method for other in others])
    return seen


async def cancel(client: Client) -> list[str]:
    """Cancel a call once it is at work, and wait until the server says that it noticed."""
    with trio.CancelScope() as scope:
        await client.call_tool("wait", on_progress=lambda _: scope.cancel())
    assert scope.cancelled_caught
    while True:
        words = texts(await client.call_tool("what_was_heard"))
        if "wait cancelled" in words:
            return words


@pytest.fixture(scope="module", params=OLDEST_FIRST)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def seen(revision: str) -> Observations:
    return trio.run(converse, revision)


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


def test_the_pinned_revision_is_agreed(seen: Observations, revision: str) -> None:
    assert seen["client"].revision == revision
    assert texts(seen["who"])[0] == revision


def test_the_handshake_tells_who_both_are(seen: Observations) -> None:
    client = seen["client"]
    assert (client.server_info.name, client.server_info.version) == ("sdk", "2.3")
    assert client.instructions == "Call anything."
    capabilities = client.server_capabilities
    assert capabilities.tools.list_changed
    assert capabilities.resources.subscribe
    assert capabilities.resources.list_changed
    assert capabilities.prompts.list_changed
    assert capabilities.logging is not None
    assert capabilities.completions is not None
    assert texts(seen["who"])[1] == "mcpcore"


def test_the_declared_capabilities_fit_the_revision(seen: Observations, revision: str) -> None:
    declared = json.loads(texts(seen["who"])[2])
    expected: dict[str, Any] = {"roots": {"listChanged": True}, "sampling": {}}
    if revision in WITH_ELICITATION:
        expected["elicitation"] = {}
    if revision in NEWEST:
        expected["elicitation"] = {"form": {}, "url": {}}
        expected["sampling"] = {"tools": {}}
    assert declared == expected


def test_meta_of_a_call_arrives(seen: Observations) -> None:
    assert json.loads(texts(seen["who"])[3])["example.org/trace"] == "t1"


def test_ping_both_ways(seen: Observations) -> None:
    assert seen["ping"] is None
    assert seen["ping at last"] is None
    assert texts(seen["ping back"]) == ["pong"]


def test_an_unknown_method_is_not_found(seen: Observations) -> None:
    with pytest.raises(RequestFailed) as caught:
        seen["no such method"]
    assert caught.value.code == -32601


def test_all_tools_of_all_pages(seen: Observations) -> None:
    tools = seen["tools"]
    assert len(tools) == 20
    assert len({tool.name for tool in tools}) == 20
    assert len(seen["first page"].tools) == 2
    assert seen["first page"].next_cursor is not None
    echo = tools[0]
    assert (echo.name, echo.title, echo.description) == ("echo", "The tool echo", "Does echo.")
    assert echo.annotations.read_only_hint is True
    assert echo.annotations.title == "ECHO"
    assert echo.icons[0].sizes == ["48x48"]
    assert echo.meta == {"example.org/tool": "echo"}
    with pytest.raises(RequestFailed) as caught:
        seen["bad cursor"]
    assert caught.value.code == -32602


def test_arguments_arrive_as_they_are(seen: Observations) -> None:
    assert json.loads(seen["echo"].text) == {"word": "Grüße \u2028 \U0001f600", "n": 1}
    assert seen["no arguments"].text == "{}"


def test_every_content_kind_arrives(seen: Observations) -> None:
    result = seen["kinds"]
    text, image, audio, link, embedded, blob = result.content
    assert isinstance(text, TextContent)
    assert text.text == "Grüße"
    assert text.annotations is not None
    assert text.annotations.audience == ["user"]
    assert text.meta == {"example.org/k": 1}
    assert isinstance(image, ImageContent)
    assert base64.b64decode(image.data) == b"\x89PNG not really"
    assert isinstance(audio, AudioContent)
    assert audio.mime_type == "audio/wav"
    assert isinstance(link, ResourceLink)
    assert (link.uri, link.name, link.title, link.size) == ("note:///1", "one", "The first", 3)
    assert isinstance(embedded, EmbeddedResource)
    assert embedded.resource.text == "one"
    assert isinstance(blob, EmbeddedResource)
    assert blob.resource.data() == b"\x89PNG not really"
    assert result.meta == {"example.org/whole": True}


def test_a_failure_inside_a_tool_is_a_result(seen: Observations) -> None:
    assert seen["fails"].is_error
    assert seen["fails"].text == "it failed"


def test_an_exception_in_a_handler_is_an_error_answer(seen: Observations) -> None:
    with pytest.raises(RequestFailed) as caught:
        seen["raises"]
    assert isinstance(caught.value.code, int)


def test_code_message_and_data_of_an_error_arrive(seen: Observations) -> None:
    with pytest.raises(RequestFailed) as caught:
        seen["refuses"]
    error = caught.value
    assert (error.code, error.message, error.data) == (-32099, "not today", {"why": ["a", "b"]})


def test_an_unknown_tool_is_an_error(seen: Observations) -> None:
    with pytest.raises(RequestFailed) as caught:
        seen["no such tool"]
    assert caught.value.code == -32602


def test_structured_content_is_validated(seen: Observations) -> None:
    assert seen["structured"].structured_content == {"sum": 3}
    assert seen["structured"].validated is True
    with pytest.raises(RemoteProtocolError) as caught:
        seen["liar"]
    assert caught.value.rule == "TOOL-24"


def test_progress_arrives_in_order(seen: Observations) -> None:
    assert seen["progress"].text == "done"
    heard = [(step.progress, step.total, step.message) for step in seen["progress heard"]]
    assert heard == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


def test_log_messages_of_all_levels_arrive(seen: Observations) -> None:
    heard = seen["log heard"]
    assert [entry.level for entry in heard] == LEVELS
    assert heard[0].logger == "judge"
    assert heard[0].data == {"level": "debug"}


def test_the_log_level_arrives(seen: Observations) -> None:
    assert seen["set level"] is None
    assert "level warning" in texts(seen["what was heard"])


def test_a_cancelled_call_is_cancelled_there(seen: Observations) -> None:
    assert "wait cancelled" in seen["cancelled"]


def test_resources_of_all_pages(seen: Observations) -> None:
    resources = seen["resources"]
    assert [resource.uri for resource in resources] == [f"note:///{n}" for n in range(1, 6)]
    assert resources[2].size == 3
    assert resources[0].annotations.last_modified == "2025-01-12T15:00:58Z"
    templates = [template.uri_template for template in seen["templates"]]
    assert templates == [f"shelf{n}:///{{name}}" for n in range(1, 4)]


def test_text_and_blob_are_read(seen: Observations) -> None:
    (only,) = seen["read"].contents
    assert (only.uri, only.text, only.mime_type) == ("note:///1", "one", "text/plain")
    assert only.meta == {"example.org/r": 1}
    text, blob = seen["read template"].contents
    assert text.text == "from a shelf"
    assert blob.data() == b"\x89PNG not really"


def test_a_resource_that_is_not_there_is_an_error(seen: Observations) -> None:
    with pytest.raises(RequestFailed) as caught:
        seen["read unknown"]
    assert caught.value.code == -32002
    assert caught.value.data == {"uri": "note:///99"}


def test_a_subscription_is_told_of_changes_until_it_ends(seen: Observations) -> None:
    assert seen["subscribe"] is None
    assert texts(seen["touch"]) == ["note:///1"]
    assert seen["updated"] == ["note:///1"]
    assert seen["unsubscribe"] is None
    assert texts(seen["touch again"]) == []


def test_prompts_of_all_pages(seen: Observations) -> None:
    prompts = seen["prompts"]
    assert [prompt.name for prompt in prompts] == ["first", "second", "third"]
    assert prompts[0].arguments[0].required
    assert prompts[0].title == "The prompt first"


def test_a_prompt_is_filled_in(seen: Observations) -> None:
    result = seen["prompt"]
    assert result.description == "About Oslo"
    first, second, third = result.messages
    assert (first.role, first.content.text) == ("user", "Go to Oslo")
    assert (second.role, second.content.mime_type) == ("assistant", "image/png")
    assert third.content.resource.text == "one"
    with pytest.raises(RequestFailed) as caught:
        seen["unknown prompt"]
    assert caught.value.code == -32602


def test_completion_of_both_kinds(seen: Observations, revision: str) -> None:
    prompt, template = seen["complete prompt"], seen["complete template"]
    assert prompt.values == ["ref/prompt", "city", "Os", "{}"]
    assert (prompt.total, prompt.has_more) == (200, True)
    before = '{"shelf": "1"}' if revision in WITH_ELICITATION else "{}"
    assert template.values == ["ref/resource", "name", "a", before]


def test_changed_lists_are_told(seen: Observations) -> None:
    assert sorted(seen["changed"]) == ["prompts", "resources", "tools"]


def test_roots_are_listed_and_their_change_arrives(seen: Observations) -> None:
    assert texts(seen["roots"]) == ["work=file:///work", "None=file:///home"]
    assert seen["roots changed"] is None
    assert "roots changed" in texts(seen["what was heard"])


def test_sampling(seen: Observations) -> None:
    assert texts(seen["sample"]) == ["assistant", "deep-1", "three metres", "endTurn"]
    asked = seen["sample asked"]
    assert asked.messages[0].blocks[0].text == "How deep?"
    assert (asked.max_tokens, asked.system_prompt, asked.temperature) == (50, "Be short.", 0.5)
    assert asked.stop_sequences == ["."]


def test_a_person_may_refuse_sampling(seen: Observations) -> None:
    with pytest.raises(RequestFailed) as caught:
        seen["sample refused"]
    assert (caught.value.code, caught.value.message) == (-1, "User rejected sampling request")


def test_sampling_with_tools_where_the_revision_has_it(seen: Observations, revision: str) -> None:
    if revision not in NEWEST:
        # The SDK does not even ask a client that did not declare it.
        with pytest.raises(RequestFailed) as caught:
            seen["sample with tools"]
        assert caught.value.code == -32602
        return
    words = texts(seen["sample with tools"])
    assert words == ["toolUse", "weather", '{"city": "Oslo"}', "said: {'mm': 3}"]
    asked = seen["sample with tools asked"]
    assert [message.role for message in asked.messages] == ["user", "assistant", "user"]


def test_elicitation_by_form(seen: Observations, revision: str) -> None:
    """The answer holds the defaults of the fields that the person left alone."""
    if revision not in WITH_ELICITATION:
        with pytest.raises(RequestFailed) as caught:
            seen["elicit"]
        assert caught.value.code == -32601
        assert seen["elicit asked"] == []
        return
    action, content = texts(seen["elicit"])
    assert action == "accept"
    assert json.loads(content) == {"name": "Zoë", "colour": "red", "agreed": True}
    (asked,) = seen["elicit asked"]
    assert asked.message == "Who are you?"
    assert asked.fields["age"].minimum == 0
    assert asked.fields["colour"].enum == ["red", "blue"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_form_may_be_left(seen: Observations, revision: str, action: str) -> None:
    if revision not in WITH_ELICITATION:
        with pytest.raises(RequestFailed):
            seen[f"elicit {action}"]
        return
    assert texts(seen[f"elicit {action}"]) == [action, "null"]


def test_a_callback_that_raises_is_an_error_without_its_words(
    seen: Observations, revision: str
) -> None:
    with pytest.raises(RequestFailed) as caught:
        seen["elicit raises"]
    assert caught.value.code == (-32603 if revision in WITH_ELICITATION else -32601)
    assert "secret" not in str(caught.value)


def test_elicitation_by_url_only_where_it_was_declared(seen: Observations, revision: str) -> None:
    if revision not in NEWEST:
        with pytest.raises(RequestFailed) as caught:
            seen["elicit url"]
        assert caught.value.code == (-32602 if revision in WITH_ELICITATION else -32601)
        assert seen["elicit url asked"] == []
        return
    assert texts(seen["elicit url"]) == ["accept"]
    (asked,) = seen["elicit url asked"]
    assert (asked.url, asked.elicitation_id) == ("https://example.org/pay", "pay-1")
    (done,) = seen["elicit url done"]
    assert done.method == "notifications/elicitation/complete"


def test_nothing_had_to_be_forgiven(seen: Observations, revision: str) -> None:
    assert seen["forgiven"] == "nothing was forgiven"
    expected = ["notifications/elicitation/complete"] if revision in NEWEST else []
    assert seen["other notifications"] == expected
