"""Hearing of changes: the same subscription in both eras."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from test_eras import E, Message, discovered, peer

from mcpcore import CapabilityMissing, RequestFailed, RequestTimeout, Server, Timeouts, connect
from mcpcore.client.listening import Change
from mcpcore.protocol.terms import SUBSCRIPTION_ID

both = pytest.mark.parametrize("revision", [E, "2025-06-18"])


def make_server() -> Server:
    server = Server("changing", "1", declare=["tools", "prompts"])
    for uri in ("x:a", "x:b"):
        server.resource(uri, subscribable=True, name=uri)(lambda: "x")
    return server


async def soon(changes: Any) -> Change:
    with trio.fail_after(20):
        change: Change = await anext(changes)
    return change


@both
async def test_what_is_asked_for_is_heard_and_nothing_else(revision: str) -> None:
    """SUBS-03, SUBS-04, SUBS-09."""
    server = make_server()
    async with (
        connect(server, revisions=[revision]) as client,
        client.listen(tools=True, uris=["x:a"]) as changes,
    ):
        assert changes.honoured is not None
        assert changes.honoured.tools_list_changed
        server.resource_updated("x:b")
        server.resource_updated("x:a")
        assert await soon(changes) == Change("resource", "x:a")
        server.prompt(name="p")(lambda: "x")
        server.tool(name="t")(lambda: "x")
        assert await soon(changes) == Change("tools")


@both
async def test_middleware_is_in_nobodys_way(revision: str) -> None:
    server = make_server()
    seen = []

    @server.around
    async def watch(proceed: Any, ctx: Any, request: Any) -> Any:
        seen.append(request.method)
        return await proceed()

    async with (
        connect(server, revisions=[revision]) as client,
        client.listen(uris=["x:a"]) as changes,
    ):
        server.resource_updated("x:a")
        assert await soon(changes) == Change("resource", "x:a")
        await client.ping()
    assert ("subscriptions/listen" in seen) == (revision == E)


@both
async def test_several_at_once_hear_each_for_itself(revision: str) -> None:
    """SUBS-12, SUBS-13."""
    server = make_server()
    async with (
        connect(server, revisions=[revision]) as client,
        client.listen(uris=["x:a"]) as a,
        client.listen(uris=["x:b"], prompts=True, resources=True) as b,
    ):
        server.resource_updated("x:b")
        assert await soon(b) == Change("resource", "x:b")
        server.resource_updated("x:a")
        assert await soon(a) == Change("resource", "x:a")
        server.resource("x:new")(lambda: "x")
        assert await soon(b) == Change("resources")


@both
async def test_the_callbacks_hear_in_both_eras(revision: str) -> None:
    server = make_server()
    updated, changed = trio.Event(), trio.Event()
    async with connect(
        server,
        revisions=[revision],
        on_resource_updated=lambda _: updated.set(),
        on_list_changed=lambda _: changed.set(),
    ) as client:
        await client.subscribe("x:a")
        await client.subscribe("x:b")
        await client.unsubscribe("x:b")
        server.resource_updated("x:a")
        server.tool(name="t")(lambda: "x")
        with trio.fail_after(20):
            await updated.wait()
            await changed.wait()
        await client.unsubscribe("x:a")


@both
async def test_what_is_not_looked_at_counts_as_one(revision: str) -> None:
    """SUBS-30: a change is a level."""
    server = make_server()
    async with (
        connect(server, revisions=[revision]) as client,
        client.listen(uris=["x:a", "x:b"]) as changes,
    ):
        for _ in range(100):
            server.resource_updated("x:a")
        server.resource_updated("x:b")
        await trio.testing.wait_all_tasks_blocked()
        assert await soon(changes) == Change("resource", "x:a")
        assert await soon(changes) == Change("resource", "x:b")


@both
async def test_subs_09_what_cannot_be_told_is_left_out(revision: str) -> None:
    server = Server("bare", "1")
    server.resource("x:a", name="a")(lambda: "x")
    async with (
        connect(server, revisions=[revision]) as client,
        client.listen(tools=True, prompts=True, uris=["x:a", "x:nope"]) as changes,
    ):
        honoured = changes.honoured
        assert honoured is not None
        assert (honoured.tools_list_changed, honoured.prompts_list_changed) == (False, False)
        assert honoured.resource_subscriptions is None


@both
async def test_subs_09_one_resource_that_cannot_be_watched_takes_no_other_with_it(
    revision: str,
) -> None:
    server = make_server()
    server.resource("x:still", name="still")(lambda: "x")
    async with (
        connect(server, revisions=[revision]) as client,
        client.listen(uris=["x:still", "x:a"]) as changes,
    ):
        assert changes.honoured is not None
        assert changes.honoured.resource_subscriptions == ["x:a"]
        server.resource_updated("x:a")
        assert await soon(changes) == Change("resource", "x:a")


@both
async def test_nothing_is_logged_by_a_server_that_does_not_log(revision: str) -> None:
    async with connect(Server("silent", "1"), revisions=[revision]) as client:
        with pytest.raises(CapabilityMissing, match="logging"):
            await client.set_log_level("error")


async def test_the_end_of_a_block_ends_the_subscription() -> None:
    """SUBS-14, SUBS-15: on a pipe by a cancellation."""
    script = Listened()
    async with peer(script) as (channel, server), connect(channel) as client:
        async with client.listen(tools=True):
            pass
        await client.ping()
        cancelled = [m for m in server.seen if m["method"] == "notifications/cancelled"]
        assert [m["params"]["requestId"] for m in cancelled] == script.ids


class Listened:
    """A server by script that acknowledges, or does something else, when it is listened to."""

    def __init__(self, *replies: Any) -> None:
        self.ids: list[Any] = []
        self.replies = list(replies)

    def __call__(self, message: Message) -> Any:
        if message["method"] != "subscriptions/listen":
            capabilities = {"tools": {"listChanged": True}}
            return discovered(E, capabilities=capabilities)
        self.ids.append(message["id"])
        if self.replies:
            return self.replies.pop(0)
        return self.says("subscriptions/acknowledged", notifications={"toolsListChanged": True})

    def says(self, method: str, **params: Any) -> bytes:
        import json

        params["_meta"] = {SUBSCRIPTION_ID: self.ids[-1]}
        body = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
        return json.dumps(body).encode()


@pytest.mark.parametrize("ending", ["result", "cancelled"])
async def test_amb_01_either_way_of_ending_is_graceful(ending: str) -> None:
    script = Listened()
    async with (
        peer(script) as (channel, server),
        connect(channel) as client,
        client.listen(tools=True) as changes,
    ):
        server.channel.send_nowait(script.says("tools/list_changed"))
        if ending == "result":
            end = b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete"}}' % script.ids[0]
        else:
            end = (
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'
                % script.ids[0]
            )
        server.channel.send_nowait(end)
        with trio.fail_after(20):
            assert [change async for change in changes] == [Change("tools")]


async def test_a_refusal_is_told() -> None:
    script = Listened({"code": -32601, "message": "not here"})
    async with peer(script) as (channel, _), connect(channel) as client:
        with pytest.raises(RequestFailed, match="not here"):
            async with client.listen(tools=True):
                pass


async def test_canc26_22_the_acknowledgement_has_a_limit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Listened(*[None] * 9)
    patience = Timeouts(request=3)
    async with peer(script) as (channel, _), connect(channel, timeouts=patience) as client:
        with pytest.raises(RequestTimeout, match="acknowledged"):
            async with client.listen(tools=True):
                pass
    # A function for changes does not keep a client from opening.
    began = trio.current_time()
    async with (
        peer(script) as (channel, _),
        connect(channel, timeouts=patience, on_list_changed=lambda _: None),
    ):
        assert trio.current_time() - began < 6


async def test_the_end_of_the_connection_ends_the_iteration() -> None:
    from mcpcore import ConnectionLost

    script = Listened()
    async with (
        peer(script) as (channel, server),
        connect(channel) as client,
        client.listen(tools=True) as changes,
    ):
        await server.channel.aclose()
        with trio.fail_after(20), pytest.raises(ConnectionLost):
            await anext(changes)


async def test_unreadable_notifications_disturb_nothing() -> None:
    script = Listened()
    async with (
        peer(script) as (channel, server),
        connect(channel) as client,
        client.listen(tools=True) as changes,
    ):
        for params in (b"7", b'{"_meta":7}', b'{"_meta":{"%s":[]}}' % SUBSCRIPTION_ID.encode()):
            for method in (b"tools/list_changed", b"resources/updated"):
                server.channel.send_nowait(
                    b'{"jsonrpc":"2.0","method":"notifications/%b","params":%b}' % (method, params)
                )
        server.channel.send_nowait(script.says("tools/list_changed"))
        assert await soon(changes) == Change("tools")


@both
async def test_a_resource_that_is_not_told_of_is_refused(revision: str) -> None:
    server = make_server()
    server.resource("x:quiet", name="quiet")(lambda: "x")
    async with connect(server, revisions=[revision]) as client:
        await client.subscribe("x:a")
        with pytest.raises((CapabilityMissing, RequestFailed)):
            await client.subscribe("x:quiet")
        await client.unsubscribe("x:a")


@both
async def test_subscribing_from_many_tasks_leaves_one_subscription(revision: str) -> None:
    server = Server("many", "1")
    uris = [f"x:{number}" for number in range(20)]
    for uri in uris:
        server.resource(uri, subscribable=True, name=uri)(lambda: "x")
    heard: set[str] = set()
    done = trio.Event()

    def hear(uri: str) -> None:
        heard.add(uri)
        if heard == set(uris):
            done.set()

    async with connect(server, revisions=[revision], on_resource_updated=hear) as client:
        async with trio.open_nursery() as nursery:
            for uri in uris:
                nursery.start_soon(client.subscribe, uri)
        # The last one that was replaced is still on its way out.
        await trio.testing.wait_all_tasks_blocked()
        (session,) = server._sessions
        assert len(session.bus) == (1 if revision == E else 0)
        for uri in uris:
            server.resource_updated(uri)
        with trio.fail_after(20):
            await done.wait()


async def test_what_the_application_subscribed_to_outlives_a_block() -> None:
    server = make_server()
    heard = trio.Event()
    async with connect(
        server, revisions=["2025-06-18"], on_resource_updated=lambda _: heard.set()
    ) as client:
        await client.subscribe("x:a")
        async with client.listen(uris=["x:a"]) as changes:
            server.resource_updated("x:a")
            assert await soon(changes) == Change("resource", "x:a")
        heard = trio.Event()
        server.resource_updated("x:a")
        with trio.fail_after(20):
            await heard.wait()
