"""Our calls that wait for an answer, and the clock that none of them outlives.

A caller parks its task; whoever learns how the call ended puts result or error into it and wakes the
task. One task watches all deadlines, since nearly all calls have the same and are over long before: it
wakes at the earliest that was ever set, and looks again.

While a question of the peer is with somebody on this side the deadlines stand still, for the peer may be
waiting for that answer itself. The hard limit of a call runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import trio
from msgspec import Raw

from mcpcore.errors import McpError, RequestTimeout
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.events import Progress

NEVER = float("inf")

ProgressCallback = Callable[[Progress], object]


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds; infinity waits without a limit.

    `connect` is for opening: start, handshake. `request` is for each answer; its clock stands still
    while a question of the peer is open on this side, and starts anew with each progress if
    `progress_extends`. `maximum` holds for a request whatever happens. `question` is what a handler
    on this side has to answer a question of the peer. `drain` is what requests that were accepted
    get to finish in when the input ends.
    """

    connect: float = 60.0
    request: float = 60.0
    maximum: float = 3600.0
    question: float = 600.0
    drain: float = 5.0
    progress_extends: bool = False


class Call(msgspec.Struct):
    """A call and the task that waits for it. Times are those of trio's clock."""

    method: str
    task: Any
    started: float
    seconds: float
    deadline: float
    limit: float
    extends: bool
    running_since: float
    """Since when its clock runs: the start, or the progress that started it anew."""
    on_progress: ProgressCallback | None = None
    about: RequestId | None = None
    """The client's request because of which a server asks."""
    result: Raw | None = None
    error: McpError | None = None


class WaitingCalls:
    """The calls of one connection. `abandon` is told of each that nobody waits for any more, to tell
    the peer.
    """

    def __init__(self, timeouts: Timeouts, abandon: Callable[[RequestId, Call, str], None]) -> None:
        self._timeouts = timeouts
        self._abandon = abandon
        self._clock = trio.lowlevel.current_clock()
        self.by_id: dict[RequestId, Call] = {}
        self._watch_scope: trio.CancelScope | None = None
        self._watch_at = NEVER
        self.watched = False
        """Whether `watch` was started: most servers never ask anything."""
        self._questions = 0
        self._paused_at = 0.0

    async def wait(
        self,
        id: RequestId,
        method: str,
        *,
        seconds: float | None,
        maximum: float | None,
        extends: bool | None,
        on_progress: ProgressCallback | None,
        about: RequestId | None = None,
    ) -> Raw:
        """Wait for the end of a call that was just sent; None stands for the default of the connection.

        Raises the call's error.
        """
        timeouts = self._timeouts
        now = self._clock.current_time()
        if seconds is None:
            seconds = timeouts.request
        call = Call(
            method,
            trio.lowlevel.current_task(),
            now,
            seconds,
            now + seconds,
            now + (timeouts.maximum if maximum is None else maximum),
            timeouts.progress_extends if extends is None else extends,
            now,
            on_progress,
            about,
        )
        self.by_id[id] = call
        deadline = call.limit if self._questions else min(call.deadline, call.limit)
        if deadline < self._watch_at:
            self._watch_again(deadline)

        def abort(_: object) -> trio.lowlevel.Abort:
            del self.by_id[id]
            self._abandon(id, call, "the caller was cancelled")
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if call.error is not None:
            raise call.error
        assert call.result is not None
        return call.result

    def finish(
        self, id: RequestId, *, result: Raw | None = None, error: McpError | None = None
    ) -> None:
        """A call ended. Does nothing for one that nobody waits for."""
        call = self.by_id.pop(id, None)
        if call is not None:
            call.result = result
            call.error = error
            trio.lowlevel.reschedule(call.task)

    def fail_all(self, make_error: Callable[[], McpError]) -> None:
        """Nothing will be answered any more: each caller gets an error of its own."""
        for id in tuple(self.by_id):
            self.finish(id, error=make_error())

    def extend(self, call: Call) -> None:
        """Progress came: the clock of a call that asked for it starts anew."""
        if call.extends:
            call.running_since = self._clock.current_time()
            call.deadline = call.running_since + call.seconds

    def question_opens(self) -> None:
        """A question of the peer is with somebody on this side: the deadlines stand still."""
        if not self._questions:
            self._paused_at = self._clock.current_time()
        self._questions += 1

    def question_closes(self) -> None:
        """The counterpart of `question_opens`."""
        self._questions -= 1
        if self._questions:
            return
        now = self._clock.current_time()
        for call in self.by_id.values():
            call.deadline += now - max(self._paused_at, call.running_since)
        self._watch_again(self._next_deadline())

    async def watch(self) -> None:
        """The task that watches the deadlines."""
        while True:
            self._watch_scope = trio.CancelScope(deadline=self._watch_at)
            with self._watch_scope:
                await trio.sleep_forever()
            now = self._clock.current_time()
            for id, call in list(self.by_id.items()):
                if now >= call.limit or (now >= call.deadline and not self._questions):
                    self._abandon(id, call, "no answer in time")
                    self.finish(id, error=_timeout(call, now))
            self._watch_at = self._next_deadline()

    def _watch_again(self, deadline: float) -> None:
        self._watch_at = deadline
        if self._watch_scope is not None:
            self._watch_scope.deadline = deadline

    def _next_deadline(self) -> float:
        if self._questions:
            return min((call.limit for call in self.by_id.values()), default=NEVER)
        return min((min(call.deadline, call.limit) for call in self.by_id.values()), default=NEVER)


def _timeout(call: Call, now: float) -> RequestTimeout:
    if now >= call.limit:
        return RequestTimeout(call.method, call.limit - call.started)
    hint = "; timeout= raises the limit of a call, Timeouts(request=...) that of the client"
    return RequestTimeout(call.method, call.seconds, hint)
