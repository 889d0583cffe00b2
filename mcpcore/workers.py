"""Tasks that serve requests, one at a time each, and are used again.

Starting a task costs more than most requests do, so a task that finished one takes the next. A
request still has a task and a cancel scope to itself while it runs: a worker whose scope was
cancelled, or whose handler left a context variable behind, serves nobody else and ends.

When many requests arrive at once a first worker is woken; a worker that begins a request while others
wait wakes two more, unless some are on their way already. So requests that do not wait are all served
by one worker in one turn, and those that do are spread over as many workers as it takes within a few.
"""

from __future__ import annotations

import contextvars
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import trio

from mcpcore.jsonrpc import RequestId

KEPT = 4
"""Workers that stay when there is nothing to do: the next requests find them ready."""

Job = Callable[[], Awaitable[None]]
"""Serves one request. It must not raise but for cancellation."""


class Workers:
    """Serves jobs by request id: at most `concurrent` at once, while at most `queued` wait."""

    def __init__(self, nursery: trio.Nursery, *, concurrent: int, queued: int) -> None:
        self._nursery = nursery
        self._concurrent = concurrent
        self._queued = queued
        self._queue: OrderedDict[RequestId, Job] = OrderedDict()
        self.scopes: dict[RequestId, trio.CancelScope] = {}
        """The scopes of the jobs that run, by request."""
        self._idle = trio.lowlevel.ParkingLot()
        self._alive = 0
        self._woken = 0  # of those alive, the ones that were called and did not look yet
        self._drained = trio.lowlevel.ParkingLot()

    @property
    def busy(self) -> bool:
        """Whether anything is served or waits."""
        return bool(self.scopes) or bool(self._queue)

    @property
    def more_to_come(self) -> bool:
        """Asked from within a job: whether other jobs are served or wait."""
        return bool(self._queue) or len(self.scopes) > 1

    def submit(self, id: RequestId, job: Job) -> bool:
        """Serve `job` as soon as may be; False if too many wait already."""
        if len(self._queue) + len(self.scopes) >= self._queued + self._concurrent:
            return False
        self._queue[id] = job
        if not self._woken:
            self._wake()
        return True

    def cancel(self, id: RequestId) -> bool:
        """Cancel a job that runs, or forget one that waits; False if it had not begun."""
        scope = self.scopes.get(id)
        if scope is not None:
            scope.cancel()
            return True
        self._queue.pop(id, None)
        return False

    async def wait_until_done(self) -> None:
        """Return when nothing is served and nothing waits."""
        while self.busy:
            await self._drained.park()

    def _wake(self) -> None:
        if self._idle:
            self._woken += 1
            self._idle.unpark()
        elif self._alive < self._concurrent:
            self._woken += 1
            self._alive += 1
            self._nursery.start_soon(self._work)

    async def _work(self) -> None:
        """One worker."""
        try:
            with trio.CancelScope() as scope:
                before = contextvars.copy_context()
                while True:
                    self._woken -= 1
                    while self._queue:
                        id, job = self._queue.popitem(last=False)
                        if self._queue and not self._woken:
                            self._wake()
                            self._wake()
                        self.scopes[id] = scope
                        try:
                            await job()
                        finally:
                            del self.scopes[id]
                        if scope.cancel_called or contextvars.copy_context() != before:
                            return
                    if self._drained and not self.scopes:
                        self._drained.unpark_all()
                    if len(self._idle) >= KEPT:
                        return
                    await self._idle.park()
        finally:
            self._alive -= 1
            if self._queue:
                self._wake()
            elif not self.scopes:
                self._drained.unpark_all()
