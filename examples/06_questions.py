"""Questions: a tool that asks the person, and a client that answers. Both in one process, over memory.

Notice: code before a question may run again. A client of the handshake era keeps the function waiting for
the answer. One of the stateless era gets the question as the answer to its call, and calls again with what
the person said; the function then runs from the top, once for each round: hence `asks="replay"`. So
`hasty` is wrong on purpose: what it does before its question happens twice. `careful` is right:
`ctx.once` before a question, effects after the last one. Neither knows which client it has.

Exercise: let `careful` ask a second question, for a name. How often does it run then, and what keeps the
two answers apart?
"""

import itertools
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from mcpcore import Context, Server, connect
from mcpcore.revisions import ALL
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
    """Wrong: a number is drawn in each round, and the first is lost."""
    number = draw_number()
    answer = await ctx.elicit("seats", Seats, "How many seats?")
    return f"booking {number}: {answer.value.seats} seats" if answer.value else "no booking"


@server.tool(asks="replay")
async def careful(ctx: Context) -> str:
    """Right: the number is drawn once, and kept for the rounds to come."""
    number = await ctx.once("number", draw_number)
    answer = await ctx.elicit("seats", Seats, f"Booking {number}: how many seats?")
    return f"booking {number}: {answer.value.seats} seats" if answer.value else "no booking"


class Person:
    """Answers what it was told to answer, one after the other."""

    def __init__(self, *answers: dict[str, int] | ElicitResult) -> None:
        self.answers = list(answers)

    async def answer(self, question: ElicitParams) -> dict[str, int] | ElicitResult:
        # A dict accepts the form; what it leaves out has its default.
        answer = self.answers.pop(0)
        print(f"  server asks: {question.message} {list(question.fields)}")
        print(f"  person: {answer if isinstance(answer, dict) else answer.action}")
        return answer


async def main() -> None:
    for revision in reversed(ALL[:2]):
        print(f"in revision {revision}")
        person = Person({"seats": 3}, {}, ElicitResult(action="decline"))
        async with connect(server, revisions=[revision], elicit=person.answer) as client:
            for tool in ("hasty", "careful", "careful"):
                print(f"client calls {tool}")
                result = await client.call_tool(tool)
                print(f"tool: {result.text}")
        print()

    async with connect(server, revisions=[ALL[1]]) as client:
        # Nobody to ask: the tool is told, and so is the model.
        result = await client.call_tool("careful")
        print(f"without a person: {result.text}")


if __name__ == "__main__":
    trio.run(main)
