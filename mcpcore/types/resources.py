"""Resources: what a server lets be read, by URI. URIs are opaque strings here."""

from __future__ import annotations

import msgspec

from mcpcore.types.base import (
    Annotations,
    CacheableResult,
    Icon,
    Meta,
    PaginatedResult,
    Params,
    WireObject,
)
from mcpcore.types.content import ResourceContents


class Resource(WireObject, frozen=True):
    """`size` is in bytes, before any encoding."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ResourceTemplate(WireObject, frozen=True):
    """A family of resources; `uri_template` after RFC 6570."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ListResourcesResult(PaginatedResult, frozen=True):
    resources: list[Resource]


class ListResourceTemplatesResult(PaginatedResult, frozen=True):
    resource_templates: list[ResourceTemplate]


class ResourceParams(Params, frozen=True):
    """Names one resource: to subscribe, to unsubscribe, or to say that it changed."""

    uri: str


class ReadResourceParams(Params, frozen=True):
    uri: str
    input_responses: dict[str, object] | None = None
    request_state: str | None = None


class ReadResourceResult(CacheableResult, frozen=True):
    contents: list[ResourceContents]
