"""Connecting for the length of a block.

Nothing outlives the block, and what its body raises leaves it as it is, never in a group. Those who
must open in one task and close in another use `Client.open` with a nursery of their own.
"""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn, Unpack

import trio

from mcpcore.client.client import Client
from mcpcore.client.open import ClientOptions, Target
from mcpcore.errors import LocalProtocolError
from mcpcore.runtime import single


class connect:  # noqa: N801 - used like a function
    """Connect to `target` for the length of an `async with` block, which gives a `Client`.

        async with connect("python server.py") as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})

    Options and errors are those of `Client.open`. What the body raises comes out as it is.
    """

    def __init__(self, target: Target, **options: Unpack[ClientOptions]) -> None:
        self._target = target
        self._options = options

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"no {name!r} here: write `async with connect(...) as client:` first")

    async def __aenter__(self) -> Client:
        try:
            trio.lowlevel.current_trio_token()
        except RuntimeError:
            raise LocalProtocolError(
                "mcpcore runs on trio: start the program with trio.run(main), not with asyncio"
            ) from None
        # The nursery is entered by hand, so that the body's exception need not pass through it: a
        # nursery wraps what it sees into a group.
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        try:
            self._client = await Client.open(self._nursery, self._target, **self._options)
        except BaseException:
            await self._leave()
            raise
        return self._client

    async def __aexit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._client.aclose()
        finally:
            try:
                await self._leave()
            except trio.Cancelled:
                # It will be raised again at the next checkpoint; the body's own exception would not.
                if value is None:
                    raise

    async def _leave(self) -> None:
        self._nursery.cancel_scope.cancel()
        try:
            await self._manager.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            raise single(group) from None
