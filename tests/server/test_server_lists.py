"""Lists: sorted, paged, and told about when they change."""

from __future__ import annotations

import random

import pytest
import trio
from scripted_client import served

from mcpcore import Server, connect
from mcpcore.types import Icon, ToolAnnotations

METHODS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def big_server(count: int, **options) -> Server:
    server = Server("lists", "1", **options)
    numbers = list(range(count))
    random.Random(7).shuffle(numbers)
    for n in numbers:
        server.tool(name=f"n{n:03}")(lambda: None)
        server.prompt(name=f"n{n:03}")(lambda: "")
        server.resource(f"n{n:03}", name="r")(lambda: "")
        server.resource(f"n{n:03}/{{v}}", name="t")(lambda v: "")
    return server


def key(item):
    return item.get("uri") or item.get("uriTemplate") or item["name"]


@pytest.mark.parametrize(("method", "member"), METHODS.items())
@pytest.mark.parametrize("size", [1, 3, 7, 100])
async def test_pages_are_sorted_and_hold_each_entry_once(method, member, size):
    async with served(big_server(7, page_size=size)) as client:
        found, cursor = [], None
        while True:
            result = await client.result(method, None if cursor is None else {"cursor": cursor})
            assert 1 <= len(result[member]) <= size
            found += map(key, result[member])
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        assert "nextCursor" not in result
        assert found == sorted(set(found))
        assert len(found) == 7


async def test_two_clients_and_two_readings_see_the_same_order():
    server = big_server(9, page_size=4)
    async with connect(server) as one, connect(server) as other:
        lists = [[tool.name for tool in await client.list_tools()] for client in (one, other, one)]
        assert lists[0] == lists[1] == lists[2]
        assert len(lists[0]) == 9


async def test_the_client_reads_all_pages_of_all_four_lists():
    """F-051: what lies beyond the first page exists too."""
    async with connect(big_server(8, page_size=3)) as client:
        assert len(await client.list_tools()) == 8
        assert len(await client.list_resources()) == 8
        assert len(await client.list_resource_templates()) == 8
        assert len(await client.list_prompts()) == 8


async def test_a_list_that_changes_between_two_pages_loses_no_other_entry():
    server = big_server(6, page_size=2)
    async with served(server) as client:
        first = await client.result("tools/list")
        server.remove_tool("n001")
        server.remove_tool("n000")
        server.tool(name="a-new-one")(lambda: None)
        second = await client.result("tools/list", {"cursor": first["nextCursor"]})
        assert [tool["name"] for tool in second["tools"]] == ["n002", "n003"]


@pytest.mark.parametrize("cursor", ["", "nonsense", "AAAA", "é", "x" * 5000])
@pytest.mark.parametrize("method", METHODS)
async def test_a_made_up_cursor_is_invalid_params(method, cursor):
    async with served(big_server(3, page_size=1)) as client:
        assert (await client.error(method, {"cursor": cursor}))["code"] == -32602


async def test_a_cursor_of_another_list_is_invalid_params():
    async with served(big_server(3, page_size=1)) as client:
        cursor = (await client.result("tools/list"))["nextCursor"]
        assert (await client.error("prompts/list", {"cursor": cursor}))["code"] == -32602
        assert (await client.error("tools/list", {"cursor": 5}))["code"] == -32602


async def test_what_is_not_offered_is_not_declared_and_not_found():
    async with served(Server("empty", "1")) as client:
        assert client.welcome["capabilities"] == {}
        for method in METHODS:
            assert (await client.error(method))["code"] == -32601


async def test_a_declared_list_may_be_empty():
    async with served(Server("empty", "1", declare=["tools", "resources", "prompts"])) as client:
        assert client.welcome["capabilities"] == {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True},
            "prompts": {"listChanged": True},
        }
        for method, member in METHODS.items():
            assert (await client.result(method)) == {member: []}


async def test_what_was_said_of_a_tool_is_told():
    """F-057: annotations, icons, title and vendor fields reach the client."""
    server = Server("x", "1")
    server.tool(
        name="f",
        title="T",
        annotations=ToolAnnotations(read_only_hint=True, title="A"),
        icons=[Icon("https://example.org/i.png", "image/png", ["48x48"], "dark")],
        meta={"vendor/x": {"deep": [1]}},
    )(lambda: None)
    async with served(server) as client:
        (tool,) = (await client.result("tools/list"))["tools"]
        assert tool["title"] == "T"
        assert tool["annotations"] == {"readOnlyHint": True, "title": "A"}
        assert tool["icons"] == [
            {
                "src": "https://example.org/i.png",
                "mimeType": "image/png",
                "sizes": ["48x48"],
                "theme": "dark",
            }
        ]
        assert tool["_meta"] == {"vendor/x": {"deep": [1]}}
    async with served(server, "2024-11-05") as client:
        (tool,) = (await client.result("tools/list"))["tools"]
        assert set(tool) == {"name", "inputSchema"}


def change_everything(server: Server, name: str) -> None:
    server.tool(name=name)(lambda: None)
    server.prompt(name=name)(lambda: "")
    server.resource(f"x:{name}")(lambda: "")
    server.resource(f"x:{name}/{{v}}")(lambda v: "")


async def test_many_changes_in_a_row_are_told_as_one(autojump_clock):
    """F-052: the server's half: two hundred registrations are one notification."""
    server = big_server(1)
    async with served(server) as client:
        for n in range(200):
            change_everything(server, f"more{n}")
        server.remove_tool("more3")
        await trio.sleep(1)
        assert [message["method"] for message in await client.heard()] == [
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/tools/list_changed",
        ]
        server.remove_prompt("more5")
        await trio.sleep(1)
        assert [message["method"] for message in await client.heard()] == [
            "notifications/prompts/list_changed"
        ]


async def test_the_last_of_many_changes_is_never_lost(autojump_clock):
    """F-052: whoever lists after the last notification sees the last change."""
    server = big_server(1)
    async with served(server) as client:
        for n in range(20):
            server.tool(name=f"more{n}")(lambda: None)
            await trio.sleep(0.03)
        await trio.sleep(1)
        told = await client.heard()
        assert 0 < len(told) < 20
        names = [tool["name"] for tool in (await client.result("tools/list"))["tools"]]
        assert "more19" in names


async def test_a_change_while_others_are_being_told_is_told_after_them(autojump_clock):
    server = big_server(1)
    async with served(server) as client:
        server.tool(name="one")(lambda: None)
        await trio.sleep(0.06)
        server.tool(name="two")(lambda: None)
        await trio.sleep(1)
        assert len(await client.heard()) == 2


async def test_no_change_is_told_before_initialized(autojump_clock):
    """F-052: before initialized a server may only ping and log."""
    server = big_server(1)
    async with served(server, initialize=False) as client:
        await client.initialize(initialized=False)
        change_everything(server, "early")
        await trio.sleep(1)
        ping = client.ask("ping")
        assert (await client.receive())["id"] == ping
        client.notify("notifications/initialized")
        await trio.sleep(1)
        change_everything(server, "late")
        await trio.sleep(1)
        assert len(await client.heard()) == 3


async def test_changes_of_what_was_not_declared_are_not_told(autojump_clock):
    """F-052: a client that was told of no prompts hears nothing of them."""
    server = Server("x", "1")
    server.tool(name="first")(lambda: None)
    async with served(server) as client:
        assert client.welcome["capabilities"] == {"tools": {"listChanged": True}}
        change_everything(server, "more")
        await trio.sleep(1)
        assert [message["method"] for message in await client.heard()] == [
            "notifications/tools/list_changed"
        ]


async def test_removing_the_last_tool_is_told_to_those_who_were_told_of_tools(autojump_clock):
    server = Server("x", "1")
    server.tool(name="first")(lambda: None)
    async with served(server) as client:
        server.remove_tool("first")
        await trio.sleep(1)
        assert [message["method"] for message in await client.heard()] == [
            "notifications/tools/list_changed"
        ]
        assert (await client.result("tools/list")) == {"tools": []}


async def test_changes_after_the_client_went_are_nothing(autojump_clock):
    server = big_server(1)
    async with served(server) as client:
        change_everything(server, "more")
        await trio.testing.wait_all_tasks_blocked()
        await client.channel.aclose()
        await trio.sleep(1)
    change_everything(server, "again")
    await trio.sleep(1)
