"""States that travel through a client: sealed, of one request, for a while."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
import pytest

from mcpcore.server.sealing import (
    BadState,
    Binding,
    Entry,
    HmacSealer,
    MemoryStateStore,
    Record,
    StateOptions,
    States,
    digest,
)

KEY, OTHER = secrets.token_bytes(32), secrets.token_bytes(32)
BINDING = Binding("tools/call", "book", digest({"city": "Oslo"}), "server", "ada")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def states(clock: Clock | None = None, **options: Any) -> States:
    return States(StateOptions(**{"keys": [KEY], **options}), clock or Clock())


def record(seconds: float = 600.0, **members: Any) -> Record:
    return Record(BINDING, 1000.0 + seconds, 1, {"a": Entry("d", {"x": 1})}, {"q": "e"}, **members)


async def test_a_state_comes_back_as_it_was() -> None:
    sealed = await states().close(record(state="mine"))
    assert await states().open(sealed, BINDING) == record(state="mine")


async def test_mrtr_12_whatever_is_changed_is_refused() -> None:
    """MRTR-12, MRTR-13: each character, and each end of the text."""
    sealed = await states().close(record())
    for position, character in enumerate(sealed):
        for other in {"A", "B", "-", ".", "=", "é"} - {character}:
            with pytest.raises(BadState):
                await states().open(sealed[:position] + other + sealed[position + 1 :], BINDING)
    for changed in (
        "",
        "x",
        sealed[:-1],
        sealed + "A",
        sealed + "-TAMPERED",
        "1..",
        "2" + sealed[1:],
    ):
        with pytest.raises(BadState):
            await states().open(changed, BINDING)


async def test_mrtr_16_it_expires() -> None:
    clock = Clock()
    sealed = await states(clock).close(record(seconds=10))
    clock.now += 9.9
    await states(clock).open(sealed, BINDING)
    clock.now += 0.2
    with pytest.raises(BadState, match="expired"):
        await states(clock).open(sealed, BINDING)


@pytest.mark.parametrize("member", ["method", "target", "arguments", "audience", "principal"])
async def test_mrtr_17_it_is_of_one_request(member: str) -> None:
    sealed = await states().close(record())
    with pytest.raises(BadState, match="another request"):
        await states().open(sealed, msgspec.structs.replace(BINDING, **{member: "other"}))


async def test_keys_are_changed_without_losing_a_state() -> None:
    before = await states(keys=[OTHER]).close(record())
    assert await states(keys=[KEY, OTHER]).open(before, BINDING) == record()
    after = await states(keys=[KEY, OTHER]).close(record())
    with pytest.raises(BadState, match="signature"):
        await states(keys=[OTHER]).open(after, BINDING)


async def test_without_a_key_no_other_process_goes_on() -> None:
    sealed = await States(StateOptions(), Clock()).close(record())
    with pytest.raises(BadState):
        await States(StateOptions(), Clock()).open(sealed, BINDING)


@pytest.mark.parametrize("keys", [[b"short"], [KEY, b""]])
def test_a_key_that_can_be_guessed_is_none(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        HmacSealer(keys)


async def test_what_is_too_large_to_be_carried_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="store"):
        await states(max_bytes=100).close(record())
    with pytest.raises(BadState, match="long"):
        await states(max_bytes=100).open("1." + "A" * 2000, BINDING)


async def test_mrtr_18_a_store_lets_a_state_be_used_once() -> None:
    store = MemoryStateStore(now=Clock())
    sealed = await states(store=store, max_bytes=10).close(record())
    assert len(sealed) < 200
    assert await states(store=store).open(sealed, BINDING) == record()
    with pytest.raises(BadState, match="used already"):
        await states(store=store).open(sealed, BINDING)


async def test_a_store_forgets_what_is_old_and_what_is_too_many() -> None:
    clock = Clock()
    store = MemoryStateStore(limit=2, now=clock)
    first = await store.put(b"1", 10)
    second = await store.put(b"2", 10)
    third = await store.put(b"3", 10)
    assert await store.consume(first) is None
    clock.now += 11
    assert await store.consume(second) is None
    fourth = await store.put(b"4", 10)
    assert await store.consume(third) is None
    assert await store.consume(fourth) == b"4"


async def test_what_a_sealer_lets_through_must_be_a_record() -> None:
    class Open:
        def seal(self, data: bytes) -> str:
            return data.decode()

        def open(self, text: str) -> bytes:
            return text.encode()

    options = StateOptions(sealer=Open())
    assert await States(options, Clock()).open(
        await States(options, Clock()).close(record()), BINDING
    )
    with pytest.raises(BadState, match="read"):
        await States(options, Clock()).open("{}", BINDING)


def test_a_digest_is_of_the_value_and_not_of_how_it_was_written() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})
