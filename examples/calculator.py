"""A calculator: a server with tools, resources and a prompt.

Notice: nothing here speaks the protocol. Names, types and docstrings become the lists and schemas
that a client sees, a `ToolError` becomes a result that a model can read. What a stranger sends is not
given to `eval`: a small parser reads it, in bounded steps. With `page_size=2` there are pages to see.

Exercise: let `%` be `math.fmod`, binding like `*`. One line changes. What does `5 % 0` say, and why?
"""

import math
import re
from contextlib import suppress
from operator import add, mul, sub, truediv
from typing import Annotated

import trio
from msgspec import Meta

from mcpcore import Context, ResourceNotFound, Server, ToolError

server = Server("calculator", "1.0", instructions="Use it for arithmetic.", page_size=2)

# Bounds in a type are in the schema too, so that a model knows them. 300 digits still fit a float.
Expression = Annotated[str, Meta(max_length=300, description="For example (3.5 * 10) / (2 + 3)")]
Goal = Annotated[int, Meta(ge=1, le=1000)]
Seconds = Annotated[float, Meta(ge=0, le=60)]
CONSTANTS = {"e": math.e, "pi": math.pi, "tau": math.tau}
TOKEN = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+|\S")
# How tightly each binds, and what it does. As floats, 9^9^9 overflows at once; ints grow for minutes.
OPERATORS = {"+": (1, add), "-": (1, sub), "*": (2, mul), "/": (2, truediv), "^": (4, math.pow)}


def parse(tokens: list[str], binding: int = 0, depth: int = 0) -> float:
    """Precedence climbing: an operand, then each operator that binds tighter than `binding`."""
    if depth > 50:
        raise ToolError("nested more than 50 deep: ask for its parts one by one")
    left = operand(tokens, depth)
    while (symbol := tokens[0]) in OPERATORS and OPERATORS[symbol][0] > binding:
        tokens.pop(0)
        # 2^3^2 is 2^(3^2): on its right side, a power takes further powers along.
        right = parse(tokens, OPERATORS[symbol][0] - (symbol == "^"), depth + 1)
        left = calculate(left, symbol, right)
    return left


def operand(tokens: list[str], depth: int) -> float:
    token = tokens.pop(0)
    if re.search("[0-9]", token):
        return float(token)
    if token in ("+", "-"):
        return calculate(0, token, parse(tokens, 3, depth + 1))  # above *, below ^: -2^2 is -4
    if token == "(":
        value = parse(tokens, 0, depth + 1)
        if (token := tokens.pop(0)) == ")":
            return value
    raise ToolError(f"found {token} where it does not belong; known are 2.5 + - * / ^ ** ( )")


def calculate(left: float, symbol: str, right: float) -> float:
    with suppress(ArithmeticError, ValueError):
        value = OPERATORS[symbol][1](left, right)
        if math.isfinite(value):
            return float(value)
    raise ToolError(f"{left:g} {symbol} {right:g} has no value, or one that is too large")


@server.tool
def calculate_expression(expression: Expression) -> float:
    """Calculate with + - * / ^ (or **), parentheses and signs."""
    value = parse(tokens := [*TOKEN.findall(expression.replace("**", "^")), "the end"])
    if tokens != ["the end"]:
        raise ToolError(f"expected one of + - * / ^, found {tokens[0]}")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


@server.tool
async def count(to: Goal, ctx: Context, pause: Seconds = 0.05) -> str:
    """Count from one, with a pause before each number, and tell how far it is."""
    ctx.log("info", f"counting to {to}")
    for number in range(1, to + 1):
        await trio.sleep(pause)
        ctx.progress(number, to, f"{number} of {to}")
    return f"counted to {to}"


@server.tool
async def wait(seconds: Seconds, ctx: Context) -> str:
    """Do nothing for some seconds."""
    ctx.log("debug", "waiting")
    try:
        await trio.sleep(seconds)
    except trio.Cancelled:  # nobody waits any more: tidy up, then let it pass
        ctx.log("debug", "wait was cancelled")
        raise
    return f"waited for {seconds:g} s"


@server.resource("calculator://constants", mime_type="application/json")
def constants() -> dict[str, float]:
    """All constants by name."""
    return CONSTANTS


@server.resource("calculator://constants/{name}")
def constant(name: str) -> str:
    """One constant, as text."""
    if name not in CONSTANTS:
        raise ResourceNotFound(name)
    return str(CONSTANTS[name])


@server.prompt
def explain(expression: str) -> str:
    """Ask for an explanation of an expression, step by step."""
    return f"Explain step by step how to calculate {expression}. Check it with the calculator."


if __name__ == "__main__":
    server.run()
