"""serve: a file, the server in it, and a stdout that holds nothing but messages."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from cli_programs import HERE, ROOT

from mcpcore.cli import serve

TWO = str(HERE / "two_servers.py")


def serving(target: str) -> str:
    return shlex.join([sys.executable, "-m", "mcpcore", "serve", target])


@pytest.fixture
def served(monkeypatch, run):
    """Run `serve` in this process, up to where it would take stdin and stdout: what is served?"""
    found = []

    def claim_stdio():
        return "channel"

    def run_stdio(server, channel):
        assert channel == "channel"
        found.append(server)

    monkeypatch.setattr(serve, "claim_stdio", claim_stdio)
    monkeypatch.setattr(serve, "run_stdio", run_stdio)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def served(target):
        return run("serve", str(target)), *found

    yield served
    for name in set(sys.modules) - before:
        if name.startswith("served_"):
            del sys.modules[name]


@pytest.fixture
def file(tmp_path):
    def file(text: str, name: str = "server.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return file


def assert_refused(result, text: str) -> None:
    assert result.exit_code == 2, result.output
    assert text in result.stderr.splitlines()[-1]
    assert result.stderr.splitlines()[-1].startswith("error: ")


ONE = "from mcpcore import Server\nserver = Server('only', '1')\n"


# As a real process.


@pytest.mark.process
def test_prints_of_the_file_and_its_tools_never_reach_stdout(run):
    """The client is strict: one byte that belongs to no message would end it with 3."""
    line = ["call", "--strict", "--json", "--stdio", serving(f"{TWO}:two"), "double"]
    result = run(*line, '{"point": {"x": 4}}')
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["structuredContent"] == {"x": 8}
    for words in ("while it was loaded", "past sys.stdout", "in the buffer", "by a tool"):
        assert words in result.stderr


@pytest.mark.process
def test_modules_beside_the_file_can_be_imported(run):
    assert run("call", "--stdio", serving(f"{TWO}:two"), "folder").stdout == "cli\n"


@pytest.mark.process
def test_a_file_that_runs_its_server_when_loaded_is_served_all_the_same(run, file):
    path = file(ONE + "server.run()\n")
    result = run("ping", "--stdio", serving(str(path)))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("only 1 answers")


@pytest.mark.process
def test_the_end_of_the_input_ends_it_with_0():
    done = subprocess.run(
        shlex.split(serving(f"{TWO}:one")),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.process
def test_a_file_that_fails_exits_with_2_and_shows_where(script, file):
    path = file("import json\nprint('first')\njson.loads('{')\n")
    done = script("serve", str(path), stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'server.py", line 3' in done.stderr
    assert "cannot be loaded: JSONDecodeError" in done.stderr.splitlines()[-1]


# Which server.


def test_the_only_server_needs_no_name(served, file):
    result, server = served(file(ONE + "alias = server\n"))
    assert result.exit_code == 0, result.output
    assert server.info.name == "only"


def test_a_name_chooses_among_several(served):
    _, server = served(f"{TWO}:also_two")
    assert server.info.name == "two"


def test_several_servers_without_a_name_are_refused_by_naming_them(served):
    (result,) = served(TWO)
    assert_refused(result, "several servers: one, two. Say FILE:NAME.")


def test_a_file_without_a_server_is_refused(served, file):
    assert_refused(*served(file("x = 1\n")), "has no mcpcore.Server")


@pytest.mark.parametrize(
    ("name", "text"),
    [("absent", "'absent' is not there"), ("not_a_server", "'not_a_server' is a str")],
)
def test_a_name_that_is_no_server_is_refused(served, name, text):
    assert_refused(*served(f"{TWO}:{name}"), f"{text}; servers in the file: one, two.")


@pytest.mark.parametrize("target", ["nope.py", "nope.py:server", "/", "nope:1"])
def test_a_missing_file_is_refused_before_stdout_is_taken(run, target):
    assert_refused(run("serve", target), "There is no file")


def test_what_is_no_python_file_is_refused(served, file):
    assert_refused(*served(file("hello", "server.txt")), "is not a Python file")


def test_a_file_that_exits_while_it_is_loaded_is_refused(served, file):
    assert_refused(*served(file("import sys\nsys.exit(0)\n")), "cannot be loaded: SystemExit: 0")


def test_a_colon_may_belong_to_the_name_of_the_file(served, file):
    _, server = served(file(ONE, "a:b.py"))
    assert server.info.name == "only"
    _, *_, server = served(str(file(ONE, "c:d.py")) + ":server")
    assert server.info.name == "only"
    path = file("x = 1", "e:f")
    assert_refused(served(path)[0], "is not a Python file")


def test_a_file_called_like_a_module_does_not_take_its_place(served, file):
    _, server = served(file(ONE, "json.py"))
    assert server.info.name == "only"
    assert hasattr(json, "loads")
    assert sys.modules["json"] is json
