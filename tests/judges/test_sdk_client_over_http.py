"""The official SDK's client drives our server over Streamable HTTP, behind both fronts.

The long conversation and what is expected of it are those of stdio; only the way there is another. What
there is over HTTP alone follows: sessions, streams that are cut and resumed, endpoints without sessions.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
import test_the_sdk_against_our_server as on_stdio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from observing import PATIENCE, Heard, Observations
from sdk_http_programs import serving
from sdk_http_witness import Witness, witness

pytestmark = [pytest.mark.judge, pytest.mark.process]

FRONTS = ("listener", "hypercorn")
NEWEST = on_stdio.NEWEST_OFFER

ONLY_ON_STDIO = {
    "test_prints_of_a_tool_go_to_stderr",
    "test_a_client_that_probes_for_the_stateless_revision_falls_back",
    "test_a_client_that_insists_on_the_stateless_revision_gets_an_error",
}
globals().update(
    (name, value)
    for name, value in vars(on_stdio).items()
    if name.startswith("test_") and name not in ONLY_ON_STDIO
)

texts = on_stdio.texts


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with serving("sdk_http_our_server.py") as where:
        yield where


@pytest.fixture(
    scope="module",
    params=[
        *((f"{front}-{each}", each) for front in FRONTS for each in on_stdio.OLDEST_FIRST),
        # The same, but for every answer a stream of events.
        ("listener-events", NEWEST),
        # Nothing is stored, so events have no ids.
        ("hypercorn-forgetful", NEWEST),
    ],
    ids=lambda param: param[0],
)
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def revision(way: tuple[str, str]) -> str:
    return way[1]


@pytest.fixture(scope="module")
def seen(way: tuple[str, str], urls: dict[str, str]) -> Observations:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_stdio, "target", lambda revision, stderr: reached(urls[way[0]]))
        return on_stdio.run(on_stdio.converse, way[1])


@pytest.fixture(params=FRONTS)
def front(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's client waits a second before it comes back, unless it is told how long."""
    monkeypatch.setattr("mcp.client.streamable_http.DEFAULT_RECONNECTION_DELAY_MS", 200)


@asynccontextmanager
async def reached(url: str) -> AsyncIterator[Any]:
    """The SDK's transport to a URL, whatever the environment says of proxies."""
    async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as web:  # noqa: SIM117
        async with streamable_http_client(url, http_client=web) as streams:
            yield streams


@asynccontextmanager
async def watched(url: str, **options: Any) -> AsyncIterator[tuple[Client, Witness]]:
    """A client, and the witness of its requests."""
    with anyio.fail_after(PATIENCE):
        async with witness(url) as seeing:
            target: Any = reached(seeing.url)
            async with Client(target, mode="legacy", cache=None, **options) as client:
                yield client, seeing


async def hold(
    client: Client, tool: str, meanwhile: Callable[[], Any]
) -> tuple[list[str], list[float]]:
    """Call a tool that waits to be released, and do something once it is at work; gives what it
    said, and the progress that was heard.
    """
    steps = Heard()
    said: list[str] = []

    async def step(done: float, total: float | None, words: str | None) -> None:
        steps.append(done)

    async def call() -> None:
        said.extend(texts(await client.call_tool(tool, progress_callback=step)))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await steps.until(1)
        await meanwhile()
    return said, list(steps)


def test_prints_of_a_tool_do_no_harm(seen: Observations) -> None:
    assert texts(seen["printed"]) == ["printed"]
    assert not [message for message in seen["messages"] if isinstance(message, Exception)]


# Sessions.


def test_the_session_is_named_from_initialize_to_delete(urls: dict[str, str], front: str) -> None:
    async def converse() -> Witness:
        async with watched(urls[f"{front}-more"]) as (client, seeing):
            await client.call_tool("echo")
            await client.list_tools()
            # It waits for nothing, and might never leave: the answer to the next one shows that it did.
            await client.send_ping()
        return seeing

    seeing = on_stdio.run(converse)
    first, *others = [request for request in seeing.seen if request.method != "GET"]
    assert "mcp-session-id" not in first.headers
    (session,) = {request.headers.get("mcp-session-id") for request in others}
    assert session
    assert {request.headers.get("mcp-protocol-version") for request in others} == {NEWEST}
    (ended,) = seeing.of("DELETE")
    assert ended.status == 204
    (listening,) = seeing.of("GET")
    assert (listening.status, listening.headers["mcp-session-id"]) == (200, session)
    assert {request.status for request in seeing.of("POST")} == {200, 202}


def test_what_happens_in_one_session_is_told_in_the_others(
    urls: dict[str, str], front: str
) -> None:
    """On the server's own stream: the other client waits for no answer on which it could come."""
    messages = Heard()

    async def converse() -> set[str]:
        url = urls[f"{front}-more"]
        async with watched(url) as (one, by_one):  # noqa: SIM117
            async with watched(url, message_handler=keep(messages)) as (other, by_other):
                await other.subscribe_resource("note:///1")
                await one.call_tool("touch")
                await messages.until(1)
                (name,) = texts(await one.call_tool("grow"))
                await messages.until(2)
                tools = on_stdio.items(await on_stdio.pages(other.list_tools), "tools")
                assert name in [tool.name for tool in tools]
                return {by_one.session, by_other.session}

    assert len(on_stdio.run(converse)) == 2
    assert [type(message) for message in messages] == [
        types.ResourceUpdatedNotification,
        types.ToolListChangedNotification,
    ]


def test_a_session_that_was_ended_is_not_found(urls: dict[str, str], front: str) -> None:
    """The SDK's client does not open another by itself; who uses it is told, and may."""

    async def converse() -> list[str]:
        url = urls[f"{front}-more"]
        async with watched(url) as (client, seeing):
            await client.send_ping()
            async with httpx2.AsyncClient(trust_env=False) as other:
                headers = {"Mcp-Session-Id": seeing.session}
                assert (await other.delete(url, headers=headers)).status_code == 204
                assert (await other.delete(url, headers=headers)).status_code == 404
            with pytest.raises(MCPError, match="Session terminated"):
                await client.call_tool("echo")
            assert 404 in {request.status for request in seeing.of("POST")}
        async with watched(url) as (client, _):
            return texts(await client.call_tool("echo"))

    assert json.loads(on_stdio.run(converse)[0]) == {"word": "", "n": 0}


def test_ending_a_session_cancels_what_is_at_work_in_it(urls: dict[str, str], front: str) -> None:
    async def converse() -> tuple[list[str], list[str]]:
        url = urls[f"{front}-more"]
        async with watched(url) as (client, seeing):

            async def end() -> None:
                async with httpx2.AsyncClient(trust_env=False) as other:
                    headers = {"Mcp-Session-Id": seeing.session}
                    await other.delete(url, headers=headers)

            failure = ""
            try:
                await hold(client, "wait", end)
            except* MCPError as group:
                failure = str(group.exceptions[0])
        async with watched(url) as (client, _):
            return [failure], texts(await client.call_tool("what_was_heard"))

    (failure,), heard = on_stdio.run(converse)
    assert failure, "the call was answered"
    assert "wait cancelled" in heard


# Streams that are cut.


def test_a_call_and_the_own_stream_of_the_server_are_resumed(
    urls: dict[str, str], front: str
) -> None:
    """What was said while there was no connection arrives, and nothing arrives twice."""
    messages = Heard()

    async def converse() -> tuple[list[str], list[float], Witness]:
        async with watched(urls[f"{front}-more"], message_handler=keep(messages)) as (
            client,
            seeing,
        ):
            await client.subscribe_resource("note:///1")

            async def break_off() -> None:
                await seeing.cut()
                await client.call_tool("touch")
                await client.call_tool("release")

            said, steps = await hold(client, "hold", break_off)
            await messages.until(1)
            # Whatever came twice would come before the answer to this.
            await client.call_tool("touch")
            await messages.until(2)
            return said, steps, seeing

    said, steps, seeing = on_stdio.run(converse)
    assert said == ["kept"]
    assert steps == [1, 2]
    updates = [m for m in messages if isinstance(m, types.ResourceUpdatedNotification)]
    assert [update.params.uri for update in updates] == ["note:///1"] * 2
    places = [request.headers.get("last-event-id") for request in seeing.of("GET")]
    assert places.count(None) == 1, "the stream that belongs to no request is opened once"
    assert len([place for place in places if place]) >= 2


def test_a_call_that_cannot_be_resumed_fails(urls: dict[str, str], front: str) -> None:
    """Where nothing is stored, events have no ids."""

    async def converse() -> str:
        async with watched(urls[f"{front}-more-forgetful"]) as (client, seeing):

            async def break_off() -> None:
                await seeing.cut()

            with pytest.raises(ExceptionGroup) as caught:
                await hold(client, "hold", break_off)
            await client.call_tool("release")
            return str(caught.value.exceptions[0])

    assert "without a response" in on_stdio.run(converse)


def test_a_handler_may_let_go_of_the_connection(urls: dict[str, str], front: str) -> None:
    async def converse() -> tuple[list[str], list[float], Witness]:
        async with watched(urls[f"{front}-more"]) as (client, seeing):
            said, steps = await hold(client, "poll", partial(client.call_tool, "release"))
            return said, steps, seeing

    said, steps, seeing = on_stdio.run(converse)
    assert said == ["polled"]
    assert steps == [1]
    assert [place for get in seeing.of("GET") if (place := get.headers.get("last-event-id"))]


# Cancellation from the server's side.


def test_a_question_that_the_server_gives_up_is_cancelled_at_the_client(
    urls: dict[str, str], front: str
) -> None:
    async def converse() -> tuple[list[str], bool]:
        asked, cancelled = anyio.Event(), anyio.Event()

        async def think(context: Any, params: Any) -> Any:
            asked.set()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                cancelled.set()
                raise

        said: list[str] = []
        async with watched(urls[f"{front}-more"], sampling_callback=think) as (client, _):

            async def call() -> None:
                said.extend(texts(await client.call_tool("give_up")))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await asked.wait()
                await client.call_tool("release")
            # Leaving would cancel it, too.
            await cancelled.wait()
            return said, True

    assert on_stdio.run(converse) == (["gave up"], True)


# Endpoints without sessions.


def test_an_endpoint_without_sessions_serves_what_needs_none(
    urls: dict[str, str], front: str
) -> None:
    steps = Heard()
    logged = Heard()

    async def step(done: float, total: float | None, words: str | None) -> None:
        steps.append(done)

    async def converse() -> tuple[Observations, Witness]:
        seen = Observations()
        async with watched(
            urls[f"{front}-more-stateless"],
            logging_callback=keep(logged),
            sampling_callback=on_stdio.Person().sample,
        ) as (client, seeing):
            call = client.call_tool
            await seen.step("tools", partial(on_stdio.pages, client.list_tools))
            await seen.step("echo", partial(call, "echo", {"n": 3}))
            await seen.step("progress", partial(call, "progress", progress_callback=step))
            await seen.step("log", partial(call, "log"))
            await seen.step("read", partial(client.read_resource, "note:///1"))
            await seen.step("prompt", partial(client.get_prompt, "first", {"city": "Oslo"}))
            await seen.step("refuses", partial(call, "refuses"))
            await seen.step("sample", partial(call, "sample"))
            await seen.step("ping", client.send_ping)
        return seen, seeing

    seen, seeing = on_stdio.run(converse)
    # Those of the program, and the five that this endpoint has besides.
    assert len(on_stdio.items(seen["tools"], "tools")) == 26
    assert json.loads(texts(seen["echo"])[0]) == {"word": "", "n": 3}
    assert texts(seen["progress"]) == ["done"]
    assert list(steps) == [1, 2, 3]
    assert len(logged) == 7
    assert seen["read"].contents[0].text == "one"
    assert seen["prompt"].messages[0].content.text == "Go to Oslo for 1"
    with pytest.raises(MCPError, match="not today"):
        seen["refuses"]
    assert seen["sample"].is_error, "nobody can be asked where there are no sessions"
    assert isinstance(seen["ping"], types.EmptyResult)
    assert seeing.sessions == {None}
    assert {request.method for request in seeing.seen} == {"POST"}, "no session, no other methods"


# Clients that begin with the stateless revision.


async def probe(url: str, mode: str) -> Observations:
    seen = Observations()
    async with Client(reached(url), mode=mode, cache=None) as client:
        seen.keep("revision", client.protocol_version)
        await seen.step("echo", partial(client.call_tool, "echo"))
    return seen


@pytest.mark.parametrize("revision", on_stdio.OLDEST_FIRST)
def test_a_client_that_probes_for_the_stateless_revision_falls_back(
    urls: dict[str, str], front: str, revision: str
) -> None:
    seen = on_stdio.run(probe, urls[f"{front}-{revision}"], "auto")
    assert seen["revision"] == revision
    assert json.loads(texts(seen["echo"])[0]) == {"word": "", "n": 0}


def test_a_client_that_insists_on_the_stateless_revision_gets_an_error(
    urls: dict[str, str], front: str
) -> None:
    seen = on_stdio.run(probe, urls[f"{front}-more"], "2026-07-28")
    with pytest.raises(MCPError) as caught:
        seen["echo"]
    assert -32768 <= caught.value.code <= -32000


def keep(heard: Heard) -> Any:
    """A callback that keeps what it is given."""

    async def callback(given: Any) -> None:
        heard.append(given)

    return callback
