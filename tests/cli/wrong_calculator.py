"""The calculator of the examples with one thing wrong, as the word after its name says."""

from __future__ import annotations

import importlib.util
import sys
import time

from cli_programs import ROOT

from mcpcore import ToolError

WRONG = sys.argv[1]

spec = importlib.util.spec_from_file_location("calculator", ROOT / "examples" / "calculator.py")
calculator = importlib.util.module_from_spec(spec)
sys.modules["calculator"] = calculator
spec.loader.exec_module(calculator)
server = calculator.server


def instead_of(name: str, function) -> None:
    server.remove_tool(name)
    server.tool(name=name)(function)


def says_seven(expression: str) -> float:
    return 7


def says_eight(expression: str) -> float:
    return 8


def fails(expression: str) -> float:
    raise ToolError("out of order")


def counts_silently(to: int, pause: float) -> str:
    return f"counted to {to}"


def does_not_wait(seconds: float) -> str:
    return "no time"


async def null_cursor(proceed, ctx, request):
    """What the tour does not look for by itself: the client knows more rules."""
    result = await proceed()
    if request.method == "prompts/list":
        return {"prompts": result.prompts, "nextCursor": None}
    return result


if WRONG == "no error":
    instead_of("calculate_expression", says_seven)
elif WRONG == "wrong sum":
    instead_of("calculate_expression", says_eight)
elif WRONG == "tool error":
    instead_of("calculate_expression", fails)
elif WRONG == "no progress":
    instead_of("count", counts_silently)
elif WRONG == "no wait":
    instead_of("wait", does_not_wait)
elif WRONG == "no prompt":
    server.remove_prompt("explain")
elif WRONG == "noise":
    print("\x1b[1mnoise", flush=True)
elif WRONG == "null cursor":
    server.around(null_cursor)
server.run()
if WRONG == "stubborn":
    time.sleep(60)
if WRONG == "status":
    sys.exit(5)
