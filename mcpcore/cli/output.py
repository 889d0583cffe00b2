"""What is printed and where: results on stdout, everything else on stderr.

JSON leaves as the bytes that came. Text for people is shown with its control characters escaped:
what a server sends must not be able to move the cursor or rewrite what stands on the terminal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import IO, NoReturn

import click

# The exit codes.
OK = 0
TOOL_ERROR = 1
USAGE = 2
PROTOCOL = 3
CONNECTION = 4
DEFECT = 70
"""Something failed inside mcpcore itself: `EX_SOFTWARE` of sysexits.h."""
NOBODY_READS = 141
"""As a shell reports a program that SIGPIPE ended."""
INTERRUPTED = 130
"""As a shell reports a program that SIGINT ended: 128 and the number of the signal."""

# The C0 and C1 controls but for tab and line feed, and the marks that turn the direction of text.
_UNSEEN = [
    *range(9),
    *range(11, 32),
    *range(127, 160),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
]
_ESCAPES = {code: f"\\u{code:04x}" for code in _UNSEEN}


def visible(text: str) -> str:
    """`text` with nothing in it that a terminal would obey. What was JSON still is."""
    return text.translate(_ESCAPES)


def say(line: str) -> None:
    """Tell something that is no result."""
    _write(line, sys.stderr)


def write(text: str) -> None:
    """Print to stdout as it is. Raises `click.exceptions.Exit` if that fails."""
    _write(text, sys.stdout)


def show(text: str) -> None:
    """Print a result for people."""
    write(visible(text))


def show_json(data: bytes) -> None:
    """Print a result for programs, digit for digit, on one line."""
    try:
        click.echo(data.replace(b"\n", b" "))
    except OSError as error:
        _output_failed(error)


def _write(text: str, stream: IO[str]) -> None:
    # Whatever the encoding of the stream is, a character that it lacks is no reason to fail.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    printable = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        click.echo(printable, err=stream is sys.stderr)
    except OSError as error:
        if stream is sys.stdout:
            _output_failed(error)


def _output_failed(error: OSError) -> NoReturn:
    """Nobody reads the result any more, or there is no room for it. Not the tool's error."""
    # What sits in the buffer is tried again at exit, and must not fail again.
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    if error.errno == errno.EPIPE:
        # Whoever read it has seen enough, as with `| head`.
        raise click.exceptions.Exit(NOBODY_READS) from None
    say(f"error: the result cannot be written: {error.strerror or error}")
    raise click.exceptions.Exit(CONNECTION) from None
