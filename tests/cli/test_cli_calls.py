"""list, call, read, prompt, ping: what they print, where, and how they end (F-129)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from cli_programs import ROOT, command_line, words

MANY = command_line("many_kinds.py")


def odd(*kinds: str) -> str:
    return command_line("odd_server.py", *kinds)


def assert_refused(result, text: str) -> None:
    """Wrong use: one line on stderr, nothing on stdout, exit code 2."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert text in result.stderr


def assert_failed(result, code: int, text: str) -> None:
    """It went wrong: nothing on stdout, the reason in the last line of stderr, no traceback."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert text in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


# list


@pytest.mark.process
def test_list_shows_all_pages_of_all_that_is_declared(run):
    result = run("list", "--stdio", MANY)
    assert result.exit_code == 0
    heads = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert heads == ["tools (8)", "resources (3)", "templates (1)", "prompts (2)"]
    assert "  add(a: integer, b: integer)\n      Add two numbers.\n  die()\n" in result.stdout
    assert "second paragraph" not in result.stdout
    assert "steps(to: integer, unit?: string)" in result.stdout
    assert "  x://text (text/plain)\n      Some text.\n" in result.stdout
    assert "  x://item/{name} (text/plain)\n" in result.stdout
    assert "  greet(name, tone?)\n      Write a greeting.\n" in result.stdout


@pytest.mark.process
def test_stdout_is_for_the_result_and_stderr_for_the_servers_own_words(run):
    result = run("list", "--stdio", MANY, "prompts")
    assert result.stdout.startswith("prompts (2)\n")
    assert "many kinds is up" not in result.stdout
    assert result.stderr == "many kinds is up\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "member", "count"),
    [
        ("tools", "tools", 8),
        ("resources", "resources", 3),
        ("templates", "resourceTemplates", 1),
        ("prompts", "prompts", 2),
    ],
)
def test_list_as_json_is_one_line_with_every_entry_of_every_page(run, kind, member, count):
    result = run("list", "--json", "--stdio", MANY, kind)
    assert result.stdout.count("\n") == 1
    assert list(json.loads(result.stdout)) == [member]
    assert len(json.loads(result.stdout)[member]) == count


@pytest.mark.process
def test_list_of_everything_as_json_has_a_member_for_each_list(run):
    members = json.loads(run("list", "--json", "--stdio", MANY).stdout)
    assert list(members) == ["tools", "resources", "resourceTemplates", "prompts"]


@pytest.mark.process
def test_list_as_json_keeps_entries_as_they_came(run):
    result = run("list", "--json", "--stdio", odd(), "tools")
    assert (
        result.stdout
        == '{"tools":[{"name": "raw", "inputSchema": {"type": ["object"], "x": 1}}]}\n'
    )


@pytest.mark.process
@pytest.mark.parametrize(
    "line",
    [
        ["list", "prompts", "--json", "--", *words("many_kinds.py")],
        ["list", "--json", "prompts", "--", *words("many_kinds.py")],
        ["list", "--json", "--stdio", MANY, "prompts"],
        ["list", "--stdio", MANY, "prompts", "--json"],
        ["list", "prompts", f"--stdio={MANY}", "--json", "--timeout", "30"],
    ],
)
def test_options_stand_in_any_order_and_the_command_after_dashes_is_taken_as_it_stands(run, line):
    result = run(*line)
    assert result.exit_code == 0, result.output
    assert [item["name"] for item in json.loads(result.stdout)["prompts"]] == ["greet", "plain"]


@pytest.mark.process
def test_list_of_a_server_that_declares_nothing_says_so_on_stderr(run):
    result = run("list", "--stdio", odd("nothing"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "declares no tools, resources or prompts" in result.stderr
    assert run("list", "--json", "--stdio", odd("nothing")).stdout == "{}\n"


@pytest.mark.process
def test_list_of_everything_survives_a_server_with_resources_and_no_templates(run):
    result = run("list", "--stdio", odd())
    assert result.exit_code == 0
    assert "resources (1)\n  x://é\n      accent\ntemplates (0)\n" in result.stdout
    assert "the server has no resources/templates/list" in result.stderr


@pytest.mark.process
def test_list_of_everything_tells_any_other_refusal(run):
    result = run("list", "--stdio", odd("bad-templates"))
    assert_failed(result, 3, "error: not today (code -32000)")


@pytest.mark.process
def test_list_of_what_is_not_declared_is_a_protocol_error(run):
    assert_failed(run("list", "--stdio", odd(), "prompts"), 3, "capability 'prompts'")


@pytest.mark.process
def test_a_list_without_end_is_a_protocol_error(run):
    assert_failed(run("list", "--stdio", odd("loop"), "tools"), 3, "the list has no end")


# call


@pytest.mark.process
def test_call_prints_the_text_of_the_result(run):
    result = run("call", "--stdio", MANY, "add", '{"a": 1, "b": 2}')
    assert (result.exit_code, result.stdout) == (0, "3\n")


@pytest.mark.process
def test_call_as_json_prints_nothing_but_the_result_on_stdout(run):
    result = run("call", "--json", "--stdio", MANY, "steps", '{"to": 2}')
    assert json.loads(result.stdout)["content"] == [{"type": "text", "text": "done"}]
    lines = result.stderr.splitlines()
    assert 'log: warning: {"to":2}' in lines
    assert "log: info: plain" in lines
    progress = [line for line in lines if line.startswith("progress: ")]
    assert progress == ["progress: 1/2 step", "progress: 2/2 step", "progress: 3"]


@pytest.mark.process
def test_call_as_json_keeps_digits_and_members_that_nobody_knows(run):
    result = run("call", "--json", "--stdio", odd(), "raw")
    assert '"far":123456789012345678901234567890,' in result.stdout
    assert '"content": [{"type":"hologram","n":1}]' in result.stdout
    assert result.stdout.count("\n") == 1


@pytest.mark.process
def test_arguments_arrive_as_they_were_typed_and_on_one_line(run):
    typed = '{"n": 123456789012345678901234567890,\n "f": 1.10, "nested": {\n"s": "a\\nb  é"}}'
    result = run("call", "--json", "--stdio", odd(), "raw", typed)
    sent = json.loads(result.stdout)["line"]
    expected = r'"arguments":{"n":123456789012345678901234567890,"f":1.10,"nested":{"s":"a\nb  é"}}'
    assert expected in sent


@pytest.mark.process
def test_a_block_of_an_unknown_kind_is_shown_as_its_json(run):
    result = run("call", "--stdio", odd(), "raw")
    assert json.loads(result.stdout) == {"type": "hologram", "n": 1}


@pytest.mark.process
def test_a_tool_error_exits_with_1_and_its_text_is_no_result(run):
    result = run("call", "--stdio", MANY, "fail", '{"why": "no luck"}')
    assert_failed(result, 1, "tool error: no luck")


@pytest.mark.process
def test_a_tool_error_as_json_exits_with_1_and_is_the_result(run):
    result = run("call", "--json", "--stdio", MANY, "fail", '{"why": "no luck"}')
    assert result.exit_code == 1
    assert json.loads(result.stdout)["isError"] is True


@pytest.mark.process
def test_an_unknown_tool_exits_with_3(run):
    assert_failed(run("call", "--stdio", MANY, "nope"), 3, "Unknown tool: nope (code -32602)")


@pytest.mark.process
def test_nothing_of_a_result_reaches_the_terminal_as_a_command(run):
    result = run("call", "--stdio", MANY, "everything")
    assert result.stdout.splitlines() == [
        r"text with \u001b[31mcolour\u0007 and \u202eturned",
        "[image, image/png, 5 bytes; --json shows them in base64]",
        "[audio, audio/wav, 4 bytes; --json shows them in base64]",
        "[resource x://link: A link]",
        "[resource x://inner]",
        "inside",
    ]


@pytest.mark.parametrize(
    "text",
    ["", "nope", "[1]", "7", "{", '{"a": NaN}', '{"a": 1} x', '{"a": \udcff}', '{"a":' * 9999],
)
def test_arguments_that_are_no_json_object_are_wrong_use(run, text):
    assert_refused(run("call", "--stdio", "never started", "add", text), "must be a JSON object")


# read


@pytest.mark.process
def test_read_prints_text_as_it_is(run):
    result = run("read", "--stdio", MANY, "x://text")
    assert (result.exit_code, result.stdout) == (0, "line one\nline two\n")


@pytest.mark.process
def test_read_names_what_is_binary(run):
    result = run("read", "--stdio", MANY, "x://blob")
    assert (
        result.stdout
        == "[binary, application/octet-stream, 3 bytes; --json shows them in base64]\n"
    )


@pytest.mark.process
def test_read_tells_several_contents_apart_on_stderr(run):
    result = run("read", "--stdio", MANY, "x://several")
    assert result.stdout == "one\ntwo\n"
    assert result.stderr.splitlines()[-2:] == ["x://several/1:", "x://several/2:"]


@pytest.mark.process
def test_read_as_json_prints_the_result(run):
    result = run("read", "--stdio", MANY, "x://item/b", "--json")
    assert json.loads(result.stdout)["contents"] == [
        {"uri": "x://item/b", "mimeType": "text/plain", "text": "b"}
    ]


@pytest.mark.process
def test_an_unknown_resource_exits_with_3(run):
    assert_failed(run("read", "--stdio", MANY, "x://nope"), 3, "(code -32602)")
    older = run("read", "--revision", "2025-11-25", "--stdio", MANY, "x://nope")
    assert_failed(older, 3, "(code -32002)")


# prompt


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments", [["name=Ada", "tone=a=b"], ['{"name": "Ada", "tone": "a=b"}']]
)
def test_prompt_takes_json_or_pairs(run, arguments):
    result = run("prompt", "--stdio", MANY, "greet", *arguments)
    assert (result.exit_code, result.stdout) == (0, "user: Greet Ada, a=b\n")


@pytest.mark.process
def test_prompt_needs_no_arguments(run):
    assert run("prompt", "--stdio", MANY, "plain").stdout == "user: Just talk\n"


@pytest.mark.process
def test_prompt_as_json_prints_the_result(run):
    result = run("prompt", "plain", "--json", "--stdio", MANY)
    message = {"role": "user", "content": {"type": "text", "text": "Just talk"}}
    assert json.loads(result.stdout)["messages"] == [message]


@pytest.mark.process
def test_a_missing_argument_of_a_prompt_exits_with_3(run):
    assert_failed(run("prompt", "--stdio", MANY, "greet"), 3, "(code -32602)")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["name"], "'name' is neither"),
        (["=x"], "'=' is neither"),
        (["a=b", "{}"], "'{}' is neither"),
        (['{"name": 1}'], "must be strings"),
        (["{"], "must be a JSON object"),
        (["[]"], "must be a JSON object"),
    ],
)
def test_wrong_arguments_of_a_prompt_are_wrong_use(run, arguments, text):
    assert_refused(run("prompt", "--stdio", "never started", "greet", *arguments), text)


# ping


@pytest.mark.process
def test_ping_names_the_server_and_the_revision(run):
    result = run("ping", "--revision", "2025-03-26", "--", *words("many_kinds.py"))
    assert result.exit_code == 0
    assert result.stdout.startswith("many kinds 2.0 answers in ")
    assert result.stdout.endswith(" ms, protocol 2025-03-26\n")


@pytest.mark.process
def test_ping_as_json_prints_the_empty_result(run):
    assert run("ping", "--json", "--stdio", MANY).stdout == "{}\n"


# How the server is reached.


@pytest.mark.process
def test_env_and_cwd_are_for_the_server(run, tmp_path):
    result = run(
        "call", "--env", "A=1", "--env", "B=x=y", "--stdio", MANY, "variable", '{"name": "B"}'
    )
    assert result.stdout == "x=y\n"
    result = run("call", "--cwd", str(tmp_path), "--stdio", MANY, "directory")
    assert result.stdout == f"{tmp_path.resolve()}\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (["list"], "No server: give one by --stdio CMD, --url URL, or -- CMD ARGS"),
        (["call", "add"], "No server: give one by --stdio CMD or --url URL."),
        (["ping", "--stdio", "x", "--", "y"], "Two servers"),
        (["ping", "--"], "command is empty"),
        (["ping", "--stdio", " "], "command is empty"),
        (["ping", "--stdio", "a 'b"], "cannot be split"),
        (["ping", "--stdio"], "requires an argument"),
        (["ping", "--stdio", "x", "--timeout", "0"], "x>0"),
        (["ping", "--stdio", "x", "--timeout", "nan"], "nan is no number of seconds"),
        (["ping", "--stdio", "x", "--timeout", "soon"], "not a valid float"),
        (["ping", "--stdio", "x", "--env", "A"], "is not NAME=VALUE"),
        (["ping", "--stdio", "x", "--env", "=A"], "is not NAME=VALUE"),
        (["ping", "--stdio", "x", "--cwd", "/no/such/folder"], "does not exist"),
        (["ping", "--stdio", "x", "--revision", "1999-01-01"], "is not one of"),
        (["ping", "--stdio", "x", "--wrong"], "No such option"),
        (["list", "--stdio", "x", "gadgets"], "is not one of"),
        (["call", "--stdio", "x"], "Missing argument 'NAME'"),
        (["call", "--stdio", "x", "a", "{}", "more"], "unexpected extra argument"),
        (["call", "add", "--", "python"], "No server"),
    ],
)
def test_wrong_use_is_told_in_one_line(run, line, text):
    result = run(*line)
    assert_refused(result, text)
    assert result.stderr.endswith(f"See 'mcpcore {line[0]} --help'.\n")


def test_dashes_end_the_options_where_arguments_may_look_like_one(run):
    """Where no command follows them, they mean what they mean everywhere."""
    result = run("prompt", "--stdio", "/no/such/program", "greet", "--", "--tone=1")
    assert_failed(result, 4, "cannot start '/no/such/program'")


def test_a_server_that_cannot_be_started_exits_with_4(run):
    result = run("ping", "--", "/no/such/program")
    assert_failed(result, 4, "error: cannot start '/no/such/program': No such file or directory")


@pytest.mark.process
def test_a_server_that_ends_exits_with_4_and_its_last_words_are_told_once(run):
    result = run("call", "--stdio", MANY, "die")
    assert_failed(result, 4, "error: the server exited with status 7")
    assert result.stderr.count("last words") == 1


@pytest.mark.process
def test_a_server_that_does_not_answer_in_time_exits_with_4(run):
    result = run("ping", "--timeout", "1", "--stdio", odd("deaf"))
    assert_failed(result, 4, "no answer to ping within 1 s")


@pytest.mark.process
@pytest.mark.parametrize("seconds", ["4000", "inf"])
def test_a_timeout_beyond_the_usual_maximum_is_taken(run, seconds):
    assert run("ping", "--timeout", seconds, "--stdio", MANY).exit_code == 0


@pytest.mark.process
def test_a_server_that_refuses_the_session_exits_with_3_in_one_clean_line(run):
    result = run("ping", "--stdio", odd("refuse"))
    assert_failed(
        result,
        3,
        r"error: go away \u001b[1m (code -32603); data: {\"digits\":7}".replace('\\"', '"'),
    )


@pytest.mark.process
def test_no_common_revision_exits_with_3(run):
    assert_failed(run("ping", "--stdio", odd("future")), 3, "the peer speaks 2999-01-01")


@pytest.mark.process
def test_what_a_server_is_forgiven_is_told_on_stderr(run):
    result = run("list", "tools", "--json", "--stdio", odd("noise"))
    assert result.exit_code == 0
    assert list(json.loads(result.stdout)) == ["tools"]
    (line,) = result.stderr.splitlines()
    assert line.startswith("forgiven: STDIO-04, 1 times: A server writes nothing but messages")
    assert "this is no message" in line


@pytest.mark.process
def test_strict_forgives_nothing(run):
    result = run("list", "tools", "--strict", "--json", "--stdio", odd("noise"))
    assert_failed(result, 3, "this is no message")


# As real processes.


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_the_server_without_a_traceback(number):
    command = [sys.executable, "-m", "mcpcore", "call", "--stdio", MANY, "sleep"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if line.startswith("asleep in "):
                server = int(line.split()[-1])
                break
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert (stdout, stderr) == ("", "")
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


@pytest.mark.process
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_result_that_nobody_reads_is_no_tool_error_and_no_traceback(script, form):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = script(
            "ping", *form, "--stdio", MANY, capture_output=False, stdout=writer, stderr=-1
        )
    finally:
        os.close(writer)
    assert done.returncode == 141
    assert done.stderr.splitlines()[1:] == []


@pytest.mark.process
def test_a_stderr_that_nobody_reads_costs_nothing(script):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = script(
            "call", "--stdio", MANY, "add", '{"a":1,"b":1}',
            capture_output=False, stdout=-1, stderr=writer,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stdout) == (0, "2\n")


@pytest.mark.process
def test_a_character_that_the_output_lacks_is_escaped(script):
    done = script("list", "--stdio", odd(), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert r"x://\xe9" in done.stdout
