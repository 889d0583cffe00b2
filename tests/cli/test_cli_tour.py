"""tour: every step of a session, and nothing but what really crossed the wire."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from cli_programs import ROOT, command_line

from mcpcore.cli import tour
from mcpcore.rules import RULES

CALCULATOR = str(ROOT / "examples" / "calculator.py")
FRAME = re.compile(r"^(-->|<--) (.*)$", re.MULTILINE)


def frames_in(output: str) -> list[tuple[str, dict]]:
    return [(arrow, json.loads(text)) for arrow, text in FRAME.findall(output)]


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def tour_as_printed() -> str:
    """The tour as a reader sees it who pipes it into a file."""
    done = subprocess.run(
        [sys.executable, "-m", "mcpcore", "tour"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def tour_and_wire(tmp_path_factory):
    """The tour with whole frames, and what another program noted between it and the server."""
    log = tmp_path_factory.mktemp("tour") / "log"
    server = command_line("recorder.py", str(log), sys.executable, CALCULATOR)
    done = subprocess.run(
        [sys.executable, "-m", "mcpcore", "tour", "--full", "--server", server],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.process
def test_the_tour_has_every_step_in_order(tour_as_printed):
    assert re.findall(r"^\d+\. (.*)$", tour_as_printed, re.MULTILINE) == [
        "Start",
        "Handshake",
        "Discovery",
        "A call",
        "A call with progress",
        "A cancelled call",
        "A tool error",
        "A resource",
        "A prompt",
        "Shutdown",
    ]


@pytest.mark.process
def test_the_tour_fits_80_columns_and_is_plain_where_it_is_piped(tour_as_printed):
    assert max(map(len, tour_as_printed.splitlines())) <= 80
    assert "\x1b" not in tour_as_printed
    assert not any(line.endswith(" ") for line in tour_as_printed.splitlines())
    assert any(text.endswith("…") for _, text in FRAME.findall(tour_as_printed))


@pytest.mark.process
def test_every_frame_is_followed_by_what_it_is_and_the_rule_as_it_stands(tour_as_printed):
    pieces = re.split(r"^(?:-->|<--) .*\n", tour_as_printed, flags=re.MULTILINE)[1:]
    for piece in pieces:
        explanation = in_one_line(re.match(r"(?:    [^=].*\n)+", piece).group())
        what, id, sentence = re.match(r"(\S.*?)\. ([A-Z]+-\d+): (.*)", explanation).groups()
        assert what.startswith(("request ", "answer to ", "notification "))
        assert sentence.startswith(RULES[id].sentence)
    assert f"{len(pieces)} frames crossed, and all went as it should" in tour_as_printed


@pytest.mark.process
def test_the_tour_prints_every_frame_of_the_wire_and_no_other(tour_and_wire):
    output, wire = tour_and_wire
    printed = FRAME.findall(output)
    for direction in ("-->", "<--"):
        assert [text for arrow, text in printed if arrow == direction] == [
            line for arrow, line in wire if arrow == direction
        ]


@pytest.mark.process
def test_the_tour_shows_what_its_steps_promise(tour_and_wire):
    frames = frames_in(tour_and_wire[0])
    sent = [message for arrow, message in frames if arrow == "-->"]
    received = [message for arrow, message in frames if arrow == "<--"]
    answers = {message["id"]: message for message in received if "id" in message}

    def of(method):
        return [message for message in sent if message.get("method") == method]

    assert [message["method"] for message in sent[:2]] == [
        "initialize",
        "notifications/initialized",
    ]
    pages = [answers[message["id"]]["result"] for message in of("tools/list")]
    assert "nextCursor" in pages[0]
    assert of("tools/list")[1]["params"]["cursor"] == pages[0]["nextCursor"]
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        assert answers[of(method)[0]["id"]]["result"]
    seven, counted, waiting, failed = of("tools/call")
    assert answers[seven["id"]]["result"]["content"][0]["text"] == "7"
    token = counted["params"]["_meta"]["progressToken"]
    assert [
        message["params"]["progress"]
        for message in received
        if message.get("params", {}).get("progressToken") == token
    ] == [1, 2, 3]
    (cancelled,) = of("notifications/cancelled")
    assert cancelled["params"]["requestId"] == waiting["id"]
    assert waiting["id"] not in answers
    assert answers[of("ping")[0]["id"]]["result"] == {}
    assert answers[failed["id"]]["result"]["isError"] is True
    uris = [message["params"]["uri"] for message in of("resources/read")]
    assert uris == ["calculator://constants", "calculator://constants/pi"]
    assert "2^10" in json.dumps(answers[of("prompts/get")[0]["id"]]["result"]["messages"])


@pytest.mark.process
def test_the_tour_says_what_is_no_frame_too(tour_as_printed):
    text = in_one_line(tour_as_printed)
    assert "calculator 1.0, revision 2025-11-25" in text
    assert "has checked the structured content. TOOL-24:" in text
    assert "= (3.5 * 10) / (2 + 3) = 7" in text
    assert "CANC-06: A cancelled request is not answered." in text
    assert "The client closed the server's stdin. SHUT-02:" in text
    assert "with status 0 and without a signal. SHUT-06:" in text


@pytest.mark.process
def test_the_tour_runs_in_this_process_too(run):
    """The same as above where coverage sees it."""
    result = run("tour")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "all went as it should" in result.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("wrong", "code", "text"),
    [
        ("wrong sum", 3, "(3.5 * 10) / (2 + 3) should be 7, and the server says 8"),
        ("no error", 3, "1 / 0 should be a tool error"),
        ("tool error", 1, "a tool failed that should not: out of order"),
        ("no progress", 3, "the server gave no progress"),
        ("no wait", 3, "the call that was to be cancelled had an answer at once"),
        ("no prompt", 3, "error: "),
        ("noise", 3, "frames of the server broke rules: STDIO-04"),
        ("null cursor", 3, "frames of the server broke rules: PAGE-04"),
        ("stubborn", 3, "the server should end by itself with status 0"),
        ("status", 3, "it was 5"),
    ],
)
def test_a_server_that_goes_another_way_ends_the_tour(run, wrong, code, text):
    result = run("tour", "--server", command_line("wrong_calculator.py", wrong))
    assert result.exit_code == code, result.output
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert text in result.stderr.splitlines()[-1]
    assert "all went as it should" not in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.process
def test_a_frame_that_breaks_a_rule_is_shown_as_such_and_cannot_reach_the_terminal(run):
    result = run("tour", "--server", command_line("wrong_calculator.py", "noise"))
    assert r"<-- \u001b[1mnoise" in result.stdout
    assert "no message: not JSON. BREAKS STDIO-04: A server writes" in in_one_line(result.stdout)
    assert "No answer to the cancelled request" not in result.stdout


def test_a_server_that_cannot_be_started_ends_the_tour_with_4(run):
    result = run("tour", "--server", "/no/such/program")
    assert (result.exit_code, result.stderr.count("\n")) == (4, 1)
    assert "cannot start '/no/such/program'" in result.stderr


@pytest.mark.parametrize("command", ["", "a 'b"])
def test_a_command_that_cannot_be_read_is_wrong_use(run, command):
    result = run("tour", "--server", command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: --server: ")


def test_the_server_inside_an_installed_package_comes_first(monkeypatch, tmp_path):
    package = tmp_path / "mcpcore"
    monkeypatch.setattr(tour, "_package", lambda: package)
    beside, inside = tmp_path / "examples", package / "examples"
    for folder in (beside, inside):
        folder.mkdir(parents=True)
        (folder / "calculator.py").touch()
        assert tour.example_server() == folder / "calculator.py"


def test_without_the_example_the_tour_says_so_in_one_line(monkeypatch, tmp_path, run):
    monkeypatch.setattr(tour, "_package", lambda: tmp_path / "mcpcore")
    result = run("tour")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: The example server is not installed. Name another by --server CMD."
        " See 'mcpcore tour --help'.\n"
    )


@pytest.mark.process
def test_a_tour_that_nobody_reads_ends_with_4_and_leaves_the_server_in_order(script):
    """`mcpcore tour | head -1`: one line says why, and the session is closed as always."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpcore", "tour"],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 141
    assert stderr == ""


@pytest.mark.process
@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_for_terminals_that_want_them(variables, coloured):
    ours, theirs = os.openpty()
    environment = {"TERM": "xterm-256color", "COLUMNS": "100", **variables}
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "mcpcore",
            "tour",
            "--server",
            shlex.join([sys.executable, CALCULATOR]),
        ],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "NO_COLOR"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    output = b""
    try:
        while data := os.read(ours, 65536):
            output += data
    except OSError:
        pass  # how a terminal says that the other side is gone
    os.close(ours)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, b"")
    assert (b"\x1b[36m-->" in output) is coloured
    assert (b"\x1b[32m<--" in output) is coloured


@pytest.mark.process
@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_the_tour_goes_in_any_revision(script, revision):
    done = script("tour", "--revision", revision)
    assert done.returncode == 0, done.stderr
    assert f"calculator 1.0, revision {revision}" in done.stdout
    assert ("Handshake" in done.stdout) == (revision == "2024-11-05")


@pytest.mark.process
def test_the_tour_over_http_in_the_stateless_era(script):
    done = script("tour", "--http", "--revision", "2026-07-28")
    assert done.returncode == 0, done.stderr
    assert "no request left anything behind" in done.stdout


@pytest.mark.process
def test_one_call_in_both_eras_side_by_side(script):
    done = script("tour", "--eras")
    assert done.returncode == 0, done.stderr
    assert "2025-11-25" in done.stdout
    assert "2026-07-28" in done.stdout
    assert done.stdout.count("= counted to 1") == 2
    assert script("tour", "--eras", "--http").returncode == 2
