"""`mcpcore serve`: find the server in a file, and run it on stdin and stdout, or over HTTP."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from mcpcore.server import Server
from mcpcore.server.stdio import run_stdio
from mcpcore.transport import claim_stdio


@click.command(
    "serve", epilog="\b\nmcpcore serve server.py\nmcpcore serve server.py --http --port 8000"
)
@click.argument("target", metavar="FILE[:NAME]")
@click.option("--http", is_flag=True, help="Serve over HTTP.")
@click.option("--host", help="The address to listen on. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="Default: 8000; 0 takes a free one.")
@click.option("--path", help="Where the endpoint is. Default: /mcp.")
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A host that the server is reached by, besides loopback. May be repeated.",
)
@click.option(
    "--allowed-origin",
    "allowed_origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin whose pages may ask, such as https://example.com. May be repeated.",
)
def serve_command(target: str, *, http: bool, **options: Any) -> None:
    """Serve the `Server` in FILE on stdin and stdout; NAME says which, if there are several.

    What the file prints goes to stderr. If it calls `server.run()` itself, that serves just as well.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if given and not http:
        raise click.UsageError(
            f"--{next(iter(given)).rstrip('s').replace('_', '-')} goes with --http."
        )
    path, name = _split(target)
    if not path.is_file():
        raise click.UsageError(f"There is no file {str(path)!r}.")
    if http:
        try:
            find_server(load(path), name).run("http", **given)
        except ModuleNotFoundError as error:
            if error.name != "h11":
                raise
            raise click.UsageError(f"{error}.") from None
        return
    # Before the file runs: not even what it prints while it is loaded may reach the client.
    channel = claim_stdio()
    run_stdio(find_server(load(path), name), channel)


def _split(target: str) -> tuple[Path, str | None]:
    """The file and the name. A colon may be part of the file's name, too."""
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not Path(target).is_file():
        return Path(path), name
    return Path(target), None


def load(path: Path) -> ModuleType:
    """Run the file as a module whose neighbours can be imported. Raises `click.UsageError`."""
    # Not the file's own name: a server in json.py must not take the place of the real json.
    name = f"served_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{str(path)!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.absolute().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise click.UsageError(
            f"{str(path)!r} cannot be loaded: {type(error).__name__}: {error}."
        ) from None
    return module


def find_server(module: ModuleType, name: str | None) -> Server:
    """The server called `name`, or the only one. Raises `click.UsageError`."""
    # One server under two names is one.
    servers: dict[int, tuple[str, Server]] = {}
    for key, value in vars(module).items():
        if isinstance(value, Server):
            servers.setdefault(id(value), (key, value))
    if name is not None:
        value = getattr(module, name, None)
        if isinstance(value, Server):
            return value
        what = "not there" if value is None else f"a {type(value).__name__}"
        names = ", ".join(key for key, _ in servers.values()) or "none"
        raise click.UsageError(f"{name!r} is {what}; servers in the file: {names}.")
    if len(servers) > 1:
        names = ", ".join(key for key, _ in servers.values())
        raise click.UsageError(f"The file has several servers: {names}. Say FILE:NAME.")
    if not servers:
        raise click.UsageError("The file has no mcpcore.Server at its top level.")
    return next(iter(servers.values()))[1]
