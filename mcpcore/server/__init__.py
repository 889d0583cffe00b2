"""The server side: functions as tools, resources and prompts."""

from mcpcore.server.context import Context, Elicited, NoAnswer
from mcpcore.server.server import Server, ServerOptions
from mcpcore.server.stdio import serve_stdio, serve_stream

__all__ = [
    "Context",
    "Elicited",
    "NoAnswer",
    "Server",
    "ServerOptions",
    "serve_stdio",
    "serve_stream",
]
