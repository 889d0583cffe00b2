"""Functions that ask: the same in both eras, run once in the one and once for each round in the other."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
import pytest
import trio
from scripted_client import ScriptedClient, served

from mcpcore import (
    CallToolResult,
    Context,
    RequestFailed,
    Server,
    TextContent,
    Unanswered,
    connect,
)
from mcpcore.protocol import terms as names
from mcpcore.revisions import ALL, STATELESS
from mcpcore.server import StateOptions
from mcpcore.types import ElicitParams, ElicitResult, InputRequiredResult

ERAS = [STATELESS[0], "2025-06-18"]
E = STATELESS[0]
both = pytest.mark.parametrize("revision", ERAS)


class Name(msgspec.Struct):
    name: str


def add_one_round(server: Server, runs: list[str]) -> None:
    @server.tool(asks="replay")
    async def all_at_once(ctx: Context[Any]) -> str:
        runs.append("all_at_once")
        answers = await ctx.ask_all(
            a=ctx.elicit("a", Name, "A?"),
            b=ctx.elicit("b", Name, "B?"),
            roots=ctx.list_roots(),
        )
        return f"{answers['a'].value.name} {answers['b'].value.name} {len(answers['roots'])}"


def asking() -> tuple[Server, list[str]]:
    server: Server = Server("asking", "1")
    runs: list[str] = []
    add_one_round(server, runs)

    @server.tool(asks="replay")
    async def loop(n: int, ctx: Context[Any]) -> str:
        runs.append("loop")
        given = []
        for step in range(n):
            answer = await ctx.elicit(f"row-{step}", Name, f"Name {step}?")
            given.append(answer.value.name if answer.value else answer.action)
        return " ".join(given)

    @server.tool(asks="replay")
    async def once(ctx: Context[Any]) -> str:
        number = await ctx.once("number", lambda: len(runs))
        runs.append("once")
        answer = await ctx.elicit("name", Name, f"For {number}?")
        return f"{number} {answer.action}"

    @server.tool(asks="replay")
    async def together(ctx: Context[Any]) -> str:
        answers: dict[str, Any] = {}

        async def ask(key: str) -> None:
            answers[key] = await ctx.elicit(key, Name, key)

        runs.append("together")
        async with trio.open_nursery() as nursery:
            for key in ("a", "b", "c"):
                nursery.start_soon(ask, key)
        return " ".join(answers[key].value.name for key in sorted(answers))

    @server.tool(asks="replay")
    async def everything(ctx: Context[Any]) -> str:
        model = await ctx.sample("model", "Say something.")
        roots = await ctx.list_roots()
        page = await ctx.elicit_url("page", "https://example.com", "Open it?")
        return f"{model.blocks[0].text} {roots[0].uri} {page.action}"  # type: ignore[union-attr]

    @server.resource("ask:{key}", asks="replay")
    async def resource(key: str, ctx: Context[Any]) -> str:
        answer = await ctx.elicit(key, Name, "For the resource?")
        return answer.action

    @server.prompt(asks="replay")
    async def prompt(ctx: Context[Any], topic: str = "") -> str:
        answer = await ctx.elicit("prompt", Name, "For the prompt?")
        return f"{topic} {answer.action}"

    @server.tool(asks="rounds")
    async def by_hand(ctx: Context[Any]) -> CallToolResult | InputRequiredResult:
        runs.append("by_hand")
        if ctx.request_state is None:
            question = {
                "method": "elicitation/create",
                "params": {
                    "mode": "form",
                    "message": "By hand?",
                    "requestedSchema": {"type": "object", "properties": {}},
                },
            }
            return InputRequiredResult(
                result_type="input_required",
                input_requests={"q": question},
                request_state="mine",
            )
        return CallToolResult(
            content=[TextContent(f"{ctx.request_state} {ctx.input_responses['q']['action']}")]
        )

    return server, runs


async def answer(params: ElicitParams) -> dict[str, Any] | ElicitResult:
    if params.mode == "url":
        return ElicitResult(action="accept")
    return {"name": params.message} if params.fields else {}


@both
async def test_a_tool_that_asks_in_a_loop_is_the_same_in_both_eras(revision: str) -> None:
    server, runs = asking()
    async with connect(server, revisions=[revision], elicit=answer) as client:
        assert (await client.call_tool("loop", {"n": 3})).text == "Name 0? Name 1? Name 2?"
    assert len(runs) == (4 if revision == E else 1)


@both
async def test_what_is_done_once_is_done_once(revision: str) -> None:
    server, runs = asking()
    async with connect(server, revisions=[revision], elicit=answer) as client:
        assert (await client.call_tool("once")).text == "0 accept"
    assert len(runs) == (2 if revision == E else 1)


@both
async def test_questions_of_one_turn_are_asked_together(revision: str) -> None:
    server, runs = asking()
    async with connect(server, revisions=[revision], elicit=answer) as client:
        assert (await client.call_tool("together")).text == "a b c"
    assert len(runs) == (2 if revision == E else 1)


@both
async def test_questions_that_are_asked_at_once_are_one_round(revision: str) -> None:
    server, runs = asking()
    options: Any = {"revisions": [revision], "elicit": answer}
    async with connect(server, roots=["file:///r"], **options) as client:
        assert (await client.call_tool("all_at_once")).text == "A? B? 1"
    assert len(runs) == (2 if revision == E else 1)
    # One that cannot be asked is one plain error.
    async with connect(server, **options) as client:
        if revision == E:
            with pytest.raises(RequestFailed, match="roots"):
                await client.call_tool("all_at_once")
        else:
            assert "roots" in (await client.call_tool("all_at_once")).text


@pytest.mark.parametrize("revision", [E, "2025-11-25"])
async def test_every_kind_of_question(revision: str) -> None:
    server, _ = asking()
    async with connect(
        server,
        revisions=[revision],
        elicit=answer,
        elicit_url=answer,
        sample=lambda _: "sampled",
        roots=["file:///r"],
    ) as client:
        result = await client.call_tool("everything")
        assert result.text == "sampled file:///r accept"


@both
async def test_resources_and_prompts_ask_as_tools_do(revision: str) -> None:
    """MRTR-02."""
    server, _ = asking()
    async with connect(server, revisions=[revision], elicit=answer) as client:
        (contents,) = (await client.read_resource("ask:x")).contents
        assert contents.text == "accept"
        (message,) = (await client.get_prompt("prompt", {"topic": "t"})).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "t accept"


@both
async def test_rounds_by_hand_are_bridged(revision: str) -> None:
    """MRTR-47: to a client of the handshake era the questions are put on the spot."""
    server, runs = asking()
    async with connect(server, revisions=[revision], elicit=answer) as client:
        assert (await client.call_tool("by_hand")).text == "mine accept"
    assert runs == ["by_hand", "by_hand"]


async def test_rounds_by_hand_end_in_a_refusal_and_at_a_limit() -> None:
    server = Server("endless", "1", states=StateOptions(max_rounds=3))

    @server.tool(asks="rounds")
    async def endless(ctx: Context[Any]) -> InputRequiredResult:
        question = {"method": "roots/list"}
        return InputRequiredResult(result_type="input_required", input_requests={"q": question})

    for revision in ERAS:
        async with connect(server, revisions=[revision], roots=[], max_rounds=20) as client:
            with pytest.raises(RequestFailed, match="asked"):
                await client.call_tool("endless")
    for revision, says in zip(ERAS, ("Missing client capability: roots", "refused"), strict=True):
        async with connect(server, revisions=[revision]) as client:
            with pytest.raises(RequestFailed, match=says):
                await client.call_tool("endless")


# The wire of the stateless era.

CAN = {"elicitation": {}}


class Rounds:
    """A client by hand, which makes the same call again and again."""

    def __init__(self, client: ScriptedClient, can: Any = None) -> None:
        self.client = client
        self.can = CAN if can is None else can

    async def call(self, name: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
        meta = {names.REVISION: E, names.CLIENT_CAPABILITIES: self.can}
        params = {"name": name, "arguments": arguments or {}, "_meta": meta, **more}
        reply: dict[str, Any] = await self.client.request("tools/call", params)
        return reply.get("result") or reply["error"]


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def test_mrtr_04_the_question_is_the_answer() -> None:
    async with served(asking()[0], initialize=False) as client:
        asked = await Rounds(client).call("loop", {"n": 1})
        assert asked["resultType"] == "input_required"
        assert asked["inputRequests"] == {
            "row-0": {
                "method": "elicitation/create",
                "params": {
                    "mode": "form",
                    "message": "Name 0?",
                    "requestedSchema": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}},
                        "required": ["name"],
                    },
                },
            }
        }
        # MRTR-23: it is nothing to be kept.
        assert "ttlMs" not in asked


@pytest.mark.parametrize(
    "responses",
    [
        None,
        {},
        {"row-9": accept(name="x")},
        {"row-0": 12345},
        {"row-0": {"no": "action"}},
        {"row-0": None},
    ],
)
async def test_mrtr_27_without_an_answer_it_is_asked_again(responses: Any) -> None:
    """MRTR-26, MRTR-27: what is no answer, or an answer to nothing, is passed over."""
    async with served(asking()[0], initialize=False) as client:
        rounds = Rounds(client)
        asked = await rounds.call("loop", {"n": 1})
        again = await rounds.call(
            "loop", {"n": 1}, inputResponses=responses, requestState=asked["requestState"]
        )
        assert again["resultType"] == "input_required"
        assert list(again["inputRequests"]) == ["row-0"]


async def test_mrtr_24_answers_that_are_no_object_are_invalid() -> None:
    async with served(asking()[0], initialize=False) as client:
        error = await Rounds(client).call("loop", {"n": 1}, inputResponses=[])
        assert error["code"] == -32602


@pytest.mark.parametrize("state", ["", "garbage", "1.AAAA.BBBB", "x" * 200_000])
async def test_mrtr_13_a_state_that_does_not_hold_is_refused_without_detail(state: str) -> None:
    async with served(asking()[0], initialize=False) as client:
        error = await Rounds(client).call("loop", {"n": 1}, requestState=state)
        assert error == {
            "code": -32602,
            "message": "Invalid params: requestState does not hold (any more)",
        }


async def test_mrtr_17_a_state_holds_for_its_request_alone() -> None:
    async with served(asking()[0], initialize=False) as client:
        rounds = Rounds(client)
        state = (await rounds.call("loop", {"n": 1}))["requestState"]
        for name, arguments in (("loop", {"n": 2}), ("once", {}), ("together", {})):
            assert (await rounds.call(name, arguments, requestState=state))["code"] == -32602
        # Arguments are the same however they are written.
        meta = {names.REVISION: E, names.CLIENT_CAPABILITIES: CAN}
        answers = {"row-0": accept(name="x")}
        params = {"name": "loop", "arguments": {"n": 1}, "_meta": meta}
        params |= {"inputResponses": answers, "requestState": state}
        assert (await client.result("tools/call", params))["content"][0]["text"] == "x"
        # MRTR-50: the answer may have been lost, so the same may come again.
        assert (await client.result("tools/call", params))["content"][0]["text"] == "x"


async def test_mrtr_22_another_process_with_the_same_key_goes_on() -> None:
    """Across a restart between the rounds."""
    key = secrets.token_bytes(32)

    def make() -> Server:
        server = Server("shared", "1", states=StateOptions(keys=[key]))

        @server.tool(asks="replay")
        async def two(ctx: Context[Any]) -> str:
            first = await ctx.elicit("first", Name, "First?")
            second = await ctx.elicit("second", Name, f"After {first.value.name}?")  # type: ignore[union-attr]
            return f"{first.value.name} {second.value.name}"  # type: ignore[union-attr]

        return server

    state, answers = None, None
    for key_of, word in (("first", "a"), ("second", "b"), (None, "")):
        async with served(make(), initialize=False) as client:
            more = {} if state is None else {"inputResponses": answers, "requestState": state}
            result = await Rounds(client).call("two", **more)
            if key_of is None:
                assert result["content"][0]["text"] == "a b"
                break
            assert list(result["inputRequests"]) == [key_of]
            # MRTR-42: only the answers of the last round come.
            state, answers = result["requestState"], {key_of: accept(name=word)}


async def test_an_answer_counts_for_the_question_that_it_was_given_to() -> None:
    server = Server("changing", "1")
    asked = iter(["Delete 3 files?", "Delete 4 files?", "Delete 4 files?"])

    @server.tool(asks="replay")
    async def delete(ctx: Context[Any]) -> str:
        return (await ctx.elicit("sure", Name, next(asked))).action

    async with served(server, initialize=False) as client:
        rounds = Rounds(client)
        first = await rounds.call("delete")
        answers = {"sure": accept(name="yes")}
        second = await rounds.call(
            "delete", inputResponses=answers, requestState=first["requestState"]
        )
        assert second["inputRequests"]["sure"]["params"]["message"] == "Delete 4 files?"
        third = await rounds.call(
            "delete", inputResponses=answers, requestState=second["requestState"]
        )
        assert third["content"][0]["text"] == "accept"


async def test_meta26_10_a_capability_that_is_missing_is_named() -> None:
    """MRTR-09, MRTR-49, TRAP-38: each round declares for itself."""
    async with served(asking()[0], initialize=False) as client:
        error = await Rounds(client, {}).call("loop", {"n": 1})
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        state = (await Rounds(client).call("loop", {"n": 2}))["requestState"]
        more = {"inputResponses": {"row-0": accept(name="x")}, "requestState": state}
        assert (await Rounds(client, {}).call("loop", {"n": 2}, **more))["code"] == -32021


async def test_a_function_that_goes_on_after_a_question_is_an_error() -> None:
    server = Server("stubborn", "1")

    @server.tool(asks="replay")
    async def swallows(ctx: Context[Any]) -> str:
        try:
            await ctx.elicit("q", Name, "?")
        except trio.Cancelled:
            return "made up"
        return "answered"

    @server.tool(asks="replay")
    async def shielded(ctx: Context[Any]) -> str:
        with trio.CancelScope(shield=True):
            await ctx.elicit("q", Name, "?")
        return "answered"

    @server.tool(asks="replay")
    async def same_key(ctx: Context[Any]) -> str:
        await ctx.elicit("q", Name, "?")
        await ctx.elicit("q", Name, "another?")
        return "answered"

    async with served(server, initialize=False) as client:
        rounds = Rounds(client)
        assert (await rounds.call("swallows"))["code"] == -32603
        assert (await rounds.call("shielded"))["code"] == -32603
        answers = {"inputResponses": {"q": accept(name="x")}}
        assert (await rounds.call("same_key", **answers))["isError"]


async def test_a_state_that_is_too_large_is_an_error() -> None:
    server = Server("large", "1", states=StateOptions(max_bytes=1000))

    @server.tool(asks="replay")
    async def large(ctx: Context[Any]) -> str:
        await ctx.once("much", lambda: "x" * 2000)
        return (await ctx.elicit("q", Name, "?")).action

    async with served(server, initialize=False) as client:
        assert (await Rounds(client).call("large"))["code"] == -32603


async def test_a_caller_that_goes_away_between_rounds_leaves_nothing() -> None:
    """MRTR-19; and a cancellation in the middle of a run ends it."""
    server, runs = asking()
    started = trio.Event()

    @server.tool(asks="replay")
    async def slow(ctx: Context[Any]) -> str:
        started.set()
        await trio.sleep_forever()

    async with served(server, initialize=False) as client:
        await Rounds(client).call("loop", {"n": 1})
        meta = {names.REVISION: E, names.CLIENT_CAPABILITIES: CAN}
        id = client.ask("tools/call", {"name": "slow", "arguments": {}, "_meta": meta})
        await started.wait()
        client.notify("notifications/cancelled", {"requestId": id})
        assert (await Rounds(client).call("loop", {"n": 0}))["content"][0]["text"] == ""
    assert runs == ["loop", "loop"]


async def test_a_function_that_may_not_ask_does_not() -> None:
    server = Server("mute", "1")

    @server.tool
    async def quiet(ctx: Context[Any]) -> str:
        assert ctx.request_state is None
        assert ctx.input_responses == {}
        await ctx.elicit("q", Name, "?")
        return "asked"

    for revision in ALL[:2]:
        async with connect(server, revisions=[revision], elicit=answer) as client:
            assert (await client.call_tool("quiet")).is_error


# Our client, when nobody answers.


async def test_a_question_that_nobody_answers_ends_the_call() -> None:
    """MRTR-40: there is no way to say no, so the request is not made again."""
    server, runs = asking()

    def refuse(_: ElicitParams) -> ElicitResult:
        raise RequestFailed(-1, "not now")

    async with connect(server, elicit=refuse) as client:
        with pytest.raises(Unanswered, match="not now") as caught:
            await client.call_tool("together")
        assert caught.value.method == "elicitation/create"
        assert runs == ["together"]
        assert (await client.call_tool("loop", {"n": 0})).text == ""
