"""The handshake: versions, capabilities, and what may be said before it is over."""

from typing import Any

import trio

from ... import revisions
from ...speaking import Bench, Peer, WebPeer
from ...speaking.bench import introduce
from ...speaking.peer import NAME
from ...verdicts import Broken, NotApplicable, expect
from .. import check


def greeting(version: Any, **more: Any) -> dict[str, Any]:
    """The params of `initialize`."""
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": NAME, **more}


@check("LIFE-13")
async def nothing_is_needed_but_the_base(bench: Bench) -> None:
    """Opens a session with empty capabilities and sends a ping: both work."""
    async with bench.connect(capabilities={}) as peer:
        await peer.probe()


@check("LIFE-07")
async def the_server_waits_for_initialized(bench: Bench) -> None:
    """Holds `notifications/initialized` back for a while: the server asks nothing but `ping` meanwhile."""
    async with bench.connect(initialized=False) as peer:
        await trio.sleep(0.3)
        await peer.probe()
        asked = [each for each in peer.asked if each.get("method") != "ping"]
        expect(not asked, "no request but ping before initialized", asked)


@check("LIFE-08 PING-01")
async def ping_works_before_initialized(bench: Bench) -> None:
    """Sends `ping` between the answer to `initialize` and `notifications/initialized`: it is answered."""
    async with bench.connect(initialized=False) as peer:
        await peer.probe()


@check("LIFE-11")
async def features_wait_for_initialize(bench: Bench) -> None:
    """Asks for `tools/list` first: no session is pretended. (Being served is a warning.) Then a proper
    handshake works, or the conversation has ended.
    """
    async with bench.open() as peer:
        peer.transcript.lawful = False
        exchange = await peer.call("tools/list")
        try:
            await peer.answered(exchange)
        except Broken:
            if peer.closed.is_set():
                return
        await introduce(peer)
        expect(
            "result" not in (exchange.response or {}),
            "an error or a refusal",
            exchange.response,
            soft=True,
        )


@check("VERS-03")
async def a_spoken_version_is_echoed(bench: Bench) -> None:
    """Asks for this revision, which the server is known to speak: the answer names the same one."""
    async with bench.open() as peer:
        exchange = await peer.ask("initialize", greeting(bench.revision))
        got = (exchange.result or {}).get("protocolVersion")
        expect(got == bench.revision, bench.revision, got, sent=exchange.sent)


@check("VERS-04", once=True)
async def an_unknown_version_is_countered(bench: Bench) -> None:
    """Asks for revisions that do not exist: the answer is a result with one that does. (An error is a
    warning: a page shows one as an example.)
    """
    for version in (revisions.UNKNOWN, "9999-12-31", "x"):
        async with bench.open() as peer:
            peer.transcript.lawful = False
            exchange = await peer.ask("initialize", greeting(version))
            if exchange.error:
                raise Broken(
                    "a result with a revision that the server speaks",
                    exchange.response,
                    sent=exchange.sent,
                    soft=True,
                )
            got = (exchange.result or {}).get("protocolVersion")
            expect(got in revisions.ALL, "a revision that exists", got, sent=exchange.sent)


@check("VERS-05", once=True)
async def the_counter_offer_is_the_newest(bench: Bench) -> None:
    """Asks for a revision that does not exist: the counter-offer is the newest that the server speaks."""
    async with bench.open() as peer:
        peer.transcript.lawful = False
        exchange = await peer.ask("initialize", greeting(revisions.UNKNOWN))
        got = (exchange.result or {}).get("protocolVersion")
        spoken = [each for each in bench.settled if each in revisions.HANDSHAKE]
        if exchange.error or got not in revisions.ALL:
            raise NotApplicable("it makes no counter-offer")
        expect(got == spoken[-1] or got not in spoken, spoken[-1], got, sent=exchange.sent)


@check("VERS-10", once=True)
async def versions_are_compared_whole(bench: Bench) -> None:
    """Asks for a known revision with a space before it, and without the zeros: they are unknown ones."""
    for version in (f" {bench.revision}", bench.revision.replace("-0", "-")):
        if version == bench.revision:
            continue
        async with bench.open() as peer:
            peer.transcript.lawful = False
            exchange = await peer.ask("initialize", greeting(version))
            got = (exchange.result or {}).get("protocolVersion")
            expect(got != version, "a counter-offer", got, sent=exchange.sent)


@check("VERS-11 CAP-03")
async def unknown_capabilities_are_ignored(bench: Bench) -> None:
    """Declares capabilities and members that nobody knows: the handshake works."""
    odd = {"experimental": {"conformance": {"a": 1}}, "conformance_nope": {"b": []}}
    async with bench.open() as peer:
        exchange = await peer.ask(
            "initialize", greeting(bench.revision, capabilities=odd, conformance=1)
        )
        expect(isinstance(exchange.result, dict), "a result", exchange.response, sent=exchange.sent)


FEATURES: dict[str, tuple[str, dict[str, Any]]] = {
    "tools": ("tools/list", {}),
    "resources": ("resources/list", {}),
    "prompts": ("prompts/list", {}),
    "completions": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "nope"}, "argument": {"name": "a", "value": ""}},
    ),
    "logging": ("logging/setLevel", {"level": "info"}),
}


def gated(peer: Peer) -> dict[str, tuple[str, dict[str, Any]]]:
    """The features whose methods a server must have declared, in the revision of ``peer``."""
    without = {"logging"} if peer.stateless else set()
    if peer.revision == revisions.FIRST:
        without.add("completions")
    return {name: what for name, what in FEATURES.items() if name not in without}


@check("CAP-05 ERR-11")
async def undeclared_features_are_refused(peer: Peer) -> None:
    """Asks for each feature that the server did not declare: an error comes, not silence."""
    missing = {
        name: what
        for name, what in gated(peer).items()
        if not peer.declares(name) and name not in peer.capabilities
    }
    if not missing:
        raise NotApplicable("the server declares every feature")
    peer.transcript.lawful = False
    for method, params in missing.values():
        exchange = await peer.ask(method, params)
        if exchange.result is None:
            expect(
                exchange.code == -32601, "-32601", exchange.response, sent=exchange.sent, soft=True
            )


@check("CAP-06 DISC-10")
async def what_works_is_declared(peer: Peer) -> None:
    """Asks for each feature that the server did not declare: none of them works."""
    for name, (method, params) in gated(peer).items():
        if name not in peer.capabilities:
            peer.transcript.lawful = False
            exchange = await peer.ask(method, params)
            expect(
                exchange.result is None,
                f"{name} declared, or {method} refused",
                exchange.response,
                sent=exchange.sent,
            )


@check("TOOL-01 TOOL26-01", needs="tools")
async def declared_tools_work(peer: Peer) -> None:
    """Lists the tools that the server declared."""
    exchange = await peer.ask("tools/list")
    expect(isinstance(exchange.result, dict), "a result", exchange.response, sent=exchange.sent)


@check("RES-01 RES26-01 RES26-03", needs="resources")
async def declared_resources_work(peer: Peer) -> None:
    """Lists the resources that the server declared."""
    exchange = await peer.ask("resources/list")
    expect(isinstance(exchange.result, dict), "a result", exchange.response, sent=exchange.sent)


@check("PROMPT-01 PROMPT26-01 PROMPT26-02", needs="prompts")
async def declared_prompts_work(peer: Peer) -> None:
    """Lists the prompts that the server declared."""
    exchange = await peer.ask("prompts/list")
    expect(isinstance(exchange.result, dict), "a result", exchange.response, sent=exchange.sent)


@check("SHUT-07", transport="http")
async def a_dropped_connection_is_survived(bench: Bench) -> None:
    """Opens a session and lets its connections go without a word: the server serves the next client."""
    async with bench.connect():
        pass
    async with bench.connect() as peer:
        assert isinstance(peer, WebPeer)
        await peer.probe()
