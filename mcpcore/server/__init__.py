"""The server side: functions as tools, resources and prompts."""

from mcpcore.server.context import Context, Elicited, NoAnswer
from mcpcore.server.resources import CacheHint
from mcpcore.server.sealing import MemoryStateStore, Sealer, StateOptions, StateStore
from mcpcore.server.server import Server, ServerOptions
from mcpcore.server.stdio import serve_stdio, serve_stream

__all__ = [
    "CacheHint",
    "Context",
    "Elicited",
    "MemoryStateStore",
    "NoAnswer",
    "Sealer",
    "Server",
    "ServerOptions",
    "StateOptions",
    "StateStore",
    "serve_stdio",
    "serve_stream",
]
