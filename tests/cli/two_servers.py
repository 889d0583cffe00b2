"""Two servers in one file, prints at the wrong time, and a module beside it that is imported."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from cli_programs import HERE

from mcpcore import Server

print("printed while it was loaded")
os.write(1, b"written past sys.stdout\n")
sys.stdout.write("no line end, so it waits in the buffer")

one = Server("one", "1")
two = Server("two", "2")
also_two = two
not_a_server = "text"


@dataclass
class Point:
    x: int


@two.tool
def double(point: Point) -> Point:
    print("printed by a tool")
    return Point(point.x * 2)


@two.tool
def folder() -> str:
    return HERE.name
