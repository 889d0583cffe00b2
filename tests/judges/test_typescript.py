"""The official TypeScript packages, in both directions, over stdio and HTTP, in both eras.

They are fetched with npm when MCPCORE_REAL=1, and skipped otherwise.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from test_sdk_stateless import OURS, at_url, written

from mcpcore import HttpServer, Network, RequestFailed, StdioServer, connect
from mcpcore.revisions import STATELESS

pytestmark = [pytest.mark.judge, pytest.mark.process]

E = STATELESS[0]
PATIENCE = 60
SOURCES = Path(__file__).with_name("typescript")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fixtures beside the packages that they need."""
    if os.environ.get("MCPCORE_REAL") != "1":
        pytest.skip("NOT TESTED against the TypeScript packages: MCPCORE_REAL=1 fetches them")
    npm = shutil.which("npm")
    assert npm is not None, "MCPCORE_REAL=1, and npm is not here"
    where = tmp_path_factory.mktemp("typescript")
    for source in SOURCES.iterdir():
        shutil.copy(source, where)
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=8 * PATIENCE)
    assert done.returncode == 0, done.stderr[-2000:]
    return where


# Their client and our server.


def run_client(folder: Path, mode: str, *target: str) -> None:
    command = ["node", str(folder / "client.mjs"), mode, *target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "all as it should\n", done.stderr


MODES = ["auto", E, "legacy"]


@pytest.mark.parametrize("mode", MODES)
def test_typescript_drives_our_server_over_stdio(mode: str, folder: Path, tmp_path: Path) -> None:
    run_client(folder, mode, sys.executable, str(written(OURS, tmp_path)))


@pytest.mark.parametrize("mode", MODES)
def test_typescript_drives_our_server_over_http(mode: str, folder: Path, tmp_path: Path) -> None:
    with at_url(OURS, tmp_path) as url:
        run_client(folder, mode, url)


# Our client and their server.


async def drive(target: Any, revision: str | None) -> None:
    options: Any = {} if revision is None else {"revisions": [revision]}
    with trio.fail_after(PATIENCE):
        async with connect(target, elicit=lambda _: {"name": "Zoë"}, **options) as client:
            assert client.revision == (revision or E)
            assert client.server_info.name == "typescript"
            assert [tool.name for tool in await client.list_tools()] == ["add", "fails", "named"]
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
            assert (await client.call_tool("fails")).is_error
            (contents,) = (await client.read_resource("x://a")).contents
            assert contents.text == "text of a"
            assert len((await client.get_prompt("greet", {"name": "Ada"})).messages) == 1
            with pytest.raises(RequestFailed):
                await client.read_resource("x://nope")
            # Over HTTP their server keeps no sessions, so it cannot ask a client of the older era.
            if client.revision == E or isinstance(target, StdioServer):
                assert (await client.call_tool("named")).text == "named Zoë"
            await client.ping()
            assert not client.forgiven, client.forgiven


REVISIONS = [None, E, "2025-11-25"]


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_our_client_drives_typescript_over_stdio(revision: str | None, folder: Path) -> None:
    trio.run(drive, StdioServer(command=["node", str(folder / "server.mjs")]), revision)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    command = ["node", str(folder / "server.mjs"), "http"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = re.search(r"http://\S+", process.stderr.readline())
            assert found
            yield found[0]
        finally:
            process.kill()


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_our_client_drives_typescript_over_http(revision: str | None, folder: Path) -> None:
    with serving(folder) as url:
        trio.run(drive, HttpServer(url=url, network=Network(proxy="")), revision)
