"""A channel that lets somebody watch.

What crosses another channel is shown as it crosses, and passed on unchanged: for `mcpcore tour`,
for transcripts, and for finding out what a peer really said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Literal

from mcpcore.errors import ConnectionLost
from mcpcore.jsonrpc import RequestId
from mcpcore.protocol.framing import Decoded, Frame
from mcpcore.protocol.mirrors import Path
from mcpcore.revisions import Revision
from mcpcore.transport.channel import Channel

logger = logging.getLogger("mcpcore.transport")

Direction = Literal["sent", "received"]
"""As seen from the side that holds the channel."""


class TapChannel(Channel):
    """Wraps `channel` and calls `on_frame(direction, data)` for every whole message.

    A sent message is shown once the channel took it, a received one before it is handed on, each
    without its line end. What stands in place of a message that could not be read whole is handed
    on and not shown. An exception of `on_frame` is logged and changes nothing.
    """

    def __init__(self, channel: Channel, on_frame: Callable[[Direction, bytes], object]) -> None:
        self._channel = channel
        self._on_frame = on_frame

    def send_nowait(
        self, *messages: bytes, linger: bool = False, about: RequestId | None = None
    ) -> None:
        self._channel.send_nowait(*messages, linger=linger, about=about)
        for message in messages:
            self._show("sent", message)

    async def wait_for_room(self) -> None:
        await self._channel.wait_for_room()

    @property
    def crowded(self) -> bool:
        return self._channel.crowded

    async def receive(self) -> list[Frame]:
        frames = await self._channel.receive()
        for frame in frames:
            self._show_frame(frame)
        return frames

    def hand_over(
        self, take: Callable[[Frame], None], end: Callable[[ConnectionLost], None]
    ) -> bool:
        def show_and_take(frame: Frame) -> None:
            self._show_frame(frame)
            take(frame)

        return self._channel.hand_over(show_and_take, end)

    def agreed(self, revision: Revision) -> None:
        self._channel.agreed(revision)

    def marked(self, tools: Mapping[str, Mapping[str, Path]]) -> bool:
        return self._channel.marked(tools)

    def request_over(self, id: RequestId) -> None:
        self._channel.request_over(id)

    async def run(self) -> None:
        await self._channel.run()

    async def aclose(self) -> None:
        await self._channel.aclose()

    def hang_up(self, id: RequestId, retry: float) -> None:
        self._channel.hang_up(id, retry)

    def _show_frame(self, frame: Frame) -> None:
        if isinstance(frame, bytes):
            self._show("received", frame)
        elif isinstance(frame, Decoded):
            self._show("received", frame.frame)

    def _show(self, direction: Direction, data: bytes) -> None:
        try:
            self._on_frame(direction, data)
        except Exception:
            logger.exception("the function that watches the channel raised")
