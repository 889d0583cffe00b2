"""A function as a tool: its description for the list, and the way from a call to a result.

What goes wrong inside a tool, bad arguments included, is a result with `isError`, so that the model
sees it and can do better; that holds in every revision. Only a tool that does not exist is an error of
the protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw

from mcpcore import types as t
from mcpcore.errors import ConnectionLost, RequestFailed, ToolError
from mcpcore.jsonrpc import INVALID_PARAMS, mend_surrogates
from mcpcore.protocol.mirrors import marked
from mcpcore.runtime import single
from mcpcore.server.context import Context, NoAnswer
from mcpcore.server.results import Output, ToolResult, output_of
from mcpcore.server.signature import Signature, check_asks
from mcpcore.validation import MISSING, SchemaCheck, can_validate

logger = logging.getLogger("mcpcore.server")

Asks = Literal["replay", "rounds"]
_ABSENT = (b"", b"null")


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may be said of a tool besides its function; see `Server.tool`."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    annotations: t.ToolAnnotations | None = None
    icons: list[t.Icon] | None = None
    meta: t.Meta | None = None
    input_schema: t.JsonSchema | None = None
    output_schema: t.JsonSchema | None = None
    structured: bool | None = None
    inline: bool = False
    asks: Asks | None = None


class RegisteredTool:
    """A tool of a server. Raises TypeError or ValueError for a function that cannot be one."""

    def __init__(self, function: Callable[..., Any], options: ToolOptions) -> None:
        signature = Signature(function)
        self.name = options.name or signature.name
        self.signature = signature
        self.inline = options.inline
        self.asks = check_asks(self.name, options.asks, signature)
        if self.inline and signature.is_async:
            raise TypeError(f"{self.name}: an inline tool is a plain function that does not wait")
        if options.output_schema is not None:
            output = Output(options.output_schema, output_of(Any, structured=None).convert)
        else:
            output = output_of(signature.returns, structured=options.structured)
        self._convert = output.convert
        self._output_check = _check(self.name, options.output_schema)
        self._result = self._convert if self._output_check is None else self._checked_result
        self._input_check = _check(self.name, options.input_schema)
        if self._input_check is not None and len(signature.names) != 1:
            raise TypeError(
                f"{self.name}: with input_schema= the function takes the arguments as one dict"
            )
        self.marked = marked(options.input_schema or signature.schema)
        """The arguments that HTTP headers repeat in the stateless era: where they stand, by header."""
        self.tool = t.Tool(
            name=self.name,
            input_schema=options.input_schema or signature.schema,
            title=options.title,
            description=options.description or signature.summary,
            output_schema=output.schema,
            annotations=options.annotations,
            icons=options.icons,
            meta=options.meta,
        )

    def call_now(self, arguments: Raw, context: Context[Any] | None) -> ToolResult:
        """Call an inline tool on the spot. `context` is None if the function takes none."""
        try:
            return self._result(self.signature.function(**self._keywords(arguments, context)))
        except (Exception, SystemExit) as error:
            return self._failed(error)
        finally:
            if context is not None:
                context.finish()

    async def call(self, arguments: Raw, context: Context[Any] | None) -> ToolResult:
        """Call the tool."""
        signature = self.signature
        try:
            keywords = self._keywords(arguments, context)
            # Most tools are async, and one step less is worth a line.
            if signature.is_async:
                return self._result(await signature.function(**keywords))
            return self._result(await signature.call(keywords))
        except (Exception, SystemExit) as error:
            return self._failed(error)
        finally:
            if context is not None:
                context.finish()

    def _keywords(self, arguments: Raw, context: Context[Any] | None) -> dict[str, Any]:
        """What to call the function with. Raises `ToolError` for arguments that do not fit, and
        `RequestFailed` for such as are no object at all.
        """
        signature = self.signature
        try:
            if self._input_check is None:
                keywords = msgspec.structs.asdict(signature.decoder.decode(arguments))
            else:
                keywords = {signature.names[0]: self._checked(arguments)}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            data = bytes(arguments)
            if data in _ABSENT:
                return self._keywords(Raw(b"{}"), context)
            if not data.startswith(b"{"):
                raise RequestFailed(
                    INVALID_PARAMS, "Invalid params: arguments must be an object"
                ) from None
            mended = mend_surrogates(data)
            if mended is not None:
                return self._keywords(Raw(mended), context)
            raise ToolError(f"Invalid arguments: {error}") from None
        if signature.context is not None:
            keywords[signature.context] = context
        return keywords

    def _checked(self, arguments: Raw) -> dict[str, Any]:
        values = msgspec.json.decode(arguments, type=dict[str, Any])
        assert self._input_check is not None
        problem = self._input_check.problem(values)
        if problem is not None:
            raise ToolError(f"Invalid arguments: {problem}")
        return values

    def _checked_result(self, value: Any) -> ToolResult:
        """The result of a tool with an output schema of its own."""
        result = self._convert(value)
        if isinstance(result, t.InputRequiredResult) or result.is_error:
            return result
        structured = result.structured_content
        if structured is UNSET:
            if not isinstance(value, dict):
                raise ToolError("the tool promises structured content and returned none")
            structured = value
            result = msgspec.structs.replace(result, structured_content=value)
        assert self._output_check is not None
        problem = self._output_check.problem(structured)
        if problem is not None:
            raise ToolError(f"the tool returned something else than it promises: {problem}")
        return result

    def _failed(self, error: BaseException) -> t.CallToolResult:
        cause = single(error)
        if isinstance(cause, NoAnswer) and cause.refusal is not None:
            raise cause.refusal
        if isinstance(cause, ToolError):
            return t.CallToolResult(content=[t.TextContent(str(cause))], is_error=True)
        if isinstance(cause, RequestFailed):
            raise cause
        if isinstance(cause, ConnectionLost):
            logger.debug("the tool %s lost its client: %s", self.name, cause.reason)
        else:
            logger.error("the tool %s failed", self.name, exc_info=error)
        text = t.TextContent(f"The tool {self.name} failed unexpectedly.")
        return t.CallToolResult(content=[text], is_error=True)


def _check(name: str, schema: t.JsonSchema | None) -> SchemaCheck | None:
    if schema is None:
        return None
    if schema.get("type") != "object":
        raise ValueError(f'{name}: the root of a tool\'s schema has "type": "object"')
    if not can_validate():
        raise TypeError(f"{name}: {MISSING}")
    return SchemaCheck(schema, trusted=True)
