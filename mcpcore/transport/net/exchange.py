"""One HTTP request and its answer, over connections that are used again.

An `Exchange` begins when the head of the answer came. Its body is read piece by piece; whoever leaves
early closes the connection with it, and no cancellation leaves one half used. HTTP/1.1 only: each stream
of events has a connection to itself, which at the scale of MCP is no loss.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Sequence

import h11
import msgspec
import trio

from mcpcore.errors import ConnectionLost
from mcpcore.transport.net.connect import open_stream, proxy_for
from mcpcore.transport.net.pool import Pool
from mcpcore.transport.net.url import Url, resolve
from mcpcore.transport.net.wire import Wire
from mcpcore.transport.web import Network

MAX_HEAD = 64 * 1024
"""Bytes of the head of an answer: as much as common servers allow in one."""

MAX_REDIRECTS = 3

EXCERPT_TIME = 1.0
"""Seconds that the beginning of a body may take, where only that is wanted."""

Headers = Sequence[tuple[bytes, bytes]]


class _Connection:
    """An open connection, and where h11 is with it."""

    __slots__ = ("_inner", "http", "pool", "socket", "wire")

    def __init__(self, stream: trio.abc.Stream, pool: Pool[_Connection]) -> None:
        self.wire = Wire(stream)
        self.pool = pool
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        inner = stream
        while isinstance(inner, trio.SSLStream):
            inner = inner.transport_stream
        self.socket = inner.socket if isinstance(inner, trio.SocketStream) else None
        self._inner = inner

    def is_stale(self) -> bool:
        """Whether the server closed it, or said something that nobody asked for, while it was idle."""
        if self.socket is None or not hasattr(select, "poll"):
            return False
        # Nothing is to be read on an idle connection, so whatever can be read is a reason not to use it.
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close at once, without a word."""
        if self.socket is not None:
            self.socket.close()
        else:
            # A stream of another kind; those of trio can be closed without waiting as well.
            self._inner.close()  # type: ignore[attr-defined]


class HttpClient:
    """Makes requests to the origins that it is asked for."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()
        self._pools: dict[str, Pool[_Connection]] = {}
        self._proxies: dict[str, Url | None] = {}
        self._busy: set[_Connection] = set()
        self._closed = False

    async def request(
        self,
        method: bytes,
        url: Url,
        headers: Headers,
        body: bytes = b"",
        *,
        repeatable: bool = False,
        urgent: bool = False,
        sent: Callable[[], object] | None = None,
    ) -> Exchange:
        """Send a request, and wait for the head of its answer. `sent` is called once all of it was
        written. What is `urgent` waits for no place: others may hold theirs until it arrives.

        Host, Content-Length and Accept-Encoding are added here. A connection that was used before and
        turns out dead is replaced, once, if the server cannot have begun with the request, or if it is
        `repeatable`. 307 and 308 within the origin are followed. Raises `ConnectionLost`.
        """
        hops = 0
        while True:
            exchange = await self._request(
                method, url, headers, body, repeatable=repeatable, urgent=urgent, sent=sent
            )
            target = exchange.redirect(url)
            if target is None or hops == MAX_REDIRECTS:
                return exchange
            exchange.close()
            url, sent = target, None
            hops += 1

    async def _request(
        self,
        method: bytes,
        url: Url,
        headers: Headers,
        body: bytes,
        *,
        repeatable: bool,
        urgent: bool,
        sent: Callable[[], object] | None,
    ) -> Exchange:
        proxy = self._proxy_for(url)
        absolute = proxy is not None and url.scheme == "http"
        target = f"{url.origin}{url.target}" if absolute else url.target
        head = [
            (b"Host", url.authority.encode()),
            *headers,
            (b"Accept-Encoding", b"identity"),
        ]
        if url.authorization is not None:
            head.append((b"Authorization", url.authorization.encode()))
        if absolute and proxy is not None and proxy.authorization is not None:
            head.append((b"Proxy-Authorization", proxy.authorization.encode()))
        if body:
            head.append((b"Content-Length", b"%d" % len(body)))
        request = h11.Request(method=method, target=target, headers=head)
        fresh = False
        while True:
            connection = None if fresh else await self._reuse(url, urgent=urgent)
            if connection is None:
                if fresh:
                    await self._place(url, urgent=urgent)
                fresh = True
                connection = await self._connect(url, proxy)
            try:
                return await self._send(connection, url, request, body, sent)
            except _Died:
                # Before a byte of the answer: a server that closes what is idle does it in this way.
                if fresh or not (repeatable or method != b"POST"):
                    raise ConnectionLost(f"{url}: the connection ended before the answer") from None
                fresh = True
                sent = None

    def _proxy_for(self, url: Url) -> Url | None:
        """The proxy on the way to an origin; the environment is asked once."""
        if url.origin not in self._proxies:
            try:
                self._proxies[url.origin] = proxy_for(url, self._network)
            except ValueError as error:
                raise ConnectionLost(str(error)) from None
        return self._proxies[url.origin]

    def _pool(self, url: Url) -> Pool[_Connection]:
        pool = self._pools.get(url.origin)
        if pool is None:
            pool = Pool(self._network.connections, self._network.keep_alive)
            self._pools[url.origin] = pool
        return pool

    async def _reuse(self, url: Url, *, urgent: bool) -> _Connection | None:
        """An idle connection, or None once there is a place for a new one, which is taken then."""
        pool = self._pool(url)
        while True:
            if self._closed:
                raise ConnectionLost("this side closed the connection")
            now = trio.current_time()
            while (old := pool.expired(now)) is not None:
                old.close()
            connection = pool.reuse(now)
            if connection is None:
                if pool.take(urgent=urgent):
                    return None
                await pool.wait()
            elif connection.is_stale():
                connection.close()
                pool.free()
            else:
                self._busy.add(connection)
                return connection

    async def _place(self, url: Url, *, urgent: bool) -> None:
        """Take a place for a new connection."""
        pool = self._pool(url)
        while True:
            if self._closed:
                raise ConnectionLost("this side closed the connection")
            if pool.take(urgent=urgent):
                return
            await pool.wait()

    async def _connect(self, url: Url, proxy: Url | None) -> _Connection:
        """Open a connection in the place that was taken."""
        pool = self._pool(url)
        try:
            stream = await open_stream(url, proxy, self._network)
        except BaseException:
            pool.free()
            raise
        connection = _Connection(stream, pool)
        self._busy.add(connection)
        if self._closed:
            self._drop(connection)
            raise ConnectionLost("this side closed the connection")
        return connection

    async def _send(
        self,
        connection: _Connection,
        url: Url,
        request: h11.Request,
        body: bytes,
        sent: Callable[[], object] | None,
    ) -> Exchange:
        try:
            head = await _ask(connection, request, body, sent)
        except h11.RemoteProtocolError as error:
            self._drop(connection)
            raise ConnectionLost(f"{url}: what answers there is not HTTP ({error})") from None
        except BaseException:
            self._drop(connection)
            raise
        if head is None:
            self._drop(connection)
            raise _Died
        exchange = Exchange(self, connection, url, head)
        encoding = (exchange.header(b"content-encoding") or "identity").lower()
        if encoding != "identity":
            self._drop(connection)
            raise ConnectionLost(f"{url}: the answer is encoded as {encoding!r}, unasked")
        return exchange

    def _drop(self, connection: _Connection) -> None:
        if connection in self._busy:
            self._busy.discard(connection)
            connection.close()
            connection.pool.free()

    def _done(self, connection: _Connection) -> None:
        """An exchange is over: keep the connection if both sides can."""
        http = connection.http
        # Bytes beyond the answer would be taken for the answer to the next request.
        clean = http.our_state is h11.DONE and http.their_state is h11.DONE
        if self._closed or not clean or http.trailing_data[0]:
            self._drop(connection)
        elif connection in self._busy:
            http.start_next_cycle()
            self._busy.discard(connection)
            connection.pool.keep(connection, trio.current_time())

    async def aclose(self) -> None:
        """Close all connections, also those in use: what waits on them raises `ConnectionLost`."""
        self._closed = True
        for pool in self._pools.values():
            for connection in pool.clear():
                connection.close()
        for connection in tuple(self._busy):
            self._drop(connection)
        await trio.lowlevel.checkpoint()


class _Died(Exception):
    """A connection ended before a byte of the answer came."""


async def _ask(
    connection: _Connection,
    request: h11.Request,
    body: bytes,
    sent: Callable[[], object] | None,
) -> h11.Response | None:
    """Send, and wait for the head of the answer; None if the connection ended without a byte of it."""
    http, wire = connection.http, connection.wire
    data = http.send(request) or b""
    if body:
        data += http.send(h11.Data(data=body)) or b""
    data += http.send(h11.EndOfMessage()) or b""
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        # A server may refuse a request and close while it is being sent; what it said counts.
        await wire.send(data)
    if sent is not None:
        sent()
    seen = b""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            received = b""
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                received = await wire.receive()
            if not received and not seen:
                return None
            if not received and seen.startswith(b"HTTP/"):
                raise h11.RemoteProtocolError("the connection ended within the head")
            seen = (seen + received)[:5] if len(seen) < 5 else seen
            http.receive_data(received)
        elif isinstance(event, h11.Response):
            return event
        elif not isinstance(event, h11.InformationalResponse):
            return None


class Exchange:
    """An answer whose head came. `close` it in any case."""

    __slots__ = ("_client", "_connection", "_over", "headers", "status", "url")

    def __init__(
        self, client: HttpClient, connection: _Connection, url: Url, head: h11.Response
    ) -> None:
        self._client = client
        self._connection = connection
        self._over = False
        self.url = url
        self.status = head.status_code
        self.headers: Headers = head.headers

    def header(self, name: bytes) -> str | None:
        """The value of a header by its lower-case name; None if there is none."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1").strip()
        return None

    def redirect(self, url: Url) -> Url | None:
        """Where the same request is to be sent instead: 307 or 308 within the origin."""
        location = self.header(b"location") if self.status in (307, 308) else None
        if location is None:
            return None
        try:
            target = resolve(url, location)
        except ValueError:
            return None
        if target.origin != url.origin:
            return None
        return msgspec.structs.replace(target, authorization=url.authorization)

    async def chunk(self) -> bytes:
        """The next bytes of the body; none at its end. Raises `ConnectionLost` if it breaks off."""
        if self._over:
            # By now the connection may serve another request.
            raise ConnectionLost(f"{self.url}: this side closed the answer")
        http = self._connection.http
        if http.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            return b""
        try:
            while True:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    http.receive_data(await self._connection.wire.receive())
                elif isinstance(event, h11.Data):
                    return bytes(event.data)
                else:
                    return b""
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._client._drop(self._connection)
            raise ConnectionLost(f"{self.url}: the connection broke") from None
        except h11.RemoteProtocolError as error:
            self._client._drop(self._connection)
            raise ConnectionLost(f"{self.url}: the answer broke off ({error})") from None
        except BaseException:
            self._client._drop(self._connection)
            raise

    async def excerpt(self, limit: int) -> bytes:
        """The beginning of the body, as far as it comes."""
        data = b""
        with trio.move_on_after(EXCERPT_TIME), contextlib.suppress(ConnectionLost):
            while len(data) < limit and (piece := await self.chunk()):
                data += piece
        return data[:limit]

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises `ConnectionLost` beyond `limit` bytes."""
        pieces: list[bytes] = []
        size = 0
        while piece := await self.chunk():
            size += len(piece)
            if size > limit:
                raise ConnectionLost(f"{self.url}: an answer of more than {limit} bytes")
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Be done with it: the connection is kept if the body was read to its end. Never waits."""
        if not self._over:
            self._over = True
            self._client._done(self._connection)
