"""What the stateless era asks of every message."""

import re
from typing import Any

from .. import shapes
from ..shapes import wrong
from . import Seen, Story, lint
from .story import META, Told, identity

CACHEABLE = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
ASKING = ("tools/call", "prompts/get", "resources/read")


def _modern(story: Story, **wanted: Any) -> Any:
    return (told for told in story.said(**wanted) if told.stateless)


def _modern_results(story: Story, method: Any = "") -> Any:
    return (told for told in story.results(method) if told.stateless)


@lint("META26-01 VERS26-01")
def requests_say_their_revision(story: Story) -> Seen:
    """Every request has a string `io.modelcontextprotocol/protocolVersion` in its `_meta`."""
    for told in story.said(by="client", kind="request"):
        if told.stateless or (told.revision is None and told.method != "initialize"):
            yield told, wrong(told.meta.get(f"{META}protocolVersion"), str, "protocolVersion")


@lint("META26-02")
def requests_say_their_capabilities(story: Story) -> Seen:
    """Every request has the client's capabilities in its `_meta`."""
    for told in _modern(story, by="client", kind="request"):
        yield (
            told,
            wrong(
                told.meta.get(f"{META}clientCapabilities"),
                shapes.CLIENT_CAPABILITIES,
                "clientCapabilities",
            ),
        )


@lint("META26-03")
def requests_say_who_asks(story: Story) -> Seen:
    """Every request says in its `_meta` which client sent it, with `name` and `version`."""
    for told in _modern(story, by="client", kind="request"):
        yield told, wrong(told.meta.get(f"{META}clientInfo"), shapes.IMPLEMENTATION, "clientInfo")


@lint("META26-13 DISC-05")
def results_say_who_answers(story: Story) -> Seen:
    """Every result says in its `_meta` which server gave it."""
    for told in _modern_results(story):
        meta = told.result.get("_meta")
        stamp = meta.get(f"{META}serverInfo") if isinstance(meta, dict) else None
        yield told, wrong(stamp, shapes.IMPLEMENTATION, "serverInfo")


@lint("META26-17 SUBS-22")
def only_subscriptions_carry_their_id(story: Story) -> Seen:
    """Progress and log messages carry no subscription id."""
    for told in _modern(
        story, by="server", method=("notifications/progress", "notifications/message")
    ):
        yield told, "it has a subscriptionId" if f"{META}subscriptionId" in told.meta else None


@lint("RT-01")
def results_have_a_type(story: Story) -> Seen:
    """Every result has a string `resultType`."""
    for told in _modern_results(story):
        yield told, wrong(told.result.get("resultType"), str, "resultType")


@lint("RT-02 RT-05")
def result_types_are_known(story: Story) -> Seen:
    """`resultType` is `complete` or `input_required`, unless an extension was agreed on."""
    for told in _modern_results(story):
        kind = told.result.get("resultType")
        if isinstance(kind, str):
            yield (
                told,
                None if kind in ("complete", "input_required", "task") else f"it is {kind!r}",
            )


@lint("RT-09")
def extension_results_need_the_extension(story: Story) -> Seen:
    """A result type of an extension goes only to a client that declared that extension on this request."""
    for told in _modern_results(story):
        if told.result.get("resultType") == "task":
            declared = (story.capabilities("client", told) or {}).get("extensions", {})
            yield (
                told,
                None
                if f"{META}tasks" in declared
                else "a task for a client that did not declare tasks",
            )
        else:
            yield told, None


@lint("MRTR-03 DISC-12 SUBS-25")
def only_three_methods_ask(story: Story) -> Seen:
    """Only `tools/call`, `prompts/get` and `resources/read` are answered with input_required."""
    for told in _modern_results(story):
        asks = told.result.get("resultType") == "input_required"
        yield told, f"{told.method} asks" if asks and told.method not in ASKING else None


def _asking(story: Story) -> Any:
    return (
        told for told in _modern_results(story) if told.result.get("resultType") == "input_required"
    )


@lint("MRTR-05")
def asking_results_ask(story: Story) -> Seen:
    """An input-required result has at least one of `inputRequests` and `requestState`."""
    for told in _asking(story):
        yield (
            told,
            None if {"inputRequests", "requestState"} & set(told.result) else "it has neither",
        )


@lint("MRTR-06 MRTR-07 MRTR-08")
def input_requests_are_bare(story: Story) -> Seen:
    """`inputRequests` maps keys to `{method, params}` of an elicitation, a sampling or `roots/list`."""
    methods = ("elicitation/create", "sampling/createMessage", "roots/list")
    for told in _asking(story):
        asked = told.result.get("inputRequests", {})
        if problem := wrong(asked, dict, "inputRequests"):
            yield told, problem
            continue
        for name, each in asked.items():
            problem = wrong(each, {"method": methods, "params?": dict}, name)
            if problem is None and {"jsonrpc", "id"} & set(each):
                problem = f"{name} has members of a message"
            if problem is None and each["method"] != "roots/list" and "params" not in each:
                problem = f"{name} has no params"
            yield told, problem


@lint("MRTR-10")
def request_state_is_a_string(story: Story) -> Seen:
    """`requestState` is a string."""
    for told in _asking(story):
        if "requestState" in told.result:
            yield told, wrong(told.result["requestState"], str, "requestState")


@lint("MRTR-09 META26-09 ELIC26-04 SAMP26-03")
def only_declared_input_is_asked(story: Story) -> Seen:
    """Nothing is asked for that this very request does not declare, not even a mode of it."""
    for told in _asking(story):
        declared = story.capabilities("client", told) or {}
        asked = told.result.get("inputRequests")
        for each in asked.values() if isinstance(asked, dict) else ():
            yield told, _undeclared(each, declared) if isinstance(each, dict) else None


def _undeclared(asked: dict[str, Any], declared: dict[str, Any]) -> str | None:
    method, params = str(asked.get("method")), asked.get("params")
    params = params if isinstance(params, dict) else {}
    name = method.split("/", maxsplit=1)[0]
    if not isinstance(declared.get(name), dict):
        return f"{method} without {name}"
    if name == "elicitation" and params.get("mode", "form") not in (declared[name] or {"form": {}}):
        return f"the mode {params.get('mode')} was not declared"
    if (
        name == "sampling"
        and {"tools", "toolChoice"} & set(params)
        and "tools" not in declared[name]
    ):
        return "tools without sampling.tools"
    return None


@lint("MRTR-21")
def asking_ends_the_request(story: Story) -> Seen:
    """An input-required result is the last message of its request."""
    for told in _asking(story):
        if told.stream.startswith("POST"):
            later = [
                other
                for other in story.told[told.position + 1 :]
                if other.stream == told.stream and other.sender == "server"
            ]
            yield told, f"{len(later)} messages came after it" if later else None


@lint("CACHE-01 DISC-06")
def hints_are_there(story: Story) -> Seen:
    """A complete result of a cacheable method has `ttlMs` and `cacheScope`."""
    for told in _modern_results(story, CACHEABLE):
        if told.result.get("resultType") == "complete":
            missing = [name for name in ("ttlMs", "cacheScope") if name not in told.result]
            yield told, f"{told.method} has no {', '.join(missing)}" if missing else None


@lint("CACHE-03")
def ttl_is_not_negative(story: Story) -> Seen:
    """`ttlMs` is an integer of 0 or more."""
    for told in _modern_results(story):
        if "ttlMs" in told.result:
            value = told.result["ttlMs"]
            yield told, wrong(value, int, "ttlMs") or (f"it is {value}" if value < 0 else None)


@lint("CACHE-04")
def scopes_are_known(story: Story) -> Seen:
    """`cacheScope` is `public` or `private`."""
    for told in _modern_results(story):
        if "cacheScope" in told.result:
            yield told, wrong(told.result["cacheScope"], ("public", "private"), "cacheScope")


@lint("CACHE-02 MRTR-23")
def no_hints_while_asking(story: Story) -> Seen:
    """Input-required results carry no caching hints."""
    for told in _asking(story):
        yield told, "it has hints" if {"ttlMs", "cacheScope"} & set(told.result) else None


@lint("COMP26-08")
def no_hints_on_completions(story: Story) -> Seen:
    """A completion has no caching hints."""
    for told in _modern_results(story, "completion/complete"):
        yield told, "it has hints" if {"ttlMs", "cacheScope"} & set(told.result) else None


@lint("CACHE-25")
def one_scope_for_all_pages(story: Story) -> Seen:
    """All pages of one listing have the same `cacheScope`."""
    scopes: dict[Any, Any] = {}
    for told in _modern_results(
        story, ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    ):
        scope = told.result.get("cacheScope")
        first = scopes.setdefault(told.method, scope)
        yield told, None if scope == first else f"{scope} after {first}"


@lint("DISC-03")
def discover_result(story: Story) -> Seen:
    """Discovery gives `supportedVersions`, `capabilities`, hints for caching, and perhaps `instructions`."""
    shape = {
        "supportedVersions": [str],
        "capabilities": shapes.SERVER_CAPABILITIES,
        "ttlMs": int,
        "cacheScope": str,
        "instructions?": str,
    }
    for told in _modern_results(story, "server/discover"):
        yield told, wrong(told.result, shape, "the result")


@lint("DISC-14")
def discover_names_the_revision(story: Story) -> Seen:
    """`supportedVersions` contains the revision that the request was served under."""
    for told in _modern_results(story, "server/discover"):
        supported = told.result.get("supportedVersions")
        named = isinstance(supported, list) and told.revision in supported
        yield told, None if named else f"{told.revision} is not in {supported}"


@lint("EXT26-01 EXT26-02")
def extensions_have_a_prefix(story: Story) -> Seen:
    """`extensions` maps identifiers, each with a prefix, to objects."""
    for told in _modern(story):
        for side, holder in (
            ("client", told.meta.get(f"{META}clientCapabilities")),
            ("server", _discovered(told)),
        ):
            if side == told.sender and isinstance(holder, dict) and "extensions" in holder:
                extensions = holder["extensions"]
                problem = wrong(extensions, dict, "extensions")
                for name, value in extensions.items() if problem is None else ():
                    if "/" not in name or not shapes.META_KEY.fullmatch(name):
                        problem = f"the identifier {name!r} has no prefix"
                    problem = problem or wrong(value, dict, name)
                yield told, problem


def _discovered(told: Told) -> Any:
    return (
        told.result.get("capabilities")
        if told.method == "server/discover" and isinstance(told.result, dict)
        else None
    )


@lint("SUBS-05 SUBS-06 SUBS-08")
def acknowledgement_comes_first(story: Story) -> Seen:
    """The first message with a subscription's id is its acknowledgement."""
    first: dict[Any, str | None] = {}
    for told in _modern(story, by="server", kind="notification"):
        if f"{META}subscriptionId" in told.meta:
            name = identity(told.meta[f"{META}subscriptionId"])
            if name not in first:
                first[name] = told.method
                fine = told.method == "notifications/subscriptions/acknowledged"
                yield told, None if fine else f"{told.method} came first"


@lint("SUBS-11 META26-16 STDIO26-11")
def subscriptions_are_tagged(story: Story) -> Seen:
    """What a subscription brings carries the id of its `subscriptions/listen`, in the same JSON type."""
    listens = {
        identity(r.message["id"]) for r in story.said(kind="request", method="subscriptions/listen")
    }
    tagged = (
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    )
    for told in _modern(story, by="server", kind="notification", method=tagged):
        tag = told.meta.get(f"{META}subscriptionId")
        yield told, None if identity(tag) in listens else f"the subscriptionId is {tag!r}"


KINDS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}


@lint("SUBS-03 SUBS-04")
def only_what_was_wanted(story: Story) -> Seen:
    """A subscription brings no kind that its filter did not ask for."""
    wanted = {
        identity(r.message["id"]): r.params.get("notifications", {})
        for r in story.said(kind="request", method="subscriptions/listen")
    }
    for told in _modern(story, by="server", kind="notification", method=KINDS):
        kinds = wanted.get(identity(told.meta.get(f"{META}subscriptionId")))
        if isinstance(kinds, dict):
            yield (
                told,
                None
                if kinds.get(KINDS[str(told.method)]) is True
                else f"{told.method} was not asked for",
            )


@lint("SUBS-09")
def acknowledged_is_a_part_of_the_wanted(story: Story) -> Seen:
    """The acknowledgement names what is honoured: a part of what was asked for."""
    wanted = {
        identity(r.message["id"]): r.params.get("notifications", {})
        for r in story.said(kind="request", method="subscriptions/listen")
    }
    for told in _modern(story, by="server", method="notifications/subscriptions/acknowledged"):
        honoured = told.params.get("notifications")
        kinds = wanted.get(identity(told.meta.get(f"{META}subscriptionId")), {})
        if problem := wrong(honoured, dict, "notifications"):
            yield told, problem
        else:
            more = [name for name, value in honoured.items() if value and not kinds.get(name)]
            yield told, f"{more} was not asked for" if more else None


@lint("SUBS-17")
def subscription_results(story: Story) -> Seen:
    """The result that ends a subscription is complete and carries the subscription's id."""
    for told in _modern_results(story, "subscriptions/listen"):
        meta = told.result.get("_meta")
        tag = meta.get(f"{META}subscriptionId") if isinstance(meta, dict) else None
        same = identity(tag) == identity(told.message.get("id"))
        problem = (
            None
            if told.result.get("resultType") == "complete"
            else f"resultType is {told.result.get('resultType')!r}"
        )
        yield told, problem or (None if same else f"the subscriptionId is {tag!r}")


@lint("SUBS-23")
def updates_of_watched_resources(story: Story) -> Seen:
    """`notifications/resources/updated` names a watched URI or one below it."""
    for told in _modern(story, by="server", method="notifications/resources/updated"):
        wanted: list[str] = []
        for request in story.said(kind="request", method="subscriptions/listen"):
            if identity(request.message["id"]) == identity(told.meta.get(f"{META}subscriptionId")):
                given = request.params.get("notifications", {})
                wanted = given.get("resourceSubscriptions", []) if isinstance(given, dict) else []
        uri = str(told.params.get("uri"))
        yield (
            told,
            None if any(uri.startswith(str(each)) for each in wanted) else f"{uri} is not watched",
        )


@lint("OTEL-01")
def trace_keys_are_bare(story: Story) -> Seen:
    """Trace context stands in `_meta` under its bare names."""
    for told in story.told:
        odd = [
            key
            for key in told.meta
            if key.rpartition("/")[2] in ("traceparent", "tracestate", "baggage") and "/" in key
        ]
        if odd or "traceparent" in told.meta:
            yield told, f"the keys {odd}" if odd else None


@lint("OTEL-02")
def trace_parents_are_well_formed(story: Story) -> Seen:
    """`traceparent` has the form that W3C Trace Context gives it."""
    pattern = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
    for told in story.told:
        if "traceparent" in told.meta:
            value = told.meta["traceparent"]
            yield (
                told,
                None if isinstance(value, str) and pattern.fullmatch(value) else f"it is {value!r}",
            )


@lint("RT-08")
def answers_have_no_type(story: Story) -> Seen:
    """The answers in `inputResponses` have no `resultType`."""
    for told in _modern(story, by="client", kind="request"):
        given = told.params.get("inputResponses")
        for each in given.values() if isinstance(given, dict) else ():
            yield told, "it has one" if isinstance(each, dict) and "resultType" in each else None


def _rounds(story: Story) -> Any:
    """Each request that answers an input-required result, with that result."""
    for told in _modern(story, by="client", kind="request", method=ASKING):
        if "inputResponses" in told.params or "requestState" in told.params:
            for other in reversed(story.told[: told.position]):
                if (
                    other.kind == "response"
                    and other.method == told.method
                    and isinstance(other.result, dict)
                    and other.result.get("resultType") == "input_required"
                    and other.request is not None
                    and _salient(other.request.params) == _salient(told.params)
                ):
                    yield told, other
                    break


def _salient(params: dict[str, Any]) -> Any:
    return identity([params.get("name"), params.get("uri"), params.get("arguments")])


@lint("MRTR-28 MRTR-29 MRTR-38")
def every_question_is_answered(story: Story) -> Seen:
    """The next round has an answer, a bare result object, under every key of `inputRequests`."""
    for told, asked in _rounds(story):
        keys = set(asked.result.get("inputRequests") or {})
        given = told.params.get("inputResponses")
        if keys:
            problem = wrong(given, dict, "inputResponses")
            missing = sorted(keys - set(given)) if problem is None else []
            odd = [
                name
                for name in keys
                if problem is None and not missing and not isinstance(given[name], dict)
            ]
            yield (
                told,
                problem
                or (
                    f"no answer to {missing}" if missing else f"{odd} is no object" if odd else None
                ),
            )


@lint("MRTR-31 MRTR-32")
def state_comes_back_unchanged(story: Story) -> Seen:
    """`requestState` comes back as it was given, code point for code point."""
    for told, asked in _rounds(story):
        if "requestState" in asked.result:
            same = told.params.get("requestState") == asked.result["requestState"]
            yield told, None if same else f"it is {str(told.params.get('requestState'))[:80]!r}"


@lint("MRTR-33")
def no_state_is_invented(story: Story) -> Seen:
    """A round carries no `requestState` when the result it answers had none."""
    for told, asked in _rounds(story):
        if "requestState" not in asked.result:
            yield told, "it has one" if "requestState" in told.params else None


@lint("MRTR-34")
def rounds_have_ids_of_their_own(story: Story) -> Seen:
    """Each round has an id that the request before it did not have."""
    for told, asked in _rounds(story):
        same = identity(told.message["id"]) == identity(asked.message.get("id"))
        yield told, "it has the id of the round before" if same else None
