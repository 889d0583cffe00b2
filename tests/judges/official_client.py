"""The client that the official conformance suite wants to meet: `official_client.py URL`."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import trio

from mcpcore import Client, ElicitParams, connect
from mcpcore.transport.web import HttpServer

REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")


def accept(params: ElicitParams) -> dict[str, Any]:
    """Accepts every form as it is: the fields get their defaults. Who asks for a confirmation gets it."""
    asked = (params.requested_schema or {}).get("properties", {})
    return {"confirmed": True} if "confirmed" in asked else {}


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


async def request_metadata(client: Client) -> None:
    # The suite's server declares nothing that could be asked for, and looks at any request.
    await client.ping()
    await client.ping()


async def standard_headers(client: Client) -> None:
    for tool in await client.list_tools():
        await client.call_tool(tool.name, {})
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def custom_headers(client: Client) -> None:
    await client.list_tools()
    context = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    for call in context["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def invalid_headers(client: Client) -> None:
    for tool in await client.list_tools():
        arguments = dict.fromkeys(tool.input_schema.get("properties", {}), "x")
        await client.call_tool(tool.name, arguments)


async def list_tools(client: Client) -> None:
    await client.list_tools()


async def echo_state(client: Client) -> None:
    for name in (
        "test_mrtr_echo_state",
        "test_mrtr_unrelated",
        "test_mrtr_no_state",
        "test_mrtr_no_result_type",
    ):
        result = await client.call_tool(name, {})
        assert not result.is_error
        assert result.content, name


SCENARIOS = {
    "request-metadata": request_metadata,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": invalid_headers,
    "json-schema-ref-no-deref": list_tools,
    "sep-2322-client-request-state": echo_state,
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
