"""The revisions of the protocol, and the two eras they belong to.

No other module names a revision: what differs between them is asked here, or stands in ``rules/``.
"""

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that open a session with ``initialize``, oldest first."""

STATELESS = ("2026-07-28",)
"""Revisions in which every request carries its own revision and capabilities, oldest first."""

ALL = HANDSHAKE + STATELESS

FIRST, WITH_BATCHES, WITH_STRUCTURE, LAST_HANDSHAKE = HANDSHAKE
"""By what they are known for: batches came with the second and went with the third, which brought
structured results, resource links and elicitation; the fourth brought URL elicitation and icons."""

UNKNOWN = "1999-01-01"
"""A well-formed revision that nobody ever published."""


def is_stateless(revision: str) -> bool:
    """Whether requests of this revision stand alone; unknown strings belong to no era."""
    return revision in STATELESS


def since(revision: str, first: str) -> bool:
    """Whether ``revision`` is ``first`` or a later one. Both must be known."""
    return ALL.index(revision) >= ALL.index(first)
