"""What a session says on stderr while it runs and at its end, each in one line."""

from __future__ import annotations

import logging

import msgspec

from mcpcore import types as t
from mcpcore.cli.output import CONNECTION, PROTOCOL, say, visible
from mcpcore.client import ForgivenReport
from mcpcore.errors import ConnectionLost, HttpError, McpError, RequestFailed, RequestTimeout
from mcpcore.protocol.events import Progress
from mcpcore.rules import RULES


def say_error(error: McpError) -> int:
    """Tell in one line what went wrong; give the exit code for it."""
    if isinstance(error, ConnectionLost):
        # What the server wrote to its stderr has been shown already.
        text = error.reason
    elif isinstance(error, RequestTimeout):
        text = f"no answer to {error.method} within {error.seconds:g} s; --timeout raises the limit"
    elif isinstance(error, RequestFailed) and error.data is not None:
        text = f"{error}; data: {msgspec.json.encode(error.data).decode()}"
    else:
        text = str(error)
    say(f"error: {visible(_one_line(text))}")
    lost = isinstance(error, ConnectionLost | HttpError | RequestTimeout)
    return CONNECTION if lost else PROTOCOL


def say_progress(progress: Progress) -> None:
    total = "" if progress.total is None else f"/{progress.total:g}"
    message = f" {progress.message}" if progress.message else ""
    say(visible(_one_line(f"progress: {progress.progress:g}{total}{message}")))


def say_log(message: t.LoggingMessageParams) -> None:
    origin = f" ({message.logger})" if message.logger else ""
    data = message.data
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    say(visible(_one_line(f"log: {message.level}{origin}: {text}")))


def say_forgiven(report: ForgivenReport) -> None:
    """Tell what the server got wrong and was forgiven."""
    seen = {forgiven.rule: forgiven.detail for forgiven in report.recent}
    for rule, times in sorted(report.counts.items()):
        detail = f" Last seen: {seen[rule]}" if rule in seen else ""
        line = f"forgiven: {rule}, {times} times: {RULES[rule].sentence}{detail}"
        say(visible(_one_line(line)))


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _SayRecords(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # What was forgiven is told at the end, by `say_forgiven`.
        if record.module != "forgiven":
            cause = f": {record.exc_info[1]!r}" if record.exc_info else ""
            text = _one_line(record.getMessage() + cause)
            say(f"{record.levelname.lower()}: {visible(text)}")


def say_warnings() -> None:
    """Show what the library logs from warnings up, each in a line."""
    logger = logging.getLogger("mcpcore")
    logger.handlers = [_SayRecords(logging.WARNING)]
    logger.propagate = False
