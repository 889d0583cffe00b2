"""Which era a server is of: the whole table, by scripts of servers that behave in every way."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from mcpcore import (
    ConnectionLost,
    RequestFailed,
    Server,
    StdioServer,
    Timeouts,
    VersionMismatch,
    connect,
    memory_channels,
    serve_http,
)
from mcpcore.client.open import name_of
from mcpcore.errors import McpError, RemoteProtocolError, RequestTimeout
from mcpcore.protocol.terms import REVISION, SERVER_INFO
from mcpcore.revisions import ALL, HANDSHAKE, STATELESS
from mcpcore.runtime import single
from mcpcore.transport.channel import Channel

E = STATELESS[0]
OLD = HANDSHAKE[0]
Message = dict[str, Any]
Script = Callable[[Message], Any]
"""Gives the result of a request, an error (with `code`), or None to be silent."""


class Peer:
    """A server by script; what came is kept."""

    def __init__(self, channel: Channel, script: Script) -> None:
        self.channel = channel
        self.script = script
        self.seen: list[Message] = []

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.seen]

    async def run(self) -> None:
        try:
            while True:
                for frame in await self.channel.receive():
                    assert isinstance(frame, bytes)
                    message = json.loads(frame)
                    self.seen.append(message)
                    if "id" in message:
                        self._reply(message)
        except ConnectionLost:
            pass

    def _reply(self, message: Message) -> None:
        reply = self.script(message)
        if isinstance(reply, bytes):
            self.channel.send_nowait(reply)
        elif reply is not None:
            kind = "error" if "code" in reply else "result"
            body = {"jsonrpc": "2.0", "id": message["id"], kind: reply}
            self.channel.send_nowait(json.dumps(body).encode())


@asynccontextmanager
async def peer(script: Script) -> AsyncIterator[tuple[Channel, Peer]]:
    ours, theirs = memory_channels()
    server = Peer(theirs, script)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            yield ours, server
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise single(group) from None


def discovered(*versions: str, **more: Any) -> Message:
    return {
        "resultType": "complete",
        "supportedVersions": list(versions),
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: {"name": "scripted", "version": "1"}},
        **more,
    }


def initialized(message: Message) -> Message:
    return {
        "protocolVersion": message["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "older", "version": "1"},
    }


def error(code: int, **data: Any) -> Message:
    return {"code": code, "message": "no", **({"data": data} if data else {})}


def dual(first: Any) -> Script:
    """A server that answers the question for its era with `first`, and shakes hands."""

    def script(message: Message) -> Any:
        if message["method"] == "server/discover":
            return first(message) if callable(first) else first
        if message["method"] == "initialize":
            return initialized(message)
        return {"tools": []}

    return script


async def test_a_server_of_the_stateless_era_is_met_as_one() -> None:
    async with peer(dual(discovered(E))) as (channel, server):
        async with connect(channel) as client:
            assert client.revision == E
            assert client.server_info.name == "scripted"
            assert client.instructions is None
            await client.list_tools()
        assert server.methods == ["server/discover", "tools/list"]
        # META26-01: each request names its revision.
        assert {message["params"]["_meta"][REVISION] for message in server.seen} == {E}


@pytest.mark.parametrize(
    "first",
    [
        error(-32601),
        error(-32602),
        error(-32600),
        error(-32000),
        error(-32002),
        error(0),
        {"no": "discovery"},
        discovered(OLD),
        error(-32022, supported=[OLD], requested=E),
        lambda message: b'{"jsonrpc":"2.0","id":%d,"error":"broken"}' % message["id"],
    ],
    ids=range(10),
)
async def test_stdio26_22_whatever_else_comes_means_the_handshake(first: Any) -> None:
    """F-025; STDIO26-21, STDIO26-22: the way back hangs on no certain code."""
    async with peer(dual(first)) as (channel, server):
        async with connect(channel) as client:
            assert client.revision == OLD
            assert client.server_info.name == "older"
            await client.list_tools()
        assert server.methods[:3] == ["server/discover", "initialize", "notifications/initialized"]
        assert "_meta" not in server.seen[1]["params"]


async def test_silence_means_the_handshake(autojump_clock: trio.testing.MockClock) -> None:
    """And a late answer confuses nothing (TRAP-31); nobody is told of a cancellation."""
    late: list[Message] = []

    def first(message: Message) -> None:
        late.append(message)

    async with peer(dual(first)) as (channel, server):
        began = trio.current_time()
        async with connect(channel) as client:
            assert trio.current_time() - began == 5
            body = {"jsonrpc": "2.0", "id": late[0]["id"], "result": discovered(E)}
            server.channel.send_nowait(json.dumps(body).encode())
            await client.list_tools()
            assert client.revision == OLD
        assert "notifications/cancelled" not in server.methods


async def test_the_time_for_connecting_is_enough_for_both(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        peer(dual(None)) as (channel, _),
        connect(channel, timeouts=Timeouts(connect=2)) as client,
    ):
        assert client.revision == OLD


async def test_vers26_05_a_revision_that_both_speak_is_taken() -> None:
    """Even if the refused one was the same: a server may begin with a refusal."""
    replies = iter([error(-32022, supported=[E], requested=E), discovered(E)])
    async with peer(dual(lambda _: next(replies))) as (channel, server):
        async with connect(channel) as client:
            assert client.revision == E
        assert server.methods == ["server/discover"] * 2
        assert server.seen[0]["id"] != server.seen[1]["id"]


async def test_nothing_in_common_is_said_by_name() -> None:
    for first in (error(-32022, supported=["2099-01-01"], requested=E), discovered("2099-01-01")):
        async with peer(dual(first)) as (channel, server):
            with pytest.raises(VersionMismatch, match="2099-01-01"):
                async with connect(channel):
                    pass
            assert "initialize" not in server.methods


async def test_vers26_11_an_error_of_the_era_is_no_reason_to_go_back() -> None:
    for code in (-32020, -32021):
        async with peer(dual(error(code))) as (channel, server):
            with pytest.raises(RequestFailed, match="no"):
                async with connect(channel):
                    pass
            assert "initialize" not in server.methods


async def test_a_server_that_never_agrees_is_asked_twice() -> None:
    async with peer(dual(error(-32022, supported=[E], requested=E))) as (channel, server):
        with pytest.raises(VersionMismatch):
            async with connect(channel):
                pass
        assert server.methods == ["server/discover"] * 2


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (error(-32601), VersionMismatch),
        ({"no": "discovery"}, RemoteProtocolError),
        (None, RequestTimeout),
    ],
)
async def test_a_client_of_one_era_does_not_go_back(
    first: Any, kind: type[McpError], autojump_clock: trio.testing.MockClock
) -> None:
    """COMPAT-02: it fails at once, and not by silence."""
    async with peer(dual(first)) as (channel, server):
        with pytest.raises(kind):
            async with connect(channel, revisions=STATELESS):
                pass
        assert server.methods == ["server/discover"]


async def test_a_pinned_client_asks_nothing() -> None:
    async with peer(dual(discovered(E))) as (channel, server):
        async with connect(channel, revisions=["2025-06-18"]) as client:
            assert client.revision == "2025-06-18"
        assert server.methods[0] == "initialize"


@pytest.mark.parametrize("info", [None, 7, {"name": "no version"}])
async def test_a_server_need_not_say_its_name(info: Any) -> None:
    script = dual(discovered(E, _meta={SERVER_INFO: info}))
    async with peer(script) as (channel, _), connect(channel) as client:
        assert client.server_info.name == ""


# The compatibility matrix, with our own server.


@pytest.mark.parametrize("ours", [ALL, STATELESS, HANDSHAKE, ("2025-03-26",)], ids=str)
@pytest.mark.parametrize("theirs", [ALL, STATELESS, HANDSHAKE, ("2025-03-26",)], ids=str)
async def test_compat_the_newest_that_both_speak(ours: Any, theirs: Any) -> None:
    """COMPAT-01 to COMPAT-06."""
    server = Server("s", "1", revisions=theirs)
    server.tool(name="f")(lambda: "x")
    common = [name for name in ALL if name in ours and name in theirs]
    if common:
        async with connect(server, revisions=ours) as client:
            assert client.revision == common[0]
            assert [tool.name for tool in await client.list_tools()] == ["f"]
    else:
        with pytest.raises(VersionMismatch, match="this side speaks"):
            async with connect(server, revisions=ours):
                pass


@pytest.mark.parametrize("ours", [STATELESS, HANDSHAKE], ids=str)
async def test_compat_02_vers26_10_no_common_revision_is_said_alike_over_http(ours: Any) -> None:
    theirs = HANDSHAKE if ours == STATELESS else STATELESS
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(partial(serve_http, Server("s", "1", revisions=theirs), port=0))
        with pytest.raises(VersionMismatch, match="this side speaks"):
            async with connect(urls[0], revisions=ours):
                pass
        nursery.cancel_scope.cancel()


async def test_trap_31_a_server_that_shakes_no_hands_after_all_is_asked_again() -> None:
    replies: list[Any] = [error(-32000)]

    def script(message: Message) -> Any:
        if message["method"] == "server/discover":
            return replies.pop() if replies else discovered(E)
        if message["method"] == "initialize":
            return error(-32022, supported=[E], requested=OLD)
        return {"tools": []}

    servers: list[Peer] = []

    class Scripted:
        """A server object, so that it can be met twice."""

        async def serve(self, channel: Channel) -> None:
            servers.append(Peer(channel, script))
            await servers[-1].run()

    async with connect(Scripted()) as client:
        assert client.revision == E
    assert [server.methods for server in servers] == [
        ["server/discover", "initialize"],
        ["server/discover"],
    ]


DIES = """
import json, sys
line = json.loads(sys.stdin.readline())
if line["method"] == "server/discover":
    sys.exit(7)
result = {
    "protocolVersion": line["params"]["protocolVersion"],
    "capabilities": {},
    "serverInfo": {"name": "touchy", "version": "1"},
}
print(json.dumps({"jsonrpc": "2.0", "id": line["id"], "result": result}), flush=True)
sys.stdin.read()
"""


@pytest.mark.process
async def test_f_024_a_child_that_dies_of_the_question_is_started_again() -> None:
    async with connect(StdioServer(command=[sys.executable, "-c", DIES])) as client:
        assert client.server_info.name == "touchy"
        assert client.revision == OLD


@pytest.mark.process
async def test_a_child_that_dies_anyway_is_started_twice_and_no_more() -> None:
    with pytest.raises(ConnectionLost, match="status 3"):
        async with connect(StdioServer(command=[sys.executable, "-c", "import sys; sys.exit(3)"])):
            pass


OLDER = """
import json, sys
for text in sys.stdin:
    line = json.loads(text)
    if "id" not in line:
        continue
    print(line["method"], file=sys.stderr, flush=True)
    reply = {"jsonrpc": "2.0", "id": line["id"]}
    if line["method"] == "initialize":
        version = line["params"]["protocolVersion"]
        info = {"name": "older", "version": "1"}
        reply["result"] = {"protocolVersion": version, "capabilities": {}, "serverInfo": info}
    else:
        reply["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(reply), flush=True)
"""


@pytest.mark.process
async def test_vers26_13_nobody_is_asked_twice() -> None:
    """What was found out is kept by whoever gives a place for it (VERS26-14)."""
    eras: Any = {}
    for expected in (["server/discover", "initialize"], ["initialize"]):
        asked: list[str] = []
        target = StdioServer(command=[sys.executable, "-c", OLDER], stderr=asked.append)
        async with connect(target, eras=eras) as client:
            assert client.revision == OLD
        assert [line.strip() for line in asked] == expected
    assert list(eras.values()) == ["handshake"]


async def test_what_a_server_is_known_by() -> None:
    assert name_of("python server.py") == name_of(["python", "server.py"]) == "python server.py"
    assert name_of("http://user:secret@host:1/mcp") == "http://host:1"
    assert name_of(Server("s", "1")) is None
