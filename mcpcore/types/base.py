"""What every wire object shares.

One Struct stands for one object of the specification, in the union of all revisions: what a revision
lacks is dropped by `mcpcore.codec` on the way out, after the tables in `mcpcore.revisions`. Python
names are the wire's in snake_case. A member that is absent is None; `UNSET` is used only where null
means something else than absent. Members that were received and are not known here survive in
`Result.raw`.
"""

from __future__ import annotations

from typing import Any

import msgspec

Meta = dict[str, Any]
"""`_meta`: kept whole, whatever keys it holds."""

Role = str
"""`user` or `assistant`. Open on receipt: a word we do not know must not fail a whole message."""

Cursor = str
"""Opaque: handed back byte for byte, never looked into. The empty string is a cursor too."""


class WireObject(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An object that appears on the wire."""


class Result(
    msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", dict=True, kw_only=True
):
    """The result of a request.

    `result_type` is absent before the stateless revision, which means `complete`.
    """

    result_type: str | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")

    @property
    def raw(self) -> bytes | None:
        """The bytes this result was decoded from, unknown members included; None if it was made here."""
        raw = self.__dict__.get("raw")
        return None if raw is None else bytes(raw)


class CacheableResult(Result, frozen=True, kw_only=True):
    """A result that says how long it may be kept: `ttl_ms` in milliseconds, `cache_scope`
    `public` or `private`. Both belong to the stateless revision.
    """

    ttl_ms: int | None = None
    cache_scope: str | None = None


class PaginatedResult(CacheableResult, frozen=True, kw_only=True):
    """A page. `next_cursor` is present only if more may follow."""

    next_cursor: Cursor | None = None


class EmptyResult(Result, frozen=True):
    """Success, and nothing to say."""


class Params(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The parameters of a request or notification; `_meta` may hold the progress token."""

    meta: Meta | None = msgspec.field(default=None, name="_meta")


class PaginatedParams(Params, frozen=True):
    """Asks for the page at `cursor`, or for the first one."""

    cursor: Cursor | None = None


class Icon(WireObject, frozen=True):
    """A picture of something. `src` is an https or data URI, `sizes` like `48x48` or `any`,
    `theme` `light` or `dark`. Since 2025-11-25.
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: str | None = None


class Implementation(WireObject, frozen=True):
    """The name and version of a program that speaks the protocol."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
    website_url: str | None = None


class Annotations(WireObject, frozen=True):
    """Hints about who something is for (`audience`), how much it matters (`priority`, 0 to 1) and
    when it changed (`last_modified`, ISO 8601).
    """

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None
