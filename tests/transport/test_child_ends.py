"""The end of a child process: nothing of it stays, and a good one is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import trio
import trio.testing
from handshake import connect, open_client

from mcpcore import ConnectionLost, RequestTimeout, Timeouts
from mcpcore.transport import process as process_module
from mcpcore.transport import start_server

pytestmark = pytest.mark.process

PATIENT = Timeouts(connect=20, request=20)


# Gently, then less so.


async def test_a_good_child_ends_by_itself_and_gets_no_signal(world, tmp_path):
    notes = tmp_path / "notes"
    async with connect(world.peer("good", notes), timeouts=PATIENT) as client:
        pid = client.runtime.channel.pid
    assert not world.exists(pid)
    assert notes.read_text() == "ended by itself\n"


async def test_a_child_that_ignores_the_end_of_its_input_gets_sigterm(world, tmp_path):
    notes = tmp_path / "notes"
    async with connect(world.peer("deaf", notes, close_grace=0.1), timeouts=PATIENT) as client:
        pid = client.runtime.channel.pid
    assert not world.exists(pid)
    assert notes.read_text() == "SIGTERM\n"


async def test_a_child_that_ignores_everything_is_killed_within_the_bound_and_reaped(world):
    """F-017. The bound is the sum of the graces; the margin is for a busy machine."""
    target = world.peer("stubborn", close_grace=0.3, terminate_grace=0.4)
    async with connect(target, timeouts=PATIENT) as client:
        channel = client.runtime.channel
        result = await client.call_tool("any")
        started = trio.current_time()
        await client.aclose()
        took = trio.current_time() - started
        assert not world.exists(channel.pid)
    assert result.text == "done"
    assert 0.7 <= took < 0.7 + 3
    assert channel._process.returncode == -signal.SIGKILL


async def test_a_child_that_still_writes_when_its_input_ended_can_finish(world):
    """More than a pipe holds, and nobody else reads it any more."""
    async with connect(world.peer("writes_at_the_end"), timeouts=PATIENT) as client:
        channel = client.runtime.channel
    assert channel._process.returncode == 0


async def test_leaving_while_the_server_sends_without_end_is_quiet(world):
    """F-020."""
    target = world.peer("floods", close_grace=0.2)
    async with connect(target, timeouts=PATIENT) as client:
        await client.call_tool("any")
        await trio.sleep(0.05)
        pid = client.runtime.channel.pid
    assert not world.exists(pid)


async def test_what_the_body_raises_leaves_as_it_is_and_the_child_ends(world):
    """F-128."""
    with pytest.raises(KeyError, match="mine") as caught:
        async with connect(world.peer("plain"), timeouts=PATIENT):
            raise KeyError("mine")
    assert caught.value.__cause__ is None
    assert world.children() == set()


# What the child started.


async def test_the_server_behind_a_launcher_is_ended_with_it(world, tmp_path):
    """F-018: the real server gets the signal, too."""
    pids = tmp_path / "pids"
    target = world.peer("launcher", pids, close_grace=0.3)
    async with connect(target, timeouts=PATIENT) as client:
        assert (await client.call_tool("any")).text == "done"
    assert await world.gone(int(pids.read_text()))
    assert (tmp_path / "pids.signals").read_text() == "SIGTERM\n"


async def test_a_stubborn_server_behind_a_launcher_is_killed(world, tmp_path):
    """F-018: SIGTERM ends the launcher alone; nobody may forget the server then."""
    pids = tmp_path / "pids"
    target = world.peer("stubborn_launcher", pids, close_grace=0.1, terminate_grace=0.2)
    async with connect(target, timeouts=PATIENT):
        pass
    assert await world.gone(int(pids.read_text()))


async def test_what_a_good_child_left_behind_is_ended(world, tmp_path):
    """The child exits by itself; its own child holds stdout and stderr open."""
    pids = tmp_path / "pids"
    async with connect(world.peer("leaves_a_child", pids), timeouts=PATIENT) as client:
        channel = client.runtime.channel
    assert channel._process.returncode == 0
    assert await world.gone(int(pids.read_text()))


async def test_a_daemon_that_left_the_group_does_not_hold_up_the_end(world, tmp_path):
    """It holds stdout and stderr open for ever, and is out of reach: closing is bounded all the same."""
    pids = tmp_path / "pids"
    async with connect(world.peer("leaves_a_daemon", pids), timeouts=PATIENT) as client:
        channel = client.runtime.channel
        with trio.fail_after(10):
            await client.aclose()
    assert channel._process.returncode == 0
    os.kill(int(pids.read_text()), signal.SIGKILL)


# Whoever is cancelled.


@pytest.mark.parametrize("habit", ["silent", "silent_and_stubborn"])
async def test_cancelled_while_it_opens_a_connection_leaves_no_process(world, habit):
    pids = []
    with trio.move_on_after(0.2) as scope:
        async with connect(
            world.peer(habit, close_grace=0.1, terminate_grace=0.1, stderr=pids.append)
        ):
            raise AssertionError
    assert scope.cancelled_caught
    assert world.children() == set()


async def test_cancelled_while_the_process_starts_leaves_no_process(world, monkeypatch):
    """The process is there just when the caller stops waiting for it."""
    real = trio.lowlevel.open_process
    with trio.CancelScope() as scope:

        async def open_process(*arguments, **options):
            process = await real(*arguments, **options)
            scope.cancel()
            return process

        monkeypatch.setattr(process_module.trio.lowlevel, "open_process", open_process)
        async with connect(world.peer("plain")):
            raise AssertionError
    assert scope.cancelled_caught
    assert world.children() == set()


async def test_cancelled_while_it_closes_leaves_no_process(world):
    target = world.peer("stubborn", close_grace=0.2, terminate_grace=0.2)
    async with trio.open_nursery() as nursery:
        client = await open_client(nursery, target, timeouts=PATIENT)
        pid = client.runtime.channel.pid
        with trio.move_on_after(0.1):
            await client.aclose()
        nursery.cancel_scope.cancel()
    assert not world.exists(pid)


async def test_cancelling_the_owner_of_the_connection_leaves_no_process(world):
    async with trio.open_nursery() as nursery:
        client = await open_client(nursery, world.peer("plain"), timeouts=PATIENT)
        nursery.cancel_scope.cancel()
    assert not world.exists(client.runtime.channel.pid)


async def test_cancelled_in_a_call_leaves_at_once_and_leaves_no_process(world):
    """F-040."""
    async with connect(world.peer("waits_in_a_call"), timeouts=PATIENT) as client:
        with trio.move_on_after(0.05) as scope:
            await client.call_tool("any")
        assert scope.cancelled_caught
        await client.ping()
        pid = client.runtime.channel.pid
    assert not world.exists(pid)


# The channel alone.


async def test_a_channel_whose_background_work_never_began_can_be_closed(world):
    channel = await start_server(world.peer("plain"))
    await channel.aclose()
    await channel.aclose()
    assert not world.exists(channel.pid)
    with pytest.raises(ConnectionLost, match="this side closed"):
        channel.send_nowait(b"{}")
    with pytest.raises(ConnectionLost, match="this side closed"):
        await channel.receive()


async def test_the_channel_can_be_closed_while_another_task_receives(world):
    channel = await start_server(world.peer("plain"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)

        async def receive():
            with pytest.raises(ConnectionLost, match="this side closed"):
                await channel.receive()

        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked(0.05)
        with trio.fail_after(10):
            await channel.aclose()
    assert not world.exists(channel.pid)


async def test_a_channel_that_ended_says_so_again_and_again(world):
    channel = await start_server(world.peer("dies_at_start"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        for _ in range(3):
            with pytest.raises(ConnectionLost, match="exited with status 3"):
                await channel.receive()
        with pytest.raises(ConnectionLost, match="exited with status 3"):
            channel.send_nowait(b"{}")
        assert not channel.crowded
        await channel.wait_for_room()
        await channel.aclose()


async def test_what_is_sent_to_a_child_that_died_is_no_error_until_the_reason_is_known(world):
    channel = await start_server(world.peer("dies_at_start"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        await channel._process.wait()
        for _ in range(3):
            channel.send_nowait(b"{}")
        with pytest.raises(ConnectionLost, match="exited with status 3"):
            await channel.receive()
        await channel.aclose()


async def test_what_is_queued_reaches_the_child_before_its_input_ends(world, tmp_path):
    """More than the pipe holds."""
    path = tmp_path / "seen"
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    target = process_module.StdioServer(
        command=[sys.executable, "-I", "-S", "-c", code, str(path)], flush_time=10, close_grace=10
    )
    channel = await start_server(target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        channel.send_nowait(b"x" * 3_000_000)
        assert channel.crowded
        await channel.aclose()
    assert path.stat().st_size == 3_000_001


# Many.


async def test_200_connections_leave_no_process_no_descriptor_and_no_task(world):
    count = 200
    async with connect(world.peer("plain"), timeouts=PATIENT) as client:
        await client.ping()
    await trio.testing.wait_all_tasks_blocked()
    tasks = trio.lowlevel.current_statistics().tasks_living
    open_before, pids = world.descriptors(), set()
    for number in range(count):
        async with connect(world.peer("plain"), timeouts=PATIENT) as client:
            pids.add(client.runtime.channel.pid)
            if number % 20 == 0:
                assert (await client.call_tool("any")).text == "done"
    await trio.testing.wait_all_tasks_blocked()
    assert len(pids) == count
    assert not any(map(world.exists, pids))
    assert world.descriptors() == open_before
    assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_connections_that_fail_leave_nothing_either(world):
    tasks = trio.lowlevel.current_statistics().tasks_living
    open_before = world.descriptors()
    for _ in range(10):
        with pytest.raises(ConnectionLost):
            async with connect(world.peer("dies_at_start")):
                pass
        with pytest.raises(ConnectionLost):
            async with connect("no-such-command-here"):
                pass
        with pytest.raises(RequestTimeout):
            async with connect(world.peer("silent"), timeouts=Timeouts(connect=0.02)):
                pass
    await trio.testing.wait_all_tasks_blocked()
    assert world.children() == set()
    assert world.descriptors() == open_before
    assert trio.lowlevel.current_statistics().tasks_living == tasks


# The parent.


def start_parent(world, what, *habit):
    parent = subprocess.Popen(
        [sys.executable, str(world.programs / "parent.py"), what, *world.peer_command(*habit)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=world.environment,
    )
    return parent, int(parent.stdout.readline())


@pytest.mark.parametrize(
    ("what", "habit"),
    [("waits", "plain"), ("calls", "waits_in_a_call"), ("waits", "stubborn")],
)
def test_a_parent_that_gets_ctrl_c_leaves_no_child(world, what, habit):
    parent, child = start_parent(world, what, habit)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=15)
    assert parent.returncode != 0
    assert b"KeyboardInterrupt" in errors
    assert b"TrioInternalError" not in errors
    assert world.gone_blocking(child)


def test_a_parent_that_gets_ctrl_c_twice_leaves_no_child(world):
    """F-023: the second comes while the first is closing a child that will not end."""
    parent, child = start_parent(world, "waits", "stubborn")
    parent.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        parent.wait(0.4)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=15)
    try:
        assert b"KeyboardInterrupt" in errors
        assert b"TrioInternalError" not in errors
        assert world.gone_blocking(child)
    finally:
        if world.exists(child):
            os.kill(child, signal.SIGKILL)


def test_a_parent_that_is_killed_leaves_no_good_child(world):
    """F-013: the end of its input tells the child."""
    parent, child = start_parent(world, "waits", "plain")
    parent.kill()
    parent.communicate(timeout=15)
    assert world.gone_blocking(child)
