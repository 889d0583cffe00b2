"""URI templates (RFC 6570, levels 1 to 3), read in both directions.

Expansion (RFC 6570 section 3) turns values into a URI. Matching, which the RFC leaves open
(section 1.4), turns a URI back into values, so that a server can route a read to a template.
One table of operators, after RFC 6570 appendix A, drives both.

Matching cuts the URI into tokens, each a character that is plain (RFC 3986 sections 2.2, 2.3) or
one that is escaped, and walks a graph of states built from the template. No pair of state and
position is entered twice: whatever the URI, the work is at most its length times the template's.
Escapes are decoded once, as strict UTF-8: ``%252e`` gives the text ``%2e``.
"""

import re
from collections.abc import Mapping
from string import ascii_letters, digits
from typing import NamedTuple
from urllib.parse import quote, unquote

_RESERVED = ":/?#[]@!$&'()*+,;="
_UNRESERVED = frozenset(ascii_letters + digits + "-._~")
_PLAIN = _UNRESERVED.union(_RESERVED)

_EXPRESSION = re.compile(r"(\{[^{}]*\})")
_NAME = re.compile(r"(?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*", re.ASCII)
_ESCAPE = re.compile(r"(%[0-9A-Fa-f]{2})")
_RUN = re.compile(rf"(?:%[0-9A-Fa-f]{{2}})+|[{re.escape(''.join(_PLAIN))}]+|.", re.DOTALL)
# RFC 6570 section 2.1, except that the apostrophe is let in: RFC 3986 has it plain.
_NOT_LITERAL = re.compile(r'[\x00-\x20"<>\\^`{|}\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})')


class TraversalRefused(ValueError):
    """The URI fits the template, but a value in it could lead outside the place it names."""


class _Operator(NamedTuple):
    first: str
    separator: str
    if_empty: str | None  # What follows the name of an empty value; None: names are not written.
    keeps: str  # The reserved characters that expansion leaves plain.
    ends_value: str  # Plain characters that no value holds. The RFC has no such column.


_OPERATORS = {
    "": _Operator("", ",", None, "", "/?#"),
    "+": _Operator("", ",", None, _RESERVED, ""),
    "#": _Operator("#", ",", None, _RESERVED, ""),
    ".": _Operator(".", ".", None, "", "/?#"),
    "/": _Operator("/", "/", None, "", "/?#"),
    ";": _Operator(";", ";", "", "", "/?#;"),
    "?": _Operator("?", "&", "=", "", "&#"),
    "&": _Operator("&", "&", "=", "", "&#"),
}

_Part = str | tuple[_Operator, list[str]]  # A literal, or an expression and its variables.


class _Edge(NamedTuple):
    target: int
    literal: list[str]  # The tokens it consumes, perhaps none.
    variable: str  # The variable that starts here or, with ``bars``, takes the character.
    bars: frozenset[str] | None = None  # Instead of a literal: it consumes any token but these.


class UriTemplate:
    """A URI template: ``template`` is its text, ``variables`` the names in order of appearance.

    Creation raises ValueError, with position and reason, for unbalanced braces, an empty
    expression, a bad or repeated name, text that no URI can hold, and the level 4 modifiers
    ``*`` and ``:length``, which are not supported.
    """

    template: str
    variables: tuple[str, ...]

    def __init__(self, template: str) -> None:
        self.template = template
        self._operators: dict[str, _Operator] = {}
        self._parts = _parse(template, self._operators)
        self.variables = tuple(self._operators)
        self._graphs = [_build_graph(self._parts, lenient=each) for each in (False, True)]

    def expand(self, values: Mapping[str, str]) -> str:
        """Give the URI for ``values``: variables without one vanish, unknown names are ignored.

        Raises TypeError for a value that is not a string, ValueError for a lone surrogate.
        """
        return "".join(
            _encode(part, _RESERVED) if isinstance(part, str) else _expand_expression(*part, values)
            for part in self._parts
        )

    def match(self, uri: str, *, allow_traversal: bool = False) -> dict[str, str] | None:
        """Give the decoded values in ``uri``, or None when it does not fit or is malformed.

        Literals are compared exactly, save the case of hex digits; a character that must be
        escaped may also stand bare. ``{x}`` and ``{+x}`` take one or more characters, ``{x}`` no
        plain ``/``, ``?`` or ``#``. The other expressions may be absent, their variables then
        missing in the result, and take empty values too. Named parameters (``;``, ``?``, ``&``)
        come in any order, each at most once; an unknown one does not fit.

        ``match(expand(values)) == values`` unless other values expand to an equivalent URI:

        - ``{x}`` and ``{+x}`` with an empty value, as with none: this does not fit.
        - ``{x,y}`` and ``{/x,y}`` with one value: it is given to the first name.
        - ``{+x}`` and ``{#x}`` with text such as ``%41``, which comes back as ``A``.
        - ``{a}{b}``, ``{+a}/{b}``, ``{a}-{b}`` with ``-`` in a value, and the like. An expression
          is present if it can be; then each value, from the left, is the shortest that lets the
          whole URI fit. A reading whose values are escaped as ``expand`` does it goes first.
        - ``{+x}{?a}`` with text such as ``?a=1&a=2`` in ``x``: a parameter given twice, no fit.

        Unless ``allow_traversal``, TraversalRefused is raised when the URI fits but a value has
        a segment ``.`` or ``..``, a backslash or NUL, starts with ``/`` (``{+x}``), or holds any
        ``/`` (``{x}``, ``{.x}``, ``{/x}``, ``{;x}``).
        """
        try:
            tokens = _tokenise(uri)
        except ValueError:
            return None
        readings = (_read(graph, tokens) for graph in self._graphs)
        values = next((reading for reading in readings if reading is not None), None)
        for name, value in (values or {}).items():
            danger = _danger(self._operators[name], value)
            if danger and not allow_traversal:
                raise TraversalRefused(f"the value of {name!r} {danger}")
        return values


def _malformed(position: int, reason: str) -> ValueError:
    return ValueError(f"malformed URI template at position {position}: {reason}")


def _parse(template: str, operators: dict[str, _Operator]) -> list[_Part]:
    parts: list[_Part] = []
    position = 0
    for index, piece in enumerate(_EXPRESSION.split(template)):
        if index % 2:
            parts.append(_parse_expression(piece[1:-1], position + 1, operators))
        elif wrong := _NOT_LITERAL.search(piece):
            reason = "unbalanced brace" if wrong[0] in "{}" else f"{wrong[0]!r} must be escaped"
            raise _malformed(position + wrong.start(), reason)
        else:
            parts.append(piece)
        try:
            _tokenise(piece)
        except UnicodeDecodeError:
            raise _malformed(position, f"the escapes in {piece!r} are not UTF-8") from None
        position += len(piece)
    return parts


def _parse_expression(body: str, position: int, operators: dict[str, _Operator]) -> _Part:
    symbol = body[:1] if body[:1] in _OPERATORS else ""
    names = body[len(symbol) :].split(",")
    position += len(symbol)
    if names == [""]:
        raise _malformed(position, "the expression names no variable")
    for name in names:
        if modifier := re.search("[*:]", name):
            reason = f"the level 4 modifier {modifier[0]!r} is not supported"
            raise _malformed(position + modifier.start(), reason)
        if not _NAME.fullmatch(name):
            raise _malformed(position, f"{name!r} is not a variable name")
        if name in operators:
            raise _malformed(position, f"the variable {name!r} is repeated")
        operators[name] = _OPERATORS[symbol]
        position += len(name) + 1
    return _OPERATORS[symbol], names


def _tokenise(text: str) -> list[str]:
    """Cut ``text`` into plain characters, and ``%`` followed by the character escaped."""
    text.encode()  # Raises for a lone surrogate.
    tokens: list[str] = []
    for run in _RUN.findall(text):
        if run == "%":
            raise ValueError("'%' without two hex digits")
        plain = run[0] in _PLAIN
        tokens.extend(run if plain else ["%" + each for each in unquote(run, errors="strict")])
    return tokens


def _encode(text: str, keeps: str) -> str:
    # With reserved characters, escapes are kept as well; they are every second piece.
    pieces = _ESCAPE.split(text) if keeps else [text]
    pieces[::2] = [quote(piece, safe=keeps) for piece in pieces[::2]]
    return "".join(pieces)


def _expand_expression(operator: _Operator, names: list[str], values: Mapping[str, str]) -> str:
    items = []
    for name in (name for name in names if name in values):
        if not isinstance(value := values[name], str):
            raise TypeError(f"the value of {name!r} must be a string")
        label = "" if operator.if_empty is None else name + ("=" if value else operator.if_empty)
        items.append(label + _encode(value, operator.keeps))
    return operator.first + operator.separator.join(items) if items else ""


def _build_graph(parts: list[_Part], *, lenient: bool) -> list[list[_Edge]]:
    """Give the edges of each state, the preferred first; state 0 starts, the last one ends."""
    graph: list[list[_Edge]] = [[]]

    def state() -> int:
        graph.append([])
        return len(graph) - 1

    def link(source: int, target: int, literal: str = "", variable: str = "") -> None:
        graph[source].append(_Edge(target, _tokenise(literal), variable))

    current = 0
    for part in parts:
        start, begin, current = current, state(), state()
        if isinstance(part, str):
            link(start, current, part)
            continue
        operator, names = part
        kept = _UNRESERVED.union(operator.keeps)
        strict = (_PLAIN - kept).union("%" + character for character in kept)
        bars = frozenset(operator.ends_value) if lenient else strict
        link(start, begin, operator.first)
        if operator.first:
            link(start, current)
        named = operator.if_empty is not None
        for name in names:
            value, following = state(), begin if named else state()
            # Without a first character, only some content shows that there is a value.
            opening = value if operator.first or name != names[0] else state()
            link(begin, opening, name + "=" if named else "", name)
            if operator.if_empty == "":
                link(begin, current, name, name)
                link(begin, following, name + operator.separator, name)
            link(value, current)
            for source in {opening, value}:
                link(source, following, operator.separator)
                graph[source].append(_Edge(value, [], name, bars))
            begin = following
    link(current, state())
    return graph


def _read(graph: list[list[_Edge]], tokens: list[str]) -> dict[str, str] | None:
    """Collect the values on the preferred walk through ``graph`` that consumes all ``tokens``."""
    entered = bytearray(len(graph) * (len(tokens) + 1))
    path: list[tuple[str, str]] = []  # For each step, the variable that starts or its character.
    waiting = [(0, 0, 0, ("", ""))]
    while waiting:
        state, position, depth, step = waiting.pop()
        if entered[position * len(graph) + state]:
            continue
        entered[position * len(graph) + state] = True
        path[depth:] = [step]
        if position == len(tokens) and state == len(graph) - 1:
            return _collect(path)
        token = tokens[position] if position < len(tokens) else ""
        for target, literal, name, bars in reversed(graph[state]):
            if bars is None:
                end = position + len(literal)
                if tokens[position:end] == literal:
                    waiting.append((target, end, depth + 1, (name, "")))
            elif token and token not in bars:
                waiting.append((target, position + 1, depth + 1, (name, token[-1])))
    return None


def _collect(path: list[tuple[str, str]]) -> dict[str, str] | None:
    values: dict[str, list[str]] = {}
    for name, character in path:
        if character:
            values[name].append(character)
        elif name in values:
            return None  # A parameter is given twice.
        elif name:
            values[name] = []
    return {name: "".join(characters) for name, characters in values.items()}


def _danger(operator: _Operator, value: str) -> str:
    if "\\" in value or "\0" in value:
        return "holds a backslash or NUL"
    if not {".", ".."}.isdisjoint(value.split("/")):
        return "holds a '.' or '..' segment"
    if "/" in value and "/" in operator.ends_value:
        return "holds a '/'"
    if value.startswith("/") and operator is _OPERATORS["+"]:
        return "is an absolute path"
    return ""
