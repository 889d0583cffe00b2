"""Pages and cursors: whole, in order, and found out when made up."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpcore.protocol.paging import BadCursor, make_cursor, page, read_cursor

NAMES = [f"n{number:02}" for number in range(10)]


def walk(names: list[str], size: int) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        items, cursor = page("tools", names, names, cursor, size)
        pages.append(items)
        if cursor is None:
            return pages


def test_the_pages_together_are_the_list() -> None:
    """PAGE-04."""
    assert [len(one) for one in walk(NAMES, 3)] == [3, 3, 3, 1]
    assert sum(walk(NAMES, 3), []) == NAMES


@pytest.mark.parametrize("size", [5, 10, 11])
def test_a_full_last_page_has_no_cursor(size: int) -> None:
    """PAGE-04, PAGE-05."""
    pages = walk(NAMES, size)
    assert sum(pages, []) == NAMES
    assert all(pages)


def test_an_empty_list_is_one_empty_page() -> None:
    assert page("tools", [], [], None, 5) == ([], None)


def test_the_same_cursor_twice_gives_the_same_page() -> None:
    """PAGE-07."""
    _, cursor = page("tools", NAMES, NAMES, None, 4)
    assert page("tools", NAMES, NAMES, cursor, 4) == page("tools", NAMES, NAMES, cursor, 4)


@pytest.mark.parametrize("name", ["", "a", "a\nb", "ü—😀", "x" * 5000, "\x00"])
def test_any_name_makes_a_cursor(name: str) -> None:
    cursor = make_cursor("tools", name)
    assert read_cursor("tools", cursor) == name
    assert cursor.isascii()


@pytest.mark.parametrize(
    "cursor",
    ["", "0", "conformance-bogus", "====", "AAAA", "ü", "\ud800", " ", "a\nb", "n03", "x" * 10_000]
    + [base64.urlsafe_b64encode(b"\x00\x00\x00\x00tools\nn03").decode()]
    + [base64.urlsafe_b64encode(b"\xff" * 20).decode()],
)  # fmt: skip
def test_a_cursor_that_was_made_up_is_found_out(cursor: str) -> None:
    """PAGE-08."""
    with pytest.raises(BadCursor):
        page("tools", NAMES, NAMES, cursor, 3)


def test_a_cursor_of_another_list_is_found_out() -> None:
    for other in ("prompts", "tool", "toolss", ""):
        with pytest.raises(BadCursor):
            read_cursor("tools", make_cursor(other, "n03"))


def test_a_cursor_that_was_cut_or_grew_is_found_out() -> None:
    cursor = make_cursor("tools", "n03")
    for length in range(len(cursor)):
        with pytest.raises(BadCursor):
            read_cursor("tools", cursor[:length])
    for longer in (cursor + "A", cursor + "AAAA", " " + cursor, cursor + "\n", cursor + cursor):
        with pytest.raises(BadCursor):
            read_cursor("tools", longer)


def test_a_cursor_without_a_list_is_found_out() -> None:
    import zlib

    body = b"no line feed in here"
    made_up = base64.urlsafe_b64encode(zlib.crc32(body).to_bytes(4, "big") + body).decode()
    with pytest.raises(BadCursor, match="of this list"):
        read_cursor("tools", made_up)


NAME = st.text(st.characters(codec="utf-8"), max_size=8)


@settings(max_examples=100)
@given(NAME, st.data())
def test_a_cursor_with_one_character_changed_never_means_another_name(
    name: str, data: st.DataObject
) -> None:
    cursor = make_cursor("tools", name)
    at = data.draw(st.integers(0, len(cursor) - 1))
    other = data.draw(st.characters(codec="ascii"))
    try:
        read = read_cursor("tools", cursor[:at] + other + cursor[at + 1 :])
    except BadCursor:
        return
    assert read == name


@settings(max_examples=100)
@given(st.sets(NAME, max_size=12), st.integers(1, 5), st.sets(NAME, max_size=6), st.data())
def test_what_stays_in_the_list_is_seen_once_whatever_comes_and_goes(
    start: set[str], size: int, later: set[str], data: st.DataObject
) -> None:
    """The list changes between two pages, as a registry at run time does."""
    names = sorted(start)
    seen, cursor = page("tools", names, names, None, size)
    gone = data.draw(st.sets(st.sampled_from(names))) if names else set()
    names = sorted((start | later) - gone)
    while cursor is not None:
        more, cursor = page("tools", names, names, cursor, size)
        seen += more
    assert len(seen) == len(set(seen))
    assert (start - gone) <= set(seen)
    assert seen == sorted(seen)
