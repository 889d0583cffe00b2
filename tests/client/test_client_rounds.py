"""Requests that are answered with questions: what the client sends next, and when it stops."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from test_eras import E, Message, discovered, peer

from mcpcore import ElicitParams, RequestFailed, Timeouts, Unanswered, connect
from mcpcore.client.client import Client
from mcpcore.errors import RemoteProtocolError


def question(message: str = "?", **more: Any) -> Message:
    params = {"mode": "form", "message": message, "requestedSchema": {"type": "object"}, **more}
    return {"method": "elicitation/create", "params": params}


def asked(state: Any = None, **questions: Any) -> Message:
    result: Message = {"resultType": "input_required"}
    if questions:
        result["inputRequests"] = questions
    return result if state is None else result | {"requestState": state}


DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


class Calls:
    """Answers each tools/call with the next reply."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.params: list[Message] = []
        self.ids: list[Any] = []

    def __call__(self, message: Message) -> Any:
        if message["method"] == "server/discover":
            return discovered(E)
        self.ids.append(message["id"])
        params = message["params"]
        self.params.append({name: value for name, value in params.items() if name != "_meta"})
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


async def answer(params: ElicitParams) -> dict[str, Any]:
    return {"said": params.message}


async def run(script: Any, work: Any, **options: Any) -> Any:
    async with peer(script) as (channel, _), connect(channel, **options) as client:
        return await work(client)


async def call(client: Client) -> str:
    return (await client.call_tool("f", {"x": 1})).text


async def test_mrtr_36_the_call_is_made_again_with_what_was_asked_for() -> None:
    """F-116; MRTR-28, MRTR-29, MRTR-34, MRTR-36, MRTR-38: the same params, the answers, another id."""
    script = Calls(asked("state", a=question("A?"), b=question("B?")), DONE)
    assert await run(script, call, elicit=answer) == "done"
    same = {"name": "f", "arguments": {"x": 1}}
    assert script.params == [
        same,
        same
        | {
            "inputResponses": {
                "a": {"action": "accept", "content": {"said": "A?"}},
                "b": {"action": "accept", "content": {"said": "B?"}},
            },
            "requestState": "state",
        },
    ]
    assert len(set(script.ids)) == 2


@pytest.mark.parametrize(
    "state", ["", '{"json": "like"}', 'Zoë\u2028\x00\x1f"\\/', "x" * 65536, "eyJh.eyJi.c2ln"]
)
async def test_mrtr_31_the_state_comes_back_exactly(state: str) -> None:
    script = Calls(asked(state, a=question()), DONE)
    await run(script, call, elicit=answer)
    assert script.params[1]["requestState"] == state


async def test_mrtr_33_a_state_belongs_to_the_last_round() -> None:
    script = Calls(asked("one", a=question()), asked(None, b=question()), DONE)
    await run(script, call, elicit=answer)
    assert "requestState" not in script.params[2]
    # MRTR-42: only the answers of the last round.
    assert list(script.params[2]["inputResponses"]) == ["b"]


async def test_mrtr_30_a_state_alone_is_brought_back_after_a_moment(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Calls(asked("a"), asked("b"), DONE)
    began = trio.current_time()
    assert await run(script, call) == "done"
    assert 0.1 < trio.current_time() - began < 1
    assert [params.get("requestState") for params in script.params] == [None, "a", "b"]
    assert "inputResponses" not in script.params[1]


async def test_mrtr_44_questions_without_end_are_given_up() -> None:
    script = Calls(asked("s", a=question()))
    with pytest.raises(RemoteProtocolError, match="10 times in a row"):
        await run(script, call, elicit=answer)
    assert len(script.params) == 11
    with pytest.raises(RemoteProtocolError, match="2 times"):
        await run(Calls(asked("s", a=question())), call, elicit=answer, max_rounds=2)


async def test_mrtr_45_the_questions_of_a_round_are_answered_side_by_side() -> None:
    open, both = 0, trio.Event()

    async def wait_for_the_other(_: ElicitParams) -> dict[str, Any]:
        nonlocal open
        open += 1
        if open == 2:
            both.set()
        await both.wait()
        return {}

    script = Calls(asked("s", a=question(), b=question()), DONE)
    with trio.fail_after(20):
        assert await run(script, call, elicit=wait_for_the_other) == "done"


@pytest.mark.parametrize(
    ("result", "rule"),
    [
        ({"resultType": "zzz", "content": []}, "RT-06"),
        ({"resultType": "task", "content": []}, "RT-06"),
        ({"resultType": 7, "content": []}, "RT-06"),
        (asked("s", a=7), "MRTR-07"),
        (asked("s", a={"params": {}}), "MRTR-07"),
        ({"resultType": "input_required", "inputRequests": []}, "MRTR-05"),
    ],
)
async def test_rt_06_what_is_not_understood_is_no_result(result: Message, rule: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        await run(Calls(result), call, elicit=answer)
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    "result", [{"content": []}, {"resultType": "complete", "content": []}, {"content": [], "x": 1}]
)
async def test_rt_07_without_a_type_a_result_is_complete(result: Message) -> None:
    assert await run(Calls(result), call) == ""


async def test_a_result_that_only_speaks_of_types_is_one() -> None:
    text = {"type": "text", "text": '"resultType": "input_required"'}
    assert "input_required" in await run(Calls({"content": [text]}), call)


async def test_mrtr_03_no_other_request_is_answered_with_questions() -> None:
    async def list_tools(client: Client) -> None:
        await client.list_tools()

    with pytest.raises(RemoteProtocolError) as caught:
        await run(Calls(asked("s", a=question())), list_tools, elicit=answer)
    assert caught.value.rule == "MRTR-03"


async def raises(_: ElicitParams) -> Any:
    raise ValueError("broken")


async def refuses(_: ElicitParams) -> Any:
    raise RequestFailed(-1, "not now")


async def sleeps(_: ElicitParams) -> Any:
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("handler", "says"),
    [(raises, "broken"), (refuses, "not now"), (sleeps, "in time"), (None, "elicitation")],
)
async def test_mrtr_40_without_an_answer_the_call_is_not_made_again(
    handler: Any, says: str, autojump_clock: trio.testing.MockClock
) -> None:
    script = Calls(asked("s", a=question(), b=question()), DONE)
    options = {} if handler is None else {"elicit": handler}
    with pytest.raises(Unanswered, match=says) as caught:
        await run(script, call, timeouts=Timeouts(question=5), **options)
    assert caught.value.key in "ab"
    assert len(script.params) == 1


async def test_a_caller_that_is_cancelled_while_it_is_asked_leaves_at_once() -> None:
    async def give_up(client: Client) -> None:
        with trio.move_on_after(0.05):
            await client.call_tool("f")
        await client.ping()

    with trio.fail_after(20):
        await run(Calls(asked("s", a=question())), give_up, elicit=sleeps)


async def test_the_questions_can_be_had_undriven() -> None:
    async def undriven(client: Client) -> dict[str, Any]:
        params = {"name": "f", "arguments": {}}
        first = await client.request("tools/call", params)
        answers = {"a": {"action": "decline"}}
        more = {"inputResponses": answers, "requestState": first["requestState"]}
        return first | await client.request("tools/call", params | more)

    script = Calls(asked("s", a=question("A?")), DONE)
    result = await run(script, undriven, elicit=answer)
    assert result["inputRequests"]["a"]["params"]["message"] == "A?"
    assert result["content"][0]["text"] == "done"
    assert script.params[1]["inputResponses"] == {"a": {"action": "decline"}}


async def test_prompts_and_resources_are_driven_too() -> None:
    async def both(client: Client) -> tuple[Any, Any]:
        prompt = await client.get_prompt("p")
        return prompt.messages, (await client.read_resource("x:a")).contents

    prompt, resource = {"messages": []}, {"contents": []}
    one = asked("s", a=question())
    script = Calls(one, prompt, one, resource)

    def with_all(message: Message) -> Any:
        if message["method"] == "server/discover":
            return discovered(E, capabilities={"prompts": {}, "resources": {}})
        return script(message)

    assert await run(with_all, both, elicit=answer) == ([], [])
    assert script.params[1]["requestState"] == script.params[3]["requestState"] == "s"
