"""Streams that read and write in worker threads.

For descriptors that cannot be waited on: regular files, the null device, and every pipe on Windows.
They work on all systems, so they are tested on all.

A thread in a system call cannot be interrupted. It is left behind instead: it is a daemon and holds up
neither a cancellation nor the end of the process, what it read is given to the next call, and if the
stream was closed meanwhile it closes the descriptor itself, whose number could be reused before.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import trio


class _Descriptor:
    """A descriptor that is used by at most one thread at a time, and closed when no thread uses it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False
        self._lock = threading.Lock()
        self._used = False
        self._limiter = trio.CapacityLimiter(1)
        self._waiting: set[trio.CancelScope] = set()

    async def run(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run `function` in a thread. Raises `trio.ClosedResourceError`, also when closed meanwhile."""
        if self.closed:
            raise trio.ClosedResourceError
        with trio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                # The limiter makes this wait for a thread that was left behind.
                await trio.to_thread.run_sync(
                    self._use, function, arguments, abandon_on_cancel=True, limiter=self._limiter
                )
            finally:
                self._waiting.discard(scope)
        if self.closed:
            raise trio.ClosedResourceError

    def _use(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        with self._lock:
            if self.closed:
                return
            self._used = True
        try:
            function(*arguments)
        finally:
            with self._lock:
                self._used = False
                if self.closed:
                    os.close(self.number)

    def close(self) -> None:
        with self._lock:
            if not self.closed and not self._used:
                os.close(self.number)
            self.closed = True
        for scope in self._waiting:
            scope.cancel()


class ThreadReceiveStream(trio.abc.ReceiveStream):
    """Reads `descriptor`, which it owns, in a thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = _Descriptor(descriptor)
        self._arrived: deque[bytes] = deque()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await self._descriptor.run(self._read, max_bytes or 65536)
        return self._arrived.popleft()

    def _read(self, max_bytes: int) -> None:
        if not self._arrived:
            self._arrived.append(os.read(self._descriptor.number, max_bytes))

    async def aclose(self) -> None:
        self._descriptor.close()
        await trio.lowlevel.checkpoint()


class ThreadSendStream(trio.abc.SendStream):
    """Writes to `descriptor`, which it owns, in a thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = _Descriptor(descriptor)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._descriptor.run(self._write, bytes(data))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor.number, view) :]

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._descriptor.close()
        await trio.lowlevel.checkpoint()
