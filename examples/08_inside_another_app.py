"""A server inside a web app that does other things as well.

Notice: `http_routes` gives routes like any others, and nothing has to be started or wired up for them. The
app runs on trio, under hypercorn's trio worker; from a shell that is

    hypercorn -k trio 08_inside_another_app:app

With FastAPI it is the same two lines: `app = FastAPI()`, `app.router.routes.extend(http_routes(server))`.

Exercise: serve a second server at `/admin/mcp`, for those with a token only.
"""

import hypercorn
import hypercorn.trio
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcpcore import Server, connect, http_routes

server = Server("greeter", "1.0")


@server.tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


async def home(_: Request) -> PlainTextResponse:
    return PlainTextResponse("a page for people")


app = Starlette(routes=[Route("/", home), *http_routes(server, "/mcp")])


async def main() -> None:
    config = hypercorn.Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    stop = trio.Event()

    async with trio.open_nursery() as nursery:

        async def serve(*, task_status: trio.TaskStatus[list[str]]) -> None:
            await hypercorn.trio.serve(
                app, config, shutdown_trigger=stop.wait, task_status=task_status
            )

        (origin,) = await nursery.start(serve)
        async with connect(f"{origin}/mcp") as client:
            print("over MCP:", (await client.call_tool("greet", {"name": "Ada"})).text)
        stream = await trio.open_tcp_stream("127.0.0.1", int(origin.rpartition(":")[2]))
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join([chunk async for chunk in stream])
        await stream.aclose()
        print("over HTTP:", answer.partition(b"\r\n\r\n")[2].decode())
        stop.set()


if __name__ == "__main__":
    trio.run(main)
