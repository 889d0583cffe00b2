"""A server as a child process: how it starts, what it may do on its pipes, what its end looks like."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys

import pytest
import trio
import trio.testing
from handshake import connect

from mcpcore import (
    ConnectionLost,
    RemoteProtocolError,
    RequestTimeout,
    StdioServer,
    Timeouts,
)
from mcpcore.transport import start_server
from mcpcore.transport.process import INHERITED

pytestmark = pytest.mark.process

PATIENT = Timeouts(connect=20, request=20)


async def call(target, name="any", arguments=None, **options):
    async with connect(target, timeouts=PATIENT, **options) as client:
        return (await client.call_tool(name, arguments)).text, client


# What the child writes to its stdout.


async def test_a_banner_and_log_lines_on_stdout_are_passed_over_and_counted(world):
    """F-006."""
    text, client = await call(world.peer("banner"))
    assert text == "done"
    assert client.forgiven.counts["STDIO-04"] == 3


async def test_lines_that_are_not_utf8_do_not_end_the_connection(world):
    """F-007."""
    text, _ = await call(world.peer("not_utf8"))
    assert text == "done"


async def test_a_message_in_crumbs_arrives_whole(world):
    """F-001, F-002, F-003 and F-004 over a real pipe: one byte a write, U+2028, CRLF at the end."""
    text, _ = await call(world.peer("in_crumbs"))
    assert text == "é\u2028—😀"


@pytest.mark.parametrize("size", [65_536, 1 << 20, 8 << 20])
async def test_a_long_line_is_no_error(world, size):
    """F-009."""
    text, _ = await call(world.peer("large"), arguments={"size": size})
    assert len(text) == size


async def test_a_line_beyond_the_limit_of_the_client_is_survived(world):
    async with connect(world.peer("large", max_line=10_000), timeouts=PATIENT) as client:
        with pytest.raises(RemoteProtocolError, match="a message of more than 10000 bytes"):
            await client.call_tool("any", {"size": 20_000})
        assert (await client.call_tool("any", {"size": 5_000})).text == "x" * 5_000


async def test_a_last_message_without_its_newline_is_delivered(world):
    """F-010."""
    async with connect(world.peer("no_last_newline"), timeouts=PATIENT) as client:
        assert (await client.call_tool("any")).text == "last words"
        with pytest.raises(ConnectionLost, match="exited with status 0"):
            await client.call_tool("any")


async def test_what_a_child_wrote_before_it_exited_can_be_read_later(world):
    """The channel alone, read by nobody until long after the exit."""
    channel = await start_server(world.peer("answers_and_dies"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        await channel._process.wait()
        await trio.sleep(0.8)
        got = await channel.receive()
        with pytest.raises(ConnectionLost, match="exited with status 0") as caught:
            await channel.receive()
        await channel.aclose()
    assert [json.loads(frame)["method"] for frame in got] == ["a", "b"]
    assert caught.value.exit_status == 0


# Its stderr.


async def test_a_chatty_child_never_blocks_on_its_stderr(world):
    """F-012: 2000 lines before each answer."""
    text, client = await call(world.peer("chatty"))
    assert text == "done"
    tail = client.runtime.channel.stderr_tail
    assert len(tail) == 4096
    assert tail.splitlines()[-1].startswith("log line 1999 ")


async def test_each_line_of_stderr_goes_to_the_callback(world):
    """Also what is not UTF-8, and a last line without its end."""
    lines = []
    await call(world.peer("half_a_line", stderr=lines.append))
    assert lines == ["first", "\ufffd\ufffd", "no end"]


async def test_a_callback_that_raises_does_not_stop_the_draining(world, caplog):
    lines = []

    def callback(line):
        lines.append(line)
        raise RuntimeError("the callback is broken")

    text, _ = await call(world.peer("half_a_line", stderr=callback))
    assert text == "done"
    assert len(lines) == 3
    assert "the stderr callback raised" in caplog.text


async def test_an_endless_line_on_stderr_is_cut(world):
    lines = []
    code = "import os,sys; os.write(2, b'y' * 20000); os.write(2, b'\\nz\\n'); sys.stdin.read()"
    channel = await start_server(
        StdioServer(command=["python3", "-I", "-S", "-c", code], stderr=lines.append)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        assert await world.until(lambda: "z" in lines)
        await channel.aclose()
    assert sum(map(len, lines)) == 20_001
    assert len(lines) >= 2


async def test_stderr_is_appended_to_a_file(world, tmp_path):
    path = tmp_path / "log"
    path.write_text("before\n")
    await call(world.peer("half_a_line", stderr=path))
    assert path.read_bytes() == b"before\nfirst\n\xff\xfe\nno end"
    await call(world.peer("half_a_line", stderr=str(path)))
    assert path.read_bytes().count(b"first") == 2


@pytest.mark.parametrize("path", ["/nonexistent/log", "/dev/full"])
async def test_a_stderr_file_that_cannot_be_written_costs_nothing_but_the_file(world, path, caplog):
    caplog.set_level(logging.WARNING, "mcpcore.transport")
    text, client = await call(world.peer("half_a_line", stderr=path))
    assert text == "done"
    assert "is not kept" in caplog.text
    assert "no end" in client.runtime.channel.stderr_tail


# Its start.


async def test_a_child_that_dies_at_start_fails_the_connect_with_its_reason(world):
    """F-015."""
    with trio.fail_after(10), pytest.raises(ConnectionLost) as caught:
        async with connect(world.peer("dies_at_start")):
            pass
    assert caught.value.exit_status == 3
    assert "exited with status 3" in str(caught.value)
    assert "KeyError: 'API_KEY'" in str(caught.value)


async def test_a_wrong_path_of_a_script_is_told(world):
    """F-016: the interpreter is found, the script is not."""
    with trio.fail_after(10), pytest.raises(ConnectionLost, match=r"nofile.py") as caught:
        async with connect("python3 -I -S nofile.py"):
            pass
    assert caught.value.exit_status == 2


async def test_a_command_that_does_not_exist_is_named(world):
    """F-016."""
    with pytest.raises(ConnectionLost, match=r"cannot start 'no-such-command-here'.*No such file"):
        async with connect("no-such-command-here --flag"):
            pass


async def test_a_command_that_is_not_executable_is_named(world, tmp_path):
    """F-016."""
    script = tmp_path / "server"
    script.write_text("not a program")
    with pytest.raises(ConnectionLost, match=r"cannot start .*server.*Permission denied"):
        async with connect([str(script)]):
            pass
    script.chmod(0o755)
    with pytest.raises(ConnectionLost, match=r"cannot start .*server.*Exec format"):
        async with connect([str(script)]):
            pass


async def test_a_working_directory_that_does_not_exist_is_named_and_not_the_command(world):
    """F-016: saying that the command is missing would send people to the wrong place."""
    with pytest.raises(ConnectionLost, match="/nonexistent"):
        async with connect(world.peer("plain", cwd="/nonexistent")):
            pass


@pytest.mark.parametrize("command", ["", [], "python 'unclosed"])
async def test_a_command_that_is_none_is_an_error_of_the_caller(world, command):
    with pytest.raises(ValueError, match=r"empty|quotation"):
        async with connect(command):
            pass


async def test_a_silent_child_fails_the_connect_in_time_and_is_ended(world):
    """F-042."""
    with pytest.raises(RequestTimeout, match="initialize"):
        async with connect(world.peer("silent"), timeouts=Timeouts(connect=0.3)):
            pass
    assert world.children() == set()


# Its environment.


async def test_variables_are_merged_over_a_safe_set(world, monkeypatch):
    """F-022."""
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "s")
    text, _ = await call(world.peer("tells_its_environment", env={"API_KEY": "k", "HOME": "/h"}))
    environment, _ = json.loads(text)
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["API_KEY"] == "k"
    assert environment["HOME"] == "/h"
    assert "SECRET_OF_THE_PARENT" not in environment
    assert set(environment) - {"LC_CTYPE"} <= {*INHERITED, "API_KEY"}


async def test_an_exact_environment_is_exact(world):
    target = world.peer("tells_its_environment", env={"ONLY": "this"}, exact_env=True)
    environment, _ = json.loads((await call(target))[0])
    environment.pop("LC_CTYPE", None)  # the interpreter adds it by itself
    assert environment == {"ONLY": "this"}


async def test_the_command_is_found_on_the_path_it_will_get(world):
    """F-022: env= without PATH leaves `python3` findable."""
    script = world.programs / "peer.py"
    text, _ = await call(StdioServer(command=f"python3 -I -S '{script}' plain", env={"A": "b"}))
    assert text == "done"


async def test_the_working_directory_is_the_given_one(world, tmp_path):
    text, _ = await call(world.peer("tells_its_environment", cwd=tmp_path))
    assert json.loads(text)[1] == str(tmp_path)


# Its death in the middle of a session.


async def test_kill_9_in_mid_call_fails_the_call_at_once_and_says_why(world):
    """F-019."""
    async with connect(world.peer("waits_in_a_call"), timeouts=PATIENT) as client:
        async with trio.open_nursery() as nursery:

            async def kill():
                await world.until(lambda: "working on it" in client.runtime.channel.stderr_tail)
                os.kill(client.runtime.channel.pid, signal.SIGKILL)

            nursery.start_soon(kill)
            with trio.fail_after(5), pytest.raises(ConnectionLost) as caught:
                await client.call_tool("any")
        assert caught.value.exit_status == -9
        assert "SIGKILL" in str(caught.value)
        assert "working on it" in str(caught.value)
        with pytest.raises(ConnectionLost, match="SIGKILL"):
            await client.call_tool("any")
        await trio.testing.wait_all_tasks_blocked()
        assert client.state.value == "closed"


async def test_all_calls_in_flight_fail_when_the_server_dies(world):
    """F-019, F-128: plain exceptions, one each."""
    failed = []
    async with connect(world.peer("waits_in_a_call"), timeouts=PATIENT) as client:

        async def call_and_fail():
            with pytest.raises(ConnectionLost) as caught:
                await client.call_tool("any")
            failed.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call_and_fail)
            await trio.testing.wait_all_tasks_blocked(0.05)
            os.kill(client.runtime.channel.pid, signal.SIGKILL)
    assert len({id(error) for error in failed}) == 5


@pytest.mark.parametrize(
    ("habit", "status", "words"),
    [
        (("dies_in_a_call",), 7, "exited with status 7"),
        (("killed_in_a_call", "15"), -15, "SIGTERM"),
        (("killed_in_a_call", "40"), -40, "signal 40|exit status -40"),
    ],
)
async def test_the_exit_status_is_told_whatever_it_is(world, habit, status, words):
    """F-019; signal 40 is one of those that have no name."""
    async with connect(world.peer(*habit), timeouts=PATIENT) as client:
        with trio.fail_after(5), pytest.raises(ConnectionLost, match=words) as caught:
            await client.call_tool("any")
    assert caught.value.exit_status == status


async def test_a_grandchild_that_holds_stdout_does_not_hide_the_death_of_the_server(
    world, tmp_path
):
    """F-019: no end of file comes, since somebody else has the pipe open, too."""
    pids = tmp_path / "pids"
    async with connect(world.peer("leaves_a_child_and_dies", pids), timeouts=PATIENT) as client:
        with trio.fail_after(5), pytest.raises(ConnectionLost, match="exited with status 5"):
            await client.call_tool("any")
    assert await world.gone(int(pids.read_text()))


async def test_a_server_that_closes_its_stdout_fails_the_call(world):
    target = world.peer("closes_stdout", close_grace=0.1)
    async with connect(target, timeouts=PATIENT) as client:
        with trio.fail_after(5), pytest.raises(ConnectionLost, match="closed its stdout") as caught:
            await client.call_tool("any")
    assert caught.value.exit_status is None


async def test_a_server_that_stops_reading_fails_the_call(world):
    """F-034: its stdin is closed, its stdout stays open."""
    target = world.peer("stopped_reading", close_grace=0.1)
    async with connect(target, timeouts=Timeouts(request=5)) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("any", timeout=0.3)
        with trio.fail_after(5), pytest.raises(ConnectionLost, match="read"):
            await client.call_tool("any")


@pytest.mark.parametrize(
    ("status", "hint"), [(0, r"does the program serve.*server\.run"), (3, "before it answered")]
)
async def test_a_program_that_ends_without_serving_is_told_as_such(status, hint):
    """The likely mistake: a file with tools and no `server.run()`."""
    with pytest.raises(
        ConnectionLost, match=f"exited with status {status} before.*" if status else hint
    ) as caught:
        async with connect([sys.executable, "-c", f"raise SystemExit({status})"], timeouts=PATIENT):
            pass
    assert caught.value.exit_status == status


async def test_a_python_file_as_a_command_gets_a_hint(tmp_path):
    file = tmp_path / "server.py"
    file.write_text("")
    with pytest.raises(ConnectionLost, match="a Python file is started by python"):
        async with connect([str(file)]):
            pass
