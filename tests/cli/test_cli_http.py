"""The commands over HTTP: a server at a URL, headers, serving, the tour."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cli_programs import ROOT

pytestmark = pytest.mark.process

CALCULATOR = str(ROOT / "examples" / "calculator.py")


@pytest.fixture
def url() -> Iterator[str]:
    """The calculator over HTTP, served by the command line."""
    command = [sys.executable, "-m", "mcpcore", "serve", CALCULATOR, "--http", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith("serving on http://127.0.0.1:")
        yield said.removeprefix("serving on ").strip()
        process.terminate()
    assert process.returncode == 128 + 15


def test_the_commands_take_a_url(run: Any, url: str) -> None:
    result = run("list", "--url", url)
    assert result.exit_code == 0
    assert result.stdout.startswith("tools (3)\n  calculate_expression(expression: string)\n")
    result = run("call", "--url", url, "calculate_expression", '{"expression": "6*7"}')
    assert (result.exit_code, result.stdout) == (0, "42\n")
    result = run("read", "--url", url, "calculator://constants/pi")
    assert result.stdout.startswith("3.14")
    result = run("prompt", "--url", url, "explain", '{"expression": "1+1"}')
    assert "1+1" in result.stdout
    assert run("ping", "--url", url).exit_code == 0
    result = run("call", "--url", url, "calculate_expression", '{"expression": "1/0"}')
    assert result.exit_code == 1


def test_headers_with_values_from_the_environment(run: Any, url: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("TOKEN", "a-secret-token")
    header = ("--header", "Authorization: Bearer ${TOKEN}")
    assert run("ping", "--url", url, *header).exit_code == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--url", "http://x", "--stdio", "y"), "Two servers"),
        (("--stdio", "y", "--header", "A: b"), "--header goes with --url"),
        (("--url", "http://x", "--env", "A=b"), "not for --url"),
        (("--url", "http://x", "--header", "secret"), "number 1 is not 'NAME: VALUE'"),
        (
            ("--url", "http://x", "--header", "A: ${NO_SUCH_VARIABLE}"),
            "NO_SUCH_VARIABLE is not set",
        ),
        (("--url", "http://x", "--header", "A: secret\x01"), "characters that no header has"),
    ],
)
def test_wrong_use(run: Any, line: tuple[str, ...], said: str) -> None:
    """One line, and no secret in it."""
    result = run("ping", *line)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "secret" not in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9/mcp", "the connection was refused"),
        ("http://no-such-host.invalid/", "the host is not known"),
    ],
)
def test_what_cannot_be_reached(run: Any, url: str, said: str) -> None:
    result = run("ping", "--url", url)
    assert result.exit_code in (3, 4)
    assert said in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8000/mcp"])
def test_what_is_no_url_is_wrong_use_and_named(run: Any, url: str) -> None:
    result = run("ping", "--url", url)
    assert result.exit_code == 2
    assert url in result.stderr.splitlines()[-1]


def test_an_http_error_is_one_line(run: Any, url: str) -> None:
    result = run("ping", "--url", url.replace("/mcp", "/other"))
    assert result.exit_code != 0
    assert "HTTP 404" in result.stderr.splitlines()[-1]


def test_what_goes_with_http_only(run: Any) -> None:
    for option in (("--port", "1"), ("--host", "x"), ("--allowed-host", "x")):
        result = run("serve", CALCULATOR, *option)
        assert result.exit_code == 2
        assert f"{option[0]} goes with --http" in result.stderr


def test_a_port_that_is_taken_is_one_line(url: str) -> None:
    port = url.split(":")[2].split("/")[0]
    command = [sys.executable, "-m", "mcpcore", "serve", CALCULATOR, "--http", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_the_tour_over_http(run: Any) -> None:
    result = run("tour", "--http")
    assert result.exit_code == 0, result.stderr
    assert "HTTP-09" in result.stdout
    assert "all went as it should" in result.stdout


def test_the_tour_of_a_server_at_a_url(run: Any, url: str) -> None:
    result = run("tour", "--url", url)
    assert result.exit_code == 0, result.stderr
    assert url in result.stdout


def test_the_tour_goes_one_way(run: Any) -> None:
    result = run("tour", "--http", "--server", "x")
    assert result.exit_code == 2
