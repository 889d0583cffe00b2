"""Rounds of input: a stateless server asks by its result and is answered by the next request.

All of them are held against the official fixture's `test_input_required_result_*`.
"""

from typing import Any

from ...speaking import Bench, Exchange, Peer
from ...speaking.peer import META, filled_form
from ...verdicts import Unreachable, expect
from .. import check

TOOL = "test_input_required_result_"

ROOTS = {"roots": [{"uri": "file:///conformance"}]}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "conformance"}, "model": "none"}


def answers(result: dict[str, Any]) -> dict[str, Any]:
    """An answer for each thing that an input-required result asks for."""
    given = {}
    for name, asked in (result.get("inputRequests") or {}).items():
        method = asked.get("method")
        if method == "elicitation/create":
            given[name] = filled_form(asked.get("params") or {})
        else:
            given[name] = ROOTS if method == "roots/list" else SAMPLED
    return given


def next_round(params: dict[str, Any], result: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The params of the next round: those of the first, with answers and state."""
    state = {"requestState": result["requestState"]} if "requestState" in result else {}
    return {**params, "inputResponses": answers(result), **state, **more}


async def asked(
    peer: Peer, name: str, method: str = "tools/call"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The params of a first round and its input-required result; raises Unreachable."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    exchange = await peer.ask(method, params)
    if (
        not isinstance(exchange.result, dict)
        or exchange.result.get("resultType") != "input_required"
    ):
        raise Unreachable(f"{name} does not ask: {exchange.response}")
    return params, exchange.result


def complete(exchange: Exchange) -> bool:
    """Whether the result is final."""
    return isinstance(exchange.result, dict) and exchange.result.get("resultType") == "complete"


@check("MRTR-01 MRTR-02 MRTR-04 MRTR-07 RT-03 TOOL26-25", level=3)
async def questions_are_asked_and_answered(bench: Bench) -> None:
    """Calls the tools that elicit, sample, ask for roots, and for all three: an input-required result, then,
    with the answers, a complete one.
    """
    async with bench.connect() as peer:
        for name in ("elicitation", "sampling", "list_roots", "multiple_inputs"):
            params, result = await asked(peer, TOOL + name)
            exchange = await peer.ask("tools/call", next_round(params, result))
            expect(complete(exchange), "a complete result", exchange.response, sent=exchange.sent)


@check("PROMPT26-10 MRTR-02", level=3)
async def prompts_may_ask(bench: Bench) -> None:
    """Gets the prompt that asks: an input-required result, then, with the answers, messages."""
    async with bench.connect() as peer:
        params, result = await asked(peer, "test_input_required_result_prompt", "prompts/get")
        exchange = await peer.ask("prompts/get", next_round(params, result))
        expect(
            complete(exchange) and exchange.result.get("messages"), "messages", exchange.response
        )


@check("MRTR-20 MRTR-42", level=3)
async def there_may_be_several_rounds(bench: Bench) -> None:
    """Calls the tool that asks twice: each round carries only its own answers, and it comes to an end."""
    async with bench.connect() as peer:
        params, result = await asked(peer, TOOL + "multi_round")
        for _ in range(5):
            exchange = await peer.ask("tools/call", next_round(params, result))
            if complete(exchange):
                return
            expect(
                isinstance(exchange.result, dict), "a result", exchange.response, sent=exchange.sent
            )
            result = exchange.result
        expect(False, "a complete result after a few rounds", result)  # noqa: FBT003


@check("MRTR-22 STATE26-03", level=3)
async def rounds_do_not_need_their_connection(bench: Bench) -> None:
    """Answers on another connection (over stdio on the same one) what was asked on the first: it
    completes.
    """
    async with bench.connect() as peer:
        params, result = await asked(peer, TOOL + "request_state")
        if bench.transport == "stdio":
            exchange = await peer.ask("tools/call", next_round(params, result))
            expect(complete(exchange), "a complete result", exchange.response)
            return
        async with bench.connect() as other:
            exchange = await other.ask("tools/call", next_round(params, result))
            expect(complete(exchange), "a complete result", exchange.response, sent=exchange.sent)


@check("MRTR-11 MRTR-12 MRTR-13", level=3)
async def a_tampered_state_is_refused(bench: Bench) -> None:
    """Sends the state back with a character changed, cut, with something added, and as garbage: an error each
    time, and nothing is acted on.
    """
    async with bench.connect() as peer:
        params, result = await asked(peer, TOOL + "tampered_state")
        state = result.get("requestState")
        if not isinstance(state, str) or len(state) < 4:
            raise Unreachable("the tool gives no state")
        middle = len(state) // 2
        flipped = "A" if state[middle] != "A" else "B"
        for bad in (
            state + "-TAMPERED",
            state[:-3],
            state[:middle] + flipped + state[middle + 1 :],
            "garbage",
            "",
        ):
            peer.transcript.lawful = False
            exchange = await peer.ask("tools/call", next_round(params, result, requestState=bad))
            expect(not complete(exchange), "an error", exchange.response, sent=bad[:80])
            expect(
                exchange.error,
                "an error, not the question again",
                exchange.response,
                sent=bad[:80],
                soft=True,
            )
        await peer.probe()


@check("MRTR-17", level=3)
async def a_state_belongs_to_its_request(bench: Bench) -> None:
    """Sends the state of one tool with a call of another: it is not acted on."""
    async with bench.connect() as peer:
        peer.transcript.lawful = False
        _, result = await asked(peer, TOOL + "request_state")
        other = {"name": TOOL + "tampered_state", "arguments": {}}
        exchange = await peer.ask("tools/call", {**next_round(other, result)})
        expect(not complete(exchange), "a refusal", exchange.response, sent=exchange.sent)


@check("MRTR-48", level=3)
async def a_state_is_a_string(bench: Bench) -> None:
    """Sends a number, an object and null as the state: an error, or as if there were none; no crash."""
    async with bench.connect() as peer:
        peer.transcript.lawful = False
        params, result = await asked(peer, TOOL + "request_state")
        odd: tuple[Any, ...] = (7, {}, None)
        for bad in odd:
            await peer.ask("tools/call", next_round(params, result, requestState=bad))
            await peer.probe()


@check("MRTR-24 MRTR-25", level=3)
async def malformed_answers_are_an_error(bench: Bench) -> None:
    """Sends an array for `inputResponses`, and a number for an answer: not a complete result."""
    async with bench.connect() as peer:
        peer.transcript.lawful = False
        params, result = await asked(peer, TOOL + "elicitation")
        key = next(iter(result.get("inputRequests") or {"none": 1}))
        malformed: tuple[Any, ...] = ([], {key: 12345})
        for bad in malformed:
            exchange = await peer.ask("tools/call", next_round(params, result, inputResponses=bad))
            expect(not complete(exchange), "an error", exchange.response, sent=bad)


@check("MRTR-26", level=3)
async def answers_that_nobody_asked_for_are_ignored(bench: Bench) -> None:
    """Adds an unknown key to the answers: ignored."""
    async with bench.connect() as peer:
        params, result = await asked(peer, TOOL + "elicitation")
        given = {**answers(result), "conformance_extra": {"action": "accept"}}
        exchange = await peer.ask("tools/call", next_round(params, result, inputResponses=given))
        expect(complete(exchange), "a complete result", exchange.response, sent=exchange.sent)


@check("MRTR-27", level=3)
async def a_missing_answer_is_asked_for_again(bench: Bench) -> None:
    """Answers with an unknown key only: the tool asks again."""
    async with bench.connect() as peer:
        peer.transcript.lawful = False
        params, result = await asked(peer, TOOL + "elicitation")
        exchange = await peer.ask(
            "tools/call", next_round(params, result, inputResponses={"wrong": {"action": "accept"}})
        )
        again = (exchange.result or {}).get("resultType") == "input_required"
        expect(again, "the question again", exchange.response, sent=exchange.sent)


@check("MRTR-19", level=3)
async def abandoned_rounds_harm_nobody(bench: Bench) -> None:
    """Starts thirty rounds and answers none: the server goes on."""
    async with bench.connect() as peer:
        for _ in range(30):
            await asked(peer, TOOL + "elicitation")
        await peer.probe()


@check("META26-08 META26-09 MRTR-09 MRTR-49", level=3)
async def capabilities_are_of_this_request(bench: Bench) -> None:
    """Declares elicitation on one call and only sampling on the next: the second is not asked to elicit."""
    async with bench.connect() as peer:
        await asked(peer, TOOL + "elicitation")
        meta: dict[str, Any] = {f"{META}clientCapabilities": {"sampling": {}}}
        exchange = await peer.ask(
            "tools/call", {"name": TOOL + "capabilities", "arguments": {}, "_meta": meta}
        )
        methods = [
            each.get("method")
            for each in ((exchange.result or {}).get("inputRequests") or {}).values()
        ]
        expect(
            "elicitation/create" not in methods,
            "no elicitation",
            exchange.response,
            sent=exchange.sent,
        )


@check("META26-10 META26-11 META26-12 ERR-06", level=3)
async def a_missing_capability_is_named(bench: Bench) -> None:
    """Calls `test_missing_capability` without sampling: -32021, which names sampling; over HTTP 400."""
    async with bench.connect() as peer:
        meta: dict[str, Any] = {f"{META}clientCapabilities": {}}
        exchange = await peer.ask(
            "tools/call", {"name": "test_missing_capability", "arguments": {}, "_meta": meta}
        )
        expect(exchange.code == -32021, "-32021", exchange.response, rules="META26-10 ERR-06")
        required = (exchange.error.get("data") or {}).get("requiredCapabilities")
        named = isinstance(required, dict) and isinstance(required.get("sampling"), dict)
        expect(
            named, "data.requiredCapabilities with sampling", exchange.response, rules="META26-12"
        )
        if exchange.status is not None:
            expect(exchange.status == 400, "HTTP 400", f"HTTP {exchange.status}", rules="META26-11")
