"""One request to the peer and everything that came because of it."""

from typing import Any

import trio

from ..wire.events import Event


class Exchange:
    """A request that was sent. ``response`` is the message that answered it, once ``answered`` is set.

    ``notes`` are the notifications and ``asked`` the peer's own requests that came meanwhile (over HTTP: on
    the stream of this request). Over HTTP there are also ``status``, ``headers``, ``media_type``, the
    ``events`` of an event stream, the ``body`` of anything else and ``refusal``, why no answer came;
    ``ended`` is set when the stream is over.
    """

    def __init__(self, sent: Any, identity: Any) -> None:
        self.sent = sent
        self.id = identity
        self.response: dict[str, Any] | None = None
        self.extra: list[dict[str, Any]] = []
        self.notes: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.answered = trio.Event()
        self.ended = trio.Event()
        self.headed = trio.Event()
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.media_type = ""
        self.events: list[Event] = []
        self.body = b""
        self.refusal: str | None = None
        self.scope = trio.CancelScope()
        self.stream = ""

    def take(self, response: dict[str, Any]) -> None:
        """Keep an answer; a second one goes to ``extra``."""
        if self.response is None:
            self.response = response
            self.answered.set()
        else:
            self.extra.append(response)

    def cut(self) -> None:
        """Drop the connection that this request travels on (HTTP)."""
        self.scope.cancel()

    @property
    def result(self) -> Any:
        """The ``result`` of the answer, or None."""
        return (self.response or {}).get("result")

    @property
    def error(self) -> dict[str, Any]:
        """The ``error`` of the answer, or an empty object."""
        error = (self.response or {}).get("error")
        return error if isinstance(error, dict) else {}

    @property
    def code(self) -> Any:
        """The code of the error, or None."""
        return self.error.get("code")
