"""A nursery whose block ends with one plain exception, so that a check can raise what it means."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery that is cancelled when its block ends; of several exceptions, the first is raised."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None


def first_of(error: BaseException) -> BaseException:
    """The first exception in a group of groups that is no cancellation, or the exception itself."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    kept = [each for each in error.exceptions if not isinstance(each, trio.Cancelled)] or list(
        error.exceptions
    )
    return first_of(kept[0])
