"""Opening a connection: targets, the handshake, versions, and every way it can fail."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
import trio
from handshake import connect, open_client
from scripted_server import NEWEST, ScriptedServer, greeting, scripted

from mcpcore import (
    Client,
    ConnectionLost,
    Implementation,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    Server,
    Timeouts,
    VersionMismatch,
    memory_channels,
    open_stream,
    serve_stream,
)
from mcpcore.client import client as client_module
from mcpcore.protocol.lifecycle import State

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


async def open_against(server: ScriptedServer, channel, **options) -> Client:
    client = await open_client(server._nursery, channel, **options)
    await client.aclose()
    return client


async def test_the_first_message_is_initialize_with_what_we_are():
    async with greeting() as (channel, server):
        opening = server.begin(open_against, server, channel)
        request = await server.expect("initialize")
        assert request["params"]["protocolVersion"] == NEWEST
        assert request["params"]["capabilities"] == {}
        assert request["params"]["clientInfo"]["name"] == "mcpcore"
        # Nothing is sent before the answer.
        await trio.testing.wait_all_tasks_blocked()
        server.ask("early", "ping")
        assert await server.receive() == {"jsonrpc": "2.0", "id": "early", "result": {}}
        server.answer(
            request,
            {
                "protocolVersion": NEWEST,
                "capabilities": {},
                "serverInfo": {"name": "s", "version": "1"},
            },
        )
        assert await server.receive() == {
            "jsonrpc": "2.0",
            "method": "notifications/initialized",
        }
        await opening.result()


async def test_the_client_says_who_it_is():
    async with scripted(info=Implementation("mine", "3", title="Mine")) as (client, server):
        assert server.offered["clientInfo"] == {"name": "mine", "version": "3", "title": "Mine"}
        assert client.state is State.READY


async def test_capabilities_follow_from_what_is_given():
    async def anything(params): ...

    async with scripted(
        elicit=anything, elicit_url=anything, sample=anything, sample_tools=True, roots=[]
    ) as (_, server):
        assert server.offered["capabilities"] == {
            "elicitation": {"form": {}, "url": {}},
            "sampling": {"tools": {}},
            "roots": {"listChanged": True},
        }
    async with scripted(elicit=anything, sample=anything) as (_, server):
        assert server.offered["capabilities"] == {"elicitation": {"form": {}}, "sampling": {}}


async def test_capabilities_that_an_old_revision_lacks_are_not_declared_in_it():
    async def anything(params): ...

    options = {"elicit": anything, "elicit_url": anything, "sample": anything, "sample_tools": True}
    for revision, expected in (
        ("2025-06-18", {"elicitation": {}, "sampling": {}}),
        ("2025-03-26", {"sampling": {}}),
    ):
        async with scripted(revisions=[revision], **options) as (_, server):
            assert server.offered["capabilities"] == expected


async def test_url_mode_alone_is_not_declared_where_it_would_read_as_forms():
    async def anything(params): ...

    async with scripted(revisions=["2025-06-18"], elicit_url=anything) as (_, server):
        assert server.offered["capabilities"] == {}
    async with scripted(elicit_url=anything) as (_, server):
        assert server.offered["capabilities"] == {"elicitation": {"url": {}}}


SUBSETS = [subset for size in (1, 2, 4) for subset in itertools.combinations(REVISIONS, size)]


@pytest.mark.parametrize("ours", SUBSETS)
@pytest.mark.parametrize("theirs", SUBSETS)
async def test_every_pair_agrees_on_a_common_revision_or_names_both_sides(ours, theirs):
    server = Server("versions", "1", revisions=theirs)
    server.tool(name="f", inline=True)(lambda: "x")
    offer = max(ours)
    answer = offer if offer in theirs else max(theirs)
    if answer in ours:
        async with connect(server, revisions=ours) as client:
            assert client.revision == answer
            assert (await client.call_tool("f")).text == "x"
    else:
        with pytest.raises(VersionMismatch) as caught:
            async with connect(server, revisions=ours):
                pass
        assert caught.value.ours == tuple(sorted(ours, reverse=True))
        assert caught.value.theirs == (answer,)
        for name in (*ours, answer):
            assert name in str(caught.value)


@pytest.mark.parametrize("answer", ["1900-01-01", "2026-07-28", "", "next"])
async def test_a_revision_that_we_cannot_speak_ends_the_opening(answer):
    async with greeting() as (channel, server):
        opening = server.begin(open_against, server, channel)
        request = await server.expect("initialize")
        result = {
            "protocolVersion": answer,
            "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"},
        }
        server.answer(request, result)
        with pytest.raises(VersionMismatch) as caught:
            await opening.result()
        assert caught.value.theirs == (answer,)
        # Nothing but initialize was ever sent, and the channel is closed.
        with pytest.raises(ConnectionLost):
            await server.receive()


async def test_a_refusal_that_lists_other_revisions_is_a_version_mismatch():
    async with greeting() as (channel, server):
        opening = server.begin(open_against, server, channel)
        request = await server.expect("initialize")
        server.refuse(request, -32022, "unsupported", data={"supported": ["2026-07-28"]})
        with pytest.raises(VersionMismatch) as caught:
            await opening.result()
        assert caught.value.theirs == ("2026-07-28",)
        assert isinstance(caught.value.__cause__, RequestFailed)


@pytest.mark.parametrize(
    "data", [None, 5, {}, {"supported": "2025-11-25"}, {"supported": ["2025-11-25"]}]
)
async def test_initialize_answered_with_an_error_raises_it(data):
    async with greeting() as (channel, server):
        opening = server.begin(open_against, server, channel)
        request = await server.expect("initialize")
        server.refuse(request, -32602, "go away", data=data)
        with pytest.raises(RequestFailed) as caught:
            await opening.result()
        assert (caught.value.code, caught.value.message, caught.value.data) == (
            -32602,
            "go away",
            data,
        )
        with pytest.raises(ConnectionLost):
            await server.receive()


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"protocolVersion": 5, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}},
        {"protocolVersion": NEWEST, "serverInfo": {"name": "s", "version": "1"}},
        {"protocolVersion": NEWEST, "capabilities": {}},
        [],
        "text",
    ],
)
async def test_an_unreadable_answer_to_initialize_is_the_servers_fault(result):
    async with greeting() as (channel, server):
        opening = server.begin(open_against, server, channel)
        server.answer(await server.expect("initialize"), result)
        with pytest.raises(RemoteProtocolError):
            await opening.result()


async def test_a_server_that_ends_during_the_handshake_is_connection_lost():
    async with greeting() as (channel, server):
        opening = server.begin(open_against, server, channel)
        await server.expect("initialize")
        await server.channel.aclose()
        with pytest.raises(ConnectionLost):
            await opening.result()


async def test_a_server_that_accepts_and_never_answers_is_a_timeout(autojump_clock):
    """F-042: opening has a limit by default."""
    async with greeting() as (channel, server):
        began = trio.current_time()
        opening = server.begin(open_against, server, channel)
        with pytest.raises(RequestTimeout) as caught:
            await opening.result()
        assert trio.current_time() - began == 60
        assert caught.value.method == "initialize"
        assert caught.value.seconds == 60
        assert "Timeouts(connect=...)" in str(caught.value)


async def test_no_cancellation_is_ever_sent_for_initialize(autojump_clock):
    """F-041: the channel is closed instead, on a timeout as on a cancelled caller."""
    for limit in (5.0, float("inf")):
        async with greeting() as (channel, server):
            timeouts = Timeouts(connect=limit)
            opening = server.begin(open_against, server, channel, timeouts=timeouts)
            await server.expect("initialize")
            if limit == 5:
                with pytest.raises(RequestTimeout):
                    await opening.result()
            else:
                await trio.sleep(1000)
                assert not opening.done.is_set()
                opening.scope.cancel()
                await opening.done.wait()
            with pytest.raises(ConnectionLost):
                await server.receive()


async def test_the_timeout_for_requests_does_not_shorten_the_handshake(autojump_clock):
    async with greeting() as (channel, server):
        opening = server.begin(open_against, server, channel, timeouts=Timeouts(request=1))
        request = await server.expect("initialize")
        await trio.sleep(30)
        result = {
            "protocolVersion": NEWEST,
            "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"},
        }
        server.answer(request, result)
        await opening.result()


@pytest.mark.parametrize("target", [5, None, object(), {"a": 1}])
async def test_a_target_that_is_none_is_a_type_error(target):
    with pytest.raises(TypeError, match="cannot connect to"):
        async with connect(target):
            pass


async def test_unknown_revisions_are_refused_before_anything_is_opened():
    ours, theirs = memory_channels()
    with pytest.raises(ValueError, match="unknown protocol revision"):
        async with connect(ours, revisions=["1999-01-01"]):
            pass
    theirs.send_nowait(b"still open")


async def test_strict_needs_the_extra_that_validates(monkeypatch):
    monkeypatch.setattr(client_module, "can_validate", lambda: False)
    with pytest.raises(LocalProtocolError, match="pip install"):
        async with connect(Server("s", "1"), strict=True):
            pass


async def test_what_the_server_told_of_itself():
    async with greeting() as (channel, server):
        opening = server.begin(open_client, server._nursery, channel)
        await server.welcome(
            {"tools": {}, "logging": {}, "experimental": {"vendor/x": {"a": 1}}},
            "2025-06-18",
            instructions="be nice",
        )
        client = await opening.result()
        assert client.revision == "2025-06-18"
        assert client.instructions == "be nice"
        assert client.server_info == Implementation("by hand", "0")
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.experimental == {"vendor/x": {"a": 1}}
        await client.aclose()


async def test_a_client_over_any_stream():
    server = Server("stream", "1")
    server.tool(name="f", inline=True)(lambda: "over a stream")
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        async with connect(open_stream(ours)) as client:
            assert (await client.call_tool("f")).text == "over a stream"


async def test_anything_that_serves_a_channel_can_be_connected_to():
    class Echo:
        async def serve(self, channel):
            while True:
                for frame in await channel.receive():
                    message = json.loads(frame)
                    if message.get("method") == "initialize":
                        result = {
                            "protocolVersion": message["params"]["protocolVersion"],
                            "capabilities": {},
                            "serverInfo": {"name": "echo", "version": "1"},
                        }
                    elif "id" in message:
                        result = {}
                    else:
                        continue
                    channel.send_nowait(
                        json.dumps(
                            {"jsonrpc": "2.0", "id": message["id"], "result": result}
                        ).encode()
                    )

    async with connect(Echo()) as client:
        await client.ping()
        assert client.server_info.name == "echo"


async def test_opened_in_one_task_and_closed_in_another_in_any_order():
    """F-127: closing in another order than opened must disturb nobody."""
    server = Server("s", "1")
    server.tool(name="f", inline=True)(lambda: "x")
    clients: list[Client] = []

    async with trio.open_nursery() as owner:

        async def open_one() -> None:
            clients.append(await open_client(owner, server))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(open_one)
        for index in (0, 3, 1):
            closing = clients[index]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(closing.aclose)
            for other in clients:
                if other.state is State.READY:
                    assert (await other.call_tool("f")).text == "x"
        await clients[2].aclose()
    assert all(client.state is State.CLOSED for client in clients)


async def test_a_connection_can_be_opened_again_after_it_was_closed():
    """F-127: reconnecting from yet another task."""
    server = Server("s", "1")
    async with trio.open_nursery() as owner:
        for _ in range(3):
            client = await open_client(owner, server)
            await client.ping()
            await client.aclose()


async def test_closing_twice_at_once_and_after_the_peer_died_is_quiet():
    """F-049: close is bounded, idempotent, and legal in every state."""
    async with scripted() as (client, server):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(client.aclose)
        await client.aclose()
    async with scripted() as (client, server):
        await server.channel.aclose()
        await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
        with pytest.raises(ConnectionLost):
            await client.ping()


async def test_closing_from_within_a_callback_is_legal():
    """F-049: a host that is told to close from a handler."""
    closed = trio.Event()

    async def sample(params):
        await client.aclose()
        closed.set()
        return "x"

    async with scripted(sample=sample) as (client, server):
        params = {"messages": [], "maxTokens": 1}
        server.ask(1, "sampling/createMessage", params)
        with trio.fail_after(30):
            await trio.testing.wait_all_tasks_blocked()
            assert client.state is State.CLOSED


async def test_leaving_while_the_server_still_sends_is_quiet():
    """F-020: no exception from a clean close, whatever the peer is doing."""
    async with scripted() as (client, server):

        async def chatter() -> None:
            while True:
                server.notify("notifications/message", {"level": "info", "data": "x" * 1000})
                await trio.lowlevel.checkpoint()

        chatting = server.begin(chatter)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        await client.aclose()
        with pytest.raises(ConnectionLost):
            await chatting.result()


async def test_cancelling_the_nursery_closes_the_client():
    client = None
    async with trio.open_nursery() as nursery:
        client = await open_client(nursery, Server("s", "1"))
        nursery.cancel_scope.cancel()
    assert client.state is State.CLOSED
    with pytest.raises(McpError):
        await client.ping()


async def test_a_bare_stream_is_a_target_too():
    server = Server("stream", "1")
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        async with connect(ours) as client:
            assert client.server_info.name == "stream"


async def test_cancelling_before_the_owner_task_runs_closes_the_channel():
    async with greeting() as (channel, server):
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.cancel()
            await open_client(nursery, channel)
        with pytest.raises(ConnectionLost):
            await server.receive()


async def test_a_cancellation_while_the_connection_is_torn_down_passes():
    class Slow:
        async def serve(self, channel):
            try:
                await Server("slow", "1").serve(channel)
            finally:
                with trio.CancelScope(shield=True):
                    scope.cancel()
                    await trio.lowlevel.checkpoint()

    with trio.CancelScope() as scope:
        async with connect(Slow()) as client:
            await client.ping()
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


def test_asyncio_is_told_that_this_runs_on_trio() -> None:
    async def main() -> None:
        async with connect(Server("any", "1")):
            pass

    with pytest.raises(LocalProtocolError, match="trio.run"):
        asyncio.run(main())


def test_connect_without_async_with_says_so() -> None:
    with pytest.raises(AttributeError, match="async with connect"):
        connect(Server("any", "1")).list_tools()
