"""The four paged lists of a server, each in three forms: whole, item by item, page by page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

from mcpcore import types as t
from mcpcore.errors import RemoteProtocolError

T = TypeVar("T")

MAX_PAGES = 1000
"""A list of more pages is taken for one that never ends."""


class Items(AsyncIterator[T], Generic[T]):
    """Walks a list, asking for a page when it is needed.

    Raises `RemoteProtocolError` when a cursor comes back a second time or there is no end to the
    pages; what was given before stays good.
    """

    def __init__(
        self,
        name: str,
        fetch: Callable[[str | None], Awaitable[tuple[list[T], str | None]]],
        max_pages: int,
    ) -> None:
        self._name = name
        self._fetch = fetch
        self._max_pages = max_pages
        self._seen: set[str | None] = set()
        self._cursor: str | None = None
        self._items: list[T] = []
        self._ended = False

    async def __anext__(self) -> T:
        while not self._items:
            if self._ended:
                raise StopAsyncIteration
            await self._turn()
        return self._items.pop()

    async def _turn(self) -> None:
        if self._cursor in self._seen:
            raise RemoteProtocolError(
                f"{self._name} gave the cursor {self._cursor!r} twice: the list has no end",
                "PAGE-04",
            )
        if len(self._seen) >= self._max_pages:
            raise RemoteProtocolError(
                f"{self._name} has more than {self._max_pages} pages; max_pages= raises the limit",
                "PAGE-04",
            )
        self._seen.add(self._cursor)
        page, self._cursor = await self._fetch(self._cursor)
        self._items = page[::-1]
        self._ended = self._cursor is None

    async def all(self) -> list[T]:
        """What is left of the list."""
        return [item async for item in self]


class Lists(ABC):
    """The listing methods of a client."""

    _max_pages: int

    @abstractmethod
    async def _list(self, method: str, cursor: str | None, result: type[Any]) -> Any: ...

    def tools(self) -> Items[t.Tool]:
        """Walk the tools: `async for tool in client.tools()`."""

        async def fetch(cursor: str | None) -> tuple[list[t.Tool], str | None]:
            page = await self.list_tools_page(cursor)
            return page.tools, page.next_cursor

        return Items("tools/list", fetch, self._max_pages)

    async def list_tools(self) -> list[t.Tool]:
        """All tools, of all pages."""
        return await self.tools().all()

    async def list_tools_page(self, cursor: str | None = None) -> t.ListToolsResult:
        """One page of tools: the first, or the one that a `next_cursor` names."""
        page: t.ListToolsResult = await self._list("tools/list", cursor, t.ListToolsResult)
        return page

    def resources(self) -> Items[t.Resource]:
        """Walk the resources."""

        async def fetch(cursor: str | None) -> tuple[list[t.Resource], str | None]:
            page = await self.list_resources_page(cursor)
            return page.resources, page.next_cursor

        return Items("resources/list", fetch, self._max_pages)

    async def list_resources(self) -> list[t.Resource]:
        """All resources, of all pages."""
        return await self.resources().all()

    async def list_resources_page(self, cursor: str | None = None) -> t.ListResourcesResult:
        """One page of resources."""
        page: t.ListResourcesResult = await self._list(
            "resources/list", cursor, t.ListResourcesResult
        )
        return page

    def resource_templates(self) -> Items[t.ResourceTemplate]:
        """Walk the resource templates."""

        async def fetch(cursor: str | None) -> tuple[list[t.ResourceTemplate], str | None]:
            page = await self.list_resource_templates_page(cursor)
            return page.resource_templates, page.next_cursor

        return Items("resources/templates/list", fetch, self._max_pages)

    async def list_resource_templates(self) -> list[t.ResourceTemplate]:
        """All resource templates, of all pages."""
        return await self.resource_templates().all()

    async def list_resource_templates_page(
        self, cursor: str | None = None
    ) -> t.ListResourceTemplatesResult:
        """One page of resource templates."""
        page: t.ListResourceTemplatesResult = await self._list(
            "resources/templates/list", cursor, t.ListResourceTemplatesResult
        )
        return page

    def prompts(self) -> Items[t.Prompt]:
        """Walk the prompts."""

        async def fetch(cursor: str | None) -> tuple[list[t.Prompt], str | None]:
            page = await self.list_prompts_page(cursor)
            return page.prompts, page.next_cursor

        return Items("prompts/list", fetch, self._max_pages)

    async def list_prompts(self) -> list[t.Prompt]:
        """All prompts, of all pages."""
        return await self.prompts().all()

    async def list_prompts_page(self, cursor: str | None = None) -> t.ListPromptsResult:
        """One page of prompts."""
        page: t.ListPromptsResult = await self._list("prompts/list", cursor, t.ListPromptsResult)
        return page
