"""The README says what is true: its table, its programs, its commands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mcpcore import types as t
from mcpcore.revisions import FIELDS, KINDS, METHODS, REVISIONS, Revision

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def has_method(name: str, revision: Revision) -> bool:
    return any(row.name == name and row.exists_in(revision) for row in METHODS)


def has_field(struct: type, name: str, revision: Revision) -> bool:
    rows = [row for row in FIELDS if row.struct is struct and row.name == name]
    return all(row.since.position <= revision.position <= row.until.position for row in rows)


def has_kind(struct: type, revision: Revision) -> bool:
    return any(row.struct is struct and row.since.position <= revision.position for row in KINDS)


FEATURES = {
    "client and server": lambda revision: True,
    "tools, resources, prompts, completion": lambda revision: all(
        has_method(name, revision)
        for name in ("tools/call", "resources/read", "prompts/get", "completion/complete")
    ),
    "structured tool results": lambda revision: has_field(
        t.CallToolResult, "structured_content", revision
    ),
    "audio content": lambda revision: has_kind(t.AudioContent, revision),
    "resource links": lambda revision: has_kind(t.ResourceLink, revision),
    "logging, progress, cancellation": lambda revision: all(
        has_method(f"notifications/{name}", revision)
        for name in ("message", "progress", "cancelled")
    ),
    # In the stateless revision they are no requests of their own, but part of results.
    "sampling, roots": lambda revision: (
        revision.era == "stateless"
        or (has_method("sampling/createMessage", revision) and has_method("roots/list", revision))
    ),
    "sampling with tools": lambda revision: has_field(t.CreateMessageParams, "tools", revision),
    "elicitation by form": lambda revision: has_field(
        t.ClientCapabilities, "elicitation", revision
    ),
    "elicitation by URL": lambda revision: has_field(t.ElicitParams, "url", revision),
    "icons": lambda revision: has_field(t.Tool, "icons", revision),
}


def support_table() -> dict[str, dict[str, str]]:
    table = README.split("<!-- support table", 1)[1].split("Transports:", 1)[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]
    names = rows[0][1:]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows[1:]}


def test_the_support_table_has_a_column_for_each_revision() -> None:
    assert list(next(iter(support_table().values()))) == list(REVISIONS)


@pytest.mark.parametrize("feature", FEATURES)
def test_the_support_table_says_what_the_rows_say(feature: str) -> None:
    for revision in REVISIONS.values():
        expected = "yes" if FEATURES[feature](revision) else "-"
        assert support_table()[feature][revision.name] == expected, revision.name


def test_the_support_table_tells_batches_and_tasks_as_the_rows_do() -> None:
    table = support_table()
    assert set(table) == {*FEATURES, "batches", "tasks"}
    for name, revision in REVISIONS.items():
        assert table["batches"][name] == ("yes" if revision.batching else "refused")
        assert table["tasks"][name] == ("refused" if has_method("tasks/get", revision) else "-")


@pytest.mark.process
def test_the_servers_and_clients_of_the_readme_work(tmp_path: Path) -> None:
    server, client, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "server.py").write_text(server)
    client = client.replace('"python server.py"', repr([sys.executable, "server.py"]))
    (tmp_path / "client.py").write_text(client)
    done = subprocess.run(
        [sys.executable, "client.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "add - Add two numbers.\n3\n", done.stderr


@pytest.mark.process
def test_the_question_of_the_readme_is_asked_and_answered(tmp_path: Path) -> None:
    server, client, asking, answering, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "server.py").write_text(server.replace("server.run()", asking + "\n\nserver.run()"))
    client = client.split("async def main")[0] + answering + "\n\ntrio.run(main)\n"
    client = client.replace('"python server.py"', repr([sys.executable, "server.py"]))
    (tmp_path / "client.py").write_text(client)
    done = subprocess.run(
        [sys.executable, "client.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "How many seats for Metropolis? ['seats']\n3 seats\n", done.stderr


@pytest.mark.process
def test_the_same_server_and_client_work_over_http(tmp_path: Path) -> None:
    server, client, _asking, _answering, serve, open_url, _ = re.findall(
        r"```python\n(.*?)```", README, re.DOTALL
    )
    (tmp_path / "server.py").write_text(
        server.replace("server.run()\n", serve.replace("port=8000", "port=0"))
    )
    with subprocess.Popen(
        [sys.executable, "server.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        url = process.stderr.readline().removeprefix("serving on ").strip()
        opening = open_url.splitlines()[0].replace("http://127.0.0.1:8000/mcp", url)
        here = 'async with connect("python server.py") as client:'
        assert here in client
        (tmp_path / "client.py").write_text(client.replace(here, opening))
        done = subprocess.run(
            [sys.executable, "client.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        process.terminate()
    assert done.stdout == "add - Add two numbers.\n3\n", done.stderr
    # Ended by the signal, in order.
    assert process.returncode == 128 + 15


def test_the_two_commands_are_each_one_line() -> None:
    setup = [
        line
        for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
        for line in block.splitlines()
        if line.startswith("python3 -m venv")
    ]
    assert [shlex.split(line)[-1] for line in setup] == ["tour", "pytest"]
