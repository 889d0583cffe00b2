"""Functions as prompts, and functions that complete what a person types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from mcpcore import types as t
from mcpcore.errors import RequestFailed, ToolError
from mcpcore.jsonrpc import INTERNAL_ERROR
from mcpcore.server.context import Context
from mcpcore.server.functions import call_with_strings
from mcpcore.server.results import json_of
from mcpcore.server.signature import Signature, check_asks

MAX_VALUES = 100
"""How many values one completion may hold; the specification's number."""

_BLOCKS: tuple[type, ...] = get_args(t.ContentBlock)


class PromptOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may be said of a prompt besides its function; see `Server.prompt`."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    icons: list[t.Icon] | None = None
    meta: t.Meta | None = None
    asks: str | None = None


class RegisteredPrompt:
    """A prompt of a server. Its arguments are strings on the wire, converted to what the parameters
    say.
    """

    def __init__(self, function: Callable[..., Any], options: PromptOptions) -> None:
        signature = Signature(function)
        self.name = options.name or signature.name
        self.signature = signature
        self.asks = check_asks(self.name, options.asks, signature)
        properties = signature.schema.get("properties", {})
        required = signature.schema.get("required", ())
        arguments = [
            t.PromptArgument(
                name=name,
                title=properties[name].get("title"),
                description=properties[name].get("description"),
                required=name in required,
            )
            for name in signature.names
        ]
        self.prompt = t.Prompt(
            name=self.name,
            title=options.title,
            description=options.description or signature.summary,
            arguments=arguments or None,
            icons=options.icons,
            meta=options.meta,
        )

    async def get(
        self, arguments: Mapping[str, str], context: Context[Any]
    ) -> t.GetPromptResult | t.InputRequiredResult:
        """Call the function and make its result the messages.

        A string or a content block is one message of the user; `Message` or a list of any of these are
        taken in their order; anything else is written as JSON.
        """
        value = await call_with_strings(self.signature, arguments, context)
        if isinstance(value, t.GetPromptResult | t.InputRequiredResult):
            return value
        items = value if isinstance(value, list | tuple) else [value]
        try:
            messages = [_message(item) for item in items]
        except ToolError as error:
            raise RequestFailed(INTERNAL_ERROR, str(error)) from error
        return t.GetPromptResult(messages=messages, description=self.prompt.description)


def _message(value: Any) -> t.Message:
    if isinstance(value, t.Message):
        return value
    if isinstance(value, _BLOCKS):
        return t.Message("user", value)  # type: ignore[arg-type]
    if not isinstance(value, str):
        value = json_of(value).decode()
    return t.Message("user", t.TextContent(value))


class RegisteredCompletion:
    """A function that completes one argument: it takes the value so far, and may take `context`, the
    arguments chosen before (a dict of strings).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = signature = Signature(function)
        names = signature.names
        if not names or len(names) > 2 or (len(names) == 2 and names[1] != "context"):
            raise TypeError(
                f"{signature.name}: a completion takes the value, and may take `context`"
            )

    async def complete(
        self, value: str, chosen: Mapping[str, str], context: Context[Any]
    ) -> t.CompleteResult:
        """Call the function: it gives strings, best first, or a `Completion`."""
        names = self.signature.names
        keywords: dict[str, Any] = {names[0]: value}
        if len(names) == 2:
            keywords["context"] = dict(chosen)
        found = await call_with_strings(self.signature, keywords, context)
        if not isinstance(found, t.Completion):
            values = list(found)
            found = t.Completion(values=values, total=len(values))
        if len(found.values) > MAX_VALUES:
            found = t.Completion(
                values=found.values[:MAX_VALUES],
                total=found.total or len(found.values),
                has_more=True,
            )
        return t.CompleteResult(completion=found)
