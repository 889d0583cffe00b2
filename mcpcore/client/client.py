"""The client: one connection to one server.

Each method is a request of the specification; each gives the result as its Struct or raises one plain
exception of `mcpcore.errors`. Results of tools are never raised: look at `is_error`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack, final

import msgspec
import trio
from msgspec import UNSET, Raw

from mcpcore import codec
from mcpcore import types as t
from mcpcore.client.answers import Answers
from mcpcore.client.eras import PROBE, ServerFacts, discover, terms_for
from mcpcore.client.forgiven import ForgivenReport
from mcpcore.client.kept import ENTRIES, KeptResults, Key
from mcpcore.client.listening import (
    Change,
    Listening,
    Subscription,
    Subscriptions,
    Wanted,
    change_in,
    declared_part,
    filter_of,
)
from mcpcore.client.lists import MAX_PAGES, Lists
from mcpcore.client.notices import Notices
from mcpcore.client.open import (
    ClientOptions,
    Era,
    Target,
    answers_in,
    name_of,
    notices_in,
    older,
    open_channel,
    shake_hands,
)
from mcpcore.client.rounds import MAX_ROUNDS, Asker, asks, drive
from mcpcore.errors import (
    CapabilityMissing,
    ConnectionLost,
    HttpError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    SessionEnded,
    VersionMismatch,
)
from mcpcore.jsonrpc import INTERNAL_ERROR
from mcpcore.protocol import mirrors
from mcpcore.protocol.connection import Connection
from mcpcore.protocol.events import Forgiven, Notification, Refused, Request, Stale
from mcpcore.protocol.lifecycle import State
from mcpcore.protocol.mirrors import Path
from mcpcore.revisions import ALL, HEADER_MISMATCH, MAY_ASK, SAFE, Revision, lookup
from mcpcore.runtime import Handler, Later, Limits, Runtime
from mcpcore.transport.web import HttpServer
from mcpcore.validation import MISSING, SchemaCheck, UnusableSchema, can_validate
from mcpcore.waiting import NEVER, ProgressCallback, Timeouts

logger = logging.getLogger("mcpcore.client")

R = TypeVar("R", bound=t.Result)

DEFAULT_LEVEL = "info"
"""The level of log messages that a client with a function for them asks for, where it must ask."""


class _DiedOfTheProbe(Exception):
    """The process ended when it was asked which era it is of."""


class _AnotherEra(Exception):
    """The server shakes no hands, and speaks a revision that needs none."""


class _ClientHandler(Handler):
    """What the client does with what the server sends."""

    runtime: Runtime
    subscriptions: Subscriptions

    def __init__(self, client: Client, answers: Answers) -> None:
        self._client = client
        self._answers = answers

    def begin(self, request: Request) -> Any:
        return t.EmptyResult() if request.method == "ping" else Later(self._answer, (request,))

    async def _answer(self, request: Request) -> t.Result:
        runtime = self.runtime
        runtime.question_opens()
        try:
            with trio.fail_after(runtime.timeouts.question):
                return await self._answers.answer(request, runtime.connection.client_capabilities)
        except trio.TooSlowError:
            raise RequestFailed(INTERNAL_ERROR, "Internal error: nobody answered in time") from None
        finally:
            runtime.question_closes()

    def received(self, notification: Notification) -> None:
        self._client._received(notification, self.subscriptions)

    def observed(self, event: Forgiven | Stale | Refused) -> None:
        self._client._observed(event)

    def ended(self, reason: McpError) -> None:
        self.subscriptions.end(reason)
        if isinstance(reason, SessionEnded):
            self._client._replace_soon(self.runtime)


@final
class Client(Lists):
    """One connection to one server, ready to be used.

    Made by `connect` or `Client.open`, never directly. All methods may be called from any task.
    `timeout` is in seconds and overrides the client's; `float("inf")` waits without that limit, still
    under the hard maximum.

    Where the transport has sessions and the server ended this one, a new one is opened once, for all who
    wait; requests that the server refused for it, or that do no harm twice, are sent again.
    """

    def __init__(self, nursery: trio.Nursery, target: Target, options: ClientOptions) -> None:
        self.forgiven = ForgivenReport()
        self.runtime: Runtime
        self._nursery = nursery
        self._target = target
        self._options = options
        self._answers = answers_in(options)
        self._timeouts = options.get("timeouts", Timeouts())
        self._strict = options.get("strict", False)
        self._notices = Notices(self._start_soon, **notices_in(options))
        self._max_pages = options.get("max_pages", MAX_PAGES)
        # Output schemas by tool, once all pages of tools were seen; and those of a walk under way.
        self._schemas: dict[str, t.JsonSchema] | None = None
        self._walk: dict[str, t.JsonSchema] | None = None
        self._checks: dict[str, SchemaCheck | None] = {}
        # What a new session has to be told again.
        self._level: str | None = None
        self._wanted = Wanted(lists=options.get("on_list_changed") is not None)
        self._marked: dict[str, Mapping[str, Path]] = {}
        # Headers that are made anew each time may be another caller's each time.
        self._over_http = isinstance(target, HttpServer) or (
            isinstance(target, str) and target.startswith(("http://", "https://"))
        )
        fresh = isinstance(target, HttpServer) and target.headers_for is not None
        self._kept = KeptResults(entries=options.get("kept", ENTRIES), only_public=fresh)
        self._asker = Asker(
            self._answers, self._timeouts.question, options.get("max_rounds", MAX_ROUNDS)
        )
        self._opened = self._closing = False
        self._stands_alone = False
        """Whether the server is of the stateless era."""
        self._replacing: trio.Event | None = None

    @classmethod
    async def open(
        cls, nursery: trio.Nursery, target: Target, **options: Unpack[ClientOptions]
    ) -> Client:
        """Connect to `target`; the connection's one owner task runs in `nursery`.

        Close it with `aclose`, from any task; cancelling the nursery closes it too. Raises
        `ConnectionLost` if the server cannot be started or reached or ends, `HttpError` if its HTTP
        server refuses, `VersionMismatch`, `RequestTimeout` after the timeout for connecting,
        `RequestFailed` if the server refuses, or `RemoteProtocolError`.
        """
        client = cls(nursery, target, options)
        if client._strict and not can_validate():
            raise LocalProtocolError(f"strict: {MISSING}")
        try:
            await client._begin()
        except HttpError as error:
            other = older(target, error)
            if other is None:
                raise
            client._target = other
            try:
                await client._begin()
            except ConnectionLost:
                # It has not the older transport either: what it said first counts.
                raise error from None
        return client

    async def _begin(self) -> None:
        """Open a channel and whatever is needed on it, which from then on are the client's."""
        with trio.move_on_after(self._timeouts.connect):
            try:
                await self._begin_with(self._options.get("revisions", ALL))
            except _AnotherEra:
                logger.info("the server is of the stateless era after all")
                await self._begin_with(
                    [str(row) for row in self._spoken() if row.era == "stateless"]
                )
            except _DiedOfTheProbe:
                # A server that ends because of a request it does not know may do well without.
                logger.info("the server ended when it was asked for its era; it is started again")
                await self._begin_with(
                    [str(row) for row in self._spoken() if row.era == "handshake"]
                )
            return
        # A command may hold secrets; an origin does not.
        where = name_of(self._target) if self._over_http else None
        raise RequestTimeout(
            "initialize",
            self._timeouts.connect,
            f"{f' from {where}' if where else ''}; Timeouts(connect=...) raises the limit",
        )

    def _spoken(self) -> tuple[Revision, ...]:
        return lookup(self._options.get("revisions", ALL))

    async def _begin_with(self, revisions: Sequence[str]) -> None:
        channel = await open_channel(self._nursery, self._target)
        handler = _ClientHandler(self, self._answers)
        connection = Connection("client", revisions=revisions, strict=self._strict)
        try:
            runtime = handler.runtime = Runtime(
                connection,
                channel,
                handler,
                timeouts=self._timeouts,
                limits=self._options.get("limits", Limits()),
            )
            subscriptions = handler.subscriptions = Subscriptions(runtime)
            await self._nursery.start(runtime.run)
        except BaseException:
            await channel.aclose()
            raise
        if not self._opened:
            # What the server says meanwhile needs it; a later session takes its place when it is ready.
            self.runtime, self._connection = runtime, connection
        try:
            facts = await self._meet(runtime)
        except BaseException:
            await runtime.close()
            raise
        self.runtime, self._connection = runtime, connection
        self._subscriptions, self._facts = subscriptions, facts
        self._stands_alone = connection.own_terms is not None
        self._kept.clear()
        self._opened = True
        if self._stands_alone:
            await self._begin_to_listen()

    async def _meet(self, runtime: Runtime) -> ServerFacts:
        """Find out which era the server is of, and shake hands if it is the older."""
        connection, info = runtime.connection, self._options.get("info")
        level = DEFAULT_LEVEL if self._options.get("on_log") is not None else None
        stateless = [row for row in connection.revisions if row.era == "stateless"]
        handshake = len(stateless) < len(connection.revisions)
        eras: MutableMapping[str, Era] = self._options.get("eras", {})
        name = name_of(self._target) if "eras" in self._options else None
        known = eras.get(name) if name is not None else None
        if stateless and not (handshake and known == "handshake"):
            # Over HTTP silence is no sign of anything.
            patient = NEVER
            if not runtime.channel.marked(self._marked):
                # The handshake must still fit into the time for connecting.
                patient = min(self._options.get("probe", PROBE), self._timeouts.connect / 2)
            try:
                facts = await discover(
                    runtime,
                    stateless,
                    partial(terms_for, answers=self._answers, info=info, log_level=level),
                    seconds=patient,
                    fall_back=handshake,
                )
            except ConnectionLost as error:
                if handshake and error.exit_status is not None:
                    raise _DiedOfTheProbe from error
                raise
            if facts is not None:
                if name is not None:
                    eras[name] = "stateless"
                return facts
        try:
            await shake_hands(runtime, self._answers, info)
        except VersionMismatch as error:
            if not {str(row) for row in stateless} & set(error.theirs):
                raise
            # It is not what it was, or was too slow to say what it is (TRAP-31).
            raise _AnotherEra from error
        if name is not None:
            eras[name] = "handshake"
        peer = connection.peer
        assert isinstance(peer, t.InitializeResult)
        return ServerFacts(peer.server_info, peer.capabilities, peer.instructions)

    # A session that the server ended.

    async def _ask(
        self,
        method: str,
        params: Any,
        *,
        seconds: float | None = None,
        on_progress: ProgressCallback | None = None,
        driven: bool = True,
    ) -> Raw:
        """Send a request, and once more in a new session if that does no harm. What the server asks before
        it gives a result is answered, unless the request is not to be `driven`.
        """
        runtime = self.runtime
        try:
            raw = await runtime.request(method, params, seconds=seconds, on_progress=on_progress)
        except SessionEnded as ended:
            if ended.delivered and method not in SAFE:
                raise
            await self._replaced(runtime, ended, seconds)
            raw = await self._ask_again(method, params, seconds, on_progress)
        except RequestFailed as error:
            if error.code != HEADER_MISMATCH or not await self._learn_marks(method, params):
                raise
            raw = await self._ask_again(method, params, seconds, on_progress)
        if driven and self._stands_alone and asks(raw):
            raw = await self._drive(raw, method, params, seconds, on_progress)
        return raw

    async def _ask_or_keep(self, key: Key, method: str, params: Any, seconds: float | None) -> Raw:
        """The result that is kept, or else that of a request."""
        if not self._stands_alone:
            return await self._ask(method, params, seconds=seconds)
        kept = self._kept.get(key)
        if kept is not None:
            await trio.lowlevel.checkpoint()
            return kept
        raw = await self._ask(method, params, seconds=seconds, driven=False)
        if asks(raw):
            # Answers to questions are part of what was asked, so nobody else may have the result (CACHE-06).
            return await self._drive(raw, method, params, seconds, None)
        self._kept.put(key, raw)
        return raw

    async def _drive(
        self,
        raw: Raw,
        method: str,
        params: Any,
        seconds: float | None,
        on_progress: ProgressCallback | None,
    ) -> Raw:
        if method not in MAY_ASK:
            raise RemoteProtocolError(f"{method} was answered with questions", "MRTR-03")
        send = partial(self._ask, method, seconds=seconds, on_progress=on_progress, driven=False)
        return await drive(raw, method, params, send, self._asker, self._connection)

    async def _ask_again(
        self, method: str, params: Any, seconds: float | None, on_progress: ProgressCallback | None
    ) -> Raw:
        try:
            return await self.runtime.request(
                method, params, seconds=seconds, on_progress=on_progress
            )
        except SessionEnded as ended:
            # The same in a new session is no matter of sessions: what the server really said is told.
            raise (ended.answer or ended) from None

    async def _learn_marks(self, method: str, params: Any) -> bool:
        """List the tools again, if the headers of a call may have been those of an older list (HDR-43)."""
        name = getattr(params, "name", None)
        if method != "tools/call" or name is None or not self._stands_alone:
            return False
        before = self._marked.get(name)
        self._kept.changed(Change("tools"))
        await self.list_tools()
        return self._marked.get(name) != before

    async def _replaced(self, old: Runtime, ended: SessionEnded, seconds: float | None) -> None:
        """Wait until there is another session than `old`. Raises `ended` if there will be none."""
        limit = self._timeouts.request if seconds is None else seconds
        self._replace_soon(old)
        with trio.move_on_after(limit):
            while self.runtime is old and self._replacing is not None:
                await self._replacing.wait()
        if self.runtime is old:
            raise ended.again()

    def _replace_soon(self, old: Runtime) -> None:
        if self._closing or self._replacing is not None or self.runtime is not old:
            return
        self._replacing = trio.Event()
        try:
            self._nursery.start_soon(self._replace, old)
        except RuntimeError:
            # The nursery is closed, and the client with it.
            self._replacing = None

    async def _replace(self, old: Runtime) -> None:
        """Open a new session, and tell it what the old one had been told."""
        try:
            await self._begin()
            logger.warning("the server had ended the session: a new one was opened")
            await self._tell_again()
            self._notices.session_replaced()
        except McpError as error:
            logger.warning(
                "the server ended the session, and no new one could be opened: %s", error
            )
        except Exception:
            logger.exception("opening a new session failed because of an error in mcpcore")
        finally:
            assert self._replacing is not None
            self._replacing.set()
            self._replacing = None
        await old.close()

    async def _tell_again(self) -> None:
        self._schemas = self._walk = None
        try:
            if self._level is not None:
                params = t.SetLevelParams(level=self._level)
                await self.runtime.request("logging/setLevel", params)
            for uri in tuple(self._wanted.uris):
                await self.runtime.request("resources/subscribe", t.ResourceParams(uri=uri))
        except McpError as error:
            logger.warning("the new session does not have all that the old one had: %s", error)

    def _start_soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.runtime.start_soon(function, *arguments)

    # The server, as it told of itself.

    @property
    def state(self) -> State:
        return self._connection.state

    @property
    def revision(self) -> str:
        """The agreed protocol revision."""
        return str(self._connection.revision)

    @property
    def server_info(self) -> t.Implementation:
        """The server's name and version, as it tells them; empty if it does not."""
        return self._facts.info

    @property
    def server_capabilities(self) -> t.ServerCapabilities:
        return self._facts.capabilities

    @property
    def instructions(self) -> str | None:
        """What the server says on how to use it."""
        return self._facts.instructions

    # Requests.

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        meta: t.Meta | None = None,
    ) -> t.CallToolResult:
        """Call a tool.

        A failure inside the tool is a result with `is_error`. Structured content is checked against the
        tool's output schema where `mcpcore[schema]` is installed (`result.validated` tells); one that
        breaks it raises `RemoteProtocolError`. `on_progress` is a plain function that gets each
        `Progress`. An unknown tool raises `RequestFailed`.
        """
        params = t.CallToolParams(
            name=name, arguments=None if arguments is None else dict(arguments), meta=meta
        )
        # Listing the tools, if nobody did yet, has to fit into the same time.
        until = trio.current_time() + (self._timeouts.request if timeout is None else timeout)
        raw = await self._ask("tools/call", params, seconds=timeout, on_progress=on_progress)
        result = self._decode(raw, t.CallToolResult)
        if result.is_error:
            return result
        if result.structured_content is UNSET:
            if self._schemas and name in self._schemas:
                self._forgive(Forgiven("TOOL-23", f"{name} gave no structured content"))
        else:
            await self._learn_schemas(until - trio.current_time())
            result.__dict__["validated"] = self._is_valid(name, result.structured_content)
        return result

    async def read_resource(
        self, uri: str, *, timeout: float | None = None
    ) -> t.ReadResourceResult:
        """Read a resource, listed or not. An unknown one raises `RequestFailed`."""
        method, params = "resources/read", t.ReadResourceParams(uri=uri)
        raw = await self._ask_or_keep((method, uri), method, params, timeout)
        return self._decode(raw, t.ReadResourceResult)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> t.GetPromptResult:
        """Get a prompt's messages. The values of `arguments` are strings."""
        params = t.GetPromptParams(
            name=name, arguments=None if arguments is None else dict(arguments)
        )
        return await self._request("prompts/get", params, t.GetPromptResult, timeout)

    async def complete(
        self,
        ref: t.PromptReference | t.ResourceTemplateReference,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> t.Completion:
        """Values that would complete `value` for an argument of a prompt or a template.

        `context` are the arguments that were chosen before.
        """
        params = t.CompleteParams(
            ref=ref,
            argument=t.CompletionArgument(argument, value),
            context=None if context is None else t.CompletionContext(dict(context)),
        )
        result = await self._request("completion/complete", params, t.CompleteResult, timeout)
        return result.completion

    async def subscribe(self, uri: str, *, timeout: float | None = None) -> None:
        """Ask to be told of changes of a resource; `on_resource_updated` gets them. Raises
        `CapabilityMissing` or `RequestFailed` if the server does not agree.
        """
        if not self._stands_alone:
            await self._request(
                "resources/subscribe", t.ResourceParams(uri=uri), t.EmptyResult, timeout
            )
            self._wanted.uris.add(uri)
            return
        self._wanted.uris.add(uri)
        agreed = False
        try:
            honoured = await self._wanted.renew(self._subscriptions, self._facts.capabilities)
            agreed = uri in (honoured.resource_subscriptions or ())
        finally:
            if not agreed:
                self._wanted.uris.discard(uri)
        if not agreed:
            raise CapabilityMissing("resources.subscribe", f"to tell of {uri}")

    async def unsubscribe(self, uri: str, *, timeout: float | None = None) -> None:
        """The counterpart of `subscribe`."""
        self._wanted.uris.discard(uri)
        if self._stands_alone:
            await self._wanted.renew(self._subscriptions, self._facts.capabilities)
            return
        await self._request(
            "resources/unsubscribe", t.ResourceParams(uri=uri), t.EmptyResult, timeout
        )

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
    ) -> Listening:
        """Hear of changes of these lists, and of the resources at `uris`, for the length of a block:

            async with client.listen(tools=True, uris=["file:///a"]) as changes:
                async for change in changes: ...

        What the server does not agree to tell is missing in `changes.honoured`.
        """
        asked = filter_of(tools=tools, prompts=prompts, resources=resources, uris=uris)

        # What the application subscribed to itself stays when the block ends.
        added: list[str] = []

        async def open() -> Subscription:
            if self._stands_alone:
                return await self._subscriptions.open(asked)
            declared = declared_part(asked, self._facts.capabilities)
            told = []
            for uri in declared.resource_subscriptions or ():
                if uri not in self._wanted.uris:
                    try:
                        await self.subscribe(uri)
                    except RequestFailed as error:
                        logger.warning("the server does not tell of changes of %s: %s", uri, error)
                        continue
                    added.append(uri)
                told.append(uri)
            honoured = msgspec.structs.replace(declared, resource_subscriptions=told or None)
            return self._subscriptions.plain(honoured)

        async def close(subscription: Subscription) -> None:
            self._subscriptions.drop(subscription)
            if not self._stands_alone and self.runtime.lost is None:
                for uri in added:
                    await self.unsubscribe(uri)

        return Listening(open, close)

    async def _begin_to_listen(self) -> None:
        """Listen to what the application gave functions for, as far as the server agrees in time."""
        self._wanted.forget()
        try:
            with trio.fail_after(self._options.get("probe", PROBE)):
                await self._wanted.renew(self._subscriptions, self._facts.capabilities)
        except (McpError, trio.TooSlowError) as error:
            logger.warning("the server does not tell of changes: %s", error)

    async def set_log_level(self, level: str, *, timeout: float | None = None) -> None:
        """Ask for log messages of this level and above; see `mcpcore.types.LOGGING_LEVELS`. Raises
        `CapabilityMissing` if the server sends none.
        """
        terms = self._connection.own_terms
        if terms is not None:
            # Each request says it for itself.
            if self._facts.capabilities.logging is None:
                raise CapabilityMissing("logging", "to log")
            if level not in t.LOGGING_LEVELS:
                raise ValueError(f"{level!r} is no level; there are {', '.join(t.LOGGING_LEVELS)}")
            self._connection.propose(msgspec.structs.replace(terms, log_level=level))
            return
        await self._request(
            "logging/setLevel", t.SetLevelParams(level=level), t.EmptyResult, timeout
        )
        self._level = level

    async def ping(self, *, timeout: float | None = None) -> None:
        """Return if the server answers. Where there is no ping, it is asked what it is."""
        if self._stands_alone:
            await self._request("server/discover", t.Params(), t.DiscoverResult, timeout)
            return
        await self._request("ping", UNSET, t.EmptyResult, timeout)

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Send any request and give its result as it came, for what has no method here. A result that is
        questions (`inputRequests`) is given as well: answering them, in a request of the same params, is
        up to the caller.
        """
        raw = await self._ask(
            method, UNSET if params is None else dict(params), seconds=timeout, driven=False
        )
        result: dict[str, Any] = codec.decode(raw, dict)
        return result

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification, for what has no method here."""
        await self.runtime.notify(Notification(method, UNSET if params is None else dict(params)))

    async def roots_changed(self) -> None:
        """Tell the server that the roots are not what they were; one that asks anew each time need not
        know.
        """
        if self._stands_alone:
            await trio.lowlevel.checkpoint()
            return
        await self.notify("notifications/roots/list_changed")

    async def aclose(self) -> None:
        """Close the connection. Bounded, idempotent, from any task and in any state."""
        self._closing = True
        while self._replacing is not None:
            await self._replacing.wait()
        await self.runtime.close()

    # How results are read.

    async def _request(self, method: str, params: Any, result: type[R], timeout: float | None) -> R:
        return self._decode(await self._ask(method, params, seconds=timeout), result)

    async def _list(self, method: str, cursor: str | None, result: type[Any]) -> Any:
        params = UNSET if cursor is None else t.PaginatedParams(cursor=cursor)
        # The first page is the one at no cursor, which is not the empty one.
        key = method, "first" if cursor is None else f"at {cursor}"
        raw = await self._ask_or_keep(key, method, params, None)
        page = self._decode(raw, result)
        if page.next_cursor is None and _has_null_cursor(raw):
            self._forgive(Forgiven("PAGE-04", "nextCursor is null"))
        if isinstance(page, t.ListToolsResult):
            if self._stands_alone and self.runtime.channel.marked(self._marked):
                page = self._with_good_marks(page)
            self._note_schemas(page, first=cursor is None)
        return page

    def _with_good_marks(self, page: t.ListToolsResult) -> t.ListToolsResult:
        """Note which arguments go into headers, and leave out the tools that say it wrong (HDR-40)."""
        tools = []
        for tool in page.tools:
            try:
                self._marked[tool.name] = mirrors.marked(tool.input_schema)
            except mirrors.BadMark as error:
                logger.warning("the tool %s is left out: %s", tool.name, error)
            else:
                tools.append(tool)
        return page if len(tools) == len(page.tools) else msgspec.structs.replace(page, tools=tools)

    def _note_schemas(self, page: t.ListToolsResult, *, first: bool) -> None:
        """Remember the output schemas, so that nobody has to ask for them again."""
        if first:
            self._walk = {}
        if self._walk is None:
            return
        self._walk |= {
            tool.name: tool.output_schema for tool in page.tools if tool.output_schema is not None
        }
        if page.next_cursor is None:
            self._schemas, self._walk, self._checks = self._walk, None, {}

    def _decode(self, raw: Any, type: type[R]) -> R:
        notes: list[codec.Note] = []
        try:
            result = codec.decode(raw, type, notes)
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(f"the result cannot be read: {error}", "SCHEMA-01") from None
        for note in notes:
            self._forgive(Forgiven(note.rule, note.detail))
        return result

    def _forgive(self, forgiven: Forgiven) -> None:
        if self._strict:
            raise RemoteProtocolError(forgiven.detail, forgiven.rule)
        self.forgiven.add(forgiven)

    async def _learn_schemas(self, seconds: float) -> None:
        """List the tools, if nobody did yet, within `seconds` altogether."""
        if self._schemas is not None or not can_validate():
            return
        try:
            with trio.move_on_after(max(seconds, 0)) as scope:
                await self.list_tools()
            if scope.cancelled_caught:
                logger.warning("results are not validated: listing the tools took too long")
        except McpError as error:
            logger.warning("results are not validated: the tools cannot be listed: %s", error)

    def _is_valid(self, name: str, value: Any) -> bool | None:
        """Check structured content; True if checked, False if it cannot be, None if nothing is asked."""
        if self._schemas is None:
            return False
        if name not in self._schemas:
            return None
        if not can_validate():
            return False
        check = self._check_of(name, self._schemas[name])
        if check is None:
            return False
        try:
            problem = check.problem(value)
        except UnusableSchema as error:
            logger.warning("results of %s are not validated: %s", name, error)
            self._checks[name] = None
            return False
        if problem is not None:
            raise RemoteProtocolError(
                f"the structured content of {name} breaks its output schema: {problem}", "TOOL-24"
            )
        return check.complete

    def _check_of(self, name: str, schema: t.JsonSchema) -> SchemaCheck | None:
        if name not in self._checks:
            try:
                self._checks[name] = SchemaCheck(schema, trusted=False)
            except UnusableSchema as error:
                logger.warning("results of %s are not validated: %s", name, error)
                self._checks[name] = None
        return self._checks[name]

    # What comes in.

    def _received(self, notification: Notification, subscriptions: Subscriptions) -> None:
        if notification.method == "notifications/tools/list_changed":
            self._schemas = self._walk = None
        if self._stands_alone:
            self._forget_what_changed(notification)
        subscription = subscriptions.take(notification)
        # What somebody listens to in a block of its own is for that block.
        if subscription is None or subscription.for_callbacks:
            self._notices.take(notification)

    def _forget_what_changed(self, notification: Notification) -> None:
        try:
            change = change_in(notification)
        except msgspec.ValidationError:
            return
        if change is not None:
            self._kept.changed(change)

    def _observed(self, event: Forgiven | Stale | Refused) -> None:
        if isinstance(event, Forgiven):
            self.forgiven.add(event)
        elif isinstance(event, Stale):
            logger.debug("dropped %s (id %r)", event.what, event.id)
        elif self._strict:
            raise RemoteProtocolError(f"{event.error}; received: {event.excerpt}", event.rule)
        else:
            logger.warning("refused: %s; received: %s", event.error, event.excerpt)


class _Cursor(msgspec.Struct, rename="camel"):
    next_cursor: Any = UNSET


def _has_null_cursor(page: Raw) -> bool:
    data = bytes(page)
    return data.find(b'"nextCursor"') >= 0 and (
        msgspec.json.decode(data, type=_Cursor).next_cursor is None
    )
