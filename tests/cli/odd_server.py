"""A server by hand, for what a real one does not do. The words after its name say what is odd:

noise       a line on stdout that is no message
deaf        no request is answered after the handshake
no-resources-templates, bad-templates   how resources/templates/list is answered
nothing     no capabilities
loop        the cursor of a list comes back again and again
refuse      initialize is answered with an error
future      initialize is answered with a revision that nobody has
stubborn    the end of the input does not end it
"""

from __future__ import annotations

import json
import signal
import sys
import time

ODD = set(sys.argv[1:])
NEWEST = "2025-11-25"


def send(line: str) -> None:
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.buffer.flush()


def failure(code: int, message: str, **more: object) -> dict[str, object]:
    return {"error": {"code": code, "message": message, **more}}


def answer(method: str, params: dict[str, object], line: str) -> dict[str, object] | str:
    if method == "initialize":
        if "refuse" in ODD:
            return failure(-32603, "go\n away \x1b[1m", data={"digits": 7})
        capabilities = {} if "nothing" in ODD else {"tools": {}, "resources": {}}
        return {
            "result": {
                "protocolVersion": "2999-01-01" if "future" in ODD else NEWEST,
                "capabilities": capabilities,
                "serverInfo": {"name": "odd", "version": "0"},
            }
        }
    if method == "tools/list":
        # Digits, members and a block that no library knows; a space where none has to be.
        page = {"tools": [{"name": "raw", "inputSchema": {"type": ["object"], "x": 1}}]}
        if "loop" in ODD:
            page["nextCursor"] = "again"
        return {"result": page}
    if method == "tools/call":
        # The request goes back as it came, as a string; so does a number too long for any machine.
        return (
            '"result": {"content": [{"type":"hologram","n":1}],"far":123456789012345678901234567890,'
            f' "line":{json.dumps(line)}}}'
        )
    if method == "resources/list":
        return {"result": {"resources": [{"uri": "x://é", "name": "accent"}]}}
    if method == "resources/templates/list" and "bad-templates" in ODD:
        return failure(-32000, "not today")
    return failure(-32601, f"Method not found: {method}")


def main() -> None:
    if "stubborn" in ODD:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            if "noise" in ODD:
                send("this is no message")
            continue
        if "deaf" in ODD and message["method"] != "initialize":
            continue
        reply = answer(message["method"], message.get("params", {}), line.rstrip("\n"))
        body = reply if isinstance(reply, str) else json.dumps(reply)[1:-1]
        send(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{body}}}')
    while "stubborn" in ODD:
        time.sleep(1)


main()
