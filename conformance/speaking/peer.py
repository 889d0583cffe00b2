"""One conversation with the server under test, in the words that both transports and both eras share."""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import trio

from .. import revisions
from ..transcript import UNREADABLE, Transcript
from ..verdicts import Broken, NotApplicable, Unreachable, brief
from .exchange import Exchange
from .target import Answerer

NAME = {"name": "mcp-conformance", "version": "1"}
META = "io.modelcontextprotocol/"

REFUSED = {"error": {"code": -32601, "message": "Method not found"}}

ELICITED: dict[str, Any] = {
    "string": "conformance",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
}


def everything(revision: str) -> dict[str, Any]:
    """The capabilities of a client that can do all that a revision knows."""
    capabilities: dict[str, Any] = {"roots": {"listChanged": True}, "sampling": {}}
    if revisions.since(revision, revisions.WITH_STRUCTURE):
        capabilities["elicitation"] = {}
    if revisions.since(revision, revisions.LAST_HANDSHAKE):
        capabilities["elicitation"] = {"form": {}, "url": {}}
        capabilities["sampling"] = {"tools": {}}
    if revisions.is_stateless(revision):
        capabilities["roots"] = {}
    return capabilities


def filled_form(params: dict[str, Any]) -> dict[str, Any]:
    """An accepting answer to an elicitation, with a fitting value for each field."""
    if params.get("mode") == "url":
        return {"action": "accept"}
    content = {}
    schema = params.get("requestedSchema")
    for name, field in (schema.get("properties", {}) if isinstance(schema, dict) else {}).items():
        if "enum" in field:
            content[name] = field["enum"][0]
        elif "oneOf" in field:
            content[name] = field["oneOf"][0].get("const")
        elif field.get("type") == "array":
            items = field.get("items", {})
            content[name] = items.get(
                "enum", [choice.get("const") for choice in items.get("anyOf", [])]
            )[:1]
        elif field.get("format") == "email":
            content[name] = "someone@example.org"
        elif field.get("format") == "uri":
            content[name] = "https://example.org/"
        elif field.get("format") == "date":
            content[name] = "2025-01-31"
        elif field.get("format") == "date-time":
            content[name] = "2025-01-31T12:00:00Z"
        elif field.get("type") == "string":
            content[name] = ELICITED["string"].ljust(field.get("minLength", 0), "x")[
                : field.get("maxLength", 99)
            ]
        elif field.get("type") in ELICITED:
            content[name] = max(ELICITED[field["type"]], field.get("minimum", 0))
    return {"action": "accept", "content": content}


def usual_answers() -> dict[str, Answerer]:
    """How the suite answers what a server asks, unless a check says otherwise."""
    sampled = {
        "role": "assistant",
        "content": {"type": "text", "text": "conformance"},
        "model": "none",
    }
    return {
        "ping": lambda _: {"result": {}},
        "roots/list": lambda _: {
            "result": {"roots": [{"uri": "file:///conformance", "name": "conformance"}]}
        },
        "sampling/createMessage": lambda _: {"result": {**sampled, "stopReason": "endTurn"}},
        "elicitation/create": lambda params: {"result": filled_form(params)},
    }


class Peer:
    """A conversation.

    ``limit`` is how long (seconds) one awaited thing may take. ``capabilities`` are the server's, once
    known; ``own_capabilities`` what the suite declares. ``notes`` and ``asked`` hold what came unbidden, in
    order; ``strays`` the responses that answer nothing.
    """

    transport = ""

    def __init__(
        self, revision: str, transcript: Transcript, limit: float, nursery: trio.Nursery
    ) -> None:
        self.revision = revision
        self.transcript = transcript
        self.limit = limit
        self.nursery = nursery
        self.capabilities: dict[str, Any] = {}
        self.own_capabilities = everything(revision) if revision in revisions.ALL else {}
        self.opening: dict[str, Any] = {}
        self.answers = usual_answers()
        self.notes: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.strays: list[Any] = []
        self.open: dict[tuple[type, Any], Exchange] = {}
        self.closed = trio.Event()
        # Low numbers are left to the checks that choose ids themselves.
        self._ids = itertools.count(101)
        self._news = trio.Event()

    # Saying

    @property
    def stateless(self) -> bool:
        """Whether each request carries its own terms."""
        return revisions.is_stateless(self.revision)

    def request(
        self, method: str, params: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """A lawful request with a fresh id; in the stateless era with the members it must carry.

        ``more`` replaces members of the message (``id=``); a value of None leaves the member out.
        """
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        if params is not None or self.stateless:
            message["params"] = dict(params or {})
        if self.stateless:
            message["params"]["_meta"] = {**self.terms(), **message["params"].get("_meta", {})}
        return {**message, **more}

    def terms(self) -> dict[str, Any]:
        """What a stateless request says about its sender, under ``_meta``."""
        return {
            f"{META}protocolVersion": self.revision,
            f"{META}clientInfo": NAME,
            f"{META}clientCapabilities": self.own_capabilities,
        }

    async def call(
        self, method: str, params: dict[str, Any] | None = None, **more: Any
    ) -> Exchange:
        """Send a request and come back at once."""
        return await self.post(self.request(method, params, **more))

    async def post(self, message: Any, **transport: Any) -> Exchange:
        """Send a message as it is and come back at once; its id, if it has one, is waited for."""
        raise NotImplementedError

    async def tell(self, method: str, params: dict[str, Any] | None = None) -> Exchange:
        """Send a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        return await self.post(message)

    async def answered(self, exchange: Exchange, *, within: float | None = None) -> Exchange:
        """Wait for the answer. Raises Broken when none comes in time or the conversation ends before."""
        seconds = within or self.limit
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for event in (exchange.answered, exchange.ended, self.closed):
                    nursery.start_soon(_wait_then, event, nursery.cancel_scope.cancel)
        if exchange.response is None:
            why = exchange.refusal or (
                "the conversation ended" if self.closed.is_set() else f"nothing in {seconds:g} s"
            )
            if exchange.status is not None and exchange.refusal is None:
                why = (
                    f"HTTP {exchange.status} {brief(exchange.body.decode('utf-8', 'replace'), 200)}"
                )
            raise Broken("an answer", why, sent=exchange.sent)
        return exchange

    async def ask(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> Exchange:
        """Send a request and wait for its answer."""
        return await self.answered(await self.call(method, params, **more))

    async def need(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request that has to work before anything can be judged; raises Unreachable."""
        try:
            exchange = await self.ask(method, params)
        except Broken as broken:
            raise Unreachable(f"{method}: {broken.got}") from None
        result: Any = exchange.result
        if not isinstance(result, dict):
            raise Unreachable(f"{method} gave no result: {brief(exchange.response)}")
        return result

    async def probe(self) -> None:
        """Show that the peer lives: whatever was said before has been read by now. Raises Broken."""
        method = "server/discover" if self.stateless else "ping"
        try:
            exchange = await self.ask(method)
        except Broken as broken:
            raise Broken(f"the peer still answers {method}", broken.got) from None
        if exchange.response is None or "result" not in exchange.response:
            raise Broken(f"the peer still answers {method}", exchange.response)

    # Hearing

    async def until(
        self, holds: Callable[[], Any], what: str, *, within: float | None = None
    ) -> Any:
        """Wait until ``holds`` gives something true, which is returned. Raises Broken, saying ``what``."""
        with trio.move_on_after(within or self.limit):
            while True:
                if found := holds():
                    return found
                if self.closed.is_set():
                    break
                await self._news.wait()
        if found := holds():
            return found
        why = (
            "the conversation ended"
            if self.closed.is_set()
            else f"nothing of the kind in {within or self.limit:g} s"
        )
        raise Broken(what, why)

    async def note(
        self, method: str, *, after: int = 0, within: float | None = None
    ) -> dict[str, Any]:
        """The first notification ``method`` among ``notes[after:]``, awaited."""
        found: dict[str, Any] = await self.until(
            lambda: next(
                (note for note in self.notes[after:] if note.get("method") == method), None
            ),
            f"a notification {method}",
            within=within,
        )
        return found

    def heard(self, message: Any, exchange: Exchange | None = None) -> None:
        """Take in one message from the peer; ``exchange`` is the HTTP exchange that it came on."""
        for part in message if isinstance(message, list) else [message]:
            self._heard(part, exchange)
        news, self._news = self._news, trio.Event()
        news.set()

    def _heard(self, message: Any, exchange: Exchange | None) -> None:
        if message is UNREADABLE or not isinstance(message, dict):
            self.strays.append(message)
        elif "method" in message and "id" in message:
            self.asked.append(message)
            for each in [exchange] if exchange else list(self.open.values()):
                each.asked.append(message)
            self.nursery.start_soon(self._reply, message)
        elif "method" in message:
            self.notes.append(message)
            for each in [exchange] if exchange else list(self.open.values()):
                each.notes.append(message)
        else:
            waiting = self.open.get(key(message.get("id")))
            if waiting is not None and waiting.response is None:
                waiting.take(message)
            elif waiting is not None:
                waiting.extra.append(message)
                self.strays.append(message)
            else:
                self.strays.append(message)

    async def _reply(self, request: dict[str, Any]) -> None:
        answerer = self.answers.get(str(request.get("method")))
        params = request.get("params")
        if answerer is None:
            members: dict[str, Any] | None = REFUSED
        else:
            given = answerer(params if isinstance(params, dict) else {})
            members = await given if inspect.isawaitable(given) else given
        if members is not None:
            await self.post({"jsonrpc": "2.0", "id": request["id"], **members})

    # Knowing

    def declares(self, path: str) -> bool:
        """Whether the server declared a capability: ``tools``, ``resources.subscribe``."""
        at: Any = self.capabilities
        for name in path.split("."):
            if not isinstance(at, dict) or at.get(name) in (None, False):
                return False
            at = at[name]
        return True

    def needs(self, path: str) -> None:
        """Raise NotApplicable unless the server declared ``path``."""
        if not self.declares(path):
            raise NotApplicable(f"the server does not declare {path}")

    async def listed(self, method: str, member: str) -> list[dict[str, Any]]:
        """All entries of a list, over all its pages (at most 100)."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(100):
            page = await self.need(method, {} if cursor is None else {"cursor": cursor})
            entries = page.get(member)
            found += (
                [entry for entry in entries if isinstance(entry, dict)]
                if isinstance(entries, list)
                else []
            )
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return found
        raise Unreachable(f"{method} gives a next page without end")


def key(identity: Any) -> tuple[type, Any]:
    """Tells ``1`` from ``"1"`` and from ``true``; what is no id at all is told apart by its looks."""
    try:
        hash(identity)
    except TypeError:
        return (str, brief(identity))
    return (type(identity), identity)


async def _wait_then(event: trio.Event, do: Callable[[], Any]) -> None:
    await event.wait()
    do()
