"""Where a server is on the web, and how to reach it: what may be said of a connection over HTTP.

Nothing here needs more than the core; what connects (`mcpcore.transport.http_channel`) needs the extra
`mcpcore[http]`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from mcpcore.errors import ConnectionLost
from mcpcore.protocol.framing import MAX_LINE

if TYPE_CHECKING:
    import ssl

HeadersFor = Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a server. Times are in seconds.

    `ssl_context` says whom to trust and which certificate to show; None trusts what the system trusts.
    `proxy` is the URL of an HTTP proxy; None takes what the environment says (HTTPS_PROXY, HTTP_PROXY,
    ALL_PROXY, NO_PROXY), and an empty string none. `unix_socket` is a path to connect to instead of host
    and port. `connect` is what one connection may take to open, `keep_alive` how long one that is not
    used is kept (a little less than the 5 s that common servers wait), `connections` how many requests
    and streams there may be at once.
    """

    ssl_context: ssl.SSLContext | None = None
    proxy: str | None = None
    unix_socket: str | None = None
    connect: float = 10.0
    keep_alive: float = 4.0
    connections: int = 100


class HttpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server at a URL, for `connect`.

    `headers` go with every request; so do those that `headers_for`, plain or async, gives for each anew,
    such as a token that is renewed. `listen` opens the stream for what the server says by itself; such
    a stream is opened anew after `quiet` seconds without a byte. `older` says whether the server has the
    older HTTP transport, that of 2024-11-05; None finds out. `max_message` is in bytes.
    """

    url: str
    headers: Mapping[str, str] = {}
    headers_for: HeadersFor | None = None
    network: Network = Network()
    listen: bool = True
    older: bool | None = None
    quiet: float = 600.0
    max_message: int = MAX_LINE

    async def fresh_headers(self) -> list[tuple[bytes, bytes]]:
        """What `headers_for` gives now. Raises `ConnectionLost` if it fails."""
        if self.headers_for is None:
            return []
        try:
            given = self.headers_for()
            if inspect.isawaitable(given):
                given = await given
            return encode_headers(given)
        except Exception as error:
            raise ConnectionLost(f"headers_for failed: {error!r}") from error


_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff\t]*")


def encode_headers(given: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as bytes. Raises ValueError for what cannot be one, without showing its value."""
    headers = []
    for name, value in given.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name} has characters that no header has")
        headers.append((name.encode("ascii"), value.strip().encode("latin-1")))
    return headers
