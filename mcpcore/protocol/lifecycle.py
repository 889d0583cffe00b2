"""The life of a connection in the handshake era, as two tables.

A session opens with three messages: the client's `initialize`, the server's answer, the client's
`notifications/initialized`. `MOVES` says which message moves the state, `ALLOWED` who may send what
in which state. Both know "client" and "server", never "us" and "them", so that each side holds
itself to the rules it holds the other to. There is no message that ends a session: the end of the
channel does, from any state.
"""

from __future__ import annotations

import enum
from typing import Literal

from mcpcore.revisions import Role


class State(enum.Enum):
    FRESH = "fresh"
    """Nothing was said yet."""
    OFFERED = "offered"
    """The client sent initialize; the server has not answered."""
    AGREED = "agreed"
    """The server answered; the client has not said initialized."""
    READY = "ready"
    """The session is open."""
    CLOSED = "closed"
    """The channel ended."""

    def __repr__(self) -> str:
        return self.name


Step = Literal["initialize", "initialize answered", "initialize refused", "initialized"]

MOVES: dict[State, dict[tuple[Role, Step], State]] = {
    State.FRESH: {("client", "initialize"): State.OFFERED},
    State.OFFERED: {
        ("server", "initialize answered"): State.AGREED,
        ("server", "initialize refused"): State.FRESH,
    },
    State.AGREED: {("client", "initialized"): State.READY},
    State.READY: {},
    State.CLOSED: {},
}

ANYTHING = frozenset({"*"})
_OPENING = frozenset({"initialize", "ping", "server/discover"})
_PING = frozenset({"ping", "notifications/cancelled", "notifications/progress"})
_PING_AND_LOG = _PING | {"notifications/message"}
_NOTHING: frozenset[str] = frozenset()

# To discover the server is how a client finds out whether there has to be a handshake at all.
# Before its answer a client may only ping (LIFE-06), and a server until it hears initialized may
# only ping and log (LIFE-07). Between the answer and initialized the letter allows the client
# everything; ours waits, and a server serves such requests but counts them (LIFE-05).
ALLOWED: dict[State, dict[Role, frozenset[str]]] = {
    State.FRESH: {"client": _OPENING, "server": _NOTHING},
    State.OFFERED: {"client": _PING, "server": _PING_AND_LOG},
    State.AGREED: {"client": _PING | {"notifications/initialized"}, "server": _PING_AND_LOG},
    State.READY: {"client": ANYTHING, "server": ANYTHING},
    State.CLOSED: {"client": _NOTHING, "server": _NOTHING},
}


def allows(state: State, sender: Role, method: str) -> bool:
    """Whether `sender` may send `method` in `state`."""
    allowed = ALLOWED[state][sender]
    return allowed is ANYTHING or method in allowed


def move(state: State, sender: Role, step: Step) -> State | None:
    """The state after `step`, or None where the step does not belong."""
    return MOVES[state].get((sender, step))
