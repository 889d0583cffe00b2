"""The client that the official conformance suite wants to meet: `official_client.py URL`."""

from __future__ import annotations

import os
import sys
from typing import Any

import trio

from mcpcore import Client, ElicitParams, connect
from mcpcore.transport.web import HttpServer

REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")


def accept(_: ElicitParams) -> dict[str, Any]:
    """Accepts every form as it is: the fields get their defaults."""
    return {}


async def initialize(client: Client) -> None:
    # The suite's server declares nothing that could be asked for.
    assert client.server_info.name


async def tools_call(client: Client) -> None:
    await client.list_tools()
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def elicitation_defaults(client: Client) -> None:
    await client.call_tool("test_client_elicitation_defaults", {})


async def sse_retry(client: Client) -> None:
    await client.call_tool("test_reconnection", {})


async def schema_preservation(client: Client) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


SCENARIOS = {
    "initialize": initialize,
    "tools_call": tools_call,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "sse-retry": sse_retry,
    "json-schema-2020-12-preservation": schema_preservation,
}


async def main(url: str) -> None:
    scenario = SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]]
    # The suite's server for this one takes any GET for the one that resumes the call.
    server = HttpServer(url=url, listen=scenario is not sse_retry)
    async with connect(
        server,
        revisions=[REVISION],
        elicit=accept,
        sample=lambda _: "sampled",
        roots=[],
    ) as client:
        await scenario(client)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
