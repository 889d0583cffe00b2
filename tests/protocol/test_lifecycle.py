"""The two tables of the session's life, every cell of them."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from mcpcore.protocol.lifecycle import ALLOWED, MOVES, Role, State, Step, allows, move

STATES = tuple(State)
ROLES: tuple[Role, ...] = get_args(Role)
STEPS: tuple[Step, ...] = get_args(Step)

LEGAL_MOVES = {
    (State.FRESH, "client", "initialize"): State.OFFERED,
    (State.OFFERED, "server", "initialize answered"): State.AGREED,
    (State.OFFERED, "server", "initialize refused"): State.FRESH,
    (State.AGREED, "client", "initialized"): State.READY,
}

UTILITIES = {"ping", "notifications/cancelled", "notifications/progress"}
LEGAL_MESSAGES = {
    (State.FRESH, "client"): {"initialize", "ping"},
    (State.FRESH, "server"): set(),
    (State.OFFERED, "client"): UTILITIES,
    (State.OFFERED, "server"): UTILITIES | {"notifications/message"},
    (State.AGREED, "client"): UTILITIES | {"notifications/initialized"},
    (State.AGREED, "server"): UTILITIES | {"notifications/message"},
    (State.CLOSED, "client"): set(),
    (State.CLOSED, "server"): set(),
}
METHODS = UTILITIES | {
    "initialize",
    "notifications/initialized",
    "notifications/message",
    "tools/list",
    "roots/list",
    "*",
    "",
}


@pytest.mark.parametrize("state", STATES)
def test_every_step_in_every_state_moves_as_the_table_says_or_not_at_all(state: State) -> None:
    for role, step in product(ROLES, STEPS):
        assert move(state, role, step) is LEGAL_MOVES.get((state, role, step)), (role, step)


@pytest.mark.parametrize("state", STATES)
def test_every_method_in_every_state_is_allowed_or_refused(state: State) -> None:
    """LIFE-01, LIFE-05, LIFE-06, LIFE-07, LIFE-11."""
    for role, method in product(ROLES, METHODS):
        legal = state is State.READY or method in LEGAL_MESSAGES[state, role]
        assert allows(state, role, method) is legal, (role, method)


def test_the_tables_know_every_state() -> None:
    assert set(MOVES) == set(ALLOWED) == set(State)


def test_every_state_but_the_end_is_reached_and_left() -> None:
    reached = {State.FRESH}
    for _ in STATES:
        reached |= {new for old in reached for new in MOVES[old].values()}
    assert reached == set(State) - {State.CLOSED}
    assert not MOVES[State.CLOSED]


def test_a_state_shows_its_name() -> None:
    assert repr(State.READY) == "READY"
