"""Our client drives the official SDK's server over Streamable HTTP, set up in each of its ways.

The long conversation and what is expected of it are those of stdio; only the way there is another. What
there is over HTTP alone follows: answers in JSON, no sessions, sessions that end, streams that are cut.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
import test_our_client_against_the_sdk as on_stdio
import trio
from handshake import connect
from observing import PATIENCE, Heard, Observations
from sdk_http_programs import serving
from sdk_http_witness import Witness, witness

from mcpcore import (
    Client,
    ConnectionLost,
    CreateMessageParams,
    RequestFailed,
    Root,
)
from mcpcore.errors import SessionEnded
from mcpcore.transport.web import HttpServer, Network
from mcpcore.types import PromptReference

pytestmark = [pytest.mark.judge, pytest.mark.process]

OLDEST_FIRST = on_stdio.OLDEST_FIRST
NEWEST = OLDEST_FIRST[-1]

globals().update(
    (name, value) for name, value in vars(on_stdio).items() if name.startswith("test_")
)

texts = on_stdio.texts


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with serving("sdk_http_sdk_server.py") as where:
        yield where


@pytest.fixture(
    scope="module",
    params=[
        *((f"events-{each}", each) for each in OLDEST_FIRST),
        # The same, but events have ids, and the first of each stream says only where to resume.
        (f"store-{NEWEST}", NEWEST),
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
        patch.setattr(on_stdio, "program", lambda _: at(urls[way[0]]))
        return trio.run(on_stdio.converse, way[1])


def at(url: str) -> HttpServer:
    """The server at a URL, whatever the environment says of proxies."""
    return HttpServer(url=url, network=Network(proxy=""))


@asynccontextmanager
async def watched(url: str, **options: Any) -> AsyncIterator[tuple[Client, Witness]]:
    """A client, and the witness of its requests."""
    with trio.fail_after(PATIENCE):
        async with witness(url) as seeing, connect(at(seeing.url), **options) as client:
            yield client, seeing


async def hold(
    client: Client, tool: str, meanwhile: Callable[[], Awaitable[Any]]
) -> tuple[list[str], list[float]]:
    """Call a tool that waits to be released, and do something once it is at work; gives what it
    said, and the progress that was heard.
    """
    steps = Heard()

    async def at_work() -> None:
        await steps.until(1)
        await meanwhile()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(at_work)
        result = await client.call_tool(tool, on_progress=steps.append)
    return texts(result), [step.progress for step in steps]


async def end(url: str, session: str) -> None:
    """End a session, as somebody else."""
    async with httpx2.AsyncClient(trust_env=False) as web:
        answer = await web.delete(url, headers={"Mcp-Session-Id": session})
        assert answer.status_code == 200


# The ways to answer.


@pytest.mark.parametrize("revision", OLDEST_FIRST)
async def test_answers_in_json(urls: dict[str, str], revision: str) -> None:
    """They have no room for what belongs to a request: it is lost, or cannot be asked. What belongs
    to none takes the server's own stream.
    """
    changed, updated, steps = Heard(), Heard(), Heard()
    person = on_stdio.Person()
    async with watched(
        urls[f"json-{revision}"],
        revisions=[revision],
        elicit=person.elicit,
        sample=person.sample,
        roots=[Root("file:///work", "work")],
        on_list_changed=changed.append,
        on_resource_updated=updated.append,
    ) as (client, seeing):
        assert client.revision == revision
        assert len(await client.list_tools()) == 20
        assert json.loads((await client.call_tool("echo", {"n": 1})).text) == {"n": 1}
        assert len((await client.call_tool("kinds")).content) == 6
        with pytest.raises(RequestFailed, match="not today"):
            await client.call_tool("refuses")
        assert texts(await client.call_tool("progress", on_progress=steps.append)) == ["done"]
        assert steps == []
        with pytest.raises(RequestFailed):
            await client.call_tool("elicit")
        assert person.asked == []
        assert texts(await client.call_tool("sample"))[2] == "three metres"
        assert texts(await client.call_tool("roots")) == ["work=file:///work"]
        assert len(await client.list_resources()) == 5
        await client.subscribe("note:///1")
        await client.call_tool("touch")
        await updated.until(1)
        assert (await client.get_prompt("first", {"city": "Oslo"})).description == "About Oslo"
        completion = await client.complete(PromptReference("first"), "city", "Os")
        assert completion.values[2] == "Os"
        await client.call_tool("change_lists")
        await changed.until(3)
        await client.ping()
    kinds = {seen.answered.get("content-type") for seen in seeing.of("POST") if seen.status == 200}
    assert kinds == {"application/json"}
    assert str(client.forgiven) == "nothing was forgiven"


@pytest.mark.parametrize("revision", OLDEST_FIRST)
@pytest.mark.parametrize("answers", ["stateless", "stateless-json"])
async def test_a_server_without_sessions(urls: dict[str, str], answers: str, revision: str) -> None:
    steps, logged = Heard(), Heard()
    async with watched(
        urls[f"{answers}-{revision}"],
        revisions=[revision],
        sample=on_stdio.Person().sample,
        on_log=logged.append,
    ) as (client, seeing):
        assert client.revision == revision
        assert len(await client.list_tools()) == 20
        assert json.loads((await client.call_tool("echo", {"n": 1})).text) == {"n": 1}
        assert texts(await client.call_tool("progress", on_progress=steps.append)) == ["done"]
        assert texts(await client.call_tool("tell")) == ["told"]
        with pytest.raises(RequestFailed):
            await client.call_tool("sample")
        (note,) = (await client.read_resource("note:///1")).contents
        assert note.text == "one"
        assert len(await client.list_prompts()) == 3
        await client.ping()
    events = answers == "stateless"
    assert [step.progress for step in steps] == ([1, 2, 3] if events else [])
    assert [entry.data for entry in logged] == (["told"] if events else [])
    assert seeing.sessions == {None}
    assert seeing.of("DELETE") == []


# Sessions.


async def test_the_session_is_named_from_initialize_to_delete(urls: dict[str, str]) -> None:
    async with watched(urls["sessions"]) as (client, seeing):
        await client.call_tool("echo")
        await client.list_tools()
    first, *others = [request for request in seeing.seen if request.method != "GET"]
    assert "mcp-session-id" not in first.headers
    assert {request.headers.get("mcp-session-id") for request in others} == {seeing.session}
    assert {request.headers.get("mcp-protocol-version") for request in others} == {NEWEST}
    (ended,) = seeing.of("DELETE")
    assert ended.status == 200
    (listening,) = seeing.of("GET")
    assert (listening.status, listening.headers["mcp-session-id"]) == (200, seeing.session)


async def test_a_session_that_ended_is_replaced_and_the_call_repeated(urls: dict[str, str]) -> None:
    """The log level and the subscriptions are set again in the new session."""
    replaced, updated = Heard(), Heard()
    async with watched(
        urls["ended"],
        on_session_replaced=lambda: replaced.append("replaced"),
        on_resource_updated=updated.append,
    ) as (client, seeing):
        await client.set_log_level("warning")
        await client.subscribe("note:///1")
        first = seeing.session
        await end(urls["ended"], first)
        results: list[Any] = []

        async def call(n: int) -> None:
            results.append(json.loads((await client.call_tool("echo", {"n": n})).text)["n"])

        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(call, n)
        assert sorted(results) == [0, 1, 2, 3, 4]
        await replaced.until(1)
        heard = texts(await client.call_tool("what_was_heard"))
        assert heard.count("level warning") == 2
        await client.call_tool("touch")
        await updated.until(1)
    assert replaced == ["replaced"]
    assert len(seeing.sessions - {None}) == 2
    (ended,) = seeing.of("DELETE")
    assert ended.headers["mcp-session-id"] != first


@pytest.mark.parametrize("name", ["ended-while-asked", "ended-with-store"])
async def test_a_call_that_was_at_work_when_the_session_ended_is_not_repeated(
    urls: dict[str, str], name: str
) -> None:
    async with watched(urls[name]) as (client, seeing):

        async def end_it() -> None:
            await end(urls[name], seeing.session)

        with pytest.RaisesGroup(ConnectionLost) as caught:
            await hold(client, "wait", end_it)
        (error,) = caught.value.exceptions
        if name == "ended-with-store":
            assert isinstance(error, SessionEnded)
        heard = texts(await client.call_tool("what_was_heard"))
        assert heard.count("wait began") == 1
    assert len(seeing.sessions - {None}) == 2


# Streams that are cut.


async def test_a_call_and_the_own_stream_of_the_server_are_resumed(urls: dict[str, str]) -> None:
    """What was said while there was no connection arrives, and nothing arrives twice."""
    updated = Heard()
    async with watched(urls["resumable"], on_resource_updated=updated.append) as (client, seeing):
        await client.subscribe("note:///1")
        # The SDK does not say where its own stream begins; its first event does.
        await client.call_tool("touch")
        await updated.until(1)

        async def break_off() -> None:
            await seeing.cut()
            await client.call_tool("touch")
            await client.call_tool("release")

        said, steps = await hold(client, "hold", break_off)
        assert said == ["kept"]
        assert steps == [1, 2]
        await updated.until(2)
        # Whatever came twice would come before the news of this.
        await client.call_tool("touch")
        await updated.until(3)
    assert updated == ["note:///1"] * 3
    places = [request.headers.get("last-event-id") for request in seeing.of("GET")]
    assert places.count(None) == 1, "the stream that belongs to no request is opened once"
    assert len([place for place in places if place]) >= 2


async def test_a_call_that_cannot_be_resumed_fails(urls: dict[str, str]) -> None:
    """Where nothing is stored, events have no ids. The session goes on."""
    async with watched(urls["sessions"]) as (client, seeing):

        async def break_off() -> None:
            await seeing.cut()

        with pytest.RaisesGroup(pytest.RaisesExc(ConnectionLost, match="where to resume")):
            await hold(client, "hold", break_off)
        assert texts(await client.call_tool("release")) == ["released"]
        assert len(seeing.sessions - {None}) == 1


async def test_a_handler_that_let_go_of_the_connection_is_come_back_to(
    urls: dict[str, str],
) -> None:
    async with watched(urls["polling"]) as (client, seeing):
        said, steps = await hold(client, "poll", partial(client.call_tool, "release"))
    assert said == ["polled"]
    assert steps == [1]
    assert [place for get in seeing.of("GET") if (place := get.headers.get("last-event-id"))]


# Cancellation from the server's side.


async def test_a_question_that_the_server_gives_up_is_cancelled_here(urls: dict[str, str]) -> None:
    asked, cancelled = trio.Event(), trio.Event()

    async def think(params: CreateMessageParams) -> str:
        asked.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.set()
            raise
        return "never"

    async with watched(urls["cancelled"], sample=think) as (client, _):

        async def release() -> None:
            await asked.wait()
            await client.call_tool("release")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(release)
            result = await client.call_tool("give_up")
        assert texts(result) == ["gave up"]
        # Leaving would cancel it, too.
        await cancelled.wait()
