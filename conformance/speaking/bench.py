"""Opens conversations with one target in one revision, for one check after another."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from .. import revisions
from ..transcript import Transcript
from ..verdicts import Broken, Unreachable, brief
from ..wire.nursery import open_nursery
from .peer import NAME, Peer
from .pipes import PipePeer
from .target import Target
from .web import WebPeer


class Bench:
    """Where a check works: the target, the revision, and how long a thing may take (seconds).

    ``transcripts`` collects what was recorded, one for each conversation that was opened here.
    ``settled`` tells which revisions the target is known to speak; ``given`` holds the arguments that the
    user of the suite allowed for tools (``--call``).
    """

    def __init__(
        self, target: Target, revision: str, limit: float, given: dict[str, Any] | None = None
    ) -> None:
        self.target = target
        self.revision = revision
        self.limit = limit
        self.given = given or {}
        self.settled: tuple[str, ...] = ()
        self.transcripts: list[Transcript] = []

    @property
    def transport(self) -> str:
        """``stdio`` or ``http``."""
        return self.target.transport

    @property
    def stateless(self) -> bool:
        """Whether the revision under test has no handshake."""
        return revisions.is_stateless(self.revision)

    @asynccontextmanager
    async def open(self, revision: str | None = None) -> AsyncIterator[Any]:
        """A conversation in which nothing was said yet. Raises Unreachable if it cannot be had."""
        transcript = Transcript()
        self.transcripts.append(transcript)
        revision = revision or self.revision
        if self.target.command is None:
            async with open_nursery() as nursery:
                yield WebPeer(revision, transcript, self.limit, nursery, self.target)
            return
        async with AsyncExitStack() as stack:
            try:
                child = await stack.enter_async_context(self.target.start(transcript))
            except OSError as error:
                raise Unreachable(f"{self.target.command}: {error}") from None
            nursery = await stack.enter_async_context(open_nursery())
            peer = PipePeer(revision, transcript, self.limit, nursery, child)
            nursery.start_soon(peer.read)
            yield peer

    @asynccontextmanager
    async def connect(
        self,
        revision: str | None = None,
        *,
        capabilities: dict[str, Any] | None = None,
        initialized: bool = True,
    ) -> AsyncIterator[Any]:
        """A conversation that has been opened as its revision wants it. Raises Unreachable."""
        async with self.open(revision) as peer:
            if capabilities is not None:
                peer.own_capabilities = capabilities
            await introduce(peer, initialized=initialized)
            yield peer


async def introduce(peer: Peer, *, initialized: bool = True) -> None:
    """Open a conversation lawfully: the handshake, or discovery."""
    if peer.stateless:
        peer.opening = await peer.need("server/discover")
    else:
        greeting = {
            "protocolVersion": peer.revision,
            "capabilities": peer.own_capabilities,
            "clientInfo": NAME,
        }
        try:
            exchange = await peer.ask("initialize", greeting)
        except Broken as broken:
            raise Unreachable(f"initialize: {broken.got}") from None
        if not isinstance(exchange.result, dict):
            raise Unreachable(f"initialize gave no result: {brief(exchange.response)}")
        peer.opening = exchange.result
        if peer.opening.get("protocolVersion") != peer.revision:
            raise Unreachable(f"the server does not speak {peer.revision}")
        if isinstance(peer, WebPeer):
            peer.agreed = revisions.since(peer.revision, revisions.WITH_STRUCTURE)
        if initialized:
            told = await peer.tell("notifications/initialized")
            if isinstance(peer, WebPeer):
                await peer.ended(told)
    capabilities = peer.opening.get("capabilities")
    peer.capabilities = capabilities if isinstance(capabilities, dict) else {}
