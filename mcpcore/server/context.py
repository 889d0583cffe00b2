"""What a handler may know and do beyond its arguments.

A handler asks for it by annotation (`ctx: Context`) and gets one of its own for each request. It
works the same in an async function and in a plain one, which runs in a thread.

Questions to the person, the model or the roots are keyed and allowed only in functions that were
registered with `asks="replay"`. A peer of the handshake era is simply asked and the function waits.
A peer of the stateless era gets the question as the answer to its request, and comes back with a new one;
the function then runs again from the top with the answers so far (`mcpcore.server.rounds`). Hence the one
sentence to remember: code before a question may run again; put effects into `ctx.once` or after the last
question.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, final

import msgspec
import trio

from mcpcore import codec
from mcpcore import types as t
from mcpcore.errors import LocalProtocolError, RequestFailed, ToolError
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.events import Notification, Progress
from mcpcore.revisions import REVISIONS
from mcpcore.server.rounds import Question, Round, can_be_asked, missing_capability
from mcpcore.server.sealing import Entry, digest

S = TypeVar("S")
T = TypeVar("T")


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The client behind a request, as the handshake told it, and the ways to reach it."""

    info: t.Implementation
    capabilities: t.ClientCapabilities
    revision: str
    multiple_choice: bool
    state: Any
    principal: Any
    send: Callable[[Notification | Progress, RequestId], None]
    ask: Callable[[str, Any, RequestId], Awaitable[Any]] | None
    """Sends a question and waits for the answer; None for a client of the stateless era."""
    log: Callable[[str, Any, str | None, RequestId], None]
    hang_up: Callable[[RequestId, float], None]
    token: trio.lowlevel.TrioToken
    """Of the loop that the connection runs in, to get back to it from a thread."""


class Elicited(msgspec.Struct, Generic[T], frozen=True):
    """What a person answered: `action` is `accept`, `decline` or `cancel`; `value` only if accepted."""

    action: str
    value: T | None = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


@final
class Context(Generic[S]):
    """One request, seen from its handler. `Context[State]` types `state`."""

    __slots__ = ("_done", "_peer", "_round", "_thread", "_token", "_used", "meta", "request_id")

    def __init__(
        self,
        peer: Peer,
        request_id: RequestId,
        meta: Mapping[str, Any] | None,
        round: Round | None = None,
    ) -> None:
        self._peer = peer
        self._round = round
        self._thread = threading.get_ident()
        self._done = False
        # What each key stood for in this run.
        self._used: dict[str, str] = {}
        self.request_id = request_id
        self.meta: Mapping[str, Any] = meta or {}
        self._token = meta.get("progressToken") if meta else None

    # What is known.

    @property
    def client(self) -> t.Implementation:
        """The client's name and version, as it tells them."""
        return self._peer.info

    @property
    def client_capabilities(self) -> t.ClientCapabilities:
        return self._peer.capabilities

    @property
    def revision(self) -> str:
        """The protocol revision that the request was made in."""
        return self._peer.revision

    @property
    def principal(self) -> Any:
        """Who makes the request, as the server's `authenticate` told; None where nobody is asked.

        The only identity to trust: arguments are what the client likes to say.
        """
        return self._peer.principal

    @property
    def state(self) -> S:
        """What the server's `lifespan` yielded; None without one."""
        state: S = self._peer.state
        return state

    def can(self, question: str) -> bool:
        """Whether the client can be asked: `elicitation.form`, `elicitation.url`, `sampling`,
        `sampling.tools`, `sampling.context` or `roots`.
        """
        return can_be_asked(self._peer.capabilities, question)

    def extension(self, name: str) -> Mapping[str, Any] | None:
        """The client's settings for an extension; None if it did not say in this request that it has it."""
        settings = (self._peer.capabilities.extensions or {}).get(name)
        return settings if isinstance(settings, Mapping) else None

    def need_extension(self, name: str) -> Mapping[str, Any]:
        """As `extension`, for what cannot be done without it: the client gets the error that says so."""
        settings = self.extension(name)
        if settings is None:
            refusal = missing_capability("extensions", name) if self._peer.ask is None else None
            raise NoAnswer(f"the client does not have the extension {name}", refusal)
        return settings

    @property
    def input_responses(self) -> Mapping[str, Any]:
        """For functions registered with `asks="rounds"`: the answers to what they asked last, by key, as
        they came from the client.
        """
        return self._round.answers if self._round is not None else {}

    @property
    def request_state(self) -> str | None:
        """For functions registered with `asks="rounds"`: the state that they gave with what they asked
        last. None in the first round.
        """
        return self._round.state if self._round is not None else None

    # What can be said. Neither waits: both only queue.

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell how far the work is; does nothing unless the caller asked for it.

        `progress` must grow. Raises `LocalProtocolError` if it does not, or if the request is over.
        """
        self._alive()
        if self._token is not None:
            event = Progress(self._token, progress, total, message, self.request_id)
            self._say(self._peer.send, event, self.request_id)

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client: `data` is any JSON value, `level` one of
        `mcpcore.types.LOGGING_LEVELS`. Messages below the level that the client set are left out.
        """
        self._alive()
        if level not in t.LOGGING_LEVELS:
            raise ValueError(f"{level!r} is no level; there are {', '.join(t.LOGGING_LEVELS)}")
        self._say(self._peer.log, level, data, logger, self.request_id)

    def hang_up(self, retry: float = 1.0) -> None:
        """Let go of the HTTP connection that waits for the answer; the client comes back for it after
        `retry` seconds, again and again until it is there.

        For work that takes minutes, on networks that hold no connection for so long. Does nothing on
        other transports, and where the revision or a server without an event store forbid it.
        """
        self._alive()
        if not retry >= 0:
            raise ValueError("retry is in seconds, and not negative")
        self._say(self._peer.hang_up, self.request_id, retry)

    def _say(self, function: Callable[..., None], *arguments: Any) -> None:
        if threading.get_ident() == self._thread:
            function(*arguments)
        else:
            trio.from_thread.run_sync(function, *arguments, trio_token=self._peer.token)

    # What can be asked.

    async def elicit(self, key: str, form: type[T], message: str) -> Elicited[T]:
        """Ask the person to fill in a form: `form` is a flat Struct, dataclass or TypedDict of strings,
        numbers, booleans and choices. `key` names the question within this request.
        """
        schema = _form_schema(form)
        params = t.ElicitParams(mode="form", message=message, requested_schema=schema)
        self._need("elicitation.form")
        if not self._peer.multiple_choice and _has_several(schema):
            raise NoAnswer(
                "the client cannot be asked for this: its forms have no choice of several"
            )
        result: t.ElicitResult = await self._ask(key, "elicitation/create", params, t.ElicitResult)
        if not result.accepted:
            return Elicited(result.action)
        try:
            value = msgspec.convert(result.content or {}, form)
        except msgspec.ValidationError as error:
            raise NoAnswer(f"the answer to {key!r} does not fit the form: {error}") from None
        return Elicited(result.action, value)

    async def elicit_url(self, key: str, url: str, message: str) -> Elicited[None]:
        """Ask the person to open `url`, for what must not pass through the client. An accepted answer
        means consent, not that anything was done there yet; see `url_done`.
        """
        params = t.ElicitParams(
            mode="url", message=message, url=url, elicitation_id=self._elicitation_id(key)
        )
        self._need("elicitation.url")
        result: t.ElicitResult = await self._ask(key, "elicitation/create", params, t.ElicitResult)
        return Elicited(result.action)

    def url_done(self, key: str) -> None:
        """Tell the client that what `elicit_url` asked for under `key` is done."""
        self._alive()
        params = t.ElicitationCompleteParams(elicitation_id=self._elicitation_id(key))
        event = Notification("notifications/elicitation/complete", params)
        self._say(self._peer.send, event, self.request_id)

    async def sample(
        self,
        key: str,
        messages: str | Sequence[t.SamplingMessage],
        *,
        max_tokens: int = 1000,
        **options: Any,
    ) -> t.CreateMessageResult:
        """Ask the client's model. A string is one user message; `options` are the other members of
        `mcpcore.types.CreateMessageParams`.
        """
        if isinstance(messages, str):
            messages = [t.SamplingMessage("user", t.TextContent(messages))]
        params = t.CreateMessageParams(messages=list(messages), max_tokens=max_tokens, **options)
        self._need("sampling")
        if params.tools is not None or params.tool_choice is not None:
            self._need("sampling.tools")
        if params.include_context not in (None, "none") and not self.can("sampling.context"):
            params = msgspec.structs.replace(params, include_context=None)
        return await self._ask(key, "sampling/createMessage", params, t.CreateMessageResult)

    async def list_roots(self, key: str = "roots") -> list[t.Root]:
        """Ask for the roots: the places that the server may work in."""
        self._need("roots")
        result: t.ListRootsResult = await self._ask(
            key, "roots/list", t.Params(), t.ListRootsResult
        )
        return result.roots

    async def ask_all(self, **questions: Awaitable[Any]) -> dict[str, Any]:
        """Ask several things at once, and give the answers by name; the stateless era has them in one round:

            answers = await ctx.ask_all(who=ctx.elicit("who", Name, "Who?"), roots=ctx.list_roots())

        Raises what the first question that fails raises.
        """
        answers: dict[str, Any] = {}

        async def ask(name: str, question: Awaitable[Any]) -> None:
            answers[name] = await question

        try:
            async with trio.open_nursery() as nursery:
                for name, question in questions.items():
                    nursery.start_soon(ask, name, question)
        except BaseExceptionGroup as group:
            # Where some questions wait for the next round, the others may have failed in this one.
            failed = group.subgroup(Exception)
            if failed is None:
                raise
            first: Exception = failed
            while isinstance(first, ExceptionGroup):
                first = first.exceptions[0]
            raise first from None
        return answers

    async def once(self, key: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call `function`, plain or async, and remember its result: whatever runs again, this does not.

        The result must be a JSON value.
        """
        round = self._may_ask()
        self._use(key, "once")
        known = round.known(key, "once")
        if known is not None:
            return known.value
        result = function(*arguments)
        if isinstance(result, Awaitable):
            result = await result
        round.entries[key] = Entry("once", result)
        return result

    def _elicitation_id(self, key: str) -> str:
        return hashlib.sha256(f"{id(self._peer)}/{self.request_id!r}/{key}".encode()).hexdigest()[
            :32
        ]

    def _may_ask(self) -> Round:
        self._alive()
        if self._round is None:
            raise LocalProtocolError(
                'this function was not registered to ask: add asks="replay" to its decorator, '
                "and mind that code before a question may run again"
            )
        return self._round

    def _need(self, question: str) -> None:
        self._may_ask()
        if not self.can(question):
            words = f"the client cannot be asked for this: it did not declare {question}"
            refusal = missing_capability(*question.split(".")) if self._peer.ask is None else None
            raise NoAnswer(words, refusal)

    def _use(self, key: str, meaning: str) -> None:
        if self._used.setdefault(key, meaning) != meaning:
            raise LocalProtocolError(f"two different questions under the key {key!r}")

    async def _ask(self, key: str, method: str, params: Any, result: type[T]) -> T:
        round = self._may_ask()
        params = codec.fit(params, REVISIONS[self._peer.revision])
        asked = digest([method, params])
        self._use(key, asked)
        known = round.known(key, asked)
        if known is not None:
            try:
                answer = codec.decode(msgspec.json.encode(known.value), result, [])
            except msgspec.ValidationError:
                # It was no answer, so the question still stands (MRTR-27).
                round.forget(key)
            else:
                await trio.lowlevel.checkpoint()
                return answer
        if self._peer.ask is None:
            await round.ask(key, asked, Question(method, params))
            raise AssertionError("a round that asked went on")
        try:
            raw = await self._peer.ask(method, params, self.request_id)
            answer = codec.decode(raw, result, [])
        except RequestFailed as error:
            raise NoAnswer(f"the client refused {key!r}: {error}") from error
        except msgspec.ValidationError as error:
            raise NoAnswer(f"the answer to {key!r} cannot be read: {error}") from None
        round.entries[key] = Entry(asked, raw)
        return answer

    def _alive(self) -> None:
        if self._done:
            raise LocalProtocolError("the request was answered; its context is over")

    def finish(self) -> None:
        """The request is over: the context says no more. Called by the server."""
        self._done = True


class NoAnswer(ToolError):
    """A question was not answered: the client cannot be asked, refused, or sent something unreadable.

    A handler may catch it; from a tool it goes on to the model, as every `ToolError`, unless the protocol
    has an error of its own for it, which is then the `refusal`.
    """

    def __init__(self, message: str, refusal: RequestFailed | None = None) -> None:
        super().__init__(message)
        self.refusal = refusal


def _form_schema(form: Any) -> t.JsonSchema:
    """The schema of a form, which must be flat: no objects, no references."""
    (schema,), components = msgspec.json.schema_components([form], ref_template="#/$defs/{name}")
    if schema.keys() == {"$ref"}:
        schema = components.pop(schema["$ref"].removeprefix("#/$defs/"))
    properties = {
        name: _inlined(field, components) for name, field in schema.get("properties", {}).items()
    }
    for name, field in properties.items():
        kind = field.get("type")
        numbers = "enum" in field and kind != "string"
        flat = (kind in ("string", "number", "integer", "boolean") and not numbers) or (
            kind == "array" and {"enum", "anyOf"} & field.get("items", {}).keys()
        )
        if not flat:
            raise TypeError(
                f"the field {name} of a form must be a string, number, boolean or choice of strings"
            )
    result: t.JsonSchema = {"type": "object", "properties": properties}
    if schema.get("required"):
        result["required"] = schema["required"]
    return result


def _has_several(schema: t.JsonSchema) -> bool:
    return any(field.get("type") == "array" for field in schema["properties"].values())


def _inlined(field: dict[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """A field without references, and without the null of an optional one: it is left out instead."""
    if "$ref" in field:
        field = components[field["$ref"].removeprefix("#/$defs/")] | {
            name: value for name, value in field.items() if name != "$ref"
        }
    choices = [choice for choice in field.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        rest = {name: value for name, value in field.items() if name != "anyOf"}
        field = _inlined(choices[0], components) | rest
    if field.get("default", 0) is None:
        field = {name: value for name, value in field.items() if name != "default"}
    if isinstance(field.get("items"), dict):
        field = field | {"items": _inlined(field["items"], components)}
    if "enum" in field and all(isinstance(choice, str) for choice in field["enum"]):
        field = {"type": "string", **field}
    return field
