"""Questions: a tool that asks the person, and a client that answers. Both in one process, over memory.

Notice: code before a question may run again. Today's peers keep the function waiting. Those of the
stateless revision end it with the question and start it anew with the answer: hence `asks="replay"`.
So `hasty` is wrong on purpose: what it does before its question happens twice then. `careful`
is right: `ctx.once` before a question, effects after the last one.

Exercise: let `careful` ask a second question, for a name. What keeps the two answers apart?
"""

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import trio
from msgspec import Meta

from mcpcore import Context, Server, connect
from mcpcore.server import Elicited
from mcpcore.types import ElicitParams, ElicitResult

server = Server("booking", "1.0")
numbers = itertools.count(1)


class Seats(msgspec.Struct):
    """A form is flat: strings, numbers, yes or no, choices."""

    seats: Annotated[int, Meta(ge=1, le=8)] = 2


def draw_number() -> int:
    """An effect: no number is given twice."""
    number = next(numbers)
    print(f"    (number {number} is drawn)")
    return number


@server.tool(asks="replay")
async def hasty(ctx: Context) -> str:
    """Wrong: the number is drawn again when the function runs again."""
    number = draw_number()
    answer = await ctx.elicit("seats", Seats, f"Booking {number}: how many seats?")
    return f"booking {number}: {answer.value.seats} seats" if answer.value else "no booking"


@server.tool(asks="replay")
async def careful(ctx: Context) -> str:
    """Right: the number is drawn once, however often the function runs."""
    number = await ctx.once("number", draw_number)
    answer = await ctx.elicit("seats", Seats, f"Booking {number}: how many seats?")
    return f"booking {number}: {answer.value.seats} seats" if answer.value else "no booking"


async def conversation() -> None:
    # A dict accepts the form; what it leaves out has its default.
    answers: Iterator[Any] = iter([{"seats": 3}, {}, ElicitResult(action="decline")])

    async def person(question: ElicitParams) -> Any:
        answer = next(answers)
        print(f"  server asks: {question.message} {list(question.fields)}")
        print(f"  person: {answer if isinstance(answer, dict) else answer.action}")
        return answer

    async with connect(server, elicit=person) as client:
        for tool in ("hasty", "careful", "careful"):
            print(f"client calls {tool}")
            result = await client.call_tool(tool)
            print(f"tool: {result.text}")

    async with connect(server) as client:  # nobody to ask: the tool is told, and so is the model
        result = await client.call_tool("careful")
        print(f"without a person: {result.text}")


class Unwound(Exception):
    """The function ended with a question."""


class Journal:
    """What a stateless peer does, in miniature: it keeps results and answers for the next run."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def once(self, key: str, function: Any) -> Any:
        if key not in self.kept:
            self.kept[key] = function()
        return self.kept[key]

    async def elicit(self, key: str, form: type, message: str) -> Elicited[Any]:
        if key not in self.kept:
            print(f"  asks and ends: {message}")
            self.kept[key] = form()  # the answer, for the next run
            raise Unwound
        return Elicited("accept", self.kept[key])


async def replay(tool: Any) -> None:
    journal = Journal()
    try:
        await tool(journal)
    except Unwound:
        print("  runs again from the top:", await tool(journal))


if __name__ == "__main__":
    trio.run(conversation)
    for tool in (hasty, careful):
        print(f"\n{tool.__name__}, by a peer that replays")
        trio.run(replay, tool)
