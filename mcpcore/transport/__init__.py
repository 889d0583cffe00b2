"""Channels: how whole messages get from one side to the other."""

from mcpcore.transport.channel import Channel
from mcpcore.transport.lines import LineChannel, open_stream
from mcpcore.transport.memory import MemoryChannel, memory_channels
from mcpcore.transport.process import ProcessChannel, StdioServer, start_server
from mcpcore.transport.stdio import claim_stdio

__all__ = [
    "Channel",
    "LineChannel",
    "MemoryChannel",
    "ProcessChannel",
    "StdioServer",
    "claim_stdio",
    "memory_channels",
    "open_stream",
    "start_server",
]
