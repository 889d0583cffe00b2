"""The server's side of HTTP: who may send what, how long it may take, and how it ends."""

from __future__ import annotations

import errno
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from net_peers import MemoryListener, http_client
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpcore.transport.http import Answer, EventSource, Handle, HttpRequest, RequestLost
from mcpcore.transport.net.listen import HttpListener, ListenLimits
from mcpcore.transport.net.url import parse

GET = b"GET /p HTTP/1.1\r\nHost: h\r\n\r\n"


class Events(EventSource):
    """A stream of events that a test feeds."""

    def __init__(self, *data: bytes, ended: bool = False) -> None:
        self.data = b"".join(data)
        self.over = ended
        self.closed = False
        self._more = trio.Event()

    def feed(self, data: bytes, *, ended: bool = False) -> None:
        self.data += data
        self.over = ended
        self._more.set()

    def take(self) -> bytes:
        data, self.data = self.data, b""
        return data

    @property
    def ended(self) -> bool:
        return self.over

    async def wait(self) -> None:
        await self._more.wait()
        self._more = trio.Event()

    def close(self) -> None:
        self.closed = True


async def echo(request: HttpRequest) -> Answer:
    """Says method, path and body; /large sends much, and /unread leaves the body where it is."""
    if request.path == "/large":
        return Answer(200, body=b"x" * (8 << 20))
    if request.path == "/unread":
        return Answer(403, (("Content-Type", "text/plain"),), b"no")
    if request.path == "/nothing":
        return Answer(204)
    body = await request.read(1000)
    if body is None:
        return Answer(413)
    return Answer(200, (("X-Own", "1"),), f"{request.method} {request.path} ".encode() + body)


@asynccontextmanager
async def listening(
    handle: Handle = echo, **limits: float
) -> AsyncIterator[tuple[HttpListener, MemoryListener]]:
    """A listener in memory, stopped at the end of the block, which returns when all are gone."""
    memory = MemoryListener()
    listener = HttpListener([memory], handle, ListenLimits(**limits))  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(listener.run)
        yield listener, memory
        listener.stop()
        # Nobody waits for clients that are still there.
        for client in memory.clients:
            await client.aclose()
    assert memory.closed


@asynccontextmanager
async def listening_tcp(
    handle: Handle = echo, tls: ssl.SSLContext | None = None, **limits: float
) -> AsyncIterator[tuple[HttpListener, int]]:
    sockets = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = sockets[0].socket.getsockname()[1]
    listeners: list[trio.abc.Listener[trio.abc.Stream]] = list(sockets)
    if tls is not None:
        listeners = [trio.SSLListener(each, tls, https_compatible=True) for each in sockets]
    listener = HttpListener(listeners, handle, ListenLimits(**limits))  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(listener.run)
        yield listener, port
        listener.stop()


async def read_all(stream: trio.abc.Stream) -> bytes:
    """What comes until the end of the stream."""
    data = b""
    try:
        while piece := await stream.receive_some(1 << 20):
            data += piece
    except trio.BrokenResourceError:
        pass
    return data


async def read_until(stream: trio.abc.Stream, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        piece = await stream.receive_some(1 << 20)
        assert piece, data
        data += piece
    return data


async def exchange(raw: bytes, handle: Handle = echo, **limits: float) -> bytes:
    """All that the server says to `raw` and the end of what the client sends."""
    async with listening(handle, **limits) as (_, memory):
        stream = memory.connect()
        await stream.send_all(raw)
        await stream.send_eof()
        return await read_all(stream)


def status_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n")[0]


# Requests and answers.


async def test_a_request_is_answered_with_length_and_date() -> None:
    said = await exchange(b"POST /p?q=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
    head, _, body = said.partition(b"\r\n\r\n")
    assert status_of(said) == b"HTTP/1.1 200 OK"
    assert body == b"POST /p abc"
    names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]]
    assert sorted(names) == [b"content-length", b"date", b"x-own"]


async def test_a_chunked_body_is_read() -> None:
    head = b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (await exchange(head + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")).endswith(b"POST /p abc")


async def test_pipelined_requests_are_answered_in_order() -> None:
    raw = b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(5))
    said = await exchange(raw)
    found = [said.index(b"GET /%d " % number) for number in range(5)]
    assert found == sorted(found)
    assert said.count(b"HTTP/1.1 200 OK") == 5


async def test_bytes_may_come_one_by_one() -> None:
    async with listening() as (_, memory):
        stream = memory.connect()
        for byte in b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab":
            await stream.send_all(bytes([byte]))
        assert (await read_until(stream, b"POST /p ab")).startswith(b"HTTP/1.1 200 OK")


async def test_head_gets_the_head_alone() -> None:
    said = await exchange(b"HEAD /p HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
    first, _, rest = said.partition(b"\r\n\r\n")
    assert b"\r\nContent-Length: 8" in first
    assert status_of(rest) == b"HTTP/1.1 200 OK"
    assert rest.endswith(b"GET /p ")


async def test_head_of_a_stream_opens_none() -> None:
    events = Events(b"data: x\n\n")

    async def handle(request: HttpRequest) -> Answer:
        return Answer(200, (("Content-Type", "text/event-stream"),), events=events)

    said = await exchange(b"HEAD /p HTTP/1.1\r\nHost: h\r\n\r\n", handle)
    assert status_of(said) == b"HTTP/1.1 200 OK"
    assert said.endswith(b"\r\n\r\n")
    assert events.closed


async def test_an_answer_without_content_has_no_length() -> None:
    said = await exchange(b"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
    assert status_of(said) == b"HTTP/1.1 204 No Content"
    assert b"ontent-" not in said.partition(b"\r\n")[2]


async def test_http_1_0_is_answered_and_closed() -> None:
    async with listening() as (_, memory):
        stream = memory.connect()
        await stream.send_all(b"GET /p HTTP/1.0\r\n\r\n")
        await stream.send_eof()
        assert (await read_all(stream)).endswith(b"\r\n\r\nGET /p ")


async def test_connection_close_is_obeyed() -> None:
    raw = b"GET /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    assert (await exchange(raw + GET)).count(b"HTTP/1.1 200 OK") == 1


# Bodies.


async def test_100_continue_is_said_when_the_body_is_wanted() -> None:
    async with listening() as (_, memory):
        stream = memory.connect()
        head = b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        await stream.send_all(head)
        assert (await read_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await stream.send_all(b"ab")
        assert (await read_until(stream, b"POST /p ab")).startswith(b"HTTP/1.1 200 OK")


async def test_100_continue_is_not_said_when_nobody_wants_the_body() -> None:
    head = b"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    async with listening() as (_, memory):
        stream = memory.connect()
        await stream.send_all(head)
        assert (await read_until(stream, b"no")).startswith(b"HTTP/1.1 403 ")
        await stream.send_eof()
        assert await read_all(stream) == b""


async def test_a_body_beyond_the_limit_is_told_and_the_connection_goes_on_or_ends() -> None:
    head = b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
    said = await exchange(head % 2000 + b"x" * 2000 + GET)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert said.count(b"HTTP/1.1 200 OK") == 1
    said = await exchange(head % 200_000 + b"x" * 200_000 + GET)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert b"200 OK" not in said


async def test_a_small_body_that_nobody_read_is_skipped() -> None:
    raw = b"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
    said = await exchange(raw + GET)
    assert said.startswith(b"HTTP/1.1 403 ")
    assert said.endswith(b"GET /p ")


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nab"], ids=["no chunk", "the end in the middle"])
async def test_a_broken_body_is_a_bad_request_and_no_error_of_the_server(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def careful(request: HttpRequest) -> Answer:
        try:
            return Answer(200, body=await request.read(1000) or b"")
        except RequestLost:
            raise
        except Exception:
            # As the endpoint does: whatever else is raised is an error of the server.
            return Answer(500)

    head = b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    said = await exchange(head + body, careful)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert not caplog.records


async def test_a_client_that_is_gone_in_the_middle_of_a_body_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "mcpcore.transport")
    async with listening() as (_, memory):
        stream = memory.connect()
        await stream.send_all(b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab")
        await wait_all_tasks_blocked()
        await stream.aclose()
    async with listening_tcp() as (_, port):
        tcp = await trio.open_tcp_stream("127.0.0.1", port)
        await tcp.send_all(b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab")
        await wait_all_tasks_blocked()
        tcp.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await tcp.aclose()
        await wait_all_tasks_blocked()
    assert {record.levelname for record in caplog.records} <= {"DEBUG"}
    assert "a client went away" in caplog.text


# What is no HTTP.


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"garbage\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
        (b"GET /p HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /p HTTP/1.1\r\nHost", b"400"),
        (b"GET /p HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", b"501"),
        (b"GET /p HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 300_000, b"431"),
    ],
)
async def test_what_is_no_request_is_refused_and_the_connection_ends(
    raw: bytes, status: bytes
) -> None:
    said = await exchange(raw)
    assert said.startswith(b"HTTP/1.1 " + status)
    assert b"\r\nConnection: close\r\n" in said


async def test_the_end_between_requests_is_no_failure() -> None:
    assert await exchange(b"") == b""
    assert (await exchange(GET)).count(b"HTTP/1.1") == 1


# Time.


async def test_a_connection_without_a_request_is_closed_in_silence(
    autojump_clock: MockClock,
) -> None:
    async with listening(idle=20.0) as (_, memory):
        fresh, used = memory.connect(), memory.connect()
        await used.send_all(GET)
        await read_until(used, b"GET /p ")
        begun = trio.current_time()
        assert await read_all(used) == b""
        assert 20 <= trio.current_time() - begun <= 25
        assert await read_all(fresh) == b""


async def test_a_slow_head_ends_with_408(autojump_clock: MockClock) -> None:
    async with listening(head=10.0) as (_, memory):
        stream = memory.connect()
        await stream.send_all(b"GET /p HT")
        said = b""
        async with trio.open_nursery() as nursery:

            async def drip() -> None:
                while True:
                    await trio.sleep(1)
                    await stream.send_all(b"T")

            nursery.start_soon(drip)
            said = await stream.receive_some(10_000)
            nursery.cancel_scope.cancel()
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"the head of the request took too long" in said
        assert await read_all(stream) == b""


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
async def test_a_slow_body_ends_with_408(autojump_clock: MockClock, expect: bytes) -> None:
    async with listening(body=10.0) as (_, memory):
        stream = memory.connect()
        begun = trio.current_time()
        await stream.send_all(b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n" + expect)
        await stream.send_all(b"\r\n")
        said = await read_all(stream)
        assert b"HTTP/1.1 408 " in said
        assert b"the body of the request took too long" in said
        assert 10 <= trio.current_time() - begun <= 15


async def test_a_client_that_never_reads_is_given_up(autojump_clock: MockClock) -> None:
    async with listening_tcp(write=10.0) as (listener, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        await trio.sleep(1)
        assert len(listener._connections) == 1
        await trio.sleep(15)
        assert not listener._connections
        await stream.aclose()


async def test_a_handler_may_take_as_long_as_it_likes(autojump_clock: MockClock) -> None:
    async def slow(request: HttpRequest) -> Answer:
        assert await request.read(1) is None
        await trio.sleep(1000)
        return await echo(HttpRequest("GET", "/nothing", "", {}, request.read, request.gone))

    raw = b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
    assert status_of(await exchange(raw, slow)) == b"HTTP/1.1 204 No Content"


# Events.


async def test_events_are_streamed_piece_by_piece() -> None:
    events = Events()

    async def handle(request: HttpRequest) -> Answer:
        return Answer(200, (("Content-Type", "text/event-stream"),), events=events)

    async with listening(handle) as (_, memory):
        stream = memory.connect()
        await stream.send_all(GET)
        assert b"text/event-stream" in await read_until(stream, b"\r\n\r\n")
        events.feed(b"data: 1\n\n")
        assert await read_until(stream, b"\r\n") == b"9\r\ndata: 1\n\n\r\n"
        events.feed(b"")  # It woke up for nothing.
        await wait_all_tasks_blocked()
        events.feed(b"data: 2\n\n", ended=True)
        assert await read_until(stream, b"0\r\n\r\n") == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"
        assert events.closed
        # The connection goes on.
        events.closed = False
        events.feed(b"data: 3\n\n", ended=True)
        await stream.send_all(GET)
        assert (await read_until(stream, b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")


async def test_events_for_http_1_0_end_with_the_connection() -> None:
    async def handle(request: HttpRequest) -> Answer:
        return Answer(200, events=Events(b"data: 1\n\n", ended=True))

    said = await exchange(b"GET /p HTTP/1.0\r\n\r\n", handle)
    assert said.endswith(b"\r\n\r\ndata: 1\n\n")


async def test_events_are_closed_when_the_client_is_gone() -> None:
    events = Events(b"data: 1\n\n")

    async def handle(request: HttpRequest) -> Answer:
        return Answer(200, events=events)

    async with listening(handle) as (listener, memory):
        stream = memory.connect()
        await stream.send_all(GET)
        await read_until(stream, b"data: 1\n\n\r\n")
        await stream.aclose()
        events.feed(b"data: 2\n\n")
        await wait_all_tasks_blocked()
        assert events.closed
        assert not listener._connections


# The end.


async def test_stopping_closes_what_is_idle_and_lets_the_rest_finish(
    autojump_clock: MockClock,
) -> None:
    may_answer = trio.Event()

    async def handle(request: HttpRequest) -> Answer:
        await may_answer.wait()
        return Answer(200, body=b"done")

    async with listening(handle) as (listener, memory):
        idle, busy = memory.connect(), memory.connect()
        await busy.send_all(GET)
        await wait_all_tasks_blocked()
        listener.stop()
        assert await read_all(idle) == b""
        may_answer.set()
        await busy.send_eof()
        said = await read_all(busy)
        assert said.endswith(b"done")
        assert b"\r\nConnection: close\r\n" in said


async def test_a_connection_accepted_at_the_moment_of_the_stop_is_closed(
    autojump_clock: MockClock,
) -> None:
    async with listening() as (listener, memory):
        await wait_all_tasks_blocked()
        stream = memory.connect()
        await trio.lowlevel.checkpoint()  # It is accepted, and its task has not begun.
        began = trio.current_time()
        listener.stop()
        assert await read_all(stream) == b""
        assert trio.current_time() - began < 5


async def test_a_request_that_comes_at_the_moment_of_the_stop_is_not_begun() -> None:
    begun = []

    async def handle(request: HttpRequest) -> Answer:
        begun.append(request)
        return Answer(200)

    async with listening(handle) as (listener, memory):
        stream = memory.connect()
        await wait_all_tasks_blocked()
        await stream.send_all(GET)  # Whoever waits for it is woken, and has not run.
        stream_ended = trio.Event()
        listener.stop()
        await stream.send_eof()
        said = await read_all(stream)
        stream_ended.set()
    assert (said == b"") == (not begun)
    assert b"408" not in said


@pytest.mark.parametrize("cancelled", [False, True])
async def test_all_listeners_are_closed_at_the_end(cancelled: bool) -> None:
    memories = [MemoryListener() for _ in range(3)]
    listener = HttpListener(memories, echo)
    async with trio.open_nursery() as nursery:
        await nursery.start(listener.run)
        await wait_all_tasks_blocked()
        if cancelled:
            nursery.cancel_scope.cancel()
        else:
            listener.stop()
    assert [memory.closed for memory in memories] == [True] * 3


async def test_no_more_connections_than_were_said() -> None:
    async with listening(connections=2) as (listener, memory):
        streams = [memory.connect() for _ in range(3)]
        await wait_all_tasks_blocked()
        assert len(listener._connections) == 2
        await streams[2].send_all(GET)
        await streams[0].aclose()
        await read_until(streams[2], b"GET /p ")
        assert len(listener._connections) == 2


async def test_a_connection_that_cannot_be_accepted_is_told_and_others_are(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    memory = MemoryListener()
    memory.errors.append(OSError(errno.EMFILE, "Too many open files"))
    listener = HttpListener([memory], echo, ListenLimits(connections=1))
    async with trio.open_nursery() as nursery:
        await nursery.start(listener.run)
        stream = memory.connect()
        await stream.send_all(GET)
        await read_until(stream, b"GET /p ")
        listener.stop()
    assert "could not be accepted" in caplog.text


async def test_an_error_of_the_program_ends_one_connection_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def wrong(request: HttpRequest) -> Answer:
        return Answer(200, (("X", "a\r\nb"),))

    assert await exchange(GET, wrong) == b""
    assert "an error in mcpcore" in caplog.text


# Real sockets.


async def test_tcp_serves_many_requests_at_once() -> None:
    async with listening_tcp() as (_, port), http_client() as client:
        done = []

        async def one(number: int) -> None:
            for _ in range(20):
                url = parse(f"http://127.0.0.1:{port}/{number}")
                found = await client.request(b"POST", url, [], b"b%d" % number)
                assert await found.read(100) == b"POST /%d b%d" % (number, number)
                found.close()
            done.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(one, number)
        assert sorted(done) == list(range(10))


async def test_an_answer_larger_than_the_buffers_arrives() -> None:
    async with listening_tcp() as (_, port), http_client() as client:
        found = await client.request(b"GET", parse(f"http://127.0.0.1:{port}/large"), [])
        assert len(await found.read(8 << 20)) == 8 << 20
        found.close()


async def test_a_half_closed_socket_gets_its_answer() -> None:
    async with listening_tcp() as (_, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(GET)
            await stream.send_eof()
            assert (await read_all(stream)).endswith(b"GET /p ")


async def test_a_refusal_arrives_although_the_client_goes_on_sending() -> None:
    async with listening_tcp() as (_, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            head = b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n"
            await stream.send_all(head + b"x" * 3_000_000)
            await stream.send_eof()
            assert (await read_all(stream)).startswith(b"HTTP/1.1 413 ")


async def test_a_client_that_sends_for_ever_after_a_refusal_is_left(
    autojump_clock: MockClock,
) -> None:
    """It may go on for a moment; then the connection ends."""
    async with listening() as (listener, memory):
        stream = memory.connect()
        await stream.send_all(b"garbage\r\n\r\n")
        await trio.sleep(5)
        assert not listener._connections
        assert (await read_all(stream)).startswith(b"HTTP/1.1 400 ")


async def test_tls_is_served(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with (
        listening_tcp(tls=server_tls) as (_, port),
        http_client(ssl_context=client_tls) as client,
    ):
        for _ in range(2):
            url = parse(f"https://127.0.0.1:{port}/p")
            found = await client.request(b"POST", url, [], b"{}")
            assert await found.read(100) == b"POST /p {}"
            found.close()


async def test_a_client_without_tls_at_a_port_with_it_is_no_error(
    server_tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening_tcp(tls=server_tls) as (_, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(GET)
            await read_all(stream)
    assert not caplog.records
