"""Content blocks: what tools return, prompts hold and models say.

The kinds are told apart by `type`. A kind that is not known here, or a known one in a shape that is
not, arrives as `UnknownContent`: one odd block never costs the rest of a result.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from msgspec import UNSET

from mcpcore.types.base import Annotations, Icon, Meta, Role, WireObject

UNKNOWN_TAG = "\x00unknown"
"""Stands for the real `type` of a block inside this process only; no peer can mean it, and
`mcpcore.codec` takes it off on the way out."""


class TextContent(WireObject, frozen=True, tag_field="type", tag="text"):
    text: str
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ImageContent(WireObject, frozen=True, tag_field="type", tag="image"):
    """`data` is base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")

    @classmethod
    def of(cls, data: bytes, mime_type: str) -> ImageContent:
        """An image from its bytes."""
        return cls(base64.b64encode(data).decode(), mime_type)


class AudioContent(WireObject, frozen=True, tag_field="type", tag="audio"):
    """`data` is base64. Since 2025-03-26."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")

    @classmethod
    def of(cls, data: bytes, mime_type: str) -> AudioContent:
        """A sound from its bytes."""
        return cls(base64.b64encode(data).decode(), mime_type)


class ResourceLink(WireObject, frozen=True, tag_field="type", tag="resource_link"):
    """Points at a resource, which need not be listed. Since 2025-06-18."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ResourceContents(WireObject, frozen=True):
    """What a resource holds: exactly one of `text` and `blob` (base64)."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")

    @classmethod
    def of(
        cls, uri: str, data: bytes, mime_type: str = "application/octet-stream"
    ) -> ResourceContents:
        """Binary contents from their bytes."""
        return cls(uri, mime_type, blob=base64.b64encode(data).decode())

    def data(self) -> bytes:
        """The bytes that `blob` encodes, or `text` in UTF-8."""
        if self.blob is not None:
            return base64.b64decode(self.blob)
        return (self.text or "").encode()


class EmbeddedResource(WireObject, frozen=True, tag_field="type", tag="resource"):
    """A resource carried along whole."""

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ToolUseContent(WireObject, frozen=True, tag_field="type", tag="tool_use"):
    """A model asks for a tool, in sampling. `input` are the arguments. Since 2025-11-25."""

    id: str
    name: str
    input: dict[str, Any]
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class UnknownContent(WireObject, frozen=True, tag_field="type", tag=UNKNOWN_TAG):
    """A block that is not understood here, kept as it came."""

    raw: dict[str, Any]

    @property
    def type(self) -> Any:
        """What the block calls itself."""
        return self.raw.get("type")


class ToolResultContent(WireObject, frozen=True, tag_field="type", tag="tool_result"):
    """What a tool gave a model, in sampling. Since 2025-11-25."""

    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool = False
    meta: Meta | None = msgspec.field(default=None, name="_meta")


ContentBlock = (
    TextContent
    | ImageContent
    | AudioContent
    | ResourceLink
    | EmbeddedResource
    | ToolUseContent
    | ToolResultContent
    | UnknownContent
)
"""Any block. Since when a kind exists is a row in `mcpcore.revisions`. The tool kinds belong into
sampling, links and embedded resources into everything else."""


class Message(WireObject, frozen=True):
    """One turn of a conversation: `role` and what was said."""

    role: Role
    content: ContentBlock


class SamplingMessage(WireObject, frozen=True):
    """One turn in sampling. Several blocks are possible since 2025-11-25; one is always written alone."""

    role: Role
    content: ContentBlock | list[ContentBlock]
    meta: Meta | None = msgspec.field(default=None, name="_meta")

    @property
    def blocks(self) -> list[ContentBlock]:
        """The content as a list, whichever form it came in."""
        return self.content if isinstance(self.content, list) else [self.content]
