"""Resources: fixed and templated, what they may hold, and subscriptions to them."""

from __future__ import annotations

import base64

import pytest
import trio
from handshake import connect
from scripted_client import REVISIONS, served

from mcpcore import (
    CapabilityMissing,
    Context,
    RequestFailed,
    ResourceContents,
    ResourceNotFound,
    Server,
)
from mcpcore.types import Annotations, ReadResourceResult


def make_server() -> Server:  # noqa: C901
    server = Server("resources", "1")

    @server.resource(
        "config://app",
        name="config",
        title="Configuration",
        description="All settings",
        mime_type="application/yaml",
        size=12,
        annotations=Annotations(audience=["user"], priority=0.5),
        meta={"vendor/x": 1},
    )
    async def config(ctx: Context) -> str:
        return "a: 1"

    @server.resource("users/me")
    def me() -> str:
        """Who asks."""
        return "me"

    @server.resource("custom:thing")
    def thing() -> bytes:
        return b"\x00\x01\x02"

    @server.resource("data://json")
    def data() -> dict[str, int]:
        return {"a": 1}

    @server.resource("data://nothing")
    def nothing() -> list[int]:
        return []

    @server.resource("dir://all")
    def several() -> list[ResourceContents]:
        return [
            ResourceContents("dir://all/1", text="one"),
            ResourceContents.of("dir://all/2", b"two", "image/png"),
        ]

    @server.resource("own://result")
    def own() -> ReadResourceResult:
        return ReadResourceResult(contents=[], meta={"k": 1})

    @server.resource("own://contents", mime_type="text/x")
    def contents() -> ResourceContents:
        return ResourceContents("own://elsewhere", "text/y", text="mine")

    @server.resource("orders://{id}/lines{?limit,wide}", mime_type="text/plain")
    def lines(id: int, limit: int = 10, wide: bool = False) -> str:
        """The lines of an order."""
        return f"{id} {limit} {wide}"

    @server.resource("files://{+path}")
    def files(path: str) -> str:
        return path

    @server.resource("names://{name}")
    def names(name: str) -> str:
        return name

    @server.resource("raw://{+path}", allow_traversal=True)
    def raw(path: str) -> str:
        return path

    return server


async def test_lists_tell_everything_that_was_said():
    async with connect(make_server()) as client:
        resources = {resource.uri: resource for resource in await client.list_resources()}
        config = resources["config://app"]
        assert (config.name, config.title, config.size) == ("config", "Configuration", 12)
        assert config.description == "All settings"
        assert config.mime_type == "application/yaml"
        assert config.annotations == Annotations(audience=["user"], priority=0.5)
        assert config.meta == {"vendor/x": 1}
        assert resources["users/me"].name == "me"
        assert resources["users/me"].description == "Who asks."
        templates = {row.uri_template: row for row in await client.list_resource_templates()}
        assert templates["orders://{id}/lines{?limit,wide}"].description == "The lines of an order."
        assert not any("{" in uri for uri in resources)


@pytest.mark.parametrize(
    ("uri", "mime_type", "text"),
    [
        ("config://app", "application/yaml", "a: 1"),
        ("users/me", "text/plain", "me"),
        ("data://json", "application/json", '{"a":1}'),
        ("data://nothing", "application/json", "[]"),
    ],
)
async def test_a_fixed_resource(uri, mime_type, text):
    """F-058: URIs are opaque, `users/me` is one."""
    async with connect(make_server()) as client:
        result = await client.read_resource(uri)
        assert result.contents == [ResourceContents(uri, mime_type, text=text)]


async def test_bytes_are_a_blob():
    """F-058: `custom:thing` is a URI too."""
    async with connect(make_server()) as client:
        (contents,) = (await client.read_resource("custom:thing")).contents
        assert contents.blob == base64.b64encode(b"\x00\x01\x02").decode()
        assert contents.text is None
        assert contents.mime_type == "application/octet-stream"
        assert contents.data() == b"\x00\x01\x02"


async def test_several_contents_and_ready_made_ones_go_out_as_they_are():
    async with connect(make_server()) as client:
        several = (await client.read_resource("dir://all")).contents
        assert [(item.uri, item.data()) for item in several] == [
            ("dir://all/1", b"one"),
            ("dir://all/2", b"two"),
        ]
        own = await client.read_resource("own://result")
        assert (own.contents, own.meta) == ([], {"k": 1})
        (contents,) = (await client.read_resource("own://contents")).contents
        assert contents == ResourceContents("own://elsewhere", "text/y", text="mine")


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("orders://7/lines", "7 10 False"),
        ("orders://7/lines?limit=3", "7 3 False"),
        ("orders://7/lines?wide=true&limit=2", "7 2 True"),
        ("files://a/b%20c", "a/b c"),
        ("names://a%2Cb%20%C3%A9", "a,b é"),
    ],
)
async def test_the_variables_of_a_template_are_decoded_and_typed(uri, text):
    """F-066: the server's half: values are decoded, absent ones have their defaults."""
    async with connect(make_server()) as client:
        (contents,) = (await client.read_resource(uri)).contents
        assert contents.text == text
        assert contents.uri == uri


@pytest.mark.parametrize(
    ("uri", "says"),
    [("orders://x/lines", "$.id"), ("orders://1/lines?limit=many", "$.limit")],
)
async def test_a_variable_of_another_type_is_invalid_params(uri, says):
    async with connect(make_server()) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.read_resource(uri)
        assert caught.value.code == -32602
        assert says in caught.value.message


@pytest.mark.parametrize(
    "uri",
    [
        "files://../etc/passwd",
        "files:///etc/passwd",
        "files://a/%2e%2e/b",
        "files://a%00b",
        "names://a%2Fb",
    ],
)
async def test_a_value_that_leads_elsewhere_is_refused(uri):
    async with connect(make_server()) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.read_resource(uri)
        assert caught.value.code == -32602


async def test_a_resource_may_allow_traversal():
    async with connect(make_server()) as client:
        (contents,) = (await client.read_resource("raw://../x")).contents
        assert contents.text == "../x"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("uri", ["x://nothing", "names://", "names://a/b", "files://" + "a" * 9000])
async def test_an_unknown_resource_is_not_found_and_named(revision, uri):
    async with served(make_server(), revision) as client:
        error = await client.error("resources/read", {"uri": uri})
        assert error["code"] == -32002
        assert error["data"] == {"uri": uri}


@pytest.mark.parametrize("params", [None, {}, {"uri": 5}, {"uri": None}])
async def test_reading_without_a_uri_is_invalid_params(params):
    async with served(make_server()) as client:
        assert (await client.error("resources/read", params))["code"] == -32602
        assert (await client.error("resources/subscribe", params))["code"] in (-32601, -32602)


async def test_a_removed_resource_is_not_found_any_more():
    server = make_server()
    async with connect(server) as client:
        server.remove_resource("users/me")
        server.remove_resource("names://{name}")
        for uri in ("users/me", "names://x"):
            with pytest.raises(RequestFailed) as caught:
                await client.read_resource(uri)
            assert caught.value.code == -32002


def subscribable() -> Server:
    server = Server("subscriptions", "1")
    server.resource("x:live", subscribable=True)(lambda: "live")
    server.resource("x:live/{n}", subscribable=True)(lambda n: n)
    server.resource("x:fixed")(lambda: "fixed")
    return server


async def test_capabilities_follow_what_is_registered():
    """F-063: never a constant: what can be subscribed decides."""
    async with connect(Server("none", "1")) as client:
        assert client.server_capabilities.resources is None
    async with connect(make_server()) as client:
        assert client.server_capabilities.resources.subscribe is False
        with pytest.raises(CapabilityMissing):
            await client.subscribe("users/me")
    async with connect(subscribable()) as client:
        assert client.server_capabilities.resources.subscribe is True
    only_template = Server("t", "1")
    only_template.resource("x:{n}", subscribable=True)(lambda n: n)
    async with connect(only_template) as client:
        assert client.server_capabilities.resources.subscribe is True


async def test_an_update_after_the_acknowledgement_arrives_exactly_once():
    """F-063: one notification for one change, whatever else is subscribed, and however often."""
    server = subscribable()
    async with served(server) as client, served(server) as other:
        for _ in range(2):
            assert await client.result("resources/subscribe", {"uri": "x:live"}) == {}
        await client.result("resources/subscribe", {"uri": "x:live/1"})
        server.resource_updated("x:live")
        assert await client.heard() == [
            {
                "jsonrpc": "2.0",
                "method": "notifications/resources/updated",
                "params": {"uri": "x:live"},
            }
        ]
        server.resource_updated("x:live/1")
        assert [message["params"] for message in await client.heard()] == [{"uri": "x:live/1"}]
        assert await other.heard() == []


async def test_no_update_without_a_subscription_nor_after_unsubscribe():
    """F-063."""
    server = subscribable()
    async with served(server) as client:
        server.resource_updated("x:live")
        assert await client.heard() == []
        await client.result("resources/subscribe", {"uri": "x:live"})
        server.resource_updated("x:other")
        assert await client.heard() == []
        assert await client.result("resources/unsubscribe", {"uri": "x:live"}) == {}
        server.resource_updated("x:live")
        assert await client.heard() == []
        assert await client.result("resources/unsubscribe", {"uri": "x:live"}) == {}


async def test_subscribing_returns_after_the_server_agreed_and_raises_if_it_refuses():
    """F-064: a refusal is an error to the caller, not a log line."""
    updates = []
    server = subscribable()
    async with connect(server, on_resource_updated=updates.append) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.subscribe("x:fixed")
        assert caught.value.code == -32602
        with pytest.raises(RequestFailed) as caught:
            await client.subscribe("x:nothing")
        assert caught.value.code == -32002
        server.resource_updated("x:fixed")
        await client.subscribe("x:live")
        server.resource_updated("x:live")
        await client.ping()
        await trio.testing.wait_all_tasks_blocked()
        assert updates == ["x:live"]
        await client.unsubscribe("x:live")
        server.resource_updated("x:live")
        await trio.testing.wait_all_tasks_blocked()
        assert updates == ["x:live"]


async def test_an_update_after_the_client_went_is_nothing():
    server = subscribable()
    async with served(server) as client:
        await client.result("resources/subscribe", {"uri": "x:live"})
        server.resource_updated("x:live")
        await client.channel.aclose()
    server.resource_updated("x:live")
    await trio.testing.wait_all_tasks_blocked()


async def test_an_update_while_the_session_ends_is_dropped():
    """The change is posted to the loop before the channel ends, and looked at afterwards."""
    server = subscribable()
    async with served(server) as client:
        await client.result("resources/subscribe", {"uri": "x:live"})
        (session,) = server._sessions
        await session.runtime.channel.aclose()
        server.resource_updated("x:live")
        await trio.testing.wait_all_tasks_blocked()


async def test_a_handler_may_say_that_its_resource_is_not_there():
    server = Server("gone", "1")

    @server.resource("notes://{id}")
    def note(id: str) -> str:
        if id != "1":
            raise ResourceNotFound
        return "one"

    async with served(server) as client:
        assert await client.result("resources/read", {"uri": "notes://1"})
        error = await client.error("resources/read", {"uri": "notes://2"})
        assert (error["code"], error["data"]) == (-32002, {"uri": "notes://2"})
