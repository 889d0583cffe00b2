"""The scripted peer: what it plays, what it expects, and how it complains."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from handshake import connect

import mcpcore
from mcpcore import ConnectionLost, LocalProtocolError, Server
from mcpcore.revisions import HANDSHAKE
from mcpcore.testing import ScriptedPeer, memory_channels
from mcpcore.transport.lines import open_stream


@pytest.fixture
async def pair():
    ours, theirs = memory_channels()
    async with ScriptedPeer(theirs) as peer:
        yield ours, peer


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_it_plays_a_server_in_any_revision(pair, revision, nursery):
    channel, peer = pair

    async def serve():
        offer = await peer.accept_handshake(
            revision, capabilities={"tools": {}}, instructions="be kind"
        )
        assert offer["params"]["protocolVersion"] == HANDSHAKE[0]
        call = await peer.expect({"method": "tools/call", "params": {"name": "x"}, "id": ...})
        peer.send({"jsonrpc": "2.0", "id": call["id"], "result": {"content": []}})
        await peer.expect_end()

    nursery.start_soon(serve)
    async with connect(channel) as client:
        assert client.revision == revision
        assert client.instructions == "be kind"
        assert (await client.call_tool("x")).content == []


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_it_plays_a_client_in_any_revision(pair, revision, nursery):
    channel, peer = pair
    server = Server("served", "1")
    nursery.start_soon(server.serve, channel)
    answer = await peer.offer_handshake(revision, capabilities={"roots": {}})
    assert answer["result"]["protocolVersion"] == revision
    assert answer["result"]["serverInfo"]["name"] == "served"
    peer.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    await peer.expect({"id": 2, "result": {}})


async def test_it_sends_text_as_it_is(pair):
    channel, peer = pair
    peer.send_text("{broken")
    peer.send_text(b"\xff")
    peer.send({"text": "é\u2028"})
    assert await channel.receive() == [b"{broken", b"\xff", '{"text": "é\u2028"}'.encode()]


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ({"a": 1}, True),
        ({"a": 1, "b": {"c": [1, "x"]}}, True),
        ({"a": ..., "b": ...}, True),
        ({}, True),
        (..., True),
        ({"b": {"c": [..., "x"]}}, True),
        ({"a": 2}, False),
        ({"a": True}, False),
        ({"a": 1.0}, False),
        ({"d": ...}, False),
        ({"b": {"c": [1]}}, False),
        ({"b": [1, "x"]}, False),
        ([1], False),
    ],
)
async def test_a_pattern_fits_what_holds_at_least_as_much(pair, pattern, fits):
    channel, peer = pair
    channel.send_nowait(b'{"a": 1, "b": {"c": [1, "x"], "more": null}}')
    if fits:
        await peer.expect(pattern)
    else:
        with pytest.raises(AssertionError, match=r"expected .*got .*more"):
            await peer.expect(pattern)


async def test_messages_that_came_together_are_given_one_by_one(pair):
    channel, peer = pair
    channel.send_nowait(b"1", b"2")
    assert [await peer.receive(), await peer.receive()] == [1, 2]


async def test_silence_is_told_after_its_time(pair, autojump_clock):
    _, peer = pair
    with pytest.raises(AssertionError, match="no message within 5 s"):
        await peer.expect({})
    with pytest.raises(AssertionError, match=r"no message within 0.5 s"):
        await peer.receive(within=0.5)
    with pytest.raises(AssertionError, match="no message within 5 s"):
        await peer.expect_end()


async def test_a_message_instead_of_the_end_is_told(pair):
    channel, peer = pair
    channel.send_nowait(b'{"one": "more"}')
    with pytest.raises(AssertionError, match=r"expected the end, got .*more"):
        await peer.expect_end()


async def test_the_end_instead_of_a_message_is_the_loss_of_the_connection(pair):
    channel, peer = pair
    await channel.aclose()
    with pytest.raises(ConnectionLost):
        await peer.expect({})


async def test_what_is_no_message_is_told(pair):
    channel, peer = pair
    channel.send_nowait(b"{half")
    with pytest.raises(AssertionError, match=r"not a message: .*half"):
        await peer.receive()


async def test_what_a_decoder_refused_is_told():
    one, other = trio.testing.memory_stream_pair()
    async with ScriptedPeer(open_stream(one, max_line=10)) as peer:
        await other.send_all(b"x" * 11 + b"\n")
        with pytest.raises(AssertionError, match=r"not a message: .*more than 10 bytes"):
            await peer.receive()


async def test_what_the_body_raises_leaves_as_it_is():
    """F-128."""
    channel, theirs = memory_channels()
    with pytest.raises(LocalProtocolError, match="mine"):
        async with ScriptedPeer(theirs):
            raise LocalProtocolError("mine")
    with pytest.raises(ConnectionLost):
        channel.send_nowait(b"{}")


async def test_it_is_met_by_a_client_that_speaks_both_eras():
    for accept, revision in (
        (ScriptedPeer.accept_handshake, "2025-11-25"),
        (ScriptedPeer.accept_discovery, "2026-07-28"),
    ):
        ours, theirs = memory_channels()
        async with ScriptedPeer(theirs) as peer, trio.open_nursery() as nursery:
            nursery.start_soon(accept, peer)
            async with mcpcore.connect(ours) as client:
                assert client.revision == revision
                assert client.server_info.name == "scripted server"
