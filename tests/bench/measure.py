"""The figures of mcpcore as multiples of the official SDK's and of a bare echo, in one run.

    python tests/bench/measure.py [--seconds 0.5] [--rounds 5]

Needs the project with its `dev` extra and nothing else. Each figure is the median over the rounds, in
which all contestants take turns; trust the ratios, not the rates. All servers offer the same tool,
`add(a, b)`, and answer the same text.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
CALL = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",'
    b'"params":{"name":"add","arguments":{"a":1,"b":2}}}\n'
)


# The contestants, each run as a child: `python measure.py serve NAME` or `client NAME`.


def serve_echo() -> None:
    """A blocking loop that decodes, answers and knows nothing else: the floor."""
    import msgspec

    class Request(msgspec.Struct):
        method: str
        id: int | str | None = None

    class Answer(msgspec.Struct):
        id: int | str
        result: dict
        jsonrpc: str = "2.0"

    decode, encode = msgspec.json.Decoder(Request).decode, msgspec.json.Encoder().encode
    result = {"content": [{"type": "text", "text": "3"}]}
    handshake = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "echo", "version": "1"},
    }
    rest = b""
    while data := os.read(0, 65536):
        *lines, rest = (rest + data).split(b"\n")
        out = []
        for line in lines:
            request = decode(line)
            if request.id is not None:
                body = handshake if request.method == "initialize" else result
                out += (encode(Answer(request.id, body)), b"\n")
        os.write(1, b"".join(out))


def serve_sdk() -> None:
    """The official SDK's low-level server."""
    import anyio
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    async def call(context, params):
        arguments = params.arguments or {}
        text = types.TextContent(type="text", text=str(arguments["a"] + arguments["b"]))
        return types.CallToolResult(content=[text])

    async def listing(context, params):
        schema = {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        }
        return types.ListToolsResult(tools=[types.Tool(name="add", input_schema=schema)])

    server = Server("bench", on_call_tool=call, on_list_tools=listing)

    async def main() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(main)


def serve_mcpcore(*, inline: bool = False) -> None:
    from mcpcore import Server

    server = Server("bench", "1")
    if inline:

        @server.tool(inline=True, name="add")
        def quick(a: int, b: int) -> str:
            return str(a + b)

    else:

        @server.tool(name="add")
        async def add(a: int, b: int) -> str:
            return str(a + b)

    server.run()


SERVERS = {
    "bare echo": serve_echo,
    "official SDK": serve_sdk,
    "mcpcore": serve_mcpcore,
    "mcpcore inline": lambda: serve_mcpcore(inline=True),
}


# The driver: raw pipes, one thread.


class Driver:
    def __init__(self, name: str) -> None:
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), "serve", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.into, self.out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.next_id = 1
        os.write(self.into, INITIALIZE)
        os.read(self.out, 65536)
        self.first_answer = time.perf_counter() - begin
        os.write(self.into, INITIALIZED)

    def rate(self, in_flight: int, seconds: float) -> float:
        """Calls a second with this many in flight."""
        end = time.perf_counter() + seconds
        begin, answered, open_calls, rest = time.perf_counter(), 0, 0, b""
        while True:
            now = time.perf_counter()
            if now < end:
                fresh = range(self.next_id, self.next_id + in_flight - open_calls)
                self.next_id = fresh.stop
                open_calls = in_flight
                os.write(self.into, b"".join(CALL % id for id in fresh))
            elif not open_calls:
                return answered / (now - begin)
            if not select.select([self.out], [], [], 20)[0]:
                raise TimeoutError("no answer in 20 s")
            *lines, rest = (rest + os.read(self.out, 1 << 18)).split(b"\n")
            if any(b'"3"' not in line for line in lines):
                raise RuntimeError(f"unexpected answer: {lines[0][:200]!r}")
            answered += len(lines)
            open_calls -= len(lines)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in SERVERS}
    drivers = {name: Driver(name) for name in SERVERS}
    try:
        for _ in range(arguments.rounds):
            for name, driver in drivers.items():
                one, many = driver.rate(1, arguments.seconds), driver.rate(64, arguments.seconds)
                rates[name].append((one, many))
    finally:
        for driver in drivers.values():
            driver.close()
    print(
        "| server | first answer, s | sequential /s | x SDK | of echo | 64 in flight /s | x SDK | of echo |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, figures in rates.items():
        cells = []
        for column in (0, 1):
            mine = [figure[column] for figure in figures]
            sdk = [figure[column] for figure in rates["official SDK"]]
            echo = [figure[column] for figure in rates["bare echo"]]
            times = statistics.median(a / b for a, b in zip(mine, sdk, strict=True))
            share = statistics.median(a / b for a, b in zip(mine, echo, strict=True))
            cells += [f"{statistics.median(mine):,.0f}", f"{times:.1f}", f"{share:.0%}"]
        print(f"| {name} | {drivers[name].first_answer:.2f} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        SERVERS[sys.argv[2]]()
    else:
        main()
