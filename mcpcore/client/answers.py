"""What a client answers when the server asks: for a model, for a person, for the roots.

The application gives functions (or, for the roots, a list); the capabilities follow from what is
given. What a function raises becomes an error answer, never the end of the connection.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mcpcore import codec
from mcpcore import types as t
from mcpcore.errors import RequestFailed
from mcpcore.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Request
from mcpcore.types.session import check_extensions

ElicitHandler = Callable[[t.ElicitParams], Awaitable[t.ElicitResult | dict[str, Any]]]
SampleHandler = Callable[[t.CreateMessageParams], Awaitable[t.CreateMessageResult | str]]
RootsGiven = Sequence[t.Root | str | os.PathLike[str]]
RootsHandler = Callable[[], RootsGiven | Awaitable[RootsGiven]]


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The functions that answer a server's questions; see `ClientOptions` for each."""

    elicit: ElicitHandler | None = None
    elicit_url: ElicitHandler | None = None
    sample: SampleHandler | None = None
    sample_tools: bool = False
    roots: RootsGiven | RootsHandler | None = None
    extensions: Mapping[str, Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        check_extensions(self.extensions)

    def capabilities(self) -> t.ClientCapabilities:
        """What the client can declare."""
        elicitation = sampling = roots = None
        if self.elicit or self.elicit_url:
            elicitation = t.ElicitationCapability(
                form={} if self.elicit else None, url={} if self.elicit_url else None
            )
        if self.sample:
            sampling = t.SamplingCapability(tools={} if self.sample_tools else None)
        if self.roots is not None:
            roots = t.ListChanged(list_changed=True)
        return t.ClientCapabilities(
            roots=roots,
            sampling=sampling,
            elicitation=elicitation,
            extensions=dict(self.extensions) or None,
        )

    async def answer(self, request: Request, declared: t.ClientCapabilities) -> t.Result:
        """Answer one question, as far as it was declared in the agreed revision. Raises `RequestFailed`."""
        if request.method == "elicitation/create":
            return await self._elicit(_read(request, t.ElicitParams), declared)
        if request.method == "sampling/createMessage":
            return await self._sample(_read(request, t.CreateMessageParams), declared)
        if request.method == "roots/list":
            return await self._list_roots()
        raise RequestFailed(METHOD_NOT_FOUND, f"Method not found: {request.method}")

    async def _elicit(
        self, params: t.ElicitParams, declared: t.ClientCapabilities
    ) -> t.ElicitResult:
        by_url = params.mode == "url"
        told = declared.elicitation
        handler = self.elicit_url if by_url else self.elicit
        if told is not None and by_url and told.url is None:
            handler = None
        if handler is None or params.mode not in (None, "form", "url"):
            raise RequestFailed(
                INVALID_PARAMS, f"Invalid params: no elicitation by {params.mode or 'form'}"
            )
        result = await _called(handler, params)
        if isinstance(result, dict):
            result = t.ElicitResult(action="accept", content=result)
        if not isinstance(result, t.ElicitResult):
            raise TypeError(f"elicit gives ElicitResult or a dict, not {type(result).__name__}")
        if result.action != "accept" or by_url:
            return t.ElicitResult(action=result.action)
        return t.ElicitResult(action="accept", content=_defaults(params) | (result.content or {}))

    async def _sample(
        self, params: t.CreateMessageParams, declared: t.ClientCapabilities
    ) -> t.CreateMessageResult:
        with_tools = params.tools is not None or params.tool_choice is not None
        if with_tools and (declared.sampling is None or declared.sampling.tools is None):
            raise RequestFailed(
                INVALID_PARAMS, "Invalid params: sampling with tools was not declared"
            )
        _check_tool_results(params.messages)
        assert self.sample is not None
        result = await _called(self.sample, params)
        if isinstance(result, str):
            text = t.TextContent(result)
            return t.CreateMessageResult(
                role="assistant", content=text, model="unknown", stop_reason="endTurn"
            )
        if not isinstance(result, t.CreateMessageResult):
            raise TypeError(f"sample gives CreateMessageResult or str, not {type(result).__name__}")
        return result

    async def _list_roots(self) -> t.ListRootsResult:
        given = await _called(self.roots) if callable(self.roots) else self.roots
        return t.ListRootsResult(roots=[_root(root) for root in given or ()])


async def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that may be plain or async."""
    result = function(*arguments)
    return await result if inspect.isawaitable(result) else result


def _read(request: Request, type: type[Any]) -> Any:
    try:
        return codec.decode(request.params, type)
    except msgspec.ValidationError as error:
        raise RequestFailed(INVALID_PARAMS, f"Invalid params: {error}") from None


def _root(root: t.Root | str | os.PathLike[str]) -> t.Root:
    if isinstance(root, t.Root):
        return root
    if isinstance(root, str) and root.startswith("file://"):
        return t.Root(root)
    return t.Root(Path(root).absolute().as_uri())


def _defaults(params: t.ElicitParams) -> dict[str, Any]:
    """What a form holds before anybody touched it."""
    try:
        fields = params.fields
    except msgspec.ValidationError:
        return {}
    return {
        name: field.default for name, field in fields.items() if field.default is not msgspec.UNSET
    }


def _check_tool_results(messages: list[t.SamplingMessage]) -> None:
    """Every tool that a model used is answered at once, in a message of nothing but its results."""
    waiting: set[str] = set()
    for message in messages:
        results = [block for block in message.blocks if isinstance(block, t.ToolResultContent)]
        if results and len(results) != len(message.blocks):
            raise RequestFailed(
                INVALID_PARAMS, "Invalid params: tool results mixed with other content"
            )
        answered = {block.tool_use_id for block in results}
        if answered != waiting:
            raise RequestFailed(INVALID_PARAMS, "Invalid params: a tool use without its result")
        waiting = {block.id for block in message.blocks if isinstance(block, t.ToolUseContent)}
    if waiting:
        raise RequestFailed(INVALID_PARAMS, "Invalid params: a tool use without its result")
