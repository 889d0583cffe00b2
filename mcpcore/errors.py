"""What can go wrong, told by whose fault it is.

A call of this library raises one plain exception, never a group. The tree under `McpError` is the
whole of it: `LocalProtocolError` is yours, `RemoteProtocolError` and `VersionMismatch` are the
peer's, `RequestFailed` is the peer saying no and `HttpError` its HTTP server doing so,
`ConnectionLost` and `RequestTimeout` mean that nobody knows how the call ended. `ToolError` stands
apart: a tool raises it to tell the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class McpError(Exception):
    """The root of every error that mcpcore raises to a caller."""


class LocalProtocolError(McpError):
    """This side asked for something that the protocol forbids; nothing was sent."""


class RemoteProtocolError(McpError):
    """The peer broke the protocol in a way that cannot be passed over.

    `rule` is the id of the broken rule (see `mcpcore.rules`), or None.
    """

    def __init__(self, message: str, rule: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule


class VersionMismatch(McpError):
    """No common revision: `ours` is what this side speaks, `theirs` what the peer named, if it did;
    `reason` says how it is known otherwise.
    """

    def __init__(self, ours: Sequence[str], theirs: Sequence[str], reason: str = "") -> None:
        named = f"the peer speaks {', '.join(theirs) or 'none that it named'}"
        super().__init__(
            f"no common protocol revision: this side speaks {', '.join(ours)}; {reason or named}"
        )
        self.ours = tuple(ours)
        self.theirs = tuple(theirs)


class CapabilityMissing(McpError):
    """The peer did not declare what `method` needs; nothing was sent.

    `capability` is a dotted path in the peer's capabilities, e.g. `resources.subscribe`.
    """

    def __init__(self, capability: str, method: str) -> None:
        super().__init__(
            f"the peer did not declare the capability {capability!r}: {method} needs it"
        )
        self.capability = capability
        self.method = method


class RequestFailed(McpError):
    """A JSON-RPC error. Raised to a caller when the peer answers with one; raised by a handler
    to answer with one.

    `code` is an integer, `message` one short sentence, `data` any JSON value or None.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} (code {self.code})"


class Unanswered(McpError):
    """The server wanted something answered first, and nobody did: `key` is its name for the question,
    `method` what it asked, `reason` why there is no answer. The request was not made again.
    """

    def __init__(self, key: str, method: str, reason: str) -> None:
        super().__init__(f"the server asked {key!r} ({method}), which was not answered: {reason}")
        self.key = key
        self.method = method
        self.reason = reason


class ConnectionLost(McpError):
    """The channel ended: whatever was in flight has an unknown fate.

    `exit_status` is the status of a child process (negative: the signal that ended it), or None
    where there is none; `stderr` is the last of what it wrote there.
    """

    def __init__(self, reason: str, exit_status: int | None = None, stderr: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_status = exit_status
        self.stderr = stderr

    def __str__(self) -> str:
        tail = self.stderr.strip()
        return f"{self.reason}; stderr ended with:\n{tail}" if tail else self.reason

    def again(self) -> ConnectionLost:
        """A fresh exception of the same cause: one instance must not be raised to two callers."""
        return ConnectionLost(self.reason, self.exit_status, self.stderr)


class SessionEnded(ConnectionLost):
    """The server ended the session (or forgot it): it answers what belongs to it with 404.

    `delivered` says whether the server may have begun with the request: False means that it refused it.
    `answer` is the HTTP answer that said so, if the request got one.
    """

    def __init__(self, reason: str, *, delivered: bool, answer: HttpError | None = None) -> None:
        super().__init__(reason)
        self.delivered = delivered
        self.answer = answer

    def again(self) -> SessionEnded:
        return SessionEnded(self.reason, delivered=self.delivered, answer=self.answer)

    def unsent(self) -> SessionEnded:
        """The same, for a request that came too late to be sent."""
        return SessionEnded(self.reason, delivered=False)


class HttpError(McpError):
    """An HTTP answer that is none to the request: a refusal, or something that is not MCP.

    `status` is the HTTP status, `url` where (without secrets), `excerpt` how the body begins, `headers`
    those of the answer by lower-case name.
    """

    def __init__(
        self,
        problem: str,
        *,
        status: int,
        url: str,
        excerpt: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        said = f"; the answer begins: {excerpt}" if excerpt else ""
        super().__init__(f"{url}: {problem}{said}")
        self.status = status
        self.url = url
        self.excerpt = excerpt
        self.headers = dict(headers or {})


class RequestTimeout(McpError):
    """No answer to `method` within `seconds`; the peer was told that nobody waits any more."""

    def __init__(self, method: str, seconds: float, hint: str = "") -> None:
        super().__init__(f"no answer to {method} within {seconds:g} s{hint}")
        self.method = method
        self.seconds = seconds


class ToolError(Exception):
    """Raised by a tool: becomes a result with `isError`, so that the model sees the text."""


class ResourceNotFound(Exception):
    """Raised by the function behind a resource template: there is nothing at this URI.

    The client gets the error that its revision has for it.
    """
