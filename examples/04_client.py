"""A client: start a server, look at what it offers, use it.

Notice: two ways to fail. A tool that fails gives a result with `is_error`, since the model should read it
and do better. A request that fails raises `RequestFailed`, since that is for the program. And a list has
pages, which `list_tools()` collects and `list_tools_page()` shows.

Exercise: connect to `weather.py` instead, and let the program print only what that server declares in
`client.server_capabilities`.
"""

import os
import sys
from pathlib import Path

import trio

from mcpcore import Message, RequestFailed, StdioServer, TextContent, connect

# A child gets only the few variables that programs need to find themselves, so that no secret of yours
# leaks into a server. Whatever else it shall have is said here.
SERVER = StdioServer(
    command=[sys.executable, str(Path(__file__).with_name("calculator.py"))],
    env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
)


async def main() -> None:
    async with connect(SERVER) as client:
        print(f"connected to {client.server_info.name} in revision {client.revision}")
        print("how to use it:", client.instructions)

        # Look.
        page = await client.list_tools_page()
        print("\nfirst page of tools:", [tool.name for tool in page.tools])
        for tool in await client.list_tools():
            print(
                f"- {tool.name}({', '.join(tool.input_schema['properties'])}): {tool.description}"
            )
        print("resources:", [resource.uri for resource in await client.list_resources()])
        templates = await client.list_resource_templates()
        print("templates:", [template.uri_template for template in templates])
        print("prompts:", [prompt.name for prompt in await client.list_prompts()])

        # Use.
        result = await client.call_tool(
            "calculate_expression", {"expression": "(3.5 * 10) / (2 + 3)"}
        )
        print("\nfor a model:", result.text)
        print("for a program:", result.structured_content)
        read = await client.read_resource("calculator://constants/pi")
        print("pi:", read.contents[0].text)
        prompt = await client.get_prompt("explain", {"expression": "2^10"})
        match prompt.messages[0]:
            case Message(role, TextContent(text)):  # an image could stand here as well
                print(f"{role}: {text}")

        # Fail: the tool says no, the arguments are wrong, there is no such thing.
        print()
        for arguments in ({"expression": "1 / 0"}, {"formula": "1 + 1"}):
            result = await client.call_tool("calculate_expression", arguments)
            if result.is_error:
                print("tool error:", result.text)
        for uri in ("calculator://constants/x", "elsewhere://"):
            try:
                await client.read_resource(uri)
            except RequestFailed as error:
                print("request failed:", error.code, error.message, error.data)
    print("\nclosed: the server ended by itself when its stdin did")


if __name__ == "__main__":
    trio.run(main)
