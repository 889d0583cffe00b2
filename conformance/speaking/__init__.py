"""The suite as a client: it opens conversations with the server under test and says one thing at a time.

``Peer`` is one conversation. It has the same words on both transports and in both eras; what only one of
them has (raw bytes on a pipe, another header, a second stream) is a method of ``PipePeer`` or ``WebPeer``.
"""

from .bench import Bench
from .exchange import Exchange
from .peer import Peer
from .pipes import PipePeer
from .target import Target
from .web import WebPeer

__all__ = ["Bench", "Exchange", "Peer", "PipePeer", "Target", "WebPeer"]
