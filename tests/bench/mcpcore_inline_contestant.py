"""mcpcore with its tools declared quick (`inline=True`), for the benchmark harness."""

from __future__ import annotations

NAME = "mcpcore inline"
KIND = "peer"
NEEDS = ("mcpcore",)
STDIO_ERAS = ("legacy", "modern")


def serve_stdio() -> None:
    import os
    import sys

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from mcpcore_contestant import make_server

    make_server(inline=True).run()


if __name__ == "__main__":
    from _child import main

    main(globals())
