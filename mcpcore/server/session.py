"""One client of a server, from initialize to the end of its channel.

Answers what the server answers by itself (the handshake, pings, lists, subscriptions, the log level),
and hands the rest to the registered functions, each with a context of its own.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec
import trio
from msgspec import Raw

from mcpcore import codec
from mcpcore import types as t
from mcpcore.errors import RequestFailed, ResourceNotFound
from mcpcore.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Notification,
    Request,
    RequestId,
)
from mcpcore.protocol import paging
from mcpcore.protocol.connection import Connection
from mcpcore.protocol.events import Forgiven, Progress, Refused, Stale
from mcpcore.protocol.terms import Standing, Terms
from mcpcore.protocol.uri_template import TraversalRefused
from mcpcore.revisions import MULTIPLE_CHOICE, Revision
from mcpcore.runtime import BUSY, HELD, Handler, Later, Limits, Runtime
from mcpcore.server.asking import Asked, at_once, in_rounds
from mcpcore.server.context import Context, Peer
from mcpcore.server.listening import Bus
from mcpcore.server.prompts import RegisteredCompletion, RegisteredPrompt
from mcpcore.server.registry import Kind, Registry
from mcpcore.server.resources import CacheHint, RegisteredResource
from mcpcore.server.rounds import Round, Rounds
from mcpcore.server.tools import RegisteredTool
from mcpcore.transport.channel import Channel
from mcpcore.waiting import Timeouts

logger = logging.getLogger("mcpcore.server")

DEFAULT_LEVEL = "info"
"""The level of log messages for a client that did not set one."""

R = TypeVar("R", bound=t.Result)

Proceed = Callable[[], Awaitable[Any]]
RootsChanged = Callable[[Context[Any]], Awaitable[None]]
Around = Callable[[Proceed, Context[Any], Request], Awaitable[Any]]


class Offer(Protocol):
    """What a session needs of its server."""

    tools: Registry[RegisteredTool]
    resources: Registry[RegisteredResource]
    templates: Registry[RegisteredResource]
    prompts: Registry[RegisteredPrompt]
    completions: Registry[RegisteredCompletion]
    info: t.Implementation
    instructions: str | None
    revisions: Sequence[str]
    strict: bool
    page_size: int
    timeouts: Timeouts
    limits: Limits
    middleware: list[Around]
    roots_changed: RootsChanged | None
    rounds: Rounds
    standing: Standing | None
    list_cache: CacheHint

    def capabilities(self) -> t.ServerCapabilities: ...


class _ToolCall(msgspec.Struct, rename="camel"):
    """The params of tools/call with the arguments left raw: the tool's own decoder reads them."""

    name: str
    arguments: Raw = Raw()
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    input_responses: dict[str, Any] | None = None
    request_state: str | None = None


class _OnlyMeta(msgspec.Struct):
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


_decode_tool_call = msgspec.json.Decoder(_ToolCall).decode


class Session(Handler):
    """The server's end of one connection. `state` is what the server's lifespan yielded, `principal`
    who the client is, where the transport asks.
    """

    def __init__(self, offer: Offer, channel: Channel, state: Any, principal: Any = None) -> None:
        self.connection = Connection(
            "server",
            revisions=offer.revisions,
            strict=offer.strict,
            standing=offer.standing,
        )
        self.runtime = Runtime(
            self.connection, channel, self, timeouts=offer.timeouts, limits=offer.limits
        )
        self.forgiven: Counter[str] = Counter()
        self._offer = offer
        self._state = state
        self.principal = principal
        self.principals: Mapping[RequestId, Any] | None = None
        """Who makes each request, where the requests of several clients meet."""
        self._peer: Peer | None = None
        self._level = t.LOGGING_LEVELS.index(DEFAULT_LEVEL)
        self.bus = Bus(self.connection, self.runtime)
        self._roots_changed = self._telling_roots = False
        self._token = trio.lowlevel.current_trio_token()

    def adopt(self, revision: Revision) -> None:
        """Begin without a handshake: the transport keeps no sessions."""
        self.bus.told = self._offer.capabilities()
        self.connection.adopt(revision, self.bus.told)

    # Requests.

    def begin(self, request: Request) -> Any:
        method = _METHODS.get(request.method)
        if method is None:
            raise RequestFailed(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        return method(self, request)

    def _context(
        self, request: Request, meta: dict[str, Any] | None, round: Round | None = None
    ) -> Context[Any]:
        terms = self.connection.terms(request.id)
        peer = self._known_peer() if terms is None else self._peer_of(request.id, terms)
        return Context(peer, request.id, meta, round)

    def principal_of(self, id: RequestId) -> Any:
        """Who makes a request."""
        return self.principal if self.principals is None else self.principals.get(id)

    def _peer_of(self, id: RequestId, terms: Terms) -> Peer:
        """The client behind a request that stands alone."""
        return Peer(
            info=terms.info or t.Implementation("", ""),
            capabilities=terms.capabilities,
            revision=str(terms.revision),
            multiple_choice=terms.revision.position >= MULTIPLE_CHOICE.position,
            state=self._state,
            principal=self.principal_of(id),
            send=self._send,
            ask=None,
            log=self._log,
            hang_up=self.runtime.channel.hang_up,
            token=self._token,
        )

    def _known_peer(self) -> Peer:
        peer = self._peer
        if peer is None:
            peer = self._make_peer()
            if self.connection.revision is not None:
                self._peer = peer
        return peer

    def _make_peer(self) -> Peer:
        # Middleware sees requests before the handshake is over: a ping, and initialize itself.
        info, capabilities = t.Implementation("", ""), t.ClientCapabilities()
        told = self.connection.peer
        if isinstance(told, t.InitializeParams):
            info, capabilities = told.client_info, self.connection.client_capabilities
        revision = self.connection.revision or self.connection.revisions[0]
        return Peer(
            info=info,
            capabilities=capabilities,
            revision=str(revision),
            multiple_choice=revision.position >= MULTIPLE_CHOICE.position,
            state=self._state,
            principal=self.principal,
            send=self._send,
            ask=self._ask,
            log=self._log,
            hang_up=self.runtime.channel.hang_up,
            token=self._token,
        )

    def _call_tool(self, request: Request) -> Any:
        try:
            call = _decode_tool_call(request.params)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            call = _read(request, _ToolCall)
        tool = self._offer.tools.by_key.get(call.name)
        if tool is None:
            raise RequestFailed(INVALID_PARAMS, f"Unknown tool: {call.name}")
        if tool.asks:
            asked = Asked(
                request,
                call.name,
                _values(call.arguments),
                call.input_responses,
                call.request_state,
            )
            return Later(self._serve_asking, (asked, call.meta, partial(tool.call, call.arguments)))
        context = None
        if tool.signature.context is not None:
            context = self._context(request, call.meta)
        if tool.inline:
            return tool.call_now(call.arguments, context)
        return Later(tool.call, (call.arguments, context))

    def _initialize(self, request: Request) -> t.InitializeResult:
        params = self.connection.peer
        assert isinstance(params, t.InitializeParams)
        self.bus.told = self._offer.capabilities()
        ours = [str(row) for row in self.connection.revisions if row.era == "handshake"]
        wanted = params.protocol_version
        return t.InitializeResult(
            protocol_version=wanted if wanted in ours else ours[0],
            capabilities=self.bus.told,
            server_info=self._offer.info,
            instructions=self._offer.instructions,
        )

    def _discover(self, request: Request) -> t.DiscoverResult:
        if self.connection.terms(request.id) is None:
            raise RequestFailed(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        spoken = [str(row) for row in self.connection.revisions if row.era == "stateless"]
        return self._kept(
            t.DiscoverResult(
                supported_versions=spoken,
                capabilities=self._offer.capabilities(),
                instructions=self._offer.instructions,
            )
        )

    def _kept(self, result: R) -> R:
        """A result with the hint how long it may be kept."""
        return self._offer.list_cache.on(result)

    def _listen(self, request: Request) -> Any:
        asked = _read(request, t.ListenParams).notifications
        limit = self._offer.limits.subscriptions
        uris = asked.resource_subscriptions or []
        if len(self.bus) >= limit or len(uris) > limit:
            raise RequestFailed(BUSY, f"Busy: there are {limit} subscriptions at most")
        can = self._offer.capabilities()
        honoured = t.SubscriptionFilter(
            tools_list_changed=asked.tools_list_changed and can.tools is not None,
            prompts_list_changed=asked.prompts_list_changed and can.prompts is not None,
            resources_list_changed=asked.resources_list_changed and can.resources is not None,
            resource_subscriptions=[uri for uri in uris if self._is_subscribable(uri, request.id)]
            or None,
        )
        self.bus.listen(request.id, honoured)
        return HELD

    def _is_subscribable(self, uri: str, id: RequestId) -> bool:
        try:
            resource, _ = self._find_resource(uri, id)
        except RequestFailed:
            return False
        return resource.options.subscribable

    def _ping(self, request: Request) -> t.EmptyResult:
        return t.EmptyResult()

    def _list_tools(self, request: Request) -> t.ListToolsResult:
        page, cursor = self._page(request, "tools", self._offer.tools)
        return self._kept(t.ListToolsResult(tools=[item.tool for item in page], next_cursor=cursor))

    def _list_resources(self, request: Request) -> t.ListResourcesResult:
        page, cursor = self._page(request, "resources", self._offer.resources)
        resources = [item.resource for item in page if item.resource]
        return self._kept(t.ListResourcesResult(resources=resources, next_cursor=cursor))

    def _list_templates(self, request: Request) -> t.ListResourceTemplatesResult:
        page, cursor = self._page(request, "templates", self._offer.templates)
        templates = [item.template for item in page if item.template]
        return self._kept(
            t.ListResourceTemplatesResult(resource_templates=templates, next_cursor=cursor)
        )

    def _list_prompts(self, request: Request) -> t.ListPromptsResult:
        page, cursor = self._page(request, "prompts", self._offer.prompts)
        return self._kept(
            t.ListPromptsResult(prompts=[item.prompt for item in page], next_cursor=cursor)
        )

    def _page(
        self, request: Request, name: str, registry: Registry[Any]
    ) -> tuple[list[Any], str | None]:
        cursor = _read(request, t.PaginatedParams).cursor
        try:
            return paging.page(name, registry.keys, registry.items, cursor, self._offer.page_size)
        except paging.BadCursor as error:
            raise RequestFailed(INVALID_PARAMS, f"Invalid params: {error}") from None

    def _find_resource(self, uri: str, id: RequestId) -> tuple[RegisteredResource, dict[str, str]]:
        resource = self._offer.resources.get(uri)
        if resource is not None:
            return resource, {}
        for template in self._offer.templates.items:
            try:
                values = template.match(uri)
            except TraversalRefused as error:
                raise RequestFailed(INVALID_PARAMS, f"Invalid params: {error}") from None
            if values is not None:
                return template, values
        raise self._not_found(uri, id)

    def _not_found(self, uri: str, id: RequestId) -> RequestFailed:
        terms = self.connection.terms(id)
        revision = self.connection.revision if terms is None else terms.revision
        assert revision is not None
        return RequestFailed(revision.resource_not_found, "Resource not found", {"uri": uri})

    def _read_resource(self, request: Request) -> Later:
        params = _read(request, t.ReadResourceParams)
        uri = params.uri
        resource, values = self._find_resource(uri, request.id)
        call = partial(self._read_found, resource, uri, values)
        if resource.asks:
            asked = Asked(request, uri, None, params.input_responses, params.request_state)
            return Later(self._serve_asking, (asked, params.meta, call))
        return Later(call, (self._context(request, params.meta),))

    async def _read_found(
        self, resource: RegisteredResource, uri: str, values: dict[str, str], context: Context[Any]
    ) -> t.ReadResourceResult | t.InputRequiredResult:
        try:
            result = await resource.read(uri, values, context)
        except ResourceNotFound:
            raise self._not_found(uri, context.request_id) from None
        hint = resource.options.cache
        return result if hint is None else hint.on(result)

    async def _serve_asking(
        self,
        asked: Asked,
        meta: dict[str, Any] | None,
        call: Callable[[Context[Any]], Awaitable[Any]],
    ) -> Any:
        request, rounds = asked.request, self._offer.rounds

        async def run(round: Round) -> Any:
            return await call(self._context(request, meta, round))

        terms = self.connection.terms(request.id)
        if terms is None:
            return await at_once(asked, run, self._ask, rounds.max_rounds)
        return await in_rounds(
            asked,
            run,
            rounds,
            audience=self._offer.info.name,
            principal=self.principal_of(request.id),
            capabilities=terms.capabilities,
        )

    def _subscribe(self, request: Request) -> t.EmptyResult:
        uri = _read(request, t.ResourceParams).uri
        resource, _ = self._find_resource(uri, request.id)
        if not resource.options.subscribable:
            raise RequestFailed(INVALID_PARAMS, f"Invalid params: {uri} cannot be subscribed to")
        limit = self._offer.limits.subscriptions
        if len(self.bus.subscribed) >= limit and uri not in self.bus.subscribed:
            raise RequestFailed(BUSY, f"Busy: there are {limit} subscriptions already")
        self.bus.subscribed[uri] = None
        return t.EmptyResult()

    def _unsubscribe(self, request: Request) -> t.EmptyResult:
        self.bus.subscribed.pop(_read(request, t.ResourceParams).uri, None)
        return t.EmptyResult()

    def _get_prompt(self, request: Request) -> Later:
        params = _read(request, t.GetPromptParams)
        prompt = self._offer.prompts.get(params.name)
        if prompt is None:
            raise RequestFailed(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        arguments = params.arguments or {}
        call = partial(prompt.get, arguments)
        if prompt.asks:
            asked = Asked(
                request, params.name, arguments, params.input_responses, params.request_state
            )
            return Later(self._serve_asking, (asked, params.meta, call))
        return Later(call, (self._context(request, params.meta),))

    def _complete(self, request: Request) -> Any:
        params = _read(request, t.CompleteParams)
        ref = params.ref
        if isinstance(ref, t.PromptReference):
            prompt = self._offer.prompts.get(ref.name)
            key, names = ref.name, None if prompt is None else prompt.signature.names
        else:
            resource = self._offer.templates.get(ref.uri) or self._offer.resources.get(ref.uri)
            key, names = ref.uri, None if resource is None else resource.signature.names
        if names is None:
            raise RequestFailed(INVALID_PARAMS, f"Invalid params: nothing is called {key}")
        completion = self._offer.completions.get(f"{key} {params.argument.name}")
        if completion is None:
            return t.CompleteResult(completion=t.Completion(values=[]))
        chosen = (params.context.arguments if params.context else None) or {}
        context = self._context(request, params.meta)
        return Later(completion.complete, (params.argument.value, chosen, context))

    def _set_level(self, request: Request) -> t.EmptyResult:
        level = _read(request, t.SetLevelParams).level
        if level not in t.LOGGING_LEVELS:
            levels = ", ".join(t.LOGGING_LEVELS)
            raise RequestFailed(INVALID_PARAMS, f"Invalid params: level is one of {levels}")
        self._level = t.LOGGING_LEVELS.index(level)
        return t.EmptyResult()

    # What comes in besides.

    def dropped(self, id: RequestId) -> None:
        self.bus.forget(id)

    def draining(self) -> None:
        # Over HTTP, where the requests of all clients meet, the end of the stream says it.
        self.bus.end(cancels=self.principals is None)

    def received(self, notification: Notification) -> None:
        logger.debug("the client says %s", notification.method)
        tell = self._offer.roots_changed
        if notification.method == "notifications/roots/list_changed" and tell is not None:
            # However many come while the function works on one, they count as one more.
            self._roots_changed = True
            if not self._telling_roots:
                self._telling_roots = True
                self.runtime.start_soon(self._tell_roots, tell)

    async def _tell_roots(self, tell: RootsChanged) -> None:
        method = "notifications/roots/list_changed"
        try:
            while self._roots_changed:
                self._roots_changed = False
                try:
                    await tell(Context(self._known_peer(), method, None, Round()))
                except Exception:
                    logger.exception("the function for changed roots raised")
        finally:
            self._telling_roots = False

    def observed(self, event: Forgiven | Stale | Refused) -> None:
        if isinstance(event, Forgiven):
            self.forgiven[event.rule] += 1
            logger.info("forgave a breach of %s: %s", event.rule, event.detail)
        elif isinstance(event, Refused):
            logger.info("refused: %s; received: %s", event.error, event.excerpt)
        else:
            logger.debug("dropped %s (id %r)", event.what, event.id)

    # What goes out.

    def _send(self, event: Notification | Progress, about: RequestId) -> None:
        self.runtime.send(event, droppable=isinstance(event, Progress), about=about)

    async def _ask(self, method: str, params: Any, about: RequestId) -> Raw:
        return await self.runtime.request(
            method, params, seconds=self.runtime.timeouts.question, about=about
        )

    def _log(self, level: str, data: Any, name: str | None, about: RequestId) -> None:
        terms = self.connection.terms(about)
        if terms is not None:
            wanted = terms.log_level
            least = None if wanted is None else t.LOGGING_LEVELS.index(wanted)
        else:
            # A client that was not told of logging gets none: a function that logs may have come later.
            least = self._level if self.bus.told.logging is not None else None
        if least is not None and t.LOGGING_LEVELS.index(level) >= least:
            params = t.LoggingMessageParams(level=level, data=data, logger=name)
            self.runtime.send(Notification("notifications/message", params), about=about)

    def list_changed(self, kind: Kind) -> None:
        """Tell the client soon; called from any thread."""
        self._token.run_sync_soon(self._list_changed, kind)

    def _list_changed(self, kind: Kind) -> None:
        # Once more in this thread: a request may have been judged by the old list in the same moment.
        if self._offer.standing is not None:
            self._offer.standing.changed()
        self.bus.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Tell the client, if it wants to know; called from any thread."""
        self._token.run_sync_soon(self.bus.resource_updated, uri)


class AroundSession(Session):
    """A session whose requests go through the server's middleware."""

    def begin(self, request: Request) -> Any:
        return Later(self._through_middleware, (request,))

    async def _through_middleware(self, request: Request) -> Any:
        async def proceed() -> Any:
            work = Session.begin(self, request)
            return await work.function(*work.arguments) if isinstance(work, Later) else work

        step: Proceed = proceed
        context = self._context(request, _read(request, _OnlyMeta).meta)
        for around in reversed(self._offer.middleware):
            step = partial(around, step, context, request)
        return await step()


def _values(arguments: Raw) -> Any:
    """Arguments as JSON values; whatever they are, they are the same for the same bytes."""
    try:
        return msgspec.json.decode(arguments) if bytes(arguments) else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(arguments).hex()


def _read(request: Request, type: type[Any]) -> Any:
    try:
        return codec.decode(request.params, type)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RequestFailed(INVALID_PARAMS, f"Invalid params: {error}") from None


_METHODS: dict[str, Callable[[Session, Request], Any]] = {
    "initialize": Session._initialize,
    "server/discover": Session._discover,
    "subscriptions/listen": Session._listen,
    "ping": Session._ping,
    "tools/call": Session._call_tool,
    "tools/list": Session._list_tools,
    "resources/list": Session._list_resources,
    "resources/templates/list": Session._list_templates,
    "resources/read": Session._read_resource,
    "resources/subscribe": Session._subscribe,
    "resources/unsubscribe": Session._unsubscribe,
    "prompts/list": Session._list_prompts,
    "prompts/get": Session._get_prompt,
    "completion/complete": Session._complete,
    "logging/setLevel": Session._set_level,
}
"""What a session answers."""
