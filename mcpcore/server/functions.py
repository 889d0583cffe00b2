"""Calling the functions behind resources, prompts and completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mcpcore.errors import RequestFailed, ResourceNotFound, ToolError
from mcpcore.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcpcore.runtime import single
from mcpcore.server.context import Context, NoAnswer
from mcpcore.server.signature import Signature, from_json


async def call_with_strings(
    signature: Signature, values: Mapping[str, str], context: Context[Any]
) -> Any:
    """Call a function whose arguments came as strings, converted to what its parameters say.

    Raises `RequestFailed` with invalid params, naming the argument, if they do not fit.
    """
    try:
        arguments = msgspec.convert(
            dict(values), signature.arguments, strict=False, dec_hook=from_json
        )
    except msgspec.ValidationError as error:
        raise RequestFailed(INVALID_PARAMS, f"Invalid params: {error}") from None
    keywords = signature.bind(arguments, context)
    try:
        return await signature.call(keywords)
    except Exception as error:
        cause = single(error)
        if isinstance(cause, NoAnswer) and cause.refusal is not None:
            raise cause.refusal from None
        if isinstance(cause, ToolError):
            # Only a tool's result has room for it; elsewhere it is an error with the same words.
            raise RequestFailed(INTERNAL_ERROR, str(cause)) from error
        if isinstance(cause, ResourceNotFound):
            raise cause from None
        raise
    finally:
        context.finish()
