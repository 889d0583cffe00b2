"""The form of messages: what JSON-RPC and the schema say of every one of them."""

from typing import Any

from . import Seen, Story, lint
from .story import identity


def _name(value: Any) -> str:
    names = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return names.get(type(value), "a number")


@lint("JRPC-01 JRPC26-01")
def version_member(story: Story) -> Seen:
    """The member `jsonrpc` is the string "2.0"."""
    for told in story.told:
        if isinstance(told.message, dict):
            version = told.message.get("jsonrpc")
            yield told, None if version == "2.0" else f"jsonrpc is {version!r}"


@lint("JRPC-02 JRPC-03 JRPC26-03 JRPC26-04")
def request_ids(story: Story) -> Seen:
    """The id of a request is a string or an integer, and never null."""
    for told in story.said(kind="request"):
        value = told.message["id"]
        fine = isinstance(value, str | int) and not isinstance(value, bool)
        yield told, None if fine else f"the id is {value!r}"


@lint("JRPC-05")
def ids_not_reused(story: Story) -> Seen:
    """No side uses the id of a request twice in one session."""
    used: set[Any] = set()
    for told in story.said(kind="request"):
        name = (told.sender, identity(told.message["id"]))
        yield told, f"the id {told.message['id']!r} was used before" if name in used else None
        used.add(name)


@lint("JRPC26-05")
def ids_not_outstanding(story: Story) -> Seen:
    """No request has the id of another one that the same side still waits for."""
    for told in story.said(kind="request"):
        earlier = [
            other
            for other in story.said(by=told.sender, kind="request")
            if other.position < told.position
            and identity(other.message["id"]) == identity(told.message["id"])
        ]
        waiting = [
            each
            for each in earlier
            if each.response is None or each.response.position > told.position
        ]
        yield told, f"the id {told.message['id']!r} is still waited for" if waiting else None


@lint("JRPC-08 JRPC26-09")
def result_or_error(story: Story) -> Seen:
    """A response has exactly one of `result` and `error`."""
    for told in story.told:
        if isinstance(told.message, dict) and "method" not in told.message and "id" in told.message:
            both = "result" in told.message, "error" in told.message
            problem = {(True, True): "it has both", (False, False): "it has neither"}.get(both)
            yield told, problem


@lint("JRPC-09 JRPC26-10")
def results_are_objects(story: Story) -> Seen:
    """A `result` is a JSON object."""
    for told in story.said(kind="response"):
        if "result" in told.message:
            yield (
                told,
                None if isinstance(told.result, dict) else f"the result is {_name(told.result)}",
            )


@lint("JRPC-10 JRPC26-12 JRPC26-13 ERR-14")
def error_members(story: Story) -> Seen:
    """An error is an object with an integer `code` and a string `message`."""
    for told in story.said(kind="response"):
        if "error" not in told.message:
            continue
        error = told.message["error"]
        if not isinstance(error, dict):
            yield told, f"the error is {_name(error)}"
        elif not isinstance(error.get("code"), int) or isinstance(error.get("code"), bool):
            yield told, f"the code is {error.get('code')!r}"
        else:
            yield (
                told,
                None
                if isinstance(error.get("message"), str)
                else f"the message is {error.get('message')!r}",
            )


@lint("JRPC-11 JRPC26-15")
def short_error_messages(story: Story) -> Seen:
    """The message of an error is one short sentence (here: one line of at most 500 characters)."""
    for told in story.said(kind="response"):
        error = told.message.get("error")
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            text = error["message"]
            long = len(text) > 500 or "\n" in text.strip()
            yield (
                told,
                f"it has {len(text)} characters in {text.count(chr(10)) + 1} lines"
                if long
                else None,
            )


@lint("JRPC-12 JRPC26-17")
def notifications_without_id(story: Story) -> Seen:
    """What has the method of a notification has no id."""
    for told in story.told:
        if told.method and told.method.startswith("notifications/") and told.kind != "response":
            yield told, f"the id is {told.message['id']!r}" if "id" in told.message else None


@lint("JRPC-14 JRPC26-23")
def params_are_objects(story: Story) -> Seen:
    """`params`, where present, is an object."""
    for told in story.told:
        if told.kind in ("request", "notification") and "params" in told.message:
            params = told.message["params"]
            yield told, None if isinstance(params, dict) else f"params is {_name(params)}"


@lint("JRPC-21")
def reserved_codes(story: Story) -> Seen:
    """Error codes in the reserved block are those of JSON-RPC, or lie between -32099 and -32000."""
    known = {-32700, -32600, -32601, -32602, -32603}
    for told in story.said(kind="response"):
        error = told.message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int):
            fine = code in known or not -32768 <= code < -32099
            yield told, None if fine else f"the code is {code}"


@lint("ERR-03")
def legacy_codes(story: Story) -> Seen:
    """A stateless peer uses no code from -32019 to -32000."""
    for told in story.said(kind="response"):
        error = told.message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if told.stateless and isinstance(code, int):
            yield (
                told,
                f"the code is {code}" if -32019 <= code <= -32000 and code != -32002 else None,
            )


@lint("ERR-05")
def unassigned_codes(story: Story) -> Seen:
    """From -32099 to -32020 a stateless peer uses only the codes that the specification defines."""
    for told in story.said(kind="response"):
        error = told.message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if told.stateless and isinstance(code, int):
            free = -32099 <= code <= -32020 and code not in (-32020, -32021, -32022, -32042)
            yield told, f"the code is {code}" if free else None


@lint("ERR-07 ELIC26-36")
def codes_of_earlier_revisions(story: Story) -> Seen:
    """A stateless answer has neither -32002 nor -32042, which belong to earlier revisions."""
    for told in story.said(kind="response"):
        error = told.message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if told.stateless and isinstance(code, int):
            yield told, f"the code is {code}" if code in (-32002, -32042) else None


@lint("JRPC-22")
def reserved_methods(story: Story) -> Seen:
    """No method begins with `rpc.`."""
    for told in story.told:
        if told.kind in ("request", "notification") and told.method:
            yield told, told.method if told.method.startswith("rpc.") else None


@lint("JRPC-28 JRPC26-20")
def one_response_each(story: Story) -> Seen:
    """No request is answered twice."""
    answered: set[int] = set()
    for told in story.said(kind="response"):
        if told.request is not None:
            again = id(told.request) in answered
            yield (
                told,
                f"the request {told.request.message['id']!r} was answered before"
                if again
                else None,
            )
            answered.add(id(told.request))


@lint("JRPC26-08 JRPC26-11")
def responses_have_a_request(story: Story) -> Seen:
    """A response carries the id of a request that was sent."""
    for told in story.said(kind="response"):
        if told.message.get("id") is not None:
            yield (
                told,
                None if told.request else f"nothing was asked with the id {told.message['id']!r}",
            )


@lint("BATCH-10 JRPC26-21")
def no_batches(story: Story) -> Seen:
    """Messages come one by one: this revision has no arrays of messages."""
    for told in story.told:
        if told.revision is not None:
            yield told, "an array of messages" if told.in_batch else None


@lint("SHUT-01")
def no_invented_shutdown(story: Story) -> Seen:
    """No message ends a session; the transport does."""
    for told in story.told:
        if told.kind in ("request", "notification") and told.method:
            yield (
                told,
                told.method if told.method in ("shutdown", "exit", "notifications/exit") else None,
            )


@lint("STDIO-03 STDIO-04 STDIO-05 STDIO26-01 STDIO26-02 STDIO26-03")
def only_messages_on_the_pipe(story: Story) -> Seen:
    """Each line on the pipe is one JSON-RPC message, and there is nothing else."""
    for entry in story.entries:
        if entry.stream in ("stdin", "stdout") and entry.kind in ("message", "text"):
            if entry.kind == "text" or not entry.raw.strip():
                yield (
                    entry,
                    f"bytes that are no line: {entry.text[:80]!r}"
                    if entry.kind == "text"
                    else None,
                )
            else:
                message = entry.message
                good = isinstance(message, dict) or (isinstance(message, list) and message)
                yield entry, None if good else f"a line that is no message: {entry.text[:80]!r}"


@lint("JRPC-25 JRPC26-22")
def utf8(story: Story) -> Seen:
    """Messages are UTF-8."""
    for entry in story.entries:
        if entry.kind == "message":
            try:
                entry.raw.decode("utf-8")
            except UnicodeDecodeError as error:
                yield entry, f"the byte at {error.start} is not UTF-8"
            else:
                yield entry, None


@lint("JRPC26-18 TRAN26-01 STDIO26-09 HTTP26-30 MRTR-01")
def servers_do_not_ask(story: Story) -> Seen:
    """A stateless server sends no request."""
    for told in story.said(by="server"):
        if told.stateless:
            yield told, f"the request {told.method}" if told.kind == "request" else None


@lint("JRPC26-19 STDIO26-08 HTTP26-11")
def clients_do_not_answer(story: Story) -> Seen:
    """A stateless client sends no response."""
    for told in story.said(by="client"):
        if told.stateless:
            yield told, "a response" if told.kind == "response" else None
