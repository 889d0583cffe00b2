"""Lines: the outcome depends on the bytes alone."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpcore.jsonrpc import INVALID_REQUEST, Malformed
from mcpcore.protocol import MAX_LINE, NEED_DATA, Frame, LineDecoder


def drain(decoder: LineDecoder, *, end: bool = False) -> list[Frame]:
    frames: list[Frame] = []
    step = decoder.end if end else decoder.next_message
    while isinstance(frame := step(), bytes | Malformed):
        frames.append(frame)
    assert frame is NEED_DATA
    return frames


def read(*chunks: bytes, max_line: int = MAX_LINE) -> list[Frame]:
    """All frames of a stream that arrived in these chunks."""
    decoder = LineDecoder(max_line)
    frames: list[Frame] = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        frames += drain(decoder)
    return frames + drain(decoder, end=True)


def test_need_data_says_its_name() -> None:
    assert repr(NEED_DATA) == "NEED_DATA"


def test_nothing_came_yet() -> None:
    assert drain(LineDecoder()) == []
    assert read() == []
    assert read(b"", b"") == []


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    """F-001: a separator of Unicode stands raw in a string."""
    line = f'{{"text":"a{separator}b"}}'.encode()
    assert read(line + b"\n" + line + b"\n") == [line, line]


@pytest.mark.parametrize("text", ["é", "—", "😀"])
def test_a_character_cut_by_the_read_boundary(text: str) -> None:
    """F-002."""
    line = f'{{"text":"{text}"}}'.encode()
    stream = line + b"\n"
    for cut in range(len(stream) + 1):
        assert read(stream[:cut], stream[cut:]) == [line]
    assert read(*(stream[i : i + 1] for i in range(len(stream)))) == [line]


def test_two_and_a_half_messages_in_one_read() -> None:
    """F-003."""
    decoder = LineDecoder()
    decoder.receive_data(b'{"a":1}\n{"b":2}\n{"c"')
    assert drain(decoder) == [b'{"a":1}', b'{"b":2}']
    decoder.receive_data(b":3}\n")
    assert drain(decoder) == [b'{"c":3}']


def test_many_messages_in_one_read_and_one_in_many() -> None:
    """F-003, STDIO-11."""
    lines = [b'{"n":%d}' % n for n in range(1000)]
    assert read(b"".join(line + b"\n" for line in lines)) == lines
    long = b'{"x":"' + b"y" * 4000 + b'"}'
    stream = long + b"\n"
    assert read(*(stream[i : i + 100] for i in range(0, len(stream), 100))) == [long]


def test_one_carriage_return_before_the_line_feed_is_taken_off() -> None:
    """F-004."""
    assert read(b'{"a":1}\r\n{"b":2}\r\n') == [b'{"a":1}', b'{"b":2}']
    assert read(b'{"a":1}\r', b'\n{"b":2}') == [b'{"a":1}', b'{"b":2}']
    assert read(b"x\r\r\n") == [b"x\r"]


@pytest.mark.parametrize("blank", [b"\n", b"\n\n  \n", b"\r\n", b" \t \r\n", b"\r\r\n"])
def test_blank_lines_carry_nothing(blank: bytes) -> None:
    """F-005."""
    assert read(blank) == []
    assert read(blank + b'{"a":1}\n' + blank + b'{"b":2}\n' + blank) == [b'{"a":1}', b'{"b":2}']


def test_a_banner_is_a_line_like_any_other() -> None:
    """F-006: whether it is a message is not decided here."""
    assert read(b"Server started on stdio\n{}\n") == [b"Server started on stdio", b"{}"]


def test_bytes_that_are_no_utf8_are_passed_on_untouched() -> None:
    """F-007."""
    assert read(b'\xff\xfe\n{"a":"\x92"}\n{}\n') == [b"\xff\xfe", b'{"a":"\x92"}', b"{}"]


def test_no_line_is_too_long_for_the_default() -> None:
    """F-009."""
    line = b'{"x":"' + b"y" * (8 * 1024 * 1024) + b'"}'
    assert read(line[:70_000], line[70_000:], b"\n{}\n") == [line, b"{}"]
    assert MAX_LINE >= 16 * 1024 * 1024


def test_a_last_line_without_its_end_counts() -> None:
    """F-010."""
    assert read(b"{}\n", b'{"a"', b":1}") == [b"{}", b'{"a":1}']
    assert read(b'{"a":1}\r') == [b'{"a":1}']
    assert read(b"{}\n  ") == [b"{}"]


def test_half_a_message_at_the_end_is_given_too() -> None:
    """F-010: to be reported, never dropped."""
    assert read(b'{"a":') == [b'{"a":']


def test_after_the_end_nothing_more_comes() -> None:
    decoder = LineDecoder()
    decoder.receive_data(b"a\nb")
    assert drain(decoder, end=True) == [b"a", b"b"]
    assert decoder.end() is NEED_DATA
    assert decoder.next_message() is NEED_DATA


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_the_limit_is_on_the_line_without_its_end(end: bytes) -> None:
    assert read(b"x" * 10 + end, max_line=10) == [b"x" * 10]
    (long,) = read(b"x" * 11 + end, max_line=10)
    assert isinstance(long, Malformed)


def test_a_line_over_the_limit_is_reported_and_the_next_is_read() -> None:
    long, line = read(b"x" * 5000 + b"\n{}\n", max_line=1000)
    assert line == b"{}"
    assert isinstance(long, Malformed)
    assert long.error.code == INVALID_REQUEST
    assert "more than 1000 bytes" in long.error.message
    assert long.id is None
    assert long.excerpt == "x" * 200 + "..."


def test_a_line_that_never_ends_does_not_fill_the_memory() -> None:
    decoder = LineDecoder(1000)
    for _ in range(10_000):
        decoder.receive_data(b"x" * 500)
    assert decoder.next_message() is NEED_DATA
    assert len(decoder._rest) < 3000
    decoder.receive_data(b"\n{}\n")
    long, line = drain(decoder)
    assert isinstance(long, Malformed)
    assert line == b"{}"


def test_a_line_over_the_limit_at_the_end() -> None:
    (long,) = read(b"x" * 500, b"x" * 600, b"x" * 5000, max_line=1000)
    assert isinstance(long, Malformed)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_a_mistake(limit: int) -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        LineDecoder(limit)


STREAMS = st.lists(
    st.sampled_from(
        [b"{", b"}", b"a", b"\n", b"\r", b"\r\n", b" ", b"\t", b"\xff", b"\xe2\x80\xa8", b"0123456789"]
    )
    | st.binary(max_size=6),
    max_size=40,
).map(b"".join)  # fmt: skip


@settings(max_examples=200)
@given(STREAMS, st.lists(st.integers(0, 250)), st.integers(1, 30))
def test_any_bytes_in_any_split_give_the_same_frames(
    stream: bytes, cuts: list[int], max_line: int
) -> None:
    at = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    chunks = [stream[start:stop] for start, stop in itertools.pairwise(at)]
    assert b"".join(chunks) == stream
    for limit in (max_line, MAX_LINE):
        whole = read(stream, max_line=limit)
        assert read(*chunks, max_line=limit) == whole
        assert read(*(bytes([byte]) for byte in stream), max_line=limit) == whole


@settings(max_examples=100)
@given(STREAMS)
def test_what_comes_out_is_what_stands_between_the_line_feeds(stream: bytes) -> None:
    expected = [line.removesuffix(b"\r") for line in stream.split(b"\n")]
    assert read(stream) == [line for line in expected if line.strip(b" \t\r")]
