"""A child process whose standard streams are one conversation.

The child gets a process group of its own, so that what it starts dies with it. Standard output is cut at
line feeds only: what stands between two of them is one entry, whatever it is.
"""

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from ..transcript import Transcript
from .nursery import open_nursery

CHUNK = 65536
LINE_LIMIT = 64_000_000
"""Bytes of one line. A peer that writes more without a line feed is flooding."""


class Child:
    """A running child: its three streams, and how to wait for its end and to bring it about.

    ``lines`` gives each line of standard output without its line feed, and ends when standard output
    does. ``rest`` holds what followed the last line feed.
    """

    def __init__(
        self,
        streams: tuple[trio.abc.SendStream, trio.abc.ReceiveStream, trio.abc.ReceiveStream | None],
        transcript: Transcript,
        wait: Callable[[], Awaitable[object]],
        send_signal: Callable[[int], None],
    ) -> None:
        self.input, self._output, self._errors = streams
        self.transcript = transcript
        self.wait = wait
        self.send_signal = send_signal
        self.rest = b""
        self.flooded = False
        self.output_ended = trio.Event()
        self._deliver, self.lines = trio.open_memory_channel[bytes](10_000)

    async def send(self, raw: bytes, *, kind: str = "message") -> None:
        """Write these bytes. Raises trio.BrokenResourceError or ClosedResourceError when nobody reads."""
        self.transcript.add("client", "stdin", kind, raw.removesuffix(b"\n"))
        await self.input.send_all(raw)

    async def close_input(self) -> None:
        """Close the child's standard input, the first step of a shutdown."""
        self.transcript.add("client", "stdin", "event", b"closed")
        await self.input.aclose()

    async def exited_within(self, seconds: float) -> bool:
        """Whether the child ends by itself in this time."""
        with trio.move_on_after(seconds) as scope:
            await self.wait()
        return not scope.cancelled_caught

    async def read(self) -> None:
        """Read both outputs until they end. Never raises."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_output)
            if self._errors is not None:
                nursery.start_soon(self._read_errors, self._errors)

    async def _read_output(self) -> None:
        pending = bytearray()
        async with self._deliver:
            try:
                while chunk := await self._output.receive_some(CHUNK):
                    start = len(pending)
                    pending += chunk
                    while (end := pending.find(b"\n", start)) >= 0:
                        line = bytes(pending[:end])
                        del pending[: end + 1]
                        start = 0
                        self.transcript.add("server", "stdout", "message", line)
                        await self._deliver.send(line)
                    if len(pending) > LINE_LIMIT:
                        self.flooded = True
                        break
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            if pending:
                self.rest = bytes(pending[:CHUNK])
                self.transcript.add("server", "stdout", "text", self.rest)
            self.transcript.add(
                "server", "stdout", "event", b"flooded" if self.flooded else b"ended"
            )
            self.output_ended.set()

    async def _read_errors(self, errors: trio.abc.ReceiveStream) -> None:
        left = 1_000_000
        try:
            while chunk := await errors.receive_some(CHUNK):
                if left > 0:
                    self.transcript.add("server", "stderr", "text", bytes(chunk[:left]))
                left -= len(chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


@asynccontextmanager
async def start(
    command: str | Sequence[str],
    transcript: Transcript,
    *,
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> AsyncIterator[Child]:
    """Run ``command`` for the length of the block; what is left of it at the end is killed.

    A string is split as a shell would. Raises OSError if it cannot be started.
    """
    arguments = shlex.split(command) if isinstance(command, str) else list(command)
    process = await trio.lowlevel.open_process(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        cwd=directory,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    streams = (process.stdin, process.stdout, process.stderr)

    def send_signal(number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)

    child = Child(streams, transcript, process.wait, send_signal)
    try:
        async with open_nursery() as nursery:
            nursery.start_soon(child.read)
            yield child
    finally:
        send_signal(signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()
            for stream in streams:
                if stream is not None:
                    await stream.aclose()
