"""For each lint a recording that was spoiled in just its point.

The recordings are of the good server and of the suite as a lawful client; a spoiled one has what one side
said changed, message by message.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mcpcore.conformance import revisions
from mcpcore.conformance.lints import Story
from mcpcore.conformance.transcript import Entry
from mutant_peers import Message

from mutants import drop, error, heard, note, put, refused, result

META = "io.modelcontextprotocol/"
LAST = revisions.LAST_HANDSHAKE
ASKING = "test_input_required_result_"


@dataclass(frozen=True)
class Spoiled:
    """What `by` says is changed: `change` takes a message and its method, as with a mutant; `move` takes the
    entry and its method, and gives the stream it is said to have crossed on.
    """

    by: str
    change: Callable[[Message, str], Any] = lambda message, method: message
    move: Callable[[Entry, str], str] = lambda entry, method: entry.stream
    revision: str | None = None
    transport: str = "stdio"
    judged: str = ""
    """Who is at fault by what was changed; empty means `by`."""
    opened: str = ""
    """A GET stream that the client is said to have opened."""


def spoil(entries: list[Entry], spoiled: Spoiled) -> Iterator[Entry]:
    """The entries with what one side said changed."""
    import copy
    import json

    methods = {id(told.entry): told.method for told in Story(entries).told}
    if spoiled.opened:
        yield Entry(0, "client", spoiled.opened, "head", b"GET /mcp HTTP/1.1\r\n\r\n")
    for entry in entries:
        if (
            entry.kind != "message"
            or entry.sender != spoiled.by
            or not isinstance(entry.message, dict)
        ):
            yield entry
            continue
        method = str(methods.get(id(entry)) or "")
        said = spoiled.change(copy.deepcopy(entry.message), method)
        stream = spoiled.move(entry, method)
        for part in [] if said is None else said if isinstance(said, list) else [said]:
            raw = part if isinstance(part, bytes) else json.dumps(part).encode()
            yield Entry(entry.at, entry.sender, stream, "message", raw)


def request(methods: str, change: Callable[[Any], Any]) -> Any:
    """Requests of these methods are changed in place."""

    def edit(message: Message) -> Message:
        change(message)
        return message

    return heard(methods, edit)


def params(methods: str, change: Callable[[Any], Any]) -> Any:
    """The params of these methods are changed in place."""

    def edit(message: Message) -> Message:
        if "id" in message and "method" not in message:
            return message
        change(message.setdefault("params", {}))
        return message

    return heard(methods, edit)


def meta(change: Callable[[Any], Any]) -> Any:
    """The `_meta` of requests is changed."""

    def edit(message: Message, method: str) -> Message:
        if "id" in message and "_meta" in message.get("params", {}):
            change(message["params"]["_meta"])
        return message

    return edit


def first(member: str, change: Callable[[Any], Any]) -> Callable[[Any], None]:
    """The first entry of a list is changed in place."""

    def edit(holder: dict[str, Any]) -> None:
        if holder.get(member):
            change(holder[member][0])

    return edit


def after(method: str, more: Message) -> Any:
    """After a result of this method something more is said."""
    return lambda message, name: (
        [message, more] if name == method and "result" in message else message
    )


def before(method: str, more: Message) -> Any:
    """Before a result of this method something more is said."""
    return lambda message, name: (
        [more, message] if name == method and "result" in message else message
    )


def asking(change: Callable[[Any], Any]) -> Any:
    """Input-required results are changed in place."""

    def edit(holder: dict[str, Any]) -> None:
        if holder.get("resultType") == "input_required":
            change(holder)

    return result("tools/call prompts/get", edit)


def final(change: Callable[[Any], Any]) -> Any:
    """Complete results of tools are changed in place."""

    def edit(holder: dict[str, Any]) -> None:
        if holder.get("resultType", "complete") == "complete":
            change(holder)

    return result("tools/call", edit)


def block(kind: str, change: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Content blocks of one type, in the messages of a prompt, are changed in place."""

    def edit(holder: dict[str, Any]) -> None:
        for message in holder.get("messages", []):
            if message["content"]["type"] == kind:
                change(message["content"])

    return edit


def answers(change: Callable[[Any], Any]) -> Any:
    """Each answer in `inputResponses` is changed in place."""

    def edit(given: dict[str, Any]) -> None:
        for each in given.get("inputResponses", {}).values():
            if isinstance(each, dict):
                change(each)

    return params("tools/call prompts/get", edit)


def questions(method: str, change: Callable[[Any], Any]) -> Any:
    """The params of what is asked for by a result are changed in place."""

    def edit(holder: dict[str, Any]) -> None:
        for each in holder.get("inputRequests", {}).values():
            if each["method"] == method:
                change(each["params"])

    return asking(edit)


def rounds(change: Callable[[Any], Any]) -> Any:
    """Requests that answer an input-required result are changed in place."""

    def edit(message: Message, method: str) -> Message:
        if "inputResponses" in message.get("params", {}):
            change(message)
        return message

    return edit


def notified(method: str, **members: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": members}


def asked(method: str, **members: Any) -> Message:
    return {"jsonrpc": "2.0", "id": "asked", "method": method, "params": members}


def with_error(number: int, text: str = "broken") -> Any:
    return (
        refused("tools/list", number)
        if text == "broken"
        else (
            lambda m, n: (
                {"jsonrpc": "2.0", "id": m["id"], "error": {"code": number, "message": text}}
                if n == "tools/list"
                else m
            )
        )
    )


def both(message: Message, method: str) -> Message:
    return {**message, "error": {"code": 1, "message": "x"}} if "result" in message else message


def reused(message: Message, method: str) -> Message:
    return {**message, "id": 1} if "method" in message and "id" in message else message


def twice(message: Message, method: str) -> Any:
    return [message, message] if "result" in message else message


def cancelled(identity: Any, **more: Any) -> Message:
    return notified("notifications/cancelled", requestId=identity, **more)


MESSAGES = {
    "messages.version_member": Spoiled("server", lambda m, n: {**m, "jsonrpc": "1.0"}),
    "messages.request_ids": Spoiled(
        "client", lambda m, n: {**m, "id": 1.5} if "id" in m and "method" in m else m
    ),
    "messages.ids_not_reused": Spoiled("client", reused),
    "messages.ids_not_outstanding": Spoiled(
        "client", lambda m, n: [m, m] if "id" in m and "method" in m else m
    ),
    "messages.result_or_error": Spoiled("server", both),
    "messages.results_are_objects": Spoiled(
        "server", lambda m, n: {**m, "result": []} if "result" in m else m
    ),
    "messages.error_members": Spoiled(
        "server", error("", {"error": {"code": "1", "message": "x"}})
    ),
    "messages.short_error_messages": Spoiled(
        "server", error("", {"error": {"code": 1, "message": "x\n" * 300}})
    ),
    "messages.notifications_without_id": Spoiled(
        "server", lambda m, n: {**m, "id": 7} if n == "notifications/progress" else m
    ),
    "messages.params_are_objects": Spoiled(
        "client", lambda m, n: {**m, "params": []} if "method" in m else m
    ),
    "messages.reserved_codes": Spoiled("server", with_error(-32500)),
    "messages.legacy_codes": Spoiled("server", with_error(-32001)),
    "messages.unassigned_codes": Spoiled("server", with_error(-32050)),
    "messages.codes_of_earlier_revisions": Spoiled("server", with_error(-32042)),
    "messages.reserved_methods": Spoiled(
        "server", before("tools/call", notified("rpc.note")), revision=LAST
    ),
    "messages.one_response_each": Spoiled("server", twice),
    "messages.responses_have_a_request": Spoiled(
        "server", lambda m, n: {**m, "id": "nope"} if "result" in m else m
    ),
    "messages.no_batches": Spoiled("server", lambda m, n: [[m]] if "result" in m else m),
    "messages.no_invented_shutdown": Spoiled("client", lambda m, n: [m, notified("exit")]),
    "messages.only_messages_on_the_pipe": Spoiled("server", lambda m, n: [b"Listening...", m]),
    "messages.utf8": Spoiled(
        "server", lambda m, n: [m, b'{"jsonrpc":"2.0","method":"notifications/\xff"}']
    ),
    "messages.servers_do_not_ask": Spoiled("server", before("tools/list", asked("roots/list"))),
    "messages.clients_do_not_answer": Spoiled(
        "client", lambda m, n: [m, {"jsonrpc": "2.0", "id": 1, "result": {}}]
    ),
}

LOG = notified("notifications/message", level="debug", data="x")
PROGRESS = notified("notifications/progress", progressToken="nobody", progress=1)

FLOW = {
    "flow.initialization_is_first": Spoiled(
        "client", lambda m, n: [asked("tools/list"), m] if n == "initialize" else m
    ),
    "flow.initialized_follows": Spoiled(
        "client", lambda m, n: None if n == "notifications/initialized" else m
    ),
    "flow.nothing_before_the_answer": Spoiled(
        "client", lambda m, n: [m, asked("tools/list")] if n == "initialize" else m
    ),
    "flow.nothing_before_initialized": Spoiled("server", after("initialize", asked("roots/list"))),
    "flow.initialize_is_not_cancelled": Spoiled(
        "client", lambda m, n: [m, cancelled(m["id"])] if n == "initialize" else m
    ),
    "flow.only_what_was_declared_is_asked": Spoiled(
        "client",
        lambda m, n: put("capabilities", {})(m["params"]) or m if n == "initialize" else m,
        revision=LAST,
        judged="server",
    ),
    "flow.changes_are_declared": Spoiled(
        "server",
        lambda m, n: after("initialize", notified("notifications/tools/list_changed"))(
            result("initialize", lambda r: put("tools", {})(r["capabilities"]))(m, n), n
        ),
    ),
    "flow.updates_are_subscribed": Spoiled(
        "server", before("ping", notified("notifications/resources/updated", uri="x:y"))
    ),
    "flow.methods_of_the_revision": Spoiled(
        "server",
        before("tools/list", asked("elicitation/create", message="m")),
        revision=revisions.FIRST,
    ),
    "flow.removed_methods": Spoiled(
        "client", lambda m, n: [m, notified("notifications/initialized")]
    ),
    "flow.tokens_are_strings_or_integers": Spoiled(
        "client",
        params("tools/call", lambda p: p.get("_meta", {}).update(progressToken=True)),
        revision=LAST,
    ),
    "flow.tokens_are_unique": Spoiled(
        "client",
        lambda m, n: (
            [m, {**m, "id": "again"}]
            if "progressToken" in m.get("params", {}).get("_meta", {})
            else m
        ),
    ),
    "flow.progress_members": Spoiled(
        "server", note("notifications/progress", lambda m: put("progress", "1")(m["params"]) or m)
    ),
    "flow.progress_grows": Spoiled(
        "server", note("notifications/progress", lambda m: put("progress", 1)(m["params"]) or m)
    ),
    "flow.progress_was_asked_for": Spoiled("server", before("tools/call", PROGRESS)),
    "flow.progress_ends_with_the_answer": Spoiled(
        "server",
        after(
            "tools/call",
            notified("notifications/progress", progressToken="conformance-1", progress=999),
        ),
    ),
    "flow.progress_on_its_own_stream": Spoiled(
        "server",
        move=lambda e, n: "POST 1" if n == "notifications/progress" else e.stream,
        transport="http",
    ),
    "flow.no_answers_on_the_get_stream": Spoiled(
        "server",
        move=lambda e, n: "GET 99" if n == "tools/list" else e.stream,
        transport="http",
        opened="GET 99",
    ),
    "flow.questions_stay_with_their_request": Spoiled(
        "server",
        move=lambda e, n: "GET 99" if n == "notifications/progress" else e.stream,
        transport="http",
        opened="GET 99",
    ),
    "flow.cancellations_name_a_request": Spoiled(
        "client", note("notifications/cancelled", lambda m: {**m, "params": {}})
    ),
    "flow.cancellations_are_of_own_requests": Spoiled(
        "client", note("notifications/cancelled", lambda m: cancelled("nope"))
    ),
    "flow.servers_cancel_subscriptions_only": Spoiled("server", before("tools/list", cancelled(2))),
    "flow.logs_keep_to_the_level": Spoiled("server", before("tools/call", LOG), revision=LAST),
    "flow.logs_were_asked_for": Spoiled("server", before("tools/call", LOG)),
    "flow.logs_keep_to_the_asked_level": Spoiled(
        "client", meta(put(f"{META}logLevel", "alert")), judged="server"
    ),
    "flow.tool_names_are_unique": Spoiled(
        "server", result("tools/list", lambda r: r["tools"].append(r["tools"][0]))
    ),
}

IMAGE_WITHOUT_DATA = [{"type": "image", "mimeType": "image/png"}]
CAPABILITIES = f"{META}clientCapabilities"


def structured(message: Message, method: str) -> Message:
    """A tool with an output schema gives something else."""
    if "structuredContent" in message.get("result", {}):
        message["result"]["structuredContent"] = {"conformance": 1}
    return message


def unembedded(message: Message, method: str) -> Message:
    return result("initialize server/discover", lambda r: drop("resources")(r["capabilities"]))(
        message, method
    )


OBJECTS = {
    "objects.initialize_result": Spoiled("server", result("initialize", drop("serverInfo"))),
    "objects.implementations": Spoiled(
        "server", result("initialize", lambda r: drop("version")(r["serverInfo"]))
    ),
    "objects.initialize_request": Spoiled("client", params("initialize", drop("capabilities"))),
    "objects.flags_are_booleans": Spoiled(
        "server",
        result("initialize", lambda r: put("tools", {"listChanged": 1})(r["capabilities"])),
    ),
    "objects.ping_result": Spoiled("server", result("ping", put("pong", True))),
    "objects.ping_params": Spoiled("client", params("ping", put("x", 1))),
    "objects.tool_lists": Spoiled("server", result("tools/list", put("nextCursor", 7))),
    "objects.tools_have_their_shape": Spoiled(
        "server", result("tools/list", first("tools", drop("name")))
    ),
    "objects.input_schemas_are_objects": Spoiled(
        "server", result("tools/list", first("tools", put("inputSchema", None)))
    ),
    "objects.output_schemas_are_objects": Spoiled(
        "server", result("tools/list", first("tools", put("outputSchema", [])))
    ),
    "objects.tools_without_parameters": Spoiled(
        "server", result("tools/list", first("tools", put("inputSchema", {"type": "null"})))
    ),
    "objects.tool_names_are_short": Spoiled(
        "server", result("tools/list", first("tools", put("name", "x" * 200)))
    ),
    "objects.tool_names_are_plain": Spoiled(
        "server", result("tools/list", first("tools", put("name", "a b,c")))
    ),
    "objects.call_results_have_content": Spoiled("server", final(drop("content"))),
    "objects.content_blocks": Spoiled("server", final(put("content", IMAGE_WITHOUT_DATA))),
    "objects.structured_content_is_an_object": Spoiled(
        "server", final(put("structuredContent", [1])), revision=LAST
    ),
    "objects.structured_content_is_repeated": Spoiled("server", structured),
    "objects.structured_content_conforms": Spoiled("server", structured),
    "objects.embedding_servers_have_resources": Spoiled("server", unembedded),
    "objects.resources_have_their_shape": Spoiled(
        "server", result("resources/list", first("resources", drop("name")))
    ),
    "objects.templates_have_their_shape": Spoiled(
        "server",
        result("resources/templates/list", first("resourceTemplates", drop("uriTemplate"))),
    ),
    "objects.contents_have_their_shape": Spoiled(
        "server", result("resources/read", first("contents", put("blob", "AA==")))
    ),
    "objects.uris_have_a_scheme": Spoiled(
        "server", result("resources/list", first("resources", put("uri", "no uri")))
    ),
    "objects.annotations": Spoiled(
        "server", result("resources/list", first("resources", put("annotations", {"priority": 2})))
    ),
    "objects.prompts_have_their_shape": Spoiled(
        "server", result("prompts/list", first("prompts", put("arguments", [{}])))
    ),
    "objects.prompt_results": Spoiled(
        "server", result("prompts/get", first("messages", put("role", "system")))
    ),
    "objects.prompt_media": Spoiled(
        "server", result("prompts/get", block("image", put("data", "!!")))
    ),
    "objects.prompt_resources": Spoiled(
        "server",
        result("prompts/get", block("resource", lambda c: drop("mimeType")(c["resource"]))),
    ),
    "objects.completions": Spoiled(
        "server",
        result("completion/complete", lambda r: put("values", ["x"] * 101)(r["completion"])),
    ),
    "objects.log_messages": Spoiled(
        "server", note("notifications/message", lambda m: put("level", "loud")(m["params"]) or m)
    ),
    "objects.logging_is_declared": Spoiled(
        "server", result("initialize server/discover", lambda r: drop("logging")(r["capabilities"]))
    ),
    "objects.cursors_are_strings": Spoiled("server", result("tools/list", put("nextCursor", None))),
    "objects.icons": Spoiled("server", result("tools/list", first("tools", put("icons", [{}])))),
    "objects.meta_is_an_object": Spoiled("server", result("tools/list", put("_meta", []))),
    "objects.meta_keys": Spoiled("server", result("tools/list", put("_meta", {"-bad/key-": 1}))),
    "objects.sampling_requests": Spoiled(
        "server", questions("sampling/createMessage", drop("maxTokens"))
    ),
    "objects.elicitation_requests": Spoiled(
        "server", questions("elicitation/create", drop("requestedSchema"))
    ),
    "objects.forms_are_flat": Spoiled(
        "server",
        questions(
            "elicitation/create",
            put("requestedSchema", {"type": "object", "properties": {"a": {"type": "object"}}}),
        ),
    ),
    "objects.roots_are_files": Spoiled(
        "client",
        answers(lambda a: put("roots", [{"uri": "https://x"}])(a) if "roots" in a else None),
    ),
    "objects.sampling_results": Spoiled("client", answers(lambda a: a.pop("model", None))),
    "objects.elicitation_results": Spoiled(
        "client", answers(lambda a: put("action", "agree")(a) if "action" in a else None)
    ),
}

LISTED = "tools/list prompts/list resources/list resources/templates/list"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def second_page_is_public(message: Message, method: str) -> Message:
    if "result" in message and method == "tools/list" and "nextCursor" not in message["result"]:
        message["result"]["cacheScope"] = (
            "public" if message["result"]["cacheScope"] == "private" else "private"
        )
    return message


STATELESS = {
    "stateless.requests_say_their_revision": Spoiled(
        "client", meta(put(f"{META}protocolVersion", 7))
    ),
    "stateless.requests_say_their_capabilities": Spoiled("client", meta(drop(CAPABILITIES))),
    "stateless.requests_say_who_asks": Spoiled("client", meta(drop(f"{META}clientInfo"))),
    "stateless.results_say_who_answers": Spoiled("server", result("", drop("_meta"))),
    "stateless.only_subscriptions_carry_their_id": Spoiled(
        "server",
        note(
            "notifications/progress",
            lambda m: put("_meta", {f"{META}subscriptionId": 1})(m["params"]) or m,
        ),
    ),
    "stateless.results_have_a_type": Spoiled("server", result("", drop("resultType"))),
    "stateless.result_types_are_known": Spoiled(
        "server", result("tools/call", put("resultType", "done"))
    ),
    "stateless.extension_results_need_the_extension": Spoiled(
        "server", result("tools/call", put("resultType", "task"))
    ),
    "stateless.only_three_methods_ask": Spoiled(
        "server", result("tools/list", put("resultType", "input_required"))
    ),
    "stateless.asking_results_ask": Spoiled(
        "server", asking(lambda r: drop("inputRequests")(r) or drop("requestState")(r))
    ),
    "stateless.input_requests_are_bare": Spoiled(
        "server",
        asking(
            lambda r: (
                [put("jsonrpc", "2.0")(each) for each in r.get("inputRequests", {}).values()]
                and None
            )
        ),
    ),
    "stateless.request_state_is_a_string": Spoiled("server", asking(put("requestState", {}))),
    "stateless.only_declared_input_is_asked": Spoiled(
        "client", meta(put(CAPABILITIES, {})), judged="server"
    ),
    "stateless.asking_ends_the_request": Spoiled(
        "server",
        lambda m, n: (
            [m, PROGRESS] if m.get("result", {}).get("resultType") == "input_required" else m
        ),
        transport="http",
    ),
    "stateless.hints_are_there": Spoiled("server", result("tools/list", drop("ttlMs"))),
    "stateless.ttl_is_not_negative": Spoiled("server", result(LISTED, put("ttlMs", -1))),
    "stateless.scopes_are_known": Spoiled("server", result(LISTED, put("cacheScope", "everyone"))),
    "stateless.no_hints_while_asking": Spoiled("server", asking(put("ttlMs", 1))),
    "stateless.no_hints_on_completions": Spoiled(
        "server", result("completion/complete", put("ttlMs", 1))
    ),
    "stateless.one_scope_for_all_pages": Spoiled("server", second_page_is_public),
    "stateless.discover_result": Spoiled(
        "server", result("server/discover", put("supportedVersions", "all"))
    ),
    "stateless.discover_names_the_revision": Spoiled(
        "server", result("server/discover", put("supportedVersions", []))
    ),
    "stateless.extensions_have_a_prefix": Spoiled(
        "server",
        result("server/discover", lambda r: put("extensions", {"tasks": {}})(r["capabilities"])),
    ),
    "stateless.acknowledgement_comes_first": Spoiled(
        "server",
        note(ACKNOWLEDGED, lambda m: [{**m, "method": "notifications/tools/list_changed"}, m]),
    ),
    "stateless.subscriptions_are_tagged": Spoiled(
        "server", note(ACKNOWLEDGED, lambda m: {**m, "params": {"notifications": {}}})
    ),
    "stateless.only_what_was_wanted": Spoiled(
        "client",
        params("subscriptions/listen", put("notifications", {"toolsListChanged": False})),
        judged="server",
    ),
    "stateless.acknowledged_is_a_part_of_the_wanted": Spoiled(
        "server",
        note(
            ACKNOWLEDGED,
            lambda m: (
                put("notifications", {"promptsListChanged": True, "toolsListChanged": True})(
                    m["params"]
                )
                or m
            ),
        ),
    ),
    "stateless.subscription_results": Spoiled(
        "server",
        note(
            ACKNOWLEDGED,
            lambda m: [
                m,
                {
                    "jsonrpc": "2.0",
                    "id": m["params"]["_meta"][f"{META}subscriptionId"],
                    "result": {},
                },
            ],
        ),
    ),
    "stateless.updates_of_watched_resources": Spoiled(
        "server",
        note(
            ACKNOWLEDGED,
            lambda m: [
                m,
                {
                    **m,
                    "method": "notifications/resources/updated",
                    "params": {**m["params"], "uri": "x:y"},
                },
            ],
        ),
    ),
    "stateless.trace_keys_are_bare": Spoiled("client", meta(put(f"{META}traceparent", "x"))),
    "stateless.trace_parents_are_well_formed": Spoiled("client", meta(put("traceparent", "x"))),
    "stateless.answers_have_no_type": Spoiled("client", answers(put("resultType", "complete"))),
    "stateless.every_question_is_answered": Spoiled(
        "client", rounds(lambda m: put("inputResponses", {})(m["params"]))
    ),
    "stateless.state_comes_back_unchanged": Spoiled(
        "client", rounds(lambda m: put("requestState", "x")(m["params"]))
    ),
    "stateless.no_state_is_invented": Spoiled(
        "server", asking(drop("requestState")), judged="client"
    ),
    "stateless.rounds_have_ids_of_their_own": Spoiled(
        "client", rounds(lambda m: put("id", m["id"] - 1)(m))
    ),
}

SPOILED = MESSAGES | FLOW | OBJECTS | STATELESS
