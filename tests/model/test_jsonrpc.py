"""JSON-RPC 2.0 as bytes: what is a message, what is none, and what is said of the latter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from mcpcore import jsonrpc
from mcpcore.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Batch,
    ErrorObject,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
)


def read(data: bytes | str) -> tuple[Any, list[str]]:
    notes: list[str] = []
    message = jsonrpc.decode(data.encode() if isinstance(data, str) else data, notes)
    return message, notes


def decode(data: bytes | str) -> Any:
    """Decode what must break no rule."""
    message, notes = read(data)
    assert notes == []
    return message


def broken(data: bytes | str) -> Malformed:
    message, _ = read(data)
    assert isinstance(message, Malformed)
    return message


# The four kinds.


def test_a_request() -> None:
    message = decode('{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"x":[1]}}')
    assert isinstance(message, Request)
    assert (message.id, message.method) == (1, "a/b")
    assert isinstance(message.params, Raw)
    assert bytes(message.params) == b'{"x":[1]}'


def test_a_request_without_params() -> None:
    assert decode('{"method":"a","id":"x","jsonrpc":"2.0"}') == Request("x", "a", UNSET)


def test_a_notification() -> None:
    assert decode('{"jsonrpc":"2.0","method":"a"}') == Notification("a", UNSET)


def test_a_response() -> None:
    message = decode('{"jsonrpc":"2.0","id":1,"result":{"x":1.50}}')
    assert isinstance(message, Response)
    assert bytes(message.result) == b'{"x":1.50}'


def test_an_error_response() -> None:
    message = decode('{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":null}}')
    assert message == ErrorResponse(1, ErrorObject(-1, "no", None))


@pytest.mark.parametrize("id", ["", '"id":null,'])
def test_an_error_response_without_an_id(id: str) -> None:
    """JRPC-23: the id of the request could not be read."""
    message = decode('{"jsonrpc":"2.0",%s"error":{"code":-32700,"message":"what?"}}' % id)
    assert message == ErrorResponse(None, ErrorObject(-32700, "what?"))
    assert message.error.data is UNSET


@pytest.mark.parametrize("data", [None, "text", [1], {"a": 1}, 5])
def test_the_data_of_an_error_is_any_json_value(data: Any) -> None:
    error = {"code": 1, "message": "m", "data": data}
    message = decode(json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}))
    assert message.error.data == data


def test_unknown_members_are_no_matter() -> None:
    """JRPC-24."""
    assert decode('{"jsonrpc":"2.0","x":{},"method":"a","_meta":1}') == Notification("a")


def test_space_around_everything() -> None:
    message = decode(' \t{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "a" , "params" : { } }\r ')
    assert isinstance(message, Request)


# Ids.


@pytest.mark.parametrize(
    "id",
    [
        "7",
        7,
        0,
        -1,
        "",
        "001",
        "a b",
        "Ω",
        2**53 - 1,
        2**53 + 1,
        2**64,
        123456789012345678901234567890,
        "x" * 10_000,
    ],
    ids=repr,
)
def test_ids_are_kept_by_value_and_type(id: Any) -> None:
    """JRPC-07, F-026: "7" is not 7, and no digit is lost."""
    message = decode(json.dumps({"jsonrpc": "2.0", "id": id, "method": "a"}))
    assert message.id == id
    assert type(message.id) is type(id)
    written = json.loads(jsonrpc.encode(Response(message.id, {})))
    assert written["id"] == id
    assert type(written["id"]) is type(id)


@pytest.mark.parametrize("id", ["1.5", "1.0", "1e2", "true", "false", "[]", "{}", "null", "1E400"])
def test_what_is_no_id_is_refused_and_not_repeated(id: str) -> None:
    """JRPC-03, JRPC-04, F-028: neither served as another id nor taken for a notification."""
    bad = broken('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id)
    assert bad.error.code == INVALID_REQUEST
    assert bad.id is None
    assert not bad.answers
    assert not bad.notifies


# What is no message.

MALFORMED: list[tuple[str, str, int, Any, bool, bool]] = [
    # name, text, code, readable id, looks like an answer, looks like a notification
    ("no JSON", "{this is not json", PARSE_ERROR, None, False, False),
    ("nothing", "", PARSE_ERROR, None, False, False),
    ("cut", '{"jsonrpc":"2.0","id":1', PARSE_ERROR, None, False, False),
    ("two messages", '{"jsonrpc":"2.0","method":"a"} {}', PARSE_ERROR, None, False, False),
    ("leading zero", '{"jsonrpc":"2.0","id":01,"method":"a"}', PARSE_ERROR, None, False, False),
    ("raw tab", '{"jsonrpc":"2.0","id":1,"method":"a\tb"}', PARSE_ERROR, None, False, False),
    ("byte-order mark", '\ufeff{"jsonrpc":"2.0","id":1,"method":"a"}', PARSE_ERROR, None, False, False),
    ("broken after a bad id", '{"id":[] oops', PARSE_ERROR, None, False, False),
    ("number", "42", INVALID_REQUEST, None, False, False),
    ("string", '"x"', INVALID_REQUEST, None, False, False),
    ("null", "null", INVALID_REQUEST, None, False, False),
    ("empty object", "{}", INVALID_REQUEST, None, False, False),
    ("neither", '{"jsonrpc":"2.0","id":1}', INVALID_REQUEST, 1, False, False),
    ("no jsonrpc", '{"id":7,"method":"a"}', INVALID_REQUEST, 7, False, False),
    ("jsonrpc 1.0", '{"jsonrpc":"1.0","id":7,"method":"a"}', INVALID_REQUEST, 7, False, False),
    ("jsonrpc a number", '{"jsonrpc":2.0,"id":7,"method":"a"}', INVALID_REQUEST, 7, False, False),
    ("method a number", '{"jsonrpc":"2.0","id":7,"method":5}', INVALID_REQUEST, 7, False, False),
    ("method null", '{"jsonrpc":"2.0","id":"7","method":null}', INVALID_REQUEST, "7", False, False),
    ("params an array", '{"jsonrpc":"2.0","id":7,"method":"a","params":[1]}', INVALID_REQUEST, 7, False, False),
    ("params a string", '{"jsonrpc":"2.0","id":7,"method":"a","params":"x"}', INVALID_REQUEST, 7, False, False),
    ("notification, no jsonrpc", '{"method":"a"}', INVALID_REQUEST, None, False, True),
    ("notification, method a number", '{"jsonrpc":"2.0","method":5}', INVALID_REQUEST, None, False, True),
    ("notification, params an array", '{"jsonrpc":"2.0","method":"a","params":[]}', INVALID_REQUEST, None, False, True),
    ("both", '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}', INVALID_REQUEST, 1, True, False),
    ("result null and error", '{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}', INVALID_REQUEST, 1, True, False),
    ("result without id", '{"jsonrpc":"2.0","result":{}}', INVALID_REQUEST, None, True, False),
    ("result with id null", '{"jsonrpc":"2.0","id":null,"result":{}}', INVALID_REQUEST, None, True, False),
    ("result an array", '{"jsonrpc":"2.0","id":1,"result":[]}', INVALID_REQUEST, 1, True, False),
    ("result null", '{"jsonrpc":"2.0","id":1,"result":null}', INVALID_REQUEST, 1, True, False),
    ("error a string", '{"jsonrpc":"2.0","id":1,"error":"no"}', INVALID_REQUEST, 1, True, False),
    ("error without code", '{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}', INVALID_REQUEST, 1, True, False),
    ("error code a fraction", '{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"no"}}', INVALID_REQUEST, 1, True, False),
    ("answer, id a fraction", '{"jsonrpc":"2.0","id":1.5,"result":{}}', INVALID_REQUEST, None, True, False),
    ("answer, id beyond numbers", '{"jsonrpc":"2.0","id":1E400,"result":{}}', INVALID_REQUEST, None, True, False),
    ("answer, jsonrpc a number", '{"jsonrpc":2,"id":1,"error":{"code":1,"message":"m"}}', INVALID_REQUEST, 1, True, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "id", "answers", "notifies"),
    [row[1:] for row in MALFORMED],
    ids=[row[0] for row in MALFORMED],
)
def test_what_is_no_message(text: str, code: int, id: Any, answers: bool, notifies: bool) -> None:
    """JRPC-17, JRPC-18, F-032: the code, and the id where there is one to be read."""
    bad = broken(text)
    assert bad.error.code == code
    assert bad.id == id
    assert type(bad.id) is type(id)
    assert (bad.answers, bad.notifies) == (answers, notifies)
    assert bad.excerpt == text if text.isprintable() else bad.excerpt.isprintable()


def test_the_message_says_what_is_wrong() -> None:
    assert "Parse error" in broken("{").error.message
    assert (
        "params must be an object"
        in broken('{"jsonrpc":"2.0","id":1,"method":"a","params":[]}').error.message
    )
    assert "invalid UTF-8 at byte 1" in broken(b'"\xff"').error.message
    assert "nested too deeply" in broken(b"[" * 100_000).error.message


# Bytes and numbers.


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"a\xff"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"\x92"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"\xed\xa0\x80"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"x":"\xc3"}}',
        b"\xff\xfe",
    ],
)
def test_invalid_utf8_is_a_parse_error_wherever_it_stands(data: bytes) -> None:
    """F-007: nothing is replaced silently inside an accepted message."""
    assert broken(data).error.code == PARSE_ERROR


def test_valid_utf8_of_every_width_is_kept() -> None:
    text = "aé—😀\u2028\u0085"
    message = decode(json.dumps({"jsonrpc": "2.0", "id": text, "method": "a"}, ensure_ascii=False))
    assert message.id == text


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("where", ['"params":{"x":%s}', '"params":{"x":[[%s]]}', '"y":%s'])
def test_nan_and_infinity_are_no_json(word: str, where: str) -> None:
    bad = broken('{"jsonrpc":"2.0","id":1,"method":"a",' + where % word + "}")
    assert bad.error.code == PARSE_ERROR


def test_numbers_keep_every_digit() -> None:
    params = b'{"big":123456789012345678901234567890,"small":0.1000000000000000055511151231257827}'
    message = decode(b'{"jsonrpc":"2.0","method":"a","params":' + params + b"}")
    assert bytes(message.params) == params


def test_of_duplicate_members_the_last_counts() -> None:
    text = '{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b","params":{"x":1},"params":{"x":2}}'
    message = decode(text)
    assert (message.id, message.method, bytes(message.params)) == (2, "b", b'{"x":2}')


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b'{"id":' + b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
        b'{"jsonrpc":"2.0","id":1,"result":{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
        b'{"x":"\\ud800","jsonrpc":"2.0","y":' + b"[" * 100_000,
        b"[" * 600 + b"]" * 600,
    ],
    ids=range(9),
)  # fmt: skip
def test_deep_nesting_is_a_parse_error_and_no_crash(data: bytes) -> None:
    message, _ = read(data)
    if isinstance(message, Batch):
        ((message, _),) = message.members
    assert isinstance(message, Malformed)
    assert message.error.code in (PARSE_ERROR, INVALID_REQUEST)


def test_moderate_nesting_is_read() -> None:
    params = b'{"x":' + b"[" * 200 + b"]" * 200 + b"}"
    assert (
        bytes(decode(b'{"jsonrpc":"2.0","method":"a","params":' + params + b"}").params) == params
    )


# Halves of surrogate pairs.


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"\ud800", "\ufffd"),
        (r"\uDFFF", "\ufffd"),
        (r"a\ud83d!", "a\ufffd!"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\ud83d\ude00\ude00", "😀\ufffd"),
        (r"\ud83d\u0041", "\ufffdA"),
        (r"\\ud800\ud800", "\\ud800\ufffd"),
        (r"\\\ud800", "\\\ufffd"),
    ],
)
def test_half_a_surrogate_pair_is_mended_and_noted(written: str, meant: str) -> None:
    """JSON-01."""
    message, notes = read('{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"%s"}}' % written)
    assert isinstance(message, Request)
    assert json.loads(bytes(message.params)) == {"x": meant}
    assert notes == ["JSON-01"]
    message, notes = read('{"jsonrpc":"2.0","id":"%s","method":"a"}' % written)
    assert message.id == meant
    assert notes == ["JSON-01"]


@pytest.mark.parametrize(
    "written",
    [
        r"\ud83d\ude00",
        r"\\ud800",
        r"\\\\uDFFF",
        r"\uD83D\uDE00\n",
        r"\uDBFF\uDFFF",
        r"\udA00\uDc00",
    ],
)
def test_whole_pairs_and_escaped_backslashes_are_left_alone(written: str) -> None:
    message = decode('{"jsonrpc":"2.0","id":"%s","method":"a"}' % written)
    assert message.id == json.loads(f'"{written}"')
    assert jsonrpc.mend_surrogates(written.encode()) is None


def test_surrogates_in_a_batch_are_mended() -> None:
    message, _ = read(
        r'[{"jsonrpc":"2.0","id":"\ud800","method":"a"},{"jsonrpc":"2.0","method":"b"}]'
    )
    (one, notes), (other, _) = message.members
    assert one == Request("\ufffd", "a")
    assert notes == ("JSON-01",)
    assert other == Notification("b")


def test_surrogates_in_a_broken_envelope_leave_it_an_invalid_request() -> None:
    bad = broken(r'{"jsonrpc":"2.0","method":5,"id":"\ud800"}')
    assert bad.error.code == INVALID_REQUEST


def test_what_cannot_be_mended_is_a_parse_error() -> None:
    assert broken(r'{"jsonrpc":"2.0","id":"\ud800","method":"a"').error.code == PARSE_ERROR
    assert broken(r'["\ud800"').error.code == PARSE_ERROR


# Deviations that leave a message readable.


def test_params_null_is_read_as_absent_and_noted() -> None:
    message, notes = read('{"jsonrpc":"2.0","id":1,"method":"a","params": null }')
    assert message == Request(1, "a", UNSET)
    assert notes == ["JRPC-14"]


def test_error_null_beside_a_result_is_noted() -> None:
    message, notes = read('{"jsonrpc":"2.0","id":1,"result":{},"error":null}')
    assert isinstance(message, Response)
    assert notes == ["JRPC-08"]


@pytest.mark.parametrize("member", ['"result":{}', '"error":{"code":1,"message":"m"}'])
def test_an_answer_without_jsonrpc_is_noted(member: str) -> None:
    message, notes = read('{"id":1,%s}' % member)
    assert isinstance(message, Response | ErrorResponse)
    assert notes == ["JRPC-01"]


# Batches.


def test_a_batch_keeps_the_order() -> None:
    text = '[{"jsonrpc":"2.0","id":1,"method":"a"}, {"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}]'
    kinds = [type(message) for message, _ in decode(text).members]
    assert kinds == [Request, Notification, ErrorResponse]


def test_white_space_before_a_batch() -> None:
    assert decode(' \t[{"jsonrpc":"2.0","method":"a"}]') == Batch(((Notification("a"), ()),))


def test_an_empty_batch_is_one_invalid_request() -> None:
    """BATCH-08."""
    bad = broken("[]")
    assert bad.error == ErrorObject(INVALID_REQUEST, "Invalid request: an empty batch")


def test_each_piece_of_garbage_in_a_batch_counts() -> None:
    """BATCH-08."""
    members = decode('[1,"x",{},[]]').members
    assert [message.error.code for message, _ in members] == [INVALID_REQUEST] * 4


def test_a_batch_in_a_batch_is_none() -> None:
    ((bad, _),) = decode('[[{"jsonrpc":"2.0","id":1,"method":"a"}]]').members
    assert isinstance(bad, Malformed)
    assert "a batch in a batch" in bad.error.message


def test_a_cut_batch_is_a_parse_error() -> None:
    assert broken('[{"jsonrpc":"2.0","id":1,"method":"a"},').error.code == PARSE_ERROR


def test_what_a_member_of_a_batch_breaks_is_noted_with_it() -> None:
    text = '[{"jsonrpc":"2.0","method":"a","params":null},{"id":1,"result":{}},{"jsonrpc":"2.0","method":"b"}]'
    assert [notes for _, notes in decode(text).members] == [("JRPC-14",), ("JRPC-01",), ()]


# Excerpts.


def test_a_short_excerpt_is_the_whole() -> None:
    assert jsonrpc.excerpt(b"hello") == "hello"
    assert jsonrpc.excerpt(b"x" * 200) == "x" * 200


def test_a_long_excerpt_is_cut_and_says_so() -> None:
    assert jsonrpc.excerpt(b"x" * 201) == "x" * 200 + "..."


def test_an_excerpt_is_printable() -> None:
    """What a peer prints must not steer the terminal of whoever reads the log."""
    assert jsonrpc.excerpt(b"\x1b[31mred\x00\r\n\xff").isprintable()
    assert "red" in jsonrpc.excerpt(b"\x1b[31mred")


# Writing.


def test_what_is_written_has_only_its_own_members() -> None:
    assert jsonrpc.encode(Request(1, "a")) == b'{"jsonrpc":"2.0","id":1,"method":"a"}'
    assert (
        jsonrpc.encode(Request("1", "a", {}))
        == b'{"jsonrpc":"2.0","id":"1","method":"a","params":{}}'
    )
    assert (
        jsonrpc.encode(Notification("a", {"x": 1}))
        == b'{"jsonrpc":"2.0","method":"a","params":{"x":1}}'
    )
    assert jsonrpc.encode(Response(0, {})) == b'{"jsonrpc":"2.0","id":0,"result":{}}'


def test_an_error_of_an_unreadable_request_has_no_id() -> None:
    """JRPC-23: never an invented one."""
    error = ErrorObject(PARSE_ERROR, "m")
    assert (
        jsonrpc.encode(ErrorResponse(None, error))
        == b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}'
    )


def test_null_data_of_an_error_is_not_absent_data() -> None:
    assert b'"data":null' in jsonrpc.encode(ErrorResponse(1, ErrorObject(1, "m", None)))
    assert b"data" not in jsonrpc.encode(ErrorResponse(1, ErrorObject(1, "m")))


def test_a_written_message_holds_no_line_end() -> None:
    """STDIO-03, F-004."""
    data = jsonrpc.encode(Request("a\nb", "c\r\nd", {"x\n": "\u2028\u0085\r"}))
    assert b"\n" not in data
    assert b"\r" not in data


def test_a_batch_is_an_array_of_its_members() -> None:
    members = [jsonrpc.encode(Response(1, {})), jsonrpc.encode(Response(2, {}))]
    assert [answer["id"] for answer in json.loads(jsonrpc.encode_batch(members))] == [1, 2]


# Whatever comes.

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2.0, None]),
        "id": st.integers() | st.text(max_size=5) | JSON,
        "method": st.text(max_size=8) | JSON,
        "params": st.dictionaries(st.text(max_size=5), JSON, max_size=3) | JSON,
        "result": st.just({}) | JSON,
        "error": st.just({"code": 1, "message": "m"}) | JSON,
    },
)
ANY_MESSAGE = (Request, Notification, Response, ErrorResponse, Malformed, Batch)
FRAGMENTS = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b",", b":", b'"', b'"id"', b'"method"', b'"jsonrpc":"2.0"']
        + [b'"result"', b'"error"', b"\\ud800", b"\\", b"1", b"1e999", b"null", b"\xff", b" ", b"x"]
    ),
    max_size=25,
).map(b"".join)


@settings(max_examples=200)
@given(st.binary(max_size=60) | FRAGMENTS)
def test_no_bytes_raise(data: bytes) -> None:
    notes: list[str] = []
    assert isinstance(jsonrpc.decode(data, notes), ANY_MESSAGE)
    assert set(notes) <= {"JSON-01", "JRPC-01", "JRPC-08", "JRPC-14"}


@settings(max_examples=120)
@given(MEMBERS)
def test_any_object_is_a_message_or_says_why_not(members: dict[str, Any]) -> None:
    message, _ = read(json.dumps(members))
    assert isinstance(message, ANY_MESSAGE)
    id = members.get("id")
    if isinstance(message, Malformed):
        assert message.error.code == INVALID_REQUEST
        assert not (message.answers and "method" in members)
        if message.id is not None:
            assert message.id == id
    elif isinstance(message, Request):
        assert message.id == id
        assert type(message.id) is type(id)
    elif isinstance(message, Notification):
        assert "id" not in members


@settings(max_examples=100)
@given(
    st.integers() | st.text(st.characters(codec="utf-8")),
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), JSON, max_size=3),
)
def test_what_is_written_is_read_back(id: Any, method: str, params: dict[str, Any]) -> None:
    message = decode(jsonrpc.encode(Request(id, method, params)))
    assert (message.id, message.method) == (id, method)
    assert json.loads(bytes(message.params)) == params
