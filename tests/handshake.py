"""Connecting as a client of the handshake era alone: for what belongs to sessions, and for peers by script."""

from __future__ import annotations

from typing import Any

import mcpcore
from mcpcore import Client
from mcpcore.revisions import HANDSHAKE


def connect(target: Any, **options: Any) -> mcpcore.connect:
    return mcpcore.connect(target, **{"revisions": HANDSHAKE, **options})


async def open_client(nursery: Any, target: Any, **options: Any) -> Client:
    return await Client.open(nursery, target, **{"revisions": HANDSHAKE, **options})
