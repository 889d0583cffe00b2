"""The pipe: framing, purity, and how a server on it ends."""

import json

import trio

from ...speaking import Bench, Peer, PipePeer
from ...verdicts import expect
from .. import check
from .json_rpc import living

TRICKY = 'line\nfeed\rreturn\u2028separator\u0085next\ttab "quoted" \\ \U0001f600'


@check("STDIO-03 STDIO26-01", transport="stdio")
async def line_feeds_inside_are_escaped(peer: Peer) -> None:
    """Sends an id that holds line feeds and other separators: it comes back whole, in one line."""
    exchange = await peer.ask(living(peer), id=TRICKY)
    expect(
        (exchange.response or {}).get("id") == TRICKY,
        "the same id",
        exchange.response,
        sent=exchange.sent,
    )


@check("STDIO-11", transport="stdio")
async def messages_may_come_byte_by_byte(bench: Bench) -> None:
    """Writes one request a byte at a time, a multi-byte character among them: it is answered."""
    async with bench.connect() as peer:
        assert isinstance(peer, PipePeer)
        message = peer.request(living(peer), {"_meta": {"x_conf": "naïve ☃"}})
        exchange = await peer.expecting(message)
        for byte in json.dumps(message, ensure_ascii=False).encode() + b"\n":
            await peer.child.input.send_all(bytes([byte]))
        await peer.answered(exchange)


@check("STDIO-11", transport="stdio")
async def messages_may_come_together(bench: Bench) -> None:
    """Writes fifty requests with one write: all are answered."""
    async with bench.connect() as peer:
        assert isinstance(peer, PipePeer)
        messages = [peer.request(living(peer)) for _ in range(50)]
        exchanges = [await peer.expecting(message) for message in messages]
        await peer.child.input.send_all(
            b"".join(json.dumps(each).encode() + b"\n" for each in messages)
        )
        for exchange in exchanges:
            await peer.answered(exchange)


@check("STDIO-11 STDIO26-27", transport="stdio", once=True)
async def long_lines_are_no_trouble(bench: Bench) -> None:
    """Writes a request of 5 MiB: it is answered, or refused in words, and the server goes on."""
    async with bench.connect() as peer:
        message = peer.request(living(peer), {"_meta": {"x_conf": "x" * 5 * 2**20}})
        await peer.answered(await peer.post(message), within=peer.limit * 2)
        await peer.probe()


@check("STDIO-12", transport="stdio")
async def answers_are_flushed(peer: Peer) -> None:
    """Sends one request and nothing more, with the pipe left open: the answer comes."""
    await peer.ask(living(peer))


@check("STDIO26-25", transport="stdio")
async def blank_lines_and_returns_are_passed_over(bench: Bench) -> None:
    """Writes a blank line and a request that ends in CR LF: it is answered."""
    async with bench.connect() as peer:
        assert isinstance(peer, PipePeer)
        message = peer.request(living(peer))
        exchange = await peer.expecting(message)
        await peer.write(b"\n\r\n" + json.dumps(message).encode() + b"\r\n")
        await peer.answered(exchange)


@check("SHUT-06 STDIO26-16", transport="stdio")
async def the_server_ends_with_its_input(bench: Bench) -> None:
    """Closes the server's standard input: it exits by itself within the time limit."""
    async with bench.connect() as peer:
        assert isinstance(peer, PipePeer)
        await peer.child.close_input()
        gone = await peer.child.exited_within(bench.limit)
        expect(gone, "an exit by itself", f"still running after {bench.limit:g} s")


@check("SHUT-06 STDIO26-16", transport="stdio")
async def the_server_ends_with_a_call_in_flight(bench: Bench) -> None:
    """Sends requests and closes the server's standard input at once: it exits all the same."""
    async with bench.connect() as peer:
        assert isinstance(peer, PipePeer)
        for _ in range(5):
            await peer.call(living(peer))
        await peer.child.close_input()
        gone = await peer.child.exited_within(bench.limit)
        expect(gone, "an exit by itself", f"still running after {bench.limit:g} s")


@check("SHUT-06 STDIO26-16", transport="stdio")
async def the_server_ends_before_it_was_greeted(bench: Bench) -> None:
    """Closes the server's standard input before anything was said: it exits all the same."""
    async with bench.open() as peer:
        assert isinstance(peer, PipePeer)
        await peer.child.close_input()
        gone = await peer.child.exited_within(bench.limit)
        expect(gone, "an exit by itself", f"still running after {bench.limit:g} s")


@check("STDIO-04 STDIO26-02", transport="stdio")
async def nothing_else_is_on_standard_output(bench: Bench) -> None:
    """Opens a conversation, lists what there is, closes the input and waits for the exit: every byte of
    standard output, from the first to the last, belongs to a message.
    """
    async with bench.connect() as peer:
        assert isinstance(peer, PipePeer)
        for name, method in (
            ("tools", "tools/list"),
            ("resources", "resources/list"),
            ("prompts", "prompts/list"),
        ):
            if peer.declares(name) or name in peer.capabilities:
                await peer.ask(method)
        await peer.child.close_input()
        with trio.move_on_after(bench.limit):
            await peer.child.output_ended.wait()
        odd = [stray for stray in peer.strays if not isinstance(stray, dict)]
        expect(
            not odd and not peer.child.rest,
            "messages and nothing else",
            peer.child.rest.decode("utf-8", "replace") or _lines(peer),
        )


def _lines(peer: PipePeer) -> list[str]:
    entries = [
        entry
        for entry in peer.transcript.entries
        if entry.stream == "stdout" and entry.kind == "message"
    ]
    return [entry.text for entry in entries if not isinstance(entry.message, dict | list)]


@check("STDIO-14 STDIO26-24", transport="stdio")
async def no_authorization_on_a_pipe(peer: Peer) -> None:
    """Opens a conversation without credentials: no error speaks of authorization."""
    exchange = await peer.ask(living(peer))
    expect(exchange.code not in (401, 403), "no refusal for want of a token", exchange.response)
