"""A server: what it is called, what it offers, and the functions behind it.

Functions are registered with decorators, with or without parentheses; the capabilities follow from
what is registered. One server object serves any number of connections.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, final, overload

import trio

from mcpcore import types as t
from mcpcore.protocol.mirrors import Path
from mcpcore.protocol.terms import SERVER_INFO, Standing
from mcpcore.revisions import ALL, lookup
from mcpcore.runtime import Limits
from mcpcore.server.prompts import PromptOptions, RegisteredCompletion, RegisteredPrompt
from mcpcore.server.registry import Kind, Registry
from mcpcore.server.resources import CacheHint, RegisteredResource, ResourceOptions
from mcpcore.server.rounds import Rounds
from mcpcore.server.sealing import StateOptions, States
from mcpcore.server.session import Around, AroundSession, RootsChanged, Session
from mcpcore.server.stdio import run_stdio
from mcpcore.server.tools import RegisteredTool, ToolOptions
from mcpcore.transport.channel import Channel
from mcpcore.types.session import check_extensions
from mcpcore.waiting import Timeouts

if TYPE_CHECKING:
    from mcpcore.server.http.listener import HttpOptions

F = TypeVar("F", bound=Callable[..., Any])

PAGE_SIZE = 1000
"""Entries of a list in one answer: most servers have fewer, and a thousand are well below a megabyte."""


class ServerOptions(TypedDict, total=False):
    """What may be said of a server besides its name and version; everything has a default."""

    title: str
    description: str
    instructions: str
    """How to use the server, for the model."""
    icons: list[t.Icon]
    website_url: str
    revisions: Sequence[str]
    """The protocol revisions to speak. A client that asks for another by initialize is offered the newest of
    the handshake era, one that names another in a request is told which there are. Default: all."""
    strict: bool
    """Refuse every deviation of a client."""
    lifespan: Callable[[], AbstractAsyncContextManager[Any]]
    """Makes a context manager that is entered before the first request and left after the last; what
    it yields is `Context.state`."""
    declare: Sequence[Kind]
    """Lists to declare although nothing is in them yet, because something will be."""
    extensions: Mapping[str, Mapping[str, Any]]
    """Extensions of the protocol that the server has, with their settings; clients of the stateless era
    hear of them."""
    page_size: int
    list_cache: CacheHint
    """How long clients may keep lists, and what `server/discover` says. Default: not at all."""
    states: StateOptions
    """How to keep what has to be known between two rounds of questions, in the stateless era."""
    timeouts: Timeouts
    limits: Limits


class ToolArguments(TypedDict, total=False):
    """What may be said of a tool besides its function."""

    name: str
    """Default: the function's."""
    title: str
    description: str
    """Default: the docstring, up to where it describes parameters."""
    annotations: t.ToolAnnotations
    icons: list[t.Icon]
    meta: t.Meta
    input_schema: t.JsonSchema
    """Replaces the schema made from the signature; the function takes the arguments as one dict."""
    output_schema: t.JsonSchema
    """Replaces the schema made from the return annotation; the function returns a dict."""
    structured: bool
    """Ask for structured content (True) or for none (False); see `mcpcore.server.results`."""
    inline: bool
    """Run a plain function on the spot, in the task that reads: for what takes microseconds."""
    asks: Literal["replay", "rounds"]
    """Allow the function to ask; see `mcpcore.server.context`. With `rounds` it deals with the rounds
    itself: it returns `InputRequiredResult`, and is called anew with `Context.input_responses`."""


class ResourceArguments(TypedDict, total=False):
    """What may be said of a resource besides its URI and function."""

    name: str
    title: str
    description: str
    mime_type: str
    size: int
    annotations: t.Annotations
    icons: list[t.Icon]
    meta: t.Meta
    cache: CacheHint
    """How long clients may keep what they read. Default: not at all."""
    subscribable: bool
    """Clients may ask to be told of changes; `Server.resource_updated` tells them."""
    allow_traversal: bool
    """Let values through that lead out of where they stand (`..`, absolute paths, NUL)."""
    asks: Literal["replay", "rounds"]


class PromptArguments(TypedDict, total=False):
    """What may be said of a prompt besides its function."""

    name: str
    title: str
    description: str
    icons: list[t.Icon]
    meta: t.Meta
    asks: Literal["replay", "rounds"]


@final
class Server:
    """A server of tools, resources and prompts.

    server = Server("adder", "1.0")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    server.run()
    """

    def __init__(self, name: str, version: str, **options: Unpack[ServerOptions]) -> None:
        self.info = t.Implementation(
            name,
            version,
            title=options.get("title"),
            description=options.get("description"),
            icons=options.get("icons"),
            website_url=options.get("website_url"),
        )
        self.instructions = options.get("instructions")
        self.revisions: Sequence[str] = tuple(options.get("revisions", ALL))
        lookup(self.revisions)
        self.strict = options.get("strict", False)
        self.page_size = options.get("page_size", PAGE_SIZE)
        if self.page_size < 1:
            raise ValueError("page_size must be at least 1")
        self.timeouts = options.get("timeouts", Timeouts())
        self.limits = options.get("limits", Limits())
        self.list_cache = options.get("list_cache", CacheHint())
        self.rounds = Rounds(States(options.get("states", StateOptions())))
        self.middleware: list[Around] = []
        self.roots_changed: RootsChanged | None = None
        self.lifespan = options.get("lifespan", _no_lifespan)
        self._extensions = check_extensions(options.get("extensions", {})) or None
        self._declare = frozenset(options.get("declare", ()))
        stateless = tuple(row for row in lookup(self.revisions) if row.era == "stateless")
        self.standing: Standing | None = None
        if stateless:
            self.standing = Standing(stateless, self.capabilities, {SERVER_INFO: self.info})
        self._sessions: set[Session] = set()
        self._uses_context = False
        self.tools: Registry[RegisteredTool] = Registry("tool", self._changed("tools"))
        self.marked_arguments: dict[str, Mapping[str, Path]] = {}
        """The arguments of each tool that HTTP headers repeat in the stateless era."""
        self.resources: Registry[RegisteredResource] = Registry(
            "resource", self._changed("resources")
        )
        self.templates: Registry[RegisteredResource] = Registry(
            "resource template", self._changed("resources")
        )
        self.prompts: Registry[RegisteredPrompt] = Registry("prompt", self._changed("prompts"))
        self.completions: Registry[RegisteredCompletion] = Registry("completion of", lambda: None)

    def _changed(self, kind: Kind) -> Callable[[], None]:
        def tell() -> None:
            if self.standing is not None:
                self.standing.changed()
            for session in tuple(self._sessions):
                session.list_changed(kind)

        return tell

    # Registering.

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, **options: Unpack[ToolArguments]) -> Callable[[F], F]: ...

    # mypy does not see that **Any takes what an unpacked TypedDict gives.
    def tool(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Register a function as a tool. It may be async or plain; a plain one runs in a thread, where
        it cannot be interrupted, unless it is declared `inline`. See `ToolArguments`.

        Raises TypeError for a signature without a schema, ValueError for a name that is taken.
        """

        def register(function: F) -> F:
            tool = RegisteredTool(function, ToolOptions(**options))
            self.tools.add(tool.name, tool)
            self.marked_arguments[tool.name] = tool.marked
            self._uses_context |= tool.signature.context is not None
            return function

        return register if function is None else register(function)

    def resource(self, uri: str, **options: Unpack[ResourceArguments]) -> Callable[[F], F]:
        """Register a function as the resource at `uri`, or at all URIs of a template (RFC 6570, levels
        1 to 3), whose variables are its parameters. See `ResourceArguments`.
        """

        def register(function: F) -> F:
            resource = RegisteredResource(uri, function, ResourceOptions(**options))
            registry = self.resources if resource.resource is not None else self.templates
            registry.add(uri, resource)
            self._uses_context |= resource.signature.context is not None
            return function

        return register

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, **options: Unpack[PromptArguments]) -> Callable[[F], F]: ...

    def prompt(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Register a function as a prompt; its parameters are the prompt's arguments."""

        def register(function: F) -> F:
            prompt = RegisteredPrompt(function, PromptOptions(**options))
            self.prompts.add(prompt.name, prompt)
            self._uses_context |= prompt.signature.context is not None
            return function

        return register if function is None else register(function)

    def completion(self, of: str, argument: str) -> Callable[[F], F]:
        """Register a function that completes `argument` of the prompt called, or the resource template
        written, `of`. It takes the value so far, and may take `context`: what was chosen before.
        """

        def register(function: F) -> F:
            completion = RegisteredCompletion(function)
            self.completions.add(f"{of} {argument}", completion)
            self._uses_context |= completion.signature.context is not None
            return function

        return register

    def around(self, function: Around) -> Around:
        """Put a function around every request: `async def f(proceed, ctx, request)`, which gives
        `await proceed()` or something else, or raises. The first registered is the outermost.

        Register before serving: a connection that began while there was none never sees any.
        """
        self.middleware.append(function)
        return function

    def on_roots_changed(self, function: RootsChanged) -> RootsChanged:
        """Call an async function, with a `Context` that may ask, whenever a client says that its roots
        are not what they were.
        """
        self.roots_changed = function
        self._uses_context = True
        return function

    # Changing.

    def remove_tool(self, name: str) -> None:
        """Raises KeyError if there is none. Clients are told, as of every change of a list."""
        self.tools.remove(name)
        del self.marked_arguments[name]

    def remove_resource(self, uri: str) -> None:
        """Remove the resource or template at `uri`. Raises KeyError."""
        (self.resources if self.resources.get(uri) else self.templates).remove(uri)

    def remove_prompt(self, name: str) -> None:
        """Raises KeyError if there is none."""
        self.prompts.remove(name)

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to `uri` that it changed. From any thread."""
        for session in tuple(self._sessions):
            session.resource_updated(uri)

    # Serving.

    def capabilities(self) -> t.ServerCapabilities:
        """What the server declares: what is registered, and `declare`."""
        has_resources = bool(self.resources) or bool(self.templates)
        subscribable = any(
            resource.options.subscribable
            for resource in (*self.resources.items, *self.templates.items)
        )
        return t.ServerCapabilities(
            logging={} if self._uses_context or self.middleware else None,
            completions={} if self.completions else None,
            prompts=self._list_capability("prompts", has=bool(self.prompts)),
            resources=t.ResourcesCapability(subscribe=subscribable, list_changed=True)
            if has_resources or "resources" in self._declare
            else None,
            tools=self._list_capability("tools", has=bool(self.tools)),
            extensions=self._extensions,
        )

    def _list_capability(self, kind: Kind, *, has: bool) -> t.ListChanged | None:
        return t.ListChanged(list_changed=True) if has or kind in self._declare else None

    async def serve(self, channel: Channel) -> None:
        """Serve one client on `channel` until it ends. Enters and leaves the lifespan."""
        async with self.lifespan() as state:
            await self.serve_session(self.make_session(channel, state))

    def make_session(self, channel: Channel, state: Any, principal: Any = None) -> Session:
        """The server's end of one connection, for `serve_session`."""
        make = AroundSession if self.middleware else Session
        return make(self, channel, state, principal)

    async def serve_session(
        self,
        session: Session,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run a session that was made for this server."""
        self._sessions.add(session)
        try:
            await session.runtime.run(task_status=task_status)
        finally:
            self._sessions.discard(session)

    @overload
    def run(self) -> None: ...
    @overload
    def run(self, transport: Literal["stdio"], /) -> None: ...
    @overload
    def run(self, transport: Literal["http"], /, **options: Unpack[HttpOptions]) -> None: ...

    def run(self, transport: str = "stdio", /, **options: Any) -> None:  # type: ignore[misc]
        """Serve until the end; for the last line of a script.

        On `stdio`, stdin and stdout are served until the input ends; SIGINT and SIGTERM end it at once,
        with the exit status 130 or 143. On `http` a port is served (see `HttpOptions`) until such a
        signal, and handlers get `timeouts.drain` to finish. Needs the extra `mcpcore[http]`.
        """
        if transport == "stdio" and not options:
            run_stdio(self)
        elif transport == "http":
            # Optional extra: only those who serve HTTP need it.
            try:
                from mcpcore.server.http.listener import run_http  # noqa: PLC0415
            except ModuleNotFoundError as error:
                if error.name != "h11":
                    raise
                raise ModuleNotFoundError(
                    "serving over HTTP needs h11: pip install 'mcpcore[http]'", name="h11"
                ) from None
            run_http(self, **options)
        else:
            raise TypeError('run() takes "stdio", or "http" and its options')


@contextlib.asynccontextmanager
async def _no_lifespan() -> AsyncIterator[None]:
    yield None
