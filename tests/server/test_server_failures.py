"""What a handler raises, and what the caller hears of it: the words it chose, and nothing else."""

from __future__ import annotations

import logging

import pytest
import trio
from scripted_client import served

from mcpcore import RequestFailed, Server, ToolError, connect

SECRET = "password=hunter2"


def failing(error: BaseException) -> Server:
    """A server whose every function raises `error`."""
    server = Server("failing", "1")

    def raise_it() -> str:
        raise error

    @server.tool(name="async")
    async def in_a_task() -> str:
        raise error

    server.tool(name="thread")(raise_it)
    server.tool(name="inline", inline=True)(raise_it)
    server.resource("x:r")(raise_it)
    server.prompt(name="p")(raise_it)

    def complete(value: str) -> list[str]:
        raise error

    server.completion("p", "a")(complete)
    return server


KINDS = ["async", "thread", "inline"]
OTHERS = [
    ("resources/read", {"uri": "x:r"}),
    ("prompts/get", {"name": "p"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
    ),
]


@pytest.mark.parametrize("tool", KINDS)
async def test_a_tool_error_is_a_result_with_its_text(tool):
    async with served(failing(ToolError("try Tuesday"))) as client:
        result = await client.call(tool)
        assert result == {"content": [{"type": "text", "text": "try Tuesday"}], "isError": True}


@pytest.mark.parametrize("tool", KINDS)
async def test_request_failed_is_an_error_with_code_and_data(tool):
    async with served(failing(RequestFailed(-31999, "no", {"why": [1]}))) as client:
        error = await client.error("tools/call", {"name": tool})
        assert error == {"code": -31999, "message": "no", "data": {"why": [1]}}


@pytest.mark.parametrize("tool", KINDS)
async def test_request_failed_without_data_has_no_data_member(tool):
    async with served(failing(RequestFailed(-31999, "no"))) as client:
        assert "data" not in await client.error("tools/call", {"name": tool})


@pytest.mark.parametrize("tool", KINDS)
@pytest.mark.parametrize("error", [ValueError(SECRET), KeyError(SECRET), RecursionError(SECRET)])
async def test_other_exceptions_leak_no_detail_and_are_logged(tool, error, caplog):
    async with served(failing(error)) as client:
        result = await client.call(tool)
        assert result["isError"] is True
        text = result["content"][0]["text"]
        assert tool in text
        assert "hunter2" not in text
        assert await client.heard() == []
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info[1] is error


@pytest.mark.parametrize("tool", ["async", "thread"])
async def test_system_exit_in_a_handler_does_not_end_the_server(tool):
    async with served(failing(SystemExit(3))) as client:
        result = await client.call(tool)
        assert result["isError"] is True
        assert await client.heard() == []


async def test_system_exit_in_an_inline_tool_does_not_end_the_server():
    async with served(failing(SystemExit(3))) as client:
        result = await client.call("inline")
        assert result["isError"] is True
        assert await client.heard() == []


@pytest.mark.parametrize(("method", "params"), OTHERS)
async def test_system_exit_behind_other_methods_does_not_end_the_server(method, params):
    async with served(failing(SystemExit(3))) as client:
        assert (await client.error(method, params))["code"] == -32603
        assert await client.heard() == []


@pytest.mark.parametrize(("method", "params"), OTHERS)
async def test_request_failed_behind_other_methods_keeps_code_and_data(method, params):
    async with served(failing(RequestFailed(-31000, "no", 5))) as client:
        assert await client.error(method, params) == {"code": -31000, "message": "no", "data": 5}


@pytest.mark.parametrize(("method", "params"), OTHERS)
async def test_a_tool_error_behind_other_methods_is_an_error_with_its_words(method, params):
    async with served(failing(ToolError("try Tuesday"))) as client:
        error = await client.error(method, params)
        assert error == {"code": -32603, "message": "try Tuesday"}


@pytest.mark.parametrize(("method", "params"), OTHERS)
async def test_other_exceptions_behind_other_methods_are_internal_errors(method, params):
    """F-030: every request that was parsed gets an answer with its own id."""
    async with served(failing(ValueError(SECRET))) as client:
        answer = await client.answer(client.ask(method, params, id="mine"))
        assert answer["error"] == {"code": -32603, "message": "Internal error"}


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (ToolError("from a task"), "from a task"),
        (ExceptionGroup("inner", [ToolError("deeper")]), "deeper"),
    ],
)
async def test_a_group_of_one_counts_as_the_one(inner, expected):
    async with served(failing(ExceptionGroup("group", [inner]))) as client:
        result = await client.call("async")
        assert result["content"][0]["text"] == expected


async def test_a_nursery_in_a_tool_hides_neither_tool_error_nor_request_failed():
    server = Server("nursery", "1")

    @server.tool
    async def fail(how: str) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inner, how)

    async def inner(how: str) -> None:
        raise ToolError("words") if how == "tool" else RequestFailed(-31000, "code")

    async with served(server) as client:
        assert (await client.call("fail", {"how": "tool"}))["content"][0]["text"] == "words"
        error = await client.error("tools/call", {"name": "fail", "arguments": {"how": "request"}})
        assert error["code"] == -31000


async def test_a_group_of_several_is_told_without_detail():
    error = ExceptionGroup("g", [ToolError(SECRET), ToolError("b")])
    async with served(failing(error)) as client:
        result = await client.call("async")
        assert result["isError"] is True
        assert "hunter2" not in result["content"][0]["text"]


@pytest.mark.parametrize(("method", "params"), OTHERS)
async def test_a_group_of_one_behind_other_methods_counts_as_the_one(method, params):
    error = ExceptionGroup("g", [RequestFailed(-31000, "no")])
    async with served(failing(error)) as client:
        assert (await client.error(method, params))["code"] == -31000


@pytest.mark.parametrize(("method", "params"), OTHERS)
async def test_a_tool_error_in_a_group_of_one_behind_other_methods_keeps_its_words(method, params):
    error = ExceptionGroup("g", [ToolError("words")])
    async with served(failing(error)) as client:
        assert (await client.error(method, params))["message"] == "words"


async def test_a_failure_in_one_call_leaves_the_others_alone():
    """F-035: failures are contained per request."""
    server = failing(ValueError("x"))
    go = trio.Event()

    @server.tool
    async def patient() -> str:
        await go.wait()
        return "done"

    async with served(server) as client:
        waiting = client.ask("tools/call", {"name": "patient"})
        for tool in KINDS:
            assert (await client.call(tool))["isError"]
        go.set()
        assert (await client.answer(waiting))["result"]["content"][0]["text"] == "done"


async def test_one_session_that_ends_badly_leaves_the_others_alone():
    """F-035: a client that vanishes in mid-call takes nobody with it."""
    server = Server("shared", "1")
    started = trio.Event()

    @server.tool
    async def hang() -> None:
        started.set()
        await trio.sleep_forever()

    @server.tool
    async def quick() -> str:
        return "here"

    async with served(server) as one, served(server) as other:
        one.ask("tools/call", {"name": "hang"})
        await started.wait()
        await one.channel.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (await other.call("quick"))["content"][0]["text"] == "here"


async def test_one_server_object_serves_any_number_of_clients():
    server = Server("shared", "1")

    @server.tool(inline=True)
    def f() -> str:
        return "x"

    async with connect(server) as one, connect(server) as other:
        assert (await one.call_tool("f")).text == (await other.call_tool("f")).text == "x"
    async with connect(server) as third:
        assert (await third.call_tool("f")).text == "x"


async def test_a_resource_with_what_json_cannot_hold_is_an_internal_error():
    server = Server("odd", "1")
    server.resource("x:odd")(object)
    server.resource("x:nan")(lambda: {"a": float("nan")})
    server.prompt(name="odd")(object)
    async with served(server) as client:
        assert (await client.error("resources/read", {"uri": "x:odd"}))["code"] == -32603
        assert (await client.error("prompts/get", {"name": "odd"}))["code"] == -32603


async def test_nan_in_a_resource_is_an_error_and_not_null():
    """F-054."""
    server = Server("odd", "1")
    server.resource("x:nan")(lambda: {"a": float("nan")})
    server.prompt(name="nan")(lambda: [float("inf")])
    async with served(server) as client:
        assert (await client.error("resources/read", {"uri": "x:nan"}))["code"] == -32603
        assert (await client.error("prompts/get", {"name": "nan"}))["code"] == -32603


async def test_a_lone_surrogate_in_a_result_is_an_error_and_the_session_lives():
    server = Server("odd", "1")

    @server.tool(inline=True)
    def f() -> str:
        return "\ud800"

    @server.tool(inline=True)
    def g() -> dict[str, str]:
        return {"a": "\ud800"}

    async with served(server) as client:
        for tool in ("f", "g"):
            answer = await client.request("tools/call", {"name": tool})
            assert "error" in answer or answer["result"]["isError"]
        assert await client.heard() == []


async def test_a_keyboard_interrupt_in_a_handler_is_no_failure_of_it():
    server = Server("interrupt", "1")

    @server.tool
    async def f() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with served(server) as client:
            client.ask("tools/call", {"name": "f"})
            await trio.sleep_forever()
