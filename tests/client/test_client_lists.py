"""The paged lists of a server: whole, item by item, page by page."""

from __future__ import annotations

import pytest
from scripted_server import scripted

from mcpcore import RemoteProtocolError, RequestFailed

KINDS = {
    "tools": (
        "tools/list",
        "tools",
        lambda n: {"name": n, "inputSchema": {"type": "object"}},
        "name",
    ),
    "resources": ("resources/list", "resources", lambda n: {"name": "r", "uri": n}, "uri"),
    "resource_templates": (
        "resources/templates/list",
        "resourceTemplates",
        lambda n: {"name": "t", "uriTemplate": n},
        "uri_template",
    ),
    "prompts": ("prompts/list", "prompts", lambda n: {"name": n}, "name"),
}


class Pages:
    """Answers a list with these pages: each is names and the next cursor."""

    def __init__(self, kind: str, *pages: tuple[str, object]) -> None:
        self.method, self.member, self.make, self.key = KINDS[kind]
        self.pages = pages
        self.cursors: list[object] = []

    async def serve(self, server) -> None:
        for names, cursor in self.pages:
            request = await server.expect(self.method)
            self.cursors.append(request.get("params", {}).get("cursor", "absent"))
            result = {self.member: [self.make(name) for name in names.split()]}
            if cursor != "absent":
                result["nextCursor"] = cursor
            server.answer(request, result)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_whole_list_is_all_pages(kind):
    """F-051: cursors are handed back unchanged, the empty string is one too."""
    pages = Pages(kind, ("a b", "next \u00fc"), ("", ""), ("c", "3"), ("d", "absent"))
    async with scripted() as (client, server):
        serving = server.begin(pages.serve, server)
        items = await getattr(client, f"list_{kind}")()
        await serving.result()
        assert [getattr(item, pages.key) for item in items] == ["a", "b", "c", "d"]
        assert pages.cursors == ["absent", "next \u00fc", "", "3"]


@pytest.mark.parametrize("kind", KINDS)
async def test_walking_asks_for_a_page_only_when_it_is_needed(kind):
    pages = Pages(kind, ("a b", "2"), ("c", "absent"))
    async with scripted() as (client, server):
        serving = server.begin(pages.serve, server)
        walk = getattr(client, kind)()
        assert getattr(await anext(walk), pages.key) == "a"
        assert getattr(await anext(walk), pages.key) == "b"
        assert len(pages.cursors) == 1
        assert [getattr(item, pages.key) async for item in walk] == ["c"]
        await serving.result()
        with pytest.raises(StopAsyncIteration):
            await anext(walk)


@pytest.mark.parametrize("kind", KINDS)
async def test_page_by_page(kind):
    pages = Pages(kind, ("a", "2"), ("b", "absent"))
    async with scripted() as (client, server):
        serving = server.begin(pages.serve, server)
        page = await getattr(client, f"list_{kind}_page")()
        assert page.next_cursor == "2"
        page = await getattr(client, f"list_{kind}_page")(page.next_cursor)
        assert page.next_cursor is None
        await serving.result()
        assert pages.cursors == ["absent", "2"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cursor_that_repeats_ends_the_walk_with_an_error(kind):
    """F-050: the repeated page is not asked for and not appended."""
    pages = Pages(kind, ("a", "1"), ("b", "2"), ("c", "1"))
    async with scripted() as (client, server):
        serving = server.begin(pages.serve, server)
        seen = []

        async def walk() -> None:
            async for item in getattr(client, kind)():
                seen.append(getattr(item, pages.key))  # noqa: PERF401

        with pytest.raises(RemoteProtocolError, match="twice") as caught:
            await walk()
        await serving.result()
        assert seen == ["a", "b", "c"]
        assert caught.value.rule == "PAGE-04"
        await server.expect_silence()
        serving = server.begin(Pages(kind, ("a", "1"), ("b", "1")).serve, server)
        with pytest.raises(RemoteProtocolError, match="twice"):
            await getattr(client, f"list_{kind}")()


async def test_pages_without_an_end_are_an_error():
    """F-050."""
    pages = Pages("tools", *((f"t{n}", str(n)) for n in range(5)))
    async with scripted(max_pages=5) as (client, server):
        serving = server.begin(pages.serve, server)
        with pytest.raises(RemoteProtocolError, match="more than 5 pages; max_pages="):
            await client.list_tools()
        await serving.result()
        await server.expect_silence()


async def test_as_many_pages_as_allowed_are_fine():
    pages = Pages("tools", ("a", "1"), ("b", "absent"))
    async with scripted(max_pages=2) as (client, server):
        serving = server.begin(pages.serve, server)
        assert len(await client.list_tools()) == 2
        await serving.result()


async def test_a_next_cursor_of_null_ends_the_list_and_is_counted():
    async with scripted() as (client, server):
        serving = server.begin(Pages("tools", ("a", None)).serve, server)
        assert len(await client.list_tools()) == 1
        await serving.result()
        assert client.forgiven.counts == {"PAGE-04": 1}


async def test_a_strict_client_refuses_a_next_cursor_of_null():
    async with scripted(strict=True) as (client, server):
        serving = server.begin(Pages("tools", ("a", None)).serve, server)
        with pytest.raises(RemoteProtocolError) as caught:
            await client.list_tools()
        assert caught.value.rule == "PAGE-04"
        await serving.result()


@pytest.mark.parametrize("space", ["", " "])
async def test_null_cursors_within_the_data_are_no_deviation(space):
    async with scripted(strict=True) as (client, server):
        listing = server.begin(client.list_tools)
        request = await server.expect("tools/list")
        schema = f'{{"type":"object","x":{{"nextCursor":{space}null}}}}'.encode()
        server.send(
            b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":"a","inputSchema":%s}]}}'
            % (request["id"], schema)
        )
        assert len(await listing.result()) == 1


@pytest.mark.parametrize("space", ["", " "])
async def test_a_null_cursor_is_seen_however_it_is_written(space):
    async with scripted() as (client, server):
        listing = server.begin(client.list_tools)
        request = await server.expect("tools/list")
        member = f'"nextCursor"{space}:{space}null'.encode()
        server.send(b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[],%s}}' % (request["id"], member))
        assert await listing.result() == []
        assert client.forgiven.counts == {"PAGE-04": 1}


async def test_an_entry_that_cannot_be_read_is_left_out_and_counted():
    """F-061: one bad tool of forty must not hide the others."""
    async with scripted() as (client, server):
        listing = server.begin(client.list_tools)
        good = {"name": "a", "inputSchema": {"type": "object"}}
        bad = [{"name": 5, "inputSchema": {}}, {"inputSchema": {}}, "text", {"name": "b"}]
        server.answer(await server.expect("tools/list"), {"tools": [*bad, good]})
        assert [tool.name for tool in await listing.result()] == ["a"]
        assert client.forgiven.counts == {"SCHEMA-01": 4}
        assert "left out" in client.forgiven.recent[0].detail


async def test_a_strict_client_refuses_an_entry_that_cannot_be_read():
    async with scripted(strict=True) as (client, server):
        listing = server.begin(client.list_tools)
        server.answer(await server.expect("tools/list"), {"tools": [{"name": "b"}]})
        with pytest.raises(RemoteProtocolError):
            await listing.result()


@pytest.mark.parametrize(
    "result", [{}, {"tools": None}, {"tools": {}}, {"tools": [], "nextCursor": 5}]
)
async def test_a_page_that_is_none_is_the_servers_fault(result):
    async with scripted() as (client, server):
        listing = server.begin(client.list_tools)
        server.answer(await server.expect("tools/list"), result)
        with pytest.raises(RemoteProtocolError, match="cannot be read") as caught:
            await listing.result()
        assert caught.value.rule == "SCHEMA-01"


async def test_an_error_in_the_middle_is_raised_and_what_came_before_stays_good():
    async with scripted() as (client, server):
        walk = client.tools()
        serving = server.begin(Pages("tools", ("a", "1")).serve, server)
        assert (await anext(walk)).name == "a"
        await serving.result()
        going_on = server.begin(anext, walk)
        server.refuse(await server.expect("tools/list"), -32602, "bad cursor")
        with pytest.raises(RequestFailed):
            await going_on.result()


async def test_vendor_members_of_entries_and_pages_survive():
    """F-057: they are there in `raw` for whoever hands the list on."""
    async with scripted() as (client, server):
        listing = server.begin(client.list_tools_page)
        tool = {
            "name": "a",
            "title": "A",
            "inputSchema": {"type": "object", "$comment": "kept"},
            "annotations": {"readOnlyHint": True},
            "_meta": {"vendor/x": [1]},
            "vendorField": 1,
        }
        server.answer(await server.expect("tools/list"), {"tools": [tool], "_meta": {"k": 1}})
        page = await listing.result()
        assert page.meta == {"k": 1}
        assert page.tools[0].meta == {"vendor/x": [1]}
        assert page.tools[0].input_schema["$comment"] == "kept"
        assert page.tools[0].annotations.read_only_hint is True
        assert page.tools[0].display_name == "A"
        assert b'"vendorField"' in bytes(page.raw)
