"""Every interleaving of two connected engines, explored until nothing new is found.

Two engines are joined by two queues. A world is the state of all of it; from each world every move
that could come next is tried: to make a call, to deliver a frame, to answer, to report progress, to
cancel, to deliver an answer twice, to lose the channel on either side. Worlds that were seen before
are not entered again, so that the exploration ends. What must hold in every world is checked in
every world; what must hold at the end, wherever no move is left.

The explorer is held to account itself: engines with a race planted on purpose are run through it,
and it has to find each.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from pair import ConnectionPair

from mcpcore.jsonrpc import ErrorObject
from mcpcore.protocol import (
    Cancel,
    Connection,
    ErrorResponse,
    Progress,
    Request,
    RequestId,
    Response,
    Sendable,
    Stale,
    State,
)
from mcpcore.protocol.agreement import Agreement
from mcpcore.protocol.gate import Gate
from mcpcore.protocol.lifecycle import Role

SIDES: tuple[Role, Role] = ("client", "server")
OTHER: dict[Role, Role] = {"client": "server", "server": "client"}
FIRST = 1
"""The id of a side's first call: the one that is reported on and cancelled."""
TOKEN = "t"
Move = Callable[["World", Role], None]


class Violation(AssertionError):
    """What may never happen happened; the moves that led there stand in the message."""


class Plan(NamedTuple):
    """What may happen at most, in any order. Sides are named where it matters whose call it is."""

    calls: tuple[Role, ...] = ("client", "client", "server", "server")
    cancels: tuple[Role, ...] = ("client",)
    """Who may cancel its first call, once for each time it is named."""
    progress: int = 1
    """How many times the server may report on the client's first call."""
    duplicates: int = 1
    """How many answers may be delivered twice."""
    loss: bool = True


def cloned(value: Any) -> Any:
    """A copy of an engine, as deep as it can change: its calls, and the state in its agreement."""
    twin = object.__new__(type(value))
    twin.__dict__.update(vars(value))
    for name, one in vars(value).items():
        if type(one) is dict:
            twin.__dict__[name] = {key: copy.copy(call) for key, call in one.items()}
        elif type(one) is Agreement:
            twin.__dict__[name] = cloned(one)
    return twin


class World:
    """The two engines, the frames between them, and what the programs around them know."""

    def __init__(self, plan: Plan, client: Connection, server: Connection) -> None:
        self.engine: dict[Role, Connection] = {"client": client, "server": server}
        self.queue: dict[Role, tuple[bytes, ...]] = {"client": (), "server": ()}
        """Frames on their way, by who wrote them."""
        self.calls = plan.calls
        self.cancels = plan.cancels
        self.progress = plan.progress
        self.duplicates = plan.duplicates
        self.may_lose = plan.loss
        self.asked: dict[Role, int] = {"client": 0, "server": 0}
        self.outcome: dict[Role, dict[RequestId, str]] = {"client": {}, "server": {}}
        """How the calls of a side ended."""
        self.handling: dict[Role, frozenset[RequestId]] = {
            "client": frozenset(),
            "server": frozenset(),
        }
        """The requests that a side was given and did not answer."""
        self.told: dict[Role, frozenset[RequestId]] = {
            "client": frozenset(),
            "server": frozenset(),
        }
        """Those of them that it was told were cancelled."""
        self.ended: dict[Role, bool] = {"client": False, "server": False}

        self.shown: dict[Role, str] = {}
        for side in SIDES:
            self.show(side)

    def show(self, side: Role) -> None:
        """Note what an engine remembers, as a part of the key."""
        engine = self.engine[side]
        calls = [value for value in vars(engine).values() if type(value) is dict]
        self.shown[side] = f"{engine.state!r} {calls!r}"

    def fork(self, side: Role) -> World:
        """A world that goes its own way, by a move of `side`: only that side's engine is copied."""
        world = object.__new__(World)
        for name, value in vars(self).items():
            world.__dict__[name] = dict(value) if isinstance(value, dict) else value
        world.outcome[side] = dict(self.outcome[side])
        world.engine[side] = cloned(self.engine[side])
        return world

    def key(self) -> tuple[Any, ...]:
        """Two worlds with the same key have the same future."""
        return (
            *self.shown.values(),
            *self.queue.values(),
            self.calls,
            self.cancels,
            self.progress,
            self.duplicates,
            *self.asked.values(),
            *(frozenset(self.outcome[side].items()) for side in SIDES),
            *self.handling.values(),
            *self.told.values(),
            *self.ended.values(),
        )

    # What the engines are made to do.

    def say(self, side: Role, event: Sendable) -> bytes | None:
        data = self.engine[side].send(event)
        if data is not None and not self.ended[OTHER[side]]:
            self.queue[side] += (data,)
        return data

    def end(self, side: Role, id: RequestId, how: str) -> None:
        if id in self.outcome[side]:
            raise Violation(f"call {id} of the {side}: {self.outcome[side][id]}, then {how}")
        if not 1 <= int(id) <= self.asked[side]:
            raise Violation(f"call {id} of the {side} was never made and is {how}")
        self.outcome[side][id] = how

    def take(self, side: Role, frame: bytes) -> None:
        """Let `side` receive a frame, and note what its program would."""
        before = self.engine[side].in_flight
        for event in self.engine[side].receive(frame):
            if isinstance(event, Request):
                self.handling[side] |= {event.id}
            elif isinstance(event, Cancel):
                if event.id not in self.handling[side]:
                    raise Violation(f"the {side} is to cancel {event.id}, which it does not handle")
                self.told[side] |= {event.id}
            elif isinstance(event, Response | ErrorResponse):
                assert event.id is not None
                self.end(side, event.id, "answered" if isinstance(event, Response) else "failed")
            elif isinstance(event, Progress):
                if event.id not in before:
                    raise Violation(f"progress of {event.id} after its end")
            elif not isinstance(event, Stale):
                raise Violation(f"the {side} was told {event!r}")

    # The moves.

    def moves(self) -> Iterator[tuple[Role, str, Move]]:
        """Everything that could happen next: whose engine it moves, its name, and what to do."""
        for side in SIDES:
            if self.ended[side]:
                continue
            other = OTHER[side]
            if side in self.calls:
                yield side, f"{side} calls", World.call
            for id in sorted(self.handling[side]):
                yield side, f"{side} answers {id}", functools.partial(World.answer, id=id)
            if side in self.cancels and self.asked[side]:
                yield side, f"{side} cancels", World.cancel
            if self.queue[other]:
                yield side, f"{side} reads", World.read
                if self.duplicates and b'"method"' not in self.queue[other][0]:
                    yield side, f"{side} reads what comes again", World.read_once_of_twice
            elif self.ended[other]:
                yield side, f"{side} finds the end", World.find_end
            if self.may_lose and not self.ended[other]:
                yield side, f"{side} is lost", World.lose
        if self.progress and FIRST in self.handling["server"] and not self.ended["server"]:
            yield "server", "server reports", World.report

    def call(self, side: Role) -> None:
        calls = list(self.calls)
        calls.remove(side)
        self.calls = tuple(calls)
        self.asked[side] += 1
        id = self.asked[side]
        params = {"_meta": {"progressToken": TOKEN}} if id == FIRST else {}
        if self.say(side, Request(id, "ping", params)) is None:
            raise Violation(f"the call {id} of the {side} was not written")

    def answer(self, side: Role, id: RequestId) -> None:
        self.handling[side] -= {id}
        answer: Any = Response(id, {}) if id == FIRST else ErrorResponse(id, ErrorObject(5, "no"))
        data = self.say(side, answer)
        if data is not None and id in self.told[side]:
            raise Violation(f"the {side} answered {id}, which it knew was cancelled")
        if data is None and id not in self.told[side]:
            raise Violation(f"the {side} did not answer {id}")

    def cancel(self, side: Role) -> None:
        cancels = list(self.cancels)
        cancels.remove(side)
        self.cancels = tuple(cancels)
        over = FIRST in self.outcome[side]
        if self.say(side, Cancel(FIRST)) is None:
            if not over:
                raise Violation(f"the {side} could not cancel what is open")
        else:
            self.end(side, FIRST, "cancelled")

    def report(self, side: Role) -> None:
        data = self.say(side, Progress(TOKEN, float(10 - self.progress)))
        self.progress -= 1
        if (data is None) is not (FIRST in self.told[side]):
            raise Violation("progress goes to a call that is open, and to no other")

    def read(self, side: Role) -> None:
        frame, *rest = self.queue[OTHER[side]]
        self.queue[OTHER[side]] = tuple(rest)
        self.take(side, frame)

    def read_once_of_twice(self, side: Role) -> None:
        """Read an answer that the channel delivers again, behind everything that is on its way."""
        self.duplicates -= 1
        self.queue[OTHER[side]] += self.queue[OTHER[side]][:1]
        self.read(side)

    def find_end(self, side: Role) -> None:
        """The other side is gone, and all that it wrote was read."""
        self.lose(side)

    def lose(self, side: Role) -> None:
        """The channel ends for `side`: what was on its way to it is gone, what it wrote is not."""
        for id in self.engine[side].lost():
            self.end(side, id, "lost")
        self.ended[side] = True
        self.queue[OTHER[side]] = ()
        for id in self.handling[side]:
            if self.engine[side].send(Response(id, {})) is not None:
                raise Violation(f"the {side} answered {id} after the end")
        self.handling[side] = frozenset()

    # What must hold.

    def check(self, side: Role) -> None:
        """In every world: a call that did not end is in flight, and the other way round."""
        expected = set(range(1, self.asked[side] + 1)) - set(self.outcome[side])
        if set(self.engine[side].in_flight) != expected:
            found = self.engine[side].in_flight
            raise Violation(f"in flight at the {side}: {found}, not {expected}")

    def check_end(self) -> None:
        """Where no move is left: every call has ended, and nobody remembers any."""
        for side in SIDES:
            if set(self.outcome[side]) != set(range(1, self.asked[side] + 1)):
                raise Violation(f"the calls of the {side} ended as {self.outcome[side]}")
            if self.engine[side].in_flight:
                raise Violation(f"the {side} still waits for {self.engine[side].in_flight}")
            if self.engine[side]._incoming:
                raise Violation(f"the {side} still remembers {self.engine[side]._incoming}")
            if self.calls and not any(self.ended.values()):
                raise Violation(f"the calls {self.calls} were never made")


class Explored(NamedTuple):
    worlds: int
    ends: int
    outcomes: set[str]
    """Every outcome that was seen, as side, id and how."""


def ready_engines(make: Callable[[Role], Connection]) -> tuple[Connection, Connection]:
    pair = ConnectionPair(make("client"), make("server"))
    pair.handshake()
    return pair.client, pair.server


def explore(plan: Plan, make: Callable[[Role], Connection] = Connection) -> Explored:
    """Enter every world that can be reached. Raises `Violation` at the first that may not be."""
    first = World(plan, *ready_engines(make))
    seen = {first.key()}
    waiting: list[tuple[World, tuple[str, ...]]] = [(first, ())]
    ends = 0
    outcomes: set[str] = set()
    while waiting:
        world, path = waiting.pop()
        moved = False
        for side, name, move in world.moves():
            # A channel can always be lost; where nothing else is left, all must be over before.
            moved = moved or move is not World.lose
            after = world.fork(side)
            try:
                move(after, side)
                after.check(side)
            except Violation as violation:
                raise Violation(f"{violation}; after {', '.join((*path, name))}") from None
            after.show(side)
            key = after.key()
            if key not in seen:
                seen.add(key)
                waiting.append((after, (*path, name)))
        if not moved:
            ends += 1
            try:
                world.check_end()
            except Violation as violation:
                raise Violation(f"{violation}; after {', '.join(path)}") from None
            for side in SIDES:
                outcomes |= {f"{side} {id} {how}" for id, how in world.outcome[side].items()}
    return Explored(len(seen), ends, outcomes)


def test_the_copies_of_an_engine_share_nothing_that_changes() -> None:
    """What the explorer rests on; a new kind of member has to be looked at here."""
    # A gate remembers only what it would decide again.
    constant = (str, int, tuple, State, Gate, type(None))
    for engine in ready_engines(Connection):
        twin = cloned(engine)
        for one, other in ((engine, twin), (engine._agreement, twin._agreement)):
            for name, value in vars(one).items():
                frozen = isinstance(value, msgspec.Struct) and value.__struct_config__.frozen
                if not frozen and not isinstance(value, constant):
                    assert isinstance(value, dict | Agreement), name
                    assert vars(other)[name] is not value, name


# The engine.

EVERYTHING = Plan()
BOTH_CANCEL = Plan(calls=("client", "server"), cancels=("client", "client", "server", "server"))


def test_every_call_ends_in_exactly_one_outcome_whatever_crosses_what() -> None:
    """Two calls a side, one cancelled, progress, an answer delivered twice, the channel lost."""
    explored = explore(EVERYTHING)
    assert explored.outcomes == {
        f"{side} {id} {how}"
        for side, id, how in [
            ("client", 1, "answered"),
            ("client", 1, "cancelled"),
            ("client", 1, "lost"),
            ("client", 2, "failed"),
            ("client", 2, "lost"),
            ("server", 1, "answered"),
            ("server", 1, "lost"),
            ("server", 2, "failed"),
            ("server", 2, "lost"),
        ]
    }
    # Far fewer would mean that the exploration does not do what it says.
    assert explored.worlds > 10_000
    assert explored.ends > 100


def test_cancelling_from_both_sides_and_twice() -> None:
    explored = explore(BOTH_CANCEL)
    for outcome in ("answered", "cancelled", "lost"):
        assert f"client 1 {outcome}" in explored.outcomes
        assert f"server 1 {outcome}" in explored.outcomes


# Engines with a race. Each is right as long as nothing crosses on the wire.


class AnswersTheCancelled(Connection):
    """Hears a cancellation and forgets it."""

    def receive(self, frame: Any) -> list[Any]:
        events = super().receive(frame)
        for event in events:
            if isinstance(event, Cancel):
                self._incoming[event.id].cancelled = False
        return events


class KeepsTheCancelled(Connection):
    """Cancels a call and goes on waiting for it."""

    def send(self, event: Any) -> bytes | None:
        call = self._outgoing.get(event.id) if isinstance(event, Cancel) else None
        data = super().send(event)
        if call is not None:
            self._outgoing[event.id] = call
        return data


class RemembersWhatItDidNotAnswer(Connection):
    """Is told that a request is cancelled, and keeps it for ever."""

    def send(self, event: Any) -> bytes | None:
        call = self._incoming.get(event.id) if isinstance(event, Response) else None
        return None if call is not None and call.cancelled else super().send(event)


class TakesAnAnswerTwice(Connection):
    """Takes whatever looks like an answer for one."""

    def receive(self, frame: Any) -> list[Any]:
        events = super().receive(frame)
        return [
            Response(event.id, {}) if isinstance(event, Stale) and "answer" in event.what else event
            for event in events
        ]


class LosesOnlyTheLatest(Connection):
    """Tells one caller of the end of the channel, and not the others."""

    def lost(self) -> tuple[RequestId, ...]:
        return super().lost()[-1:]


class ReportsOnTheCancelled(Connection):
    """Goes on reporting after a cancellation."""

    def send(self, event: Any) -> bytes | None:
        if not isinstance(event, Progress):
            return super().send(event)
        calls = list(self._incoming.values())
        marks = [call.cancelled for call in calls]
        for call in calls:
            call.cancelled = False
        data = super().send(event)
        for call, mark in zip(calls, marks, strict=True):
            call.cancelled = mark
        return data


class CancelsWhatIsOver(Connection):
    """Obeys a cancellation that crossed the answer."""

    def receive(self, frame: Any) -> list[Any]:
        return [
            Cancel(event.id)
            if isinstance(event, Stale) and "cancellation" in event.what and event.id is not None
            else event
            for event in super().receive(frame)
        ]


class PassesOnLateProgress(Connection):
    """Gives progress to whoever has the token, open or not."""

    def receive(self, frame: Any) -> list[Any]:
        return [
            Progress(TOKEN, 1.0, id=FIRST)
            if isinstance(event, Stale) and "progress" in event.what
            else event
            for event in super().receive(frame)
        ]


@pytest.mark.parametrize(
    ("planted", "symptom"),
    [
        (AnswersTheCancelled, "which it knew was cancelled"),
        (KeepsTheCancelled, "in flight"),
        (RemembersWhatItDidNotAnswer, "still remembers"),
        (TakesAnAnswerTwice, "then answered"),
        (LosesOnlyTheLatest, "in flight|ended as"),
        (ReportsOnTheCancelled, "progress goes to a call that is open"),
        (CancelsWhatIsOver, "which it does not handle"),
        (PassesOnLateProgress, "after its end"),
    ],
)
def test_a_race_that_was_planted_is_found(planted: type[Connection], symptom: str) -> None:
    with pytest.raises(Violation, match=symptom):
        explore(EVERYTHING, planted)


@pytest.mark.parametrize(
    "planted",
    [AnswersTheCancelled, KeepsTheCancelled, TakesAnAnswerTwice, CancelsWhatIsOver],
)
def test_without_the_move_that_it_needs_the_race_does_not_show(planted: type[Connection]) -> None:
    """So the explorer finds the race itself, and not the mere difference."""
    quiet = Plan(calls=("client", "server"), cancels=(), progress=1, duplicates=0)
    assert explore(quiet, planted).ends > 0
