"""The rules of the protocol, read from ``rules/<era>/<topic>.toml``.

A rule has an id that never changes, a strength, those who owe it, the revisions it stands in, and a
sentence in our words. A rule that nobody can see from outside says so under ``unchecked``; that word at
the head of a file goes for all its rules.

Strengths: the four capitalised words of the specification, and

- ``shape``: fixed by the schema; binds like MUST.
- ``inherited``: from JSON-RPC 2.0, which every revision says that messages must follow; binds like MUST.
- ``stated``: said plainly, without a capitalised word.
- ``reference``: from a standard that the specification points to.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import revisions

SPECIFICATION = "https://modelcontextprotocol.io/specification"

BINDING = {"MUST", "MUST NOT", "shape", "inherited"}
"""Strengths whose breach is a failure; a breach of any other (but MAY) is a warning."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, as it stands in the catalogue."""

    id: str
    topic: str
    revisions: tuple[str, ...]
    duty: tuple[str, ...]
    strength: str
    text: str
    pages: dict[str, str]
    softer_in: tuple[str, ...] = ()
    unchecked: str | None = None
    right: str | None = None
    wrong: str | None = None

    def binds(self, revision: str) -> bool:
        """Whether a breach in ``revision`` is a failure; otherwise it is a warning."""
        return self.strength in BINDING and revision not in self.softer_in

    def where(self, revision: str | None = None) -> str:
        """The page that says so, in ``revision`` or in the newest one that has the rule."""
        revision = revision if revision in self.revisions else self.revisions[-1]
        page = self.pages.get(revision, self.pages["*"])
        return f"{SPECIFICATION}/{revision}" + (f"/{page}" if page else "")


@cache
def rules() -> dict[str, Rule]:
    """All rules by id, in the order of the files."""
    found: dict[str, Rule] = {}
    for path in sorted(Path(__file__).parent.glob("rules/*/*.toml")):
        for rule in _read(path):
            if rule.id in found:
                raise ValueError(f"{path}: the rule {rule.id} is there twice")
            found[rule.id] = rule
    return found


def _read(path: Path) -> Iterator[Rule]:
    era = {"handshake": revisions.HANDSHAKE, "stateless": revisions.STATELESS}[path.parent.name]
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    pages = {"*": table["page"], **table.get("pages", {})}
    for name, row in table.items():
        if name == "pages" or not isinstance(row, dict):
            continue
        yield Rule(
            id=name,
            topic=table["title"],
            revisions=tuple(row.get("revisions", era)),
            duty=tuple(row["duty"]),
            strength=row["strength"],
            text=row["text"],
            pages={**pages, "*": row["page"]} if "page" in row else pages,
            softer_in=tuple(row.get("softer_in", ())),
            unchecked=row.get("unchecked", table.get("unchecked")),
            right=row.get("right"),
            wrong=row.get("wrong"),
        )
