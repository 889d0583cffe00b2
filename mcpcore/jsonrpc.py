"""JSON-RPC 2.0: bytes to messages and back.

One envelope with every member is decoded in a single pass, `params` and `result` stay raw bytes
until somebody wants them, then the envelope is classified by which members it holds. That gives
the four kinds of message, a batch of them, or `Malformed`: what came in but is no message. Nothing
in here raises for what a peer sent.

Rests on JSON-RPC 2.0 (sections 4 to 6) and the base page of the MCP specification, which is
stricter: ids are strings or whole numbers and never null, `params` is an object.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

RequestId = int | str
"""Kept by value and type: `7` and `"7"` are two ids."""

# The error codes that JSON-RPC itself fixes (section 5.1); those of MCP stand in `revisions.CODES`.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

EXCERPT = 200
"""How many characters of a bad message are quoted in reports: enough to recognise it."""


class ErrorObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `error` member. `data` is any JSON value; absent is `UNSET`, since null means something."""

    code: int
    message: str
    data: Any = UNSET


class Request(msgspec.Struct, frozen=True):
    """Asks for exactly one answer. Received `params` are `Raw` or `UNSET`; sent ones are any object
    that encodes to a JSON object.
    """

    id: RequestId
    method: str
    params: Any = UNSET


class Notification(msgspec.Struct, frozen=True):
    """Wants no answer and gets none."""

    method: str
    params: Any = UNSET


class Response(msgspec.Struct, frozen=True):
    """A successful answer. Received `result` is `Raw`."""

    id: RequestId
    result: Any


class ErrorResponse(msgspec.Struct, frozen=True):
    """An error answer. `id` is None when the sender could not read the id of the request."""

    id: RequestId | None
    error: ErrorObject


class Malformed(msgspec.Struct, frozen=True):
    """Something came in that is no message.

    `error` is what JSON-RPC prescribes as the answer; `id` the id, where one could be read; `answers`
    says that it looks like an answer rather than a request, so that nothing may be sent back;
    `notifies` that it looks like a notification; `either` that it may be a broken request or a broken
    answer, by its looks; `excerpt` is the beginning of it; `rule` the rule that it breaks, empty where it
    is only too long.
    """

    error: ErrorObject
    excerpt: str
    id: RequestId | None = None
    answers: bool = False
    notifies: bool = False
    either: bool = False
    rule: str = "JRPC-18"


Message = Request | Notification | Response | ErrorResponse


class Batch(msgspec.Struct, frozen=True):
    """An array of messages, in their order, each with its own notes. It has at least one member."""

    members: tuple[tuple[Message | Malformed, tuple[str, ...]], ...]


class _Envelope(msgspec.Struct):
    """Every member that any message has: decoded in one pass, classified afterwards."""

    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    jsonrpc: str = ""


class _Readable(msgspec.Struct):
    """The members that say what a broken envelope was meant to be."""

    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Outgoing(msgspec.Struct, omit_defaults=True):
    """Every member that any message has, to be written."""

    jsonrpc: str
    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Any = UNSET
    result: Any = UNSET
    error: ErrorObject | UnsetType = UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_readable = msgspec.json.Decoder(_Readable).decode
_decode_id: Callable[[Any], RequestId] = msgspec.json.Decoder(int | str).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_error = msgspec.json.Decoder(ErrorObject).decode

_WHITE = b" \t\r\n"
_OPEN_BRACE = ord("{")


def decode(data: bytes, notes: list[str]) -> Message | Malformed | Batch:
    """Read one frame. Never raises.

    `data` is the whole frame without its line end. Numbers keep every digit, of duplicate members
    the last one counts, NaN and infinity are a parse error. Ids of rules (`mcpcore.rules`) that the
    sender broke without making the message unreadable are added to `notes`.
    """
    if not data.startswith(b"{") and is_batch(data):
        return _decode_batch(data, notes)
    try:
        # Members left raw are skipped by the decoder, which does not look at their encoding.
        if not data.isascii():
            data.decode()
        envelope = _decode_envelope(data)
    except msgspec.ValidationError:
        return _broken(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        mended = mend_surrogates(data)
        if mended is None:
            return _unparsable(data, error)
        notes.append("JSON-01")
        return decode(mended, notes)
    id, method, params = envelope.id, envelope.method, envelope.params
    if method is UNSET:
        return _classify_answer(envelope, data, notes)
    if envelope.jsonrpc != "2.0":
        known = None if id is UNSET else id
        return _invalid('jsonrpc must be "2.0"', data, known, notifies=id is UNSET)
    if params is not UNSET and memoryview(params)[0] != _OPEN_BRACE:
        if bytes(params) != b"null":
            known = None if id is UNSET else id
            return _invalid("params must be an object", data, known, notifies=id is UNSET)
        notes.append("JRPC-14")
        params = UNSET
    if id is UNSET:
        return Notification(method, params)
    if id is None:
        return _invalid("the id of a request is a string or an integer, never null", data)
    return Request(id, method, params)


def _classify_answer(envelope: _Envelope, data: bytes, notes: list[str]) -> Message | Malformed:
    result, error = envelope.result, envelope.error
    id = None if envelope.id is UNSET else envelope.id
    if envelope.jsonrpc != "2.0" and (result is not UNSET or error is not UNSET):
        # An answer is matched by its id alone; failing the caller for this would help nobody.
        notes.append("JRPC-01")
    if result is not UNSET and error is not UNSET and bytes(error) == b"null":
        notes.append("JRPC-08")
        error = UNSET
    if result is not UNSET and error is UNSET and id is not None:
        if memoryview(result)[0] != _OPEN_BRACE:
            bad = _invalid("the result must be an object", data, id, answers=True)
            return msgspec.structs.replace(bad, rule="JRPC-09")
        return Response(id, result)
    if error is not UNSET and result is UNSET:
        try:
            return ErrorResponse(id, _decode_error(error))
        except (msgspec.DecodeError, RecursionError):
            return _invalid("an error needs an integer code and a message", data, id, answers=True)
    if result is not UNSET or error is not UNSET:
        return _invalid("an answer has an id and one of result and error", data, id, answers=True)
    bad = _invalid("neither a request, a notification nor an answer", data, id)
    return msgspec.structs.replace(bad, either=True)


MAX_BATCH = 1000
"""Messages in one batch. A batch is answered as a whole, so all of it is in memory at once."""

MAX_BATCH_SIZE = 4 * 1024 * 1024
"""Bytes of one batch: an array of nothing useful costs many times its size to take apart."""


def is_batch(data: bytes) -> bool:
    """Whether a frame is an array, by its first character."""
    return data.lstrip(_WHITE).startswith(b"[")


def refuse_batch(data: bytes, reason: str) -> Malformed:
    """What to answer to an array that is not taken apart: that it is no JSON, or `reason`."""
    try:
        _decode_raw(data)
    except (msgspec.DecodeError, RecursionError) as error:
        mended = mend_surrogates(data)
        return _unparsable(data, error) if mended is None else refuse_batch(mended, reason)
    return _invalid(reason, data)


def _decode_batch(data: bytes, notes: list[str]) -> Malformed | Batch:
    if len(data) > MAX_BATCH_SIZE:
        return refuse_batch(data, f"a batch of more than {MAX_BATCH_SIZE} bytes")
    try:
        items = _decode_list(data)
    except (msgspec.DecodeError, RecursionError) as error:
        mended = mend_surrogates(data)
        if mended is None:
            return _unparsable(data, error)
        notes.append("JSON-01")
        return _decode_batch(mended, notes)
    if not items:
        return _invalid("an empty batch", data)
    if len(items) > MAX_BATCH:
        return _invalid(f"a batch of more than {MAX_BATCH} messages", data)
    members: list[tuple[Message | Malformed, tuple[str, ...]]] = []
    for item in items:
        member = bytes(item)
        found = list(notes)
        one = decode(member, found)
        if isinstance(one, Batch):
            one = _invalid("a batch in a batch", member)
        members.append((one, tuple(found)))
    return Batch(tuple(members))


def _broken(data: bytes) -> Malformed:
    """JSON, but no envelope: find out which id it had and whether it was meant as an answer."""
    try:
        seen = _decode_readable(data)
    except msgspec.ValidationError:
        return _invalid("a message must be an object", data)
    except (msgspec.DecodeError, RecursionError) as error:
        mended = mend_surrogates(data)
        return _unparsable(data, error) if mended is None else _broken(mended)
    id = _readable_id(seen.id)
    if seen.method is UNSET:
        answers = seen.result is not UNSET or seen.error is not UNSET
        return _invalid("the envelope breaks JSON-RPC 2.0", data, id, answers=answers)
    if seen.id is UNSET:
        return _invalid("the method must be a string", data, notifies=True)
    if id is None:
        return _invalid("the id of a request is a string or an integer", data)
    if not bytes(seen.method).startswith(b'"'):
        return _invalid("the method must be a string", data, id)
    return _invalid("the envelope breaks JSON-RPC 2.0", data, id)


def _readable_id(raw: Raw | UnsetType) -> RequestId | None:
    if raw is UNSET:
        return None
    try:
        return _decode_id(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _invalid(
    message: str,
    data: bytes,
    id: RequestId | None = None,
    *,
    answers: bool = False,
    notifies: bool = False,
) -> Malformed:
    bad = ErrorObject(INVALID_REQUEST, f"Invalid request: {message}")
    rule = "JRPC-08" if answers else "JRPC-18"
    return Malformed(bad, excerpt(data), id, answers, notifies, rule=rule)


def _unparsable(data: bytes, error: Exception) -> Malformed:
    if isinstance(error, RecursionError):
        why = "nested too deeply"
    elif isinstance(error, UnicodeDecodeError):
        why = f"invalid UTF-8 at byte {error.start}"
    else:
        why = str(error)
    return Malformed(ErrorObject(PARSE_ERROR, f"Parse error: {why}"), excerpt(data), rule="JRPC-17")


def excerpt(data: bytes) -> str:
    """The beginning of `data` as one printable line, for reports."""
    text = data[: EXCERPT + 1].decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:EXCERPT])
    return shown + "..." if len(data) > EXCERPT else shown


# JavaScript writes half of a surrogate pair as an escape, which is legal JSON grammar but no Unicode.
# An escape begins with an odd number of backslashes. The run of them is looked at once, from its start,
# or a line of nothing but backslashes would take for ever.
_SURROGATE = re.compile(
    rb"(?<!\\)(\\++)u(?:[dD][89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?"
    rb"|[dD][c-fC-F][0-9a-fA-F]{2})"
)


def mend_surrogates(data: bytes) -> bytes | None:
    """Replace escapes of lone surrogates by U+FFFD; None when there are none to replace."""
    found = False

    def mend(match: re.Match[bytes]) -> bytes:
        nonlocal found
        backslashes, low = match.group(1), match.group(2)
        escaped = len(backslashes) % 2 == 0
        if (low is not None) is not escaped:
            return match.group()  # a whole pair, or just text
        found = True
        if escaped:
            return match.group()[: -len(low or b"")] + b"\\ufffd"
        return backslashes[:-1] + b"\\ufffd"

    mended = _SURROGATE.sub(mend, data)
    return mended if found else None


write = msgspec.json.Encoder().encode
"""Writes an `Outgoing`, or any other object, as JSON on one line: JSON holds no raw line feed."""


def outgoing(message: Message) -> Outgoing:
    """The envelope of a message that is about to be sent."""
    if isinstance(message, Response):
        return Outgoing("2.0", id=message.id, result=message.result)
    if isinstance(message, Request):
        return Outgoing("2.0", message.id, message.method, message.params)
    if isinstance(message, Notification):
        return Outgoing("2.0", method=message.method, params=message.params)
    return Outgoing("2.0", id=UNSET if message.id is None else message.id, error=message.error)


def encode(message: Message) -> bytes:
    """Write a message as one line without its line end."""
    return write(outgoing(message))


def is_notification(data: bytes) -> bool:
    """Whether a message that was written here is a notification: its method comes where others have an id."""
    return data.startswith(b'{"jsonrpc":"2.0","method"')


def encode_batch(messages: list[bytes]) -> bytes:
    """Join encoded messages into one array."""
    return b"[" + b",".join(messages) + b"]"
