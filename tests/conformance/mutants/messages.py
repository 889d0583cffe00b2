"""Servers that are bad at JSON-RPC, at the handshake, or on the pipe."""

from typing import Any

import msgspec
from mcpcore.conformance import revisions
from mcpcore.conformance.checks.server.stdio import TRICKY
from mutant_peers import Message, Mutant

from mcpcore.transport.http import Answer
from mutants import code, error, heard, plain, put, refused, result, unanswered

BATCHES = revisions.WITH_BATCHES
LAST = revisions.LAST_HANDSHAKE


def stringified(message: Message, _: str) -> Message:
    return {**message, "id": str(message["id"])} if message.get("id") in (0, -1) else message


def truncated(message: Message, _: str) -> Message:
    """Odd ids are made good ones and served."""
    if "method" in message and "id" in message and not isinstance(message["id"], str | int):
        return {**message, "id": 1}
    if message.get("id") is True:
        return {**message, "id": 1}
    return message


def served_null(message: Message, _: str) -> Message:
    return {**message, "id": "null"} if message.get("id", 0) is None else message


def echo_null(message: Message, _: str) -> Message:
    return {**message, "id": None} if message.get("id") == "null" else message


def forgiving(message: Message, method: str) -> Message:
    """Serves whatever calls itself a request."""
    return {**message, "jsonrpc": "2.0"}


def as_object(message: Message, _: str) -> Message:
    return {**message, "params": {}} if isinstance(message.get("params"), list) else message


def stubborn(message: Message, method: str) -> Any:
    """Fails where params are left out."""
    return message if "params" in message or method != "ping" else {**message, "method": "nope"}


def strict(message: Message, _: str) -> Message:
    """Fails on unknown members."""
    return {**message, "method": "nope"} if "x_conf" in message else message


def every_tenth_is_lost() -> Any:
    count = 0

    def says(message: Message, method: str) -> Any:
        nonlocal count
        count += method in ("ping", "server/discover")
        return None if count and count % 10 == 0 else message

    return says


def unbatched(request: Any) -> Any:
    """Takes only objects."""

    async def judge() -> Any:
        body = await request.read(10**8)
        if body.startswith(b"["):
            return plain(400)
        return request_with(request, body)

    return judge()


def request_with(request: Any, body: bytes) -> Any:
    async def read(limit: int) -> bytes:
        return body

    return msgspec.structs.replace(request, read=read)


def answering(start: bytes, status: int, body: bytes = b"") -> Any:
    """Answers by itself what begins like this."""

    def request(request: Any) -> Any:
        async def judge() -> Any:
            if request.method != "POST":
                return request
            given = await request.read(10**8)
            if given.startswith(start):
                return Answer(status, (("Content-Type", "application/json"),), body)
            return request_with(request, given)

        return judge()

    return request


RESULT = b'{"jsonrpc":"2.0","id":1,"result":{}}'


def asks_early(message: Message, method: str) -> Any:
    question = {"jsonrpc": "2.0", "id": "early", "method": "roots/list"}
    return [message, question] if method == "initialize" else message


def opening(change: Any) -> Any:
    return result("initialize", change)


def without_ping_before_initialized() -> Any:
    ready = False

    def hears(message: Message, method: str) -> Any:
        nonlocal ready
        ready = ready or method == "notifications/initialized"
        return None if method == "ping" and not ready else message

    return hears


def undeclare(name: str) -> Any:
    def change(opened: dict[str, Any]) -> None:
        opened["capabilities"].pop(name, None)

    return result("initialize server/discover", change)


def undeclared_but_silent(name: str, method: str) -> Any:
    hide, quiet = undeclare(name), unanswered(method)
    return lambda message, name: quiet(
        hide(message, name) if isinstance(message, dict) else message, name
    )


def split_lines(message: Message, _: str) -> Any:
    return (
        {**message, "id": message["id"].replace("\n", " ")}
        if message.get("id") == TRICKY
        else message
    )


def unlucky_five_mebibytes(message: Message, _: str) -> Any:
    return None if len(str(message)) > 2**20 else message


def once_lost(message: Message, method: str) -> Any:
    """Loses requests whose text has non-ASCII characters."""
    return message if str(message).isascii() else None


def together(limit: int) -> Any:
    seen = 0

    def hears(message: Message, method: str) -> Any:
        nonlocal seen
        seen += method in ("ping", "server/discover")
        return None if seen > limit else message

    return hears


JSON_RPC = {
    "json_rpc.ids_come_back_as_sent": Mutant(says=stringified),
    "json_rpc.null_is_no_id": Mutant(hears=served_null, says=echo_null, transport="stdio"),
    "json_rpc.odd_ids_are_not_bent": Mutant(hears=truncated, transport="stdio", revision=LAST),
    "json_rpc.unknown_methods_are_not_found": Mutant(
        says=error("conformance/nope", {"result": {}})
    ),
    "json_rpc.params_in_an_array_are_refused": Mutant(hears=as_object, revision=LAST),
    "json_rpc.params_may_be_left_out": Mutant(hears=stubborn, revision=LAST),
    "json_rpc.notifications_get_no_answer": Mutant(
        hears=lambda m, n: {"jsonrpc": "2.0", "id": "x", "method": "ping"} if "nope" in n else m,
        transport="stdio",
        revision=LAST,
    ),
    "json_rpc.garbage_does_not_kill": Mutant(dies=True),
    "json_rpc.garbage_is_refused": Mutant(request=answering(b"{bad", 200, RESULT)),
    "json_rpc.what_is_no_request_is_refused": Mutant(
        hears=lambda m, n: {"jsonrpc": "2.0", "id": "served", "method": "ping"} if m == {} else m,
        revision=LAST,
    ),
    "json_rpc.bodies_that_are_no_request_are_refused": Mutant(
        request=answering(b"42", 200, RESULT)
    ),
    "json_rpc.another_jsonrpc_is_not_served": Mutant(hears=forgiving),
    "json_rpc.missing_params_are_invalid": Mutant(says=code("tools/call", -32603)),
    "json_rpc.unknown_members_do_not_matter": Mutant(hears=strict),
    "json_rpc.many_at_once_are_all_answered": Mutant(says=every_tenth_is_lost(), transport="stdio"),
    "json_rpc.batches_are_answered": Mutant(request=unbatched, transport="http", revision=BATCHES),
    "json_rpc.empty_batches_are_invalid": Mutant(
        request=answering(b"[]", 200, RESULT), transport="http"
    ),
    "json_rpc.a_batch_of_notifications_is_accepted": Mutant(request=unbatched),
    "json_rpc.initialize_in_a_batch_is_refused": Mutant(unbatches=True, transport="stdio"),
    "json_rpc.batches_are_gone": Mutant(unbatches=True, transport="stdio"),
    "json_rpc.invalid_utf8_does_not_kill": Mutant(dies=True, transport="stdio"),
}

LIFECYCLE = {
    "lifecycle.nothing_is_needed_but_the_base": Mutant(says=refused("ping")),
    "lifecycle.the_server_waits_for_initialized": Mutant(says=asks_early, transport="stdio"),
    "lifecycle.ping_works_before_initialized": Mutant(hears=without_ping_before_initialized()),
    "lifecycle.features_wait_for_initialize": Mutant(
        says=lambda m, n: (
            {"jsonrpc": "2.0", "id": m["id"], "result": {"tools": []}} if n == "tools/list" else m
        ),
        transport="stdio",
    ),
    "lifecycle.a_spoken_version_is_echoed": Mutant(
        says=opening(put("protocolVersion", revisions.FIRST)), revision=LAST
    ),
    "lifecycle.an_unknown_version_is_countered": Mutant(
        says=opening(put("protocolVersion", revisions.UNKNOWN)), revision=LAST
    ),
    "lifecycle.the_counter_offer_is_the_newest": Mutant(
        says=opening(put("protocolVersion", revisions.FIRST)), revision=LAST
    ),
    "lifecycle.versions_are_compared_whole": Mutant(
        says=opening(put("protocolVersion", f" {LAST}")), revision=LAST
    ),
    "lifecycle.unknown_capabilities_are_ignored": Mutant(
        hears=heard(
            "initialize", lambda m: {**m, "params": None} if "conformance" in m["params"] else m
        )
    ),
    "lifecycle.undeclared_features_are_refused": Mutant(
        says=undeclared_but_silent("tools", "tools/list"), transport="stdio"
    ),
    "lifecycle.what_works_is_declared": Mutant(says=undeclare("prompts")),
    "lifecycle.declared_tools_work": Mutant(says=refused("tools/list")),
    "lifecycle.declared_resources_work": Mutant(says=refused("resources/list")),
    "lifecycle.declared_prompts_work": Mutant(says=refused("prompts/list")),
    "lifecycle.a_dropped_connection_is_survived": Mutant(says=refused("ping")),
}

STDIO = {
    "stdio.line_feeds_inside_are_escaped": Mutant(says=split_lines),
    "stdio.messages_may_come_byte_by_byte": Mutant(hears=once_lost),
    "stdio.messages_may_come_together": Mutant(hears=together(30)),
    "stdio.long_lines_are_no_trouble": Mutant(hears=unlucky_five_mebibytes),
    "stdio.answers_are_flushed": Mutant(says=unanswered("ping server/discover")),
    "stdio.blank_lines_and_returns_are_passed_over": Mutant(dies=True),
    "stdio.the_server_ends_with_its_input": Mutant(stays=True),
    "stdio.the_server_ends_with_a_call_in_flight": Mutant(stays=True),
    "stdio.the_server_ends_before_it_was_greeted": Mutant(stays=True),
    "stdio.nothing_else_is_on_standard_output": Mutant(banner=b"Server started\n"),
    "stdio.no_authorization_on_a_pipe": Mutant(says=refused("ping", 401), revision=LAST),
}
