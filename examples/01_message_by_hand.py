"""A message by hand: one request and its answer, and the three messages that open a session.

Notice: a message is one JSON object on one line. A request has an `id`, its answer repeats it, by value
and by type; a notification has no `id` and gets no answer. That is JSON-RPC 2.0, and all of it fits
in `json`. `mcpcore.jsonrpc` writes the same bytes, and has an answer for lines that are no message.

Exercise: leave out `"jsonrpc"` in `request`, and let `jsonrpc.decode` tell what is wrong with it.
"""

import json

import msgspec

from mcpcore import jsonrpc
from mcpcore.jsonrpc import Malformed, Notification, Request, Response

# One request and its answer, with nothing but `json`.

request = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
}
line = json.dumps(request, separators=(",", ":"))
print("request:", line)

answer = '{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"3"}]}}'
read = json.loads(answer)
assert read["id"] == request["id"]  # how an answer finds its request; order means nothing
print("answer: ", answer)
print("it says:", read["result"]["content"][0]["text"])

# The same with `mcpcore.jsonrpc`: the bytes are equal, byte for byte.

data = jsonrpc.encode(Request(7, "tools/call", request["params"]))
print("\nthe same bytes:", data == line.encode())

notes: list[str] = []  # gets the ids of rules that the sender broke without harm
match jsonrpc.decode(answer.encode(), notes):
    case Response(id, result):
        # The result stays raw bytes until somebody wants it.
        print("answer to", id, "says", msgspec.json.decode(result)["content"][0]["text"])

# What is no message raises nothing: it becomes a value that says what to answer.

for bad in (b"hello", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b"[]"):
    match jsonrpc.decode(bad, notes):
        case Malformed(error):
            print(f"{bad.decode()}  ->  {error.code} {error.message}")

# The three messages of the handshake. Only after the third may the client call anything.

handshake: list[jsonrpc.Message] = [
    Request(
        1,
        "initialize",
        {
            "protocolVersion": "2025-11-25",  # the newest that the client speaks
            "capabilities": {},  # nothing that a server could ask of it
            "clientInfo": {"name": "by hand", "version": "1.0"},
        },
    ),
    Response(
        1,
        {
            "protocolVersion": "2025-11-25",  # the same, or another that the server speaks
            "capabilities": {"tools": {}},  # what may be used: tools, and nothing else
            "serverInfo": {"name": "adder", "version": "1.0"},
        },
    ),
    Notification("notifications/initialized"),
]
print("\nthe handshake:")
for message in handshake:
    arrow = "server -> client" if isinstance(message, Response) else "client -> server"
    print(f"{arrow}: {jsonrpc.encode(message).decode()}")
