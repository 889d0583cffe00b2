"""What a client let pass: nothing is forgiven silently."""

from __future__ import annotations

import logging
from collections import Counter, deque

from mcpcore.protocol.events import Forgiven
from mcpcore.rules import RULES

logger = logging.getLogger("mcpcore.client")

KEPT = 100
"""How many deviations are kept in detail; the counts go on."""


class ForgivenReport:
    """The deviations of a peer from the protocol.

    `counts` says how often each rule was broken, by its id in `mcpcore.rules`; `recent` holds the last
    hundred with what was seen. The first of each rule is logged as a warning.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.recent: deque[Forgiven] = deque(maxlen=KEPT)

    def add(self, forgiven: Forgiven) -> None:
        if forgiven.rule not in self.counts:
            sentence = RULES[forgiven.rule].sentence
            logger.warning(
                "the peer breaks %s: %s Seen: %s", forgiven.rule, sentence, forgiven.detail
            )
        self.counts[forgiven.rule] += 1
        self.recent.append(forgiven)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        lines = [f"{rule} x{n}: {RULES[rule].sentence}" for rule, n in sorted(self.counts.items())]
        return "\n".join(lines) or "nothing was forgiven"
