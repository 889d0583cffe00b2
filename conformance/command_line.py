"""The command line: ``python -m conformance``, or ``mcpcore conformance`` from an installed package."""

import argparse
import json
import sys
from collections.abc import Sequence

import trio

from . import revisions
from .reports import terminal
from .run import Options, judge_server
from .speaking import Target


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Gives the exit status: 0 all well, 1 a rule was broken, 2 a wrong use."""
    parser = _parser()
    options = parser.parse_args(arguments)
    return int(options.do(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="conformance", description="Judge an implementation of the Model Context Protocol."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    server = commands.add_parser("server", help="judge a server")
    where = server.add_mutually_exclusive_group(required=True)
    where.add_argument("--stdio", metavar="CMD", help="the command that starts the server")
    where.add_argument("--url", help="the URL of the server's endpoint")
    _common(server)
    server.add_argument(
        "--call",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="arguments with which a tool may be called",
    )
    server.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="a header for every request",
    )
    server.set_defaults(do=_server)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--revision",
        action="append",
        choices=revisions.ALL,
        help="only these revisions (default: all that the peer speaks)",
    )
    parser.add_argument("--level", type=int, choices=(1, 2, 3), default=2)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="GLOB",
        help="only rules or checks that match",
    )
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument(
        "--timeout",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="for one awaited thing (default 5)",
    )


def _server(options: argparse.Namespace) -> int:
    target = Target(
        command=options.stdio,
        url=options.url,
        headers=dict(header.split(":", 1) for header in options.header),
    )
    run = Options(
        revisions=tuple(options.revision or revisions.ALL),
        level=options.level,
        only=tuple(options.only),
        jobs=options.jobs,
        limit=options.timeout,
        given={
            name: json.loads(value)
            for name, _, value in (each.partition("=") for each in options.call)
        },
    )
    report = trio.run(judge_server, target, run)
    sys.stdout.write(terminal.text(report))
    return 0 if report.conformant else 1
