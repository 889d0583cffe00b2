"""The stateless era: terms in every request, versions, discovery, subscriptions."""

from typing import Any

import trio

from ... import revisions
from ...speaking import Bench, Exchange, Peer, WebPeer
from ...speaking.bench import introduce
from ...speaking.peer import META
from ...verdicts import Broken, NotApplicable, expect
from .. import check
from .utilities import has_tools


async def sent(
    peer: Peer, message: dict[str, Any], headers: dict[str, Any] | None = None
) -> Exchange:
    """Send a message that need not be lawful, and wait for its answer."""
    peer.transcript.lawful = False
    exchange = await peer.post(message, headers=headers)
    if isinstance(peer, WebPeer):
        return await peer.ended(exchange)
    return await peer.answered(exchange)


def without(message: dict[str, Any], name: str) -> dict[str, Any]:
    """The message without one member of its `_meta`."""
    meta = {
        key: value for key, value in message["params"]["_meta"].items() if key != f"{META}{name}"
    }
    return {**message, "params": {**message["params"], "_meta": meta}}


def got(exchange: Exchange) -> Any:
    """The answer for a finding."""
    return (
        exchange.response
        if exchange.response is not None
        else f"HTTP {exchange.status} {exchange.body[:200]!r}"
    )


@check("META26-04 META26-05 HTTP26-50 STATE26-01")
async def requests_without_terms_are_refused(bench: Bench) -> None:
    """Sends requests without params, without `_meta`, without the revision, without the capabilities, after a
    good one on the same conversation: -32602 each time (over HTTP with status 400; -32020 may come first).
    """
    async with bench.connect() as peer:
        good = peer.request("tools/list" if "tools" in peer.capabilities else "server/discover")
        bare = {key: value for key, value in good.items() if key != "params"}
        bad = [
            bare,
            {**good, "params": {}},
            without(good, "protocolVersion"),
            without(good, "clientCapabilities"),
        ]
        headers = peer.mirrored(good) if isinstance(peer, WebPeer) else None
        for number, message in enumerate(bad):
            exchange = await sent(peer, {**message, "id": f"bad-{number}"}, headers)
            codes = (-32602, -32020) if isinstance(peer, WebPeer) else (-32602,)
            expect(
                exchange.code in codes,
                "-32602",
                got(exchange),
                sent=message,
                rules="META26-04 STATE26-01",
            )
            if isinstance(peer, WebPeer):
                expect(
                    exchange.status == 400,
                    "HTTP 400",
                    got(exchange),
                    sent=message,
                    rules="META26-05 HTTP26-50",
                )


@check("META26-06", strays=True)
async def the_name_of_the_client_is_optional(peer: Peer) -> None:
    """Sends a request without `clientInfo`: it is served."""
    exchange = await sent(peer, without(peer.request("server/discover"), "clientInfo"))
    expect(isinstance(exchange.result, dict), "a result", exchange.response, sent=exchange.sent)


@check("META26-07")
async def terms_of_the_wrong_type_are_invalid(bench: Bench) -> None:
    """Sends revisions and capabilities that are numbers, null and arrays: -32602 (or -32020 over HTTP)."""
    async with bench.connect() as peer:
        for name, value in (
            ("protocolVersion", 7),
            ("protocolVersion", None),
            ("clientCapabilities", []),
            ("clientCapabilities", 1),
        ):
            message = peer.request("server/discover", {"_meta": {f"{META}{name}": value}})
            headers = {"MCP-Protocol-Version": peer.revision} if isinstance(peer, WebPeer) else None
            exchange = await sent(peer, message, headers)
            expect(exchange.code in (-32602, -32020), "-32602", got(exchange), sent=message)


@check("META26-22 EXT26-09 EXT26-11 OTEL-03", strays=True)
async def unknown_terms_are_ignored(peer: Peer) -> None:
    """Sends unknown keys, extensions, experimental capabilities and garbage for a trace: the request
    works.
    """
    more = {
        f"{META}conformance": {"a": 1},
        "traceparent": "garbage",
        f"{META}clientCapabilities": {
            **peer.own_capabilities,
            "extensions": {"org.example.conformance/nope": {"x": 1}},
            "experimental": {"conformance": {}},
        },
    }
    exchange = await peer.ask("server/discover", {"_meta": more})
    expect(isinstance(exchange.result, dict), "a result", exchange.response, sent=exchange.sent)


@check("VERS26-02 VERS26-03 VERS26-04 DISC-11 HTTP26-23")
async def unknown_revisions_are_named(bench: Bench) -> None:
    """Sends a request of a revision that does not exist: -32022 with what was asked and what is served, over
    HTTP with status 400.
    """
    async with bench.connect() as peer:
        for version in (revisions.UNKNOWN, "zzz"):
            message = peer.request(
                "server/discover", {"_meta": {f"{META}protocolVersion": version}}
            )
            exchange = await sent(peer, message)
            data = exchange.error.get("data")
            expect(
                exchange.code == -32022,
                "-32022",
                got(exchange),
                sent=message,
                rules="VERS26-02 DISC-11 HTTP26-23",
            )
            typed = (
                isinstance(data, dict)
                and data.get("requested") == version
                and isinstance(data.get("supported"), list)
            )
            expect(
                typed,
                "data.requested and data.supported",
                got(exchange),
                sent=message,
                rules="VERS26-03",
            )
            if isinstance(peer, WebPeer):
                expect(
                    exchange.status == 400,
                    "HTTP 400",
                    got(exchange),
                    sent=message,
                    rules="VERS26-04 HTTP26-23",
                )


@check("VERS26-06")
async def each_request_stands_alone(bench: Bench) -> None:
    """Sends a good request, one of an unknown revision and a good one: the bad one harms neither."""
    async with bench.connect() as peer:
        await peer.probe()
        await sent(
            peer, peer.request("server/discover", {"_meta": {f"{META}protocolVersion": "zzz"}})
        )
        await peer.probe()


@check("VERS26-07 DISC-01")
async def any_request_may_come_first(bench: Bench) -> None:
    """Opens a conversation with `tools/list`, without any discovery: it is served, or refused in words."""
    async with bench.open() as peer:
        exchange = await peer.ask("tools/list")
        fine = isinstance(exchange.result, dict) or exchange.code == -32601
        expect(fine, "a result", exchange.response, sent=exchange.sent)
        await peer.need("server/discover")


@check("VERS26-09 VERS26-10 COMPAT-05", once=True)
async def modern_servers_refuse_the_handshake(bench: Bench) -> None:
    """Sends `initialize` to a server that speaks no revision with a handshake: an error, which names what is
    spoken.
    """
    if any(each in revisions.HANDSHAKE for each in bench.settled):
        raise NotApplicable("the server also serves the handshake")
    async with bench.open(revisions.LAST_HANDSHAKE) as peer:
        peer.transcript.lawful = False
        message = peer.request(
            "initialize",
            {
                "protocolVersion": peer.revision,
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            },
        )
        exchange = await sent(peer, message)
        refused = exchange.result is None and (exchange.error or (exchange.status or 0) >= 400)
        expect(refused, "an error", got(exchange), sent=message, rules="VERS26-09 COMPAT-05")
        named = bench.revision in str(exchange.response or exchange.body)
        expect(
            named,
            f"an error that names {bench.revision}",
            got(exchange),
            sent=message,
            rules="VERS26-10",
        )


@check("VERS26-15 VERS26-16 COMPAT-06 VERS26-17")
async def both_eras_side_by_side(bench: Bench) -> None:
    """Where the server also serves a handshake: opens both kinds of conversation beside each other. What the
    handshake gives has nothing of the stateless era in it.
    """
    older = [each for each in bench.settled if each in revisions.HANDSHAKE]
    if not older:
        raise NotApplicable("the server serves this era alone")
    async with bench.connect() as modern, bench.connect(older[-1]) as legacy:
        await modern.probe()
        await legacy.probe()
        for name, method in (
            ("tools", "tools/list"),
            ("prompts", "prompts/list"),
            ("resources", "resources/list"),
        ):
            if name in legacy.capabilities:
                result = await legacy.need(method)
                leaked = {"resultType", "ttlMs", "cacheScope"} & set(result)
                expect(
                    not leaked, "nothing of the stateless era", sorted(leaked), rules="VERS26-17"
                )
        await modern.probe()


REMOVED = (
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "foo/bar",
)


@check("HTTP26-24 LOG26-14 RES26-24 ERR-01")
async def removed_methods_are_unknown(bench: Bench) -> None:
    """Sends methods that this era does not have: -32601, over HTTP with status 404."""
    async with bench.connect() as peer:
        for method in REMOVED:
            exchange = await sent(
                peer, peer.request(method, {"uri": "conformance://x", "level": "info"})
            )
            expect(exchange.code == -32601, "-32601", got(exchange), sent=exchange.sent)
            if isinstance(peer, WebPeer):
                expect(
                    exchange.status == 404,
                    "HTTP 404",
                    got(exchange),
                    sent=exchange.sent,
                    rules="HTTP26-24",
                )


@check("HTTP26-25 ERR-11")
async def undeclared_methods_are_unknown(bench: Bench) -> None:
    """Sends methods behind capabilities that were not declared: -32601, over HTTP with status 404."""
    methods = {"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list"}
    async with bench.connect() as peer:
        missing = [method for name, method in methods.items() if name not in peer.capabilities]
        if not missing:
            raise NotApplicable("the server declares every feature")
        for method in missing:
            exchange = await sent(peer, peer.request(method))
            expect(exchange.code == -32601, "-32601", got(exchange), sent=exchange.sent)
            if isinstance(peer, WebPeer):
                expect(
                    exchange.status == 404,
                    "HTTP 404",
                    got(exchange),
                    sent=exchange.sent,
                    rules="HTTP26-25",
                )


@check("STATE26-03 STATE26-06 META26-26")
async def connections_establish_nothing(bench: Bench) -> None:
    """Sends requests with and without capabilities by turns, on two conversations: all are answered alike."""
    async with bench.connect() as one, bench.connect() as other:
        results = []
        for peer, capabilities in (
            (one, {}),
            (other, one.own_capabilities),
            (one, one.own_capabilities),
            (other, {}),
        ):
            exchange = await peer.ask(
                "server/discover", {"_meta": {f"{META}clientCapabilities": capabilities}}
            )
            results.append((exchange.result or {}).get("capabilities"))
        expect(all(each == results[0] for each in results), "the same answer each time", results)


@check("META26-25", transport="stdio")
async def cancellations_need_no_terms(bench: Bench) -> None:
    """Cancels without `_meta`: it is no error."""
    async with bench.connect() as peer:
        exchange = await peer.call("server/discover")
        await peer.tell("notifications/cancelled", {"requestId": exchange.id})
        await peer.probe()


# Subscriptions


async def listening(
    peer: Peer, wanted: dict[str, Any], **more: Any
) -> tuple[Exchange, dict[str, Any]]:
    """Listen, and wait for the acknowledgement; raises NotApplicable where the server has no
    subscriptions.
    """
    before = len(peer.notes)
    exchange = await peer.call("subscriptions/listen", {"notifications": wanted}, **more)
    name = "notifications/subscriptions/acknowledged"
    found = await peer.until(
        lambda: (
            exchange.response
            or next((note for note in peer.notes[before:] if note.get("method") == name), None)
        ),
        "an acknowledgement",
    )
    if "error" in found:
        if exchange.code == -32601:
            raise NotApplicable("the server has no subscriptions")
        raise Broken("an acknowledgement", found, sent=exchange.sent)
    return exchange, found


def announcing(peer: Peer) -> dict[str, bool]:
    """The kinds of changes that the server declared it would announce."""
    kinds = {
        "tools.listChanged": "toolsListChanged",
        "prompts.listChanged": "promptsListChanged",
        "resources.listChanged": "resourcesListChanged",
    }
    return {kind: True for path, kind in kinds.items() if peer.declares(path)}


@check("SUBS-05 SUBS-09 SUBS-11 SUBS-26")
async def subscriptions_are_acknowledged(bench: Bench) -> None:
    """Listens to every kind: the first message is the acknowledgement, with the id of the request in the same
    JSON type; a string and an integer are tried. Over HTTP it comes on an event stream.
    """
    async with bench.connect() as peer:
        if not announcing(peer):
            raise NotApplicable("the server announces no changes")
        for identity in ("conformance-listen", 70001):
            exchange, acknowledged = await listening(peer, announcing(peer), id=identity)
            tag = acknowledged.get("params", {}).get("_meta", {}).get(f"{META}subscriptionId")
            expect(
                type(tag) is type(identity) and tag == identity,
                f"the subscriptionId {identity!r}",
                acknowledged,
                rules="SUBS-11",
            )
            if isinstance(peer, WebPeer):
                expect(
                    exchange.media_type == "text/event-stream",
                    "an event stream",
                    exchange.media_type,
                    rules="SUBS-26",
                )


@check("SUBS-29")
async def an_empty_filter_is_acknowledged(bench: Bench) -> None:
    """Listens to nothing: acknowledged, or -32602."""
    async with bench.connect() as peer:
        before = len(peer.notes)
        exchange = await peer.call("subscriptions/listen", {"notifications": {}})
        await peer.until(
            lambda: exchange.response or len(peer.notes) > before, "an acknowledgement or an error"
        )
        if exchange.response is not None:
            expect(
                exchange.code in (-32602, -32601), "-32602", exchange.response, sent=exchange.sent
            )


@check("SUBS-31")
async def a_filter_is_required(bench: Bench) -> None:
    """Listens without a filter and with an array for one: -32602, and no acknowledgement."""
    async with bench.connect() as peer:
        odd: tuple[dict[str, Any], ...] = ({}, {"notifications": []})
        for params in odd:
            exchange = await sent(peer, peer.request("subscriptions/listen", params))
            if exchange.code == -32601:
                raise NotApplicable("the server has no subscriptions")
            expect(exchange.code == -32602, "-32602", got(exchange), sent=exchange.sent)


@check("SUBS-03 SUBS-04 SUBS-24 TOOL26-26 PROMPT26-11", level=3)
async def changes_reach_those_who_listen(bench: Bench) -> None:
    """Listens to tools on one subscription and to prompts on another, and changes the tools: only the first
    hears of it.
    """
    async with bench.connect() as peer:
        await has_tools(peer, "test_trigger_tool_change", "test_trigger_prompt_change")
        kinds = announcing(peer)
        if not {"toolsListChanged", "promptsListChanged"} <= set(kinds):
            raise NotApplicable("the server does not announce changes of both lists")
        await listening(peer, {"toolsListChanged": True}, id="listen-tools")
        await listening(peer, {"promptsListChanged": True}, id="listen-prompts")
        for trigger, method, tag in (
            ("test_trigger_tool_change", "notifications/tools/list_changed", "listen-tools"),
            ("test_trigger_prompt_change", "notifications/prompts/list_changed", "listen-prompts"),
        ):
            before = len(peer.notes)
            await peer.need("tools/call", {"name": trigger, "arguments": {}})
            await peer.note(method, after=before)
            await trio.sleep(0.2)
            tags = [
                note["params"]["_meta"].get(f"{META}subscriptionId")
                for note in peer.notes[before:]
                if note.get("method") == method
            ]
            expect(set(tags) == {tag}, f"the change on {tag} alone", tags)


@check("SUBS-15 SUBS-14", level=3)
async def ended_subscriptions_are_silent(bench: Bench) -> None:
    """Listens, ends the subscription, and changes the tools: nothing more comes for it."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_trigger_tool_change")
        if "toolsListChanged" not in announcing(peer):
            raise NotApplicable("the server does not announce changes of its tools")
        exchange, _ = await listening(peer, {"toolsListChanged": True})
        if isinstance(peer, WebPeer):
            exchange.cut()
        else:
            await peer.tell("notifications/cancelled", {"requestId": exchange.id})
        await peer.probe()
        before = len(peer.notes)
        await peer.need("tools/call", {"name": "test_trigger_tool_change", "arguments": {}})
        await trio.sleep(0.3)
        late = [
            n
            for n in peer.notes[before:]
            if n.get("params", {}).get("_meta", {}).get(f"{META}subscriptionId") == exchange.id
        ]
        expect(not late, "nothing for an ended subscription", late)


@check("SUBS-13 SUBS-07")
async def several_subscriptions_at_once(bench: Bench) -> None:
    """Listens three times at once: each is acknowledged, and requests between them are answered."""
    async with bench.connect() as peer:
        if not announcing(peer):
            raise NotApplicable("the server announces no changes")
        for number in range(3):
            await listening(peer, announcing(peer), id=f"listen-{number}")
            await peer.probe()


@check("SUBS-16 SUBS-18", transport="stdio")
async def subscriptions_end_with_the_server(bench: Bench) -> None:
    """Listens and closes the server's input: it exits; a result or a cancellation for the subscription is
    welcome, not required.
    """
    async with bench.connect() as peer:
        if not announcing(peer):
            raise NotApplicable("the server announces no changes")
        exchange, _ = await listening(peer, announcing(peer))
        await peer.child.close_input()
        gone = await peer.child.exited_within(bench.limit)
        expect(gone, "an exit with an open subscription", f"still running after {bench.limit:g} s")
        expect(
            "error" not in (exchange.response or {}),
            "a result, or nothing",
            exchange.response,
            soft=True,
        )


@check("TRAN26-02 VERS26-01")
async def introduced_again_it_says_the_same(bench: Bench) -> None:
    """Discovers twice: the same revisions and capabilities."""
    async with bench.connect() as peer:
        first = peer.opening
        await introduce(peer)
        same = all(
            first.get(name) == peer.opening.get(name)
            for name in ("supportedVersions", "capabilities")
        )
        expect(same, "the same discovery", [first, peer.opening])
