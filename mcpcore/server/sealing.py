"""What a server gives a client to keep between two rounds of questions, so that nobody can change it.

A request of the stateless era that needs answers ends with the questions, and a later one, perhaps to
another process, brings the answers. What the server has to know then travels through the client as
`requestState`, which a client may keep, repeat or forge (MRTR-11). So it is sealed: with a key, for this
request alone, for a while. Who opens it checks all of that, and tells a client nothing but that it does
not hold.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

KEY_BYTES = 32

_FORM = "1"
"""The first part of every state: the form of the rest."""


class BadState(Exception):
    """A state that does not hold, and why: for the log, never for the client."""


class Sealer(Protocol):
    """Makes of some bytes a text that only its like can open. Wrap a cipher so to hide what is inside."""

    def seal(self, data: bytes) -> str: ...
    def open(self, text: str) -> bytes:
        """Raises `BadState` for a text that was not sealed so."""
        ...


class HmacSealer:
    """Seals with HMAC-SHA256: a client can read what it carries, and not change it.

    The first of `keys` seals, all of them open: to change keys, put the new one in front and take the
    old one away when its states have expired. Servers that share their keys open each other's states.
    Raises ValueError for a key of less than 32 bytes.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) < KEY_BYTES for key in keys):
            raise ValueError(f"a key has at least {KEY_BYTES} bytes: secrets.token_bytes(32)")
        self._keys = tuple(keys)

    def seal(self, data: bytes) -> str:
        return f"{_FORM}.{_text(data)}.{_text(self._sign(self._keys[0], data))}"

    def open(self, text: str) -> bytes:
        parts = text.split(".")
        if len(parts) != 3 or parts[0] != _FORM:
            raise BadState("it has another form")
        data, signature = _bytes(parts[1]), _bytes(parts[2])
        # Each key is tried, whichever fits, so that the time tells nothing.
        fits = [hmac.compare_digest(self._sign(key, data), signature) for key in self._keys]
        if not any(fits):
            raise BadState("its signature is wrong")
        return data

    @staticmethod
    def _sign(key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except ValueError:
        raise BadState("it is no base64") from None
    # The last character has bits that mean nothing: only one way to write them is ours.
    if _text(data) != text:
        raise BadState("it is no base64 of ours")
    return data


class Binding(msgspec.Struct, frozen=True):
    """The request that a state belongs to (MRTR-15, MRTR-17): its method, what it is about (the name of a
    tool or prompt, the URI of a resource), a digest of its arguments, which server it was made to, and a
    digest of who made it.
    """

    method: str
    target: str
    arguments: str
    audience: str
    principal: str


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A question and its answer, or an effect and its result: what was asked, as a digest, and what came."""

    digest: str
    value: Any


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server knows of a request between two rounds.

    `entries` are what is known, by key; `asked` what was asked last, as digests; `state` what a function
    that deals with rounds by hand wants to find again. `expires` is in seconds since 1970.
    """

    binding: Binding
    expires: float
    round: int
    entries: dict[str, Entry] = {}
    asked: dict[str, str] = {}
    state: str | None = None


class StateStore(Protocol):
    """Where records are kept that a client is not to carry, because they are large or must be used once."""

    async def put(self, data: bytes, seconds: float) -> str:
        """Keep some bytes for so long, under a name that cannot be guessed."""
        ...

    async def consume(self, name: str) -> bytes | None:
        """What is kept under that name; from now on nothing is. None if there is nothing (any more)."""
        ...


class MemoryStateStore:
    """Keeps records in this process: at most `limit`, of which the oldest go first."""

    def __init__(self, limit: int = 10_000, now: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._now = now
        self._kept: dict[str, tuple[float, bytes]] = {}

    async def put(self, data: bytes, seconds: float) -> str:
        now = self._now()
        while self._kept:
            oldest = next(iter(self._kept))
            if len(self._kept) < self._limit and self._kept[oldest][0] > now:
                break
            del self._kept[oldest]
        name = secrets.token_urlsafe(32)
        self._kept[name] = now + seconds, data
        return name

    async def consume(self, name: str) -> bytes | None:
        expires, data = self._kept.pop(name, (0.0, b""))
        return data if expires > self._now() else None


class StateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server keeps what it has to know between two rounds.

    `keys` are at least 32 bytes each; without any, one is made for this process, and no other process, nor
    this one after a restart, can go on with a request. `sealer` takes their place. `seconds` is how long
    a client has for its answers. `store` keeps the records here instead of with the client, and lets each
    be used once. `max_bytes` limits what a client is made to carry; `max_rounds` how often it is asked.
    """

    keys: Sequence[bytes] = ()
    sealer: Sealer | None = None
    seconds: float = 600.0
    store: StateStore | None = None
    max_bytes: int = 32 * 1024
    max_rounds: int = 100


class States:
    """Makes states of records, and records of states."""

    def __init__(self, options: StateOptions, now: Callable[[], float] = time.time) -> None:
        keys = options.keys or [secrets.token_bytes(KEY_BYTES)]
        self.options = options
        self._sealer = options.sealer or HmacSealer(keys)
        self._now = now

    def expiry(self) -> float:
        return self._now() + self.options.seconds

    async def close(self, record: Record) -> str:
        """The state for a record. Raises ValueError for one that is too large to be carried."""
        data = msgspec.json.encode(record)
        store = self.options.store
        if store is not None:
            return self._sealer.seal((await store.put(data, self.options.seconds)).encode())
        if len(data) > self.options.max_bytes:
            raise ValueError(
                f"{len(data)} bytes are too many for a client to carry between two rounds; "
                "StateOptions(store=...) keeps them here, max_bytes= allows more"
            )
        return self._sealer.seal(data)

    async def open(self, state: str, binding: Binding) -> Record:
        """The record of a state that belongs to this request. Raises `BadState`."""
        # Sealing makes a third more of it, and then there are a few bytes around.
        if len(state) > 2 * self.options.max_bytes + 1024:
            raise BadState("it is too long")
        data = self._sealer.open(state)
        if self.options.store is not None:
            kept = await self.options.store.consume(data.decode(errors="replace"))
            if kept is None:
                raise BadState("it was used already, or has expired")
            data = kept
        try:
            record = msgspec.json.decode(data, type=Record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BadState("its content cannot be read") from None
        if record.expires <= self._now():
            raise BadState("it has expired")
        if record.binding != binding:
            raise BadState("it belongs to another request")
        return record


def digest(value: Any) -> str:
    """A digest of a JSON value: equal for equal values, however they were written."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
