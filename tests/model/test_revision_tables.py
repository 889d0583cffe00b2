"""The tables of revisions: consistent in themselves, and right where a slip would hurt most."""

from __future__ import annotations

import msgspec
import pytest
from samples import STRUCTS

from mcpcore import revisions
from mcpcore.revisions import (
    CODES,
    FIELDS,
    HANDSHAKE,
    KINDS,
    METHODS,
    REVISIONS,
    is_known,
    lookup,
    method_row,
)

OLDEST, BATCHES, THIRD, LAST, STATELESS = REVISIONS.values()


def test_revisions_stand_oldest_first() -> None:
    assert list(REVISIONS) == sorted(REVISIONS)
    assert [row.position for row in REVISIONS.values()] == list(range(len(REVISIONS)))
    assert all(str(row) == name for name, row in REVISIONS.items())


def test_initialize_can_agree_on_the_handshake_revisions_newest_first() -> None:
    assert list(HANDSHAKE) == sorted(HANDSHAKE, reverse=True)
    assert set(HANDSHAKE) == {row.name for row in REVISIONS.values() if row.era == "handshake"}


def test_one_revision_has_batches() -> None:
    """BATCH-10."""
    assert [row.name for row in REVISIONS.values() if row.batching] == ["2025-03-26"]


def test_lookup_gives_the_newest_first() -> None:
    assert lookup([OLDEST.name, LAST.name, THIRD.name]) == (LAST, THIRD, OLDEST)


@pytest.mark.parametrize("name", ["1999-01-01", "2025-6-18", " 2025-06-18", ""])
def test_a_revision_is_known_by_its_exact_name_only(name: str) -> None:
    """VERS-10."""
    with pytest.raises(ValueError, match="unknown protocol revision"):
        lookup([LAST.name, name])


def test_no_revision_at_all_is_none() -> None:
    with pytest.raises(ValueError, match="at least one"):
        lookup([])


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_method_has_at_most_one_row_in_each_revision_and_direction(
    revision: revisions.Revision, sender: revisions.Role
) -> None:
    rows = [
        row.name for row in METHODS if row.sender in (sender, "both") and row.exists_in(revision)
    ]
    assert len(rows) == len(set(rows))
    assert all(method_row(name, sender, revision) is not None for name in rows)


def test_rows_run_forward() -> None:
    for row in (*METHODS, *FIELDS, *CODES):
        assert row.since.position <= row.until.position, row


def test_only_requests_have_results_and_only_notifications_say_so() -> None:
    for row in METHODS:
        assert row.is_request is not row.name.startswith("notifications/"), row.name


@pytest.mark.parametrize(
    ("method", "sender", "revision", "exists"),
    [
        ("initialize", "client", LAST, True),
        ("initialize", "server", LAST, False),
        ("initialize", "client", STATELESS, False),
        ("server/discover", "client", LAST, False),
        ("server/discover", "client", STATELESS, True),
        ("ping", "server", OLDEST, True),
        ("ping", "client", STATELESS, False),
        ("tools/call", "server", LAST, False),
        ("elicitation/create", "server", BATCHES, False),
        ("elicitation/create", "server", THIRD, True),
        ("elicitation/create", "client", THIRD, False),
        ("sampling/createMessage", "server", OLDEST, True),
        ("tasks/get", "client", THIRD, False),
        ("tasks/get", "server", LAST, True),
        ("notifications/progress", "client", LAST, True),
        ("notifications/progress", "client", STATELESS, False),
        ("notifications/elicitation/complete", "server", THIRD, False),
        ("notifications/elicitation/complete", "server", LAST, True),
        ("resources/subscribe", "client", STATELESS, False),
        ("completion/complete", "client", OLDEST, True),
    ],
)  # fmt: skip
def test_which_methods_exist(
    method: str, sender: revisions.Role, revision: revisions.Revision, exists: bool
) -> None:
    assert (method_row(method, sender, revision) is not None) is exists
    assert is_known(method)


def test_completion_needs_a_capability_since_the_second_revision() -> None:
    needs = [
        row.server_capability
        for revision in REVISIONS.values()
        if (row := method_row("completion/complete", "client", revision))
    ]
    assert needs == [None, "completions", "completions", "completions", "completions"]


def test_what_no_revision_has_is_unknown() -> None:
    assert not is_known("tools/nope")
    assert method_row("tools/nope", "client", LAST) is None


def test_every_field_row_names_a_member_that_can_be_left_out() -> None:
    for row in FIELDS:
        members = {field.name: field for field in msgspec.structs.fields(row.struct)}
        assert row.name in members, row
        assert not members[row.name].required, row


def test_no_field_row_says_nothing_or_stands_twice() -> None:
    assert all((row.since, row.until) != (OLDEST, STATELESS) for row in FIELDS)
    rows = [(row.struct, row.name) for row in FIELDS]
    assert len(rows) == len(set(rows))


def test_every_content_kind_has_a_row() -> None:
    tagged = {
        struct
        for struct in STRUCTS
        if (struct.__struct_config__.tag is not None
        and "Content" in struct.__name__ + str(struct.__doc__)) or struct.__name__ in ("ResourceLink", "EmbeddedResource")
    }  # fmt: skip
    assert {row.struct for row in KINDS} == {
        struct for struct in tagged if struct.__name__ != "UnknownContent"
    }


def test_codes_are_told_apart_in_each_revision() -> None:
    for revision in REVISIONS.values():
        codes = [
            row.code
            for row in CODES
            if row.since.position <= revision.position <= row.until.position
        ]
        assert len(codes) == len(set(codes))
    by_name = {row.name: row.code for row in CODES}
    assert by_name["url elicitation required"] == revisions.URL_ELICITATION_REQUIRED == -32042
    assert by_name["user rejected sampling"] == revisions.USER_REJECTED == -1
    assert by_name["resource not found"] == LAST.resource_not_found == -32002
    assert STATELESS.resource_not_found == by_name["invalid params"] == -32602
