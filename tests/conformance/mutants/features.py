"""Servers that are bad at tools, resources, prompts and the utilities."""

from typing import Any

import msgspec
from mcpcore.conformance import revisions
from mutant_peers import Message, Mutant

from mutants import code, error, heard, note, refused, result

LAST = revisions.LAST_HANDSHAKE
STATELESS = revisions.STATELESS[-1]
META = "io.modelcontextprotocol/"


def lower_case(message: Message, method: str) -> Message:
    if method == "tools/call" and isinstance(message["params"].get("name"), str):
        message["params"]["name"] = message["params"]["name"].lower()
    return message


def filled(message: Message) -> Message:
    """Makes up what is missing."""
    if (
        message["params"].get("arguments") == {}
        and message["params"].get("name") != "test_simple_text"
    ):
        message["params"]["name"] = "test_simple_text"
    return message


def by_turns(member: str) -> Any:
    """Lists in another order each time."""
    count = 0

    def change(listed: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        if count % 3:
            listed[member].reverse()

    return result("tools/list", change)


def one_less(member: str, method: str) -> Any:
    count = 0

    def change(listed: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        if count % 2:
            listed[member].pop()

    return result(method, change)


def leaky(message: Message, method: str) -> Message:
    if method == "resources/read" and "error" in message:
        contents = [{"uri": "file:///etc/passwd", "text": "root:x:0:0:root:/root:/bin/bash"}]
        return {"jsonrpc": "2.0", "id": message["id"], "result": {"contents": contents}}
    return message


def asks_anyway(message: Message, method: str) -> Any:
    question = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    return [question, message] if method == "tools/call" and "result" in message else message


def drops_questions_ids() -> Any:
    """Loses the client's request while its own question is open."""
    asking = False

    def says(message: Message, method: str) -> Any:
        nonlocal asking
        asking = asking or method == "sampling/createMessage"
        return None if asking and method == "ping" else message

    return says


def without_arguments(message: Message) -> Message:
    if "arguments" not in message["params"]:
        message["params"]["name"] = "nope"
    return message


FEATURES = {
    "features.tools_that_may_be_called_answer": Mutant(
        says=result("tools/call", lambda r: r.pop("content") and None)
    ),
    "features.listed_resources_can_be_read": Mutant(says=refused("resources/read")),
    "features.listed_prompts_can_be_got": Mutant(says=refused("prompts/get")),
    "features.unknown_tools_are_an_error": Mutant(
        says=error(
            "tools/call", {"result": {"content": [], "isError": True, "resultType": "complete"}}
        )
    ),
    "features.tool_names_know_upper_and_lower": Mutant(
        hears=lower_case,
        says=result("tools/call", lambda r: r.pop("isError", None) and None),
    ),
    "features.arguments_are_validated": Mutant(hears=heard("tools/call", filled)),
    "features.arguments_in_an_array_are_invalid": Mutant(
        says=error("tools/call", {"result": {"content": []}})
    ),
    "features.failing_tools_say_so_in_the_result": Mutant(
        says=result("tools/call", lambda r: r.pop("isError", None) and None)
    ),
    "features.arguments_may_be_left_out": Mutant(hears=heard("tools/call", without_arguments)),
    "features.tools_are_listed_alike": Mutant(says=by_turns("tools")),
    "features.lists_do_not_depend_on_the_connection": Mutant(
        says=one_less("resources", "resources/list")
    ),
    "features.missing_resources_are_not_found": Mutant(says=code("resources/read", -32603)),
    "features.missing_resources_are_invalid": Mutant(
        says=error("resources/read", {"result": {"contents": [], "resultType": "complete"}})
    ),
    "features.paths_do_not_climb": Mutant(says=leaky),
    "features.reading_needs_a_uri": Mutant(says=code("resources/read", -32603)),
    "features.subscribing_works_where_declared": Mutant(
        says=refused("resources/subscribe"), revision=LAST
    ),
    "features.unknown_prompts_are_invalid": Mutant(says=code("prompts/get", -32603)),
    "features.prompts_require_their_arguments": Mutant(says=code("prompts/get", -32603)),
    "features.prompt_arguments_are_strings": Mutant(
        says=error("prompts/get", {"result": {"messages": []}})
    ),
    "features.a_client_without_features_is_asked_nothing": Mutant(says=asks_anyway, revision=LAST),
    "features.ids_of_both_sides_are_apart": Mutant(says=drops_questions_ids(), revision=LAST),
}


def answers_cancellations(message: Message, method: str) -> Any:
    if method == "notifications/cancelled":
        return {"jsonrpc": "2.0", "id": "c", "method": "ping"}
    return message


def dies_of_cancellations() -> Any:
    dead = False

    def hears(message: Message, method: str) -> Any:
        nonlocal dead
        dead = dead or method == "notifications/cancelled"
        return None if dead else message

    return hears


def deaf(method: str) -> Any:
    return lambda message, name: None if name == method else message


def serial() -> Any:
    """Takes nothing in while a call is open: a second request is lost until then."""
    busy = False

    def hears(message: Message, method: str) -> Any:
        nonlocal busy
        if busy and method in ("ping", "server/discover"):
            return None
        busy = busy or message.get("params", {}).get("name") == "test_wait"
        return message

    return hears


def same_again() -> Any:
    def change(message: Message) -> Message:
        message["params"]["progress"] = 1
        return message

    return note("notifications/progress", change)


def double(listed: dict[str, Any]) -> None:
    listed["tools"].append(listed["tools"][0])


def forgetful() -> Any:
    """A cursor works once."""
    used: set[str] = set()

    def hears(message: Message, method: str) -> Any:
        cursor = message.get("params", {}).get("cursor") if method == "tools/list" else None
        if cursor is not None and cursor in used:
            return {
                **message,
                "params": {k: v for k, v in message["params"].items() if k != "cursor"},
            }
        used.add(cursor)
        return message

    return hears


def of_one_connection(message: Message, method: str) -> Message:
    return (
        refused("tools/list")(message, method)
        if "result" in message and "nextCursor" not in message["result"]
        else message
    )


def starts_again(message: Message) -> Message:
    message["params"].pop("cursor", None)
    return message


def always_logs(message: Message, method: str) -> Any:
    log = {
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {"level": "info", "data": "x"},
    }
    return [log, message] if method == "tools/call" and "result" in message else message


def runs_on(message: Message, method: str) -> Any:
    """A call that was cancelled is answered."""
    return None if method == "notifications/cancelled" else message


def without_level(message: Message) -> Message:
    message["params"]["_meta"].pop(f"{META}logLevel", None)
    return message


def uninterested(request: Any) -> Any:
    """Does not look whether the client is still there."""

    async def here() -> bool:
        return False

    return msgspec.structs.replace(request, gone=here)


def never_ends(message: Message, method: str) -> Message:
    """The effect of a dropped call is lost."""
    if method == "tools/call" and message["params"].get("name") == "test_wait":
        message["params"]["arguments"]["milliseconds"] = 60_000
    return message


UTILITIES = {
    "utilities.odd_cancellations_are_ignored": Mutant(
        hears=answers_cancellations, transport="stdio"
    ),
    "utilities.crossing_cancellations_are_survived": Mutant(
        hears=dies_of_cancellations(), transport="stdio"
    ),
    "utilities.a_cancelled_call_is_stopped_and_not_answered": Mutant(
        hears=runs_on, transport="stdio"
    ),
    "utilities.a_closed_stream_cancels": Mutant(request=uninterested),
    "utilities.a_dropped_stream_does_not_cancel": Mutant(hears=never_ends),
    "utilities.a_slow_call_holds_nothing_up": Mutant(hears=serial(), transport="stdio"),
    "utilities.progress_of_a_call": Mutant(says=same_again(), transport="stdio"),
    "utilities.pages_have_an_end_and_no_doubles": Mutant(says=result("tools/list", double)),
    "utilities.cursors_are_stable": Mutant(hears=forgetful()),
    "utilities.cursors_work_on_any_connection": Mutant(says=of_one_connection),
    "utilities.bad_cursors_are_refused": Mutant(
        hears=heard("tools/list resources/list", starts_again)
    ),
    "utilities.every_level_can_be_set": Mutant(says=refused("logging/setLevel")),
    "utilities.bad_levels_are_invalid": Mutant(says=error("logging/setLevel", {"result": {}})),
    "utilities.the_level_holds": Mutant(says=always_logs, transport="stdio"),
    "utilities.logs_come_when_asked_for": Mutant(says=always_logs, transport="stdio"),
    "utilities.unknown_log_levels_are_invalid": Mutant(hears=heard("tools/list", without_level)),
    "utilities.completion_works": Mutant(says=refused("completion/complete")),
    "utilities.completing_the_unknown_is_invalid": Mutant(
        says=error(
            "completion/complete",
            {"result": {"completion": {"values": []}, "resultType": "complete"}},
        )
    ),
}


def asks_for_ever(message: Message, method: str) -> Message:
    """Takes no answer."""
    message["params"].pop("inputResponses", None)
    message["params"].pop("requestState", None)
    return message


def accepts_any_state(message: Message, method: str) -> Message:
    """Takes every state for a good one."""
    final = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
    return (
        {"jsonrpc": "2.0", "id": message["id"], "result": final} if "error" in message else message
    )


def dies_of_states() -> Any:
    dead = False

    def hears(message: Message, method: str) -> Any:
        nonlocal dead
        params = message.get("params", {})
        dead = dead or ("requestState" in params and not isinstance(params["requestState"], str))
        return None if dead else message

    return hears


def particular(message: Message) -> Message:
    """Refuses what it did not ask for."""
    if "conformance_extra" in message["params"].get("inputResponses", {}):
        message["params"]["name"] = "nope"
    return message


def gives_up() -> Any:
    count = 0

    def hears(message: Message, method: str) -> Any:
        nonlocal count
        count += method == "tools/call"
        return message if count < 20 else None

    return hears


def asks_for_all(message: Message, method: str) -> Message:
    if "result" in message and "inputRequests" in message["result"] and method == "tools/call":
        asked = {
            "method": "elicitation/create",
            "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}},
        }
        result = {**message["result"], "inputRequests": {"more": asked}}
        return {**message, "result": result}
    return message


ROUNDS = {
    "rounds.questions_are_asked_and_answered": Mutant(
        hears=heard("tools/call", lambda m: asks_for_ever(m, ""))
    ),
    "rounds.prompts_may_ask": Mutant(hears=heard("prompts/get", lambda m: asks_for_ever(m, ""))),
    "rounds.there_may_be_several_rounds": Mutant(
        hears=heard("tools/call", lambda m: asks_for_ever(m, ""))
    ),
    "rounds.rounds_do_not_need_their_connection": Mutant(
        hears=heard("tools/call", lambda m: asks_for_ever(m, ""))
    ),
    "rounds.a_tampered_state_is_refused": Mutant(says=accepts_any_state),
    "rounds.a_state_belongs_to_its_request": Mutant(says=accepts_any_state),
    "rounds.a_state_is_a_string": Mutant(hears=dies_of_states()),
    "rounds.malformed_answers_are_an_error": Mutant(says=accepts_any_state),
    "rounds.answers_that_nobody_asked_for_are_ignored": Mutant(
        hears=heard("tools/call", particular)
    ),
    "rounds.a_missing_answer_is_asked_for_again": Mutant(
        hears=heard(
            "tools/call",
            lambda m: (
                {**m, "params": {**m["params"], "name": "nope"}}
                if "inputResponses" in m["params"]
                else m
            ),
        )
    ),
    "rounds.abandoned_rounds_harm_nobody": Mutant(hears=gives_up()),
    "rounds.capabilities_are_of_this_request": Mutant(says=asks_for_all),
    "rounds.a_missing_capability_is_named": Mutant(says=code("tools/call", -32603)),
}


def bare(message: Message) -> Message:
    """Makes up the terms that a request lacks."""
    params = message.get("params") or {}
    terms = {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": {}}
    return {**message, "params": {**params, "_meta": {**terms, **params.get("_meta", {})}}}


def well_typed(message: Message) -> Message:
    params = message.get("params") or {}
    return {
        **message,
        "params": {
            **params,
            "_meta": {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": {}},
        },
    }


def needs_a_name(message: Message) -> Message:
    if f"{META}clientInfo" not in message["params"]["_meta"]:
        message["params"]["_meta"].pop(f"{META}clientCapabilities")
    return message


def only_known(message: Message) -> Message:
    if f"{META}conformance" in message["params"]["_meta"]:
        message["method"] = "nope"
    return message


def dies_of_versions() -> Any:
    dead = False

    def hears(message: Message, method: str) -> Any:
        nonlocal dead
        if dead:
            return None
        dead = message.get("params", {}).get("_meta", {}).get(f"{META}protocolVersion") == "zzz"
        return message

    return hears


def needs_discovery() -> Any:
    """Serves nothing before it was discovered."""
    discovered = False

    def hears(message: Message, method: str) -> Any:
        nonlocal discovered
        discovered = discovered or method == "server/discover"
        return message if discovered else {**message, "params": {}}

    return hears


def remembers() -> Any:
    """Leaves out tools for those who once declared nothing."""
    poor = False

    def says(message: Message, method: str) -> Message:
        nonlocal poor
        if method == "server/discover" and "result" in message:
            poor = not poor
            if poor:
                message["result"]["capabilities"].pop("prompts", None)
        return message

    return says


def tagged(change: Any) -> Any:
    return note("notifications/subscriptions/acknowledged", change)


def stringify_tag(message: Message) -> Message:
    meta = message["params"]["_meta"]
    meta[f"{META}subscriptionId"] = str(meta[f"{META}subscriptionId"])
    return message


def forever_lost(message: Message) -> None:
    return None


def to_all(message: Message, method: str) -> Any:
    """Tells of changes under another subscription too."""
    if method.endswith("list_changed"):
        other = {**message, "params": {"_meta": {f"{META}subscriptionId": "listen-prompts"}}}
        return [message, other]
    return message


def one_only() -> Any:
    count = 0

    def says(message: Message) -> Any:
        nonlocal count
        count += 1
        return message if count == 1 else None

    return says


def stateless_leaks(message: Message, method: str) -> Message:
    if method == "tools/list" and "result" in message and "resultType" not in message["result"]:
        message["result"]["resultType"] = "complete"
    return message


def deaf_to(method: str) -> Any:
    return lambda message, name: None if name == method else message


def changing() -> Any:
    count = 0

    def change(opened: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        opened["capabilities"]["experimental"] = {"count": {"n": count}}

    return result("server/discover", change)


STATELESS_ERA = {
    "stateless.requests_without_terms_are_refused": Mutant(
        hears=lambda m, n: bare(m) if "id" in m else m, transport="stdio"
    ),
    "stateless.the_name_of_the_client_is_optional": Mutant(
        hears=heard("server/discover", needs_a_name)
    ),
    "stateless.terms_of_the_wrong_type_are_invalid": Mutant(
        hears=heard("server/discover", well_typed), transport="stdio"
    ),
    "stateless.unknown_terms_are_ignored": Mutant(
        hears=heard("server/discover", only_known), transport="stdio"
    ),
    "stateless.unknown_revisions_are_named": Mutant(
        says=code("server/discover", -32602), transport="stdio"
    ),
    "stateless.each_request_stands_alone": Mutant(hears=dies_of_versions(), transport="stdio"),
    "stateless.any_request_may_come_first": Mutant(hears=needs_discovery(), transport="stdio"),
    "stateless.both_eras_side_by_side": Mutant(says=stateless_leaks),
    "stateless.removed_methods_are_unknown": Mutant(
        says=error("ping", {"result": {"resultType": "complete"}}), transport="stdio"
    ),
    "stateless.connections_establish_nothing": Mutant(says=remembers()),
    "stateless.cancellations_need_no_terms": Mutant(hears=dies_of_cancellations()),
    "stateless.subscriptions_are_acknowledged": Mutant(says=tagged(stringify_tag)),
    "stateless.an_empty_filter_is_acknowledged": Mutant(says=tagged(forever_lost)),
    "stateless.a_filter_is_required": Mutant(says=code("subscriptions/listen", -32603)),
    "stateless.changes_reach_those_who_listen": Mutant(says=to_all),
    "stateless.ended_subscriptions_are_silent": Mutant(hears=runs_on, transport="stdio"),
    "stateless.several_subscriptions_at_once": Mutant(says=tagged(one_only())),
    "stateless.subscriptions_end_with_the_server": Mutant(stays=True),
    "stateless.introduced_again_it_says_the_same": Mutant(says=changing()),
}
