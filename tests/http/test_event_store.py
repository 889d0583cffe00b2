"""What remembers events: the contract, and the limits of the one in memory."""

from __future__ import annotations

import pytest

from mcpcore.server.http.store import EventStore, MemoryEventStore
from mcpcore.testing import check_event_store


async def test_the_store_in_memory_keeps_the_contract() -> None:
    await check_event_store(MemoryEventStore)


async def test_the_contract_finds_a_store_that_mixes_streams() -> None:
    class Mixing(MemoryEventStore):
        def append(self, session: str, stream: int, number: int, data: bytes) -> None:
            super().append(session, 7, number, data)

    with pytest.raises(AssertionError, match="that stream and session"):
        await check_event_store(Mixing)


async def test_the_contract_finds_a_store_that_never_forgets() -> None:
    class Keeping(MemoryEventStore):
        def forget(self, session: str) -> None:
            pass

    with pytest.raises(AssertionError, match="forgotten"):
        await check_event_store(Keeping)


async def fill(store: EventStore, count: int, size: int = 10) -> None:
    for number in range(1, count + 1):
        store.append("s", number % 3, number, b"x" * size)


async def numbers(store: EventStore) -> list[int]:
    found = [number for stream in range(3) for number, _ in await store.after("s", stream, 0)]
    return sorted(found)


async def test_the_oldest_events_go_beyond_a_number() -> None:
    store = MemoryEventStore(max_events=5)
    await fill(store, 20)
    assert await numbers(store) == [16, 17, 18, 19, 20]


async def test_the_oldest_events_go_beyond_a_size() -> None:
    store = MemoryEventStore(max_bytes=45)
    await fill(store, 20)
    assert await numbers(store) == [17, 18, 19, 20]
    store.append("s", 0, 21, b"x" * 100)
    assert await numbers(store) == []


async def test_old_events_go(autojump_clock: object) -> None:
    import trio

    store = MemoryEventStore(max_age=60)
    await fill(store, 3)
    await trio.sleep(40)
    store.append("s", 0, 4, b"x")
    await trio.sleep(40)
    assert await numbers(store) == [4]


async def test_forgetting_gives_the_room_back() -> None:
    """F-070: sessions that come and go leave nothing behind, however fast."""
    store = MemoryEventStore(max_bytes=1000, max_events=100)
    for session in range(1000):
        for number in range(1, 5):
            store.append(str(session), 1, number, b"x" * 100)
        store.forget(str(session))
    store.append("last", 1, 1, b"y" * 900)
    assert await store.after("last", 1, 0) == [(1, b"y" * 900)]
