"""A channel carries whole messages both ways, and is all the runtime knows of a transport.

Anything that can carry messages can be a channel: subclass `Channel`, and put it through
`mcpcore.testing.check_channel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from mcpcore.errors import ConnectionLost
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.framing import Frame
from mcpcore.protocol.mirrors import Path
from mcpcore.revisions import Revision

HIGH_WATER = 256 * 1024
"""Bytes that may wait to be written before callers are held back: enough to keep a pipe of 64 KiB
full, little enough that a peer that does not read is noticed."""

BACKLOG = 64 * 1024 * 1024
"""Bytes that may wait at all. Answers and cancellations cannot be held back, so a peer that asks and
never reads would fill the memory: beyond this the channel ends, and says why."""


class Channel(ABC):
    """Whole messages, in order, both ways.

    `run` does the background work and is started once, by the owner, before anything else; it never
    raises. A channel that ended, from whichever side, says so from `receive` and `send_nowait`
    with `ConnectionLost`, again and again.
    """

    @abstractmethod
    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        """Take `messages`, each whole and without a line end, to be delivered in this order.

        Never waits and never delivers half a message, whatever is cancelled meanwhile. With `linger`
        they may wait for others of the same turn of the loop, to leave with them in one write.
        `about` is the client's request that they belong to, for channels that have a way for each:
        on the server the one that is answered or worked on, on the client the one that is cancelled.
        Raises `ConnectionLost`.
        """

    @abstractmethod
    async def wait_for_room(self) -> None:
        """Return once so little waits to be delivered that more may be sent."""

    @property
    @abstractmethod
    def crowded(self) -> bool:
        """Whether `wait_for_room` would wait."""

    @abstractmethod
    async def receive(self) -> list[Frame]:
        """Wait for messages and give all that came, at least one. One task at a time.

        Raises `ConnectionLost` with the reason at the end.
        """

    def hand_over(
        self, take: Callable[[Frame], None], end: Callable[[ConnectionLost], None]
    ) -> bool:
        """Call `take` with each message instead of keeping it for `receive`, from now on.

        For channels whose own tasks read, which saves waking another one; the others do nothing here.
        True says that the channel needs neither `run` nor `receive`: it calls `end` at its end.
        """
        return False

    def agreed(self, revision: Revision) -> None:  # noqa: B027
        """The handshake came to `revision`; what the client sends next is initialized."""

    def marked(self, tools: Mapping[str, Mapping[str, Path]]) -> bool:
        """Repeat in headers the arguments that tools mark for that, from now on: where they stand, by tool.
        `tools` may change. False for channels that have no headers.
        """
        return False

    def request_over(self, id: RequestId) -> None:  # noqa: B027
        """The client's request `id` is over: no more is sent about it, or nobody waits for it."""

    def hang_up(self, id: RequestId, retry: float) -> None:  # noqa: B027
        """Let go of the connection that waits for the answer to the client's request `id`; the client is
        to come back for it after `retry` seconds. Channels that cannot do nothing.
        """

    @abstractmethod
    async def run(self) -> None:
        """Do the channel's background work until it is closed. Never raises."""

    @abstractmethod
    async def aclose(self) -> None:
        """End the channel within a bounded time, delivering first what was taken. Idempotent."""
