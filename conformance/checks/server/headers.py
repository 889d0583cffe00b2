"""Streamable HTTP of the stateless era: mirrored headers and status codes."""

from typing import Any

from ...speaking import Bench, WebPeer
from ...speaking.peer import META
from ...speaking.web import encoded
from ...verdicts import NotApplicable, expect
from .. import check
from .http import told
from .stateless import got, sent


async def mismatch(peer: WebPeer, message: dict[str, Any], headers: dict[str, Any]) -> None:
    """The request with these headers is refused with 400 and -32020."""
    exchange = await sent(peer, {**message, "id": next(peer._ids)}, headers)
    expect(exchange.status == 400, "HTTP 400", got(exchange), sent=headers)
    expect(exchange.code == -32020, "the error -32020", got(exchange), sent=headers)


@check("HTTP26-22 VERS26-01", transport="http")
async def header_and_body_agree_on_the_revision(bench: Bench) -> None:
    """Sends another revision in the header than in the body: 400 and -32020 (or -32022, if neither is
    known).
    """
    async with bench.connect() as peer:
        exchange = await sent(
            peer,
            peer.request("server/discover", {"_meta": {f"{META}protocolVersion": "zzz"}}),
            {"MCP-Protocol-Version": peer.revision},
        )
        expect(
            exchange.status == 400 and exchange.code in (-32020, -32022),
            "400 and -32020",
            got(exchange),
        )


@check("HDR-06 HDR-07", transport="http")
async def a_wrong_method_header_is_refused(bench: Bench) -> None:
    """Sends an `Mcp-Method` that is not the body's: 400 and -32020."""
    async with bench.connect() as peer:
        await mismatch(peer, peer.request("server/discover"), {"Mcp-Method": "tools/list"})


@check("HDR-05", transport="http")
async def method_headers_know_upper_and_lower(bench: Bench) -> None:
    """Sends `Mcp-Method` in upper case: 400 and -32020."""
    async with bench.connect() as peer:
        await mismatch(peer, peer.request("server/discover"), {"Mcp-Method": "SERVER/DISCOVER"})


@check("HDR-08", transport="http")
async def missing_headers_are_refused(bench: Bench) -> None:
    """Leaves out `Mcp-Method`, and `Mcp-Name` where it is due: 400 and -32020."""
    async with bench.connect() as peer:
        await mismatch(peer, peer.request("server/discover"), {"Mcp-Method": None})
        if "tools" in peer.capabilities:
            await mismatch(
                peer,
                peer.request("tools/call", {"name": "conformance_nope", "arguments": {}}),
                {"Mcp-Name": None},
            )


@check("HTTP26-27", transport="http")
async def a_missing_version_header_is_refused(bench: Bench) -> None:
    """Leaves out `MCP-Protocol-Version`: 400 (a server that also serves old clients may read it as
    theirs).
    """
    async with bench.connect() as peer:
        exchange = await sent(peer, peer.request("server/discover"), {"MCP-Protocol-Version": None})
        expect(exchange.status == 400, "HTTP 400", got(exchange))


@check("HDR-06 HDR-55", transport="http")
async def a_wrong_name_header_is_refused(bench: Bench) -> None:
    """Sends an `Mcp-Name` that is not the body's, for a tool that does not even exist: 400 and -32020."""
    async with bench.connect() as peer:
        if "tools" not in peer.capabilities:
            raise NotApplicable("the server does not declare tools")
        await mismatch(
            peer,
            peer.request("tools/call", {"name": "conformance_nope", "arguments": {}}),
            {"Mcp-Name": "another"},
        )


@check("HDR-04", transport="http")
async def header_names_ignore_case(bench: Bench) -> None:
    """Sends the mirrored headers under names in upper and lower case: served."""
    async with bench.connect() as peer:
        message = peer.request("server/discover")
        headers = {"MCP-METHOD": "server/discover", "mcp-protocol-version": peer.revision}
        exchange = await peer.headed(await peer.post(message, headers=headers))
        expect(exchange.status == 200, "200", told(exchange), sent=headers)


@check("HDR-11", transport="http")
async def spaces_around_a_value_do_not_matter(bench: Bench) -> None:
    """Sends `Mcp-Name` with spaces around it: not refused for that."""
    async with bench.connect() as peer:
        if "tools" not in peer.capabilities:
            raise NotApplicable("the server does not declare tools")
        message = peer.request("tools/call", {"name": "conformance_nope", "arguments": {}})
        exchange = await sent(peer, message, {"Mcp-Name": "  conformance_nope  "})
        expect(
            exchange.response is not None and exchange.code != -32020,
            "an unknown tool, no header mismatch",
            got(exchange),
        )


@check("HDR-09 HDR-19", transport="http")
async def encoded_names_are_decoded(bench: Bench) -> None:
    """Sends a non-ASCII name in the Base64 form, and a plain one in it too: not refused for that."""
    async with bench.connect() as peer:
        if "tools" not in peer.capabilities:
            raise NotApplicable("the server does not declare tools")
        for name, header in (("naïve ☃", encoded("naïve ☃")), ("nope", "=?base64?bm9wZQ==?=")):
            message = peer.request("tools/call", {"name": name, "arguments": {}})
            exchange = await sent(peer, message, {"Mcp-Name": header})
            expect(
                exchange.response is not None and exchange.code != -32020,
                "an unknown tool, no header mismatch",
                got(exchange),
                sent=header,
            )


@check("HDR-22 HDR-10", transport="http")
async def broken_base64_is_refused(bench: Bench) -> None:
    """Sends a Base64 form that cannot be decoded, and one that is no UTF-8: 400 and -32020."""
    async with bench.connect() as peer:
        if "tools" not in peer.capabilities:
            raise NotApplicable("the server does not declare tools")
        for header in ("=?base64?bm9wZ!!!?=", "=?base64?//79?="):
            await mismatch(
                peer,
                peer.request("tools/call", {"name": "nope", "arguments": {}}),
                {"Mcp-Name": header},
            )


@check("HDR-21", transport="http")
async def what_only_looks_encoded_is_literal(bench: Bench) -> None:
    """Calls tools whose names look like a Base64 form but are none: the header is taken literally."""
    async with bench.connect() as peer:
        if "tools" not in peer.capabilities:
            raise NotApplicable("the server does not declare tools")
        for name in ("=?BASE64?bm9wZQ==?=", "=?base64?bm9wZQ=="):
            exchange = await sent(
                peer,
                peer.request("tools/call", {"name": name, "arguments": {}}),
                {"Mcp-Name": name},
            )
            expect(
                exchange.response is not None and exchange.code != -32020,
                "an unknown tool, no header mismatch",
                got(exchange),
                sent=name,
            )


@check("HDR-12 HDR-32", transport="http")
async def surplus_headers_are_ignored(bench: Bench) -> None:
    """Sends `Mcp-Name` where the method has none, and an unknown `Mcp-Param-X`: served."""
    async with bench.connect() as peer:
        headers = {"Mcp-Name": "surplus", "Mcp-Param-Conformance": "surplus"}
        exchange = await peer.headed(
            await peer.post(peer.request("server/discover"), headers=headers)
        )
        expect(exchange.status == 200, "200", told(exchange), sent=headers)


@check("HDR-13", transport="http")
async def doubled_headers_are_refused(bench: Bench) -> None:
    """Sends `Mcp-Method` twice, with two values: refused."""
    async with bench.connect() as peer:
        exchange = await sent(
            peer, peer.request("server/discover"), {"Mcp-Method": ["server/discover", "tools/list"]}
        )
        expect((exchange.status or 0) >= 400, "a refusal", got(exchange))


@check("HTTP26-40", transport="http")
async def get_and_delete_are_405(bench: Bench) -> None:
    """GETs and DELETEs the endpoint of a server that serves this era alone: 405."""
    async with bench.connect() as peer:
        for method in ("GET", "DELETE"):
            exchange = await peer.headed(
                await peer.send(method, headers={"MCP-Protocol-Version": peer.revision})
            )
            older = len(bench.settled) > 1
            fine = exchange.status == 405 or (older and (exchange.status or 0) >= 400)
            expect(fine, "405", told(exchange), sent=method)


@check("HTTP26-41", transport="http")
async def session_ids_are_ignored(bench: Bench) -> None:
    """Sends a session id that was never given: served, and none is given back."""
    async with bench.connect() as peer:
        exchange = await peer.headed(
            await peer.post(peer.request("server/discover"), headers={"Mcp-Session-Id": "nope"})
        )
        expect(exchange.status == 200, "200", told(exchange))
        expect("mcp-session-id" not in exchange.headers, "no session id", exchange.headers)


@check("HTTP26-42 HTTP26-35", transport="http")
async def streams_are_not_resumed(bench: Bench) -> None:
    """Sends `Last-Event-ID`: ignored; and events carry no ids to rely on."""
    async with bench.connect() as peer:
        exchange = await peer.ended(
            await peer.post(peer.request("server/discover"), headers={"Last-Event-ID": "1"})
        )
        expect(exchange.status == 200, "200", told(exchange), rules="HTTP26-42")
        ids = [event.id for event in exchange.events if event.id]
        expect(not ids, "no event ids", ids, rules="HTTP26-35")


@check("HTTP26-18", transport="http")
async def other_media_types_are_refused(bench: Bench) -> None:
    """POSTs with the content type text/plain: refused (415 is customary)."""
    async with bench.connect() as peer:
        exchange = await sent(peer, peer.request("server/discover"), {"Content-Type": "text/plain"})
        expect((exchange.status or 0) >= 400, "a refusal", got(exchange))


@check("HTTP26-32", transport="http", level=2)
async def streams_are_not_buffered(bench: Bench) -> None:
    """Opens an event stream: it says `X-Accel-Buffering: no`."""
    async with bench.connect() as peer:
        exchange = await peer.call(
            "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
        )
        await peer.headed(exchange)
        if exchange.media_type != "text/event-stream":
            raise NotApplicable("no event stream came")
        value = exchange.headers.get("x-accel-buffering")
        expect(value == "no", "X-Accel-Buffering: no", value)


@check("HDR-50", transport="http", once=True)
async def huge_headers_are_refused(bench: Bench) -> None:
    """Sends a header of 2 MiB: refused or the connection is closed, and the server goes on."""
    async with bench.connect() as peer:
        exchange = await peer.headed(
            await peer.post(
                peer.request("server/discover"), headers={"Mcp-Param-Huge": "x" * 2**21}
            )
        )
        expect(
            exchange.status is None or exchange.status >= 400,
            "a refusal",
            told(exchange),
            soft=True,
        )
        await peer.probe()


@check("HDR-26 HDR-27 HDR-28 HDR-29", transport="http", level=3)
async def mirrored_arguments_are_held_against_the_body(bench: Bench) -> None:
    """Calls a tool that has a string argument with `x-mcp-header`: with the header it works, without the
    argument no header is expected, without the header or with another value it is refused.
    """
    async with bench.connect() as peer:
        for tool in await peer.listed("tools/list", "tools"):
            schema = tool.get("inputSchema", {})
            for name, field in schema.get("properties", {}).items():
                marked = isinstance(field, dict) and "x-mcp-header" in field
                alone = schema.get("required", []) in ([], [name])
                if marked and alone and field.get("type") == "string":
                    header = f"Mcp-Param-{field['x-mcp-header']}"
                    required = bool(schema.get("required"))
                    await _mirrored(peer, tool["name"], name, header, required=required)
                    return
        raise NotApplicable("no tool mirrors a string argument")


async def _mirrored(
    peer: WebPeer, tool: str, argument: str, header: str, *, required: bool
) -> None:
    message = peer.request("tools/call", {"name": tool, "arguments": {argument: "Hello"}})
    exchange = await peer.ended(await peer.post(message, headers={header: "Hello"}))
    expect(exchange.status == 200, "200", got(exchange), sent={header: "Hello"}, rules="HDR-28")
    if not required:
        bare = peer.request("tools/call", {"name": tool, "arguments": {}})
        exchange = await peer.ended(await peer.post(bare))
        expect(exchange.code != -32020, "no header mismatch", got(exchange), rules="HDR-26")
    for value, rule in ((None, "HDR-27"), ("Goodbye", "HDR-28")):
        exchange = await sent(peer, {**message, "id": next(peer._ids)}, {header: value})
        expect(
            exchange.status == 400 and exchange.code == -32020,
            "400 and -32020",
            got(exchange),
            sent={header: value},
            rules=rule,
        )
