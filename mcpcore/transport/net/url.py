"""URLs, as far as a client of one endpoint needs them: where to connect, what to ask for, what to show."""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

PORTS = {"http": 80, "https": 443}

_UNSAFE = re.compile(r"[^!-~]")
_HOST = re.compile(r"[!-~]+")


class Url(msgspec.Struct, frozen=True):
    """An http or https URL. `host` is as sockets take it (IPv6 without brackets, names in ASCII), `target`
    is path and query as they stand in a request, `authorization` the value that userinfo stands for.
    """

    scheme: str
    host: str
    port: int
    target: str
    authorization: str | None = None

    @property
    def authority(self) -> str:
        """Host and port as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        """The URL without secrets: no userinfo, and a query only by its being there."""
        path, question, _ = self.target.partition("?")
        return f"{self.origin}{path}{'?...' if question else ''}"


def parse(text: str) -> Url:
    """Read a URL. Raises ValueError, with a message that does not repeat its secrets."""
    try:
        parts = urlsplit(text.strip())
        host = parts.hostname
    except ValueError:
        # What urllib says of it may hold a password.
        raise ValueError("this is no URL: it has no host that can be told") from None
    try:
        port = parts.port
    except ValueError:
        # So may this: a slash in a password makes its beginning look like a port.
        raise ValueError("this is no URL: its port is no number from 0 to 65535") from None
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise ValueError(f"a URL begins with http:// or https://, not {scheme or 'this'!r}")
    if not host:
        raise ValueError("the URL names no host")
    try:
        host = host if ":" in host else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ValueError(f"the host {host!r} is no name: {error}") from None
    if not _HOST.fullmatch(host):
        raise ValueError(f"the host {host!r} is no name: it has characters that no name has")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    authorization = None
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(secret.encode()).decode()}"
    target = _UNSAFE.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), target
    )
    return Url(scheme, host, PORTS[scheme] if port is None else port, target, authorization)


def resolve(base: Url, location: str) -> Url:
    """The URL that a Location, or another reference, means at `base`. Raises ValueError."""
    return parse(urljoin(f"{base.origin}{base.target}", location))
