"""Streams that read and write in worker threads.

For descriptors that cannot be waited on: regular files, the null device, and every pipe on Windows.
They work on all systems, so they are tested on all.
"""

from __future__ import annotations

import os
from collections import deque

import trio


class ThreadReceiveStream(trio.abc.ReceiveStream):
    """Reads `descriptor`, which it owns, in a thread.

    A read that is abandoned goes on in its daemon thread, where it holds up neither a cancellation
    nor the end of the process; what it reads is given to the next call.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._closed = False
        self._limiter = trio.CapacityLimiter(1)
        self._read: deque[bytes] = deque()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._closed:
            raise trio.ClosedResourceError
        # The limiter makes this wait for a read that was abandoned.
        await trio.to_thread.run_sync(
            self._read_once, max_bytes or 65536, abandon_on_cancel=True, limiter=self._limiter
        )
        return self._read.popleft()

    def _read_once(self, max_bytes: int) -> None:
        if not self._read:
            self._read.append(os.read(self._descriptor, max_bytes))

    async def aclose(self) -> None:
        # A descriptor that a thread still reads must not be closed: its number could be reused.
        if not self._closed and not self._limiter.borrowed_tokens:
            os.close(self._descriptor)
        self._closed = True
        await trio.lowlevel.checkpoint()


class ThreadSendStream(trio.abc.SendStream):
    """Writes to `descriptor`, which it owns, in a thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._closed = False
        self._limiter = trio.CapacityLimiter(1)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._closed:
            raise trio.ClosedResourceError
        await trio.to_thread.run_sync(
            self._write, bytes(data), abandon_on_cancel=True, limiter=self._limiter
        )

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        if not self._closed and not self._limiter.borrowed_tokens:
            os.close(self._descriptor)
        self._closed = True
        await trio.lowlevel.checkpoint()
