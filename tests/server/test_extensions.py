"""Extensions: declared by each side with settings, asked for by name, per request."""

from __future__ import annotations

from typing import Any

import pytest

from mcpcore import Context, RequestFailed, Server, connect
from mcpcore.revisions import HANDSHAKE
from mcpcore.types.session import check_extensions

NAME = "com.example/colours"


def make_server() -> Server:
    server = Server("extended", "1", extensions={NAME: {"depth": 8}})

    @server.tool
    async def colour(ctx: Context[Any]) -> str:
        settings = ctx.extension(NAME)
        return "grey" if settings is None else str(settings.get("depth"))

    @server.tool
    async def only_colours(ctx: Context[Any]) -> str:
        return str(ctx.need_extension(NAME))

    return server


async def test_each_side_says_what_it_has() -> None:
    """EXT26-01, EXT26-03, EXT26-10."""
    async with connect(make_server(), extensions={NAME: {"depth": 4}}) as client:
        assert client.server_capabilities.extensions == {NAME: {"depth": 8}}
        assert (await client.call_tool("colour")).text == "4"
        assert (await client.call_tool("only_colours")).text == "{'depth': 4}"


async def test_ext26_06_what_is_needed_and_missing_is_named() -> None:
    """EXT26-04, EXT26-06."""
    async with connect(make_server()) as client:
        assert (await client.call_tool("colour")).text == "grey"
        with pytest.raises(RequestFailed) as caught:
            await client.call_tool("only_colours")
        assert caught.value.code == -32021
        assert caught.value.data == {"requiredCapabilities": {"extensions": {NAME: {}}}}


async def test_ext26_12_the_handshake_has_none() -> None:
    for revision in HANDSHAKE:
        async with connect(make_server(), revisions=[revision], extensions={NAME: {}}) as client:
            assert client.server_capabilities.extensions is None
            assert (await client.call_tool("colour")).text == "grey"
            assert (await client.call_tool("only_colours")).is_error


@pytest.mark.parametrize(
    "name", ["colours", "/colours", "1com/x", "com.example/", "a b/c", "com./x"]
)
def test_ext26_02_an_identifier_has_a_prefix(name: str) -> None:
    with pytest.raises(ValueError, match="identifier"):
        Server("s", "1", extensions={name: {}})


def test_settings_are_an_object() -> None:
    with pytest.raises(TypeError, match="settings"):
        check_extensions({NAME: True})  # type: ignore[dict-item]
    assert check_extensions({"io.modelcontextprotocol/ui": {}, "a-b.c/d.e_f": {}})
