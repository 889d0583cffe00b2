"""Requests that stand alone, over HTTP: statuses, headers, streams that end with their connection."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any

import msgspec
import pytest
import trio
from handshake import connect as connect_by_handshake
from web_server import Web, initialize, serving, web

from mcpcore import Context, HttpServer, Server, StateOptions, connect
from mcpcore.protocol import mirrors
from mcpcore.protocol import terms as names
from mcpcore.revisions import STATELESS
from mcpcore.server.http.principals import bearer_tokens
from mcpcore.server.http.sessions import SessionLimits

E = STATELESS[0]
META: dict[str, Any] = {names.REVISION: E, names.CLIENT_CAPABILITIES: {}}


class Name(msgspec.Struct):
    name: str


class Doors:
    """What the tools of a test wait for, and what they saw."""

    def __init__(self) -> None:
        self.started, self.cancelled, self.go = trio.Event(), trio.Event(), trio.Event()


def add_plain_tools(server: Server) -> None:
    @server.tool
    def whoami(ctx: Context[Any]) -> str:
        return str(ctx.principal)

    @server.tool
    def placed(
        region: Annotated[str, msgspec.Meta(extra_json_schema={mirrors.MARK: "Region"})] = "",
    ) -> str:
        return region


def make_server(**options: Any) -> tuple[Server, Doors]:
    server, doors = Server("alone", "1.0", **options), Doors()
    add_plain_tools(server)

    @server.tool(inline=True)
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(n: int, ctx: Context[Any]) -> str:
        for step in range(n):
            ctx.progress(step + 1, n)
        return "counted"

    @server.tool
    async def slow(ctx: Context[Any], word: bool = True) -> str:
        if word:
            ctx.progress(1)
        doors.started.set()
        try:
            await doors.go.wait()
        except trio.Cancelled:
            doors.cancelled.set()
            raise
        return "slow"

    @server.tool(asks="replay")
    async def ask(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("name", Name, "Who?")
        return answer.value.name if answer.value else answer.action

    @server.tool(asks="replay")
    async def ask_often(n: int, ctx: Context[Any]) -> str:
        for step in range(n):
            await ctx.elicit(f"name-{step}", Name, f"Who is {step}?")
        return f"asked {n} times"

    @server.resource("x:a", subscribable=True)
    def a() -> str:
        return "a"

    return server, doors


def request(method: str, id: Any = 1, meta: Any = META, **params: Any) -> dict[str, Any]:
    if meta is not None:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(name: str, id: Any = 1, token: Any = None, **arguments: Any) -> dict[str, Any]:
    meta = META if token is None else META | {"progressToken": token}
    return request("tools/call", id, meta, name=name, arguments=arguments)


def headers(body: dict[str, Any]) -> dict[str, str]:
    given = {"mcp-protocol-version": E, "mcp-method": body["method"]}
    params = body["params"]
    if "name" in params or "uri" in params:
        given["mcp-name"] = params.get("name") or params["uri"]
    return given


async def ask(client: Web, body: dict[str, Any], **change: str | None) -> Any:
    given = headers(body) | {name.replace("_", "-"): value for name, value in change.items()}
    return await client.ask("POST", body, given)


async def test_a_request_needs_nothing_before_it(front: str) -> None:
    """VERS26-07, HTTP26-41: no session is opened, and none is needed."""
    async with web(make_server()[0], front) as client:
        client.session = "of-another-time"
        reply = await ask(client, call("add", a=1, b=2))
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in reply.headers
        assert reply.json["result"]["structuredContent"] == {"result": 3}
        assert reply.json["result"]["resultType"] == "complete"


async def test_http26_28_what_comes_before_the_answer_makes_a_stream(front: str) -> None:
    async with web(make_server()[0], front) as client:
        reply = await ask(client, call("count", token="t", n=2))
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["x-accel-buffering"] == "no"
        assert [message.get("method") for message in reply.events] == [
            "notifications/progress",
            "notifications/progress",
            None,
        ]
        # HTTP26-35: nothing can be resumed, so no event has an id.
        assert [id for id, _ in reply.raw_events] == [None] * 3


@pytest.mark.parametrize(
    ("body", "change", "status", "code"),
    [
        (request("tools/list", meta=None), {}, 400, -32602),
        (request("tools/list", meta={}), {}, 400, -32602),
        (request("tools/list"), {"mcp_protocol_version": None}, 400, -32020),
        (request("tools/list"), {"mcp_protocol_version": "2025-11-25"}, 400, -32020),
        (request("tools/list"), {"mcp_method": None}, 400, -32020),
        (request("tools/list"), {"mcp_method": "TOOLS/LIST"}, 400, -32020),
        (call("add", a=1, b=2), {"mcp_name": None}, 400, -32020),
        (call("add", a=1, b=2), {"mcp_name": "sub"}, 400, -32020),
        (call("placed", region="eu"), {}, 400, -32020),
        (call("placed", region="eu"), {"mcp_param_region": "us"}, 400, -32020),
        (call("placed", region="eu"), {"mcp_param_region": "=?base64?!!?="}, 400, -32020),
        (request("foo/bar"), {}, 404, -32601),
        (request("ping"), {}, 404, -32601),
        (request("initialize"), {}, 404, -32601),
        (request("prompts/list"), {}, 404, -32601),
        (call("nope"), {}, 400, -32602),
        (call("ask"), {}, 400, -32021),
        (request("resources/read", uri="x:nope"), {}, 400, -32602),
    ],
)
async def test_http26_53_the_status_is_decided_before_anything_is_written(
    front: str, body: dict[str, Any], change: dict[str, Any], status: int, code: int
) -> None:
    async with web(make_server()[0], front) as client:
        for answers in ("application/json, text/event-stream", "application/json"):
            reply = await ask(client, body, accept=answers, **change)
            assert (reply.status, reply.json["error"]["code"]) == (status, code), reply.body
            assert reply.json["id"] == 1


async def test_an_unknown_revision_is_told_which_there_are(front: str) -> None:
    """HTTP26-23; and META26-10: a missing capability is named."""
    async with web(make_server()[0], front) as client:
        body = request("tools/list", meta={**META, names.REVISION: "v9"})
        reply = await ask(client, body, mcp_protocol_version="v9")
        assert reply.status == 400
        assert reply.json["error"]["data"] == {"supported": [E], "requested": "v9"}
        error = (await ask(client, call("ask"))).json["error"]
        assert error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}


async def test_marked_arguments_may_be_where_they_should(front: str) -> None:
    async with web(make_server()[0], front) as client:
        for header in ("eu", "=?base64?ZXU=?="):
            reply = await ask(client, call("placed", region="eu"), mcp_param_region=header)
            assert reply.status == 200, reply.body
        assert (await ask(client, call("placed"))).status == 200
        # HDR-32: what no tool marks means nothing.
        assert (await ask(client, call("add", a=1, b=2), mcp_param_x="y")).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'"text"',
        [call("add", a=1, b=2)],
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ],
)
async def test_http26_51_what_is_no_request_is_refused(front: str, body: Any) -> None:
    async with web(make_server()[0], front) as client:
        reply = await client.ask("POST", body, {"mcp-protocol-version": E})
        assert reply.status == 400
        assert "error" in reply.json


async def test_http26_12_a_notification_is_accepted(front: str) -> None:
    async with web(make_server()[0], front) as client:
        body = {"jsonrpc": "2.0", "method": "notifications/x", "params": {}}
        reply = await client.ask("POST", body, {"mcp-protocol-version": E})
        assert (reply.status, reply.body) == (202, b"")


@pytest.mark.parametrize("word", [True, False], ids=["a stream", "nothing yet"])
async def test_canc26_04_a_connection_that_breaks_cancels_its_request(
    front: str, word: bool
) -> None:
    """HTTP26-37; the opposite of a session (HTTP-20). Under hypercorn it is noticed when the next sign of life
    cannot be written.
    """
    server, doors = make_server()
    async with web(server, front, keep_alive=0.2) as client:
        body = call("slow", token="t", word=word)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, client, body)
                await doors.started.wait()
                nursery.cancel_scope.cancel()
            await doors.cancelled.wait()
            assert (await ask(client, call("add", a=1, b=2))).status == 200


async def test_two_clients_may_use_the_same_id_at_once(front: str) -> None:
    server, doors = make_server()
    async with web(server, front) as one, web(server, front) as two:
        replies = []

        async def keep(client: Web) -> None:
            replies.append(await ask(client, call("slow", id="same", word=False)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep, one)
            nursery.start_soon(keep, two)
            await doors.started.wait()
            doors.go.set()
        assert [reply.json["id"] for reply in replies] == ["same", "same"]


async def test_state26_08_each_request_is_of_its_own_principal(front: str) -> None:
    tokens = bearer_tokens({"a-token-of-ada-1234": "ada", "a-token-of-bob-1234": "bob"})
    async with web(make_server()[0], front, authenticate=tokens) as client:
        assert (await ask(client, call("whoami"))).status == 401
        for name in ("ada", "bob", "ada"):
            token = f"Bearer a-token-of-{name}-1234"
            reply = await ask(client, call("whoami"), authorization=token)
            assert reply.json["result"]["content"][0]["text"] == name


async def test_mrtr_15_a_state_is_of_its_principal(front: str) -> None:
    tokens = bearer_tokens({"a-token-of-ada-1234": "ada", "a-token-of-bob-1234": "bob"})
    meta = {**META, names.CLIENT_CAPABILITIES: {"elicitation": {}}}
    async with web(make_server()[0], front, authenticate=tokens) as client:
        first = request("tools/call", 1, meta, name="ask", arguments={})
        asked = await ask(client, first, authorization="Bearer a-token-of-ada-1234")
        state = asked.json["result"]["requestState"]
        answers = {"name": {"action": "accept", "content": {"name": "Zoë"}}}
        again = request(
            "tools/call",
            2,
            meta,
            name="ask",
            arguments={},
            inputResponses=answers,
            requestState=state,
        )
        stolen = await ask(client, again, authorization="Bearer a-token-of-bob-1234")
        assert (stolen.status, stolen.json["error"]["code"]) == (400, -32602)
        own = await ask(client, again, authorization="Bearer a-token-of-ada-1234")
        assert own.json["result"]["content"][0]["text"] == "Zoë"


async def test_mrtr_22_a_server_that_was_started_anew_goes_on(front: str) -> None:
    """Between two rounds, with the same key."""
    options = {"states": StateOptions(keys=[secrets.token_bytes(32)])}
    meta = {**META, names.CLIENT_CAPABILITIES: {"elicitation": {}}}
    more: dict[str, Any] = {}
    for step in range(3):
        server, _ = make_server(**options)
        async with web(server, front) as client:
            body = request("tools/call", step, meta, name="ask_often", arguments={"n": 2}, **more)
            result = (await ask(client, body)).json["result"]
            if step == 2:
                assert result["content"][0]["text"] == "asked 2 times"
                break
            (key,) = result["inputRequests"]
            answer = {"action": "accept", "content": {"name": "x"}}
            more = {"inputResponses": {key: answer}, "requestState": result["requestState"]}
    # Without a key of its own to share, a server goes on with nobody else's rounds.
    async with web(make_server()[0], front) as client:
        refused = await ask(client, body)
        assert (refused.status, refused.json["error"]["code"]) == (400, -32602)


@pytest.mark.parametrize("verb", ["GET", "DELETE"])
async def test_http26_40_only_post_where_there_are_no_sessions(front: str, verb: str) -> None:
    async with web(make_server(revisions=STATELESS)[0], front) as client:
        assert (await client.ask(verb)).status == 405
        # COMPAT-05: a client of the handshake era hears that there is none.
        reply = await client.post(initialize())
        assert reply.status == 404
        assert reply.json["error"]["data"] == {"supported": [E]}


async def test_both_eras_at_one_endpoint(front: str) -> None:
    """VERS26-16."""
    async with web(make_server()[0], front) as client:
        await client.initialize()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        old = await client.post(body)
        new = await ask(client, request("tools/list"))
        assert "resultType" not in old.json["result"]
        assert new.json["result"]["resultType"] == "complete"
        names_of = [[tool["name"] for tool in r.json["result"]["tools"]] for r in (old, new)]
        assert names_of[0] == names_of[1]


async def test_subs_08_what_is_listened_to_is_acknowledged_first(front: str) -> None:
    """SUBS-05, SUBS-11; SUBS-16: at the server's end the request has an answer."""
    server, _ = make_server()
    async with serving(server, front) as url:
        client = Web(url)
        wanted = {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourceSubscriptions": ["x:a", "x:b"],
        }
        body = request("subscriptions/listen", "s", notifications=wanted)
        stream = await client.open("POST", body, headers(body))
        assert stream.status == 200
        server.resource_updated("x:a")
        server.resource_updated("x:b")
        server.tool(name="added")(lambda: "x")
        seen = b""
        with trio.fail_after(20):
            while seen.count(b"list_changed") < 1:
                seen += await stream.chunk()
        messages = [
            json.loads(line[6:]) for line in seen.decode().splitlines() if line[:6] == "data: "
        ]
        assert [message["method"] for message in messages] == [
            "notifications/subscriptions/acknowledged",
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        ]
        assert messages[0]["params"]["notifications"] == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["x:a"],
        }
        assert {message["params"]["_meta"][names.SUBSCRIPTION_ID] for message in messages} == {"s"}
        stream.close()
        await client.client.aclose()


async def test_subs_16_the_end_of_the_server_is_told() -> None:
    """By our listener; hypercorn ends its connections before it tells an app that it stops."""
    server, _ = make_server()
    rest = b""
    async with trio.open_nursery() as nursery, serving(server) as url:
        client = Web(url)
        body = request("subscriptions/listen", 7, notifications={})
        stream = await client.open("POST", body, headers(body))
        await stream.chunk()

        async def read() -> None:
            nonlocal rest
            while chunk := await stream.chunk():
                rest += chunk

        nursery.start_soon(read)
    answer = json.loads(rest.decode().split("data: ")[1])
    assert answer["id"] == 7
    assert answer["result"]["_meta"][names.SUBSCRIPTION_ID] == 7
    await client.client.aclose()


async def test_a_client_that_does_not_read_harms_nobody() -> None:
    server, _ = make_server()

    @server.tool
    async def chatter(ctx: Context[Any]) -> str:
        for step in range(3000):
            ctx.progress(step + 1, message="x" * 1000)
            if step % 100 == 0:
                await trio.lowlevel.checkpoint()
        return "said"

    async with serving(server, sessions=SessionLimits(queued=50_000)) as url:
        client = Web(url)
        body = call("chatter", token="t")
        stream = await client.open("POST", body, headers(body))
        with trio.fail_after(20):
            other = Web(url)
            assert (await ask(other, call("add", a=1, b=2))).status == 200
            await other.client.aclose()
        stream.close()
        await client.client.aclose()


# Our client.


async def test_the_same_client_in_both_eras_at_one_endpoint(front: str) -> None:
    server, _ = make_server()
    async with serving(server, front) as url:
        seen = []
        for connecting in (connect, connect_by_handshake):
            async with connecting(url, elicit=lambda _: {"name": "Zoë"}) as client:
                seen.append(client.revision)
                assert (await client.call_tool("ask")).text == "Zoë"
                # As many questions as it takes for one to have the id of the call.
                often = await client.call_tool("ask_often", {"n": 8})
                assert often.text == "asked 8 times"
                assert (await client.call_tool("placed", {"region": " x"})).text == " x"
                assert "placed" in {tool.name for tool in await client.list_tools()}
                assert (await client.call_tool("placed", {"region": "eu"})).text == "eu"
                await client.ping()
                assert not client.forgiven, client.forgiven
        assert seen == [E, "2025-11-25"]


async def test_a_caller_that_is_cancelled_closes_its_connection(front: str) -> None:
    server, doors = make_server()
    async with (
        serving(server, front, keep_alive=0.2) as url,
        connect(HttpServer(url=url)) as client,
    ):
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "slow")
                await doors.started.wait()
                nursery.cancel_scope.cancel()
            await doors.cancelled.wait()
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
