"""The commands that ask a server one thing: list, call, read, prompt, ping."""

from __future__ import annotations

import functools
import math
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from mcpcore.cli import describe
from mcpcore.cli.output import TOOL_ERROR, say, show, show_json, visible
from mcpcore.cli.reports import say_progress
from mcpcore.cli.running import Reach, run, session
from mcpcore.client import Client
from mcpcore.client.lists import MAX_PAGES, Items
from mcpcore.errors import RequestFailed
from mcpcore.jsonrpc import METHOD_NOT_FOUND
from mcpcore.revisions import ALL
from mcpcore.transport.web import encode_headers

_AFTER_DASHES = "mcpcore.command"


class CommandAfterDashes(click.Command):
    """A command that takes the server's command line, as it stands, after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            position = args.index("--")
            ctx.meta[_AFTER_DASHES] = args[position + 1 :]
            args = args[:position]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        pieces = " ".join([*self.collect_usage_pieces(ctx), "[-- CMD ARGS...]"])
        formatter.write_usage(ctx.command_path, pieces)


def reaches_a_server(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how to reach a server; `function` gets them as one `Reach`."""

    @click.option("--stdio", metavar="CMD", help="The server's command, in one string.")
    @click.option(
        "--url", metavar="URL", callback=_url, help="The server's URL, instead of a command."
    )
    @click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        callback=_headers,
        help="A header for each request to the URL; ${NAME} in it is read from the environment. May be "
        "repeated.",
    )
    @click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        callback=_not_nan,
        metavar="SECONDS",
        help="For the start, and for each answer. Default: 60.",
    )
    @click.option(
        "--env",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_environment,
        help="A variable for the server, which gets few by itself. May be repeated.",
    )
    @click.option(
        "--cwd",
        type=click.Path(exists=True, file_okay=False),
        help="The directory to start the server in.",
    )
    @click.option("--revision", type=click.Choice(ALL), help="Speak this protocol revision only.")
    @click.option(
        "--strict",
        is_flag=True,
        help="Refuse every deviation from the protocol (needs mcpcore[schema]).",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    @click.pass_context
    @functools.wraps(function)
    def command(ctx: click.Context, /, *, stdio: str | None, **rest: Any) -> None:
        names = ("url", "headers", "env", "cwd", "timeout", "revision", "strict")
        reach = {name: rest.pop(name) for name in names}
        words = _words(stdio, ctx.meta.get(_AFTER_DASHES), reach["url"], ctx)
        if reach["url"] is None and reach["headers"]:
            raise click.UsageError("--header goes with --url.")
        if reach["url"] is not None and (reach["env"] or reach["cwd"]):
            raise click.UsageError("--env and --cwd are for a command, not for --url.")
        function(Reach(command=words, **reach), **rest)

    return command


def _words(
    stdio: str | None, after_dashes: list[str] | None, url: str | None, ctx: click.Context
) -> list[str]:
    """The server's command line, or nothing where there is a URL: one of them, given exactly once."""
    forms = "--stdio CMD or --url URL"
    if isinstance(ctx.command, CommandAfterDashes):
        forms = "--stdio CMD, --url URL, or -- CMD ARGS at the end"
    given = sum(way is not None for way in (stdio, after_dashes, url))
    if given != 1:
        how = "No server:" if not given else "Two servers:"
        raise click.UsageError(f"{how} give one by {forms}.")
    if url is not None:
        return []
    try:
        words = after_dashes if stdio is None else shlex.split(stdio)
    except ValueError as error:
        raise click.UsageError(f"The command of --stdio cannot be split: {error}.") from None
    if not words:
        raise click.UsageError("The server's command is empty.")
    return words


def _not_nan(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is no number of seconds.")
    return value


def _url(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.lower().startswith(("http://", "https://")):
        raise click.BadParameter(f"{value!r} begins neither with http:// nor with https://.")
    return value


def _environment(
    _ctx: click.Context, _parameter: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.BadParameter(f"{name or '='!r} is not NAME=VALUE.")
    return {name: value for name, _, value in pairs}


def _headers(
    _ctx: click.Context, _parameter: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    """Headers by name. What is wrong with one is told without its value, which may be a secret."""
    headers = {}
    for number, text in enumerate(values, 1):
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(f"number {number} is not 'NAME: VALUE'.")
        headers[name.strip()] = _VARIABLE.sub(_from_environment, value.strip())
    try:
        encode_headers(headers)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None
    return headers


_VARIABLE = re.compile(r"\$\{(\w+)\}")


def _from_environment(match: re.Match[str]) -> str:
    value = os.environ.get(match[1])
    if value is None:
        raise click.BadParameter(f"the variable {match[1]} is not set.")
    return value


def _json_object(text: str) -> dict[str, msgspec.Raw]:
    """The members of a JSON object. Their values stay as they were typed, every digit of them."""
    try:
        # One message is one line, so line feeds between the values must go.
        compact = msgspec.json.format(text.encode(), indent=-1)
        return msgspec.json.decode(compact, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise click.UsageError(f"The arguments must be a JSON object: {error}.") from None


# list


class Kind(msgspec.Struct, frozen=True):
    """One of the lists: the member of its result, how a page is asked for, and its capability."""

    method: str
    member: str
    page: str
    capability: str
    describe: Callable[[Any], str]

    @property
    def attribute(self) -> str:
        return self.page.removeprefix("list_").removesuffix("_page")


KINDS = {
    "tools": Kind("tools/list", "tools", "list_tools_page", "tools", describe.tool),
    "resources": Kind(
        "resources/list", "resources", "list_resources_page", "resources", describe.resource
    ),
    "templates": Kind(
        "resources/templates/list",
        "resourceTemplates",
        "list_resource_templates_page",
        "resources",
        describe.template,
    ),
    "prompts": Kind("prompts/list", "prompts", "list_prompts_page", "prompts", describe.prompt),
}


@click.command(
    "list",
    cls=CommandAfterDashes,
    epilog='\b\nmcpcore list --stdio "python server.py" tools\nmcpcore list -- python server.py',
)
@click.argument("what", type=click.Choice(list(KINDS)), required=False)
@reaches_a_server
def list_command(reach: Reach, what: str | None, *, as_json: bool) -> None:
    """List the tools, resources, templates or prompts of a server; by default all it declares."""

    async def work() -> dict[str, tuple[list[Any], list[msgspec.Raw]]]:
        async with session(reach) as client:
            if what is not None:
                return {what: await _all(client, KINDS[what])}
            found = {}
            for name, kind in KINDS.items():
                if getattr(client.server_capabilities, kind.capability) is not None:
                    found[name] = await _all_if_any(client, kind)
            return found

    found = run(work)
    if as_json:
        members = {KINDS[name].member: raws for name, (_, raws) in found.items()}
        show_json(msgspec.json.encode(members))
        return
    for name, (items, _) in found.items():
        show(f"{name} ({len(items)})")
        for item in items:
            show(KINDS[name].describe(item))
    if not found:
        say("the server declares no tools, resources or prompts")


async def _all(client: Client, kind: Kind) -> tuple[list[Any], list[msgspec.Raw]]:
    """All entries of all pages, as objects and as they came."""
    raws: list[msgspec.Raw] = []

    async def fetch(cursor: str | None) -> tuple[list[Any], str | None]:
        page = await getattr(client, kind.page)(cursor)
        members = msgspec.json.decode(page.raw, type=dict[str, msgspec.Raw])
        raws.extend(msgspec.json.decode(members[kind.member], type=list[msgspec.Raw]))
        return getattr(page, kind.attribute), page.next_cursor

    items = await Items(kind.method, fetch, MAX_PAGES).all()
    return items, raws


async def _all_if_any(client: Client, kind: Kind) -> tuple[list[Any], list[msgspec.Raw]]:
    """Like `_all`. Servers with resources often have no templates, and then not even the method."""
    try:
        return await _all(client, kind)
    except RequestFailed as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        say(f"the server has no {kind.method}")
        return [], []


# call


@click.command(
    "call", epilog='\b\nmcpcore call --stdio "python server.py" add \'{"a": 1, "b": 2}\''
)
@click.argument("name")
@click.argument("arguments", metavar="[JSON]", required=False)
@reaches_a_server
def call_command(reach: Reach, name: str, arguments: str | None, *, as_json: bool) -> None:
    """Call a tool. Its arguments are one JSON object."""
    values = None if arguments is None else _json_object(arguments)

    async def work() -> Any:
        async with session(reach) as client:
            return await client.call_tool(name, values, on_progress=say_progress)

    result = run(work)
    if as_json:
        show_json(bytes(result.raw))
    elif result.is_error:
        say(f"tool error: {visible(describe.call_result(result))}")
    else:
        show(describe.call_result(result))
    if result.is_error:
        raise click.exceptions.Exit(TOOL_ERROR)


# read


@click.command("read", epilog='\b\nmcpcore read --stdio "python server.py" notes://today')
@click.argument("uri")
@reaches_a_server
def read_command(reach: Reach, uri: str, *, as_json: bool) -> None:
    """Read a resource."""

    async def work() -> Any:
        async with session(reach) as client:
            return await client.read_resource(uri)

    result = run(work)
    if as_json:
        show_json(bytes(result.raw))
        return
    for contents in result.contents:
        if len(result.contents) > 1:
            say(f"{visible(contents.uri)}:")
        show(describe.contents(contents))


# prompt


@click.command("prompt", epilog='\b\nmcpcore prompt --stdio "python server.py" greet name=Ada')
@click.argument("name")
@click.argument("arguments", metavar="[JSON | KEY=VALUE...]", nargs=-1)
@reaches_a_server
def prompt_command(reach: Reach, name: str, arguments: tuple[str, ...], *, as_json: bool) -> None:
    """Get the messages of a prompt. Its arguments are one JSON object of strings, or key=value."""
    values = _prompt_arguments(arguments)

    async def work() -> Any:
        async with session(reach) as client:
            return await client.get_prompt(name, values)

    result = run(work)
    if as_json:
        show_json(bytes(result.raw))
        return
    for message in result.messages:
        show(f"{message.role}: {describe.block(message.content)}")


def _prompt_arguments(words: tuple[str, ...]) -> dict[str, str] | None:
    if not words:
        return None
    if len(words) == 1 and words[0].lstrip().startswith(("{", "[")):
        members = _json_object(words[0])
        try:
            return {key: msgspec.json.decode(value, type=str) for key, value in members.items()}
        except msgspec.ValidationError:
            raise click.UsageError("The arguments of a prompt must be strings.") from None
    pairs = [word.partition("=") for word in words]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.UsageError(f"{key or '='!r} is neither a JSON object nor key=value.")
    return {key: value for key, _, value in pairs}


# ping


@click.command("ping", cls=CommandAfterDashes, epilog="\b\nmcpcore ping -- python server.py")
@reaches_a_server
def ping_command(reach: Reach, *, as_json: bool) -> None:
    """Ask a server whether it answers."""

    async def work() -> str:
        async with session(reach) as client:
            start = time.perf_counter()
            await client.ping()
            milliseconds = (time.perf_counter() - start) * 1000
            info = client.server_info
            line = f"{info.name} {info.version} answers in {milliseconds:.1f} ms"
            return f"{line}, protocol {client.revision}"

    line = run(work)
    if as_json:
        show_json(b"{}")
    else:
        show(line)
