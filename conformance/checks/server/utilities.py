"""Cancellation, progress, pagination, logging, completion."""

import itertools
import secrets
from typing import Any

import trio
import trio.lowlevel

from ...speaking import Bench, Peer, WebPeer
from ...verdicts import Broken, NotApplicable, Unreachable, expect
from .. import check
from .json_rpc import living

LISTS = {
    "tools": [("tools/list", "tools", "name")],
    "resources": [
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ],
    "prompts": [("prompts/list", "prompts", "name")],
}


@check("CANC-10 CANC-07 CANC26-14 CANC26-11", strays=True)
async def odd_cancellations_are_ignored(peer: Peer) -> None:
    """Cancels an unknown request, one that is answered, and sends malformed cancellations: none is answered
    and the conversation goes on.
    """
    if peer.stateless and isinstance(peer, WebPeer):
        raise NotApplicable("over HTTP this era cancels by closing the stream")
    done = await peer.ask(living(peer))
    before = len(peer.strays)
    peer.transcript.lawful = False
    odd: tuple[dict[str, Any], ...] = (
        {"requestId": "nope"},
        {"requestId": done.id},
        {"requestId": done.id},
        {},
        {"requestId": {}},
    )
    for params in odd:
        exchange = await peer.tell("notifications/cancelled", params)
        if isinstance(peer, WebPeer):
            await peer.ended(exchange)
    await peer.probe()
    wrong = [each for each in peer.strays[before:] if isinstance(each, dict)]
    if isinstance(peer, WebPeer):
        wrong = [each for each in wrong if "result" in each]
    expect(not wrong, "silence", wrong)


@check("CANC-09 CANC26-13")
async def crossing_cancellations_are_survived(peer: Peer) -> None:
    """Cancels twenty requests in the moment they are sent: whatever becomes of each, the next is answered."""
    if peer.stateless and isinstance(peer, WebPeer):
        exchanges = [await peer.call(living(peer)) for _ in range(20)]
        for exchange in exchanges:
            await trio.lowlevel.checkpoint()
            exchange.cut()
    else:
        for _ in range(20):
            exchange = await peer.call(living(peer))
            await peer.tell(
                "notifications/cancelled", {"requestId": exchange.id, "reason": "conformance"}
            )
    await peer.probe()


@check("CANC-15", transport="http")
async def a_cancellation_is_accepted(peer: Peer) -> None:
    """POSTs a cancellation: 202 without a body."""
    if peer.stateless:
        raise NotApplicable("over HTTP this era cancels by closing the stream")
    assert isinstance(peer, WebPeer)
    exchange = await peer.ended(await peer.tell("notifications/cancelled", {"requestId": "nope"}))
    expect(
        exchange.status == 202 and not exchange.body,
        "202 and no body",
        f"HTTP {exchange.status} {exchange.body!r}",
    )


@check("CANC-06 CANC-05 CANC26-09 CANC26-10 STDIO26-13 STDIO26-14", level=3)
async def a_cancelled_call_is_stopped_and_not_answered(bench: Bench) -> None:
    """Calls `test_wait` and cancels it: no answer comes, and the effect that it would have had at its end
    does not happen (asked from `test_effects`).
    """
    async with bench.connect() as peer:
        await has_tools(peer, "test_wait", "test_effects")
        token = unique("cancelled")
        exchange = await peer.call(
            "tools/call", {"name": "test_wait", "arguments": {"milliseconds": 400, "effect": token}}
        )
        await peer.probe()
        if peer.stateless and isinstance(peer, WebPeer):
            exchange.cut()
        else:
            await peer.tell("notifications/cancelled", {"requestId": exchange.id})
        await trio.sleep(0.8)
        await peer.probe()
        expect(
            exchange.response is None,
            "no response",
            exchange.response,
            rules="CANC-06 CANC26-09 CANC26-10 STDIO26-14",
        )
        count = await effects(peer, token)
        expect(
            count == 0,
            "no effect of a cancelled call",
            f"{count} effects",
            rules="CANC-05 CANC26-09 STDIO26-13",
        )


@check("CANC26-04 HTTP26-37 HTTP26-38", level=3, transport="http")
async def a_closed_stream_cancels(bench: Bench) -> None:
    """Calls `test_wait` and closes the connection: the effect that it would have had does not happen."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_wait", "test_effects")
        token = unique("closed")
        exchange = await peer.call(
            "tools/call",
            {"name": "test_wait", "arguments": {"milliseconds": 1500, "effect": token}},
        )
        await trio.sleep(0.3)
        exchange.cut()
        await trio.sleep(1.8)
        count = await effects(peer, token)
        expect(count == 0, "no effect of a call whose stream was closed", f"{count} effects")


@check("HTTP-20", level=3, transport="http")
async def a_dropped_stream_does_not_cancel(bench: Bench) -> None:
    """Calls `test_wait` and drops the connection: the effect at its end happens all the same."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_wait", "test_effects")
        token = unique("dropped")
        exchange = await peer.call(
            "tools/call", {"name": "test_wait", "arguments": {"milliseconds": 300, "effect": token}}
        )
        await trio.sleep(0.15)
        exchange.cut()
        await trio.sleep(0.8)
        count = await effects(peer, token)
        expect(count == 1, "the effect of the call", f"{count} effects")


def unique(word: str) -> str:
    """A name that no other run has used: the server may remember."""
    return f"{word}-{secrets.token_hex(8)}"


async def effects(peer: Peer, token: str) -> int:
    """How often `test_wait` came to its end with this token."""
    result = await peer.need("tools/call", {"name": "test_effects", "arguments": {"effect": token}})
    texts = [each.get("text", "") for each in result.get("content", []) if isinstance(each, dict)]
    try:
        return int(texts[0])
    except (IndexError, ValueError):
        raise Unreachable(f"test_effects gives {texts}, not a number") from None


async def has_tools(peer: Peer, *names: str) -> None:
    """Raise Unreachable unless the server has these tools."""
    listed = {tool.get("name") for tool in await peer.listed("tools/list", "tools")}
    missing = [name for name in names if name not in listed]
    if missing:
        raise Unreachable(f"the fixture has no tool {', '.join(missing)}")


@check("JRPC-27 PING-02 STATE26-02", level=3)
async def a_slow_call_holds_nothing_up(bench: Bench) -> None:
    """Calls `test_wait` for a second; a harmless request meanwhile is answered before it."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_wait")
        slow = await peer.call(
            "tools/call",
            {"name": "test_wait", "arguments": {"milliseconds": 1000, "effect": "slow"}},
        )
        await peer.probe()
        expect(slow.response is None, "the later answer first", "the slow call was answered first")
        await peer.answered(slow)


@check("PROG-06 PROG-09 PROG-10 PROG26-06 PROG26-09 PROG26-10", level=3)
async def progress_of_a_call(bench: Bench) -> None:
    """Calls `test_tool_with_progress` with a token: progress comes before the answer, growing, under that
    token; without a token there is none.
    """
    async with bench.connect() as peer:
        await has_tools(peer, "test_tool_with_progress")
        for token in ("conformance-1", 7):
            before = len(peer.notes)
            params = {
                "name": "test_tool_with_progress",
                "arguments": {},
                "_meta": {"progressToken": token},
            }
            exchange = await peer.ask("tools/call", params)
            mine = [n for n in peer.notes[before:] if n.get("method") == "notifications/progress"]
            values = [note.get("params", {}).get("progress") for note in mine]
            expect(mine, "progress before the answer", "none", sent=exchange.sent)
            tokens = {repr(note.get("params", {}).get("progressToken")) for note in mine}
            expect(
                tokens == {repr(token)}, f"the token {token!r}", tokens, rules="PROG-09 PROG26-09"
            )
            grows = all(one < other for one, other in itertools.pairwise(values))
            expect(grows, "growing values", values, rules="PROG-06 PROG26-06")
        before = len(peer.notes)
        await peer.ask("tools/call", {"name": "test_tool_with_progress", "arguments": {}})
        await peer.probe()
        late = [n for n in peer.notes[before:] if n.get("method") == "notifications/progress"]
        expect(
            not late,
            "no progress without a token, and none after the answer",
            late,
            rules="PROG-09 PROG-10 PROG26-09 PROG26-10",
        )


async def _pages(peer: Peer, method: str) -> list[dict[str, Any]]:
    pages, cursor = [], None
    for _ in range(100):
        page = await peer.need(method, {} if cursor is None else {"cursor": cursor})
        pages.append(page)
        cursor = page.get("nextCursor")
        if cursor is None:
            return pages
    raise Broken("an end of the pages", "a hundred pages and a next one")


@check("PAGE-04 PAGE26-02", level=2)
async def pages_have_an_end_and_no_doubles(peer: Peer) -> None:
    """Walks every declared list by its cursors: it ends, and no entry comes twice."""
    walked = False
    for name, methods in LISTS.items():
        for method, member, key in methods if name in peer.capabilities else ():
            pages = await _pages(peer, method)
            keys = [
                entry.get(key)
                for page in pages
                for entry in page.get(member, [])
                if isinstance(entry, dict)
            ]
            double = {each for each in keys if keys.count(each) > 1}
            expect(not double, f"each entry of {method} once", sorted(map(str, double)))
            walked = True
    if not walked:
        raise NotApplicable("the server has no lists")


@check("PAGE-07 PAGE26-07", level=2)
async def cursors_are_stable(peer: Peer) -> None:
    """Asks twice with the same cursor: the same page comes."""
    used = False
    for name, methods in LISTS.items():
        for method, member, _ in methods if name in peer.capabilities else ():
            first = await peer.need(method)
            if isinstance(cursor := first.get("nextCursor"), str):
                one, other = [await peer.need(method, {"cursor": cursor}) for _ in range(2)]
                expect(one.get(member) == other.get(member), "the same page twice", [one, other])
                used = True
    if not used:
        raise NotApplicable("no list has more than one page")


@check("PAGE26-09", level=2)
async def cursors_work_on_any_connection(bench: Bench) -> None:
    """Asks for a second page on another connection: it comes."""
    async with bench.connect() as one, bench.connect() as other:
        used = False
        for name, methods in LISTS.items():
            for method, _, _ in methods if name in one.capabilities else ():
                if isinstance(cursor := (await one.need(method)).get("nextCursor"), str):
                    exchange = await other.ask(method, {"cursor": cursor})
                    expect(
                        isinstance(exchange.result, dict),
                        "the page",
                        exchange.response,
                        sent=exchange.sent,
                    )
                    used = True
        if not used:
            raise NotApplicable("no list has more than one page")


@check("PAGE-08 PAGE26-08 ERR-12")
async def bad_cursors_are_refused(peer: Peer) -> None:
    """Asks with a cursor that the server never gave: -32602."""
    asked = False
    for name, methods in LISTS.items():
        for method, _, _ in methods if name in peer.capabilities else ():
            exchange = await peer.ask(method, {"cursor": "conformance-bogus"})
            expect(exchange.code == -32602, "-32602", exchange.response, sent=exchange.sent)
            asked = True
    if not asked:
        raise NotApplicable("the server has no lists")


@check("LOG-03", needs="logging")
async def every_level_can_be_set(peer: Peer) -> None:
    """Sets each level in turn: an empty result each time."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        exchange = await peer.ask("logging/setLevel", {"level": level})
        expect(
            isinstance(exchange.result, dict),
            "an empty result",
            exchange.response,
            sent=exchange.sent,
        )


@check("LOG-07", needs="logging")
async def bad_levels_are_invalid(peer: Peer) -> None:
    """Sets a level that nobody knows: -32602."""
    exchange = await peer.ask("logging/setLevel", {"level": "loud"})
    expect(exchange.code == -32602, "-32602", exchange.response, sent=exchange.sent)


@check("LOG-04", level=3, needs="logging")
async def the_level_holds(bench: Bench) -> None:
    """Sets the level to error and calls `test_tool_with_logging`, which logs at info: nothing comes.
    Sets it to
    debug and calls again: the messages come.
    """
    async with bench.connect() as peer:
        peer.needs("logging") if peer.declares("logging") else None
        await has_tools(peer, "test_tool_with_logging")
        for level, wanted in (("error", False), ("debug", True)):
            await peer.need("logging/setLevel", {"level": level})
            before = len(peer.notes)
            await peer.ask("tools/call", {"name": "test_tool_with_logging", "arguments": {}})
            logs = [n for n in peer.notes[before:] if n.get("method") == "notifications/message"]
            expect(bool(logs) == wanted, "messages" if wanted else "no message", logs)


@check("LOG26-04 LOG26-05", level=3)
async def logs_come_when_asked_for(bench: Bench) -> None:
    """Calls `test_logging_tool` without a log level (nothing comes) and with the level debug (messages
    come).
    """
    async with bench.connect() as peer:
        await has_tools(peer, "test_logging_tool")
        for level in (None, "debug"):
            before = len(peer.notes)
            meta = {} if level is None else {"io.modelcontextprotocol/logLevel": level}
            await peer.ask(
                "tools/call", {"name": "test_logging_tool", "arguments": {}, "_meta": meta}
            )
            logs = [n for n in peer.notes[before:] if n.get("method") == "notifications/message"]
            expect(level is not None or not logs, "no message without a level", logs)


@check("LOG26-09")
async def unknown_log_levels_are_invalid(peer: Peer) -> None:
    """Sends a request with a log level that nobody knows: -32602."""
    if "logging" not in peer.capabilities:
        raise NotApplicable("the server does not log")
    exchange = await peer.ask("tools/list", {"_meta": {"io.modelcontextprotocol/logLevel": "loud"}})
    expect(exchange.code == -32602, "-32602", exchange.response, sent=exchange.sent)


@check("COMP-01 COMP26-01", needs="completions", level=2)
async def completion_works(peer: Peer) -> None:
    """Completes the first argument of the first prompt that has one."""
    for prompt in (
        await peer.listed("prompts/list", "prompts") if "prompts" in peer.capabilities else ()
    ):
        for argument in prompt.get("arguments") or ():
            params = {
                "ref": {"type": "ref/prompt", "name": prompt["name"]},
                "argument": {"name": argument["name"], "value": ""},
            }
            exchange = await peer.ask("completion/complete", params)
            expect(
                isinstance(exchange.result, dict),
                "a completion",
                exchange.response,
                sent=exchange.sent,
            )
            return
    raise NotApplicable("no prompt has an argument")


@check("COMP-06 COMP26-04", needs="completions")
async def completing_the_unknown_is_invalid(peer: Peer) -> None:
    """Completes for a prompt that does not exist: -32602."""
    params = {
        "ref": {"type": "ref/prompt", "name": "conformance_nope"},
        "argument": {"name": "a", "value": ""},
    }
    exchange = await peer.ask("completion/complete", params)
    expect(exchange.code == -32602, "-32602", exchange.response, sent=exchange.sent)
