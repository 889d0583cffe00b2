"""Each example is run as a reader runs it, and prints what it shall print, to the letter."""

from __future__ import annotations

import json
import re
import sys

import pytest
from example_programs import EXAMPLES, PATHS, load, run

from mcpcore import Server

TRANSCRIPTS = {
    "01_message_by_hand": """\
request: {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}
answer:  {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"3"}]}}
it says: 3

the same bytes: True
answer to 7 says 3
hello  ->  -32700 Parse error: ...
{"jsonrpc":"2.0","id":null,"method":"ping"}  ->  -32600 Invalid request: the id of a request is a string or an integer, never null
[]  ->  -32600 Invalid request: an empty batch

the handshake:
client -> server: {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"by hand","version":"1.0"}}}
server -> client: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"adder","version":"1.0"}}}
client -> server: {"jsonrpc":"2.0","method":"notifications/initialized"}
""",
    "02_engine_without_io": """\
state: fresh
too early: a client must not send tools/list in state fresh
state: ready
server: calculator in revision 2025-11-25
tools: calculate_expression count
next page: wait
2^10 is 1024
exit status: 0
state: closed
""",
    "04_client": """\
connected to calculator in revision 2026-07-28
how to use it: Use it for arithmetic.

first page of tools: ['calculate_expression', 'count']
- calculate_expression(expression): Calculate with + - * / ^ (or **), parentheses and signs.
- count(to, pause): Count from one, with a pause before each number, and tell how far it is.
- wait(seconds): Do nothing for some seconds.
resources: ['calculator://constants']
templates: ['calculator://constants/{name}']
prompts: ['explain']

for a model: 7
for a program: {'result': 7}
pi: 3.141592653589793
user: Explain step by step how to calculate 2^10. Check it with the calculator.

tool error: 1 / 0 has no value, or one that is too large
tool error: Invalid arguments: Object contains unknown field `formula`
request failed: -32602 Resource not found {'uri': 'calculator://constants/x'}
request failed: -32602 Resource not found {'uri': 'elsewhere://'}

closed: the server ended by itself when its stdin did
""",
    "05_progress_and_cancel": """\
a call with progress:
  log, info: counting to 3
  progress: 1 of 3
  progress: 2 of 3
  progress: 3 of 3
counted to 3

a slow call, a quick one beside it, and the end of the slow one:
  log, debug: waiting
the quick one is 42
  log, debug: wait was cancelled

a call with a time limit:
RequestTimeout of tools/call after 0.2 s

the connection lives: the ping was answered
""",
    "06_questions": """\
in revision 2025-11-25
client calls hasty
    (number 1 is drawn)
  server asks: How many seats? ['seats']
  person: {'seats': 3}
tool: booking 1: 3 seats
client calls careful
    (number 2 is drawn)
  server asks: Booking 2: how many seats? ['seats']
  person: {}
tool: booking 2: 2 seats
client calls careful
    (number 3 is drawn)
  server asks: Booking 3: how many seats? ['seats']
  person: decline
tool: no booking

in revision 2026-07-28
client calls hasty
    (number 4 is drawn)
  server asks: How many seats? ['seats']
  person: {'seats': 3}
    (number 5 is drawn)
tool: booking 5: 3 seats
client calls careful
    (number 6 is drawn)
  server asks: Booking 6: how many seats? ['seats']
  person: {}
tool: booking 6: 2 seats
client calls careful
    (number 7 is drawn)
  server asks: Booking 7: how many seats? ['seats']
  person: decline
tool: no booking

    (number 8 is drawn)
without a person: the client cannot be asked for this: it did not declare elicitation.form
""",
    "07_over_http": """\
ada asks for ORD-104: shipped
ada asks for ORD-105: you have no order with this id
ada asks for ORD-999: you have no order with this id
without a token: HTTP 401 Bearer
""",
    "08_inside_another_app": """\
over MCP: Hello, Ada!
over HTTP: a page for people
""",
    "09_broken_connections": """\
arrived after 12 days
each day was heard of once: True
connections were cut: True
""",
}


@pytest.mark.process
@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_example_prints_its_transcript(name: str) -> None:
    # Why a line is no JSON is told in the words of the JSON library.
    printed = re.sub(r"(?<=Parse error: ).*", "...", run(name))
    assert printed == TRANSCRIPTS[name]


@pytest.mark.process
def test_the_server_in_ten_lines_understands_the_messages_written_by_hand() -> None:
    written = TRANSCRIPTS["01_message_by_hand"]
    lines = re.findall(r"^client -> server: (.*)$", written, re.MULTILINE)
    lines += re.findall(r"^request: (.*)$", written, re.MULTILINE)
    answers = [json.loads(line) for line in run("03_server", "\n".join(lines) + "\n").splitlines()]
    assert [answer["id"] for answer in answers] == [1, 7]
    assert answers[0]["result"]["protocolVersion"] == "2025-11-25"
    assert answers[0]["result"]["serverInfo"] == {"name": "adder", "version": "1.0"}
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.process
@pytest.mark.parametrize("name", ["calculator", "database", "orders", "weather"])
def test_the_server_ends_in_silence_when_its_input_does(name: str) -> None:
    assert run(name) == ""


def test_the_server_in_ten_lines_has_ten_lines() -> None:
    source = (EXAMPLES / "03_server.py").read_text(encoding="utf-8").split('"""', 2)[2]
    code = [line for line in source.splitlines() if line.strip()]
    assert len(code) <= 10
    assert isinstance(load("03_server").server, Server)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_to_notice_and_what_to_try(path) -> None:  # type: ignore[no-untyped-def]
    source = path.read_text(encoding="utf-8")
    opening = source.split('"""')[1]
    assert source.count("\n") < 120
    assert "\nNotice: " in opening
    assert "\nExercise: " in opening


def test_the_path_through_the_examples_names_each_of_them_once_as_a_heading() -> None:
    headings = re.findall(
        r"^## .*\[`(.*?)`\]\(\1\)",
        (EXAMPLES / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert sorted(headings) == [path.name for path in PATHS]


def test_an_example_imports_only_what_comes_with_mcpcore() -> None:
    """`pip install -e '.[all]'` and nothing more is enough for all of them."""
    allowed = {*sys.stdlib_module_names, "mcpcore", "msgspec", "trio", "starlette", "hypercorn"}
    for path in PATHS:
        imported = re.findall(
            r"^(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert set(imported) <= allowed, path.name
