"""JSON-RPC from the server's side: what it makes of good and bad messages."""

from typing import Any

from ...speaking import Bench, Peer, PipePeer, WebPeer
from ...transcript import UNREADABLE, parse
from ...verdicts import Broken, expect
from .. import check, same

PROBE_IDS = ["7", 7, 0, -1, "", 2**53 - 1, "x" * 300, "naïve ☃"]


def living(peer: Peer) -> str:
    """A method that any opened server answers without parameters."""
    return "server/discover" if peer.stateless else "ping"


@check("JRPC-07 JRPC26-07 JRPC26-08")
async def ids_come_back_as_sent(peer: Peer) -> None:
    """Sends the same harmless request with strings, small, large and negative numbers, the empty string and
    non-ASCII text as ids, and compares what comes back by value and JSON type.
    """
    for identity in PROBE_IDS:
        exchange = await peer.ask(living(peer), id=identity)
        got = (exchange.response or {}).get("id")
        expect(
            same(got, identity),
            f"the id {identity!r} in the response",
            repr(got),
            sent=exchange.sent,
        )


@check("JRPC-03 JRPC26-04")
async def null_is_no_id(bench: Bench) -> None:
    """Sends a known request with the id null: no result may come back."""
    async with bench.connect() as peer:
        peer.transcript.lawful = False
        exchange = await peer.post(peer.request(living(peer), id=None))
        if isinstance(peer, WebPeer):
            await peer.ended(exchange)
        await peer.probe()
        results = [each for each in peer.strays if isinstance(each, dict) and "result" in each]
        results += (
            [exchange.response] if exchange.response and "result" in exchange.response else []
        )
        expect(not results, "no result for a request whose id is null", results)


@check("JRPC-04 JRPC26-06")
async def odd_ids_are_not_bent(bench: Bench) -> None:
    """Sends ids that are a fraction, true, an array and an object: they are refused or come back as they
    are; an answer under a changed id breaks the rule.
    """
    odds: tuple[Any, ...] = (1.5, True, [], {})
    for odd in odds:
        async with bench.connect() as peer:
            peer.transcript.lawful = False
            exchange = await peer.post(peer.request(living(peer), id=odd))
            if isinstance(peer, WebPeer):
                await peer.ended(exchange)
            await peer.probe()
            for stray in [*peer.strays, *([exchange.response] if exchange.response else [])]:
                if isinstance(stray, dict) and "result" in stray:
                    expect(
                        same(stray.get("id"), odd),
                        f"a refusal of the id {odd!r}, or its faithful echo",
                        stray,
                    )


@check("JRPC-16 ERR-01")
async def unknown_methods_are_not_found(peer: Peer) -> None:
    """Asks for a method that nobody has: the error is -32601 and carries the id."""
    exchange = await peer.ask("conformance/nope")
    expect(exchange.code == -32601, "the error -32601", exchange.response, sent=exchange.sent)


@check("JRPC-14")
async def params_in_an_array_are_refused(bench: Bench) -> None:
    """Sends `params` as an array, the form of JSON-RPC that MCP does not have: -32602 or -32600."""
    async with bench.connect() as peer:
        peer.transcript.lawful = False
        exchange = await refused_or_answered(peer, {**peer.request("tools/list"), "params": []})
        if exchange is not None:
            fine = exchange.code in (-32602, -32600, -32601)
            expect(fine, "-32602 or -32600", exchange.response, sent=exchange.sent, soft=True)


async def refused_or_answered(peer: Peer, message: Any) -> Any:
    """The exchange of a request that may also be refused by HTTP (then None)."""
    exchange = await peer.post(message)
    if isinstance(peer, WebPeer):
        await peer.headed(exchange)
        if exchange.status is not None and 400 <= exchange.status < 500:
            return None
    return await peer.answered(exchange)


@check("JRPC-15")
async def params_may_be_left_out(peer: Peer) -> None:
    """Sends `ping` without params, with empty ones and with an empty `_meta`: three times the same answer."""
    forms: tuple[Any, ...] = (None, {}, {"_meta": {}})
    for params in forms:
        exchange = await peer.ask("ping", params)
        expect(isinstance(exchange.result, dict), "a result", exchange.response, sent=exchange.sent)


@check("JRPC-13 JRPC26-16")
async def notifications_get_no_answer(peer: Peer) -> None:
    """Sends an unknown notification, and one with params, then a request: only the request is answered."""
    before = len(peer.strays)
    for method, params in (
        ("notifications/conformance/nope", {}),
        ("notifications/conformance/other", {"progress": "much"}),
    ):
        exchange = await peer.tell(method, params)
        if isinstance(peer, WebPeer):
            await peer.ended(exchange)
    await peer.probe()
    wrong = [each for each in peer.strays[before:] if isinstance(each, dict) and "result" in each]
    if peer.transport == "stdio":
        wrong = peer.strays[before:]
    expect(not wrong, "nothing but the answer to the request that followed", wrong)


@check("JRPC-17 STDIO26-26 JRPC-23", transport="stdio")
async def garbage_does_not_kill(bench: Bench) -> None:
    """Writes a line that is not JSON: whatever is answered is -32700 without an id, or with the id null,
    and the server goes on.
    """
    async with bench.connect() as peer:
        assert isinstance(peer, PipePeer)
        await peer.write(b"{bad\n")
        await peer.probe()
        for stray in peer.strays:
            error = stray.get("error") if isinstance(stray, dict) else None
            good = isinstance(error, dict) and error.get("code") == -32700
            expect(good, "silence or -32700", stray, sent="{bad", rules="JRPC-17 STDIO26-26")
            expect(
                stray.get("id") is None,
                "no id: none could be read",
                stray,
                sent="{bad",
                rules="JRPC-23",
            )


@check("JRPC-17 HTTP26-51", transport="http")
async def garbage_is_refused(bench: Bench) -> None:
    """POSTs a body that is not JSON: an HTTP error, or -32700 with any status."""
    async with bench.connect() as peer:
        assert isinstance(peer, WebPeer)
        exchange = await peer.ended(await peer.send("POST", b"{bad"))
        await peer.probe()
        error = first_error(exchange)
        fine = (exchange.status or 0) >= 400 or error.get("code") == -32700
        expect(
            fine,
            "an HTTP error status or -32700",
            f"HTTP {exchange.status} {exchange.body[:200]!r}",
            sent="{bad",
        )


def first_error(exchange: Any) -> dict[str, Any]:
    """The JSON-RPC error in an HTTP answer, or an empty object."""
    message = parse(exchange.body) if exchange.body else None
    if message is UNREADABLE or not isinstance(message, dict):
        message = next((parse(event.data.encode()) for event in exchange.events if event.data), {})
    error = message.get("error") if isinstance(message, dict) else None
    return error if isinstance(error, dict) else {}


NOT_REQUESTS = [b"{}", b"42", b'"x"', b'{"jsonrpc":"2.0","method":7,"id":9001}']


@check("JRPC-18", transport="stdio")
async def what_is_no_request_is_refused(bench: Bench) -> None:
    """Writes JSON that is no message: silence or -32600, never a result, and the server goes on."""
    async with bench.connect() as peer:
        assert isinstance(peer, PipePeer)
        for raw in NOT_REQUESTS:
            await peer.write(raw + b"\n")
        await peer.probe()
        for stray in peer.strays:
            error = stray.get("error") if isinstance(stray, dict) else None
            good = isinstance(error, dict) and error.get("code") in (-32600, -32602, -32700)
            expect(good, "silence or -32600", stray)


@check("JRPC-18 HTTP26-51", transport="http")
async def bodies_that_are_no_request_are_refused(bench: Bench) -> None:
    """POSTs JSON that is no message: an HTTP error or -32600, never a result."""
    async with bench.connect() as peer:
        assert isinstance(peer, WebPeer)
        for raw in NOT_REQUESTS:
            exchange = await peer.ended(await peer.send("POST", raw))
            error = first_error(exchange)
            fine = (exchange.status or 0) >= 400 or error.get("code") in (-32600, -32602, -32700)
            fine = fine or (exchange.status == 202 and raw == b"{}")
            expect(
                fine,
                "an HTTP error status or -32600",
                f"HTTP {exchange.status} {exchange.body[:200]!r}",
                sent=raw,
            )
        await peer.probe()


@check("JRPC-01 JRPC26-01")
async def another_jsonrpc_is_not_served(bench: Bench) -> None:
    """Sends requests whose `jsonrpc` is "1.0", the number 2.0, or missing: they are refused. (Serving them
    is a warning: the duty is the sender's.)
    """
    async with bench.connect() as peer:
        peer.transcript.lawful = False
        for version in ("1.0", 2.0, None):
            message = peer.request(living(peer), jsonrpc=version)
            if version is None:
                del message["jsonrpc"]
            exchange = await peer.post(message)
            if isinstance(peer, WebPeer):
                await peer.ended(exchange)
            await peer.probe()
            served = exchange.response is not None and "result" in exchange.response
            expect(
                not served,
                "a refusal (-32600 or an HTTP error)",
                exchange.response,
                sent=message,
                soft=True,
            )


@check("JRPC-19", needs="tools")
async def missing_params_are_invalid(peer: Peer) -> None:
    """Calls a tool without naming it: -32602."""
    exchange = await peer.ask("tools/call", {})
    expect(exchange.code == -32602, "the error -32602", exchange.response, sent=exchange.sent)


@check("JRPC-24 JRPC26-24")
async def unknown_members_do_not_matter(peer: Peer) -> None:
    """Adds unknown members to the message and to the `_meta` of its params: the answer is the usual one."""
    message = peer.request(living(peer), {"_meta": {"x_conf": [1]}}, x_conf={"a": 1})
    exchange = await peer.answered(await peer.post(message))
    expect(isinstance(exchange.result, dict), "a result", exchange.response, sent=message)


@check("JRPC-26 JRPC-28 JRPC26-20 STATE26-02")
async def many_at_once_are_all_answered(peer: Peer) -> None:
    """Sends forty requests without waiting; each gets one answer, in whatever order."""
    exchanges = [await peer.call(living(peer)) for _ in range(40)]
    for exchange in exchanges:
        await peer.answered(exchange)
        expect(not exchange.extra, "one answer", exchange.extra, sent=exchange.sent)


@check("BATCH-01")
async def batches_are_answered(bench: Bench) -> None:
    """Sends two pings in one array: both are answered, in one array or apart."""
    async with bench.connect() as peer:
        batch = [peer.request("ping"), peer.request("ping")]
        await peer.post(batch)
        await peer.until(
            lambda: all(peer.open[type(each["id"]), each["id"]].response for each in batch),
            "an answer to each of the two",
        )


@check("BATCH-08")
async def empty_batches_are_invalid(bench: Bench) -> None:
    """Sends an empty array and one of garbage: -32600 or an HTTP error (silence on a pipe is let pass), and
    the server goes on. An array of notifications alone gets nothing.
    """
    async with bench.connect() as peer:
        for raw in (
            b"[]",
            b"[1,2]",
            b'[{"jsonrpc":"2.0","method":"notifications/conformance/nope"}]',
        ):
            before = len(peer.strays)
            if isinstance(peer, WebPeer):
                exchange = await peer.ended(await peer.send("POST", raw))
                refused = (exchange.status or 0) >= 400
            else:
                await peer.write(raw + b"\n")
                refused = False
            await peer.probe()
            for stray in [] if refused else peer.strays[before:]:
                error = stray.get("error") if isinstance(stray, dict) else None
                good = isinstance(error, dict) and error.get("code") == -32600
                expect(
                    good and b"method" not in raw,
                    "-32600 for what is no message, nothing else",
                    stray,
                    sent=raw,
                )


@check("BATCH-06", transport="http")
async def a_batch_of_notifications_is_accepted(bench: Bench) -> None:
    """POSTs an array of two notifications: 202 without a body."""
    async with bench.connect() as peer:
        note = {"jsonrpc": "2.0", "method": "notifications/conformance/nope"}
        exchange = await peer.ended(await peer.post([note, note]))
        expect(
            exchange.status == 202 and not exchange.body,
            "202 and no body",
            f"HTTP {exchange.status} {exchange.body!r}",
        )


@check("BATCH-03")
async def initialize_in_a_batch_is_refused(bench: Bench) -> None:
    """Sends `initialize` inside an array: no session comes of it."""
    async with bench.open() as peer:
        peer.transcript.lawful = False
        opening = peer.request(
            "initialize",
            {
                "protocolVersion": bench.revision,
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            },
        )
        exchange = await peer.post([opening])
        if isinstance(peer, WebPeer):
            await peer.ended(exchange)
            expect(
                (exchange.status or 0) >= 400 or peer.session is None,
                "no session",
                f"HTTP {exchange.status}",
                soft=True,
            )
        else:
            ping = await peer.call("ping")
            try:
                await peer.answered(ping)
            except Broken:
                return
            answer = peer.open[int, opening["id"]].response
            expect(
                not (answer and "result" in answer), "an error", answer, sent=[opening], soft=True
            )


@check("BATCH-10 JRPC26-21")
async def batches_are_gone(bench: Bench) -> None:
    """Sends an array with one request: it is refused, or on a pipe passed over; being answered is a warning,
    and a server that is gone afterwards breaks the rule.
    """
    async with bench.connect() as peer:
        peer.transcript.lawful = False
        message = peer.request(living(peer))
        exchange = await peer.post([message])
        if isinstance(peer, WebPeer):
            await peer.ended(exchange)
        await peer.probe()
        answer = peer.open[int, message["id"]].response
        expect(not (answer and "result" in answer), "a refusal", answer, sent=[message], soft=True)


@check("JRPC-25 JRPC26-22")
async def invalid_utf8_does_not_kill(bench: Bench) -> None:
    """Sends bytes that are not UTF-8: an error or silence, and the server goes on."""
    raw = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xff\xfe"}}'
    async with bench.connect() as peer:
        if isinstance(peer, WebPeer):
            exchange = await peer.ended(await peer.send("POST", raw))
            expect(exchange.status is not None, "an HTTP answer", exchange.refusal)
        else:
            await peer.write(raw + b"\n")
        await peer.probe()
