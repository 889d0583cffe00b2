"""URLs: what is connected to, what is asked for, what is shown, and what is refused."""

from __future__ import annotations

import base64

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpcore.transport.net.url import Url, parse, resolve


@pytest.mark.parametrize(
    ("text", "url", "shown"),
    [
        ("http://h", Url("http", "h", 80, "/"), "http://h/"),
        ("HTTPS://H.Example/p", Url("https", "h.example", 443, "/p"), "https://h.example/p"),
        ("  http://h:80/a \n", Url("http", "h", 80, "/a"), "http://h/a"),
        ("http://h:443/a", Url("http", "h", 443, "/a"), "http://h:443/a"),
        ("https://h:0/", Url("https", "h", 0, "/"), "https://h:0/"),
        ("http://h:/a", Url("http", "h", 80, "/a"), "http://h/a"),
        ("http://h/a?key=s3cret", Url("http", "h", 80, "/a?key=s3cret"), "http://h/a?..."),
        ("http://h?q", Url("http", "h", 80, "/?q"), "http://h/?..."),
        ("http://h/a#part", Url("http", "h", 80, "/a"), "http://h/a"),
        ("http://[::1]:8/m", Url("http", "::1", 8, "/m"), "http://[::1]:8/m"),
        ("http://[::1]/m", Url("http", "::1", 80, "/m"), "http://[::1]/m"),
        ("http://bücher.example/", Url("http", "xn--bcher-kva.example", 80, "/"), None),
        ("http://h/a b/ü", Url("http", "h", 80, "/a%20b/%C3%BC"), None),
        ("http://h/%C3%BC", Url("http", "h", 80, "/%C3%BC"), None),
        ("http://h/\U0001f600", Url("http", "h", 80, "/%F0%9F%98%80"), None),
    ],
)
def test_a_url_is_read(text: str, url: Url, shown: str | None) -> None:
    assert parse(text) == url
    assert shown is None or str(parse(text)) == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "http:// or https://"),
        ("h/p", "http:// or https://"),
        ("ftp://h/", "not 'ftp'"),
        ("http:///p", "names no host"),
        ("http://user:s3cret@/p", "names no host"),
        ("http://h:99999/", "its port"),
        ("http://user:s3/cret@h/", "its port"),
        ("http://user:s3\u2100cret@h/", "no URL"),
        ("http://[::1", "no URL"),
        ("http://a..b/", "no name"),
        ("http://a b/", "no name"),
        ("http://" + "a" * 64 + "/", "no name"),
        ("http://h/\udc80", "surrogates"),
    ],
)
def test_what_is_no_url_is_refused_without_its_secrets(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as failure:
        parse(text)
    assert "s3" not in str(failure.value)
    assert "cret" not in str(failure.value)


def test_userinfo_becomes_authorization_and_is_never_shown() -> None:
    url = parse("http://us%40er:p%3Ass@h:8080/p?token=abc")
    assert url.authorization == "Basic " + base64.b64encode(b"us@er:p:ss").decode()
    assert str(url) == "http://h:8080/p?..."
    assert parse("http://user@h/").authorization == "Basic " + base64.b64encode(b"user:").decode()


@pytest.mark.parametrize(
    ("location", "meant"),
    [
        ("/other", "http://h:1/other"),
        ("other?x", "http://h:1/a/other?..."),
        ("?x", "http://h:1/a/b?..."),
        ("//elsewhere/p", "http://elsewhere/p"),
        ("https://h/p", "https://h/p"),
    ],
)
def test_a_location_is_resolved_against_the_url(location: str, meant: str) -> None:
    assert str(resolve(parse("http://h:1/a/b?q=1"), location)) == meant


@given(st.text())
def test_any_path_and_query_gives_a_target_that_http_admits(text: str) -> None:
    try:
        url = parse(f"http://h/{text}")
    except ValueError:
        return
    h11.Request(method="GET", target=url.target, headers=[("Host", url.authority)])
    assert resolve(url, url.target).target == url.target or url.target.startswith("//")


@given(st.text())
def test_any_text_is_a_url_that_can_be_asked_for_or_a_value_error(text: str) -> None:
    for attempt in (text, f"http://{text}", f"https://{text}/", f"http://[{text}]/"):
        try:
            url = parse(attempt)
        except ValueError:
            continue
        h11.Request(method="GET", target=url.target, headers=[("Host", url.authority)])
        assert 0 <= url.port <= 65535
        assert str(url).startswith(url.origin)
