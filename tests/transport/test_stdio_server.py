"""A server on its own stdin and stdout: what is on stdout, and when and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys

import pytest
from handshake import connect

from mcpcore import StdioServer, Timeouts
from mcpcore.revisions import HANDSHAKE

pytestmark = pytest.mark.process

PATIENCE = 20


def request(id, method, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id, name, **arguments):
    return request(id, "tools/call", name=name, arguments=arguments)


OPENING = [
    request(
        0,
        "initialize",
        protocolVersion=HANDSHAKE[0],
        capabilities={},
        clientInfo={"name": "t", "version": "0"},
    ),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def lines(*messages):
    return b"".join(
        (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n"
        for message in messages
    )


def answers(output):
    """The answers by id, and the proof that every byte of `output` belongs to a message."""
    assert output == b"" or output.endswith(b"\n")
    found = {}
    for line in output.split(b"\n")[:-1]:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        assert b"\r" not in line
        found[message.get("id")] = message
    return found


def text_of(answer):
    return answer["result"]["content"][0]["text"]


class Running:
    """A server with pipes, driven by hand."""

    def __init__(self, world, env=None, **streams):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(
            world.tools_command(), env=world.environment | (env or {}), **(pipes | streams)
        )

    def send(self, *messages):
        self.process.stdin.write(lines(*messages))
        self.process.stdin.flush()

    def open(self):
        self.send(*OPENING)
        return json.loads(self.process.stdout.readline())

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def finish(self):
        """Close its stdin; give the rest of stdout, stderr, and the status."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        return output, errors.decode(), self.process.returncode


@pytest.fixture
def server(world):
    with contextlib.ExitStack() as stack:

        def start(**options):
            running = Running(world, **options)
            stack.callback(running.process.wait)
            stack.callback(running.process.kill)
            for stream in (
                running.process.stdin,
                running.process.stdout,
                running.process.stderr,
            ):
                if stream is not None:
                    stack.callback(stream.close)
            return running

        yield start


# What is on stdout.


def test_stray_prints_go_to_stderr_from_spawn_to_exit(server):
    """F-021, STDIO-04: flushed, written to the descriptor, left in the buffer before and while it runs."""
    running = server()
    running.send(*OPENING, call(1, "noisy"))
    output, errors, status = running.finish()
    assert text_of(answers(output)[1]) == "done"
    assert len(answers(output)) == 2
    for stray in (
        "printed before the server runs and never flushed",
        "a stray print",
        "a stray write",
        "not flushed, no end of line",
    ):
        assert stray in errors
    assert status == 0


def test_a_subprocess_with_default_settings_can_neither_read_nor_write_the_wire(server):
    """F-021: its stdin is at its end at once, though requests are waiting; its stdout is stderr."""
    running = server()
    running.open()
    running.send(call(1, "spawn"), *(call(n, "nap", seconds=0) for n in range(2, 20)))
    output, errors, status = running.finish()
    found = answers(output)
    assert text_of(found[1]) == "0"
    assert set(found) == set(range(1, 20))
    assert "the child read 0" in errors
    assert status == 0


def test_a_subprocess_that_outlives_the_server_does_not_hold_its_stdout(server):
    """F-021: a reader of stdout sees its end when the server ends."""
    running = server()
    running.open()
    running.send(call(1, "spawn_in_background"))
    pid = int(text_of(running.answer()))
    running.process.stdin.close()
    try:
        assert running.process.stdout.read() == b""
        assert running.process.wait(PATIENCE) == 0
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_result_of_any_size_is_written_whole(server):
    """F-011: around buffers and the pipe's capacity, with a reader that comes late."""
    running = server()
    running.open()
    edges = [size + by for size in (4096, 8192, 16_384, 65_536) for by in (-200, -1, 0, 1)]
    for size in (*edges, 20_000, 300_000, 8 << 20):
        running.send(call(size, "blob", size=size), request("after", "ping"))
        found = {answer["id"]: answer for answer in (running.answer(), running.answer())}
        assert len(text_of(found[size])) == size
    assert running.finish()[2] == 0


def test_a_bad_line_is_answered_once_and_the_server_goes_on(server):
    """F-008, F-005: not with id 0; blank lines get nothing."""
    running = server()
    running.open()
    running.send(b"{this is not json", b"", b"  \t", b"\xff\xfe", request(5, "ping"))
    first, second, third = (running.answer() for _ in range(3))
    assert first["error"]["code"] == second["error"]["code"] == -32700
    assert first.get("id", None) is None
    assert third == {"jsonrpc": "2.0", "id": 5, "result": {}}
    output, _, status = running.finish()
    assert output == b""
    assert status == 0


# When it ends.


def test_it_ends_by_itself_when_its_input_ends(server):
    """F-013: before anything, after the handshake, and with exit status 0."""
    for messages in ([], OPENING):
        running = server()
        running.send(*messages)
        output, errors, status = running.finish()
        assert status == 0
        assert len(answers(output)) == len(messages[:1])
        assert "Traceback" not in errors


def test_accepted_requests_are_completed_after_the_end_of_input(world, tmp_path):
    """F-014: `server < requests.jsonl > responses.jsonl`, where a file is at its end at once."""
    asked = tmp_path / "requests.jsonl"
    got = tmp_path / "responses.jsonl"
    naps = [call(n, "nap", seconds=0.3) for n in range(1, 30)]
    dozes = [call(n, "doze", seconds=0.2) for n in range(30, 35)]
    large = [call(99, "blob", size=1_000_000)]
    asked.write_bytes(lines(*OPENING, *naps, *dozes, *large))
    with asked.open("rb") as source, got.open("wb") as sink:
        done = subprocess.run(
            world.tools_command(),
            check=False,
            stdin=source,
            stdout=sink,
            stderr=subprocess.PIPE,
            env=world.environment,
            timeout=PATIENCE,
        )
    assert done.returncode == 0
    found = answers(got.read_bytes())
    assert set(found) == {0, *range(1, 35), 99}
    assert len(text_of(found[99])) == 1_000_000


def test_accepted_requests_are_completed_after_the_end_of_a_pipe(server):
    """F-014, over pipes; the last request has no newline after it (F-010)."""
    running = server()
    last = json.dumps(call(2, "nap", seconds=0.1)).encode()
    running.process.stdin.write(lines(*OPENING, call(1, "nap", seconds=0.3)) + last)
    output, _, status = running.finish()
    assert set(answers(output)) == {0, 1, 2}
    assert status == 0


@pytest.mark.parametrize("tool", ["nap", "doze"])
def test_what_does_not_finish_after_the_end_of_input_is_given_up(server, tool):
    """F-013: within the bound of `drain`, also when a thread is busy."""
    running = server(env={"DRAIN": "0.2"})
    running.open()
    running.send(call(1, tool, seconds=1000))
    output, errors, status = running.finish()
    assert output == b""
    assert status == 0
    assert "Traceback" not in errors


def test_stdin_from_the_null_device_is_the_end(world):
    done = subprocess.run(
        world.tools_command(),
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=world.environment,
        timeout=PATIENCE,
    )
    assert done.returncode == 0
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr


def test_a_reader_that_went_away_does_not_make_a_traceback(server):
    running = server(env={"DRAIN": "0.2"})
    running.open()
    running.process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        running.send(call(1, "nap", seconds=0), call(2, "nap", seconds=0))
    running.process.stdin.close()
    errors = running.process.stderr.read().decode()
    assert running.process.wait(PATIENCE) == 0
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
@pytest.mark.parametrize("busy", ["idle", "nap", "doze"])
def test_a_signal_ends_it_at_once_with_the_documented_status(server, number, status, busy):
    """F-023: whatever it does, once, without a traceback, and nothing half on stdout."""
    running = server()
    running.open()
    if busy != "idle":
        running.send(call(1, busy, seconds=1000), request(2, "ping"))
        assert running.answer()["id"] == 2
    if busy == "doze":
        while "dozing" not in running.process.stderr.readline().decode():
            pass
    running.process.send_signal(number)
    assert running.process.wait(PATIENCE) == status
    assert b"Traceback" not in running.process.stderr.read()
    assert running.process.stdout.read() == b""


def test_a_print_without_line_end_is_not_lost_when_a_signal_ends_it(server):
    """Also when a thread that cannot be interrupted makes it leave in a hurry."""
    running = server()
    running.open()
    running.send(call(1, "noisy"))
    running.answer()
    running.send(call(2, "doze", seconds=1000))
    seen = b""
    while b"dozing" not in seen:
        seen += os.read(running.process.stderr.fileno(), 65536)
    running.process.send_signal(signal.SIGTERM)
    seen += running.process.stderr.read()
    assert running.process.wait(PATIENCE) == 143
    assert b"not flushed, no end of line" in seen


def test_ctrl_c_in_a_terminal_ends_it_though_a_thread_reads_the_terminal(world):
    """F-023: the first one, without a traceback."""
    leader, terminal = pty.openpty()
    take_it = "import fcntl,os,sys,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    become = "os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", take_it + become, *world.tools_command()],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=world.environment,
        start_new_session=True,
    )
    try:
        os.write(leader, lines(*OPENING))
        assert json.loads(process.stdout.readline())["id"] == 0
        os.write(leader, b"\x03")
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert output == b""
        assert b"Traceback" not in errors
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
        os.close(leader)


def test_the_end_of_a_terminals_input_ends_it(world):
    """Ctrl-D at the beginning of a line."""
    leader, terminal = pty.openpty()
    process = subprocess.Popen(
        world.tools_command(), stdin=terminal, stdout=subprocess.PIPE, env=world.environment
    )
    try:
        os.write(leader, lines(*OPENING))
        assert json.loads(process.stdout.readline())["id"] == 0
        os.write(leader, b"\x04")
        assert process.wait(PATIENCE) == 0
        assert os.get_blocking(terminal)
    finally:
        process.kill()
        process.communicate()
        os.close(terminal)
        os.close(leader)


# What the descriptors are.


def test_where_stderr_is_the_same_pipe_as_stdout_all_answers_come_and_it_stays_blocking(server):
    """`2>&1`: stray output cannot be kept out, yet nothing that is written to stderr may fail."""
    running = server(stderr=subprocess.STDOUT, env={"QUIET": "yes"})
    running.open()
    running.send(call(1, "nap", seconds=0), call(2, "blob", size=200_000))
    assert {running.answer()["id"], running.answer()["id"]} == {1, 2}
    running.process.stdin.close()
    assert running.process.stdout.read() == b""
    assert running.process.wait(PATIENCE) == 0


def test_one_socket_as_stdin_and_stdout_works(server):
    """As a service manager starts it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        running = server(stdin=theirs, stdout=theirs)
        theirs.close()
        ours.sendall(lines(*OPENING, call(1, "blob", size=300_000)))
        with ours.makefile("rb") as received:
            assert json.loads(received.readline())["id"] == 0
            assert len(text_of(json.loads(received.readline()))) == 300_000
            ours.shutdown(socket.SHUT_WR)
            assert received.read() == b""
        assert running.process.wait(PATIENCE) == 0


def test_it_runs_without_a_stderr(world):
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *world.tools_command()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=world.environment,
    )
    output, _ = process.communicate(lines(*OPENING, call(1, "noisy")), timeout=PATIENCE)
    assert process.returncode == 0
    assert text_of(answers(output)[1]) == "done"


def test_a_pipe_is_given_back_blocking(server):
    """The mode belongs to the pipe, which others may hold, too."""
    read_from, write_to = os.pipe()
    running = server(stdout=write_to)
    running.send(*OPENING)
    assert b'"id":0' in os.read(read_from, 65536)
    assert not os.get_blocking(write_to)
    running.process.stdin.close()
    assert running.process.wait(PATIENCE) == 0
    assert os.get_blocking(write_to)
    os.close(read_from)
    os.close(write_to)


# Both sides are ours.


async def test_our_client_and_our_server_over_real_pipes(world):
    async with connect(world.tools(), timeouts=Timeouts(connect=20, request=20)) as client:
        assert client.server_info.name == "tools"
        assert (await client.call_tool("noisy")).text == "done"
        assert (await client.call_tool("spawn")).text == "0"
        assert len((await client.call_tool("blob", {"size": 3_000_000})).text) == 3_000_000
        channel = client.runtime.channel
        assert client.forgiven.counts == {}
    assert channel._process.returncode == 0
    assert "a stray print" in channel.stderr_tail
    assert "not flushed, no end of line" in channel.stderr_tail


async def test_a_command_line_is_enough(world, monkeypatch):
    command = ["env", f"PYTHONPATH={world.environment['PYTHONPATH']}", *world.tools_command()]
    async with connect(command, timeouts=Timeouts(connect=20)) as client:
        assert {tool.name for tool in await client.list_tools()} >= {"noisy", "nap"}
    async with connect(StdioServer(command=command)) as client:
        await client.ping()


LISTENED = """
from mcpcore import Server

server = Server("listened", "1")
server.resource("x:a", subscribable=True)(lambda: "x")
server.run()
"""


def test_subs_16_the_end_of_a_server_is_told_to_those_who_listen():
    """SUBS-16, SUBS-18: on a pipe by a cancellation, and by the answer to what was listened by."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"notifications": {"resourceSubscriptions": ["x:a"]}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": "L", "method": "subscriptions/listen", "params": params}
    done = subprocess.run(
        [sys.executable, "-c", LISTENED],
        input=json.dumps(body) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [message.get("method") for message in said] == [
        "notifications/subscriptions/acknowledged",
        "notifications/cancelled",
        None,
    ]
    assert said[1]["params"]["requestId"] == said[2]["id"] == "L"
    assert done.returncode == 0
