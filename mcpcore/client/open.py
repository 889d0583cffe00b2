"""What it takes to open a connection: the target, the options, the handshake."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable
from urllib.parse import urlsplit

import msgspec
import trio

from mcpcore import __version__, codec
from mcpcore import types as t
from mcpcore.client.answers import (
    Answers,
    ElicitHandler,
    RootsGiven,
    RootsHandler,
    SampleHandler,
)
from mcpcore.errors import (
    ConnectionLost,
    HttpError,
    LocalProtocolError,
    RequestFailed,
    VersionMismatch,
)
from mcpcore.protocol.events import Notification
from mcpcore.runtime import Limits, Runtime
from mcpcore.transport.channel import Channel
from mcpcore.transport.lines import open_stream
from mcpcore.transport.memory import memory_channels
from mcpcore.transport.process import StdioServer, start_server
from mcpcore.transport.web import HttpServer
from mcpcore.waiting import NEVER, Timeouts

logger = logging.getLogger("mcpcore.client")


@runtime_checkable
class Serves(Protocol):
    """Anything that can serve a channel, such as `mcpcore.Server`: the client then runs it in memory."""

    async def serve(self, channel: Channel) -> None: ...


Target = str | Sequence[str] | StdioServer | HttpServer | Channel | trio.abc.Stream | Serves
"""What to connect to: a command (one string is split as a shell splits words), a URL (a string that
begins with `http://` or `https://`), a `StdioServer` or `HttpServer` with all its settings, a trio
stream, a channel of your own, or a server object in this process."""


Era = Literal["stateless", "handshake"]


class ClientOptions(TypedDict, total=False):
    """What may be said when opening; everything has a default."""

    info: t.Implementation
    """The client's own name and version."""
    revisions: Sequence[str]
    """The protocol revisions to speak; the newest that the server speaks too is taken. Default: all."""
    strict: bool
    """Refuse every deviation of the server, and demand that results can be validated."""
    timeouts: Timeouts
    limits: Limits
    eras: MutableMapping[str, Era]
    """What was found out about servers, by command or origin: give the same to all clients of a program, or
    keep it from one run to the next, and nobody is asked twice. Default: each client finds out for itself."""
    probe: float
    """Seconds that a server on a pipe may be silent when it is asked which era it is of, before that means
    the older one. Default: 5."""
    max_rounds: int
    """How often a server may answer one request with questions. Default: 10."""
    kept: int
    """How many results are kept at most, each as long as the server allows. Default: 1000; 0 keeps none."""
    extensions: Mapping[str, Mapping[str, Any]]
    """Extensions of the protocol that the client has, with their settings; servers of the stateless era hear
    of them."""
    max_pages: int
    """How many pages a list may have."""
    elicit: ElicitHandler
    """Answers a form: gets `ElicitParams`, gives `ElicitResult`, or a dict to accept with. Fields that
    it leaves out get their defaults."""
    elicit_url: ElicitHandler
    """Answers the request to open a URL: gives `ElicitResult`."""
    sample: SampleHandler
    """Asks a model: gets `CreateMessageParams`, gives `CreateMessageResult` or its text. Raises
    `RequestFailed(-1, ...)` when the person refuses."""
    sample_tools: bool
    """Whether `sample` can deal with tools."""
    roots: RootsGiven | RootsHandler
    """The roots, or a function that gives them: paths, `file://` URIs or `Root`."""
    on_log: Callable[[t.LoggingMessageParams], object]
    """Gets each log message of the server."""
    on_list_changed: Callable[[str], object]
    """Gets `tools`, `resources` or `prompts`; several changes in a row count as one."""
    on_resource_updated: Callable[[str], object]
    """Gets the URI of a resource that changed."""
    on_session_replaced: Callable[[], object]
    """Called when the server had ended the session and a new one was opened: whatever the server kept
    for the old one is gone. The log level and subscriptions were set again."""
    on_notification: Callable[[Notification], object]
    """Gets every other notification."""


_ANSWERS = ("elicit", "elicit_url", "sample", "sample_tools", "roots", "extensions")
_NOTICES = (
    "on_log",
    "on_list_changed",
    "on_resource_updated",
    "on_session_replaced",
    "on_notification",
)


def answers_in(options: ClientOptions) -> Answers:
    """The functions that answer the server's questions."""
    return Answers(**{name: value for name, value in options.items() if name in _ANSWERS})  # type: ignore[arg-type]


def notices_in(options: ClientOptions) -> dict[str, Any]:
    """The functions that get the server's notifications."""
    return {name: options.get(name) for name in _NOTICES}


def name_of(target: Target) -> str | None:
    """What a server is known by from one connection to the next: its command, or its origin. None for what is
    there only once.
    """
    if isinstance(target, StdioServer):
        return shlex.join(target.words)
    if isinstance(target, HttpServer):
        parts = urlsplit(target.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        return name_of(HttpServer(url=target))
    if isinstance(target, str | list | tuple):
        return name_of(StdioServer(command=target))
    return None


async def open_channel(nursery: trio.Nursery, target: Target) -> Channel:
    if isinstance(target, Channel):
        return target
    if isinstance(target, StdioServer):
        return await start_server(target)
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        target = HttpServer(url=target)
    if isinstance(target, HttpServer):
        return _open_http(target)
    if isinstance(target, str | list | tuple):
        return await start_server(StdioServer(command=target))
    if isinstance(target, trio.abc.Stream):
        return open_stream(target)
    if isinstance(target, Serves):
        ours, theirs = memory_channels()
        ours.served = trio.Event()
        nursery.start_soon(_serve_in_memory, target, theirs, ours.served)
        return ours
    raise TypeError(
        f"cannot connect to {type(target).__name__}: give a command, a URL, a stream, a channel or a "
        "server"
    )


def _open_http(server: HttpServer) -> Channel:
    try:
        # Optional extra: only those who connect over HTTP need it.
        from mcpcore.transport.http_channel import HttpChannel  # noqa: PLC0415
        from mcpcore.transport.older_http_channel import OlderHttpChannel  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "h11":
            raise
        raise LocalProtocolError(
            "connecting over HTTP needs h11: pip install 'mcpcore[http]'"
        ) from None
    try:
        return OlderHttpChannel(server) if server.older else HttpChannel(server)
    except ValueError as error:
        raise LocalProtocolError(f"cannot connect: {error}") from None


def older(target: Target, error: Exception) -> HttpServer | None:
    """The same server by the older HTTP transport, if `error` says that it may have only that."""
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        target = HttpServer(url=target)
    may_be = isinstance(error, HttpError) and error.status in (400, 404, 405)
    if not may_be or not isinstance(target, HttpServer) or target.older is not None:
        return None
    return msgspec.structs.replace(target, older=True)


async def _serve_in_memory(server: Serves, channel: Channel, done: trio.Event) -> None:
    """The server's side of a connection in memory: what goes wrong there is told by its end."""
    try:
        await server.serve(channel)
    except Exception:
        logger.exception("the server in memory ended because of an error")
    finally:
        done.set()
        await channel.aclose()


async def shake_hands(runtime: Runtime, answers: Answers, info: t.Implementation | None) -> None:
    """The three steps: initialize, the answer, initialized."""
    connection = runtime.connection
    spoken = [row for row in connection.revisions if row.era == "handshake"]
    offer, ours = spoken[0], [str(row) for row in spoken]
    params = t.InitializeParams(
        protocol_version=str(offer),
        capabilities=codec.fit_capabilities(answers.capabilities(), offer),
        client_info=info or t.Implementation("mcpcore", __version__),
    )
    try:
        raw = await runtime.request("initialize", params, seconds=NEVER)
    except ConnectionLost as error:
        if error.exit_status is None:
            raise
        reason = f"{error.reason} before it answered initialize"
        if error.exit_status == 0:
            reason += "; does the program serve, for example by server.run()?"
        raise ConnectionLost(reason, error.exit_status, error.stderr) from None
    except RequestFailed as error:
        supported = error.data.get("supported") if isinstance(error.data, dict) else None
        if isinstance(supported, list) and not set(map(str, supported)) & set(ours):
            raise VersionMismatch(ours, [str(name) for name in supported]) from error
        raise
    if connection.revision is None:
        theirs = codec.decode(raw, t.InitializeResult, []).protocol_version
        raise VersionMismatch(ours, [theirs])
    runtime.channel.agreed(connection.revision)
    await runtime.notify(Notification("notifications/initialized"))
