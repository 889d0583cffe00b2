"""Functions as resources: at one URI, or at all URIs of a template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from mcpcore import types as t
from mcpcore.errors import RequestFailed, ToolError
from mcpcore.jsonrpc import INTERNAL_ERROR
from mcpcore.protocol.uri_template import UriTemplate
from mcpcore.server.context import Context
from mcpcore.server.functions import call_with_strings
from mcpcore.server.results import json_of
from mcpcore.server.signature import Signature, check_asks

R = TypeVar("R", bound=t.Result)

MAX_URI = 8192
"""Characters of a URI that is matched against templates; a matching takes time in its length."""


class CacheHint(msgspec.Struct, frozen=True, kw_only=True):
    """How long clients of the stateless era may keep an answer, in `seconds`, and who may share it: nobody
    (`private`), or everybody who asks (`public`), even past the access that was checked here.
    """

    seconds: float = 0.0
    scope: Literal["private", "public"] = "private"

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError("seconds must not be negative")

    def on(self, result: R) -> R:
        """The result with the hint, unless it says something itself or is none yet."""
        if not isinstance(result, t.CacheableResult) or result.ttl_ms is not None:
            return result
        milliseconds = round(self.seconds * 1000)
        return msgspec.structs.replace(result, ttl_ms=milliseconds, cache_scope=self.scope)


class ResourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may be said of a resource besides its URI and function; see `Server.resource`."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: t.Annotations | None = None
    icons: list[t.Icon] | None = None
    meta: t.Meta | None = None
    subscribable: bool = False
    allow_traversal: bool = False
    cache: CacheHint | None = None
    asks: str | None = None


class RegisteredResource:
    """A resource or a template of a server. Raises TypeError or ValueError where URI and function do
    not go together.
    """

    def __init__(self, uri: str, function: Callable[..., Any], options: ResourceOptions) -> None:
        signature = Signature(function)
        self.uri = uri
        self.signature = signature
        self.options = options
        self.asks = check_asks(uri, options.asks, signature)
        self.mime_type = options.mime_type
        self._template = UriTemplate(uri) if "{" in uri else None
        expected = set(self._template.variables) if self._template else set()
        if set(signature.names) != expected:
            raise TypeError(
                f"{signature.name}: the parameters are {sorted(signature.names)}, "
                f"but {uri} has the variables {sorted(expected)}"
            )
        name = options.name or signature.name
        described = {
            "title": options.title,
            "description": options.description or signature.summary,
            "mime_type": options.mime_type,
            "annotations": options.annotations,
            "icons": options.icons,
            "meta": options.meta,
        }
        self.resource: t.Resource | None = None
        self.template: t.ResourceTemplate | None = None
        if self._template is None:
            self.resource = t.Resource(uri=uri, name=name, size=options.size, **described)  # type: ignore[arg-type]
        else:
            self.template = t.ResourceTemplate(uri_template=uri, name=name, **described)  # type: ignore[arg-type]

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the variables in `uri`, or None if it is not one of this resource.

        Raises `mcpcore.protocol.uri_template.TraversalRefused` for a value that leads elsewhere.
        """
        if self._template is None:
            return {} if uri == self.uri else None
        if len(uri) > MAX_URI:
            return None
        return self._template.match(uri, allow_traversal=self.options.allow_traversal)

    async def read(
        self, uri: str, values: dict[str, str], context: Context[Any]
    ) -> t.ReadResourceResult | t.InputRequiredResult:
        """Call the function and make its result the contents.

        A string is text, bytes are a blob, `ResourceContents` or a list of them are taken as they are,
        anything else is written as JSON.
        """
        value = await call_with_strings(self.signature, values, context)
        if isinstance(value, t.ReadResourceResult | t.InputRequiredResult):
            return value
        items = value if isinstance(value, list) and value and _all_contents(value) else [value]
        try:
            return t.ReadResourceResult(contents=[self._contents(uri, item) for item in items])
        except ToolError as error:
            raise RequestFailed(INTERNAL_ERROR, str(error)) from error

    def _contents(self, uri: str, value: Any) -> t.ResourceContents:
        if isinstance(value, t.ResourceContents):
            return value
        if isinstance(value, str):
            return t.ResourceContents(uri, self.mime_type or "text/plain", text=value)
        if isinstance(value, bytes | bytearray):
            mime_type = self.mime_type or "application/octet-stream"
            return t.ResourceContents.of(uri, bytes(value), mime_type)
        text = json_of(value).decode()
        return t.ResourceContents(uri, self.mime_type or "application/json", text=text)


def _all_contents(items: list[Any]) -> bool:
    return all(isinstance(item, t.ResourceContents) for item in items)
