"""The engine without I/O: a whole client on plain blocking pipes, without trio.

Notice: `LineDecoder` and `Connection` never read, write or wait. You give them bytes; they give you
frames, events, and bytes to write. So they fit any loop: here it is one `while`. The engine keeps the
ids, the state of the session and the rules. Ask it for something that is not allowed yet, and it
raises before a single byte is written.

Exercise: print every event in `_events`. Then call the tool `count` with `{"progressToken": 9}` as the
`_meta` of its params: which new kind of event do you see?
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from mcpcore import LocalProtocolError, protocol
from mcpcore import types as t


class BlockingClient:
    """A client that does one thing at a time: send, then read until the answer is there."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = protocol.LineDecoder()
        self.engine = protocol.Connection("client")

    def open(self) -> None:
        """The handshake: initialize, its answer, initialized."""
        offer = t.InitializeParams(
            protocol_version=self.engine.revisions[0].name,
            capabilities=t.ClientCapabilities(),
            client_info=t.Implementation("blocking", "1.0"),
        )
        self.request("initialize", offer)
        if self.engine.revision is None:
            raise RuntimeError("the server speaks no revision that we speak")
        self.send(protocol.Notification("notifications/initialized"))

    def request(self, method: str, params: Any = UNSET) -> Any:
        """Send a request and wait for its answer."""
        id = self.engine.next_id()
        self.send(protocol.Request(id, method, params))
        for event in self._events():
            match event:
                case protocol.Response(answered, result) if answered == id:
                    return msgspec.json.decode(result)
                case protocol.ErrorResponse(answered, error) if answered == id:
                    raise RuntimeError(f"{error.message} (code {error.code})")
                case protocol.Failed(answered, error) if answered == id:
                    raise RuntimeError(error)
                case protocol.Request(asked, "ping"):
                    self.send(protocol.Response(asked, {}))
                case protocol.Refused(reply=bytes(reply)):
                    self._write(reply)  # the engine has judged it, and says what to answer
        raise RuntimeError(f"the server ended; never answered: {self.engine.lost()}")

    def send(self, event: protocol.Sendable) -> None:
        data = self.engine.send(event)
        if data is not None:
            self._write(data)

    def close(self) -> int:
        """No message ends a session: closing the server's stdin does."""
        with self.process:
            self.process.stdin.close()
            self.engine.lost()
        return self.process.returncode

    def _write(self, data: bytes) -> None:
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def _events(self) -> Iterator[protocol.Event]:
        while True:
            while (frame := self.lines.next_message()) is not protocol.NEED_DATA:
                yield from self.engine.receive(frame)
            # Half a message or five may come in one read: the decoder sorts that out.
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                return
            self.lines.receive_data(chunk)


if __name__ == "__main__":
    client = BlockingClient([sys.executable, str(Path(__file__).with_name("calculator.py"))])
    print("state:", client.engine.state.value)
    try:
        client.request("tools/list")
    except LocalProtocolError as error:
        print("too early:", error)

    client.open()
    print("state:", client.engine.state.value)
    print("server:", client.engine.peer.server_info.name, "in revision", client.engine.revision)

    page = client.request("tools/list")
    print("tools:", *(tool["name"] for tool in page["tools"]))
    page = client.request("tools/list", {"cursor": page["nextCursor"]})
    print("next page:", *(tool["name"] for tool in page["tools"]))

    call = {"name": "calculate_expression", "arguments": {"expression": "2^10"}}
    print("2^10 is", client.request("tools/call", call)["content"][0]["text"])

    print("exit status:", client.close())
    print("state:", client.engine.state.value)
