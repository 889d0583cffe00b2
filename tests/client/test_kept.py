"""What a client keeps, for how long, and what ends it before its time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from msgspec import Raw
from test_eras import E, Message, discovered, peer

from mcpcore import CacheHint, Context, Server, connect
from mcpcore.client.kept import KeptResults


class Name(msgspec.Struct):
    name: str


class Counting:
    """A server by script whose results carry a hint; counts what it is asked for."""

    def __init__(self, **hint: Any) -> None:
        self.hint = hint
        self.asked: list[tuple[str, Any]] = []

    def __call__(self, message: Message) -> Any:
        method, params = message["method"], message["params"]
        if method == "server/discover":
            capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
            return discovered(E, capabilities=capabilities)
        self.asked.append((method, params.get("cursor", params.get("uri"))))
        if method == "tools/list":
            more = {} if "cursor" in params else {"nextCursor": ""}
            return {"tools": [], **more, **self.hint}
        return {"contents": [{"uri": params["uri"], "text": "x"}], **self.hint}


FOR_A_MINUTE = {"ttlMs": 60_000, "cacheScope": "private"}


async def test_cache_08_a_result_is_good_for_as_long_as_it_says(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """F-118; CACHE-05, CACHE-08, CACHE-11, CACHE-21: by method, URI and page; its time begins at its receipt."""
    script = Counting(**FOR_A_MINUTE)
    async with peer(script) as (channel, _), connect(channel) as client:
        for _ in range(3):
            await client.list_tools()
            await client.read_resource("x:a")
            await client.read_resource("x:b")
        once = [
            ("tools/list", None),
            ("tools/list", ""),
            ("resources/read", "x:a"),
            ("resources/read", "x:b"),
        ]
        assert script.asked == once
        await trio.sleep(59)
        await client.read_resource("x:a")
        assert script.asked == once
        await trio.sleep(2)
        await client.read_resource("x:a")
        assert script.asked == [*once, ("resources/read", "x:a")]
        # CACHE-12: nothing is asked for that nobody wants.
        await trio.sleep(1000)
        assert len(script.asked) == 5


@pytest.mark.parametrize(
    "hint",
    [
        {},
        {"ttlMs": 0, "cacheScope": "public"},
        {"ttlMs": -1, "cacheScope": "public"},
        {"cacheScope": "public"},
    ],
)
async def test_cache_07_without_a_time_nothing_is_kept(hint: Any) -> None:
    """CACHE-07, CACHE-09, CACHE-10."""
    script = Counting(**hint)
    async with peer(script) as (channel, _), connect(channel) as client:
        await client.read_resource("x:a")
        await client.read_resource("x:a")
    assert len(script.asked) == 2


async def test_cache_29_nothing_is_kept_for_more_than_a_day(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Counting(ttlMs=10**12, cacheScope="public")
    async with peer(script) as (channel, _), connect(channel) as client:
        await client.read_resource("x:a")
        await trio.sleep(24 * 3600 + 1)
        await client.read_resource("x:a")
    assert len(script.asked) == 2


async def test_cache_20_a_change_ends_it() -> None:
    calls: list[str] = []
    server = Server("kept", "1", list_cache=CacheHint(seconds=60), declare=["tools", "prompts"])

    @server.resource("x:a", subscribable=True, cache=CacheHint(seconds=60, scope="public"))
    def a() -> str:
        calls.append("a")
        return "x"

    changed, updated = trio.Event(), trio.Event()
    async with connect(
        server,
        on_list_changed=lambda _: changed.set(),
        on_resource_updated=lambda _: updated.set(),
    ) as client:
        await client.subscribe("x:a")
        for _ in range(2):
            result = await client.read_resource("x:a")
        assert (result.ttl_ms, result.cache_scope) == (60_000, "public")
        assert await client.list_tools() == []
        assert calls == ["a"]
        server.resource_updated("x:a")
        server.tool(name="t")(lambda: "x")
        with trio.fail_after(20):
            await changed.wait()
            await updated.wait()
        assert len(await client.list_tools()) == 1
        await client.read_resource("x:a")
        await client.read_resource("x:a")
        assert calls == ["a", "a"]


async def test_cache_06_what_took_questions_is_not_kept() -> None:
    runs: list[str] = []
    server = Server("kept", "1")

    @server.resource("x:{key}", asks="replay", cache=CacheHint(seconds=60))
    async def asked(key: str, ctx: Context[Any]) -> str:
        runs.append(key)
        return (await ctx.elicit("q", Name, "?")).action

    async with connect(server, elicit=lambda _: {"name": "x"}) as client:
        for _ in range(2):
            await client.read_resource("x:a")
    assert len(runs) == 4


async def test_a_client_may_keep_nothing() -> None:
    script = Counting(**FOR_A_MINUTE)
    async with peer(script) as (channel, _), connect(channel, kept=0) as client:
        await client.read_resource("x:a")
        await client.read_resource("x:a")
    assert len(script.asked) == 2


async def test_cache_17_what_is_for_one_caller_is_not_kept_for_another(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Where headers are made anew each time, who asks may be another each time."""
    private = Raw(b'{"contents":[],"ttlMs":60000,"cacheScope":"private"}')
    public = Raw(b'{"contents":[],"ttlMs":60000,"cacheScope":"public"}')
    kept = KeptResults(only_public=True)
    for key, raw in (("x:a", private), ("x:b", public), ("x:c", Raw(b'{"ttlMs":'))):
        kept.put(("resources/read", key), raw)
    assert kept.get(("resources/read", "x:a")) is None
    assert kept.get(("resources/read", "x:b")) == public
    assert kept.get(("resources/read", "x:c")) is None
    kept.put(("tools/call", "x"), public)
    assert kept.get(("tools/call", "x")) is None


async def test_only_so_many_are_kept() -> None:
    raw = Raw(b'{"contents":[],"ttlMs":60000}')
    kept = KeptResults(entries=2)
    for uri in "abc":
        kept.put(("resources/read", uri), raw)
        kept.get(("resources/read", "a"))
    assert [kept.get(("resources/read", uri)) for uri in "abc"] == [raw, None, raw]


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_hint_is_a_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="negative"):
        CacheHint(seconds=seconds)
