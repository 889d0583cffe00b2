"""The client against servers that people run, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from net_peers import http_client

from mcpcore.errors import ConnectionLost
from mcpcore.transport.net.exchange import HttpClient
from mcpcore.transport.net.url import parse

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).with_name("real_servers.py")


@pytest.fixture(scope="module", params=["http.server", "uvicorn", "hypercorn"])
def origin(request: pytest.FixtureRequest) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), request.param], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(child.stdout.readline())}"
        finally:
            child.kill()


async def ask(client: HttpClient, url: str, method: bytes = b"GET", body: bytes = b"") -> bytes:
    exchange = await client.request(method, parse(url), [], body)
    try:
        assert exchange.status == 200
        return await exchange.read(1 << 24)
    finally:
        exchange.close()


def idle(client: HttpClient) -> int:
    """How many connections the client keeps."""
    (pool,) = client._pools.values()
    return len(pool._idle)


async def test_requests_are_answered_over_one_connection(origin: str) -> None:
    async with http_client() as client:
        for method in (b"GET", b"DELETE", b"GET"):
            assert await ask(client, f"{origin}/p", method) == method + b" /p "
        body = b"x" * 1_000_000
        for _ in range(3):
            assert await ask(client, f"{origin}/p", b"POST", body) == b"POST /p " + body
        assert idle(client) == 1


async def test_many_at_once_share_few_connections(origin: str) -> None:
    async with http_client(connections=3) as client:
        got: list[bytes] = []

        async def one(number: int) -> None:
            got.append(await ask(client, f"{origin}/p", b"POST", b"%d" % number))

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(one, number)
        assert sorted(got) == sorted(b"POST /p %d" % number for number in range(30))
        assert idle(client) <= 3


async def test_a_stream_arrives_whole(origin: str) -> None:
    async with http_client() as client:
        assert await ask(client, f"{origin}/stream") == b"onetwothree"
        assert await ask(client, f"{origin}/p") == b"GET /p "


async def test_leaving_a_stream_early_leaves_a_client_that_works(origin: str) -> None:
    async with http_client(connections=1) as client:
        exchange = await client.request(b"GET", parse(f"{origin}/stream"), [])
        exchange.close()
        assert await ask(client, f"{origin}/p") == b"GET /p "


async def test_a_redirect_is_followed(origin: str) -> None:
    async with http_client() as client:
        assert await ask(client, f"{origin}/moved", b"POST", b"{}") == b"POST /there {}"


async def test_tls_to_a_port_without_it_is_one_lost_connection(origin: str) -> None:
    async with http_client() as client:
        with pytest.raises(ConnectionLost, match="TLS failed"):
            await ask(client, origin.replace("http", "https"))
