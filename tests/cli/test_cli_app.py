"""The script itself: its commands, its help, its ends, and what it says where its extra is missing."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from cli_programs import ROOT

from mcpcore import __main__, __version__
from mcpcore.cli import calls
from mcpcore.cli.app import COMMANDS
from mcpcore.cli.reports import say_warnings

WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
sys.argv = ["mcpcore", *{words!r}]
import runpy
runpy.run_module("mcpcore", run_name="__main__")
"""


def without(missing: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a Python that lacks one package."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing, words=words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.process
@pytest.mark.parametrize("missing", ["click", "rich"])
@pytest.mark.parametrize("words", [["tour"], ["list", "--help"], []])
def test_without_the_extra_one_line_says_how_to_get_it(missing, words):
    done = without(missing, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("the command line needs an extra: pip install 'mcpcore[cli]'")
    assert done.stderr.count("\n") == 1


@pytest.mark.process
def test_another_missing_module_is_not_taken_for_the_extra():
    done = without("msgspec", "ping")
    assert "No module named 'msgspec'" in done.stderr
    assert "mcpcore[cli]" not in done.stderr


@pytest.mark.process
def test_the_script_starts_without_loading_the_commands():
    code = "import sys, mcpcore.cli.app; print(*{'mcpcore.cli.tour', 'rich.console', 'trio'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b"\n"


@pytest.mark.process
def test_python_m_mcpcore_is_the_script(script):
    done = script("--version")
    assert (done.returncode, done.stdout) == (0, f"mcpcore {__version__}\n")


def blocked(monkeypatch, error: BaseException) -> None:
    """Importing the commands raises `error`."""

    class Blocking:
        def find_spec(self, name, path=None, target=None):
            if name == "mcpcore.cli.app":
                raise error

    monkeypatch.delitem(sys.modules, "mcpcore.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Blocking(), *sys.meta_path])


def test_main_without_the_extra(monkeypatch, capsys):
    blocked(monkeypatch, ModuleNotFoundError("No module named 'rich.text'", name="rich.text"))
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 2
    assert "pip install 'mcpcore[cli]'" in capsys.readouterr().err


def test_main_tells_of_other_missing_modules(monkeypatch):
    blocked(monkeypatch, ModuleNotFoundError("No module named 'richer'", name="richer"))
    with pytest.raises(ModuleNotFoundError):
        __main__.main()


def test_ctrl_c_while_the_script_starts_exits_with_130(monkeypatch):
    blocked(monkeypatch, KeyboardInterrupt())
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 130


def test_main_runs_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["mcpcore", "--version"])
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert (end.value.code, capsys.readouterr().out) == (0, f"mcpcore {__version__}\n")


def test_without_a_command_the_help_goes_to_stderr(run):
    result = run()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Exit codes:" in result.stderr


def test_the_help_names_every_command_in_order(run):
    result = run("--help")
    assert result.exit_code == 0
    lines = [line.split()[0] for line in result.stdout.split("Commands:\n")[1].splitlines()]
    assert lines == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: mcpcore {name} ")
    assert f"  mcpcore {name}" in result.stdout.split("Options:")[1]


@pytest.mark.parametrize("name", ["list", "ping"])
def test_the_help_shows_where_a_command_after_dashes_is_taken(run, name):
    assert "[-- CMD ARGS...]" in " ".join(run(name, "--help").stdout.split())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nope"], "error: No such command 'nope'. See 'mcpcore --help'.\n"),
        (["--nope"], "error: No such option '--nope'. See 'mcpcore --help'.\n"),
    ],
)
def test_wrong_use_of_the_script_is_told_in_one_line(run, words, line):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.replace("option: --nope", "option '--nope'") == line


def test_ctrl_c_outside_of_a_session_exits_with_130(run, monkeypatch):
    def interrupted(work):
        raise KeyboardInterrupt

    monkeypatch.setattr(calls, "run", interrupted)
    result = run("ping", "--stdio", "never started")
    assert (result.exit_code, result.output) == (130, "")


def test_a_defect_does_not_look_like_a_tool_error(run, monkeypatch):
    def broken(reach):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(calls, "session", broken)
    result = run("ping", "--stdio", "never started")
    assert result.exit_code == 70
    assert "ZeroDivisionError: planted" in result.stderr
    assert result.stderr.endswith("this is a defect of mcpcore, please report it\n")


def test_warnings_of_the_library_are_lines_on_stderr(capsys):
    say_warnings()
    logger = logging.getLogger("mcpcore.client")
    logger.info("not this")
    logger.warning("two\nlines and \x1b[1m")
    logger.error("it raised", exc_info=ValueError("planted"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert (
        captured.err
        == "warning: two lines and \\u001b[1m\nerror: it raised: ValueError('planted')\n"
    )
