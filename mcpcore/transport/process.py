"""A server as a child process: started, listened to, and ended for certain.

The child gets a session of its own, so that ending it reaches whatever it started itself, a launcher
like `npx` included, and a Ctrl-C at the terminal reaches the parent alone. Its stderr is read from
the first moment to the last, or a chatty child would stop in the middle of a write. To end it: take
in no more, write out what is queued, close its stdin, wait; then SIGTERM to the group, wait; then
SIGKILL. Every step has a limit, and the child is always reaped.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import trio

from mcpcore.errors import ConnectionLost
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.framing import MAX_LINE, Frame
from mcpcore.transport.channel import Channel
from mcpcore.transport.lines import FLUSH_TIME, LineChannel

logger = logging.getLogger("mcpcore.transport")

INHERITED = (
    ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
    if os.name == "posix"
    else (
        "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT",
        "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
    )
)  # fmt: skip
"""The variables that a child gets without being asked for: what programs need to find themselves,
and none of the secrets that an environment may hold."""

STDERR_TAIL = 4096
"""Bytes of the child's stderr that are kept to be quoted in errors."""

LAST_WORDS = 0.5
"""Seconds that a child which closed its stdout gets to exit, so that its status can be told; and that
its stdout and stderr get to reach their end once it exited, since a grandchild may hold them open."""


class StdioServer(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a server, and how to end it.

    `command` is a list, or one string that is split as a shell splits words. `env` is merged over the
    variables named in `INHERITED`, or is the whole environment if `exact_env`. `stderr` is a function
    that gets each line, or a path to append to; the tail is kept in any case.

    `close_grace` and `terminate_grace` are the seconds that the child has after its stdin was closed
    and after SIGTERM; `flush_time` those for writing what is queued. `max_line` is in bytes.
    """

    command: Sequence[str] | str
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    exact_env: bool = False
    cwd: str | Path | None = None
    stderr: Callable[[str], object] | str | Path | None = None
    close_grace: float = 2.0
    terminate_grace: float = 2.0
    flush_time: float = FLUSH_TIME
    max_line: int = MAX_LINE

    @property
    def words(self) -> list[str]:
        """The command as a list. Raises ValueError if it is empty or its quotes do not match."""
        words = shlex.split(self.command) if isinstance(self.command, str) else list(self.command)
        if not words:
            raise ValueError("the command is empty")
        return words

    def environment(self) -> dict[str, str]:
        """The whole environment that the child gets."""
        if self.exact_env:
            return dict(self.env)
        return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(self.env)


async def start_server(server: StdioServer) -> ProcessChannel:
    """Start the child. Raises `ConnectionLost`, naming the command, if that fails."""
    words = server.words
    try:
        process = await trio.lowlevel.open_process(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=server.environment(),
            cwd=server.cwd,
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        what = repr(words[0])
        if server.cwd is not None and not _is_folder(server.cwd):
            what += f" in {str(server.cwd)!r}"
        hint = "; a Python file is started by python" if words[0].endswith(".py") else ""
        raise ConnectionLost(f"cannot start {what}: {error.strerror or error}{hint}") from error
    return ProcessChannel(process, server)


def _is_folder(path: str | Path) -> bool:
    return Path(path).is_dir()


class ProcessChannel(Channel):
    """Lines to and from a child process; made by `start_server`."""

    def __init__(self, process: trio.Process, server: StdioServer) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._server = server
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._lines = LineChannel(
            process.stdout, process.stdin, max_line=server.max_line, flush_time=server.flush_time
        )
        self._tail = b""
        self._stderr_ended = trio.Event()
        self._lost: ConnectionLost | None = None
        self._closed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The child's exit status, negative for the signal that ended it; None while it runs."""
        return self._process.returncode

    @property
    def stderr_tail(self) -> str:
        """The last of what the child wrote to its stderr."""
        return self._tail.decode("utf-8", "replace")

    # What a channel does.

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        if self._lost is not None:
            raise self._lost.again()
        try:
            self._lines.send_nowait(*messages, linger=linger)
        except ConnectionLost:
            if self._closed:
                raise
            # The child reads no more. Why, `receive` will find out: what is sent meanwhile is lost
            # with everything else that is in flight.

    @property
    def crowded(self) -> bool:
        return self._lines.crowded

    async def wait_for_room(self) -> None:
        await self._lines.wait_for_room()

    async def receive(self) -> list[Frame]:
        if self._lost is not None:
            raise self._lost.again()
        try:
            return await self._lines.receive()
        except ConnectionLost as end:
            self._lost = await self._last_words(end)
            raise self._lost.again() from None

    async def _last_words(self, end: ConnectionLost) -> ConnectionLost:
        """Why the connection ended, with the exit status and stderr if they can be had soon."""
        # What a grandchild holds open has been waited for once already.
        with trio.move_on_after(LAST_WORDS):
            await self._process.wait()
        with trio.move_on_after(LAST_WORDS / 5):
            await self._stderr_ended.wait()
        status = self._process.returncode
        if self._closed:
            return end
        if status is None and self._lines.broken:
            reason = "the server stopped reading its stdin but goes on running"
        elif status is None:
            reason = "the server closed its stdout but goes on running"
        elif status < 0:
            name = _signal_name(-status)
            reason = f"the server was ended by {name} (exit status {status})"
        else:
            reason = f"the server exited with status {status}"
        return ConnectionLost(reason, status, self.stderr_tail)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._lines.run)
            nursery.start_soon(self._read_stderr)
            nursery.start_soon(self._watch)

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        sink = _StderrSink(self._server.stderr)
        try:
            while data := await self._process.stderr.receive_some(65536):
                self._tail = (self._tail + data)[-STDERR_TAIL:]
                sink.write(bytes(data))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._stderr_ended.set()
            sink.close()

    async def _watch(self) -> None:
        """End the channel when the child ends, even if somebody else holds its stdout open."""
        await self._process.wait()
        await trio.sleep(LAST_WORDS)
        self._lines.lost("the server exited")

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        with trio.CancelScope(shield=True):
            await self._lines.flush()
            self._lines.lost("this side closed the connection")
            await trio.aclose_forcefully(self._stdin)
            if not await self._exits_within(self._server.close_grace):
                _signal(self._process, "SIGTERM")
                if not await self._exits_within(self._server.terminate_grace):
                    _signal(self._process, "SIGKILL")
                    await self._exits_within(self._server.terminate_grace)
            await self._end_group()
            with trio.move_on_after(LAST_WORDS):
                await self._stderr_ended.wait()
            await trio.aclose_forcefully(self._stdout)
            if self._process.stderr is not None:
                await trio.aclose_forcefully(self._process.stderr)

    async def _exits_within(self, seconds: float) -> bool:
        """Wait for the child, reading away what it still writes, or it might never get to its end."""
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_away)
                await self._process.wait()
                nursery.cancel_scope.cancel()
        return self._process.returncode is not None

    async def _read_away(self) -> None:
        # Somebody else may be reading it away.
        ends = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError)
        with contextlib.suppress(*ends):
            while await self._stdout.receive_some(65536):
                pass

    async def _end_group(self) -> None:
        """End what the child started and left behind: nothing of it outlives the channel."""
        if os.name != "posix":
            return
        for name, seconds in (("SIGTERM", self._server.terminate_grace), ("SIGKILL", 1.0)):
            with trio.move_on_after(seconds):
                _signal(self._process, name)
                while _group_exists(self._process.pid):  # noqa: ASYNC110 - no event tells
                    await trio.sleep(0.01)
                return


def _signal(process: trio.Process, name: str) -> None:
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.Signals[name])
    else:  # pragma: no cover - no process groups there
        process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _group_exists(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class _StderrSink:
    """Where the lines of stderr go besides the tail."""

    def __init__(self, target: Callable[[str], object] | str | Path | None) -> None:
        self._callback = target if callable(target) else None
        self._file = None
        self._rest = b""
        if isinstance(target, str | Path):
            try:
                self._file = open(target, "ab", buffering=0)  # noqa: SIM115 - see close
            except OSError as error:
                logger.warning("the server's stderr is not kept in %s: %s", target, error)

    def write(self, data: bytes) -> None:
        if self._file is not None:
            try:
                self._file.write(data)
            except OSError as error:
                logger.warning("the server's stderr is not kept any more: %s", error)
                self.close()
        if self._callback is not None:
            *lines, self._rest = (self._rest + data).split(b"\n")
            # A line without end must not grow without end.
            if len(self._rest) > STDERR_TAIL:
                lines.append(self._rest)
                self._rest = b""
            for line in lines:
                self._call(line)

    def _call(self, line: bytes) -> None:
        assert self._callback is not None
        try:
            self._callback(line.decode("utf-8", "replace"))
        except Exception:
            logger.exception("the stderr callback raised")

    def close(self) -> None:
        if self._callback is not None and self._rest:
            self._call(self._rest)
            self._rest = b""
        if self._file is not None:
            self._file.close()
            self._file = None
