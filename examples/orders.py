"""The status of an order: exact answers, or none.

Notice: the pattern stands twice. In the schema it tells the model what to write; in the code it decides.
There it is `re.fullmatch` with `[0-9]`, since `$` also matches before a last line feed, and `\\d` also
matches digits of other scripts. And a refusal says what to do, without repeating what was sent.

Exercise: let the tool also take a list of ids. What should it return if only one of them is unknown?
"""

import re
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from mcpcore import Server, ToolError

server = Server("orders", "1.0")


@dataclass
class Order:
    order_id: str
    status: str
    estimated_delivery: str
    """A date, year first."""


ORDERS = {"ORD-104": Order("ORD-104", "shipped", "2026-03-14")}
OrderId = Annotated[
    str,
    # Only told, not checked: `Meta(pattern=...)` would check, but search where we want the whole id.
    Meta(description="For example ORD-104", extra_json_schema={"pattern": "^ORD-[0-9]{3}$"}),
]


@server.tool
def get_order_status(order_id: OrderId) -> Order:
    """Look up the status of one order."""
    if not re.fullmatch(r"ORD-[0-9]{3}", order_id):
        raise ToolError("that is no order id: it is ORD- and three digits, for example ORD-104")
    if order_id not in ORDERS:
        raise ToolError("there is no order with this id: ask the person to check it")
    return ORDERS[order_id]


if __name__ == "__main__":
    server.run()
