"""From a URL to an open stream: TCP, TLS, a proxy in between, or a Unix socket.

Whatever goes wrong on the way is one `ConnectionLost` whose message names the step and what it met.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl

import h11
import trio

from mcpcore.errors import ConnectionLost
from mcpcore.transport.net.url import Url, parse
from mcpcore.transport.web import Network

MAX_PROXY_ANSWER = 16 * 1024


def proxy_for(url: Url, network: Network) -> Url | None:
    """The proxy to reach `url` by. Raises ValueError for one that is no URL."""
    if network.unix_socket is not None:
        return None
    if network.proxy is not None:
        return _parse_proxy(network.proxy) if network.proxy else None
    if _bypasses(url, _environment("NO_PROXY")):
        return None
    named = _environment(f"{url.scheme}_PROXY") or _environment("ALL_PROXY")
    return _parse_proxy(named) if named else None


def _environment(name: str) -> str:
    # In a CGI program a client's header Proxy turns up as HTTP_PROXY.
    if name.upper() == "HTTP_PROXY" and "REQUEST_METHOD" in os.environ:
        return os.environ.get("http_proxy", "")
    return os.environ.get(name.lower()) or os.environ.get(name.upper(), "")


def _parse_proxy(text: str) -> Url:
    try:
        proxy = parse(text if "://" in text else f"http://{text}")
    except ValueError as error:
        raise ValueError(f"the proxy: {error}") from None
    return proxy


def _bypasses(url: Url, no_proxy: str) -> bool:
    """Whether NO_PROXY names the host: `*`, a name with all below it, an address, or a network."""
    for entry in no_proxy.replace(",", " ").split():
        if entry == "*":
            return True
        name, port = entry, ""
        if entry.count(":") == 1:
            name, _, port = entry.partition(":")
        if port and port != str(url.port):
            continue
        name = name.lower().strip("[]").lstrip("*").lstrip(".")
        if url.host == name or url.host.endswith(f".{name}"):
            return True
        try:
            if ipaddress.ip_address(url.host) in ipaddress.ip_network(name, strict=False):
                return True
        except ValueError:
            continue
    return False


async def open_stream(url: Url, proxy: Url | None, network: Network) -> trio.abc.Stream:
    """Open a stream to `url`, through `proxy` if there is one. Raises `ConnectionLost`."""
    with trio.move_on_after(network.connect) as scope:
        return await _open(url, proxy, network)
    assert scope.cancelled_caught
    raise ConnectionLost(f"{url}: no connection within {network.connect:g} s")


async def _open(url: Url, proxy: Url | None, network: Network) -> trio.abc.Stream:
    stream: trio.abc.Stream
    if network.unix_socket is not None:
        try:
            stream = await trio.open_unix_socket(network.unix_socket)
        except OSError as error:
            raise ConnectionLost(f"{network.unix_socket}: {_why(error)}") from None
    else:
        try:
            stream = await _open_tcp(proxy or url)
        except ConnectionLost as error:
            if proxy is not None:
                raise ConnectionLost(f"the proxy {error.reason}") from None
            raise
        if proxy is not None and proxy.scheme == "https":
            stream = await _secure(stream, proxy, network)
    if proxy is not None and url.scheme == "https":
        stream = await _tunnel(stream, url, proxy)
    if url.scheme == "https":
        stream = await _secure(stream, url, network)
    return stream


async def _open_tcp(url: Url) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(url.host, url.port)
    except OSError as error:
        raise ConnectionLost(f"{url}: {_why(error)}") from None


def _why(error: OSError) -> str:
    """What a failure to connect means, in words."""
    if isinstance(error.__cause__, BaseExceptionGroup):
        # One failure for each address of the host: the first is as good as any.
        first = error.__cause__.exceptions[0]
        if isinstance(first, OSError):
            error = first
    if isinstance(error, socket.gaierror):
        return f"the host is not known ({error.strerror})"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused; is the server running, and on this port?"
    return f"the connection failed ({error.strerror or error})"


async def _secure(stream: trio.abc.Stream, url: Url, network: Network) -> trio.abc.Stream:
    context = network.ssl_context or ssl.create_default_context()
    secured = trio.SSLStream(stream, context, server_hostname=url.host, https_compatible=True)
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(secured)
        cause = error.__cause__
        why = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or cause
        raise ConnectionLost(f"{url}: TLS failed ({why or 'the connection ended'})") from None
    except BaseException:
        await trio.aclose_forcefully(secured)
        raise
    return secured


async def _tunnel(stream: trio.abc.Stream, url: Url, proxy: Url) -> trio.abc.Stream:
    """Ask the proxy for a connection to `url`."""
    try:
        status = await _ask_for_tunnel(stream, url, proxy)
    except (trio.BrokenResourceError, h11.RemoteProtocolError) as error:
        await trio.aclose_forcefully(stream)
        raise ConnectionLost(f"the proxy {proxy} failed: {error}") from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    if 200 <= status < 300:
        return stream
    await trio.aclose_forcefully(stream)
    hint = "; it wants a user and a password" if status == 407 else ""
    raise ConnectionLost(f"the proxy {proxy} answered {status or 'nothing'}{hint}")


async def _ask_for_tunnel(stream: trio.abc.Stream, url: Url, proxy: Url) -> int:
    """The status of the proxy's answer; 0 if there was none."""
    target = f"{'[' + url.host + ']' if ':' in url.host else url.host}:{url.port}"
    headers = [("Host", target)]
    if proxy.authorization is not None:
        headers.append(("Proxy-Authorization", proxy.authorization))
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_PROXY_ANSWER)
    request = h11.Request(method="CONNECT", target=target, headers=headers)
    await stream.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some(4096)))
        elif not isinstance(event, h11.InformationalResponse):
            break
    return event.status_code if isinstance(event, h11.Response) else 0
