"""The table of rules: whatever the code reports is in it, and says what it means."""

from __future__ import annotations

import re
from pathlib import Path

import mcpcore
from mcpcore.rules import RULES

SOURCE = Path(mcpcore.__file__).parent
ID = re.compile(r"[\"']([A-Z]{3,8}(?:26)?-\d{2})[\"']")


def test_every_rule_is_found_under_its_own_id() -> None:
    assert all(rule.id == id for id, rule in RULES.items())


def test_every_rule_is_one_sentence() -> None:
    for rule in RULES.values():
        assert rule.sentence.endswith("."), rule.id
        assert "\n" not in rule.sentence, rule.id


def test_every_rule_that_the_code_names_is_in_the_table() -> None:
    named = {
        (path.relative_to(SOURCE).as_posix(), id)
        for path in SOURCE.rglob("*.py")
        for id in ID.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert [where for where in sorted(named) if where[1] not in RULES] == []
