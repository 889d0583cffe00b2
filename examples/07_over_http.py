"""The same server over HTTP, and who may ask it what.

Notice: nothing in a server says how it is reached. `serve_http` puts it on a port, `connect` takes the URL.
Each request brings a token, which the server turns into a principal before it reads anything else, and a
tool asks the principal, never the arguments, whose orders these are: a model writes the arguments.

In a script of its own the last line would be `server.run("http", authenticate=...)`.

Exercise: let `orders` list the ids of the one who asks. Why must it take no argument?
"""

from functools import partial
from typing import Any

import trio

from mcpcore import (
    Context,
    HttpError,
    HttpServer,
    Server,
    ToolError,
    bearer_tokens,
    connect,
    serve_http,
)

ORDERS = {"ORD-104": ("ada", "shipped"), "ORD-105": ("bob", "packed")}
TOKENS = {"token-of-ada-8f3a61": "ada", "token-of-bob-1c09d2": "bob"}

server = Server("order desk", "1.0")


@server.tool
def get_order_status(order_id: str, ctx: Context[Any]) -> str:
    """Look up the status of an order of yours."""
    owner, status = ORDERS.get(order_id, (None, ""))
    # Somebody else's order and none at all are refused in the same words.
    if owner is None or owner != ctx.principal:
        raise ToolError("you have no order with this id")
    return status


async def main() -> None:
    stop = trio.Event()
    serve = partial(serve_http, server, port=0, authenticate=bearer_tokens(TOKENS), stop=stop)
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(serve)

        ada = HttpServer(url=url, headers={"Authorization": "Bearer token-of-ada-8f3a61"})
        async with connect(ada) as client:
            for order_id in ("ORD-104", "ORD-105", "ORD-999"):
                result = await client.call_tool("get_order_status", {"order_id": order_id})
                print(f"ada asks for {order_id}: {result.text}")

        try:
            async with connect(url):
                pass
        except HttpError as error:
            print("without a token: HTTP", error.status, error.headers["www-authenticate"])

        stop.set()


if __name__ == "__main__":
    trio.run(main)
