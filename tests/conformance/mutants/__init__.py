"""For each check a server that is broken in just that point; a test demands that none is missing.

Most are made of these few ways to change what is said.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from mutant_peers import Change, Message

from mcpcore.transport.http import Answer, HttpRequest

META = "io.modelcontextprotocol/"


def named(methods: str) -> Callable[[str], bool]:
    """Whether a method is one of these, separated by spaces; none means any."""
    wanted = methods.split()
    return lambda method: not wanted or method in wanted


def result(methods: str, change: Callable[[Any], Any]) -> Change:
    """Results of these methods are changed, in place or by what is returned."""
    fits = named(methods)

    def says(message: Message, method: str) -> Message:
        if fits(method) and isinstance(message.get("result"), dict):
            changed = change(message["result"])
            if changed is not None:
                message["result"] = changed
        return message

    return says


def error(methods: str, replacement: dict[str, Any]) -> Change:
    """Errors of these methods give way to other members of a response: `{"result": {}}`."""
    fits = named(methods)

    def says(message: Message, method: str) -> Message:
        if fits(method) and "error" in message:
            return {"jsonrpc": "2.0", "id": message.get("id"), **replacement}
        return message

    return says


def code(methods: str, number: int) -> Change:
    """Errors of these methods have another code."""
    return error(methods, {"error": {"code": number, "message": "broken"}})


def refused(methods: str, number: int = -32603) -> Change:
    """Results of these methods give way to an error."""
    fits = named(methods)

    def says(message: Message, method: str) -> Message:
        if fits(method) and "result" in message:
            return {
                "jsonrpc": "2.0",
                "id": message["id"],
                "error": {"code": number, "message": "broken"},
            }
        return message

    return says


def unanswered(methods: str) -> Change:
    """Requests of these methods get no answer."""
    fits = named(methods)
    return lambda message, method: (
        None if fits(method) and "id" in message and "method" not in message else message
    )


def note(method: str, change: Callable[[Message], Any]) -> Change:
    """Notifications of one method are changed."""

    def says(message: Message, name: str) -> Any:
        return change(message) if name == method and "id" not in message else message

    return says


def heard(methods: str, change: Callable[[Message], Any]) -> Change:
    """Requests and notifications of these methods reach the server changed."""
    fits = named(methods)
    return lambda message, method: change(message) if fits(method) else message


def put(name: str, value: Any) -> Callable[[Any], None]:
    """Sets a member."""

    def change(holder: dict[str, Any]) -> None:
        holder[name] = value

    return change


def drop(name: str) -> Callable[[Any], None]:
    """Removes a member."""

    def change(holder: dict[str, Any]) -> None:
        holder.pop(name, None)

    return change


def with_status(
    status: int, when: Callable[[HttpRequest, Answer], bool] = lambda request, answer: True
) -> Any:
    """Answers over HTTP have another status."""
    return lambda request, answer: (
        msgspec.structs.replace(answer, status=status) if when(request, answer) else answer
    )


def plain(status: int, text: str = "broken") -> Answer:
    """An answer that is no JSON-RPC."""
    return Answer(status, (("Content-Type", "text/plain"),), text.encode())
