"""What a check can come to, and how a check says so.

A check that returns has passed. It ends otherwise by raising ``Broken`` (the peer did what the rule
forbids), ``NotApplicable`` (the rule asks nothing of this peer) or ``Unreachable`` (what had to come
first did not work, which is a failure: the rule could not be judged).
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .transcript import Entry


class Verdict(StrEnum):
    """From best to worst, so that the worst of several is what a rule gets."""

    NOT_APPLICABLE = "not applicable"
    PASSED = "pass"
    WARNING = "warn"
    UNREACHABLE = "unreachable"
    FAILED = "fail"

    @property
    def rank(self) -> int:
        """How bad it is; the order of the members."""
        return list(Verdict).index(self)

    @property
    def bad(self) -> bool:
        """Whether the peer under test is to be called non-conformant for it."""
        return self in (Verdict.UNREACHABLE, Verdict.FAILED)


class Ended(Exception):
    """A check has come to its end before its last line."""


class Broken(Ended):
    """The peer broke a rule.

    ``rules`` names which of the check's rules; empty means each of them. ``soft`` makes it a warning
    even if the rule binds: the finding rests on a choice of the suite, such as a time limit.
    """

    def __init__(
        self, expected: str, got: Any, *, rules: str = "", sent: Any = None, soft: bool = False
    ) -> None:
        self.expected, self.got, self.sent, self.soft = expected, got, sent, soft
        self.rules = tuple(rules.split())
        super().__init__(f"expected {expected}; got {brief(got)}")


class NotApplicable(Ended):
    """The rule asks nothing of this peer: it did not declare the feature, or has nothing of the kind."""


class Unreachable(Ended):
    """What had to work before the rule could be judged did not work."""


def expect(
    holds: object, expected: str, got: Any, *, rules: str = "", sent: Any = None, soft: bool = False
) -> None:
    """Raise ``Broken`` unless ``holds``."""
    if not holds:
        raise Broken(expected, got, rules=rules, sent=sent, soft=soft)


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of one check on one rule, in one revision, with the wire as its proof."""

    rule: str
    check: str
    revision: str
    verdict: Verdict
    sent: str = ""
    expected: str = ""
    got: str = ""
    entries: tuple[Entry, ...] = field(default=(), repr=False)


def brief(value: Any, limit: int = 300) -> str:
    """A value as one line that a person can read, cut after ``limit`` characters."""
    text = value if isinstance(value, str) else _plain(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _plain(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)
