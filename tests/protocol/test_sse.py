"""Server-sent events: the event stream format, whatever the line ends and however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpcore.jsonrpc import Malformed
from mcpcore.protocol.framing import NEED_DATA
from mcpcore.protocol.sse import COMMENT, ServerSentEvent, SseDecoder, encode_event


def decode(*chunks: bytes, max_event: int = 1000) -> tuple[list[ServerSentEvent], SseDecoder]:
    decoder = SseDecoder(max_event)
    events = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        while not isinstance(event := decoder.next_event(), type(NEED_DATA)):
            events.append(event)
    return events, decoder


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_sse_01_every_line_end_ends_a_line(end: bytes) -> None:
    """F-100: LF, CR and CRLF; a blank line ends an event."""
    events, _ = decode(b"data: {}" + end + end + b"data: []" + end + end)
    assert [event.data for event in events] == [b"{}", b"[]"]


def test_sse_01_line_ends_may_be_mixed() -> None:
    events, _ = decode(b"data: 1\r\rdata: 2\r\n\ndata: 3\n\r\ndata: 4\r\n\r\n")
    assert [event.data for event in events] == [b"1", b"2", b"3", b"4"]


def test_a_carriage_return_ends_its_event_at_once() -> None:
    """Nobody waits for a line feed that may never come; one that does come is no blank line."""
    events, _ = decode(b"data: 1\r", b"\r", b"\ndata: 2\r", b"\n\r", b"\n")
    assert [event.data for event in events] == [b"1", b"2"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_sse_01_a_mark_at_the_start_is_passed_over(mark: bytes) -> None:
    stream = mark + b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n"
    for size in (1, 2, 3, 100):
        chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
        assert [event.data for event in decode(*chunks)[0]] == [b"1"]


def test_sse_01_an_unfinished_event_does_not_count() -> None:
    events, decoder = decode(b"id: 1\ndata: 1\n\nid: 2\ndata: 2\n")
    assert [event.data for event in events] == [b"1"]
    assert decoder.last_event_id == "1"


def test_sse_02_several_data_lines_are_one_message() -> None:
    """F-099: joined by line feeds, which JSON takes for white space; one space after the colon goes."""
    events, _ = decode(b'data: {"a":\ndata:1\ndata:  }\n\n')
    assert [event.data for event in events] == [b'{"a":\n1\n }']


def test_sse_03_comments_and_unknown_fields_say_nothing() -> None:
    """F-101."""
    events, _ = decode(b": ping\n\n", COMMENT, b"colour: red\nnothing\ndata: 1\n\n")
    assert [event.data for event in events] == [b"1"]


def test_sse_04_an_id_counts_without_data() -> None:
    """F-101: a priming event only says where to resume."""
    for stream in (b"id: 7\n\n", b"id: 7\ndata:\n\n", b"id: 7\ndata: \n\n"):
        events, decoder = decode(stream)
        assert [event.data for event in events] in ([], [b""])
        assert decoder.last_event_id == "7"


def test_sse_04_an_id_stays_until_the_next_and_an_empty_one_takes_it_back() -> None:
    events, decoder = decode(b"id: 1\ndata: a\n\ndata: b\n\nid: x\0y\ndata: c\n\nid\ndata: d\n\n")
    assert [event.id for event in events] == ["1", "1", "1", None]
    assert decoder.last_event_id is None


@pytest.mark.parametrize(
    ("line", "retry"),
    [
        (b"retry: 1500", 1500),
        (b"retry:0", 0),
        (b"retry: 10x", None),
        (b"retry: -1", None),
        (b"retry", None),
        (b"retry: 99999999999999999999", None),
    ],
)
def test_sse_05_retry_is_all_digits(line: bytes, retry: int | None) -> None:
    events, decoder = decode(line + b"\n\n")
    assert events == []
    assert decoder.retry == retry


def test_sse_06_the_type_of_an_event() -> None:
    events, _ = decode(b"event: endpoint\ndata: /x\n\ndata: 1\n\nevent: message\ndata: 2\n\n")
    assert [event.type for event in events] == ["endpoint", "message", "message"]


@pytest.mark.parametrize("cut", [1, 7, 100, 10_000])
def test_an_event_beyond_the_limit_is_reported_and_what_follows_is_read(cut: int) -> None:
    """Its beginning tells whose answer it was."""
    long = b'data: {"jsonrpc":"2.0","id":5,"result":{"x":"' + b"y" * 5000 + b'"}}\n\ndata: {}\n\n'
    chunks = [long[i : i + cut] for i in range(0, len(long), cut)]
    (first, second), _ = decode(*chunks, max_event=100)
    assert isinstance(first.data, Malformed)
    assert (first.data.id, first.data.answers) == (5, True)
    assert second.data == b"{}"


def test_many_lines_beyond_the_limit_are_not_kept() -> None:
    events, _ = decode(b"data: 0123456789\n" * 1000 + b"\ndata: 1\n\n", max_event=50)
    assert isinstance(events[0].data, Malformed)
    assert events[1].data == b"1"


def test_an_endless_comment_costs_no_memory() -> None:
    decoder = SseDecoder(100)
    for _ in range(1000):
        decoder.receive_data(b":" * 1000)
    decoder.receive_data(b"\n\ndata: 1\n\n")
    assert decoder.next_event() == ServerSentEvent(b"1")


def test_line_ends_between_tokens_do_not_cut_an_event() -> None:
    """Raw members may hold them: JSON allows them between its tokens."""
    assert encode_event(b'{"a":\r\n1}') == b'data: {"a":  1}\n\n'


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        SseDecoder(0)


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=20).map(lambda data: data.translate(None, b"\r\n")),
            st.none() | st.integers(0, 99).map(str),
            st.none() | st.integers(0, 10**6),
        ),
        max_size=5,
    ),
    st.lists(st.integers(1, 30)),
)
def test_what_is_encoded_is_decoded_however_it_is_cut(
    sent: list[tuple[bytes, str | None, int | None]], sizes: list[int]
) -> None:
    stream = b"".join(encode_event(*event) for event in sent)
    chunks = []
    for size in sizes:
        chunks.append(stream[:size])
        stream = stream[size:]
    events, decoder = decode(*chunks, stream)
    assert [event.data for event in events] == [data for data, _, _ in sent]
    ids = [id for _, id, _ in sent if id is not None]
    assert decoder.last_event_id == (ids[-1] if ids else None)


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_read_the_same_however_they_are_cut(chunks: list[bytes]) -> None:
    in_pieces = decode(*[bytes([byte]) for byte in b"".join(chunks)])
    assert decode(*chunks)[0] == decode(b"".join(chunks))[0] == in_pieces[0]
