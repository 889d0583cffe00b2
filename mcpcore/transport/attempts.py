"""When to open a stream anew that broke, and when to give it up."""

from __future__ import annotations

import random

from mcpcore.protocol.sse import SseDecoder

FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds before a stream is opened anew: doubled with each attempt in vain, up to the longest."""

POLITE = 0.1
"""Seconds: a server that asks to be asked again faster than that is asked ever slower, unless it has
something to say."""

ATTEMPTS = 5
"""Attempts in a row, all in vain, after which a stream is given up. They take about ten seconds: enough
for a server that is started again, little enough for whoever waits."""

LIVED = 5.0
"""Seconds after which a stream that ends without an event was worth opening."""


class Attempts:
    """When to open a stream anew, and whether to go on. The original connection is the first attempt."""

    def __init__(self) -> None:
        self.retry: float | None = None
        self.in_vain = 0
        """Attempts in a row that brought neither a message nor a new place to resume from."""
        self._silent = 0
        """Attempts in a row that brought no message."""

    def failed(self) -> None:
        """No stream was had at all."""
        self.in_vain += 1
        self._silent += 1

    def ended(self, decoder: SseDecoder, *, messages: int, seconds: float) -> None:
        """A stream ended after so many `seconds`. One that lived for a while was worth opening."""
        lived = seconds > LIVED
        if decoder.retry is not None:
            self.retry = decoder.retry / 1000
        self._silent = 0 if messages or lived else self._silent + 1
        worth = messages or lived or decoder.last_event_id is not None
        self.in_vain = 0 if worth else self.in_vain + 1

    @property
    def hopeless(self) -> bool:
        return self.in_vain >= ATTEMPTS

    def delay(self) -> float:
        """Seconds to wait: what the server asks for, and longer the more attempts were in vain; not the
        same for everybody who lost a connection at the same time.
        """
        asked = self.retry
        if asked is not None and asked >= POLITE and not self.in_vain:
            return asked
        tried = max(self.in_vain, self._silent)
        longest = min(FIRST_DELAY * 2.0**tried, LONGEST_DELAY)
        return max(asked or 0.0, longest * random.uniform(0.5, 1.0))  # noqa: S311 - nobody gains by guessing it
