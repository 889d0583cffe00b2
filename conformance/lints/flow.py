"""The order of things: lifecycle, capabilities, progress, cancellation, logs, what belongs to what."""

import itertools
from typing import Any

from .. import revisions
from ..shapes import TOKEN, wrong
from . import Seen, Story, lint
from .story import META, Told, identity

GATES = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "tools/list": "tools",
    "tools/call": "tools",
    "resources/list": "resources",
    "resources/read": "resources",
    "resources/templates/list": "resources",
    "resources/subscribe": "resources.subscribe",
    "resources/unsubscribe": "resources.subscribe",
    "prompts/list": "prompts",
    "prompts/get": "prompts",
    "completion/complete": "completions",
    "logging/setLevel": "logging",
}
"""What the receiver of a request must have declared."""

CHANGES = {
    "notifications/tools/list_changed": "tools.listChanged",
    "notifications/prompts/list_changed": "prompts.listChanged",
    "notifications/resources/list_changed": "resources.listChanged",
    "notifications/resources/updated": "resources.subscribe",
    "notifications/roots/list_changed": "roots.listChanged",
}
"""What the sender of a notification must have declared."""


def declared(capabilities: Any, path: str) -> bool:
    """Whether a capability (or a flag in it) is on."""
    at = capabilities
    for name in path.split("."):
        if not isinstance(at, dict) or at.get(name) in (None, False):
            return False
        at = at[name]
    return True


@lint("LIFE-01")
def initialization_is_first(story: Story) -> Seen:
    """The first request of a session is `initialize`."""
    first = next((told for told in story.told if told.kind in ("request", "notification")), None)
    if first is not None and not first.stateless:
        yield first, None if first.method == "initialize" else f"it is {first.method}"


@lint("LIFE-05")
def initialized_follows(story: Story) -> Seen:
    """After an acceptable answer the client sends `notifications/initialized`, before any feature request."""
    for answer in story.results("initialize"):
        later = [told for told in story.said(by="client") if told.position > answer.position]
        first = next(
            (
                told
                for told in later
                if told.kind in ("request", "notification") and told.method != "ping"
            ),
            None,
        )
        if first is not None and answer.result.get("protocolVersion") in revisions.HANDSHAKE:
            yield (
                first,
                None
                if first.method == "notifications/initialized"
                else f"{first.method} came first",
            )


@lint("LIFE-06")
def nothing_before_the_answer(story: Story) -> Seen:
    """Until `initialize` is answered, the client sends no request but `ping`."""
    for request in story.said(by="client", kind="request", method="initialize"):
        until = request.response.position if request.response else len(story.told)
        for told in story.told[request.position + 1 : until]:
            if told.sender == "client" and told.kind == "request":
                yield told, None if told.method == "ping" else f"{told.method} was sent"
        yield request, None


@lint("LIFE-07")
def nothing_before_initialized(story: Story) -> Seen:
    """Until `notifications/initialized` came, the server sends no request but `ping`."""
    ready = next(
        (told.position for told in story.said(method="notifications/initialized")), len(story.told)
    )
    for told in story.told[:ready]:
        if told.sender == "server" and not told.stateless and told.kind != "other":
            asks = told.kind == "request" and told.method != "ping"
            yield told, f"{told.method} was sent" if asks else None


@lint("LIFE-09 CANC-03")
def initialize_is_not_cancelled(story: Story) -> Seen:
    """`initialize` is never cancelled."""
    for request in story.said(by="client", kind="request", method="initialize"):
        wanted = identity(request.message["id"])
        cancelled = [
            c
            for c in _cancellations(story, "client")
            if identity(c.params.get("requestId")) == wanted
        ]
        cancelled = [c for c in cancelled if c.position > request.position]
        yield (cancelled[0] if cancelled else request), "it was cancelled" if cancelled else None


@lint("CAP-01 CAP-08 ROOT-08 ELIC-03 SAMP-07")
def only_what_was_declared_is_asked(story: Story) -> Seen:
    """A request goes only to a side that declared the feature it needs."""
    for told in story.said(kind="request"):
        gate = GATES.get(str(told.method))
        if gate is None or told.stateless:
            continue
        if told.method == "completion/complete" and not told.since(revisions.WITH_BATCHES):
            continue
        capabilities = story.capabilities("client" if told.sender == "server" else "server")
        if capabilities is None:
            continue
        problem = (
            None
            if declared(capabilities, gate) or capabilities.get(gate) == {}
            else f"{told.method} without {gate}"
        )
        yield told, problem or _mode_problem(told, capabilities)


def _mode_problem(told: Told, capabilities: dict[str, Any]) -> str | None:
    if told.method == "elicitation/create" and told.since(revisions.LAST_HANDSHAKE):
        modes = capabilities.get("elicitation") or {"form": {}}
        mode = told.params.get("mode", "form")
        return None if mode in modes else f"the mode {mode} was not declared"
    if told.method == "sampling/createMessage" and {"tools", "toolChoice"} & set(told.params):
        return (
            None
            if declared_object(capabilities, "sampling.tools")
            else "tools without sampling.tools"
        )
    return None


def declared_object(capabilities: Any, path: str) -> bool:
    """Whether a capability is there as an object, an empty one included."""
    at = capabilities
    for name in path.split("."):
        if not isinstance(at, dict) or not isinstance(at.get(name), dict):
            return False
        at = at[name]
    return True


@lint("CAP-07")
def changes_are_declared(story: Story) -> Seen:
    """A change is announced only by a side that declared it would."""
    for told in story.said(kind="notification", method=CHANGES):
        capabilities = story.capabilities(told.sender)
        if capabilities is not None and not told.stateless:
            gate = CHANGES[str(told.method)]
            yield told, None if declared(capabilities, gate) else f"{told.method} without {gate}"


@lint("RES-10")
def updates_are_subscribed(story: Story) -> Seen:
    """`notifications/resources/updated` has a `uri`, and comes only while something is subscribed."""
    subscribed: set[str] = set()
    for told in story.told:
        if told.kind == "request" and told.method == "resources/subscribe":
            subscribed.add(str(told.params.get("uri")))
        elif told.kind == "response" and told.method == "resources/unsubscribe" and told.request:
            subscribed.discard(str(told.request.params.get("uri")))
        elif told.method == "notifications/resources/updated" and not told.stateless:
            uri = told.params.get("uri")
            if not isinstance(uri, str):
                yield told, f"the uri is {uri!r}"
            else:
                yield (
                    told,
                    None
                    if any(uri.startswith(s) for s in subscribed)
                    else f"{uri} is not subscribed",
                )


@lint("VERS-09")
def methods_of_the_revision(story: Story) -> Seen:
    """Only methods of the agreed revision are used."""
    for told in story.told:
        if (
            told.kind in ("request", "notification")
            and told.method == "elicitation/create"
            and not told.stateless
        ):
            known = told.since(revisions.WITH_STRUCTURE)
            yield told, None if known else f"{told.method} is not in {told.revision}"


@lint("JRPC26-02 DEPR-05 ROOT26-08 PROG26-14")
def removed_methods(story: Story) -> Seen:
    """A stateless peer sends nothing that this era has removed."""
    gone = {
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/elicitation/complete",
        "notifications/tasks/status",
    }
    for told in story.told:
        if told.stateless and told.kind in ("request", "notification"):
            progress = told.method == "notifications/progress" and told.sender == "client"
            yield told, f"{told.method}" if told.method in gone or progress else None


# Progress


def _tokens(story: Story) -> dict[Any, list[Told]]:
    tokens: dict[Any, list[Told]] = {}
    for told in story.said(kind="request"):
        if "progressToken" in told.meta:
            tokens.setdefault((told.sender, identity(told.meta["progressToken"])), []).append(told)
    return tokens


def _progress(story: Story) -> Any:
    """Each progress notification with the request it speaks of, or None."""
    tokens = _tokens(story)
    for told in story.said(kind="notification", method="notifications/progress"):
        other = "client" if told.sender == "server" else "server"
        asked = tokens.get((other, identity(told.params.get("progressToken"))), [])
        yield told, next((each for each in reversed(asked) if each.position < told.position), None)


@lint("PROG-02 PROG26-02")
def tokens_are_strings_or_integers(story: Story) -> Seen:
    """A progress token is a string or an integer."""
    for told in story.said(kind="request"):
        if "progressToken" in told.meta:
            token = told.meta["progressToken"]
            fine = isinstance(token, str | int) and not isinstance(token, bool)
            yield told, None if fine else f"the token is {token!r}"


@lint("PROG-03 PROG26-03")
def tokens_are_unique(story: Story) -> Seen:
    """No two active requests of one side have the same progress token."""
    for asked in _tokens(story).values():
        for earlier, later in itertools.pairwise(asked):
            over = earlier.response is not None and earlier.response.position < later.position
            yield later, None if over else f"the token {later.meta['progressToken']!r} is in use"
        yield asked[0], None


@lint("PROG-05 PROG26-05")
def progress_members(story: Story) -> Seen:
    """Progress has a `progressToken` and a number `progress`; `total` is a number, `message` a string."""
    shape = {"progressToken": TOKEN, "progress": float, "total?": float, "message?": str}
    for told in story.said(kind="notification", method="notifications/progress"):
        yield told, wrong(told.params, shape, "params")


@lint("PROG-06 PROG26-06")
def progress_grows(story: Story) -> Seen:
    """`progress` grows with each notification of a token."""
    last: dict[int, float] = {}
    for told, request in _progress(story):
        value = told.params.get("progress")
        if request is not None and isinstance(value, int | float):
            before = last.get(id(request))
            yield (
                told,
                f"{value} after {before}" if before is not None and value <= before else None,
            )
            last[id(request)] = value


@lint("PROG-09 PROG26-09")
def progress_was_asked_for(story: Story) -> Seen:
    """Progress names a token, of the same type, that the other side gave in a request."""
    for told, request in _progress(story):
        yield (
            told,
            None if request else f"nobody gave the token {told.params.get('progressToken')!r}",
        )


@lint("PROG-10 PROG26-10")
def progress_ends_with_the_answer(story: Story) -> Seen:
    """No progress comes after the response."""
    for told, request in _progress(story):
        if request is not None:
            late = request.response is not None and request.response.position < told.position
            same = request.response is not None and request.response.stream == told.stream
            yield told, "the request was answered before" if late and same else None


@lint("HTTP-16 PROG26-13 HTTP26-29")
def progress_on_its_own_stream(story: Story) -> Seen:
    """Over HTTP, progress comes on the stream of the request that it belongs to."""
    for told, request in _progress(story):
        if request is not None and request.stream.startswith("POST") and told.sender == "server":
            own = told.stream == request.stream or told.stream.startswith("GET")
            yield (
                told,
                None if own else f"it came on {told.stream}, the request went by {request.stream}",
            )


def _fresh_get_streams(story: Story) -> set[str]:
    """GET streams that do not resume another one."""
    heads = [
        entry for entry in story.entries if entry.kind == "head" and entry.raw.startswith(b"GET ")
    ]
    return {entry.stream for entry in heads if b"last-event-id" not in entry.raw.lower()}


@lint("HTTP-35")
def no_answers_on_the_get_stream(story: Story) -> Seen:
    """No response comes on a GET stream, unless it resumes the stream of an earlier request."""
    fresh = _fresh_get_streams(story)
    for told in story.said(by="server"):
        if told.stream in fresh:
            answers = told.kind == "response" and told.message.get("id") is not None
            yield told, "a response" if answers else None


@lint("HTTP-34")
def questions_stay_with_their_request(story: Story) -> Seen:
    """What comes on the GET stream belongs to no running request: no progress is there."""
    fresh = _fresh_get_streams(story)
    for told, request in _progress(story):
        if told.stream in fresh and request is not None:
            yield told, "progress of an open request"
    for told in story.said(by="server"):
        if told.stream in fresh and told.method != "notifications/progress":
            yield told, None


# Cancellation


def _cancellations(story: Story, by: str = "") -> list[Told]:
    return list(story.said(by=by, kind="notification", method="notifications/cancelled"))


@lint("CANC-01 CANC26-02")
def cancellations_name_a_request(story: Story) -> Seen:
    """A cancellation has a `requestId`, and its `reason`, where present, is a string."""
    for told in _cancellations(story):
        yield told, wrong(told.params, {"requestId": TOKEN, "reason?": str}, "params")


@lint("CANC-02 CANC26-06")
def cancellations_are_of_own_requests(story: Story) -> Seen:
    """A cancellation names a request that the same side sent before."""
    for told in _cancellations(story):
        wanted = identity(told.params.get("requestId"))
        own = [
            r
            for r in story.said(by=told.sender, kind="request")
            if identity(r.message["id"]) == wanted
        ]
        own = [request for request in own if request.position < told.position]
        yield (
            told,
            None
            if own
            else f"the request {told.params.get('requestId')!r} was not sent by this side",
        )


@lint("CANC26-07 CANC26-08")
def servers_cancel_subscriptions_only(story: Story) -> Seen:
    """A stateless server cancels nothing but a subscription."""
    listens = {
        identity(r.message["id"]) for r in story.said(kind="request", method="subscriptions/listen")
    }
    for told in _cancellations(story, "server"):
        if told.stateless:
            own = identity(told.params.get("requestId")) in listens
            yield told, None if own else f"{told.params.get('requestId')!r} is no subscription"


# Logging

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


@lint("LOG-04")
def logs_keep_to_the_level(story: Story) -> Seen:
    """After `logging/setLevel` was answered, no message below that level comes."""
    minimum = None
    for told in story.told:
        if (
            told.kind == "response"
            and told.method == "logging/setLevel"
            and isinstance(told.result, dict)
            and told.request
        ):
            minimum = told.request.params.get("level")
        elif (
            told.method == "notifications/message"
            and minimum in LEVELS
            and told.params.get("level") in LEVELS
        ):
            low = LEVELS.index(told.params["level"]) < LEVELS.index(minimum)
            yield told, f"{told.params['level']} below {minimum}" if low else None


@lint("LOG26-04")
def logs_were_asked_for(story: Story) -> Seen:
    """A stateless server logs only for a request that carries `io.modelcontextprotocol/logLevel`."""
    for told in story.said(by="server", kind="notification", method="notifications/message"):
        if told.stateless or (told.revision is None):
            open_ones = [
                r for r in story.said(by="client", kind="request") if r.position < told.position
            ]
            open_ones = [
                r for r in open_ones if r.response is None or r.response.position > told.position
            ]
            if told.stream.startswith("POST"):
                open_ones = [r for r in open_ones if r.stream == told.stream]
            asked = any(f"{META}logLevel" in r.meta for r in open_ones)
            yield told, None if asked else "no request in flight asked for logs"
    for request in story.said(by="client", kind="request", method="tools/call"):
        if request.stateless and f"{META}logLevel" not in request.meta and request.response:
            yield request.response, None


@lint("LOG26-05")
def logs_keep_to_the_asked_level(story: Story) -> Seen:
    """A log message is at or above the level that its request asked for."""
    for told in story.said(by="server", kind="notification", method="notifications/message"):
        levels = [
            r.meta[f"{META}logLevel"]
            for r in story.said(by="client", kind="request")
            if r.position < told.position
            and r.meta.get(f"{META}logLevel") in LEVELS
            and (r.response is None or r.response.position > told.position)
        ]
        if levels and told.params.get("level") in LEVELS:
            lowest = min(levels, key=LEVELS.index)
            low = LEVELS.index(told.params["level"]) < LEVELS.index(lowest)
            yield told, f"{told.params['level']} below {lowest}" if low else None


# Lists


@lint("TOOL-10")
def tool_names_are_unique(story: Story) -> Seen:
    """No two tools of a listing have the same name."""
    for told in story.results("tools/list"):
        names = [
            each.get("name") for each in told.result.get("tools", []) if isinstance(each, dict)
        ]
        double = {name for name in names if names.count(name) > 1}
        yield told, f"twice: {sorted(map(str, double))}" if double else None
