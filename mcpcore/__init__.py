"""mcpcore: the Model Context Protocol from scratch.

    from mcpcore import Server, connect

The names below are loaded when they are first used: a client loads nothing of the server, and this
package alone loads nothing at all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mcpcore.client import Client as Client
    from mcpcore.client import ClientOptions as ClientOptions
    from mcpcore.client import connect as connect
    from mcpcore.client.listening import Change as Change
    from mcpcore.errors import CapabilityMissing as CapabilityMissing
    from mcpcore.errors import ConnectionLost as ConnectionLost
    from mcpcore.errors import HttpError as HttpError
    from mcpcore.errors import LocalProtocolError as LocalProtocolError
    from mcpcore.errors import McpError as McpError
    from mcpcore.errors import RemoteProtocolError as RemoteProtocolError
    from mcpcore.errors import RequestFailed as RequestFailed
    from mcpcore.errors import RequestTimeout as RequestTimeout
    from mcpcore.errors import ResourceNotFound as ResourceNotFound
    from mcpcore.errors import SessionEnded as SessionEnded
    from mcpcore.errors import ToolError as ToolError
    from mcpcore.errors import Unanswered as Unanswered
    from mcpcore.errors import VersionMismatch as VersionMismatch
    from mcpcore.runtime import Limits as Limits
    from mcpcore.server import CacheHint as CacheHint
    from mcpcore.server import Context as Context
    from mcpcore.server import Elicited as Elicited
    from mcpcore.server import Server as Server
    from mcpcore.server import StateOptions as StateOptions
    from mcpcore.server import serve_stdio as serve_stdio
    from mcpcore.server import serve_stream as serve_stream
    from mcpcore.server.http.app import http_app as http_app
    from mcpcore.server.http.app import http_routes as http_routes
    from mcpcore.server.http.listener import serve_http as serve_http
    from mcpcore.server.http.principals import bearer_tokens as bearer_tokens
    from mcpcore.server.http.sessions import SessionLimits as SessionLimits
    from mcpcore.server.http.store import EventStore as EventStore
    from mcpcore.server.http.store import MemoryEventStore as MemoryEventStore
    from mcpcore.transport import Channel as Channel
    from mcpcore.transport import StdioServer as StdioServer
    from mcpcore.transport import memory_channels as memory_channels
    from mcpcore.transport import open_stream as open_stream
    from mcpcore.transport.web import HttpServer as HttpServer
    from mcpcore.transport.web import Network as Network
    from mcpcore.types import AudioContent as AudioContent
    from mcpcore.types import CallToolResult as CallToolResult
    from mcpcore.types import ContentBlock as ContentBlock
    from mcpcore.types import CreateMessageParams as CreateMessageParams
    from mcpcore.types import CreateMessageResult as CreateMessageResult
    from mcpcore.types import ElicitParams as ElicitParams
    from mcpcore.types import ElicitResult as ElicitResult
    from mcpcore.types import EmbeddedResource as EmbeddedResource
    from mcpcore.types import GetPromptResult as GetPromptResult
    from mcpcore.types import ImageContent as ImageContent
    from mcpcore.types import Implementation as Implementation
    from mcpcore.types import InputRequiredResult as InputRequiredResult
    from mcpcore.types import Message as Message
    from mcpcore.types import ResourceContents as ResourceContents
    from mcpcore.types import ResourceLink as ResourceLink
    from mcpcore.types import Root as Root
    from mcpcore.types import TextContent as TextContent
    from mcpcore.types import ToolAnnotations as ToolAnnotations
    from mcpcore.waiting import Timeouts as Timeouts

_WHERE = {
    "client.listening": "Change",
    "client": "Client ClientOptions connect",
    "errors": "CapabilityMissing ConnectionLost HttpError LocalProtocolError McpError "
    "RemoteProtocolError RequestFailed RequestTimeout ResourceNotFound SessionEnded ToolError "
    "Unanswered VersionMismatch",
    "runtime": "Limits",
    "server": "CacheHint Context Elicited Server StateOptions serve_stdio serve_stream",
    "server.http.app": "http_app http_routes",
    "server.http.listener": "serve_http",
    "server.http.principals": "bearer_tokens",
    "server.http.sessions": "SessionLimits",
    "server.http.store": "EventStore MemoryEventStore",
    "transport.web": "HttpServer Network",
    "transport": "Channel StdioServer memory_channels open_stream",
    "waiting": "Timeouts",
    "types": "AudioContent CallToolResult ContentBlock CreateMessageParams CreateMessageResult "
    "ElicitParams ElicitResult EmbeddedResource GetPromptResult ImageContent Implementation "
    "InputRequiredResult Message ResourceContents ResourceLink Root TextContent ToolAnnotations",
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names.split()}

_EXTRAS = {"h11": "http", "starlette": "asgi", "sse_starlette": "asgi"}
"""Which extra brings a module."""

__all__ = sorted(_MODULES)  # noqa: PLE0605 - one table of names, not two


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'mcpcore' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"mcpcore.{module}"), name)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name or "")
        if extra is None:
            raise
        raise ModuleNotFoundError(
            f"{name} needs {error.name}: pip install 'mcpcore[{extra}]'", name=error.name
        ) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
