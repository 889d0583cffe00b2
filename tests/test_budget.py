"""What one call costs, counted and not timed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

from handshake import connect

import mcpcore
from mcpcore import Server

PACKAGE = str(Path(mcpcore.__file__).parent)


async def test_a_call_over_memory_enters_few_functions() -> None:
    """At most 40 functions of mcpcore, both sides together, each entered no more than a few times."""
    server = Server("budget", "1")

    @server.tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    entered: dict[CodeType, int] = {}

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered[frame.f_code] = entered.get(frame.f_code, 0) + 1

    async with connect(server) as client:
        await client.call_tool("add", {"a": 1, "b": 2})  # the first call fills caches
        sys.setprofile(profile)
        try:
            result = await client.call_tool("add", {"a": 1, "b": 2})
        finally:
            sys.setprofile(None)
    assert result.text == "3"
    names = sorted(f"{code.co_qualname} x{times}" for code, times in entered.items())
    assert 20 < len(entered) <= 40, chr(10).join(names)
    assert sum(entered.values()) <= 80, names
