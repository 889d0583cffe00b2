"""From a command to a session and back: signals, errors and exit codes in one place."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import click
import msgspec
import trio

from mcpcore.cli.output import say
from mcpcore.cli.reports import say_error, say_forgiven, say_log, say_warnings
from mcpcore.client import Client, ClientOptions, connect
from mcpcore.errors import McpError
from mcpcore.transport import StdioServer
from mcpcore.transport.web import HttpServer
from mcpcore.waiting import Timeouts

T = TypeVar("T")


class Reach(msgspec.Struct, frozen=True):
    """How to reach a server, as the options of a command say it."""

    command: str | Sequence[str]
    env: dict[str, str]
    url: str | None = None
    headers: dict[str, str] = {}
    cwd: str | None = None
    timeout: float | None = None
    revision: str | None = None
    strict: bool = False

    def server(self) -> StdioServer | HttpServer:
        if self.url is not None:
            return HttpServer(url=self.url, headers=self.headers)
        return StdioServer(command=self.command, env=self.env, cwd=self.cwd, stderr=say)

    def options(self) -> ClientOptions:
        options = ClientOptions(strict=self.strict, on_log=say_log)
        if self.timeout is not None:
            options["timeouts"] = Timeouts(
                connect=self.timeout,
                request=self.timeout,
                maximum=max(self.timeout, Timeouts().maximum),
            )
        if self.revision is not None:
            options["revisions"] = [self.revision]
        return options


@asynccontextmanager
async def session(reach: Reach) -> AsyncIterator[Client]:
    """A session for the length of a block; at its end, what the server was forgiven is told."""
    say_warnings()
    async with connect(reach.server(), **reach.options()) as client:
        try:
            yield client
        finally:
            say_forgiven(client.forgiven)


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` in a loop of its own and give what it returns.

    An error of mcpcore is told in one line and ends the command with its exit code. SIGINT and
    SIGTERM end it too, after the session was closed in order, so that no server is left behind.
    """
    results: list[T] = []
    errors: list[Exception] = []
    number = trio.run(_until_signal, work, results, errors)
    if number:
        raise click.exceptions.Exit(128 + number)
    for error in errors:
        if isinstance(error, McpError):
            raise click.exceptions.Exit(say_error(error))
        raise error
    return results[0]


async def _until_signal(
    work: Callable[[], Awaitable[T]], results: list[T], errors: list[Exception]
) -> int:
    """Add to one of the lists, or give the number of the signal that came first."""
    caught = 0
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal caught
                async for number in signals:
                    caught = number
                    nursery.cancel_scope.cancel()
                    return

            nursery.start_soon(watch)
            try:
                results.append(await work())
            except Exception as error:
                # Through the nursery it would come out in a group.
                errors.append(error)
            nursery.cancel_scope.cancel()
    return caught
