"""Streamable HTTP of the handshake era: status codes, streams, sessions, resumption."""

from typing import Any

import trio

from ... import revisions
from ...speaking import Bench, Exchange, WebPeer
from ...verdicts import NotApplicable, expect
from .. import check
from .lifecycle import greeting
from .utilities import has_tools

EVIL = "http://evil.example.com"


def told(exchange: Exchange) -> str:
    """An HTTP answer in a few words."""
    if exchange.status is None:
        return exchange.refusal or "no answer"
    body = exchange.body[:160].decode("utf-8", "replace")
    return f"HTTP {exchange.status} {exchange.media_type} {body}".strip()


async def opened(peer: WebPeer, headers: dict[str, Any]) -> Exchange:
    """Send the message that opens a conversation, with other headers, and wait for the head of the answer."""
    first = (
        peer.request("server/discover")
        if peer.stateless
        else peer.request("initialize", greeting(peer.revision))
    )
    return await peer.headed(await peer.post(first, headers=headers))


@check("HTTP-01 HTTP26-01", transport="http")
async def one_path_takes_posts(bench: Bench) -> None:
    """POSTs the opening message to the URL: it is answered."""
    async with bench.open() as peer:
        exchange = await opened(peer, {})
        expect(exchange.status == 200, "200", told(exchange))


@check("HTTP-02 HTTP26-02", transport="http")
async def foreign_origins_are_refused(bench: Bench) -> None:
    """Sends the opening message and, later, POST, GET and DELETE with a foreign `Origin`: none is served."""
    async with bench.open() as peer:
        exchange = await opened(peer, {"Origin": EVIL})
        expect(
            (exchange.status or 0) >= 400,
            "a refusal",
            told(exchange),
            sent=f"POST with Origin: {EVIL}",
        )
    if bench.stateless:
        return
    async with bench.connect() as peer:
        for method in ("GET", "DELETE"):
            exchange = await peer.headed(await peer.send(method, headers={"Origin": EVIL}))
            expect(
                (exchange.status or 0) >= 400,
                "a refusal",
                told(exchange),
                sent=f"{method} with Origin: {EVIL}",
            )
        await peer.probe()


@check("HTTP-03 HTTP26-03", transport="http")
async def foreign_origins_get_403(bench: Bench) -> None:
    """Sends the opening message with a foreign `Origin`, and with one that only looks like the right
    one: 403.
    """
    async with bench.open() as peer:
        for origin in (EVIL, "http://localhost.evil.example.com", "null"):
            exchange = await opened(peer, {"Origin": origin})
            if origin == EVIL:
                expect(exchange.status == 403, "403", told(exchange), sent=f"Origin: {origin}")
            expect(
                exchange.status != 200, "403", told(exchange), sent=f"Origin: {origin}", soft=True
            )


@check("HTTP-04 HTTP26-04", transport="http")
async def no_origin_is_no_foreign_origin(bench: Bench) -> None:
    """Sends the opening message without `Origin`: it is served."""
    async with bench.open() as peer:
        exchange = await opened(peer, {"Origin": None})
        expect(exchange.status == 200, "200", told(exchange))


@check("HTTP-12 HTTP26-14", transport="http")
async def requests_get_json_or_events(bench: Bench) -> None:
    """POSTs requests that work and one that fails: the answer is JSON or an event stream."""
    async with bench.connect() as peer:
        for method in ("server/discover" if peer.stateless else "ping", "tools/list"):
            exchange = await peer.call(method)
            await peer.ended(exchange)
            if exchange.status == 200:
                kinds = ("application/json", "text/event-stream")
                expect(
                    exchange.media_type in kinds,
                    " or ".join(kinds),
                    told(exchange),
                    sent=exchange.sent,
                )


@check("HTTP-10 HTTP26-12", transport="http")
async def notifications_get_202(bench: Bench) -> None:
    """POSTs notifications: 202 without a body."""
    async with bench.connect() as peer:
        exchange = await peer.ended(
            await peer.tell("notifications/cancelled", {"requestId": "nope"})
        )
        if peer.stateless and (exchange.status or 0) >= 400:
            raise NotApplicable(
                "it refuses notifications, as it may: this era defines none over HTTP"
            )
        expect(
            exchange.status == 202 and not exchange.body,
            "202 and no body",
            told(exchange),
            sent=exchange.sent,
        )


@check("HTTP-10", transport="http")
async def responses_get_202(bench: Bench) -> None:
    """POSTs an answer to a question that was never asked: it is accepted, or refused with 4xx, never 200."""
    async with bench.connect() as peer:
        exchange = await peer.ended(
            await peer.post({"jsonrpc": "2.0", "id": "conformance-nope", "result": {}})
        )
        fine = (exchange.status == 202 and not exchange.body) or 400 <= (exchange.status or 0) < 500
        expect(fine, "202 and no body, or 4xx", told(exchange), sent=exchange.sent)


@check("HTTP-11 HTTP26-13", transport="http")
async def malformed_notifications_get_an_error(bench: Bench) -> None:
    """POSTs a notification whose method is a number: an HTTP error; 200 with a result breaks the rule."""
    async with bench.connect() as peer:
        exchange = await peer.ended(await peer.send("POST", b'{"jsonrpc":"2.0","method":7}'))
        expect(
            exchange.status != 200 or b"error" in exchange.body, "an error status", told(exchange)
        )
        expect(exchange.status != 202, "an error status", told(exchange), soft=True)


@check("HTTP-14 HTTP-19 HTTP26-31", transport="http")
async def streams_end_with_the_response(bench: Bench) -> None:
    """Reads the answer to a POST to its end: the response is there and the stream is over."""
    async with bench.connect() as peer:
        exchange = await peer.call("tools/list")
        await peer.answered(exchange)
        await peer.ended(exchange)
        expect(exchange.ended.is_set(), "the end of the stream", f"open after {peer.limit:g} s")


@check("HTTP-17", transport="http", level=3)
async def streams_stay_until_the_response(bench: Bench) -> None:
    """Calls `test_tool_with_progress`: the stream does not end before the response."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_tool_with_progress")
        exchange = await peer.call(
            "tools/call",
            {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": 1}},
        )
        await peer.ended(exchange)
        expect(
            exchange.response is not None,
            "the response before the end of the stream",
            told(exchange),
        )


@check("HTTP-32", transport="http")
async def get_opens_a_stream_or_is_405(bench: Bench) -> None:
    """GETs the endpoint: an event stream, or 405."""
    async with bench.connect() as peer:
        exchange = await peer.headed(await peer.send("GET"))
        stream = exchange.status == 200 and exchange.media_type == "text/event-stream"
        expect(stream or exchange.status == 405, "an event stream or 405", told(exchange))


@check("HTTP-35 HTTP-34", transport="http")
async def answers_stay_off_the_get_stream(bench: Bench) -> None:
    """Opens a GET stream and sends requests: their answers do not come on it."""
    async with bench.connect() as peer:
        stream = await peer.headed(await peer.send("GET"))
        if stream.status != 200:
            raise NotApplicable("the server offers no GET stream")
        for _ in range(3):
            await peer.ask("tools/list")
        await peer.probe()
        data = [event.data for event in stream.events if event.data and '"result"' in event.data]
        expect(not data, "no response on a GET stream", data)


@check("HTTP-43", transport="http", level=2)
async def event_ids_are_unique(bench: Bench) -> None:
    """Collects the ids of events over ten streams of one session: no id comes twice."""
    async with bench.connect() as peer:
        exchanges = [await peer.call("tools/list") for _ in range(10)]
        for exchange in exchanges:
            await peer.ended(exchange)
        ids = [event.id for exchange in exchanges for event in exchange.events if event.id]
        if not ids:
            raise NotApplicable("no event has an id")
        double = {each for each in ids if ids.count(each) > 1}
        expect(not double, "ids that are unique over all streams", sorted(double))


@check("HTTP-22", transport="http", level=3)
async def streams_begin_with_an_id(bench: Bench) -> None:
    """Opens a stream by a call: its first event has an id and empty data, so that it can be resumed."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_tool_with_progress")
        exchange = await peer.call(
            "tools/call",
            {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": 1}},
        )
        await peer.ended(exchange)
        if exchange.media_type != "text/event-stream" or not any(
            event.id for event in exchange.events
        ):
            raise NotApplicable("the server does not make its streams resumable")
        first = exchange.events[0]
        expect(first.id and not first.data, "an id and empty data", first.raw)


@check("HTTP-46 HTTP-47 HTTP-48 HTTP-49", transport="http", level=3)
async def streams_can_be_resumed(bench: Bench) -> None:
    """Drops the stream of `test_tool_with_progress` after its first event and GETs with `Last-Event-ID`: what
    followed comes, and nothing that came before; another stream's messages do not come.
    """
    async with bench.connect() as peer:
        await has_tools(peer, "test_tool_with_progress")
        params = {
            "name": "test_tool_with_progress",
            "arguments": {},
            "_meta": {"progressToken": "resumed"},
        }
        exchange = await peer.call("tools/call", params)
        other = await peer.call("tools/call", {**params, "_meta": {"progressToken": "another"}})
        await peer.headed(exchange)
        await peer.until(lambda: exchange.notes or exchange.ended.is_set(), "a first event")
        last = next((event.id for event in reversed(exchange.events) if event.id), None)
        if last is None:
            raise NotApplicable("the server does not make its streams resumable")
        exchange.cut()
        seen = [event.id for event in exchange.events]
        resumed = await peer.headed(await peer.send("GET", headers={"Last-Event-ID": last}))
        expect(resumed.status == 200, "an event stream", told(resumed), rules="HTTP-46")
        await peer.until(lambda: exchange.response, "the response on the resumed stream")
        again = [event.id for event in resumed.events if event.id in seen and event.data]
        expect(not again, "no event twice", again, rules="HTTP-46 HTTP-49")
        strange = [event.data for event in resumed.events if event.data and "another" in event.data]
        expect(not strange, "nothing of another stream", strange, rules="HTTP-47")
        await peer.ended(other)


@check("HTTP-51", transport="http")
async def session_ids_do_not_repeat(bench: Bench) -> None:
    """Opens five sessions: their ids differ, and none is short."""
    ids = []
    for _ in range(5):
        async with bench.connect() as peer:
            if peer.session is None:
                raise NotApplicable("the server gives no session id")
            ids.append(peer.session)
    expect(len(set(ids)) == 5, "five different ids", ids)
    expect(min(map(len, ids)) >= 16, "ids that cannot be guessed", ids)


@check("HTTP-52 HTTP-50", transport="http")
async def session_ids_are_visible_ascii(bench: Bench) -> None:
    """Looks at the session id: only characters from 0x21 to 0x7E."""
    async with bench.connect() as peer:
        if peer.session is None:
            raise NotApplicable("the server gives no session id")
        expect(
            all(0x21 <= ord(c) <= 0x7E for c in peer.session), "visible ASCII", repr(peer.session)
        )


@check("HTTP-55", transport="http")
async def a_missing_session_id_is_400(bench: Bench) -> None:
    """Sends a request of a session without the id: 400."""
    async with bench.connect() as peer:
        if peer.session is None:
            raise NotApplicable("the server gives no session id")
        exchange = await peer.ended(
            await peer.post(peer.request("tools/list"), headers={"Mcp-Session-Id": None})
        )
        expect(exchange.status == 400, "400", told(exchange))


@check("HTTP-56 HTTP-58", transport="http")
async def an_ended_session_is_404(bench: Bench) -> None:
    """DELETEs the session; if that was accepted, requests with its id get 404."""
    async with bench.connect() as peer:
        if peer.session is None:
            raise NotApplicable("the server gives no session id")
        deleted = await peer.ended(await peer.send("DELETE"))
        accepted = 200 <= (deleted.status or 0) < 300
        expect(
            accepted or deleted.status == 405,
            "2xx or 405",
            told(deleted),
            rules="HTTP-58",
            soft=True,
        )
        if not accepted:
            raise NotApplicable("the server does not let clients end sessions")
        exchange = await peer.ended(await peer.call("ping"))
        expect(exchange.status == 404, "404", told(exchange), rules="HTTP-56")


@check("HTTP-56", transport="http")
async def sessions_are_apart(bench: Bench) -> None:
    """Ends one of two sessions: the other goes on."""
    async with bench.connect() as one, bench.connect() as other:
        if one.session is None:
            raise NotApplicable("the server gives no session id")
        await one.ended(await one.send("DELETE"))
        await other.probe()


@check("HTTP-67", transport="http")
async def unknown_version_headers_are_400(bench: Bench) -> None:
    """Sends requests with a revision in the header that does not exist: 400."""
    async with bench.connect() as peer:
        for version in (revisions.UNKNOWN, "junk"):
            message = peer.request("tools/list")
            exchange = await peer.ended(
                await peer.post(message, headers={"MCP-Protocol-Version": version})
            )
            expect(
                exchange.status == 400,
                "400",
                told(exchange),
                sent=f"MCP-Protocol-Version: {version}",
            )


@check("HTTP-68", transport="http")
async def a_missing_version_header_is_let_pass(bench: Bench) -> None:
    """Sends a request of a session without the version header: the session knows it."""
    async with bench.connect() as peer:
        exchange = await peer.ended(
            await peer.post(peer.request("ping"), headers={"MCP-Protocol-Version": None})
        )
        expect(exchange.status == 200, "200", told(exchange))


@check("HTTP-69 HTTP-70", transport="http")
async def initialize_needs_no_version_header(bench: Bench) -> None:
    """Sends `initialize` without the version header: it works."""
    async with bench.open() as peer:
        exchange = await opened(peer, {})
        expect(exchange.status == 200, "200", told(exchange))


@check("HTTP-16 HTTP-40", transport="http", level=3)
async def streams_carry_their_own(bench: Bench) -> None:
    """Calls `test_tool_with_progress` twice at once: each stream holds only its own progress."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_tool_with_progress")
        calls = [
            await peer.call(
                "tools/call",
                {
                    "name": "test_tool_with_progress",
                    "arguments": {},
                    "_meta": {"progressToken": token},
                },
            )
            for token in ("one", "two")
        ]
        for call, token in zip(calls, ("one", "two"), strict=True):
            await peer.answered(call)
            tokens = {note.get("params", {}).get("progressToken") for note in call.notes}
            expect(tokens <= {token}, f"progress of {token} alone", sorted(map(str, tokens)))


@check("HTTP-41", transport="http", level=3)
async def one_message_goes_to_one_stream(bench: Bench) -> None:
    """Changes the list of tools by `test_trigger_tool_change`, once with one GET stream open and once
    with two:
    the session does not hear of it more often for having two.
    """
    heard = []
    for count in (1, 2):
        async with bench.connect() as peer:
            await has_tools(peer, "test_trigger_tool_change")
            if not peer.declares("tools.listChanged"):
                raise NotApplicable("the server does not announce changes of its tools")
            streams = [await peer.headed(await peer.send("GET")) for _ in range(count)]
            if streams[0].status != 200:
                raise NotApplicable("the server offers no GET stream")
            await peer.need("tools/call", {"name": "test_trigger_tool_change", "arguments": {}})
            await peer.note("notifications/tools/list_changed")
            await trio.sleep(0.3)
            heard.append(
                sum(note.get("method") == "notifications/tools/list_changed" for note in peer.notes)
            )
    expect(
        heard[1] <= heard[0],
        f"{heard[0]} notifications, as with one stream",
        f"{heard[1]} with two streams",
    )


@check("TOOL-20", level=3, needs="tools")
async def changes_of_tools_are_announced(bench: Bench) -> None:
    """Changes the list of tools by `test_trigger_tool_change`: a server that declared it announces it."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_trigger_tool_change")
        if not peer.declares("tools.listChanged"):
            raise NotApplicable("the server does not announce changes of its tools")
        if isinstance(peer, WebPeer):
            stream = await peer.headed(await peer.send("GET"))
            if stream.status != 200:
                raise NotApplicable("the server offers no GET stream")
        await peer.need("tools/call", {"name": "test_trigger_tool_change", "arguments": {}})
        await peer.note("notifications/tools/list_changed")


@check("PROMPT-09", level=3, needs="prompts")
async def changes_of_prompts_are_announced(bench: Bench) -> None:
    """Changes the list of prompts by `test_trigger_prompt_change`: a server that declared it announces it."""
    async with bench.connect() as peer:
        await has_tools(peer, "test_trigger_prompt_change")
        if not peer.declares("prompts.listChanged"):
            raise NotApplicable("the server does not announce changes of its prompts")
        if isinstance(peer, WebPeer):
            stream = await peer.headed(await peer.send("GET"))
            if stream.status != 200:
                raise NotApplicable("the server offers no GET stream")
        await peer.need("tools/call", {"name": "test_trigger_prompt_change", "arguments": {}})
        await peer.note("notifications/prompts/list_changed")


@check("HTTP-02", transport="http")
async def a_session_cannot_be_taken_by_guessing(bench: Bench) -> None:
    """Sends a request with a session id that was never given: it is not served."""
    async with bench.connect() as peer:
        if peer.session is None:
            raise NotApplicable("the server gives no session id")
        exchange = await peer.ended(
            await peer.post(
                peer.request("tools/list"), headers={"Mcp-Session-Id": "conformance-never-given"}
            )
        )
        expect((exchange.status or 0) in (400, 401, 403, 404), "a refusal", told(exchange))


@check("SSE-06 SSE-08 HTTP26-57", transport="http")
async def events_hold_one_message(bench: Bench) -> None:
    """Reads event streams: each event with data is of the type `message` and holds one JSON-RPC message."""
    async with bench.connect() as peer:
        exchange = await peer.ended(await peer.call("tools/list"))
        if exchange.media_type != "text/event-stream":
            raise NotApplicable("the server answers with JSON")
        for event in exchange.events:
            if event.data:
                expect(event.kind == "message", "the type message", event.raw)
                expect(event.data.lstrip()[:1] in ("{", "["), "one JSON-RPC message", event.data)
