"""Log messages to the client: levels, thresholds, and who declares what."""

from __future__ import annotations

import pytest
from handshake import connect
from scripted_client import REVISIONS, served

from mcpcore import Context, Server
from mcpcore.types import LOGGING_LEVELS, PromptReference


def make_server() -> Server:
    server = Server("logging", "1")

    @server.tool(inline=True)
    def say(ctx: Context) -> None:
        for level in LOGGING_LEVELS:
            ctx.log(level, level, "here")

    @server.tool(inline=True)
    def wrong(ctx: Context) -> str:
        try:
            ctx.log("loud", 1)
        except ValueError as error:
            return str(error)
        return "nothing raised"

    @server.tool(inline=True)
    def anything(ctx: Context) -> None:
        for data in (None, 5, [1, {"a": None}], "text", {"k": "v"}):
            ctx.log("error", data)

    return server


async def levels(client) -> list[str]:
    await client.call("say")
    return [message["params"]["level"] for message in await client.heard()]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("level", LOGGING_LEVELS)
async def test_only_the_set_level_and_above_is_sent(revision, level):
    async with served(make_server(), revision) as client:
        assert await client.result("logging/setLevel", {"level": level}) == {}
        assert await levels(client) == list(LOGGING_LEVELS[LOGGING_LEVELS.index(level) :])


async def test_without_a_set_level_info_and_above_is_sent():
    async with served(make_server()) as client:
        assert await levels(client) == list(LOGGING_LEVELS[1:])


async def test_each_client_has_a_level_of_its_own():
    server = make_server()
    async with served(server) as one, served(server) as other:
        await one.result("logging/setLevel", {"level": "emergency"})
        assert await levels(one) == ["emergency"]
        assert len(await levels(other)) == 7


@pytest.mark.parametrize("params", [{"level": "loud"}, {"level": "INFO"}, {"level": 3}, {}, None])
async def test_an_unknown_level_is_invalid_params_and_changes_nothing(params):
    async with served(make_server()) as client:
        await client.result("logging/setLevel", {"level": "alert"})
        assert (await client.error("logging/setLevel", params))["code"] == -32602
        assert await levels(client) == ["alert", "emergency"]


async def test_an_unknown_level_in_a_handler_is_a_value_error():
    async with served(make_server()) as client:
        assert "'loud' is no level" in (await client.call("wrong"))["content"][0]["text"]


async def test_data_is_any_json_value_and_the_logger_optional():
    logs = []
    async with connect(make_server(), on_log=logs.append) as client:
        await client.call_tool("anything")
        await client.call_tool("say")
        await client.set_log_level("error")
    assert [log.data for log in logs[:5]] == [None, 5, [1, {"a": None}], "text", {"k": "v"}]
    assert logs[0].logger is None
    assert logs[5].logger == "here"


async def test_logging_is_declared_where_something_could_log():
    async with served(make_server()) as client:
        assert client.welcome["capabilities"]["logging"] == {}
    silent = Server("silent", "1")
    silent.tool(name="f")(lambda: None)
    async with served(silent) as client:
        assert "logging" not in client.welcome["capabilities"]
        assert (await client.error("logging/setLevel", {"level": "info"}))["code"] == -32601


@pytest.mark.parametrize("kind", ["resource", "prompt"])
async def test_a_resource_or_prompt_that_takes_the_context_makes_logging_declared(kind):
    server = Server("x", "1")

    async def function(ctx: Context) -> str:
        ctx.log("info", "said")
        return ""

    if kind == "resource":
        server.resource("x:a")(function)
    else:
        server.prompt(name="a")(function)
    logs = []
    async with connect(server, on_log=logs.append) as client:
        await (client.read_resource("x:a") if kind == "resource" else client.get_prompt("a"))
        await client.ping()
    assert [log.data for log in logs] == ["said"]


async def test_a_completion_that_takes_the_context_can_log():
    server = Server("x", "1")
    server.prompt(name="p")(lambda a: "")

    @server.completion("p", "a")
    async def complete(value: str, ctx: Context) -> list[str]:
        ctx.log("info", "completing")
        return ["x"]

    logs = []
    async with connect(server, on_log=logs.append) as client:
        assert (await client.complete(PromptReference("p"), "a", "")).values == ["x"]
        await client.ping()
    assert [log.data for log in logs] == ["completing"]


async def test_a_tool_registered_later_may_log_without_failing():
    """What the client was not told of is left out; it is no failure of the tool."""
    server = Server("x", "1")
    server.tool(name="first")(lambda: None)
    async with served(server) as client:

        @server.tool(name="later")
        async def later(ctx: Context) -> str:
            ctx.log("error", "unheard")
            return "done"

        result = await client.call("later")
        assert "isError" not in result
        assert await client.heard() == []
