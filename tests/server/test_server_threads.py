"""Plain functions run in threads: they hold nobody up, and their context works from there."""

from __future__ import annotations

import threading

import pytest
import trio
from scripted_client import served

from mcpcore import Context, LocalProtocolError, Server, connect


async def test_a_plain_function_does_not_keep_a_ping_waiting():
    """F-038: a sleeping sync tool must not stop pings and other calls."""
    server = Server("threads", "1")
    entered, leave = threading.Event(), threading.Event()

    @server.tool
    def sleepy() -> str:
        entered.set()
        assert leave.wait(30)
        return "awake"

    @server.tool
    def other() -> str:
        return "other"

    async with served(server) as client:
        waiting = client.ask("tools/call", {"name": "sleepy"})
        assert await trio.to_thread.run_sync(entered.wait, 30)
        try:
            assert await client.result("ping") == {}
            assert (await client.call("other"))["content"][0]["text"] == "other"
            assert (await client.result("tools/list"))["tools"]
        finally:
            leave.set()
        assert (await client.answer(waiting))["result"]["content"][0]["text"] == "awake"


async def test_resources_prompts_and_completions_run_in_threads_too():
    server = Server("threads", "1")
    here = threading.get_ident()
    seen = set()

    @server.resource("x:a")
    def a() -> str:
        seen.add(threading.get_ident())
        return "a"

    @server.prompt
    def p() -> str:
        seen.add(threading.get_ident())
        return "p"

    async with connect(server) as client:
        assert (await client.read_resource("x:a")).contents[0].text == "a"
        assert (await client.get_prompt("p")).messages[0].content.text == "p"
    assert seen
    assert here not in seen


async def test_an_inline_tool_runs_on_the_spot():
    server = Server("threads", "1")
    seen = []

    @server.tool(inline=True)
    def f(ctx: Context) -> str:
        seen.append(threading.get_ident())
        ctx.log("info", "inside")
        return "x"

    logs = []
    async with connect(server, on_log=logs.append) as client:
        await client.call_tool("f")
        assert [log.data for log in logs] == ["inside"]
    assert seen == [threading.get_ident()]


async def test_the_context_works_from_a_thread():
    server = Server("threads", "1")

    @server.tool
    def work(n: int, ctx: Context) -> str:
        for step in range(n):
            ctx.progress(step + 1, n, f"step {step + 1}")
            ctx.log("warning", {"step": step}, "worker")
        return f"{ctx.client.name} {ctx.revision} {ctx.meta['vendor/x']} {ctx.state} {ctx.can('roots')}"

    async with served(server) as client:
        call = client.ask(
            "tools/call",
            {
                "name": "work",
                "arguments": {"n": 2},
                "_meta": {"progressToken": "t", "vendor/x": 7},
            },
        )
        messages = [await client.receive() for _ in range(5)]
        assert [message.get("method") for message in messages] == [
            "notifications/progress",
            "notifications/message",
            "notifications/progress",
            "notifications/message",
            None,
        ]
        assert messages[0]["params"] == {
            "progressToken": "t",
            "progress": 1,
            "total": 2,
            "message": "step 1",
        }
        assert messages[3]["params"] == {
            "level": "warning",
            "data": {"step": 1},
            "logger": "worker",
        }
        assert messages[4]["id"] == call
        assert messages[4]["result"]["content"][0]["text"] == "by hand 2025-11-25 7 None False"


async def test_a_thread_that_was_left_behind_gets_an_error_from_its_context():
    """The peer cancels: no answer is written, the thread goes on, and its context is over."""
    server = Server("threads", "1")
    entered, leave, over = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    @server.tool
    def sleepy(ctx: Context) -> str:
        entered.set()
        leave.wait(30)
        try:
            ctx.log("info", "too late")
        except LocalProtocolError as error:
            raised.append(error)
        over.set()
        return "nobody hears this"

    async with served(server) as client:
        call = client.ask("tools/call", {"name": "sleepy"})
        assert await trio.to_thread.run_sync(entered.wait, 30)
        client.notify("notifications/cancelled", {"requestId": call})
        assert await client.heard() == []
        leave.set()
        assert await trio.to_thread.run_sync(over.wait, 30)
        assert await client.heard() == []
    assert len(raised) == 1


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
async def test_a_context_that_outlives_its_request_says_no_more(kind):
    server = Server("kept", "1")
    kept: list[Context] = []

    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "x"

    server.tool(keep)
    server.prompt(keep)
    server.resource("x:a")(keep)
    async with served(server) as client:
        if kind == "tool":
            await client.call("keep")
        elif kind == "prompt":
            await client.result("prompts/get", {"name": "keep"})
        else:
            await client.result("resources/read", {"uri": "x:a"})
        (ctx,) = kept
        for late in (
            lambda: ctx.progress(1),
            lambda: ctx.log("info", 1),
            lambda: ctx.url_done("k"),
        ):
            with pytest.raises(LocalProtocolError, match="context is over"):
                late()
        assert await client.heard() == []


async def test_an_inline_context_is_over_after_the_answer():
    server = Server("kept", "1")
    kept: list[Context] = []

    @server.tool(inline=True)
    def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "x"

    async with served(server) as client:
        await client.call("keep", _meta={"progressToken": 1})
        with pytest.raises(LocalProtocolError, match="context is over"):
            kept[0].log("info", "late")
        assert await client.heard() == []


async def test_registering_from_a_thread_tells_the_clients():
    server = Server("threads", "1", declare=["tools"])

    @server.tool
    def grow() -> str:
        server.tool(name="grown")(lambda: None)
        return "x"

    changed = trio.Event()
    async with connect(server, on_list_changed=lambda kind: changed.set()) as client:
        await client.call_tool("grow")
        with trio.fail_after(30):
            await changed.wait()
        assert [tool.name for tool in await client.list_tools()] == ["grow", "grown"]
