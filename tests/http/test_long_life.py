"""What must hold in the long run: days with broken connections, killed peers, sessions by the thousand."""

from __future__ import annotations

import gc
import os
import signal
import sys
import textwrap
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from handshake import connect
from web_server import Web, call, initialize, serving

from mcpcore import ConnectionLost, Context, Server, Timeouts
from mcpcore.server.http.endpoint import Endpoint
from mcpcore.transport import attempts
from mcpcore.transport.net import exchange
from mcpcore.transport.net.listen import HttpListener
from mcpcore.transport.web import HttpServer

HOUR = 3600.0


class Cable(trio.abc.HalfCloseableStream):
    """One end of a connection in memory, which may be cut."""

    def __init__(self, stream: trio.StapledStream[Any, Any]) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return bytes(await self._stream.receive_some(max_bytes))

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    def close(self) -> None:
        self._stream.send_stream.close()
        self._stream.receive_stream.close()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


class Network(trio.abc.Listener[Cable]):
    """Connections in memory between our client and our listener."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Cable](100)
        self.open: list[tuple[Cable, Cable]] = []

    async def connect(self, *_: object) -> Cable:
        here, there = map(Cable, trio.testing.memory_stream_pair())
        self.open.append((here, there))
        await self._send.send(there)
        return here

    async def accept(self) -> Cable:
        return await self._receive.receive()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    def cut(self) -> None:
        """Break all that is open."""
        for here, there in self.open:
            here.close()
            there.close()
        self.open.clear()


@asynccontextmanager
async def in_memory(server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    network = Network()
    monkeypatch.setattr(exchange, "open_stream", network.connect)
    # Events from the first moment: what breaks before the headers came cannot be resumed.
    endpoint = Endpoint(server, keep_alive=100, answers="events")
    async with trio.open_nursery() as nursery:
        await nursery.start(endpoint.run)
        await nursery.start(HttpListener([network], endpoint.handle).run)
        yield network
        nursery.cancel_scope.cancel()


async def test_a_day_with_breaks_loses_and_doubles_nothing(  # noqa: C901 - a day, told in one place
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty-four simulated hours: long calls with progress, calls in between, and changes that the server
    tells by itself, while all connections break every few minutes.
    """
    server = Server("day", "1", timeouts=Timeouts(maximum=100 * HOUR))

    @server.tool
    async def long(minutes: int, ctx: Context[Any]) -> str:
        for minute in range(minutes):
            await trio.sleep(60)
            ctx.progress(minute + 1, minutes)
        return f"after {minutes} minutes"

    # On the spot: the simulated clock would not wait for a thread.
    @server.tool(inline=True)
    def add(a: int, b: int) -> int:
        return a + b

    @server.resource("test://state", subscribable=True)
    def state() -> str:
        return "state"

    updates: list[str] = []
    timeouts = Timeouts(request=3 * HOUR, maximum=100 * HOUR)
    async with (
        in_memory(server, monkeypatch) as network,
        connect(
            "http://localhost/mcp", on_resource_updated=updates.append, timeouts=timeouts
        ) as client,
    ):
        await client.subscribe("test://state")
        end = trio.current_time() + 24 * HOUR
        told = done = 0

        async def break_now_and_then() -> None:
            while True:
                await trio.sleep(200)
                network.cut()

        async def call_for_long() -> None:
            nonlocal done
            while trio.current_time() < end:
                steps: list[Any] = []
                result = await client.call_tool("long", {"minutes": 55}, on_progress=steps.append)
                assert result.text == "after 55 minutes"
                assert [step.progress for step in steps] == list(range(1, 56))
                done += 1

        async def call_in_between() -> None:
            n = 0
            while trio.current_time() < end:
                n += 1
                result = await client.call_tool("add", {"a": n, "b": 1})
                assert result.text == str(n + 1)
                # Between the breaks: a call that is not safe is not repeated when its connection dies.
                await trio.sleep(100 - trio.current_time() % 100 + 50)

        async def tell() -> None:
            nonlocal told
            while trio.current_time() < end:
                server.resource_updated("test://state")
                told += 1
                await trio.sleep(333)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(break_now_and_then)
            async with trio.open_nursery() as work:
                for function in (call_for_long, call_for_long, call_in_between, tell):
                    work.start_soon(function)
            await trio.sleep(300)
            nursery.cancel_scope.cancel()
        assert done >= 50
        assert updates == ["test://state"] * told


SERVER = """
    import trio
    from mcpcore import Context, Server
    server = Server("victim", "1")
    @server.tool
    async def slow(ctx: Context) -> str:
        ctx.progress(1)
        await trio.sleep_forever()
    server.run("http", port={port})
"""

CLIENT = """
    import sys, trio
    from mcpcore import connect
    from mcpcore.revisions import HANDSHAKE
    async def main():
        async with connect(sys.argv[1], revisions=HANDSHAKE) as client:
            await client.call_tool("slow", on_progress=lambda _: print("going", flush=True))
    trio.run(main)
"""


@asynccontextmanager
async def program(source: str, tmp_path: Path, *arguments: str) -> AsyncIterator[trio.Process]:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(
                trio.run_process,
                [sys.executable, str(path), *arguments],
                stdout=-1,
                stderr=-1,
                capture_stdout=False,
                capture_stderr=False,
                check=False,
            )
        )
        try:
            yield process
        finally:
            process.kill()


async def test_a_server_that_is_killed_in_the_middle_of_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call ends with a reason, after a few attempts to have its answer from a new server."""
    monkeypatch.setattr(attempts, "FIRST_DELAY", 0.01)
    async with program(SERVER.format(port=0), tmp_path) as process:
        said = b""
        while b"\n" not in said:
            said += await process.stderr.receive_some()
        url = said.decode().split("serving on ")[1].split()[0]
        async with connect(HttpServer(url=url, listen=False)) as client:
            going = trio.Event()

            async def end() -> None:
                with pytest.raises(ConnectionLost, match="refused"):
                    await client.call_tool("slow", on_progress=lambda _: going.set())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(end)
                await going.wait()
                process.send_signal(signal.SIGKILL)


async def test_a_client_that_is_killed_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    """The server goes on with others, and what the dead one asked for goes on, too."""
    server = Server("survivor", "1")
    finish = trio.Event()
    finished: list[int] = []

    @server.tool
    async def slow(ctx: Context[Any]) -> str:
        ctx.progress(1)
        await finish.wait()
        finished.append(1)
        return "x" * 1000

    async with serving(server) as url:
        async with program(CLIENT, tmp_path, url) as process:
            await process.stdout.receive_some()
            process.send_signal(signal.SIGKILL)
            await process.wait()
        async with connect(url) as client:
            await client.ping()
            finish.set()
            result = await client.call_tool("slow")
            assert len(result.text) == 1000
        assert finished == [1, 1]


def resident() -> int:
    """Bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_ten_thousand_abandoned_sessions_leave_nothing_behind() -> None:
    """F-070: opened, never closed; idle ones end, and their memory comes back."""
    from mcpcore.server.http.sessions import SessionLimits

    server = Server("many", "1")

    @server.tool
    async def count(ctx: Context[Any]) -> str:
        ctx.progress(1)
        return "x" * 100

    limits = SessionLimits(idle=0.1)
    async with serving(server, sessions=limits) as url:
        client = Web(url)

        async def abandon(count: int) -> None:
            for _ in range(count):
                reply = await client.post(initialize(), mcp_session_id=None)
                assert reply.status == 200

        async def settle() -> int:
            client.session = None
            last = await client.initialize()
            assert last.status == 200
            await client.post(call("count", token="t"))
            await trio.sleep(0.5)
            gc.collect()
            return resident()

        await abandon(4000)
        tracemalloc.start()
        await settle()
        held = tracemalloc.get_traced_memory()[0]
        await abandon(1000)
        await settle()
        left = tracemalloc.get_traced_memory()[0] - held
        tracemalloc.stop()

        # The allocator may take pages that it does not need; what is kept grows every time.
        growth = []
        before = await settle()
        for _ in range(3):
            await abandon(10_000)
            after = await settle()
            growth.append(after / before)
            before = after
            if growth[-1] < 1.05:
                break
        await client.client.aclose()
    # A table that grew stays as large as it was; a session has 10,000 bytes.
    assert left < 50_000
    assert growth[-1] < 1.05


async def test_a_call_that_says_nothing_for_hours_survives_its_connections(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection lives for a while and brings nothing; that is no reason to give up."""
    server = Server("mute", "1", timeouts=Timeouts(maximum=100 * HOUR))

    @server.tool
    async def think() -> str:
        await trio.sleep(5 * HOUR)
        return "thought"

    timeouts = Timeouts(request=10 * HOUR, maximum=100 * HOUR)
    async with (
        in_memory(server, monkeypatch) as network,
        connect("http://localhost/mcp", timeouts=timeouts) as client,
        trio.open_nursery() as nursery,
    ):

        async def break_now_and_then() -> None:
            while True:
                await trio.sleep(300)
                network.cut()

        nursery.start_soon(break_now_and_then)
        assert (await client.call_tool("think")).text == "thought"
        nursery.cancel_scope.cancel()
