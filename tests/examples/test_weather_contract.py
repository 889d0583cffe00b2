"""The contract of a server, held by a real client and without any model.

To copy it for your own server, change `SERVER` and what the tests expect, and give pytest the plugin
pytest-trio with `trio_mode = true`, and the marker `process`. Each test starts the server as
a child process, as any host does, and asks what a host would ask, in this order: who are you,
what do you have, how is it called, what does it answer, and how does it say no.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpcore import RequestFailed, StdioServer, connect

ROOT = Path(__file__).parents[2]

SERVER = StdioServer(
    command=[sys.executable, str(ROOT / "examples" / "weather.py")],
    # A child gets few variables unless they are named; this one lets it find mcpcore in a clone.
    env={"PYTHONPATH": str(ROOT)},
)

pytestmark = pytest.mark.process


async def test_handshake() -> None:
    async with connect(SERVER) as client:
        assert (client.server_info.name, client.server_info.version) == ("weather", "1.0")
        assert client.revision == "2026-07-28"
        declared = client.server_capabilities
        assert declared.tools is not None
        assert declared.resources is None
        assert declared.prompts is None
        assert not client.forgiven, client.forgiven


async def test_discovery() -> None:
    async with connect(SERVER) as client:
        assert [tool.name for tool in await client.list_tools()] == ["fetch_weather"]


async def test_schema() -> None:
    async with connect(SERVER) as client:
        (tool,) = await client.list_tools()
    assert tool.description == "Tell the weather in a city."
    assert tool.input_schema["type"] == "object"
    assert tool.input_schema["required"] == ["city"]
    assert tool.input_schema["additionalProperties"] is False
    assert list(tool.input_schema["properties"]) == ["city"]
    assert tool.input_schema["properties"]["city"]["type"] == "string"
    assert tool.output_schema is not None
    assert tool.output_schema["required"] == ["city", "celsius", "sky"]


async def test_call() -> None:
    async with connect(SERVER) as client:
        result = await client.call_tool("fetch_weather", {"city": "Lisbon"})
        assert not result.is_error
        assert result.structured_content == {"city": "Lisbon", "celsius": 21.5, "sky": "clear"}
        # Held against the output schema, where mcpcore[schema] is installed.
        assert result.validated in (True, False)
        again = await client.call_tool("fetch_weather", {"city": "Lisbon"})
        assert again == result


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"city": "Atlantis"}, "no weather is known"),
        ({}, "city"),
        ({"city": 7}, "city"),
        ({"city": "Lisbon", "town": "Oslo"}, "town"),
    ],
)
async def test_what_does_not_fit_is_a_result_that_a_model_can_read(
    arguments: dict[str, object], says: str
) -> None:
    async with connect(SERVER) as client:
        result = await client.call_tool("fetch_weather", arguments)
        assert result.is_error
        assert says in result.text


async def test_a_tool_that_is_not_there_is_an_error_of_the_protocol() -> None:
    async with connect(SERVER) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.call_tool("fetch_wether", {"city": "Lisbon"})
        assert caught.value.code == -32602
        await client.ping()
