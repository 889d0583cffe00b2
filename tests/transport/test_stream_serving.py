"""Serving and connecting over TCP and Unix sockets, end to end: any trio stream will do."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing
from handshake import connect, open_client

from mcpcore import (
    ConnectionLost,
    Context,
    Server,
    Timeouts,
    open_stream,
    serve_stream,
)
from mcpcore.testing import ScriptedPeer

PATIENT = Timeouts(connect=20, request=20)


@pytest.fixture
def server():
    server = Server("over sockets", "1")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool(structured=False)
    async def blob(size: int) -> str:
        return "x" * size

    @server.tool
    async def wait(ctx: Context) -> None:
        ctx.progress(1)
        await trio.sleep_forever()

    return server


@pytest.fixture(params=["tcp", "unix"])
async def dial(request, server, nursery, tmp_path):
    """Gives a function that opens a stream to a listening server."""
    handler = partial(serve_stream, server)
    if request.param == "tcp":
        (listener,) = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        return partial(trio.open_tcp_stream, "127.0.0.1", port)
    path = str(tmp_path / "socket")
    socket = trio.socket.socket(trio.socket.AF_UNIX)
    await socket.bind(path)
    socket.listen()
    nursery.start_soon(trio.serve_listeners, handler, [trio.SocketListener(socket)])
    return partial(trio.open_unix_socket, path)


async def test_a_session_over_a_socket(dial):
    async with connect(open_stream(await dial()), timeouts=PATIENT) as client:
        assert client.server_info.name == "over sockets"
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.structured_content == {"result": 3}
        assert len((await client.call_tool("blob", {"size": 5_000_000})).text) == 5_000_000


async def test_one_server_serves_several_clients_at_once_and_one_after_another(dial):
    """F-098."""
    sums = []

    async def use(number):
        async with connect(open_stream(await dial()), timeouts=PATIENT) as client:
            result = await client.call_tool("add", {"a": number, "b": 0})
            sums.append(result.structured_content["result"])

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(use, number)
    await use(5)
    assert sorted(sums) == [0, 1, 2, 3, 4, 5]


async def test_a_client_that_vanishes_costs_the_others_nothing(dial, nursery):
    """F-035."""
    async with connect(open_stream(await dial()), timeouts=PATIENT) as stays:
        stream = await dial()
        await stream.send_all(b'{"jsonrpc":"2.0","id":1,"method":"init')
        await trio.aclose_forcefully(stream)
        leaves = await open_client(nursery, open_stream(await dial()), timeouts=PATIENT)
        begun, failed = trio.Event(), trio.Event()

        async def call():
            with pytest.raises(ConnectionLost):
                await leaves.call_tool("wait", on_progress=lambda _: begun.set())
            failed.set()

        nursery.start_soon(call)
        await begun.wait()
        await leaves.aclose()
        await failed.wait()
        await stays.ping()


async def test_a_server_that_closes_the_socket_fails_the_call(nursery):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def serve():
        async with ScriptedPeer(open_stream(await listener.accept())) as peer:
            await peer.accept_handshake(capabilities={"tools": {}})
            await peer.expect({"method": "tools/call"})

    async with listener:
        nursery.start_soon(serve)
        stream = await trio.testing.open_stream_to_socket_listener(listener)
        async with connect(open_stream(stream), timeouts=PATIENT) as client:
            with pytest.raises(ConnectionLost, match="the peer closed the connection"):
                await client.call_tool("any")


async def test_a_server_refuses_long_lines_on_request(server):
    one, other = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_stream, server, one, max_line=1000))
        async with ScriptedPeer(open_stream(other)) as peer:
            await peer.offer_handshake()
            peer.send_text(b"x" * 2000)
            await peer.expect({"error": {"code": -32600}})
            peer.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            await peer.expect({"id": 1, "result": {}})


async def test_what_was_accepted_may_speak_and_answer_after_the_end_of_the_input(server, dial):
    """F-014: progress, log lines and the answer of a call come although its caller sends no more."""

    @server.tool
    async def late(ctx: Context) -> str:
        ctx.progress(1)
        ended.set()
        await closed.wait()
        await trio.testing.wait_all_tasks_blocked()
        ctx.progress(2)
        ctx.log("info", "still here")
        return "done"

    ended, closed = trio.Event(), trio.Event()
    stream = await dial()
    async with ScriptedPeer(open_stream(stream)) as peer:
        await peer.offer_handshake()
        params = {"name": "late", "_meta": {"progressToken": "p"}}
        peer.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})
        await ended.wait()
        await stream.send_eof()
        closed.set()
        for method in ("notifications/progress", "notifications/progress", "notifications/message"):
            await peer.expect({"method": method})
        await peer.expect({"id": 9, "result": {"content": [{"type": "text", "text": "done"}]}})
