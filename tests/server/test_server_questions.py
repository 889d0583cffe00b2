"""Questions to the client: for a form, a page, a model, the roots."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
import trio
from handshake import connect
from msgspec import Meta
from scripted_client import served

from mcpcore import (
    Context,
    CreateMessageResult,
    ElicitResult,
    Limits,
    LocalProtocolError,
    RequestFailed,
    RequestTimeout,
    Root,
    Server,
    TextContent,
    Timeouts,
)
from mcpcore.server import Elicited, NoAnswer
from mcpcore.types import SamplingMessage, Tool, ToolChoice

FORMS = {"elicitation": {}}
ALL = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Booking(msgspec.Struct):
    name: Annotated[str, Meta(min_length=1, max_length=20, description="Who", title="Name")]
    guests: Annotated[int, Meta(ge=1, le=9)]
    budget: float
    breakfast: bool
    size: Size
    view: Literal["sea", "street"] = "sea"
    note: str | None = None
    extras: list[Literal["tv", "bar"]] = []
    nights: int = 2


@dataclasses.dataclass
class Dates:
    start: str
    end: str = "open"


class Plain(TypedDict):
    answer: str


class Empty(msgspec.Struct):
    pass


class Nested(msgspec.Struct):
    inner: Dates


class Colour(enum.IntEnum):
    RED = 1


def asking(function: Any, **options: Any) -> Server:
    """A server whose tool `ask` runs `function(ctx)`."""
    server = Server("questions", "1", **options)

    @server.tool(asks="replay", structured=False)
    async def ask(ctx: Context) -> Any:
        return await function(ctx)

    return server


async def form_of(form: Any) -> dict[str, Any]:
    """The schema that is sent for `form`."""

    async def ask(ctx: Context) -> str:
        await ctx.elicit("form", form, "Please")
        return "x"

    async with served(asking(ask), capabilities=FORMS) as client:
        client.ask("tools/call", {"name": "ask"})
        question = await client.receive()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Please"
        return question["params"]["requestedSchema"]


async def elicited(form: Any, *answers: Any, **options: Any) -> list[Any]:
    """What `ctx.elicit` gave for each answer of the person."""
    got: list[Any] = []
    pending = list(answers)

    async def ask(ctx: Context) -> str:
        for n in range(len(answers)):
            try:
                got.append(await ctx.elicit(f"form {n}", form, "Please"))
            except NoAnswer as error:
                got.append(str(error))
        return "x"

    async def elicit(params):
        return pending.pop(0)

    async with connect(asking(ask), elicit=elicit, **options) as client:
        await client.call_tool("ask")
    return got


async def test_the_schema_of_a_form_holds_every_primitive_kind():
    schema = await form_of(Booking)
    assert schema["type"] == "object"
    assert sorted(schema["required"]) == ["breakfast", "budget", "guests", "name", "size"]
    fields = schema["properties"]
    assert fields["name"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 20,
        "description": "Who",
        "title": "Name",
    }
    assert fields["guests"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert fields["budget"] == {"type": "number"}
    assert fields["breakfast"] == {"type": "boolean"}
    assert (fields["size"]["type"], fields["size"]["enum"]) == ("string", ["l", "s"])
    assert fields["view"] == {"type": "string", "enum": ["sea", "street"], "default": "sea"}
    assert fields["note"] == {"type": "string"}
    assert fields["extras"]["type"] == "array"
    assert fields["extras"]["items"] == {"type": "string", "enum": ["bar", "tv"]}
    assert fields["nights"] == {"type": "integer", "default": 2}
    assert "$ref" not in str(schema)
    assert "$defs" not in schema


async def test_dataclasses_and_typed_dicts_are_forms_too():
    assert (await form_of(Dates))["properties"] == {
        "start": {"type": "string"},
        "end": {"type": "string", "default": "open"},
    }
    assert await form_of(Plain) == {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
    }
    assert await form_of(Empty) == {"type": "object", "properties": {}}


class Numbers(msgspec.Struct):
    colour: Colour


class Mapping(msgspec.Struct):
    values: dict[str, int]


class FreeList(msgspec.Struct):
    values: list[str]


class Either(msgspec.Struct):
    value: int | str


@pytest.mark.parametrize("form", [Nested, Mapping, FreeList, Either])
async def test_what_is_not_flat_is_refused_before_anything_is_sent(form):
    raised = []

    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("k", form, "m")
        except TypeError as error:
            raised.append(str(error))
        return "x"

    async with served(asking(ask), capabilities=FORMS) as client:
        assert (await client.call("ask"))["content"][0]["text"] == "x"
        assert client.unread == []
    assert "must be a string, number, boolean or choice" in raised[0]


async def test_an_accepted_form_comes_back_typed():
    content = {
        "name": "Ann",
        "guests": 2,
        "budget": 99.5,
        "breakfast": True,
        "size": "l",
        "extras": ["tv"],
    }
    (answer,) = await elicited(Booking, ElicitResult(action="accept", content=content))
    assert answer.accepted
    assert answer.value == Booking("Ann", 2, 99.5, True, Size.LARGE, extras=["tv"])
    (answer,) = await elicited(Dates, {"start": "monday"})
    assert answer == Elicited("accept", Dates("monday", "open"))
    (answer,) = await elicited(Plain, {"answer": "x"})
    assert answer.value == {"answer": "x"}


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_decline_and_cancel_have_no_value_and_are_not_checked(action):
    """F-065: there is no content to hold against the form."""
    (answer,) = await elicited(Booking, ElicitResult(action=action, content={"junk": 1}))
    assert answer == Elicited(action, None)
    assert not answer.accepted


@pytest.mark.parametrize(
    "result",
    [
        {"action": "decline"},
        {"action": "cancel", "content": None},
        {"action": "cancel", "content": {}},
    ],
)
async def test_decline_and_cancel_in_every_spelling(result):
    """F-065."""
    got = []

    async def ask(ctx: Context) -> str:
        got.append(await ctx.elicit("k", Booking, "m"))
        return "x"

    async with served(asking(ask), capabilities=FORMS) as client:
        call = client.ask("tools/call", {"name": "ask"})
        question = await client.receive()
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
        await client.answer(call)
    assert got == [Elicited(result["action"], None)]


@pytest.mark.parametrize("content", [{}, {"content": {}}, {"content": None}])
async def test_an_empty_form_accepts_missing_and_empty_content(content):
    """F-065."""
    got = []

    async def ask(ctx: Context) -> str:
        got.append(await ctx.elicit("k", Empty, "m"))
        return "x"

    async with served(asking(ask), capabilities=FORMS) as client:
        call = client.ask("tools/call", {"name": "ask"})
        question = await client.receive()
        client.send(
            {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"} | content}
        )
        await client.answer(call)
    assert got[0].accepted
    assert isinstance(got[0].value, Empty)


async def test_content_that_does_not_fit_the_form_is_no_answer():
    got = await elicited(Dates, {"start": 5}, {}, ElicitResult(action="accept"))
    assert all("does not fit the form" in text for text in got)


async def test_no_answer_goes_on_to_the_model_as_a_tool_error():
    async def ask(ctx: Context) -> str:
        await ctx.elicit("k", Dates, "m")
        return "x"

    async with connect(asking(ask)) as client:
        result = await client.call_tool("ask")
        assert result.is_error
        assert "elicitation.form" in result.text


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        (lambda ctx: ctx.elicit("k", Dates, "m"), "elicitation.form"),
        (lambda ctx: ctx.elicit_url("k", "https://example.org", "m"), "elicitation.url"),
        (lambda ctx: ctx.sample("k", "hello"), "sampling"),
        (lambda ctx: ctx.list_roots(), "roots"),
    ],
)
async def test_what_the_client_did_not_declare_is_not_asked(question, missing):
    got = []

    async def ask(ctx: Context) -> str:
        assert not ctx.can(missing)
        try:
            await question(ctx)
        except NoAnswer as error:
            got.append(str(error))
        return "x"

    async with served(asking(ask)) as client:
        await client.call("ask")
        assert client.unread == []
    assert missing in got[0]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_revisions_without_elicitation_are_not_asked(revision):
    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("k", Dates, "m")
        except Exception as error:
            return type(error).__name__
        return "asked"

    async with served(asking(ask), revision, FORMS) as client:
        result = await client.call("ask")
        assert client.unread == []
        assert result["content"][0]["text"] == "NoAnswer"


async def test_can_knows_the_questions_and_no_others():
    answers = {}

    async def ask(ctx: Context) -> str:
        for question in (
            "elicitation.form",
            "elicitation.url",
            "sampling",
            "sampling.tools",
            "sampling.context",
            "roots",
        ):
            answers[question] = ctx.can(question)
        try:
            ctx.can("anything")
        except ValueError as error:
            return str(error)
        return ""

    async with served(asking(ask), capabilities=ALL) as client:
        assert "'anything' is no question" in (await client.call("ask"))["content"][0]["text"]
    assert all(answers.values())
    async with served(
        asking(ask), capabilities={"elicitation": {"url": {}}, "sampling": {}}
    ) as client:
        await client.call("ask")
    assert answers == {
        "elicitation.form": False,
        "elicitation.url": True,
        "sampling": True,
        "sampling.tools": False,
        "sampling.context": False,
        "roots": False,
    }


async def test_url_mode_asks_with_an_id_and_tells_when_done():
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit_url("pay", "https://example.org/pay", "Please pay")
        ctx.url_done("pay")
        return answer.action

    async with served(asking(ask), capabilities=ALL) as client:
        call = client.ask("tools/call", {"name": "ask"})
        question = await client.receive()
        params = question["params"]
        assert (params["mode"], params["url"]) == ("url", "https://example.org/pay")
        assert params["message"] == "Please pay"
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
        done = await client.receive()
        assert done["method"] == "notifications/elicitation/complete"
        assert done["params"] == {"elicitationId": params["elicitationId"]}
        assert (await client.answer(call))["result"]["content"][0]["text"] == "accept"


async def test_url_mode_between_our_own_two_sides():
    seen = []

    async def ask(ctx: Context) -> str:
        return (await ctx.elicit_url("pay", "https://example.org/pay", "m")).action

    async def open_page(params):
        seen.append((params.mode, params.url))
        return ElicitResult(action="decline")

    async with connect(asking(ask), elicit_url=open_page) as client:
        assert (await client.call_tool("ask")).text == "decline"
    assert seen == [("url", "https://example.org/pay")]


async def test_sampling_takes_a_string_or_messages():
    asked = []

    async def ask(ctx: Context) -> str:
        one = await ctx.sample("one", "hello")
        two = await ctx.sample(
            "two",
            [
                SamplingMessage("user", TextContent("a")),
                SamplingMessage("assistant", TextContent("b")),
            ],
            max_tokens=5,
            system_prompt="be short",
            temperature=0.5,
            stop_sequences=["."],
        )
        return f"{one.content.text} {one.model} {two.content.text}"

    async def sample(params):
        asked.append(params)
        if len(asked) == 1:
            return "hi"
        return CreateMessageResult(role="assistant", content=TextContent("x"), model="m")

    async with connect(asking(ask), sample=sample) as client:
        assert (await client.call_tool("ask")).text == "hi unknown x"
    assert asked[0].messages == [SamplingMessage("user", TextContent("hello"))]
    assert asked[0].max_tokens == 1000
    assert [message.role for message in asked[1].messages] == ["user", "assistant"]
    assert (asked[1].max_tokens, asked[1].system_prompt) == (5, "be short")
    assert (asked[1].temperature, asked[1].stop_sequences) == (0.5, ["."])


TOOLS = [Tool(name="t", input_schema={"type": "object"})]


@pytest.mark.parametrize("options", [{"tools": TOOLS}, {"tool_choice": ToolChoice("auto")}])
async def test_sampling_with_tools_needs_its_own_capability(options):
    got = []

    async def ask(ctx: Context) -> str:
        try:
            await ctx.sample("k", "hello", **options)
        except NoAnswer as error:
            got.append(str(error))
        return "x"

    async def sample(params):
        return "with tools"

    async with connect(asking(ask), sample=sample) as client:
        await client.call_tool("ask")
    assert "sampling.tools" in got[0]
    got.clear()
    async with connect(asking(ask), sample=sample, sample_tools=True) as client:
        await client.call_tool("ask")
    assert got == []


@pytest.mark.parametrize(("capabilities", "sent"), [({"sampling": {}}, None), (ALL, "thisServer")])
async def test_context_of_servers_is_asked_for_only_where_declared(capabilities, sent):
    async def ask(ctx: Context) -> str:
        await ctx.sample("k", "hello", include_context="thisServer")
        return "x"

    async with served(asking(ask), capabilities=capabilities) as client:
        client.ask("tools/call", {"name": "ask"})
        question = await client.receive()
        assert question["params"].get("includeContext") == sent


async def test_roots_are_asked_for():
    async def ask(ctx: Context) -> str:
        return " ".join(f"{root.uri} {root.name}" for root in await ctx.list_roots())

    async with connect(asking(ask), roots=[Root("file:///a", "A"), "file:///b"]) as client:
        assert (await client.call_tool("ask")).text == "file:///a A file:///b None"


async def test_a_refusal_is_no_answer_with_its_words():
    got = []

    async def ask(ctx: Context) -> str:
        try:
            await ctx.sample("k", "hello")
        except NoAnswer as error:
            got.append((str(error), error.__cause__.code))
        return "x"

    async def sample(params):
        raise RequestFailed(-1, "User rejected sampling request")

    async with connect(asking(ask), sample=sample) as client:
        await client.call_tool("ask")
    assert got == [("the client refused 'k': User rejected sampling request (code -1)", -1)]


@pytest.mark.parametrize(
    "result", [{}, {"role": "assistant"}, {"role": 5, "content": [], "model": "m"}]
)
async def test_an_unreadable_answer_is_no_answer(result):
    got = []

    async def ask(ctx: Context) -> str:
        try:
            await ctx.sample("k", "hello")
        except NoAnswer as error:
            got.append(str(error))
        return "x"

    async with served(asking(ask), capabilities=ALL) as client:
        call = client.ask("tools/call", {"name": "ask"})
        question = await client.receive()
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
        await client.answer(call)
    assert "cannot be read" in got[0]


async def test_the_same_question_under_the_same_key_is_asked_once():
    asked = []

    async def ask(ctx: Context) -> str:
        answers = [await ctx.sample("k", "hello") for _ in range(3)]
        return " ".join(answer.content.text for answer in answers)

    async def sample(params):
        asked.append(params)
        return f"answer {len(asked)}"

    async with connect(asking(ask), sample=sample) as client:
        assert (await client.call_tool("ask")).text == "answer 1 answer 1 answer 1"
        assert (await client.call_tool("ask")).text == "answer 2 answer 2 answer 2"


async def test_two_different_questions_under_one_key_are_the_authors_mistake():
    raised = []

    async def ask(ctx: Context) -> str:
        await ctx.sample("k", "hello")
        for question in (lambda: ctx.sample("k", "other"), lambda: ctx.list_roots("k")):
            try:
                await question()
            except LocalProtocolError as error:
                raised.append(str(error))
        return "x"

    async def sample(params):
        return "hi"

    async with connect(asking(ask), sample=sample, roots=[]) as client:
        await client.call_tool("ask")
    assert raised == ["two different questions under the key 'k'"] * 2


async def test_a_function_that_was_not_registered_to_ask_may_not():
    server = Server("questions", "1")
    raised = []

    async def attempt(ctx: Context) -> str:
        for question in (
            lambda: ctx.sample("k", "hello"),
            ctx.list_roots,
            lambda: ctx.elicit("k", Dates, "m"),
            lambda: ctx.elicit_url("k", "https://example.org", "m"),
            lambda: ctx.once("k", len, ""),
        ):
            try:
                await question()
            except LocalProtocolError as error:
                raised.append(str(error))
        return "x"

    server.tool(name="t")(attempt)
    server.prompt(name="p")(attempt)
    server.resource("x:r")(attempt)
    async with served(server, capabilities=ALL) as client:
        await client.call("t")
        await client.result("prompts/get", {"name": "p"})
        await client.result("resources/read", {"uri": "x:r"})
        assert client.unread == []
    assert len(raised) == 15
    assert all('asks="replay"' in text for text in raised)


async def test_prompts_and_resources_may_ask_too():
    server = Server("questions", "1")

    async def ask(ctx: Context) -> str:
        return (await ctx.sample("k", "hello")).content.text

    server.prompt(name="p", asks="replay")(ask)
    server.resource("x:r", asks="replay")(ask)

    async def sample(params):
        return "sampled"

    async with connect(server, sample=sample) as client:
        assert (await client.get_prompt("p")).messages[0].content.text == "sampled"
        assert (await client.read_resource("x:r")).contents[0].text == "sampled"


async def test_once_calls_a_function_once_and_remembers():
    calls = []

    def plain(n):
        calls.append(n)
        return n + 1

    async def awaited(n):
        calls.append(n)
        await trio.lowlevel.checkpoint()
        return n + 2

    async def ask(ctx: Context) -> str:
        got = [await ctx.once("a", plain, 1), await ctx.once("a", plain, 1)]
        got += [await ctx.once("b", awaited, 10), await ctx.once("b", awaited, 10)]
        return str(got)

    async with served(asking(ask)) as client:
        assert (await client.call("ask"))["content"][0]["text"] == "[2, 2, 12, 12]"
    assert calls == [1, 10]


async def test_five_questions_at_once_are_answered_at_once(autojump_clock):
    """F-037: one after another would take five times as long."""
    texts = []

    async def ask(ctx: Context) -> str:
        async def one(n: int) -> None:
            texts.append((await ctx.sample(f"k{n}", f"question {n}")).content.text)

        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(one, n)
        return "x"

    async def sample(params):
        await trio.sleep(0.5)
        return params.messages[0].content.text

    async with connect(asking(ask), sample=sample) as client:
        began = trio.current_time()
        await client.call_tool("ask")
        assert trio.current_time() - began == pytest.approx(0.5)
    assert sorted(texts) == [f"question {n}" for n in range(5)]


async def test_a_tool_that_asks_while_others_run_is_answered():
    """F-036: reading never waits for handlers, on either side, even with one request at a time."""

    async def ask(ctx: Context) -> str:
        return (await ctx.sample("k", "hello")).content.text

    async def sample(params):
        # The client's own call is open all the while, and it calls once more from in here.
        await client.ping()
        return "hi"

    server = asking(ask, limits=Limits(concurrent=1))
    async with connect(server, sample=sample, limits=Limits(concurrent=1)) as client:
        with trio.fail_after(30):
            results = []

            async def call() -> None:
                results.append((await client.call_tool("ask")).text)

            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(call)
    assert results == ["hi"] * 10


async def test_a_question_that_nobody_answers_ends_with_an_error(autojump_clock):
    got = []

    async def ask(ctx: Context) -> str:
        try:
            await ctx.sample("k", "hello")
        except RequestTimeout as error:
            got.append(error.seconds)
        return "x"

    server = asking(ask, timeouts=Timeouts(question=20))
    async with served(server, capabilities=ALL) as client:
        call = client.ask("tools/call", {"name": "ask"})
        question = await client.receive()
        assert question["method"] == "sampling/createMessage"
        cancelled = await client.receive()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == question["id"]
        assert "result" in await client.answer(call)
    assert got == [20]


async def test_a_cancelled_tool_withdraws_its_open_question():
    """F-040: the question goes with the handler that asked it."""

    async def ask(ctx: Context) -> str:
        return (await ctx.sample("k", "hello")).content.text

    async with served(asking(ask), capabilities=ALL) as client:
        call = client.ask("tools/call", {"name": "ask"})
        question = await client.receive()
        client.notify("notifications/cancelled", {"requestId": call})
        withdrawn = await client.receive()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        assert await client.heard() == []


async def test_the_end_of_the_channel_ends_an_open_question():
    ended = trio.Event()

    async def ask(ctx: Context) -> str:
        try:
            await ctx.sample("k", "hello")
        finally:
            ended.set()
        return "x"

    async with served(asking(ask), capabilities=ALL) as client:
        client.ask("tools/call", {"name": "ask"})
        await client.receive()
        await client.channel.aclose()
        with trio.fail_after(30):
            await ended.wait()


async def test_an_enum_of_numbers_is_no_choice_of_a_form():
    """A form's choices are strings in every revision."""
    raised = []

    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("k", Numbers, "m")
        except TypeError as error:
            raised.append(str(error))
        return "x"

    async with served(asking(ask), capabilities=FORMS) as client:
        client.ask("tools/call", {"name": "ask"})
        message = await client.receive()
        assert "result" in message, message
    assert "colour" in raised[0]


async def test_a_server_hears_that_the_roots_changed_and_may_ask_for_them():
    server = Server("roots", "1")
    heard = []

    @server.on_roots_changed
    async def changed(ctx: Context) -> None:
        heard.append([root.uri for root in await ctx.list_roots()])

    roots = ["file:///a"]
    async with connect(server, roots=lambda: roots) as client:
        roots.append("file:///b")
        await client.roots_changed()
        await trio.testing.wait_all_tasks_blocked()
        assert heard == [["file:///a", "file:///b"]]


async def test_a_changed_root_that_nobody_wants_to_know_of_is_nothing():
    async with served(Server("roots", "1"), capabilities=ALL) as client:
        client.notify("notifications/roots/list_changed")
        assert await client.heard() == []


class Several(msgspec.Struct):
    extras: list[Literal["tv", "bar"]]


@pytest.mark.parametrize(("revision", "asked"), [("2025-06-18", False), ("2025-11-25", True)])
async def test_a_choice_of_several_is_asked_only_where_forms_have_it(revision, asked):
    async def ask(ctx: Context) -> str:
        try:
            return (await ctx.elicit("k", Several, "m")).action
        except NoAnswer as error:
            return str(error)

    async with served(asking(ask), revision, FORMS) as client:
        call = client.ask("tools/call", {"name": "ask"})
        if asked:
            question = await client.receive()
            client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        answer = await client.answer(call)
        text = answer["result"]["content"][0]["text"]
        assert text == "decline" if asked else "no choice of several" in text


async def test_the_capabilities_of_the_client_are_there_to_be_read():
    async def ask(ctx: Context) -> str:
        return str(ctx.client_capabilities.roots.list_changed)

    async with served(asking(ask), capabilities=ALL) as client:
        assert (await client.call("ask"))["content"][0]["text"] == "True"


async def test_progress_without_a_token_says_nothing():
    """F-045: a helper that is called without a token does nothing."""

    async def ask(ctx: Context) -> str:
        ctx.progress(1)
        ctx.progress(0)
        return "x"

    async with served(asking(ask)) as client:
        await client.call("ask")
        assert client.unread == []
