"""One request and its answer, over connections that are used again, and all that can go wrong."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import h11
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from net_peers import Talker, answer, http_client, read_request, talking
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpcore.errors import ConnectionLost
from mcpcore.transport.net.exchange import MAX_HEAD, HttpClient
from mcpcore.transport.net.url import Url, parse
from mcpcore.transport.web import Network


def at(port: int, target: str = "/mcp") -> Url:
    return parse(f"http://127.0.0.1:{port}{target}")


async def ask(
    client: HttpClient, url: Url, method: bytes = b"GET", body: bytes = b"", **options: object
) -> bytes:
    """One request, and the body of its answer."""
    exchange = await client.request(method, url, [], body, **options)  # type: ignore[arg-type]
    try:
        return await exchange.read(1 << 20)
    finally:
        exchange.close()


def free_places(client: HttpClient) -> list[int]:
    """How many places each pool would give out now, idle connections closed."""
    counts = []
    for pool in client._pools.values():
        for connection in pool.clear():
            connection.close()
        count = 0
        while pool.take():
            count += 1
        for _ in range(count):
            pool.free()
        counts.append(count)
    return counts


# What is sent.


async def test_a_request_has_host_length_and_no_wish_for_encodings() -> None:
    talker = Talker()
    async with talking(talker) as port, http_client() as client:
        url = parse(f"http://user:s3cret@127.0.0.1:{port}/mcp?a=b")
        exchange = await client.request(b"POST", url, [(b"X-Own", b"1")], b"{}")
        assert exchange.status == 200
        assert exchange.url is url
        assert exchange.header(b"content-length") == "2"
        assert exchange.header(b"x-none") is None
        assert await exchange.read(2) == b"ok"
        exchange.close()
    head, body = talker.requests[0].split(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    assert first == b"POST /mcp?a=b HTTP/1.1"
    assert sorted(line.lower() for line in lines) == [
        b"accept-encoding: identity",
        b"authorization: basic dxnlcjpzm2nyzxq=",
        b"content-length: 2",
        f"host: 127.0.0.1:{port}".encode(),
        b"x-own: 1",
    ]
    assert body == b"{}"


async def test_sent_is_called_before_the_answer_comes() -> None:
    sent, may_answer = trio.Event(), trio.Event()

    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await may_answer.wait()
        await stream.send_all(answer())

    async with talking(talk) as port, http_client() as client, trio.open_nursery() as nursery:

        async def request() -> None:
            assert await ask(client, at(port), b"POST", b"{}", sent=sent.set) == b"ok"

        nursery.start_soon(request)
        await sent.wait()
        may_answer.set()


# What comes back.


BODIES = {
    "length": (answer(b"some bytes"), [b"some bytes"]),
    "chunks": (
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5\r\nsome \r\n5;x=y\r\nbytes\r\n0\r\nTrailer: x\r\n\r\n"
        ),
        [b"some bytes"],
    ),
    "end": (b"HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\nsome bytes", [b"some bytes"]),
    "news": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"
        + answer(b"some bytes"),
        [b"some bytes"],
    ),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", [b""]),
    "empty": (answer(b"", "202 Accepted"), [b""]),
}


@pytest.mark.parametrize("kind", BODIES)
@settings(max_examples=15)
@given(data=st.data())
def test_an_answer_is_the_same_however_its_bytes_are_split(kind: str, data: st.DataObject) -> None:
    raw, (body,) = BODIES[kind]
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8).map(sorted))

    async def main() -> None:
        async def talk(stream: trio.abc.Stream) -> None:
            await read_request(stream)
            for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
                await stream.send_all(raw[begin:end])
                # Only when the client has read it and waits for more does the next piece go.
                await wait_all_tasks_blocked()

        async with talking(talk) as port, http_client() as client:
            exchange = await client.request(b"GET", at(port), [])
            got = b""
            while piece := await exchange.chunk():
                got += piece
            assert got == body
            # The end stays the end: nobody waits for what cannot come.
            assert await exchange.chunk() == b""
            exchange.close()
            assert free_places(client) == [100]

    trio.run(main)


async def test_a_stream_is_had_piece_by_piece_as_it_comes() -> None:
    more = trio.Event()

    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await more.wait()
        await stream.send_all(b"3\r\ntwo\r\n0\r\n\r\n")

    async with talking(talk) as port, http_client() as client:
        exchange = await client.request(b"GET", at(port), [])
        assert await exchange.chunk() == b"one"
        more.set()
        assert await exchange.chunk() == b"two"
        assert await exchange.chunk() == b""
        exchange.close()


async def test_a_body_beyond_the_limit_is_refused_and_its_connection_closed() -> None:
    talker = Talker(answer(b"x" * 11))
    async with talking(talker) as port, http_client() as client:
        exchange = await client.request(b"GET", at(port), [])
        with pytest.raises(ConnectionLost, match="more than 10 bytes"):
            await exchange.read(10)
        exchange.close()
        exchange.close()
        assert free_places(client) == [100]


async def test_an_excerpt_is_what_came_before_the_end_or_the_break() -> None:
    broken = b"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nfew"
    async with talking(Talker(answer(b"abcdef"))) as port, http_client() as client:
        exchange = await client.request(b"GET", at(port), [])
        assert await exchange.excerpt(3) == b"abc"
        exchange.close()

    async def breaks(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(broken)

    async with talking(breaks) as port, http_client() as client:
        exchange = await client.request(b"GET", at(port), [])
        assert await exchange.excerpt(50) == b"few"
        exchange.close()
        assert free_places(client) == [100]


async def test_an_answer_that_was_closed_gives_nothing_of_the_next_one() -> None:
    talker = Talker()
    async with talking(talker) as port, http_client() as client:
        first = await client.request(b"GET", at(port), [])
        await first.read(10)
        first.close()
        second = await client.request(b"GET", at(port), [])
        assert talker.connections == 1
        with pytest.raises(ConnectionLost, match="closed the answer"):
            await first.chunk()
        assert await second.read(10) == b"ok"
        second.close()


# Failures.


async def fails(raw: bytes, **options: object) -> str:
    """Why a request fails that is answered by `raw` and the end of the connection."""

    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(raw)

    async with talking(talk) as port, http_client() as client:
        url = parse(f"http://user:s3cret@127.0.0.1:{port}/mcp?key=s3cret")
        with pytest.raises(ConnectionLost) as lost:
            await ask(client, url)
        assert free_places(client) == [100]
        assert "s3cret" not in str(lost.value)
        assert lost.value.reason.startswith(f"http://127.0.0.1:{port}/mcp?...: ")
        return lost.value.reason


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "the connection ended before the answer"),
        (b"<html><body>hello</body></html>\r\n\r\n", "what answers there is not HTTP ("),
        (b"\x15\x03\x01\x00\x02\x02\x46", "what answers there is not HTTP ("),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what answers there is not HTTP ("),
        (b"\x00" * 100_000, "what answers there is not HTTP ("),
        (b"HTTP/1.1 200 OK\r\nContent-", "the connection ended within the head"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "the connection ended within the head"),
        (
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * (MAX_HEAD + 65536),
            "what answers there is not HTTP (Receive buffer too long",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n", "what answers there is not HTTP ("),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "the answer broke off ("),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "the answer broke off (",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
            "the answer broke off (",
        ),
        (answer(b"x", "200 OK", "Content-Encoding: gzip"), "encoded as 'gzip', unasked"),
        (answer(b"x", "200 OK", "Content-Encoding: BR"), "encoded as 'br', unasked"),
    ],
)
async def test_an_answer_that_is_none_is_one_lost_connection(raw: bytes, why: str) -> None:
    assert why in await fails(raw)


async def test_identity_is_no_encoding() -> None:
    talker = Talker(answer(b"x", "200 OK", "Content-Encoding: Identity"))
    async with talking(talker) as port, http_client() as client:
        assert await ask(client, at(port)) == b"x"


@given(st.binary(max_size=200))
@settings(max_examples=30)
def test_garbage_is_one_lost_connection(garbage: bytes) -> None:
    if garbage.startswith(b"HTTP/"):
        return
    assert "ended" in (why := trio.run(fails, garbage)) or "is not HTTP" in why


async def test_a_connection_that_is_reset_in_the_middle_of_a_body_is_lost() -> None:
    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        await reset.wait()
        assert isinstance(stream, trio.SocketStream)
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    reset = trio.Event()
    async with talking(talk) as port, http_client() as client:
        exchange = await client.request(b"GET", at(port), [])
        assert await exchange.chunk() == b"abc"
        reset.set()
        with pytest.raises(ConnectionLost, match="the connection broke"):
            await exchange.chunk()
        exchange.close()
        assert free_places(client) == [100]


async def test_a_server_may_refuse_and_close_while_the_request_is_being_sent() -> None:
    async def talk(stream: trio.abc.Stream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(answer(b"too large", "413 Too Large", "Connection: close"))
        await stream.send_eof()  # type: ignore[attr-defined]
        while await stream.receive_some(1 << 20):
            pass

    async with talking(talk) as port, http_client() as client:
        exchange = await client.request(b"POST", at(port), [], b"x" * (8 << 20))
        assert exchange.status == 413
        assert await exchange.read(100) == b"too large"
        exchange.close()


async def test_a_header_that_cannot_be_one_loses_no_place() -> None:
    async with talking(Talker()) as port, http_client(connections=1) as client:
        with pytest.raises(h11.LocalProtocolError):
            await client.request(b"GET", at(port), [(b"X", b"a\r\nb")])
        assert await ask(client, at(port)) == b"ok"


# Connections that are used again.


async def test_a_connection_serves_one_request_after_another() -> None:
    talker = Talker()
    async with talking(talker) as port, http_client() as client:
        for _ in range(40):
            assert await ask(client, at(port), b"POST", b"{}") == b"ok"
    assert talker.connections == 1


async def test_an_origin_has_connections_of_its_own() -> None:
    one, other = Talker(), Talker()
    async with talking(one) as port, talking(other) as port2, http_client(connections=1) as client:
        await ask(client, at(port))
        await ask(client, at(port2))
        assert (one.connections, other.connections) == (1, 1)
        assert free_places(client) == [1, 1]


@pytest.mark.parametrize(
    "raw",
    [
        answer(b"ok", "200 OK", "Connection: close"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        # More than the answer, which nobody may take for the next one.
        answer() + answer(b"poison"),
    ],
)
async def test_a_connection_that_may_not_be_used_again_is_not(raw: bytes) -> None:
    talker = Talker(raw)
    async with talking(talker) as port, http_client() as client:
        assert await ask(client, at(port)) == b"ok"
        assert await ask(client, at(port)) == b"ok"
        assert talker.connections == 2


async def test_a_connection_idle_for_too_long_is_replaced(autojump_clock: MockClock) -> None:
    talker = Talker()
    async with talking(talker) as port, http_client(keep_alive=4.0) as client:
        await ask(client, at(port))
        await trio.sleep(3.9)
        await ask(client, at(port))
        assert talker.connections == 1
        await trio.sleep(4.1)
        await ask(client, at(port))
        assert talker.connections == 2


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced_even_for_post() -> None:
    connections = 0

    async def talk(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        await read_request(stream)
        await stream.send_all(answer())

    async with talking(talk) as port, http_client() as client:
        for number in range(3):
            assert await ask(client, at(port), b"POST", b"{}") == b"ok"
            await wait_all_tasks_blocked()
            assert connections == number + 1


@pytest.mark.parametrize(
    ("method", "repeatable"), [(b"GET", False), (b"DELETE", False), (b"POST", True)]
)
async def test_a_used_connection_that_died_is_replaced_once(
    method: bytes, repeatable: bool
) -> None:
    talker = Talker(answer(), None, answer(b"again"))
    told = []
    async with talking(talker) as port, http_client() as client:
        await ask(client, at(port))
        sent: Callable[[], object] = lambda: told.append(1)  # noqa: E731
        assert await ask(client, at(port), method, repeatable=repeatable, sent=sent) == b"again"
        assert talker.connections == 2
        assert len(talker.requests) == 3
        assert free_places(client) == [100]
    assert told == [1]


async def test_a_connection_is_not_replaced_twice() -> None:
    talker = Talker(answer(), None)
    async with talking(talker) as port, http_client() as client:
        await ask(client, at(port))
        with pytest.raises(ConnectionLost, match="ended before the answer"):
            await ask(client, at(port))
        assert len(talker.requests) == 3
        assert free_places(client) == [100]


async def test_a_new_connection_that_died_is_not_replaced() -> None:
    talker = Talker(None)
    async with talking(talker) as port, http_client() as client:
        with pytest.raises(ConnectionLost, match="ended before the answer"):
            await ask(client, at(port))
    assert len(talker.requests) == 1


async def test_a_post_that_was_written_is_never_sent_again() -> None:
    talker = Talker(answer(), None, answer())
    async with talking(talker) as port, http_client() as client:
        await ask(client, at(port))
        with pytest.raises(ConnectionLost, match="ended before the answer"):
            await ask(client, at(port), b"POST", b"{}")
    assert len(talker.requests) == 2


# Redirects.


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_within_the_origin_is_followed_with_method_body_and_user(
    status: str,
) -> None:
    talker = Talker(answer(b"", status, "Location: /there?x=1"), answer())
    told = []
    async with talking(talker) as port, http_client() as client:
        url = parse(f"http://user:s3cret@127.0.0.1:{port}/here")
        exchange = await client.request(b"POST", url, [], b"{}", sent=lambda: told.append(1))
        assert await exchange.read(10) == b"ok"
        assert exchange.url.target == "/there?x=1"
        exchange.close()
    assert talker.requests[1].startswith(b"POST /there?x=1 HTTP/1.1\r\n")
    assert talker.requests[1].endswith(b"\r\n\r\n{}")
    assert b"Basic dXNlcjpzM2NyZXQ=" in talker.requests[1]
    assert told == [1]


@pytest.mark.parametrize(
    "raw",
    [
        answer(b"", "307 Temporary Redirect", "Location: http://elsewhere.invalid/"),
        answer(b"", "307 Temporary Redirect", "Location: http://[broken"),
        answer(b"", "307 Temporary Redirect"),
        answer(b"", "302 Found", "Location: /there"),
    ],
)
async def test_any_other_redirect_is_left_to_the_caller(raw: bytes) -> None:
    talker = Talker(raw)
    async with talking(talker) as port, http_client() as client:
        exchange = await client.request(b"POST", at(port), [], b"{}")
        assert exchange.status in (302, 307)
        exchange.close()
    assert len(talker.requests) == 1


async def test_redirects_in_a_circle_end() -> None:
    talker = Talker(answer(b"", "307 Temporary Redirect", "Location: /mcp"))
    async with talking(talker) as port, http_client() as client:
        exchange = await client.request(b"GET", at(port), [])
        assert exchange.status == 307
        exchange.close()
        assert free_places(client) == [100]
    assert len(talker.requests) == 4


# Places.


async def test_who_finds_no_place_waits_for_one_unless_it_is_urgent() -> None:
    talker = Talker()
    async with talking(talker) as port, http_client(connections=1) as client:
        held = await client.request(b"GET", at(port), [])
        assert await ask(client, at(port), urgent=True) == b"ok"
        got: list[bytes] = []

        async def wait() -> None:
            got.append(await ask(client, at(port)))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            held.close()
        assert got == [b"ok"] * 3
        assert free_places(client) == [1]


async def test_a_place_is_given_back_when_no_connection_can_be_had() -> None:
    async with talking(Talker()) as port:
        pass
    async with http_client(connections=1) as client:
        for _ in range(3):
            with pytest.raises(ConnectionLost, match="refused"):
                await ask(client, at(port))
        assert free_places(client) == [1]


class CancelsAtCheckpoint(trio.abc.Instrument):
    """Cancels a scope before the n-th step of a task."""

    def __init__(self, n: int) -> None:
        self.left = n
        self.scope = trio.CancelScope()
        self.task: trio.lowlevel.Task | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            if self.left == 0:
                self.scope.cancel()
            self.left -= 1


async def test_no_cancellation_loses_a_place() -> None:
    """One scenario, cancelled at the n-th step for n = 0, 1, 2, ... until it runs to its end."""
    redirect = answer(b"", "307 Temporary Redirect", "Location: /there")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"

    async def talk(stream: trio.abc.Stream) -> None:
        buffer = bytearray()
        while request := await read_request(stream, buffer):
            if request.startswith(b"DELETE"):
                return
            if request.startswith(b"GET /here"):
                await stream.send_all(redirect)
            elif request.startswith(b"GET /stream"):
                await stream.send_all(chunked)
                await wait_all_tasks_blocked()
                await stream.send_all(b"3\r\ntwo\r\n0\r\n\r\n")
            else:
                await stream.send_all(answer())

    async with talking(talk) as port:

        async def scenario(client: HttpClient) -> None:
            assert await ask(client, at(port), b"POST", b"{}" * 1_000_000) == b"ok"
            with pytest.raises(ConnectionLost):
                await ask(client, at(port), b"DELETE")
            assert await ask(client, at(port, "/here")) == b"ok"
            held = await client.request(b"GET", at(port, "/stream"), [])
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask, client, at(port))
                    await trio.lowlevel.checkpoint()
                    assert await held.chunk() == b"one"
                    assert await held.chunk() == b"two"
                    assert await held.chunk() == b""
                    held.close()
            finally:
                held.close()

        n = 0
        finished = False
        while not finished:
            async with http_client(connections=1) as client:
                instrument = CancelsAtCheckpoint(n)

                async def run(client: HttpClient, instrument: CancelsAtCheckpoint) -> None:
                    nonlocal finished
                    instrument.task = trio.lowlevel.current_task()
                    with instrument.scope:
                        await scenario(client)
                        finished = True

                trio.lowlevel.add_instrument(instrument)
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(run, client, instrument)
                finally:
                    trio.lowlevel.remove_instrument(instrument)
                assert free_places(client) in ([], [1]), n
                assert not client._busy, n
            n += 1
        assert n > 20, n


async def test_cancelling_who_reads_a_stream_closes_its_connection() -> None:
    closed = trio.Event()

    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        assert not await stream.receive_some(1)
        closed.set()

    async with talking(talk) as port, http_client(connections=1) as client:
        exchange = await client.request(b"GET", at(port), [])
        assert await exchange.chunk() == b"abc"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.chunk)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await closed.wait()
        exchange.close()
        assert free_places(client) == [1]


async def test_a_replacement_waits_for_a_place_as_any_other() -> None:
    """A used connection died while an urgent request was beyond the places that there are."""
    may_die, may_answer = trio.Event(), trio.Event()
    dying = 0

    async def talk(stream: trio.abc.Stream) -> None:
        nonlocal dying
        while request := await read_request(stream):
            if b"/die" in request:
                dying += 1
                await may_die.wait()
                if dying == 1:
                    return
            elif b"/hold" in request:
                await may_answer.wait()
            await stream.send_all(
                answer(b"ok", "200 OK", *["Connection: close"] * (b"/p" not in request))
            )

    async with talking(talk) as port, http_client(connections=1) as client:
        await ask(client, at(port, "/p"))
        got: list[str] = []

        async def one(target: str, urgent: bool) -> None:
            assert await ask(client, at(port, target), urgent=urgent) == b"ok"
            got.append(target)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "/die", False)
            await wait_all_tasks_blocked()
            nursery.start_soon(one, "/hold", True)
            await wait_all_tasks_blocked()
            may_die.set()
            await wait_all_tasks_blocked()
            assert dying == 1
            may_answer.set()
        assert got == ["/hold", "/die"]
        assert free_places(client) == [1]


async def test_cancelling_who_waits_for_a_place_wakes_the_next() -> None:
    talker = Talker()
    async with talking(talker) as port, http_client(connections=1) as client:
        held = await client.request(b"GET", at(port), [])
        async with trio.open_nursery() as nursery:
            scopes = [trio.CancelScope() for _ in range(3)]

            async def wait(scope: trio.CancelScope) -> None:
                with scope:
                    await ask(client, at(port))

            for scope in scopes:
                nursery.start_soon(wait, scope)
                await wait_all_tasks_blocked()
            # The first is told of the place, and cancelled before it could take it.
            held.close()
            scopes[0].cancel()
        assert free_places(client) == [1]


# The end.


async def test_closing_ends_all_that_wait_and_all_that_comes() -> None:
    async def silent(stream: trio.abc.Stream) -> None:
        while request := await read_request(stream):
            if b"/begin" in request:
                await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")

    async with talking(silent) as port:
        client = HttpClient(Network(connections=2))
        reading = await client.request(b"GET", at(port, "/begin"), [])
        assert await reading.chunk() == b"abc"
        ended: list[str] = []

        async def expect(function: Callable[[], object]) -> None:
            with pytest.raises(ConnectionLost) as lost:
                await function()  # type: ignore[misc]
            ended.append(lost.value.reason)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect, reading.chunk)
            for _ in range(4):  # One waits for its answer, three for a place.
                nursery.start_soon(expect, lambda: ask(client, at(port)))
            await wait_all_tasks_blocked()
            await client.aclose()
        assert len(ended) == 5
        await expect(lambda: ask(client, at(port)))
        reading.close()
        assert free_places(client) == [2]
        await client.aclose()


async def test_closing_closes_idle_connections_and_those_just_opened() -> None:
    closed = trio.Event()

    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(answer())
        assert not await stream.receive_some(1)
        closed.set()

    async with talking(talk) as port:
        client = HttpClient()
        await ask(client, at(port))
        await client.aclose()
        await closed.wait()


async def test_a_connection_that_was_still_opening_is_closed_too(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    may_open = trio.Event()

    async def talk(stream: trio.abc.Stream) -> None:
        await may_open.wait()
        # The handshake, and then nothing.
        assert not await stream.receive_some(1)

    async with talking(talk, server_tls) as port, trio.open_nursery() as nursery:
        client = HttpClient(Network(ssl_context=client_tls))

        async def late() -> None:
            with pytest.raises(ConnectionLost, match="this side closed"):
                await ask(client, parse(f"https://127.0.0.1:{port}/"))

        nursery.start_soon(late)
        await wait_all_tasks_blocked()
        await client.aclose()
        may_open.set()
    assert free_places(client) == [100]


async def test_an_exchange_that_ends_after_the_client_was_closed_keeps_nothing() -> None:
    async with talking(Talker()) as port:
        client = HttpClient()
        exchange = await client.request(b"GET", at(port), [])
        await exchange.read(10)
        await client.aclose()
        exchange.close()
        assert free_places(client) == [100]


async def test_a_replacement_is_not_sought_after_the_end() -> None:
    """A used connection that is closed by this side did not die of the server."""

    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(answer())
        await read_request(stream)
        begun.set()
        await trio.sleep_forever()

    begun = trio.Event()
    async with talking(talk) as port, trio.open_nursery() as nursery:
        client = HttpClient()
        await ask(client, at(port))

        async def second() -> None:
            with pytest.raises(ConnectionLost, match="this side closed"):
                await ask(client, at(port))

        nursery.start_soon(second)
        await begun.wait()
        await client.aclose()


async def test_a_connection_over_tls_is_closed_under_who_reads_it(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def silent(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        begun.set()
        await stream.receive_some(1)

    begun = trio.Event()
    async with talking(silent, server_tls) as port, trio.open_nursery() as nursery:
        client = HttpClient(Network(ssl_context=client_tls))

        async def request() -> None:
            with pytest.raises(ConnectionLost):
                await ask(client, parse(f"https://127.0.0.1:{port}/"))

        nursery.start_soon(request)
        await begun.wait()
        await client.aclose()
