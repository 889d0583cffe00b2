"""From a URL to a stream: TCP, TLS, proxies, Unix sockets, and each way in which that fails."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
import trio
import trustme
from net_peers import Talker, TinyProxy, answer, free_port, http_client, read_request, talking
from trio.testing import MockClock

from mcpcore.errors import ConnectionLost
from mcpcore.transport.net.connect import open_stream, proxy_for
from mcpcore.transport.net.url import parse
from mcpcore.transport.web import Network


async def failure(url: str, proxy: str | None = None, **settings: object) -> str:
    """Why there is no stream to `url`."""
    network = Network(**settings)  # type: ignore[arg-type]
    with pytest.raises(ConnectionLost) as lost:
        await open_stream(parse(url), parse(proxy) if proxy else None, network)
    assert lost.value.__cause__ is None
    return lost.value.reason


# Which proxy.


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("http://h/", {}, None),
        ("http://h/", {"HTTP_PROXY": "http://p:3128"}, "http://p:3128/"),
        ("http://h/", {"HTTPS_PROXY": "http://p:3128"}, None),
        ("https://h/", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128/"),
        ("https://h/", {"HTTP_PROXY": "http://p:3128"}, None),
        ("http://h/", {"ALL_PROXY": "http://p"}, "http://p/"),
        ("http://h/", {"ALL_PROXY": "http://all", "HTTP_PROXY": "http://p"}, "http://p/"),
        ("http://h/", {"HTTP_PROXY": "p:8"}, "http://p:8/"),
        ("http://h/", {"http_proxy": "http://low", "HTTP_PROXY": "http://UP"}, "http://low/"),
        # A header named Proxy must not choose the proxy of a CGI program.
        ("http://h/", {"HTTP_PROXY": "http://evil", "REQUEST_METHOD": "GET"}, None),
        ("http://h/", {"http_proxy": "http://p", "REQUEST_METHOD": "GET"}, "http://p/"),
        ("https://h/", {"HTTPS_PROXY": "http://p", "REQUEST_METHOD": "GET"}, "http://p/"),
    ],
)
def test_the_environment_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch, url: str, environment: dict[str, str], proxy: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = proxy_for(parse(url), Network())
    assert (str(found) if found else None) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("", "http://h/", False),
        ("*", "http://h/", True),
        ("h", "http://h/", True),
        ("H", "http://h/", True),
        ("h", "http://xh/", False),
        ("example.com", "http://a.example.com/", True),
        (".example.com", "http://a.example.com/", True),
        (".example.com", "http://example.com/", True),
        ("*.example.com", "http://a.example.com/", True),
        ("example.com", "http://badexample.com/", False),
        ("a, b  c", "http://b/", True),
        ("a, b  c", "http://c/", True),
        ("h:8080", "http://h:8080/", True),
        ("h:8080", "http://h/", False),
        ("127.0.0.1", "http://127.0.0.1:9/", True),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("10.0.0.0/8", "http://h/", False),
        ("10.0.0.0/8", "http://[::1]/", False),
        ("::1", "http://[::1]/", True),
        ("[::1]", "http://[::1]/", True),
        ("fe80::/10", "http://[fe80::1]/", True),
        ("nonsense/99 h", "http://h/", True),
    ],
)
def test_no_proxy_names_what_is_reached_directly(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, url: str, direct: bool
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://p")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (proxy_for(parse(url), Network()) is None) == direct


def test_what_the_program_says_of_a_proxy_beats_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://environment")
    monkeypatch.setenv("NO_PROXY", "*")
    url = parse("http://h/")
    assert str(proxy_for(url, Network(proxy="http://p:1"))) == "http://p:1/"
    monkeypatch.delenv("NO_PROXY")
    assert proxy_for(url, Network(proxy="")) is None
    assert proxy_for(url, Network(unix_socket="/s", proxy="http://p:1")) is None


@pytest.mark.parametrize("proxy", ["socks5://user:s3cret@p", "http://user:s3/cret@p"])
async def test_a_proxy_that_is_no_url_is_a_lost_connection_without_its_secrets(proxy: str) -> None:
    async with http_client(proxy=proxy) as client:
        with pytest.raises(ConnectionLost, match="the proxy: ") as lost:
            await client.request(b"GET", parse("http://h/"), [])
    assert "s3" not in str(lost.value)


# Failures to connect.


async def test_a_name_that_is_not_known_is_said_so() -> None:
    assert "http://nowhere.invalid/: the host is not known" in await failure(
        "http://nowhere.invalid/"
    )


async def test_a_refused_connection_asks_whether_the_server_is_running() -> None:
    port = free_port()
    said = await failure(f"http://user:s3cret@127.0.0.1:{port}/mcp?key=s3cret")
    assert said == (
        f"http://127.0.0.1:{port}/mcp?...: the connection was refused; is the server running, "
        "and on this port?"
    )


async def test_every_address_of_a_host_refused_is_one_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class TwoAddresses(trio.abc.HostnameResolver):
        async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port))
                for address in ("127.0.0.1", "127.0.0.2")
            ]

        async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    before = trio.socket.set_custom_hostname_resolver(TwoAddresses())
    try:
        assert "refused" in await failure(f"http://two.example:{free_port()}/")
    finally:
        trio.socket.set_custom_hostname_resolver(before)


async def test_another_failure_is_told_in_the_words_of_the_system() -> None:
    # A stream cannot be opened to a broadcast address.
    assert "the connection failed (" in await failure("http://255.255.255.255:9/")


async def test_a_connection_that_takes_too_long_ends(autojump_clock: MockClock) -> None:
    closed = trio.Event()

    async def silent(stream: trio.abc.Stream) -> None:
        # The first bytes of a handshake, which is never answered, and then the end.
        while await stream.receive_some(65536):
            pass
        closed.set()

    async with talking(silent) as port:
        assert await failure(f"https://127.0.0.1:{port}/", connect=2.5) == (
            f"https://127.0.0.1:{port}/: no connection within 2.5 s"
        )
        await closed.wait()


async def test_cancelling_a_handshake_closes_the_connection() -> None:
    begun, closed = trio.Event(), trio.Event()

    async def silent(stream: trio.abc.Stream) -> None:
        while await stream.receive_some(65536):
            begun.set()
        closed.set()

    async with talking(silent) as port:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_stream, parse(f"https://127.0.0.1:{port}/"), None, Network())
            await begun.wait()
            nursery.cancel_scope.cancel()
        await closed.wait()


# TLS.


async def test_https_is_asked_and_answered(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    talker = Talker()
    async with talking(talker, server_tls) as port, http_client(ssl_context=client_tls) as client:
        for _ in range(2):
            exchange = await client.request(b"GET", parse(f"https://127.0.0.1:{port}/"), [])
            assert await exchange.read(10) == b"ok"
            exchange.close()
        assert talker.connections == 1


async def test_a_certificate_of_a_stranger_fails_with_what_is_wrong_with_it(
    server_tls: ssl.SSLContext,
) -> None:
    """Here with what the system trusts, which is the default."""
    async with talking(Talker(), server_tls) as port:
        said = await failure(f"https://127.0.0.1:{port}/")
    assert f"https://127.0.0.1:{port}/: TLS failed (" in said
    assert "certificate" in said


async def test_a_certificate_for_another_host_fails_with_what_is_wrong_with_it(
    authority: trustme.CA, client_tls: ssl.SSLContext
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("other.example").configure_cert(context)
    async with talking(Talker(), context) as port:
        said = await failure(f"https://127.0.0.1:{port}/", ssl_context=client_tls)
    assert "127.0.0.1" in said.partition("TLS failed")[2]


async def test_https_to_a_server_without_tls_fails() -> None:
    async def plain(stream: trio.abc.Stream) -> None:
        await stream.receive_some(65536)
        await stream.send_all(answer(b"", "400 Bad Request"))

    async with talking(plain) as port:
        assert "TLS failed (" in await failure(f"https://127.0.0.1:{port}/")


async def test_a_server_that_ends_in_the_handshake_fails() -> None:
    async def rude(stream: trio.abc.Stream) -> None:
        await stream.receive_some(65536)

    async with talking(rude) as port:
        said = await failure(f"https://127.0.0.1:{port}/")
    assert "TLS failed (" in said
    assert "()" not in said


# Proxies.


async def test_http_goes_through_a_proxy_by_its_absolute_target() -> None:
    talker, proxy = Talker(), TinyProxy()
    async with talking(talker) as port, talking(proxy) as proxy_port:
        assert proxy_port != port
        async with http_client(proxy=f"http://127.0.0.1:{proxy_port}") as client:
            exchange = await client.request(
                b"POST", parse(f"http://127.0.0.1:{port}/mcp?q"), [], b"{}"
            )
            assert await exchange.read(10) == b"ok"
            exchange.close()
    assert proxy.heads[0].startswith(f"POST http://127.0.0.1:{port}/mcp?q HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization" not in proxy.heads[0]
    assert talker.requests[0].startswith(b"POST /mcp?q HTTP/1.1\r\n")


async def test_https_goes_through_a_tunnel(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    talker, proxy = Talker(), TinyProxy("Basic dXNlcjpzM2NyZXQ=")
    async with (
        talking(talker, server_tls) as port,
        talking(proxy) as proxy_port,
        http_client(
            proxy=f"http://user:s3cret@127.0.0.1:{proxy_port}", ssl_context=client_tls
        ) as client,
    ):
        exchange = await client.request(b"GET", parse(f"https://127.0.0.1:{port}/p"), [])
        assert await exchange.read(10) == b"ok"
        exchange.close()
    assert proxy.heads[0].startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n".encode())
    # The server never sees what was for the proxy.
    assert b"dXNlcjpzM2NyZXQ=" not in talker.requests[0]
    assert talker.requests[0].startswith(b"GET /p HTTP/1.1\r\n")


async def test_a_proxy_may_itself_be_reached_by_tls(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    talker, proxy = Talker(), TinyProxy()
    async with (
        talking(talker, server_tls) as port,
        talking(proxy, server_tls) as proxy_port,
        http_client(proxy=f"https://127.0.0.1:{proxy_port}", ssl_context=client_tls) as client,
    ):
        exchange = await client.request(b"GET", parse(f"https://127.0.0.1:{port}/"), [])
        assert await exchange.read(10) == b"ok"
        exchange.close()


async def test_the_user_of_a_proxy_goes_with_each_absolute_target() -> None:
    talker, proxy = Talker(), TinyProxy("Basic dXNlcjpzM2NyZXQ=")
    async with talking(talker) as port, talking(proxy) as proxy_port:
        assert proxy_port != port
        async with http_client(proxy=f"http://user:s3cret@127.0.0.1:{proxy_port}") as client:
            exchange = await client.request(b"GET", parse(f"http://127.0.0.1:{port}/"), [])
            assert exchange.status == 200
            exchange.close()


async def test_a_tunnel_that_is_refused_for_want_of_a_user_says_so() -> None:
    async with talking(TinyProxy("Basic other")) as port:
        said = await failure("https://h/", f"http://user:s3cret@127.0.0.1:{port}")
    assert said == (
        f"the proxy http://127.0.0.1:{port}/ answered 407; it wants a user and a password"
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (answer(b"", "502 Bad Gateway"), "answered 502"),
        (b"<html>no HTTP</html>\r\n\r\n", "failed: illegal status line"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, "failed: "),
        (b"HTTP/1.1 200", "failed: "),
        (b"", "failed: "),
    ],
)
async def test_a_proxy_that_gives_no_tunnel_is_named(said: bytes, why: str) -> None:
    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(said)

    async with talking(talk) as port:
        reason = await failure("https://h/", f"http://127.0.0.1:{port}")
    assert reason.startswith(f"the proxy http://127.0.0.1:{port}/ {why}")
    assert not reason.endswith(": ")


async def test_news_before_the_answer_of_a_proxy_are_passed_over(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def talk(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(b"HTTP/1.1 102 Processing\r\n\r\n" + b"HTTP/1.1 200 OK\r\n\r\n")
        tls = trio.SSLStream(stream, server_tls, server_side=True, https_compatible=True)
        await tls.do_handshake()

    async with talking(talk) as port:
        network = Network(ssl_context=client_tls)
        proxy = parse(f"http://127.0.0.1:{port}")
        stream = await open_stream(parse("https://127.0.0.1/"), proxy, network)
        await trio.aclose_forcefully(stream)


async def test_a_proxy_that_is_not_there_is_named_as_the_proxy() -> None:
    port = free_port()
    said = await failure("http://h/", f"http://user:s3cret@127.0.0.1:{port}")
    assert said.startswith(f"the proxy http://127.0.0.1:{port}/: the connection was refused")


async def test_cancelling_while_a_proxy_thinks_closes_the_connection() -> None:
    begun, closed = trio.Event(), trio.Event()

    async def silent(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        begun.set()
        await stream.receive_some(1)
        closed.set()

    async with talking(silent) as port:
        async with trio.open_nursery() as nursery:
            proxy = parse(f"http://127.0.0.1:{port}")
            nursery.start_soon(open_stream, parse("https://h/"), proxy, Network())
            await begun.wait()
            nursery.cancel_scope.cancel()
        await closed.wait()


async def test_a_tunnel_to_an_ipv6_address_names_it_in_brackets() -> None:
    proxy = TinyProxy("nobody")
    async with talking(proxy) as port:
        await failure("https://[::1]:8443/", f"http://127.0.0.1:{port}")
    assert b"CONNECT [::1]:8443 HTTP/1.1\r\nHost: [::1]:8443\r\n" in proxy.heads[0]


# Unix sockets.


async def test_a_unix_socket_is_used_instead_of_host_and_port(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    talker = Talker()
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(path)
    listening.listen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, talker, [trio.SocketListener(listening)])
        async with http_client(unix_socket=path, proxy="http://p") as client:
            exchange = await client.request(b"GET", parse("http://localhost/mcp"), [])
            assert await exchange.read(10) == b"ok"
            exchange.close()
        nursery.cancel_scope.cancel()
    assert b"Host: localhost\r\n" in talker.requests[0]


async def test_a_unix_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    said = await failure("http://localhost/", unix_socket=path)
    assert said == f"{path}: the connection failed (No such file or directory)"


async def test_a_path_too_long_for_a_unix_socket_is_one_failure() -> None:
    assert "the connection failed (" in await failure("http://h/", unix_socket="/" + "x" * 200)
