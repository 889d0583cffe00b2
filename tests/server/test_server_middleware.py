"""The one seam around every request, the lifespan, and strictness."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
import trio
from handshake import connect
from scripted_client import REVISIONS, served

from mcpcore import (
    CallToolResult,
    ConnectionLost,
    Context,
    RequestFailed,
    Server,
    TextContent,
    ToolError,
    memory_channels,
)
from mcpcore.types import EmptyResult


def make_server(**options) -> Server:
    server = Server("seams", "1", **options)

    @server.tool
    async def echo(text: str) -> str:
        if text == "fail":
            raise ToolError("failed")
        if text == "refuse":
            raise RequestFailed(-31000, "refused")
        return text

    @server.tool(inline=True)
    def quick() -> str:
        return "quick"

    server.resource("x:a")(lambda: "a")
    return server


async def test_the_first_registered_is_the_outermost():
    server = make_server()
    order = []

    def around(name):
        @server.around
        async def step(proceed, ctx, request):
            order.append(f"{name} before {request.method}")
            result = await proceed()
            order.append(f"{name} after")
            return result

    around("one")
    around("two")
    async with served(server) as client:
        order.clear()
        assert (await client.call("echo", {"text": "x"}))["content"][0]["text"] == "x"
        assert order == [
            "one before tools/call",
            "two before tools/call",
            "two after",
            "one after",
        ]


async def test_every_request_goes_through_the_handshake_included():
    server = make_server()
    seen = []

    @server.around
    async def step(proceed, ctx, request):
        seen.append(request.method)
        return await proceed()

    async with served(server) as client:
        await client.call("quick")
        await client.result("resources/read", {"uri": "x:a"})
        await client.result("tools/list")
    assert seen == ["initialize", "ping", "tools/call", "resources/read", "tools/list"]


async def test_a_middleware_sees_results_and_may_replace_them():
    server = make_server()

    @server.around
    async def step(proceed, ctx, request):
        result = await proceed()
        if isinstance(result, CallToolResult):
            assert result.content == [TextContent("quick")]
            return CallToolResult(content=[TextContent("replaced")])
        return result

    async with served(server) as client:
        assert (await client.call("quick"))["content"][0]["text"] == "replaced"


async def test_a_middleware_may_answer_without_going_on():
    server = make_server()

    @server.around
    async def step(proceed, ctx, request):
        return EmptyResult() if request.method == "tools/list" else await proceed()

    async with served(server) as client:
        assert await client.result("tools/list") == {}


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RequestFailed(-31001, "not today"), -31001, "not today"),
        (ValueError("secret"), -32603, "Internal error"),
        (ExceptionGroup("g", [RequestFailed(-31002, "one")]), -31002, "one"),
    ],
)
async def test_what_a_middleware_raises_is_the_answer(error, code, message):
    server = make_server()

    @server.around
    async def step(proceed, ctx, request):
        if request.method == "tools/call":
            raise error
        return await proceed()

    async with served(server) as client:
        found = await client.error("tools/call", {"name": "quick"})
        assert found == {"code": code, "message": message}
        assert await client.heard() == []


async def test_a_middleware_sees_refusals_and_tool_errors_of_what_is_inside():
    server = make_server()
    seen = []

    @server.around
    async def step(proceed, ctx, request):
        try:
            result = await proceed()
        except RequestFailed as error:
            seen.append(error.code)
            raise
        if request.method == "tools/call":
            seen.append(result.is_error)
        return result

    async with served(server) as client:
        await client.call("echo", {"text": "fail"})
        assert (await client.error("tools/call", {"name": "nope"}))["code"] == -32602
        await client.error("tools/call", {"name": "echo", "arguments": {"text": "refuse"}})
        await client.call("echo", {"text": "fine"})
    assert seen == [True, -32602, -31000, False]


async def test_a_middleware_has_a_context():
    server = make_server()

    @server.tool(inline=True)
    def takes(ctx: Context) -> None: ...

    @server.around
    async def step(proceed, ctx, request):
        if request.method == "tools/call":
            ctx.progress(1, 2)
            ctx.log("info", [ctx.client.name, ctx.meta["k"], ctx.request_id == request.id])
        return await proceed()

    async with served(server) as client:
        await client.call("quick", _meta={"progressToken": "t", "k": 5})
        progress, log = await client.heard()
        assert progress["params"] == {"progressToken": "t", "progress": 1, "total": 2}
        assert log["params"]["data"] == ["by hand", 5, True]


async def test_a_middleware_alone_makes_logging_declared():
    server = make_server()

    @server.around
    async def step(proceed, ctx, request):
        if request.method == "tools/call":
            ctx.log("info", "audited")
        return await proceed()

    async with served(server) as client:
        assert client.welcome["capabilities"].get("logging") == {}
        assert "isError" not in await client.call("quick")
        assert [message["params"]["data"] for message in await client.heard()] == ["audited"]


async def test_a_cancellation_goes_through_the_middleware():
    server = make_server()
    started, ended = trio.Event(), []

    @server.tool
    async def hang() -> None:
        started.set()
        await trio.sleep_forever()

    @server.around
    async def step(proceed, ctx, request):
        try:
            return await proceed()
        except trio.Cancelled:
            ended.append(request.method)
            raise

    async with served(server) as client:
        call = client.ask("tools/call", {"name": "hang"})
        await started.wait()
        client.notify("notifications/cancelled", {"requestId": call})
        assert await client.heard() == []
        assert ended == ["tools/call"]


@pytest.mark.parametrize("params", [{"_meta": 5}, {"_meta": []}])
async def test_a_meta_that_is_no_object_is_invalid_params_with_and_without_middleware(params):
    for middleware in (False, True):
        server = make_server()
        if middleware:

            @server.around
            async def step(proceed, ctx, request):
                return await proceed()

        async with served(server) as client:
            error = await client.error("tools/call", {"name": "quick"} | params)
            assert error["code"] == -32602


async def test_the_lifespan_is_entered_before_the_first_request_and_left_after_the_last():
    order = []

    @asynccontextmanager
    async def lifespan():
        order.append("enter")
        yield {"database": 1}
        order.append("leave")

    server = make_server(lifespan=lifespan)

    @server.tool
    async def state(ctx: Context[dict]) -> str:
        order.append("call")
        return str(ctx.state)

    @server.resource("x:state")
    async def resource(ctx: Context) -> str:
        return str(ctx.state)

    ours, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs)
        async with connect(ours) as client:
            assert (await client.call_tool("state")).text == "{'database': 1}"
            assert (await client.read_resource("x:state")).contents[0].text == "{'database': 1}"
    assert order == ["enter", "call", "leave"]


async def test_a_server_in_memory_may_clean_up_when_the_client_leaves():
    """Leaving the block is no cancellation for a lifespan that closes its database, say."""
    order = []

    @asynccontextmanager
    async def lifespan():
        yield None
        await trio.lowlevel.checkpoint()
        order.append("cleaned up")

    async with connect(make_server(lifespan=lifespan)) as client:
        await client.ping()
    assert order == ["cleaned up"]


async def test_a_lifespan_that_fails_ends_the_connection_and_says_so(caplog):
    @asynccontextmanager
    async def lifespan():
        raise ValueError("no database")
        yield

    with pytest.raises(ConnectionLost):
        async with connect(make_server(lifespan=lifespan)):
            pass
    assert "the server in memory ended because of an error" in caplog.text


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_request_before_initialized_is_served_and_counted(revision):
    """F-047: the answer to initialize is out, so requests are served."""
    server = make_server()
    async with served(server, initialize=False) as client:
        await client.initialize(revision, initialized=False)
        assert (await client.call("quick"))["content"][0]["text"] == "quick"
        (session,) = server._sessions
        assert session.forgiven == {"LIFE-05": 1}


async def test_a_strict_server_refuses_a_request_before_initialized():
    async with served(make_server(strict=True), initialize=False) as client:
        await client.initialize(initialized=False)
        error = await client.error("tools/call", {"name": "quick"})
        assert error["code"] == -32600
        assert await client.result("ping") == {}
        client.notify("notifications/initialized")
        assert (await client.call("quick"))["content"][0]["text"] == "quick"


@pytest.mark.parametrize("strict", [False, True])
async def test_a_request_before_initialize_says_what_is_missing(strict):
    """F-048, META26-04: a server of both eras says that a session is missing, or else the terms."""
    async with served(make_server(strict=strict), initialize=False) as client:
        error = await client.error("tools/list")
        assert error["code"] == -32602
        assert "not initialized" in error["message"]
        assert "io.modelcontextprotocol/protocolVersion" in error["message"]
        await client.initialize()
        assert await client.result("tools/list")


async def test_a_lenient_server_lives_with_null_params_and_a_strict_one_refuses_them():
    async with served(make_server()) as client:
        client.send({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": None})
        assert "result" in await client.answer(5)
    async with served(make_server(strict=True)) as client:
        client.send({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": None})
        assert (await client.answer(5))["error"]["code"] == -32600
        assert await client.result("ping") == {}


@pytest.mark.parametrize(
    "junk",
    [
        b"{bad",
        b'{"jsonrpc":"2.0"}',
        b"[]",
        b'{"jsonrpc":"2.0","method":5}',
        b"\xff\xfe",
        b"42",
        b'{"jsonrpc":"2.0","id":9,"result":{}}',
    ],
)
@pytest.mark.parametrize("strict", [False, True])
async def test_junk_is_survived(junk, strict):
    async with served(make_server(strict=strict)) as client:
        client.send(junk)
        assert await client.result("ping") == {}
        assert all("error" in message for message in client.unread)


async def test_unknown_notifications_are_never_answered():
    """F-033."""
    async with served(make_server()) as client:
        client.notify("notifications/futurething", {"a": 1})
        client.notify("notifications/roots/list_changed")
        client.notify("rpc.odd")
        assert await client.heard() == []


async def test_unknown_methods_are_not_found():
    """F-031: at once, and with the request's id."""
    async with served(make_server()) as client:
        for method in ("foo/bar", "tasks/list", "prompts/list", "server/discover"):
            assert (await client.error(method))["code"] == -32601


async def test_a_method_that_only_an_extension_knows_is_not_found_by_the_server_itself():
    async with served(make_server()) as client:
        assert (await client.error("vendor/special", {}))["code"] == -32601


@pytest.mark.parametrize("id", ["1", "001", "a", "", 0, -5, 9007199254740993])
async def test_ids_come_back_with_type_and_value(id):
    """F-026."""
    async with served(make_server()) as client:
        client.ask("ping", id=id)
        assert await client.receive() == {"jsonrpc": "2.0", "id": id, "result": {}}
        client.ask("tools/call", {"name": "echo", "arguments": {"text": "x"}}, id=id)
        answer = await client.receive()
        assert (answer["id"], type(answer["id"])) == (id, type(id))


async def test_an_id_of_null_is_refused_and_not_taken_for_a_notification():
    """F-028."""
    async with served(make_server()) as client:
        client.send({"jsonrpc": "2.0", "id": None, "method": "ping"})
        error = await client.receive()
        assert error["error"]["code"] == -32600
        assert "id" not in error


async def test_a_second_request_with_an_id_in_flight_is_refused_and_the_first_answered():
    """F-029: never overwrite: the second caller would get the first one's data."""
    server = make_server()
    go = trio.Event()

    @server.tool
    async def wait(n: int) -> str:
        await go.wait()
        return str(n)

    async with served(server) as client:
        client.ask("tools/call", {"name": "wait", "arguments": {"n": 1}}, id=1)
        await trio.testing.wait_all_tasks_blocked()
        client.ask("tools/call", {"name": "wait", "arguments": {"n": 2}}, id=1)
        refused = await client.receive()
        assert (refused["id"], refused["error"]["code"]) == (1, -32600)
        go.set()
        answer = await client.receive()
        assert answer["result"]["content"][0]["text"] == "1"
        client.ask("tools/call", {"name": "wait", "arguments": {"n": 3}}, id=1)
        assert (await client.receive())["result"]["content"][0]["text"] == "3"


async def test_a_broken_envelope_with_a_readable_id_is_answered_with_it():
    """F-032."""
    async with served(make_server()) as client:
        for message in (
            {"jsonrpc": "2.0", "id": 7, "method": 5},
            {"id": 7, "method": "ping"},
            {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": "x"},
        ):
            client.send(message)
            answer = await client.receive()
            assert (answer["id"], answer["error"]["code"]) == (7, -32600)
        client.send({"jsonrpc": "2.0", "method": 5})
        assert await client.heard() == []


async def test_batches_are_answered_in_the_one_revision_that_has_them():
    """F-060."""
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
    call = {
        "jsonrpc": "2.0",
        "id": "c",
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "x"}},
    }
    for revision in REVISIONS:
        async with served(make_server(), revision) as client:
            client.send(json.dumps([ping, call]).encode())
            (frame,) = await client.channel.receive()
            answer = json.loads(frame)
            if revision == "2025-03-26":
                assert {item["id"] for item in answer} == {"p", "c"}
            else:
                assert answer["error"]["code"] == -32600


async def test_a_batch_with_a_request_and_its_cancellation_is_answered_for_the_rest():
    """F-060."""
    server = make_server()

    @server.tool
    async def hang() -> None:
        await trio.sleep_forever()

    async with served(server, "2025-03-26") as client:
        batch = [
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hang"}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        ]
        client.send(json.dumps(batch).encode())
        (frame,) = await client.channel.receive()
        assert json.loads(frame) == [{"jsonrpc": "2.0", "id": 2, "result": {}}]


@pytest.mark.parametrize("wanted", ["1900-01-01", "2099-01-01", "2026-07-28", ""])
async def test_an_unknown_revision_is_answered_with_the_newest_that_the_server_speaks(wanted):
    """F-046."""
    async with served(make_server(), wanted) as client:
        assert client.welcome["protocolVersion"] == "2025-11-25"
    pinned = make_server(revisions=["2024-11-05", "2025-03-26"])
    async with served(pinned, wanted) as client:
        assert client.welcome["protocolVersion"] == "2025-03-26"


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
    ],
)
async def test_an_unreadable_initialize_is_refused_and_may_be_tried_again(params):
    async with served(make_server(), initialize=False) as client:
        assert (await client.error("initialize", params))["code"] == -32602
        await client.initialize()
        assert (await client.call("quick"))["content"]


async def test_a_second_initialize_is_refused_and_changes_nothing():
    async with served(make_server()) as client:
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        }
        assert (await client.error("initialize", params))["code"] == -32600
        assert (await client.call("quick"))["content"]


async def test_an_initialize_that_a_middleware_refuses_leaves_the_session_unopened():
    server = make_server()
    refuse = [True]

    @server.around
    async def step(proceed, ctx, request):
        if request.method == "initialize" and refuse.pop(0):
            raise RequestFailed(-31000, "who are you?")
        return await proceed()

    refuse.append(False)
    async with served(server, initialize=False) as client:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        }
        assert (await client.error("initialize", params))["code"] == -31000
        await client.initialize()
        assert (await client.call("quick"))["content"]
