"""Functions that ask a client which cannot be asked: they run once for each round of questions.

A request of the stateless era ends with the questions, as the answer to it, and is made again with the
answers. So a function that asks is run from the top each time, with the answers so far at hand, until it
asks nothing new. It need not know: where it comes to a question without an answer, its scope is
cancelled, and it unwinds like any cancelled function, its nurseries and `finally` blocks included. Other
tasks of it that come to a question in the same turn of the loop are asked along.

An answer counts only for the very question that it was given to: a question that reads differently the
next time is asked anew.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
import trio

from mcpcore import types as t
from mcpcore.errors import LocalProtocolError, RequestFailed
from mcpcore.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcpcore.revisions import MISSING_CLIENT_CAPABILITY
from mcpcore.server.sealing import BadState, Binding, Entry, Record, States, digest

logger = logging.getLogger("mcpcore.server")

R = TypeVar("R", bound=t.Result)


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of `inputRequests`: a request without its envelope."""

    method: str
    params: Any = None


def as_question(value: Any) -> Question:
    """One of `inputRequests` as a function gives it."""
    return value if isinstance(value, Question) else msgspec.convert(value, Question)


def can_be_asked(capabilities: t.ClientCapabilities, question: str) -> bool:
    """Whether a client declared what a question needs. Raises ValueError for a question that there is not."""
    elicitation, sampling = capabilities.elicitation, capabilities.sampling
    answers = {
        "elicitation.form": elicitation is not None and elicitation.forms,
        "elicitation.url": elicitation is not None and elicitation.url is not None,
        "sampling": sampling is not None,
        "sampling.tools": sampling is not None and sampling.tools is not None,
        "sampling.context": sampling is not None and sampling.context is not None,
        "roots": capabilities.roots is not None,
    }
    if question not in answers:
        raise ValueError(f"{question!r} is no question; there are {', '.join(answers)}")
    return answers[question]


def needed(question: Question) -> str:
    """The capability that a question needs. Raises ValueError for what is no question (MRTR-07)."""
    params = question.params if isinstance(question.params, dict) else {}
    if question.method == "elicitation/create":
        return "elicitation.url" if params.get("mode") == "url" else "elicitation.form"
    if question.method == "sampling/createMessage":
        return "sampling.tools" if "tools" in params else "sampling"
    if question.method == "roots/list":
        return "roots"
    raise ValueError(f"{question.method} is no question")


def missing_capability(*path: str) -> RequestFailed:
    """The stateless era's error for what a client did not declare, and cannot be done without (META26-10)."""
    needs: dict[str, Any] = {}
    for member in reversed(path):
        needs = {member: needs}
    return RequestFailed(
        MISSING_CLIENT_CAPABILITY,
        f"Missing client capability: {'.'.join(path)}",
        {"requiredCapabilities": needs},
    )


class Round:
    """One run of a function: what it may find answered, and what it finds missing."""

    def __init__(
        self,
        number: int = 1,
        *,
        entries: Mapping[str, Entry] | None = None,
        answers: Mapping[str, Any] | None = None,
        state: str | None = None,
    ) -> None:
        self.number = number
        self.entries: dict[str, Entry] = dict(entries or {})
        """What is known, by key."""
        self.answers: Mapping[str, Any] = answers or {}
        """The answers to what was asked last, as they came."""
        self._unasked = number == 1
        self.state = state
        """What a function that deals with rounds by hand gave with its last questions."""
        self.pending: dict[str, tuple[str, Question]] = {}
        self._scope = trio.CancelScope()

    @classmethod
    def after(cls, record: Record, answers: Mapping[str, Any]) -> Round:
        """The round after the one that `record` is of. Answers to what was not asked are passed over
        (MRTR-26).
        """
        given = {key: value for key, value in answers.items() if key in record.asked}
        entries = dict(record.entries)
        entries.update((key, Entry(record.asked[key], value)) for key, value in given.items())
        return cls(record.round + 1, entries=entries, answers=given, state=record.state)

    def known(self, key: str, asked: str) -> Entry | None:
        """What is known under `key`, if that is what was `asked`.

        Answers that come without a state, for nobody knows which question, count for the first of their key:
        a client that says so says it for itself.
        """
        entry = self.entries.get(key)
        if entry is None and self._unasked and key in self.answers:
            entry = self.entries[key] = Entry(asked, self.answers[key])
        return entry if entry is not None and entry.digest == asked else None

    def forget(self, key: str) -> None:
        """The answer is of no use."""
        self.entries.pop(key, None)
        self.answers = {name: value for name, value in self.answers.items() if name != key}

    async def ask(self, key: str, asked: str, question: Question) -> None:
        """Note a question, and never come back: the run is over."""
        before = self.pending.setdefault(key, (asked, question))
        if before[0] != asked:
            raise LocalProtocolError(f"two different questions under the key {key!r}")
        self._scope.cancel()
        if trio.current_effective_deadline() != float("-inf"):
            raise LocalProtocolError(
                f"the question {key!r} is asked under a shield; the run could not be ended there"
            )
        await trio.sleep_forever()

    async def run(self, function: Callable[[], Awaitable[R]]) -> R | None:
        """Run the function; None if it came to a question."""
        result: R | None = None
        with self._scope:
            result = await function()
        if self.pending and not self._scope.cancelled_caught:
            # It caught the cancellation: what it gives was made without the answers.
            logger.error("a function went on after a question that has no answer: %s", self.pending)
            raise RequestFailed(INTERNAL_ERROR, "Internal error")
        return result


class Rounds:
    """The rounds of a server's requests."""

    def __init__(self, states: States) -> None:
        self._states = states
        self.max_rounds = states.options.max_rounds

    async def begin(
        self, binding: Binding, state: str | None, responses: Mapping[str, Any] | None
    ) -> Round:
        """The round that a request opens. Raises `RequestFailed` for a state that does not hold."""
        if state is None:
            return Round(answers=responses)
        try:
            record = await self._states.open(state, binding)
        except BadState as error:
            logger.warning("a requestState was refused: %s", error)
            raise RequestFailed(
                INVALID_PARAMS, "Invalid params: requestState does not hold (any more)"
            ) from None
        return Round.after(record, responses or {})

    async def run(
        self,
        binding: Binding,
        round: Round,
        function: Callable[[], Awaitable[R]],
        capabilities: t.ClientCapabilities,
    ) -> R | t.InputRequiredResult:
        """Run the function of a round: its result, or what it asks of a client that can do so much."""
        result = await round.run(function)
        if isinstance(result, t.InputRequiredResult):
            return await self._by_hand(binding, round, result, capabilities)
        if result is not None:
            return result
        asked = {key: asked for key, (asked, _) in round.pending.items()}
        questions = {key: question for key, (_, question) in round.pending.items()}
        return await self._close(binding, round, questions, asked, None)

    async def _by_hand(
        self,
        binding: Binding,
        round: Round,
        result: t.InputRequiredResult,
        capabilities: t.ClientCapabilities,
    ) -> t.InputRequiredResult:
        questions = result.input_requests or {}
        for value in questions.values():
            question = needed(as_question(value))
            if not can_be_asked(capabilities, question):
                raise missing_capability(*question.split("."))
        asked = {key: digest(question) for key, question in questions.items()}
        return await self._close(binding, round, questions, asked, result.request_state)

    async def _close(
        self,
        binding: Binding,
        round: Round,
        questions: Mapping[str, Any],
        asked: dict[str, str],
        state: str | None,
    ) -> t.InputRequiredResult:
        if round.number > self.max_rounds:
            raise RequestFailed(INTERNAL_ERROR, f"Internal error: asked {round.number} times")
        record = Record(binding, self._states.expiry(), round.number, round.entries, asked, state)
        try:
            sealed = await self._states.close(record)
        except (ValueError, TypeError):
            logger.exception("%s cannot be asked for", binding.target)
            raise RequestFailed(INTERNAL_ERROR, "Internal error") from None
        return t.InputRequiredResult(
            result_type="input_required",
            input_requests=dict(questions) or None,
            request_state=sealed,
        )
