"""Headers that repeat what a request says: for those between client and server who read no bodies.

A request of the stateless era over HTTP names its revision, its method and what it is about in headers as
well, and the arguments that its tool marks with `x-mcp-header`. The body stays the truth: the client makes
the headers of it (`headers_of`), and a server that finds them to differ refuses the request (`judge`),
because somebody on the way may have decided by them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from mcpcore.jsonrpc import Request
from mcpcore.protocol.headers import PROTOCOL_VERSION
from mcpcore.revisions import REVISIONS, Revision, Role, method_row

METHOD = "mcp-method"
NAME = "mcp-name"
PARAMETER = "mcp-param-"
MARK = "x-mcp-header"
"""The keyword of a property's schema that names the header of an argument."""

Path = tuple[str, ...]
"""Where an argument stands: the names that lead to it from the root."""

LARGEST = 2**53 - 1
"""The largest integer that every reader of a header takes for what it is (HDR-37)."""

_CLIENT: Role = "client"
_PLAIN = re.compile(r"[!-~](?:[ -~]*[!-~])?|")
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


# Values.


def encode(value: str) -> str:
    """A string as a header value: as it is where a header can hold it, in Base64 between markers where
    not, or where it looks like that (HDR-18 to HDR-20).
    """
    if _PLAIN.fullmatch(value) and not _SENTINEL.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decode(value: str) -> str:
    """What a header value means. Raises ValueError for one that cannot be."""
    sentinel = _SENTINEL.fullmatch(value)
    if sentinel is not None:
        return base64.b64decode(sentinel[1], validate=True).decode()
    if any(not (" " <= character <= "~" or character == "\t") for character in value):
        raise ValueError("a character that no header has")
    return value


def render(value: Any) -> str | None:
    """An argument as the string that its header holds; None for one that has no header.

    Raises ValueError for an integer that a header would not carry safely (HDR-54).
    """
    # A bool is an int too, and a number that came as 42.0 is the integer 42.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        if abs(value) > LARGEST:
            raise ValueError(f"{value} is beyond what a header carries safely")
        return str(value)
    return value if isinstance(value, str) else None


def _equal(header: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return header == render(value)
    try:
        return float(header) == value
    except (ValueError, OverflowError):
        return False


# Which arguments a tool wants to see in headers.


class BadMark(ValueError):
    """A schema marks an argument in a way that makes the tool's definition invalid."""


def marked(schema: Any) -> dict[str, Path]:
    """The arguments that a tool's input schema marks: where they stand, by lower-case header name after
    `mcp-param-`. Raises `BadMark` (HDR-33 to HDR-39).
    """
    found: dict[str, Path] = {}
    for path, mark, kind in _marks(schema, ()):
        if path is None:
            raise BadMark(f"{MARK} stands where no argument can be told: {mark!r}")
        if not isinstance(mark, str) or not _TOKEN.fullmatch(mark):
            raise BadMark(f"{mark!r} is no name for a header")
        if kind not in ("string", "integer", "boolean"):
            raise BadMark(f"{'.'.join(path)} is of type {kind!r}, which no header holds")
        if mark.lower() in found:
            raise BadMark(f"{mark!r} names two arguments")
        found[mark.lower()] = path
    return found


def _marks(schema: Any, path: Path | None) -> Iterator[tuple[Path | None, Any, Any]]:
    """Every mark in a schema, with the path of its argument; None for one that is not reached by
    `properties` alone.
    """
    if isinstance(schema, list):
        for item in schema:
            yield from _marks(item, None)
    if not isinstance(schema, dict):
        return
    if MARK in schema:
        yield path or None, schema[MARK], schema.get("type")
    for keyword, value in schema.items():
        if keyword in ("const", "default", "enum", "examples", MARK):
            continue
        if keyword in ("properties", "$defs", "definitions", "patternProperties") and isinstance(
            value, dict
        ):
            direct = keyword == "properties" and path is not None
            for name, inner in value.items():
                yield from _marks(inner, (*path, name) if direct and path is not None else None)
        else:
            yield from _marks(value, None)


# The client's headers.


class _Params(msgspec.Struct):
    name: Any = UNSET
    uri: Any = UNSET
    task_id: Any = msgspec.field(default=UNSET, name="taskId")
    arguments: Raw = Raw()


_read = msgspec.json.Decoder(_Params).decode


def headers_of(
    request: Request, version: str, marked: Mapping[str, Mapping[str, Path]]
) -> list[tuple[str, str]]:
    """The headers that repeat a request of a client, whose body names the revision `version`. `marked` are
    the arguments that tools want repeated, by tool. Raises ValueError for one that no header can carry.
    """
    headers = [(PROTOCOL_VERSION, version), (METHOD, request.method)]
    revision = REVISIONS.get(version)
    member = _naming(request.method, revision) if revision is not None else None
    if member is None:
        return headers
    params = _read(request.params)
    name = getattr(params, _ATTRIBUTES[member])
    if isinstance(name, str):
        headers.append((NAME, encode(name)))
        paths = marked.get(name) if request.method == "tools/call" else None
        if paths:
            arguments = msgspec.json.decode(params.arguments) if bytes(params.arguments) else {}
            for header, path in paths.items():
                text = render(_at(arguments, path))
                if text is not None:
                    headers.append((PARAMETER + header, encode(text)))
    return headers


# The server's judgement.


def judge(
    headers: Mapping[str, str],
    request: Request,
    named: str | None,
    spoken: Sequence[Revision],
    parameters: Mapping[str, Mapping[str, Path]],
) -> str | None:
    """What is wrong with the headers of a request, whose `_meta` names a revision or not; None if nothing
    is. `parameters` are the marked arguments of tools, by name.
    """
    version = headers.get(PROTOCOL_VERSION)
    if version is None:
        return f"{PROTOCOL_VERSION} is missing; it is {named!r} in the body"
    if named is not None and version != named:
        return f"{PROTOCOL_VERSION} is {version[:40]!r}, but {named[:40]!r} in the body"
    revision = next((row for row in spoken if row.name == version), None)
    if revision is None or named is None:
        # The body is the truth: what it lacks it is refused for.
        return None
    if headers.get(METHOD) != request.method:
        return _differs(METHOD, headers.get(METHOD), request.method)
    member = _naming(request.method, revision)
    if member is None:
        return None
    try:
        params = _read(request.params)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return None
    name = getattr(params, _ATTRIBUTES[member])
    if not isinstance(name, str):
        return None
    try:
        given = decode(headers[NAME]) if NAME in headers else None
    except ValueError:
        return f"{NAME} cannot be decoded"
    if given != name:
        return _differs(NAME, given, name)
    wanted = parameters.get(name) if request.method == "tools/call" else None
    return _judge_parameters(headers, params.arguments, wanted) if wanted else None


_ATTRIBUTES = {"name": "name", "uri": "uri", "taskId": "task_id"}


def _judge_parameters(
    headers: Mapping[str, str], raw: Raw, wanted: Mapping[str, Path]
) -> str | None:
    arguments = msgspec.json.decode(raw) if bytes(raw) else {}
    for name, path in wanted.items():
        value, header = _at(arguments, path), headers.get(PARAMETER + name)
        if isinstance(value, dict | list):
            # It fits no schema that marks it; whoever checks the arguments says so.
            continue
        if header is None or value is None:
            if header is not None or value is not None:
                return _differs(PARAMETER + name, header, value)
            continue
        try:
            given = decode(header)
        except ValueError:
            return f"{PARAMETER + name} cannot be decoded"
        if not _equal(given, value):
            return _differs(PARAMETER + name, given, value)
    return None


def _differs(name: str, header: str | None, body: Any) -> str:
    if header is None:
        return f"{name} is missing; it is {str(body)[:80]!r} in the body"
    return f"{name} is {header[:80]!r}, but {str(body)[:80]!r} in the body"


def _naming(method: str, revision: Revision) -> str | None:
    row = method_row(method, _CLIENT, revision)
    return row.named_by if row is not None else None


def _at(value: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
