"""`mcpcore tour`: a whole session with a real server, frame by frame.

Nothing is staged. A client of this library talks to a child process, or to a server over HTTP; a
`TapChannel` between them shows what crosses, and each step checks that what should happen did.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import io
import itertools
import shlex
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import click
import trio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcpcore.cli import describe
from mcpcore.cli.frames import Story, Told
from mcpcore.cli.output import (
    PROTOCOL,
    TOOL_ERROR,
    say,
    visible,
    write,
)
from mcpcore.cli.reports import say_warnings
from mcpcore.cli.running import run
from mcpcore.cli.serve import find_server, load
from mcpcore.client import Client, connect
from mcpcore.protocol.events import Progress
from mcpcore.revisions import ALL, HANDSHAKE, STATELESS
from mcpcore.rules import RULES
from mcpcore.runtime import single
from mcpcore.transport import StdioServer, start_server
from mcpcore.transport.channel import Channel
from mcpcore.transport.tap import Direction, TapChannel
from mcpcore.transport.web import HttpServer
from mcpcore.types import CallToolResult
from mcpcore.waiting import Timeouts

PATIENCE = 30.0
"""Seconds for each answer: plenty on a slow machine, and the tour still ends."""

ARROWS = {"sent": ("-->", "cyan"), "received": ("<--", "green")}


class Unexpected(Exception):
    """The session works, but not as a step of the tour says. `code` is the exit code for it."""

    def __init__(self, message: str, code: int = PROTOCOL) -> None:
        super().__init__(message)
        self.code = code


class Tour:
    """Prints the steps and the frames. With `full` no frame is cut to the width of the screen."""

    def __init__(self, *, full: bool) -> None:
        self.story = Story()
        self.frames = 0
        self.broken: set[str] = set()
        self._full = full
        # Rich decides on colours and widths; printing is for `write`, which deals with its failure.
        self._styled = io.StringIO()
        self._console = Console(
            file=self._styled,
            force_terminal=sys.stdout.isatty(),
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._steps = 0
        self._output_failed: click.exceptions.Exit | None = None

    def step(self, title: str, text: str) -> None:
        if self._output_failed is not None:
            raise self._output_failed
        self._steps += 1
        self._print(Text(f"\n{self._steps}. {title}", style="bold"))
        self._print(Text(self._filled(text, "   ")))
        self._print(Text())

    def frame(self, direction: Direction, data: bytes) -> None:
        """Show a frame that crosses, and what it is."""
        told = self.story.tell(direction, data)
        self.frames += 1
        arrow, style = ARROWS[direction]
        line = Text(f"{arrow} {visible(data.decode('utf-8', 'backslashreplace'))}", style=style)
        if not self._full:
            line.truncate(self._console.width, overflow="ellipsis")
        self._print(line)
        if told.broken:
            self.broken.add(told.rule.id)
        self._explain(told)

    def note(self, text: str) -> None:
        """What the caller of the client sees."""
        self._print(Text(self._filled(f"= {visible(text)}", "    "), style="bold"))

    def remark(self, text: str) -> None:
        """Something about the tour itself."""
        self._print(Text(self._filled(text, "    ")))

    def rule(self, what: str, id: str) -> None:
        """A rule that shows in something else than one frame."""
        self._explain(Told(what, RULES[id]))

    def side_by_side(self, columns: list[list[Text]]) -> None:
        """Print lines of frames in columns, each frame whole."""
        table = Table(box=None, padding=(0, 2, 1, 0), show_header=False, expand=True)
        for _ in columns:
            table.add_column(ratio=1, overflow="fold")
        for row in itertools.zip_longest(*columns, fillvalue=Text()):
            table.add_row(*row)
        self._print(table)

    def _explain(self, told: Told) -> None:
        verb = "BREAKS " if told.broken else ""
        text = f"{visible(told.what)}. {verb}{told.rule.id}: {told.rule.sentence}"
        line = Text(self._filled(text, "    "))
        line.highlight_regex(rf"{verb}{told.rule.id}", "red" if told.broken else "yellow")
        self._print(line)

    def _filled(self, text: str, indent: str) -> str:
        width = max(self._console.width, 40)
        return textwrap.fill(
            " ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent
        )

    def _print(self, line: Text | Table) -> None:
        """Print, from within the channel too, where an exception would have nowhere to go."""
        self._console.print(line, soft_wrap=isinstance(line, Text), end="")
        text = self._styled.getvalue()
        self._styled.seek(0)
        self._styled.truncate()
        try:
            if self._output_failed is None:
                write(text)
        except click.exceptions.Exit as error:
            self._output_failed = error


# The steps.


async def discovery(tour: Tour, client: Client) -> None:
    tools = await client.list_tools()
    await client.list_resources()
    await client.list_resource_templates()
    await client.list_prompts()
    tour.note(f"{len(tools)} tools: {', '.join(tool.name for tool in tools)}")


async def call(tour: Tour, client: Client) -> None:
    expression = "(3.5 * 10) / (2 + 3)"
    result = await client.call_tool("calculate_expression", {"expression": expression})
    if _text(result) not in ("7", "7.0"):
        raise Unexpected(f"{expression} should be 7, and the server says {_text(result)}")
    if result.validated:
        tour.rule("The client has checked the structured content", "TOOL-24")
    tour.note(f"{expression} = {_text(result)}")


async def progress(tour: Tour, client: Client) -> None:
    seen: list[Progress] = []
    result = await client.call_tool("count", {"to": 3, "pause": 0.1}, on_progress=seen.append)
    if not seen:
        raise Unexpected("the server gave no progress")
    tour.note(f"{_text(result)}; progress came {len(seen)} times")


async def cancelled_call(tour: Tour, client: Client) -> None:
    with trio.move_on_after(0.3) as scope:
        await client.call_tool("wait", {"seconds": 30})
    if not scope.cancelled_caught:
        raise Unexpected("the call that was to be cancelled had an answer at once")
    tour.note("the caller went on at once; the next request shows that all else goes on, too")
    await client.ping()
    if not tour.broken:
        tour.rule("No answer to the cancelled request came", "CANC-06")


async def tool_error(tour: Tour, client: Client) -> None:
    result = await client.call_tool("calculate_expression", {"expression": "1 / 0"})
    if not result.is_error:
        raise Unexpected("1 / 0 should be a tool error, and the server gave a result")
    tour.note(f"is_error, for the model to read: {result.text}")


async def resource(tour: Tour, client: Client) -> None:
    await client.read_resource("calculator://constants")
    result = await client.read_resource("calculator://constants/pi")
    tour.note(f"calculator://constants/pi: {' '.join(map(describe.contents, result.contents))}")


async def prompt(tour: Tour, client: Client) -> None:
    result = await client.get_prompt("explain", {"expression": "2^10"})
    for message in result.messages:
        tour.note(f"{message.role}: {describe.block(message.content)}")


def _text(result: CallToolResult) -> str:
    if result.is_error:
        raise Unexpected(f"a tool failed that should not: {result.text}", TOOL_ERROR)
    return result.text


STEPS: tuple[tuple[str, str, Callable[[Tour, Client], Awaitable[None]]], ...] = (
    (
        "Discovery",
        "Lists come in pages. The client hands each nextCursor back, until there is none.",
        discovery,
    ),
    (
        "A call",
        "The id of the request comes back with the answer: that is how the two find each other.",
        call,
    ),
    (
        "A call with progress",
        "Notifications come between request and answer. Their token says which call they mean.",
        progress,
    ),
    (
        "A cancelled call",
        "The caller waits 0.3 seconds for something that takes 30, and then no longer.",
        cancelled_call,
    ),
    (
        "A tool error",
        "What goes wrong in a tool is a result and no protocol error: the model should see it.",
        tool_error,
    ),
    (
        "A resource",
        "Read by URI: first one from the list, then one that a template describes.",
        resource,
    ),
    ("A prompt", "A prompt is a form: filled in, it gives messages for a model.", prompt),
)


async def walk(tour: Tour, server: StdioServer, revision: str = HANDSHAKE[0]) -> None:
    """The whole tour. Raises `Unexpected`, or what the client raises."""
    tour.step("Start", f"$ {shlex.join(server.words)}")
    tour.rule("Frames to its stdin are marked -->, those from its stdout <--", "STDIO-03")
    tour.remark("Long ones are cut; --full shows them whole. mcpcore/rules.py lists the rules.")
    channel = await start_server(server)
    async with _shown(tour, channel, revision) as client:
        tour.step("Shutdown", "There is no message for it. On pipes the end of the input says it.")
        start = trio.current_time()
        await client.aclose()
        seconds = trio.current_time() - start
        tour.broken.update(client.forgiven.counts)
        _check_end(tour, channel.exit_status, seconds, server.close_grace)


@asynccontextmanager
async def _shown(tour: Tour, channel: Channel, revision: str) -> AsyncIterator[Client]:
    """A client on `channel` whose frames are shown, after all steps but the last."""
    if revision in HANDSHAKE:
        tour.step("Handshake", "The two agree on a revision, and tell what each of them can do.")
    else:
        tour.step(
            "What the server is",
            "Nothing is agreed on: each request says in its _meta which revision it is in, and what its "
            "client can do.",
        )
    patient = Timeouts(connect=PATIENCE, request=PATIENCE)
    watched = TapChannel(channel, tour.frame)
    async with connect(watched, timeouts=patient, revisions=[revision]) as client:
        info = client.server_info
        tour.note(f"{info.name} {info.version}, revision {client.revision}")
        for title, text, step in STEPS:
            tour.step(title, text)
            await step(tour, client)
        yield client


async def walk_over_http(tour: Tour, url: str, revision: str = HANDSHAKE[0]) -> None:
    """The same tour, of a server at a URL."""
    # Optional extra: only those who go over HTTP need it.
    from mcpcore.transport.http_channel import HttpChannel  # noqa: PLC0415

    tour.step("Start", url)
    tour.rule("Each frame marked --> is a POST of its own", "HTTP-09")
    tour.rule("Those marked <-- are its answer, as JSON or as events of a stream", "HTTP-12")
    tour.remark("Long ones are cut; --full shows them whole. mcpcore/rules.py lists the rules.")
    async with _shown(tour, HttpChannel(HttpServer(url=url)), revision) as client:
        if revision in HANDSHAKE:
            words = "The client tells the server by DELETE that the session is done with."
        else:
            words = "There is nothing to end: no request left anything behind."
        tour.step("Shutdown", words)
        await client.aclose()
        tour.broken.update(client.forgiven.counts)
    if tour.broken:
        raise Unexpected(f"frames of the server broke rules: {', '.join(sorted(tour.broken))}")
    tour.note(f"{tour.frames} frames crossed, and all went as it should")


async def walk_with_example(tour: Tour, revision: str = HANDSHAKE[0]) -> None:
    """The tour over HTTP of the example, which is served for it in this process."""
    # Optional extra: only those who go over HTTP need it.
    from mcpcore.server.http.listener import serve_http  # noqa: PLC0415

    server = find_server(load(example_server()), None)
    stop = trio.Event()
    try:
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(partial(serve_http, server, port=0, stop=stop))
            try:
                await walk_over_http(tour, url, revision)
            finally:
                stop.set()
    except BaseExceptionGroup as group:
        raise single(group) from None


async def compare(tour: Tour, server: StdioServer) -> None:
    """The same call in both eras, and what crosses in each, side by side."""
    tour.step("One call in two eras", f"$ {shlex.join(server.words)}")
    columns: list[list[Text]] = []
    for revision in (HANDSHAKE[0], STATELESS[0]):
        column = [Text(revision, style="bold")]
        columns.append(column)

        def keep(direction: Direction, data: bytes, column: list[Text] = column) -> None:
            arrow, style = ARROWS[direction]
            tour.frames += 1
            text = visible(data.decode("utf-8", "backslashreplace"))
            column.append(Text(f"{arrow} {text}", style=style))

        patient = Timeouts(connect=PATIENCE, request=PATIENCE)
        watched = TapChannel(await start_server(server), keep)
        async with connect(watched, timeouts=patient, revisions=[revision]) as client:
            result = await client.call_tool("count", {"to": 1}, on_progress=lambda _: None)
            column.append(Text(f"= {_text(result)}", style="bold"))
    tour.side_by_side(columns)
    tour.note("whoever called did not notice which it was")


def _check_end(tour: Tour, status: int | None, seconds: float, grace: float) -> None:
    tour.rule("The client closed the server's stdin", "SHUT-02")
    if status != 0 or seconds >= grace:
        raise Unexpected(
            f"the server should end by itself with status 0: after {seconds:.1f} s it was {status}"
        )
    tour.rule(f"It ended {seconds:.2f} s later, with status 0 and without a signal", "SHUT-06")
    if tour.broken:
        raise Unexpected(f"frames of the server broke rules: {', '.join(sorted(tour.broken))}")
    tour.note(f"{tour.frames} frames crossed, and all went as it should")


@click.command("tour", epilog="\b\nmcpcore tour\nmcpcore tour --full | less")
@click.option("--server", metavar="CMD", help="Another server with the same tools.")
@click.option("--http", is_flag=True, help="Over HTTP instead of pipes.")
@click.option("--url", metavar="URL", help="A server over HTTP with the same tools.")
@click.option(
    "--revision",
    type=click.Choice(ALL),
    default=HANDSHAKE[0],
    show_default=True,
    help="The protocol revision to speak.",
)
@click.option("--eras", is_flag=True, help="One call in both eras of the protocol, side by side.")
@click.option("--full", is_flag=True, help="Show long frames whole.")
def tour_command(
    server: str | None, url: str | None, *, http: bool, revision: str, eras: bool, full: bool
) -> None:
    """Watch a session: every frame between a client and a server, and the rule it follows."""
    say_warnings()
    if server is not None and (http or url is not None):
        raise click.UsageError("--server names a command; over HTTP there is --url.")
    if eras and (http or url is not None):
        raise click.UsageError("--eras compares over pipes.")
    if http or url is not None:
        if importlib.util.find_spec("h11") is None:
            raise click.UsageError("HTTP needs h11: pip install 'mcpcore[http]'.")
        tour = Tour(full=full)
        _tell(
            lambda: (
                walk_with_example(tour, revision)
                if url is None
                else walk_over_http(tour, url, revision)
            )
        )
        return
    command = _words(server) if server is not None else [sys.executable, str(example_server())]
    # The example must find this very package, wherever it was imported from.
    env = {} if server is not None else {"PYTHONPATH": str(_package().parent)}
    target = StdioServer(command=command, env=env, stderr=say)
    tour = Tour(full=full)
    _tell(lambda: compare(tour, target) if eras else walk(tour, target, revision))


def _tell(work: Callable[[], Awaitable[None]]) -> None:
    try:
        run(work)
    except Unexpected as error:
        say(f"error: {visible(str(error))}")
        raise click.exceptions.Exit(error.code) from None


def _words(command: str) -> list[str]:
    try:
        return StdioServer(command=command).words
    except ValueError as error:
        raise click.UsageError(f"--server: {error}.") from None


def _package() -> Path:
    return Path(str(importlib.resources.files("mcpcore")))


def example_server() -> Path:
    """The calculator: part of an installed package, beside the package in a checkout."""
    for folder in (_package(), _package().parent):
        file = folder / "examples" / "calculator.py"
        if file.is_file():
            return file
    raise click.UsageError("The example server is not installed. Name another by --server CMD.")
