"""Serving a server as a Starlette app, alone or inside another app. Needs the extra `mcpcore[asgi]`.

Nothing has to be wired up: the sessions get an owner with the first request, in a task of the loop that
serves. The app's lifespan, where it runs, only makes the end graceful.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Unpack

import trio
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from mcpcore.protocol.headers import joined
from mcpcore.server.http.endpoint import Endpoint, EndpointOptions, Served
from mcpcore.server.http.older import OlderTransport
from mcpcore.transport.http import Answer, EventSource, HttpRequest, RequestLost

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

logger = logging.getLogger("mcpcore.server")

NEEDS_TRIO = (
    "mcpcore runs on trio, and this server runs on asyncio: serve the app with hypercorn's trio worker, "
    "hypercorn -k trio module:app"
)

_NEVER = 10**9
"""Seconds between pings of sse-starlette: streams show signs of life by themselves."""


class McpApp:
    """The endpoint as an ASGI app."""

    def __init__(self, server: Served, **options: Unpack[EndpointOptions]) -> None:
        self._server = server
        self._options = options
        self._endpoint: Endpoint | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._settled = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.serve(scope, receive, send)

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, *, older: bool = False
    ) -> None:
        """Serve a request; with `older` one to the two paths of the older transport."""
        response = await self._respond(Request(scope, receive, send), older=older)
        try:
            await response(scope, receive, send)
        except OSError:
            logger.debug("a client went away")

    async def _respond(self, request: Request, *, older: bool) -> Response:
        try:
            endpoint = await self.start()
        except RuntimeError as error:
            logger.warning("a request was not served: %s", error)
            return PlainTextResponse(str(error), 500)
        try:
            described = _describe(request)
            answer = None
            if older:
                # The first event of the stream tells a path, so it has to be that of the outermost app.
                root = request.scope.get("root_path", "").rstrip("/")
                paths = {"stream": f"{root}/sse", "messages": f"{root}/messages"}
                answer = await OlderTransport(endpoint, **paths).handle(described)
            if answer is None:
                answer = await endpoint.handle(described)
        except RequestLost as error:
            return PlainTextResponse(str(error), 400)
        return _response(answer)

    async def start(self) -> Endpoint:
        """The endpoint, running in this loop. Raises RuntimeError if it cannot run."""
        try:
            token = trio.lowlevel.current_trio_token()
        except RuntimeError:
            raise RuntimeError(NEEDS_TRIO) from None
        if self._token is not token:
            self._token = token
            self._endpoint = None
            self._settled = trio.Event()
            trio.lowlevel.spawn_system_task(self._own)
        await self._settled.wait()
        if self._endpoint is None:
            raise RuntimeError("the server could not start, or has stopped; its log says why")
        return self._endpoint

    async def aclose(self) -> None:
        """End all sessions; handlers get the server's `timeouts.drain` to finish."""
        if self._endpoint is not None:
            await self._endpoint.stop()

    async def _own(self) -> None:
        """The task that owns the sessions. What it raised would end the whole loop."""
        endpoint = Endpoint(self._server, **self._options)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(endpoint.run)
                self._endpoint = endpoint
                self._settled.set()
        except Exception:
            logger.exception("the server ended because of an error")
        finally:
            self._endpoint = None
            self._settled.set()


def http_routes(
    server: Served, path: str = "/mcp", **options: Unpack[EndpointOptions]
) -> list[BaseRoute]:
    """Routes to the server at `path`, with and without a slash at its end, for the routes of an app."""
    return _routes(McpApp(server, **options), path)


def http_app(
    server: Served, path: str = "/mcp", *, older: bool = False, **options: Unpack[EndpointOptions]
) -> Starlette:
    """An app that serves `server` at `path`, alone or mounted in another; with `older` also clients of the
    older HTTP transport, at `/sse` and `/messages`.
    """
    app = McpApp(server, **options)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await app.start()
        try:
            yield
        finally:
            await app.aclose()

    routes = _routes(app, path)
    if older:
        routes += [Route(each, endpoint=_Older(app)) for each in ("/sse", "/messages")]
    return Starlette(routes=routes, lifespan=lifespan)


class _Older:
    """The older transport as an ASGI app: Starlette takes methods for functions of requests."""

    def __init__(self, app: McpApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app.serve(scope, receive, send, older=True)


def _routes(app: McpApp, path: str) -> list[BaseRoute]:
    path = path.rstrip("/")
    paths = [path, f"{path}/"] if path else ["/"]
    return [Route(each, endpoint=app) for each in paths]


def _describe(request: Request) -> HttpRequest:
    async def read(limit: int) -> bytes | None:
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    return None
                pieces.append(piece)
        except ClientDisconnect:
            raise RequestLost("the client went away in the middle of a body") from None
        return b"".join(pieces)

    return HttpRequest(
        request.method,
        request.scope["path"],
        request.scope["query_string"].decode("latin-1"),
        joined(request.scope["headers"]),
        read,
        request.is_disconnected,
        request.scope,
    )


def _response(answer: Answer) -> Response:
    headers = dict(answer.headers)
    if answer.events is None:
        return Response(answer.body, answer.status, headers)
    return EventSourceResponse(_pieces(answer.events), answer.status, headers, ping=_NEVER)


async def _pieces(events: EventSource) -> AsyncIterator[Any]:
    try:
        while True:
            data = events.take()
            if data:
                yield data
            elif events.ended:
                return
            else:
                await events.wait()
    finally:
        events.close()
