"""Tools, resources and prompts, as any server has them."""

from typing import Any

from ...shapes import wrong
from ...speaking import Bench, Peer
from ...verdicts import NotApplicable, expect
from .. import check

FIXTURES: dict[str, dict[str, Any]] = {
    "test_simple_text": {},
    "test_image_content": {},
    "test_audio_content": {},
    "test_embedded_resource": {},
    "test_multiple_content_types": {},
    "test_error_handling": {},
    "test_tool_with_logging": {},
    "test_tool_with_progress": {},
    "test_sampling": {"prompt": "Say something."},
    "test_elicitation": {"message": "Who are you?"},
    "test_elicitation_sep1034_defaults": {},
    "test_elicitation_sep1330_enums": {},
    "test_structured_content": {},
}
"""The tools of the fixture that can be called in any revision, with their arguments."""


def allowed(tool: dict[str, Any], given: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments with which a strange tool may be called, or None if it should be left alone.

    The user of the suite may give some; a fixture's are known; otherwise only a tool that says it reads
    only, and needs nothing, is called.
    """
    name = tool.get("name")
    if name in given:
        return dict(given[name])
    if name in FIXTURES:
        return FIXTURES[name]
    hints, schema = tool.get("annotations"), tool.get("inputSchema")
    reads = isinstance(hints, dict) and hints.get("readOnlyHint") is True
    return {} if reads and isinstance(schema, dict) and not schema.get("required") else None


@check("JRPC-20 JRPC-28 TOOL-12 TOOL26-17", level=2, needs="tools")
async def tools_that_may_be_called_answer(bench: Bench) -> None:
    """Calls every tool that the user allowed, that says it only reads and needs nothing, or that is of the
    official fixture: each call is answered, and what comes meanwhile is looked at by the lints.
    """
    async with bench.connect() as peer:
        if "tools" not in peer.capabilities:
            raise NotApplicable("the server does not declare tools")
        called = 0
        for tool in await peer.listed("tools/list", "tools"):
            arguments = allowed(tool, bench.given)
            if arguments is None:
                continue
            params = {
                "name": tool["name"],
                "arguments": arguments,
                "_meta": {"progressToken": f"walk-{called}"},
            }
            exchange = await peer.ask("tools/call", params)
            if (
                isinstance(exchange.result, dict)
                and exchange.result.get("resultType", "complete") == "complete"
            ):
                problem = wrong(exchange.result, {"content": list}, "the result")
                expect(problem is None, "content in the result", problem, sent=exchange.sent)
            called += 1
        if not called:
            raise NotApplicable("no tool says that it only reads; use --call to allow some")


@check("RES-04 RES26-07", level=2)
async def listed_resources_can_be_read(bench: Bench) -> None:
    """Reads the first ten listed resources: each has contents."""
    async with bench.connect() as peer:
        if "resources" not in peer.capabilities:
            raise NotApplicable("the server does not declare resources")
        resources = (await peer.listed("resources/list", "resources"))[:10]
        if not resources:
            raise NotApplicable("no resource is listed")
        await peer.listed("resources/templates/list", "resourceTemplates")
        for resource in resources:
            exchange = await peer.ask("resources/read", {"uri": resource.get("uri")})
            if (exchange.result or {}).get("resultType") == "input_required":
                continue
            expect(
                isinstance(exchange.result, dict), "contents", exchange.response, sent=exchange.sent
            )


@check("PROMPT-04 PROMPT26-06", level=2)
async def listed_prompts_can_be_got(bench: Bench) -> None:
    """Gets the first ten listed prompts, with a word for each argument: each has messages."""
    async with bench.connect() as peer:
        if "prompts" not in peer.capabilities:
            raise NotApplicable("the server does not declare prompts")
        prompts = (await peer.listed("prompts/list", "prompts"))[:10]
        if not prompts:
            raise NotApplicable("no prompt is listed")
        refused = []
        for prompt in prompts:
            arguments = {
                each["name"]: "test" for each in prompt.get("arguments") or () if "name" in each
            }
            if "resourceUri" in arguments:
                arguments["resourceUri"] = "test://static-text"
            exchange = await peer.ask(
                "prompts/get", {"name": prompt.get("name"), "arguments": arguments}
            )
            if exchange.error:
                refused.append(exchange.response)
        expect(len(refused) < len(prompts), "messages for one of them at least", refused)


@check("TOOL-14 TOOL-18 TOOL26-27", needs="tools")
async def unknown_tools_are_an_error(peer: Peer) -> None:
    """Calls a tool that does not exist: a JSON-RPC error, not a result."""
    exchange = await peer.ask("tools/call", {"name": "conformance_no_such_tool", "arguments": {}})
    expect(exchange.code == -32602, "the error -32602", exchange.response, sent=exchange.sent)


@check("TOOL-07", needs="tools", level=2)
async def tool_names_know_upper_and_lower(peer: Peer) -> None:
    """Calls a listed tool with the case of its name changed: it is unknown."""
    names = {tool.get("name") for tool in await peer.listed("tools/list", "tools")}
    for name in sorted(map(str, names)):
        if name.swapcase() not in names:
            exchange = await peer.ask(
                "tools/call", {"name": name.swapcase(), "arguments": {"conformance": 1}}
            )
            refused = exchange.result is None or exchange.result.get("isError") is True
            expect(refused, "an unknown tool", exchange.response, sent=exchange.sent)
            return
    raise NotApplicable("no name has letters")


@check("TOOL-29 TOOL26-31 TOOL26-28 TOOL-16", needs="tools", level=2)
async def arguments_are_validated(peer: Peer) -> None:
    """Calls a tool without an argument that it requires: refused, by an error or by `isError`."""
    for tool in await peer.listed("tools/list", "tools"):
        schema = tool.get("inputSchema")
        if isinstance(schema, dict) and schema.get("required"):
            exchange = await peer.ask("tools/call", {"name": tool["name"], "arguments": {}})
            result = exchange.result if isinstance(exchange.result, dict) else None
            refused = result is None or result.get("isError") is True
            expect(
                refused,
                "a refusal",
                exchange.response,
                sent=exchange.sent,
                rules="TOOL-29 TOOL26-31",
            )
            expect(
                result is not None,
                "a result with isError",
                exchange.response,
                sent=exchange.sent,
                rules="TOOL26-28 TOOL-16",
                soft=True,
            )
            return
    raise NotApplicable("no tool requires an argument")


@check("TOOL-16", needs="tools")
async def arguments_in_an_array_are_invalid(peer: Peer) -> None:
    """Calls a tool with an array as its arguments: a JSON-RPC error, for this is no request of the method."""
    tools = await peer.listed("tools/list", "tools")
    if not tools:
        raise NotApplicable("there is no tool")
    exchange = await peer.ask("tools/call", {"name": tools[0].get("name"), "arguments": [1]})
    expect(exchange.error, "a JSON-RPC error", exchange.response, sent=exchange.sent)


@check("TOOL-17 TOOL26-28", level=3, needs="tools")
async def failing_tools_say_so_in_the_result(peer: Peer) -> None:
    """Calls `test_error_handling`: a result with `isError` and words for the model."""
    exchange = await peer.ask("tools/call", {"name": "test_error_handling", "arguments": {}})
    result = exchange.result if isinstance(exchange.result, dict) else {}
    expect(
        result.get("isError") is True and result.get("content"),
        "isError and content",
        exchange.response,
    )


@check("TOOL-11 TOOL26-36", level=3, needs="tools")
async def arguments_may_be_left_out(peer: Peer) -> None:
    """Calls `test_simple_text` without the member `arguments`, and with an empty one: the same answer."""
    one = await peer.ask("tools/call", {"name": "test_simple_text"})
    other = await peer.ask("tools/call", {"name": "test_simple_text", "arguments": {}})
    expect(isinstance(one.result, dict), "a result", one.response, sent=one.sent)
    expect(
        one.result.get("content") == (other.result or {}).get("content"),
        "the same content",
        [one.result, other.result],
    )


@check("TOOL26-04 TOOL26-05", needs="tools", level=2)
async def tools_are_listed_alike(bench: Bench) -> None:
    """Lists the tools three times on one connection and once on another: the same, in the same order."""
    async with bench.connect() as one, bench.connect() as other:
        if "tools" not in one.capabilities:
            raise NotApplicable("the server does not declare tools")
        lists = [
            [tool.get("name") for tool in await peer.listed("tools/list", "tools")]
            for peer in (one, one, one, other)
        ]
        same = all(sorted(map(str, each)) == sorted(map(str, lists[0])) for each in lists)
        expect(same, "the same tools each time", lists, rules="TOOL26-04")
        expect(
            all(each == lists[0] for each in lists),
            "the same order each time",
            lists,
            rules="TOOL26-05",
        )


@check("RES26-04 PROMPT26-03", level=2)
async def lists_do_not_depend_on_the_connection(bench: Bench) -> None:
    """Lists resources and prompts on two connections: the same."""
    async with bench.connect() as one, bench.connect() as other:
        for name, method, rule in (
            ("resources", "resources/list", "RES26-04"),
            ("prompts", "prompts/list", "PROMPT26-03"),
        ):
            if name in one.capabilities:
                lists = [await peer.listed(method, name) for peer in (one, other)]
                expect(lists[0] == lists[1], "the same list", lists, rules=rule)


MISSING = "conformance://missing/nothing-here"


@check("RES-07", needs="resources")
async def missing_resources_are_not_found(peer: Peer) -> None:
    """Reads a URI that does not exist: the error -32002."""
    exchange = await peer.ask("resources/read", {"uri": MISSING})
    expect(exchange.code == -32002, "the error -32002", exchange.response, sent=exchange.sent)


@check("RES26-17 RES26-18", needs="resources")
async def missing_resources_are_invalid(peer: Peer) -> None:
    """Reads a URI that does not exist: the error -32602, never empty contents."""
    exchange = await peer.ask("resources/read", {"uri": MISSING})
    expect(exchange.result is None, "an error", exchange.response, sent=exchange.sent)
    expect(
        exchange.code == -32602,
        "the error -32602",
        exchange.response,
        sent=exchange.sent,
        rules="RES26-17",
    )


@check("RES-15 RES26-21", needs="resources")
async def paths_do_not_climb(peer: Peer) -> None:
    """Reads URIs that climb out of a folder, plain and encoded, and some that are no URIs: errors, and
    nothing of the machine's files.
    """
    tried = [
        "file:///../../etc/passwd",
        "file:///%2e%2e/%2e%2e/etc/passwd",
        "file:///etc/passwd",
        "not a uri",
        "",
    ]
    for uri in tried:
        exchange = await peer.ask("resources/read", {"uri": uri})
        expect(
            "root:" not in str(exchange.response),
            "no file of the machine",
            exchange.response,
            sent=exchange.sent,
        )
        if uri in tried[3:]:
            expect(exchange.result is None, "an error", exchange.response, sent=exchange.sent)


@check("JRPC-19 ERR-12", needs="resources")
async def reading_needs_a_uri(peer: Peer) -> None:
    """Reads without a `uri`: -32602."""
    exchange = await peer.ask("resources/read", {})
    expect(exchange.code == -32602, "the error -32602", exchange.response, sent=exchange.sent)


@check("RES-09", level=2, strays=True)
async def subscribing_works_where_declared(peer: Peer) -> None:
    """Subscribes to listed resources until one can be watched, and unsubscribes: an empty result each time.
    Where subscriptions are not declared, an error.
    """
    if "resources" not in peer.capabilities:
        raise NotApplicable("the server does not declare resources")
    resources = await peer.listed("resources/list", "resources")
    if not resources:
        raise NotApplicable("no resource is listed")
    works = peer.declares("resources.subscribe")
    answers = []
    for resource in resources[:10]:
        exchange = await peer.ask("resources/subscribe", {"uri": resource.get("uri")})
        answers.append(exchange.response)
        if isinstance(exchange.result, dict):
            expect(
                works,
                "an error, since subscriptions are not declared",
                exchange.response,
                sent=exchange.sent,
            )
            undone = await peer.ask("resources/unsubscribe", {"uri": resource.get("uri")})
            expect(
                isinstance(undone.result, dict),
                "an empty result",
                undone.response,
                sent=undone.sent,
            )
            return
    expect(not works, "an empty result for one of the resources", answers)


@check("PROMPT-10 PROMPT26-12", needs="prompts")
async def unknown_prompts_are_invalid(peer: Peer) -> None:
    """Gets a prompt that does not exist: -32602."""
    exchange = await peer.ask("prompts/get", {"name": "conformance_nope"})
    expect(exchange.code == -32602, "the error -32602", exchange.response, sent=exchange.sent)


@check("PROMPT-11 PROMPT26-13 PROMPT-10 PROMPT26-12", needs="prompts", level=2)
async def prompts_require_their_arguments(peer: Peer) -> None:
    """Gets a prompt without an argument that it requires: -32602."""
    for prompt in await peer.listed("prompts/list", "prompts"):
        if any(each.get("required") for each in prompt.get("arguments") or ()):
            exchange = await peer.ask("prompts/get", {"name": prompt["name"], "arguments": {}})
            expect(
                exchange.code == -32602, "the error -32602", exchange.response, sent=exchange.sent
            )
            return
    raise NotApplicable("no prompt requires an argument")


@check("PROMPT-03", needs="prompts", level=2)
async def prompt_arguments_are_strings(peer: Peer) -> None:
    """Gets a prompt with a number for an argument: -32602, since arguments are strings."""
    for prompt in await peer.listed("prompts/list", "prompts"):
        arguments = {each["name"]: 7 for each in prompt.get("arguments") or () if "name" in each}
        if arguments:
            exchange = await peer.ask(
                "prompts/get", {"name": prompt["name"], "arguments": arguments}
            )
            expect(
                exchange.code == -32602,
                "the error -32602",
                exchange.response,
                sent=exchange.sent,
                soft=True,
            )
            return
    raise NotApplicable("no prompt has an argument")


@check("CAP-08 CAP-01 ROOT-08 ELIC-03", level=3)
async def a_client_without_features_is_asked_nothing(bench: Bench) -> None:
    """Declares no capability and calls every tool of the fixture: the server asks nothing but `ping`."""
    async with bench.connect(capabilities={}) as peer:
        for tool in await peer.listed("tools/list", "tools"):
            if tool.get("name") in FIXTURES:
                await peer.ask(
                    "tools/call", {"name": tool["name"], "arguments": FIXTURES[tool["name"]]}
                )
        asked = [each.get("method") for each in peer.asked if each.get("method") != "ping"]
        expect(not asked, "no request to a client that declared nothing", asked)


@check("JRPC-06", level=3)
async def ids_of_both_sides_are_apart(bench: Bench) -> None:
    """While the server's question in `test_elicitation` or `test_sampling` is open, sends a request with the
    very id of that question: both are answered.
    """
    async with bench.connect() as peer:
        name = "test_sampling"
        method = "sampling/createMessage"

        async def answer(_: dict[str, Any]) -> dict[str, Any]:
            exchange = await peer.ask("ping", id=peer.asked[-1]["id"])
            expect(isinstance(exchange.result, dict), "an answer to the ping", exchange.response)
            return {
                "result": {
                    "role": "assistant",
                    "content": {"type": "text", "text": "x"},
                    "model": "none",
                }
            }

        peer.answers[method] = answer
        exchange = await peer.ask("tools/call", {"name": name, "arguments": FIXTURES[name]})
        expect(
            any(each.get("method") == method for each in peer.asked),
            f"a request {method}",
            exchange.response,
        )
        expect(isinstance(exchange.result, dict), "a result of the call", exchange.response)
