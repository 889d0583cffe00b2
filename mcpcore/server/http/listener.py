"""Serving a server over HTTP without any web framework: a port, and our own listener on it."""

from __future__ import annotations

import contextlib
import errno
import os
import ssl
import sys
from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

import trio

from mcpcore.runtime import single
from mcpcore.server.http.endpoint import Endpoint, EndpointOptions, Served
from mcpcore.server.http.older import OlderTransport
from mcpcore.server.signals import GRACE, run_until_signal
from mcpcore.transport.http import Answer, HttpRequest
from mcpcore.transport.net.listen import HttpListener, ListenLimits

LOOPBACK = "127.0.0.1"
PORT = 8000
PATH = "/mcp"


class HttpOptions(EndpointOptions, total=False):
    """What may be said of serving over HTTP; everything has a default."""

    host: str
    """The address to listen on. Default: loopback, which only this machine reaches. A server for others
    needs `allowed_hosts` as well, the names that they reach it by."""
    port: int
    """Default: 8000; 0 takes any that is free."""
    path: str
    """Where the endpoint is; with and without a slash at its end. Default: `/mcp`."""
    older: bool
    """Serve clients of the older HTTP transport (2024-11-05) as well, at `/sse` and `/messages`."""
    unix_socket: str
    """Listen on this path of the file system instead of a port."""
    ssl_context: ssl.SSLContext
    """Serve HTTPS with this certificate."""
    listen: ListenLimits


class _Listening(TypedDict, total=False):
    host: str
    port: int
    unix_socket: str
    ssl_context: ssl.SSLContext


async def serve_http(
    server: Served,
    *,
    stop: trio.Event | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[HttpOptions],
) -> None:
    """Serve until `stop` is set, which lets handlers finish within the server's `timeouts.drain`, or until
    it is cancelled, which does not.

    `nursery.start` gives the URLs. Raises OSError if the address cannot be had.
    """
    path = options.pop("path", PATH).rstrip("/")
    limits = options.pop("listen", ListenLimits())
    older = options.pop("older", False)
    where: _Listening = {}
    for name in ("host", "port", "unix_socket", "ssl_context"):
        if name in options:
            where[name] = options.pop(name)
    listeners, origins = await _listen(**where)
    endpoint = Endpoint(server, **options)  # type: ignore[misc]

    also = OlderTransport(endpoint, stream="/sse", messages="/messages") if older else None

    async def handle(request: HttpRequest) -> Answer:
        if also is not None and (answer := await also.handle(request)) is not None:
            return answer
        if request.path.rstrip("/") != path:
            text = f"Not Found: the endpoint is {path or '/'}"
            return Answer(404, (("Content-Type", "text/plain; charset=utf-8"),), text.encode())
        return await endpoint.handle(request)

    listener = HttpListener(listeners, handle, limits)
    stop = trio.Event() if stop is None else stop
    path_to_remove = where.get("unix_socket")
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(endpoint.run)
            await nursery.start(listener.run)
            task_status.started([f"{origin}{path}" for origin in origins])
            await stop.wait()
            listener.stop()
            await endpoint.stop()
    except BaseExceptionGroup as group:
        raise single(group) from None
    finally:
        if path_to_remove is not None:
            with contextlib.suppress(OSError):
                os.unlink(path_to_remove)


async def _listen(
    host: str = LOOPBACK,
    port: int = PORT,
    unix_socket: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> tuple[Sequence[trio.abc.Listener[trio.abc.Stream]], list[str]]:
    """Listeners, and the origins of URLs that lead to them."""
    scheme = "http" if ssl_context is None else "https"
    listeners: list[trio.SocketListener]
    if unix_socket is not None:
        listeners = [await _listen_on_path(unix_socket)]
        origins = [f"{scheme}://localhost"]
    else:
        listeners = await trio.open_tcp_listeners(port, host=host)
        names = [listener.socket.getsockname()[:2] for listener in listeners]
        origins = [
            f"{scheme}://[{name}]:{number}" if ":" in name else f"{scheme}://{name}:{number}"
            for name, number in names
        ]
    if ssl_context is None:
        return listeners, origins
    return [
        trio.SSLListener(each, ssl_context, https_compatible=True) for each in listeners
    ], origins


async def _listen_on_path(path: str) -> trio.SocketListener:
    """Listen on a Unix socket, in the place of one that nobody listens on any more."""
    socket = trio.socket.socket(trio.socket.AF_UNIX)
    try:
        try:
            await socket.bind(path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or await _is_served(path):
                raise
            os.unlink(path)
            await socket.bind(path)
        socket.listen(128)
    except BaseException:
        socket.close()
        raise
    return trio.SocketListener(socket)


async def _is_served(path: str) -> bool:
    try:
        stream = await trio.open_unix_socket(path)
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    await stream.aclose()
    return True


class _Announcement(trio.TaskStatus[list[str]]):
    def started(self, value: list[str] | None = None) -> None:
        for url in value or ():
            print(f"serving on {url}", file=sys.stderr, flush=True)  # noqa: T201


def run_http(server: Served, **options: Unpack[HttpOptions]) -> None:
    """Serve in a loop of its own until a signal; says on stderr where. Leaves by `sys.exit`, with a line on
    stderr, if the address cannot be had.
    """

    async def serve(stop: trio.Event, _: Callable[[int], None]) -> None:
        try:
            await serve_http(server, stop=stop, task_status=_Announcement(), **options)
        except OSError as error:
            where = options.get("unix_socket") or (
                f"{options.get('host', LOOPBACK)}:{options.get('port', PORT)}"
            )
            sys.exit(f"cannot listen on {where}: {error.strerror or error}")

    run_until_signal(serve, grace=server.timeouts.drain + GRACE)
