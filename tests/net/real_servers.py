"""A program: one of the servers that people run, on a free port of loopback, which it prints."""

from __future__ import annotations

import http.server
import socket
import sys
from typing import Any


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Echoes bodies; /stream sends three pieces, /moved leads to /there."""
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    headers = [(b"content-type", b"text/plain")]
    status = 200
    if scope["path"] == "/moved":
        status = 307
        headers.append((b"location", b"/there"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if scope["path"] == "/stream":
        for piece in (b"one", b"two", b"three"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    else:
        said = f"{scope['method']} {scope['path']} ".encode() + body
        await send({"type": "http.response.body", "body": said})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(307 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", "/there")
        if self.path == "/stream":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n")
            return
        said = f"{self.command} {self.path} ".encode() + body
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = do_DELETE = serve  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


def main(name: str) -> None:
    if name == "http.server":
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
        return
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    if name == "uvicorn":
        import uvicorn

        uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
    else:
        import hypercorn
        import hypercorn.trio
        import trio

        config = hypercorn.Config()
        config.bind = [f"fd://{listening.fileno()}"]
        trio.run(hypercorn.trio.serve, app, config)


if __name__ == "__main__":
    main(sys.argv[1])
