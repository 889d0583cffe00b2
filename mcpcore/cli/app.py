"""The commands by name, each loaded when it is used, so that the script starts quickly."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import click

# Loaded here only to be missed here: the script then names the extra, whichever command was meant.
import rich  # noqa: F401

from mcpcore import __version__
from mcpcore.cli.output import DEFECT, INTERRUPTED, USAGE, say

T = TypeVar("T")

COMMANDS = {
    "tour": "tour",
    "list": "calls",
    "call": "calls",
    "read": "calls",
    "prompt": "calls",
    "ping": "calls",
    "serve": "serve",
}
"""The module of each command, in the order of the help text."""


class App(click.Group):
    """Finds commands in their modules, and tells each error of use in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mcpcore.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        return _ending_plainly(
            lambda: super(App, self).make_context(*arguments, **options), lambda: self.name
        )

    def invoke(self, ctx: click.Context) -> Any:
        return _ending_plainly(
            lambda: super(App, self).invoke(ctx), lambda: f"{self.name} {ctx.invoked_subcommand}"
        )


def _ending_plainly(work: Callable[[], T], command: Callable[[], str | None]) -> T:
    """Do `work`; every way in which it goes wrong becomes an exit code, and a line that says why.

    `command` names the command where an error does not.
    """
    try:
        return work()
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx else command()
        say(f"error: {error.format_message()} See '{name} --help'.")
        raise click.exceptions.Exit(USAGE) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception:
        # An exception that nobody foresaw would end Python with the code of a tool's error.
        traceback.print_exc()
        say("error: this is a defect of mcpcore, please report it")
        raise click.exceptions.Exit(DEFECT) from None


@click.group(cls=App, name="mcpcore", invoke_without_command=True)
@click.version_option(__version__, message="mcpcore %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Talk to servers of the Model Context Protocol, run them, and watch the protocol at work.

    Exit codes: 0 it worked, 1 the tool reported an error, 2 wrong use, 3 the other side said no or
    the protocol was broken, 4 no connection or no answer in time, 130 Ctrl-C.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(USAGE)
