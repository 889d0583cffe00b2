"""HTTP as it is met: curl, nginx, other people's web servers, and other people's MCP over HTTP.

A program that is not here skips its tests, and says so. With MCPCORE_REAL=1 its absence is a failure, and
what comes from a registry is fetched: server-everything by npx, mcp-proxy into an environment of its own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
from observing import Heard, program

from mcpcore import (
    Client,
    ElicitParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    StdioServer,
    TextContent,
    Timeouts,
    connect,
)
from mcpcore.errors import (
    ConnectionLost,
    HttpError,
    McpError,
    RequestFailed,
    RequestTimeout,
)
from mcpcore.revisions import HANDSHAKE
from mcpcore.transport.web import HttpServer, Network
from mcpcore.types import PromptReference, ResourceTemplateReference

pytestmark = [pytest.mark.judge, pytest.mark.process]

REAL = os.environ.get("MCPCORE_REAL") == "1"

PATIENCE = 60
"""Seconds after which a step is taken for hanging; no step needs nearly as many."""

DIRECT = Network(proxy="")
"""Whatever the environment says of proxies, the servers here are on this machine."""


def absent(what: str, remedy: str) -> NoReturn:
    message = f"{what} is not here ({remedy})"
    if REAL:
        pytest.fail(f"MCPCORE_REAL=1, and {message}")
    pytest.skip(
        f"NOT TESTED against the real thing: {message}; MCPCORE_REAL=1 makes this a failure"
    )


def need_program(name: str, remedy: str) -> str:
    # Debian keeps servers where only root looks.
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return found or absent(name, remedy)


def need_module(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        absent(f"the module {name}", f"pip install {name}")


# Fixtures look for what is needed, since what a task raises is not told by its own words.


@pytest.fixture
def curl_program() -> None:
    need_program("curl", "apt-get install curl")


@pytest.fixture
def nginx_program() -> None:
    need_program("nginx", "apt-get install nginx-light")


@pytest.fixture
def trustme_module() -> None:
    need_module("trustme")


needs_curl = pytest.mark.usefixtures("curl_program")
needs_nginx = pytest.mark.usefixtures("nginx_program")
needs_trustme = pytest.mark.usefixtures("trustme_module")


# Programs.


class Child:
    """A program, and what it said on stdout and stderr."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.said = ""
        self._ended = False
        self._changed = trio.Event()

    async def listen(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(trio.ClosedResourceError):
            async for chunk in self.process.stdout:
                self.said += chunk.decode(errors="replace")
                self._tell()
        self._ended = True
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def says(self, pattern: str) -> re.Match[str]:
        """Wait until the output matches."""
        with trio.fail_after(PATIENCE):
            while not (match := re.search(pattern, self.said)):
                assert not self._ended, f"it ended, and said: {self.said}"
                await self._changed.wait()
        return match

    async def ends(self) -> int:
        """Wait for its end by itself, and all it has to say."""
        with trio.fail_after(PATIENCE):
            while not self._ended:
                await self._changed.wait()
            return await self.process.wait()

    async def stop(self) -> int:
        self.process.terminate()
        return await self.ends()


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


async def _launch(nursery: trio.Nursery, command: Sequence[str], **options: Any) -> Child:
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **options,
    )
    running = Child(process)
    nursery.start_soon(running.listen)
    return running


async def _end(running: Child) -> None:
    """End a program with all that it started."""
    process = running.process
    with trio.CancelScope(shield=True):
        if process.poll() is None:
            process.terminate()
            with trio.move_on_after(5):
                await process.wait()
        _kill_group(process.pid)
        await process.wait()
        assert process.stdout is not None
        await process.stdout.aclose()


@asynccontextmanager
async def child(command: Sequence[str], **options: Any) -> AsyncIterator[Child]:
    """A program for the length of the block."""
    async with trio.open_nursery() as nursery:
        running = await _launch(nursery, command, **options)
        try:
            yield running
        finally:
            await _end(running)


Restart = Callable[[], Awaitable[None]]


@asynccontextmanager
async def restartable(command: Sequence[str], ready: str, **options: Any) -> AsyncIterator[Restart]:
    """A program that is there when it says `ready`; gives a function that ends it and starts another."""
    async with trio.open_nursery() as nursery:
        running = await _launch(nursery, command, **options)

        async def restart() -> None:
            nonlocal running
            await _end(running)
            running = await _launch(nursery, command, **options)
            await running.says(ready)

        try:
            await running.says(ready)
            yield restart
        finally:
            await _end(running)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Our server.

SERVER = '''
import json
import ssl
import sys

import msgspec
import trio

from mcpcore import Context, Server

server = Server("real", "1.0")
gate = trio.Semaphore(0)


class Person(msgspec.Struct):
    name: str


@server.tool
def add(a: int, b: int) -> int:
    return a + b


@server.tool
def length(text: str) -> int:
    return len(text)


@server.tool
async def walk(ctx: Context, steps: int) -> str:
    """Says each step, and waits after each for somebody to call `go`."""
    for step in range(1, steps + 1):
        ctx.progress(step, steps, f"step {step}")
        await gate.acquire()
    return "arrived"


@server.tool
async def hold() -> str:
    """Says nothing until somebody calls `go`."""
    await gate.acquire()
    return "let go"


@server.tool
async def go() -> None:
    gate.release()


@server.tool(asks="replay")
async def who(ctx: Context) -> str:
    answer = await ctx.elicit("who", Person, "Who are you?")
    return f"{answer.action}: {answer.value.name if answer.value else None}"


@server.tool
def forget() -> None:
    server.remove_tool("add")


options = json.loads(sys.argv[1])
certificate = options.pop("certificate", None)
if certificate is not None:
    options["ssl_context"] = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    options["ssl_context"].load_cert_chain(certificate)
server.run("http", **options)
'''


SERVES = r"serving on (\S+)\n"


def our_command(folder: Path, **options: Any) -> list[str]:
    script = folder / "server.py"
    script.write_text(SERVER)
    return [sys.executable, str(script), json.dumps(options)]


@asynccontextmanager
async def our_server(folder: Path, **options: Any) -> AsyncIterator[tuple[str, Child]]:
    """Our server in a process of its own; gives the URL."""
    if "unix_socket" not in options:
        options.setdefault("port", 0)
    async with child(our_command(folder, **options)) as running:
        url = (await running.says(SERVES))[1]
        yield url, running


# Raw requests by curl.


class Answered:
    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        while head.startswith((b"HTTP/1.1 100", b"HTTP/1.0 100")):
            head, _, self.body = self.body.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Curl:
    """One MCP session by hand. `more` are arguments that go with each call of curl."""

    def __init__(self, url: str, *more: str) -> None:
        self._program = need_program("curl", "apt-get install curl")
        self._url = url
        self._more = more
        self.session: str | None = None
        self._last = 0

    def command(self, method: str, message: Any = None, *more: str) -> list[str]:
        command = [self._program, "-q", "--silent", "--show-error", "--no-buffer", "--include"]
        command += ["--noproxy", "*", "--max-time", str(PATIENCE), "--request", method]
        command += ["--header", "Accept: application/json, text/event-stream"]
        if message is not None:
            command += ["--header", "Content-Type: application/json", "--data-binary", "@-"]
        if self.session is not None:
            command += ["--header", f"Mcp-Session-Id: {self.session}"]
        return [*command, *self._more, *more, self._url]

    async def ask(self, method: str, message: Any = None, *more: str) -> Answered:
        data = b"" if message is None else json.dumps(message).encode()
        command = self.command(method, message, *more)
        with trio.fail_after(PATIENCE):
            done = await trio.run_process(command, stdin=data, capture_stdout=True)
        return Answered(done.stdout)

    async def initialize(self, *more: str) -> Answered:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "curl", "version": "1"},
        }
        answer = await self.ask("POST", self.request("initialize", **params), *more)
        self.session = answer.headers.get("mcp-session-id")
        return answer

    async def open(self) -> None:
        assert (await self.initialize()).status == 200
        told = await self.ask("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (told.status, told.body) == (202, b"")

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        return {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.request(
            "tools/call", name=name, arguments=arguments, _meta={"progressToken": f"for {name}"}
        )

    @asynccontextmanager
    async def stream(
        self, method: str, message: Any = None, folder: Path | None = None
    ) -> AsyncIterator[Child]:
        """A request whose answer comes piece by piece."""
        command = self.command(method, message)
        if message is not None:
            assert folder is not None
            body = folder / f"body-{message['id']}.json"
            body.write_text(json.dumps(message))
            command = [f"@{body}" if part == "@-" else part for part in command]
        async with child(command) as running:
            yield running


@asynccontextmanager
async def reached(way: str, folder: Path) -> AsyncIterator[tuple[Curl, Child]]:
    """Our server, and curl that reaches it plainly, by TLS, or by a Unix socket."""
    options: dict[str, Any] = {}
    more: list[str] = []
    if way == "tls":
        import trustme

        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "authority.pem"))
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
        options["certificate"] = str(folder / "server.pem")
        more = ["--cacert", str(folder / "authority.pem")]
    elif way == "unix":
        options["unix_socket"] = str(folder / "socket")
        more = ["--unix-socket", str(folder / "socket")]
    async with our_server(folder, **options) as (url, running):
        yield Curl(url, *more), running


@pytest.fixture(params=["plain", "tls", "unix"])
def way(request: pytest.FixtureRequest) -> str:
    if request.param == "tls":
        need_module("trustme")
    return str(request.param)


@needs_curl
async def test_curl_opens_a_session_calls_a_tool_and_ends_it(way: str, tmp_path: Path) -> None:
    async with reached(way, tmp_path) as (curl, server):
        opened = await curl.initialize()
        assert opened.status == 200
        assert opened.headers["content-type"] == "application/json"
        assert opened.json["result"]["serverInfo"]["name"] == "real"
        assert curl.session is not None
        told = await curl.ask("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (told.status, told.body) == (202, b"")

        called = await curl.ask("POST", curl.call("add", a=1, b=2))
        assert called.status == 200
        assert called.json["result"]["structuredContent"] == {"result": 3}

        ended = await curl.ask("DELETE")
        assert (ended.status, ended.body) == (204, b"")
        gone = await curl.ask("POST", curl.call("add", a=1, b=2))
        assert gone.status == 404
        assert "initialize" in gone.json["error"]["message"]

        assert await server.stop() == 128 + signal.SIGTERM
        assert "Traceback" not in server.said


@needs_curl
async def test_curl_sees_each_event_when_it_happens(way: str, tmp_path: Path) -> None:
    """Each step of the tool waits for a call that is made only after the step before was seen."""
    async with reached(way, tmp_path) as (curl, _):
        await curl.open()
        async with curl.stream("POST", curl.call("walk", steps=3), tmp_path) as walk:
            await walk.says(r"(?i)content-type: text/event-stream")
            for step in (1, 2, 3):
                await walk.says(rf"id: \d+-{step}\ndata: .*\"message\":\"step {step}\"")
                assert "arrived" not in walk.said
                await curl.ask("POST", curl.call("go"))
            await walk.says("arrived")
            assert await walk.ends() == 0


@needs_curl
async def test_curl_hears_what_the_server_says_by_itself_until_the_session_ends(
    way: str, tmp_path: Path
) -> None:
    async with reached(way, tmp_path) as (curl, _):
        await curl.open()
        async with curl.stream("GET") as listening:
            await listening.says(r"(?i)content-type: text/event-stream")
            await curl.ask("POST", curl.call("forget"))
            await listening.says("notifications/tools/list_changed")
            await curl.ask("DELETE")
            assert await listening.ends() == 0


@needs_curl
async def test_curl_reads_on_after_the_event_where_it_was_cut_off(tmp_path: Path) -> None:
    async with reached("plain", tmp_path) as (curl, _):
        await curl.open()
        async with curl.stream("POST", curl.call("walk", steps=2), tmp_path) as walk:
            seen = await walk.says(r"id: (\d+-1)\n")
        await curl.ask("POST", curl.call("go"))
        await curl.ask("POST", curl.call("go"))
        rest = await curl.ask("GET", None, "--header", f"Last-Event-ID: {seen[1]}")
        assert rest.status == 200
        assert b"step 1" not in rest.body
        assert b"step 2" in rest.body
        assert b"arrived" in rest.body


@pytest.mark.parametrize("version", ["--http1.0", "--http2"])
@needs_curl
async def test_curl_that_prefers_another_version_of_http_is_served(
    version: str, tmp_path: Path
) -> None:
    """HTTP/1.0 has no chunks: the end of the connection is the end of the stream. Without TLS HTTP/2 is
    a wish in the headers (`Upgrade: h2c`), which is passed over."""
    async with our_server(tmp_path) as (url, server):
        curl = Curl(url, version)
        await curl.open()
        called = await curl.ask("POST", curl.call("add", a=1, b=2))
        assert called.json["result"]["structuredContent"] == {"result": 3}
        async with curl.stream("POST", curl.call("walk", steps=2), tmp_path) as walk:
            for step in (1, 2):
                await walk.says(f"step {step}")
                await curl.ask("POST", curl.call("go"))
            await walk.says("arrived")
            assert await walk.ends() == 0
        assert (await curl.ask("DELETE")).status == 204
        assert "Traceback" not in server.said


@needs_curl
async def test_curl_sends_two_megabytes_after_it_was_told_to_go_on(tmp_path: Path) -> None:
    """curl asks before it sends so much, by `Expect: 100-continue`."""
    async with reached("plain", tmp_path) as (curl, _):
        await curl.open()
        expects = ("--header", "Expect: 100-continue", "--expect100-timeout", str(PATIENCE))
        called = await curl.ask("POST", curl.call("length", text="x" * 2_000_000), *expects)
        assert called.json["result"]["structuredContent"] == {"result": 2_000_000}
        refused = await curl.ask("POST", curl.call("length", text="x" * 5_000_000), *expects)
        assert refused.status == 413


@needs_curl
async def test_curl_does_not_trust_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    async with reached("tls", tmp_path) as (curl, server):
        command = [part for part in curl.command("GET") if "authority.pem" not in part]
        command.remove("--cacert")
        done = await trio.run_process(command, check=False, capture_stderr=True)
        assert done.returncode == 60, done.stderr
        # That was no reason to stop serving.
        assert (await curl.initialize()).status == 200
        assert "Traceback" not in server.said


@needs_curl
async def test_curl_with_a_name_that_was_not_allowed_is_refused(tmp_path: Path) -> None:
    async with our_server(tmp_path, allowed_hosts=["mcp.example.org"]) as (url, _):
        curl = Curl(url)
        refused = await curl.initialize("--header", "Host: evil.example.org")
        assert refused.status == 403
        assert "allowed_hosts" in refused.json["error"]["message"]
        assert (await curl.initialize("--header", "Host: mcp.example.org")).status == 200
        assert (await curl.initialize()).status == 200


# Our server behind nginx.

NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr notice;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {upstream};
            proxy_read_timeout {seconds}s;
            {more}
        }}
    }}
}}
"""


@asynccontextmanager
async def nginx(
    upstream: str, folder: Path, *, seconds: int = PATIENCE, more: str = ""
) -> AsyncIterator[tuple[str, Child]]:
    """nginx in front of `upstream`, as nobody configures it for streams; gives the URL."""
    found = need_program("nginx", "apt-get install nginx-light")
    port = free_port()
    configuration = folder / "nginx.conf"
    origin, _, path = upstream.rpartition("/")
    configuration.write_text(
        NGINX.format(folder=folder, port=port, upstream=origin, seconds=seconds, more=more)
    )
    command = [found, "-p", str(folder), "-c", str(configuration), "-e", "stderr"]
    async with child(command) as running:
        # It says which version it is when it listens.
        await running.says(r"nginx/\d")
        yield f"http://127.0.0.1:{port}/{path}", running


PASSES_HOST = "proxy_set_header Host $http_host;"
KEEPS_CONNECTIONS = 'proxy_http_version 1.1; proxy_set_header Connection "";'


@pytest.mark.parametrize("more", ["", KEEPS_CONNECTIONS], ids=["1.0", "1.1"])
@needs_nginx
async def test_events_pass_nginx_one_by_one(more: str, tmp_path: Path) -> None:
    """nginx collects what it passes on unless told otherwise: X-Accel-Buffering tells it. Each step of
    the tool waits for a call that is made only after the step before was seen."""
    async with (
        our_server(tmp_path) as (upstream, _),
        nginx(upstream, tmp_path, more=more) as (url, _),
        connect(HttpServer(url=url, network=DIRECT)) as client,
        trio.open_nursery() as nursery,
    ):
        seen = Heard()
        done = Heard()

        async def walk() -> None:
            done.append(await client.call_tool("walk", {"steps": 3}, on_progress=seen.append))

        nursery.start_soon(walk)
        with trio.fail_after(PATIENCE):
            for step in (1, 2, 3):
                said = await seen.until(step)
                assert [event.message for event in said] == [f"step {n + 1}" for n in range(step)]
                assert not done
                await client.call_tool("go")
            (result,) = await done.until(1)
        assert result.text == "arrived"


@needs_nginx
async def test_the_servers_own_stream_passes_nginx(tmp_path: Path) -> None:
    changed = Heard()
    async with (
        our_server(tmp_path) as (upstream, _),
        nginx(upstream, tmp_path) as (url, _),
        connect(HttpServer(url=url, network=DIRECT), on_list_changed=changed.append) as client,
    ):
        await client.call_tool("forget")
        with trio.fail_after(PATIENCE):
            assert await changed.until(1) == ["tools"]


@pytest.mark.parametrize("speaks", [True, False], ids=["after a word", "without a word"])
@needs_nginx
@needs_curl
async def test_a_quiet_stream_outlives_the_patience_of_nginx_by_comments(
    speaks: bool, tmp_path: Path
) -> None:
    """Fourteen comments, none sooner than 0.18 s after the last, take longer than the two seconds that
    nginx waits for a byte."""
    async with (
        our_server(tmp_path, keep_alive=0.25) as (upstream, _),
        nginx(upstream, tmp_path, seconds=2) as (url, proxy),
    ):
        curl = Curl(url)
        await curl.open()
        message = curl.call("walk", steps=1) if speaks else curl.call("hold")
        async with curl.stream("POST", message, tmp_path) as quiet:
            await quiet.says(r"(:[^\n]*\n\n){14}")
            await curl.ask("POST", curl.call("go"))
            await quiet.says("arrived" if speaks else "let go")
            assert await quiet.ends() == 0
        assert "timed out" not in proxy.said


@needs_nginx
async def test_a_call_survives_that_nginx_cuts_its_stream(tmp_path: Path) -> None:
    """Without signs of life nginx loses its patience; the client comes back for the answer."""
    async with (
        our_server(tmp_path, keep_alive=PATIENCE) as (upstream, _),
        nginx(upstream, tmp_path, seconds=2) as (url, proxy),
        connect(HttpServer(url=url, network=DIRECT, listen=False), revisions=HANDSHAKE) as client,
        trio.open_nursery() as nursery,
    ):
        said, done = Heard(), Heard()

        async def walk() -> None:
            done.append(await client.call_tool("walk", {"steps": 1}, on_progress=said.append))

        nursery.start_soon(walk)
        # First the answer to the POST is cut, and then a stream that resumed it.
        await proxy.says(r'timed out[^\n]*reading upstream[^\n]*"POST /mcp')
        await proxy.says(r'timed out[^\n]*reading upstream[^\n]*"GET /mcp')
        await client.call_tool("go")
        with trio.fail_after(PATIENCE):
            (result,) = await done.until(1)
        assert result.text == "arrived"


@needs_nginx
async def test_a_call_of_which_nginx_saw_nothing_in_time_fails_with_what_nginx_says(
    tmp_path: Path,
) -> None:
    async with (
        our_server(tmp_path, keep_alive=PATIENCE) as (upstream, _),
        nginx(upstream, tmp_path, seconds=2) as (url, _),
        connect(HttpServer(url=url, network=DIRECT, listen=False)) as client,
    ):
        with trio.fail_after(PATIENCE), pytest.raises(HttpError, match="504 Gateway") as caught:
            await client.call_tool("hold")
        assert caught.value.status == 504
        # The connection is none the worse for it.
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


@needs_nginx
@needs_curl
async def test_nginx_that_passes_the_host_needs_it_among_the_allowed(tmp_path: Path) -> None:
    """By itself nginx names the upstream as the host, so that any name passes; a proxy that tells the
    name it was asked for is held to `allowed_hosts`."""
    named = ("--header", "Host: mcp.example.org")
    async with our_server(tmp_path) as (upstream, _):
        async with nginx(upstream, tmp_path) as (url, _):
            assert (await Curl(url).initialize(*named)).status == 200
        async with nginx(upstream, tmp_path, more=PASSES_HOST) as (url, _):
            refused = await Curl(url).initialize(*named)
            assert refused.status == 403
            assert "mcp.example.org" in refused.json["error"]["message"]
            assert (await Curl(url).initialize()).status == 200
    async with (
        our_server(tmp_path, allowed_hosts=["mcp.example.org"]) as (upstream, _),
        nginx(upstream, tmp_path, more=PASSES_HOST) as (url, _),
    ):
        assert (await Curl(url).initialize(*named)).status == 200
        other = await Curl(url).initialize("--header", "Host: evil.example.org")
        assert other.status == 403


@needs_nginx
async def test_a_call_that_is_too_large_for_nginx_fails_with_what_nginx_says(
    tmp_path: Path,
) -> None:
    """nginx takes a megabyte unless told otherwise, and refuses what is more before it read it."""
    async with (
        our_server(tmp_path) as (upstream, _),
        nginx(upstream, tmp_path) as (url, _),
        connect(HttpServer(url=url, network=DIRECT)) as client,
    ):
        with trio.fail_after(PATIENCE):
            with pytest.raises(HttpError, match="413") as caught:
                await client.call_tool("length", {"text": "x" * 3_000_000})
            assert caught.value.status == 413
            counted = await client.call_tool("length", {"text": "x" * 900_000})
            assert counted.structured_content == {"result": 900_000}


@needs_nginx
async def test_nginx_whose_upstream_is_gone_is_an_error_of_one_line(tmp_path: Path) -> None:
    async with nginx(f"http://127.0.0.1:{free_port()}/mcp", tmp_path) as (url, _):
        error = await failure(url)
        assert isinstance(error, HttpError)
        assert error.status == 502
        assert "502 Bad Gateway" in str(error)


# Our client against what is no MCP server.


async def failure(
    target: str | HttpServer, *, connect_within: float = PATIENCE, **network: Any
) -> McpError:
    """The one error that connecting ends with."""
    if isinstance(target, str):
        target = HttpServer(url=target, network=Network(proxy="", **network))
    with trio.fail_after(2 * PATIENCE), pytest.raises(McpError) as caught:
        async with connect(target, timeouts=Timeouts(connect=connect_within)):
            pass
    assert "\n" not in str(caught.value)
    return caught.value


PAGES = """
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

PAGE = "<!doctype html><title>Sign in</title>" + "<p>Please sign in</p>" * 1000


def page(status=200, **headers):
    async def answer(request):
        return HTMLResponse(PAGE, status, headers)
    return answer


def redirect(status, to):
    async def answer(request):
        return RedirectResponse(to, status)
    return answer


def data(body, media_type, status=200):
    async def answer(request):
        return Response(body, status, media_type=media_type)
    return answer


ROUTES = {
    "/page": page(),
    "/unauthorized": page(401, **{"WWW-Authenticate": "Bearer"}),
    "/forbidden": page(403),
    "/unavailable": page(503, **{"Retry-After": "3"}),
    "/moved": redirect(301, "https://example.org/mcp"),
    "/temporarily": redirect(307, "https://example.org/mcp?token=secret"),
    "/within": redirect(308, "/unavailable"),
    "/circle": redirect(307, "/circle"),
    "/accepted": data(b"", None, 202),
    "/json": data(b'{"hello": "world"}', "application/json"),
    "/half": data(b'{"jsonrpc": "2.0", "id"', "application/json"),
    "/events": data(b": nothing\\n\\n", "text/event-stream"),
}
app = Starlette(routes=[Route(path, answer, methods=["POST"]) for path, answer in ROUTES.items()])
"""

MEANINGS: dict[str, tuple[type[McpError], int | None, str]] = {
    "/page": (
        HttpError,
        200,
        "HTTP 200 of type 'text/html' is no answer; the answer begins: <!doctype html><title>Sign",
    ),
    "/nowhere": (HttpError, 404, "404 Not Found; is this the endpoint's path?"),
    "/unauthorized": (HttpError, 401, "credentials are needed"),
    "/forbidden": (HttpError, 403, "403 Forbidden; the credentials do not suffice"),
    "/unavailable": (HttpError, 503, "503 Service Unavailable"),
    "/moved": (HttpError, 301, "the server is at https://example.org/mcp; connect to that"),
    "/temporarily": (
        HttpError,
        307,
        "the server is at https://example.org/mcp?...; connect to that",
    ),
    "/within": (HttpError, 503, "/unavailable: HTTP 503"),
    "/circle": (HttpError, 307, "HTTP 307"),
    "/accepted": (HttpError, 202, "HTTP 202 without a content is no answer"),
    "/json": (McpError, None, "neither a request, a notification nor an answer"),
    "/half": (McpError, None, "Parse error"),
    "/events": (ConnectionLost, None, "the stream broke before the answer"),
}


@pytest.fixture(params=["hypercorn", "uvicorn"])
def web_server(request: pytest.FixtureRequest) -> str:
    need_module(request.param)
    return str(request.param)


async def test_what_a_web_server_says_instead_is_one_typed_error(
    web_server: str, tmp_path: Path
) -> None:
    (tmp_path / "pages.py").write_text(PAGES)
    command = [sys.executable, "-m", web_server, "pages:app"]
    command += ["--bind", "127.0.0.1:0"] if web_server == "hypercorn" else ["--port", "0"]
    async with child(command, cwd=tmp_path) as running:
        origin = (await running.says(r"(?i)running on (http://127\.0\.0\.1:\d+)"))[1]
        for path, (kind, status, words) in MEANINGS.items():
            error = await failure(origin + path)
            assert isinstance(error, kind), path
            assert words in str(error), path
            assert "secret" not in str(error), path
            if status is not None:
                assert isinstance(error, HttpError)
                assert error.status == status, path
                assert origin in str(error), path


async def test_a_server_of_files_is_no_mcp_server(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
    async with child(command, cwd=tmp_path) as running:
        port = (await running.says(r"Serving HTTP on \S+ port (\d+)"))[1]
        error = await failure(f"http://127.0.0.1:{port}/mcp")
        assert isinstance(error, HttpError)
        assert error.status == 501
        assert "501 Not Implemented" in str(error)


Speak = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def speaking(speak: Speak, ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A port where `speak` is said to everybody."""

    async def serve(stream: Any) -> None:
        async with stream:
            with contextlib.suppress(trio.BrokenResourceError):
                await speak(stream)

    async with trio.open_nursery() as nursery:
        if ssl_context is None:
            (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        else:
            (secured,) = await nursery.start(
                partial(trio.serve_ssl_over_tcp, serve, 0, ssl_context, host="127.0.0.1")
            )
            listener = secured.transport_listener
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def after_the_request(data: bytes, *, stays: bool = False) -> Speak:
    async def speak(stream: Any) -> None:
        await stream.receive_some(65536)
        if data:
            await stream.send_all(data)
        if stays:
            await trio.sleep_forever()

    return speak


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 10,
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80\x00\x04\x00\x01\x00\x00",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-More: of the same\r\n" * 10_000,
    ],
    ids=["any bytes", "ssh", "http2", "icy", "endless head"],
)
async def test_what_is_not_http_is_said_to_be_none(data: bytes) -> None:
    async with speaking(after_the_request(data)) as port:
        error = await failure(f"http://127.0.0.1:{port}/mcp")
        assert isinstance(error, ConnectionLost)
        assert f"http://127.0.0.1:{port}/mcp: what answers there is not HTTP" in str(error)


async def test_a_server_that_hangs_up_is_an_error_that_says_so() -> None:
    async with speaking(after_the_request(b"")) as port:
        error = await failure(f"http://127.0.0.1:{port}/mcp")
        assert isinstance(error, ConnectionLost)
        assert "the connection ended before the answer" in str(error)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 O",
        HEAD % b"application/json" + b'{"jsonrpc"',
        HEAD % b"text/event-stream",
        HEAD % b"text/html" + b"<html>",
    ],
    ids=["nothing", "half a line", "half an answer", "no event", "half a page"],
)
async def test_a_server_that_falls_silent_is_waited_for_no_longer_than_connecting_may_take(
    data: bytes,
) -> None:
    async with speaking(after_the_request(data, stays=True)) as port:
        error = await failure(f"http://127.0.0.1:{port}/mcp", connect_within=0.3)
        assert isinstance(error, RequestTimeout | HttpError)
        if isinstance(error, RequestTimeout):
            assert error.method == "initialize"
            assert error.seconds == 0.3
            assert "Timeouts(connect=" in str(error)


async def test_a_tls_handshake_that_nobody_answers_ends_with_the_time_for_a_connection() -> None:
    async with speaking(after_the_request(b"", stays=True)) as port:
        error = await failure(f"https://127.0.0.1:{port}/mcp", connect=0.3)
        assert isinstance(error, ConnectionLost)
        assert f"https://127.0.0.1:{port}/mcp: no connection within 0.3 s" in str(error)


async def test_a_host_that_has_no_name_is_said_not_to_be_known() -> None:
    error = await failure("http://no-such-host.invalid/mcp")
    assert isinstance(error, ConnectionLost)
    assert "http://no-such-host.invalid/mcp: the host is not known" in str(error)


async def test_a_port_where_nobody_listens_is_said_to_refuse() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    error = await failure(url)
    assert isinstance(error, ConnectionLost)
    assert f"{url}: the connection was refused; is the server running" in str(error)


async def test_a_unix_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "socket")
    error = await failure("http://localhost/mcp", unix_socket=missing)
    assert isinstance(error, ConnectionLost)
    assert f"{missing}: the connection failed (No such file or directory)" in str(error)


@needs_trustme
async def test_what_fails_in_tls_is_said(tmp_path: Path) -> None:
    import trustme

    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    ours, foreign = (ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) for _ in range(2))
    authority.issue_cert("localhost").configure_cert(ours)
    authority.issue_cert("example.org").configure_cert(foreign)
    page = after_the_request(HEAD % b"text/html" + b"<html>")

    async with speaking(page, ours) as port:
        error = await failure(f"https://localhost:{port}/mcp")
        assert isinstance(error, ConnectionLost)
        assert "TLS failed (unable to get local issuer certificate)" in str(error)
        # The same with trust gets as far as the page.
        error = await failure(f"https://localhost:{port}/mcp", ssl_context=trusting)
        assert isinstance(error, HttpError)
        # Plain HTTP to a port that speaks TLS.
        error = await failure(f"http://localhost:{port}/mcp")
        assert isinstance(error, ConnectionLost)
    async with speaking(page, foreign) as port:
        error = await failure(f"https://localhost:{port}/mcp", ssl_context=trusting)
        assert isinstance(error, ConnectionLost)
        assert "TLS failed (Hostname mismatch" in str(error)
    async with speaking(page) as port:
        error = await failure(f"https://localhost:{port}/mcp", ssl_context=trusting)
        assert isinstance(error, ConnectionLost)
        assert f"https://localhost:{port}/mcp: TLS failed" in str(error)


# Our client and the reference server of the protocol's makers.

EVERYTHING = "@modelcontextprotocol/server-everything"


@pytest.fixture(scope="module")
def everything_program() -> list[str]:
    installed = shutil.which("mcp-server-everything")
    if installed is not None:
        return [installed]
    npx = shutil.which("npx")
    if npx is None or not REAL:
        absent(EVERYTHING, f"npm install -g {EVERYTHING}; with MCPCORE_REAL=1, npx fetches it")
    return [npx, "-y", EVERYTHING]


@pytest.fixture(
    scope="module",
    params=[("streamableHttp", "/mcp"), ("sse", "/sse")],
    ids=["streamable", "older"],
)
def everything(request: pytest.FixtureRequest, everything_program: list[str]) -> Iterator[str]:
    """server-everything over HTTP, in its newer and its older transport, for all the tests of it; gives the URL."""
    port = free_port()
    transport, path = request.param
    process = subprocess.Popen(
        [*everything_program, transport],
        env={**os.environ, "PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    # Fetching it may hang, and reading lines has no end of its own.
    alarm = threading.Timer(4 * PATIENCE, _kill_group, [process.pid])
    alarm.start()
    said = ""
    for line in process.stdout:
        said += line
        if f"on port {port}" in line:
            break
    alarm.cancel()
    # It says something about each request, which has to go somewhere.
    drain = threading.Thread(target=process.stdout.read, daemon=True)
    drain.start()
    try:
        assert f"on port {port}" in said, said
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        _kill_group(process.pid)
        process.wait()
        drain.join()
        process.stdout.close()


class Peer:
    """Who answers server-everything, and what it said by itself."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.logged, self.changed, self.updated = Heard(), Heard(), Heard()

    def elicit(self, params: ElicitParams) -> ElicitResult:
        self.asked.append(params)
        return ElicitResult(action="accept", content={"name": "Zoë", "check": True})

    def elicit_url(self, params: ElicitParams) -> ElicitResult:
        self.asked.append(params)
        return ElicitResult(action="accept")

    def sample(self, params: Any) -> str:
        self.asked.append(params)
        return "three metres"

    @asynccontextmanager
    async def connected(self, url: str, **options: Any) -> AsyncIterator[Client]:
        with trio.fail_after(2 * PATIENCE):
            async with connect(
                HttpServer(url=url, network=DIRECT),
                elicit=self.elicit,
                elicit_url=self.elicit_url,
                sample=self.sample,
                roots=["file:///work"],
                on_log=self.logged.append,
                on_list_changed=self.changed.append,
                on_resource_updated=self.updated.append,
                **options,
            ) as client:
                yield client
                assert not client.forgiven, client.forgiven


async def test_everything_its_tools(everything: str) -> None:
    peer = Peer()
    async with peer.connected(everything) as client:
        assert client.server_info.name == "mcp-servers/everything"
        assert client.revision == HANDSHAKE[0]
        names = {tool.name for tool in await client.list_tools()}
        assert {"echo", "get-sum", "trigger-elicitation-request", "get-roots-list"} <= names

        call = client.call_tool
        assert (await call("echo", {"message": "Grüße \u2028 \U0001f600"})).text == (
            "Echo: Grüße \u2028 \U0001f600"
        )
        assert "is 3" in (await call("get-sum", {"a": 1, "b": 2})).text
        assert (await call("get-sum", {"a": "x", "b": 2})).is_error
        assert (await call("no such tool")).is_error
        assert "PATH" in (await call("get-env")).text
        image = (await call("get-tiny-image")).content
        assert any(isinstance(block, ImageContent) for block in image)
        noted = await call("get-annotated-message", {"messageType": "error", "includeImage": True})
        assert isinstance(noted.content[0], TextContent)
        assert noted.content[0].annotations is not None
        assert noted.content[0].annotations.priority == 1.0
        links = (await call("get-resource-links", {"count": 3})).content
        assert sum(isinstance(block, ResourceLink) for block in links) == 3
        for kind in ("Text", "Blob"):
            arguments = {"resourceType": kind, "resourceId": 1}
            embedded = (await call("get-resource-reference", arguments)).content
            assert any(isinstance(block, EmbeddedResource) for block in embedded)
        weather = await call("get-structured-content", {"location": "New York"})
        assert weather.validated
        assert weather.structured_content["conditions"] == "Cloudy"

        zipped = await call(
            "gzip-file-as-resource",
            {
                "name": "x.gz",
                "data": "data:text/plain;base64,aGVsbG8=",
                "outputType": "resourceLink",
            },
        )
        (link,) = zipped.content
        assert isinstance(link, ResourceLink)
        (contents,) = (await client.read_resource(link.uri)).contents
        assert contents.blob is not None
        assert "resources" in await peer.changed.until(1)


async def test_everything_its_progress_and_a_call_that_is_given_up(everything: str) -> None:
    async with Peer().connected(everything) as client:
        operation = partial(client.call_tool, "trigger-long-running-operation")
        seen = Heard()
        await operation({"duration": 0.4, "steps": 4}, on_progress=seen.append)
        assert [step.progress for step in seen] == [1, 2, 3, 4]

        scope = trio.CancelScope()
        first = Heard()

        def give_up(progress: Any) -> None:
            first.append(progress)
            scope.cancel()

        with scope:
            await operation({"duration": 1000, "steps": 5000}, on_progress=give_up)
        assert scope.cancelled_caught
        assert first
        await client.ping()


async def test_everything_its_questions(everything: str) -> None:
    peer = Peer()
    async with peer.connected(everything) as client:
        assert "file:///work" in (await client.call_tool("get-roots-list")).text

        sampled = await client.call_tool(
            "trigger-sampling-request", {"prompt": "How deep?", "maxTokens": 20}
        )
        assert "three metres" in sampled.text
        assert peer.asked[-1].max_tokens == 20

        filled = await client.call_tool("trigger-elicitation-request")
        assert "Zoë" in filled.text
        # What was left out got its default.
        assert "3.14" in filled.text
        assert peer.asked[-1].fields["name"].type == "string"

        page = {"url": "https://example.org/pay", "message": "Pay", "elicitationId": "e1"}
        opened = await client.call_tool("trigger-url-elicitation", page)
        assert "completed" in opened.text
        assert peer.asked[-1].url == "https://example.org/pay"
        with pytest.raises(RequestFailed) as caught:
            await client.call_tool("trigger-url-elicitation", {**page, "errorPath": True})
        assert caught.value.code == -32042


async def test_everything_what_it_says_by_itself(everything: str) -> None:
    peer = Peer()
    async with peer.connected(everything) as client:
        await client.set_log_level("debug")
        await client.call_tool("toggle-simulated-logging")
        await peer.logged.until(1)
        uri = "demo://resource/dynamic/text/1"
        await client.subscribe(uri)
        await client.call_tool("toggle-subscriber-updates")
        assert (await peer.updated.until(1))[0] == uri
        await client.unsubscribe(uri)
        before = len(peer.logged)
        await client.roots_changed()
        await peer.logged.until(before + 1)


async def test_everything_its_resources_prompts_and_completions(everything: str) -> None:
    async with Peer().connected(everything) as client:
        for resource in await client.list_resources():
            (contents,) = (await client.read_resource(resource.uri)).contents
            assert contents.text
        assert len(await client.list_resource_templates()) == 2
        (text,) = (await client.read_resource("demo://resource/dynamic/text/7")).contents
        assert "Resource 7" in str(text.text)
        (blob,) = (await client.read_resource("demo://resource/dynamic/blob/7")).contents
        assert blob.blob
        with pytest.raises(RequestFailed, match="not found"):
            await client.read_resource("demo://resource/nope")

        filled: dict[str, dict[str, str]] = {
            "simple-prompt": {},
            "args-prompt": {"city": "Oslo", "state": "x"},
            "completable-prompt": {"department": "Engineering", "name": "Alice"},
            "resource-prompt": {"resourceType": "Text", "resourceId": "1"},
        }
        assert {prompt.name for prompt in await client.list_prompts()} == set(filled)
        for name, arguments in filled.items():
            assert (await client.get_prompt(name, arguments)).messages
        with pytest.raises(RequestFailed, match="args-prompt"):
            await client.get_prompt("args-prompt")

        prompt = PromptReference("completable-prompt")
        assert (await client.complete(prompt, "department", "E")).values == ["Engineering"]
        template = ResourceTemplateReference("demo://resource/dynamic/text/{resourceId}")
        assert (await client.complete(template, "resourceId", "1")).values == ["1"]


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_everything_in_each_revision(revision: str, everything: str) -> None:
    peer = Peer()
    async with peer.connected(everything, revisions=[revision]) as client:
        assert client.revision == revision
        assert await client.list_tools()
        assert (await client.call_tool("echo", {"message": "hello"})).text == "Echo: hello"
        assert "file:///work" in (await client.call_tool("get-roots-list")).text
        await client.call_tool("trigger-sampling-request", {"prompt": "How deep?"})
        assert len(peer.asked) == 1


async def test_everything_many_calls_at_once(everything: str) -> None:
    async with Peer().connected(everything) as client, trio.open_nursery() as nursery:
        answers: dict[int, str] = {}

        async def add(number: int) -> None:
            result = await client.call_tool("get-sum", {"a": number, "b": 1})
            answers[number] = result.text

        for number in range(200):
            nursery.start_soon(add, number)
    assert all(f"is {number + 1}." in answers[number] for number in range(200))


async def test_everything_started_anew_is_met_with_a_new_session(
    everything_program: list[str],
) -> None:
    """It says by 400 that it does not know the session."""
    port = free_port()
    environment = {**os.environ, "PORT": str(port)}
    server = HttpServer(url=f"http://127.0.0.1:{port}/mcp", network=DIRECT)
    async with (
        restartable(
            [*everything_program, "streamableHttp"], f"listening on port {port}", env=environment
        ) as restart,
        connect(server) as client,
    ):
        await client.ping()
        await restart()
        with trio.fail_after(PATIENCE):
            await client.ping()


# mcp-proxy, which is a server to clients and a client to servers.


@pytest.fixture(scope="module")
def mcp_proxy(tmp_path_factory: pytest.TempPathFactory) -> str:
    installed = shutil.which("mcp-proxy")
    if installed is not None:
        return installed
    if not REAL:
        absent("mcp-proxy", "pip install mcp-proxy; with MCPCORE_REAL=1 it is fetched")
    folder = tmp_path_factory.mktemp("mcp-proxy")
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "pip"), "install", "--quiet", "mcp-proxy"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=8 * PATIENCE)
        if done.returncode:
            pytest.fail(f"mcp-proxy cannot be installed: {done.stderr[-2000:]}")
    return str(folder / "bin" / "mcp-proxy")


PROXIES = r"Uvicorn running on (http://\S+)"


def proxy_command(mcp_proxy: str, port: int, *options: str) -> list[str]:
    """mcp-proxy in front of a server of ours on stdio."""
    ours = program("mcpcore_server.py", HANDSHAKE[0])
    return [mcp_proxy, "--port", str(port), *options, "--", *ours]


@pytest.mark.parametrize("options", [(), ("--stateless",)], ids=["sessions", "stateless"])
async def test_our_client_meets_our_stdio_server_through_mcp_proxy(
    options: tuple[str, ...], mcp_proxy: str
) -> None:
    port = free_port()
    async with (
        restartable(proxy_command(mcp_proxy, port, *options), PROXIES),
        connect(HttpServer(url=f"http://127.0.0.1:{port}/mcp", network=DIRECT)) as client,
    ):
        with trio.fail_after(2 * PATIENCE):
            assert client.server_info.name == "judged"
            assert "echo" in {tool.name for tool in await client.list_tools()}
            echo = await client.call_tool("echo", {"word": "Zoë", "n": 1})
            assert json.loads(echo.text) == {"n": 1, "word": "Zoë"}
            sums = await client.call_tool("structured", {"a": 1, "b": 2})
            assert sums.structured_content == {"sum": 3.0, "parts": [1.0, 2.0]}
            assert sums.validated
            failed = await client.call_tool("fails")
            assert (failed.is_error, failed.text) == (True, "it failed")
            assert len(await client.list_resources()) == 5
            (note,) = (await client.read_resource("note:///1")).contents
            assert note.text == "one"
            assert len(await client.list_prompts()) == 3
            prompt = await client.get_prompt("first", {"city": "Oslo"})
            assert isinstance(prompt.messages[0].content, TextContent)
            assert prompt.messages[0].content.text == "Go to Oslo for 1"
            done = await client.complete(PromptReference("first"), "city", "Os")
            assert done.values == ["Oslo", "Osaka"]
            await client.ping()
            assert not client.forgiven, client.forgiven


async def test_a_new_session_takes_the_place_of_one_that_mcp_proxy_forgot(mcp_proxy: str) -> None:
    port = free_port()
    replaced = Heard()
    async with (
        restartable(proxy_command(mcp_proxy, port), PROXIES) as restart,
        connect(
            HttpServer(url=f"http://127.0.0.1:{port}/mcp", network=DIRECT),
            on_session_replaced=lambda: replaced.append("replaced"),
        ) as client,
    ):
        await client.ping()
        await restart()
        with trio.fail_after(PATIENCE):
            assert "again" in (await client.call_tool("echo", {"word": "again"})).text
            await replaced.until(1)


async def test_our_client_finds_the_older_transport_of_mcp_proxy(mcp_proxy: str) -> None:
    """Its /sse refuses a POST with 405, upon which the client asks for the stream of 2024-11-05."""
    port = free_port()
    async with (
        restartable(proxy_command(mcp_proxy, port), PROXIES),
        connect(HttpServer(url=f"http://127.0.0.1:{port}/sse", network=DIRECT)) as client,
    ):
        with trio.fail_after(2 * PATIENCE):
            assert client.server_info.name == "judged"
            echo = await client.call_tool("echo", {"word": "Zoë", "n": 1})
            assert json.loads(echo.text) == {"n": 1, "word": "Zoë"}
            assert (await client.call_tool("fails")).is_error
            assert len(await client.list_resources()) == 5
            assert not client.forgiven, client.forgiven


async def test_mcp_proxy_is_a_client_of_our_http_server(mcp_proxy: str, tmp_path: Path) -> None:
    async with our_server(tmp_path) as (url, server):
        words: list[str] = []
        command = [mcp_proxy, "--transport", "streamablehttp", url]
        environment = {"NO_PROXY": "*", "no_proxy": "*"}
        target = StdioServer(command=command, env=environment, stderr=words.append)
        async with connect(target) as client, trio.open_nursery() as nursery:
            with trio.fail_after(2 * PATIENCE):
                assert client.server_info.name == "real"
                assert "add" in {tool.name for tool in await client.list_tools()}
                added = await client.call_tool("add", {"a": 1, "b": 2})
                assert added.structured_content == {"result": 3}
                assert (await client.call_tool("add", {"a": "x"})).is_error

                seen, done = Heard(), Heard()

                async def walk() -> None:
                    done.append(
                        await client.call_tool("walk", {"steps": 3}, on_progress=seen.append)
                    )

                nursery.start_soon(walk)
                for step in (1, 2, 3):
                    await seen.until(step)
                    await client.call_tool("go")
                (result,) = await done.until(1)
                assert result.text == "arrived"
                assert not client.forgiven, client.forgiven
        assert await server.stop() == 128 + signal.SIGTERM
        assert "Traceback" not in server.said


# Our server and our client, when the server is started anew.


async def test_our_server_that_was_started_anew_is_met_with_a_new_session(tmp_path: Path) -> None:
    port = free_port()
    replaced = Heard()
    async with (
        restartable(our_command(tmp_path, port=port), SERVES) as restart,
        connect(
            HttpServer(url=f"http://127.0.0.1:{port}/mcp", network=DIRECT),
            revisions=HANDSHAKE,
            on_session_replaced=lambda: replaced.append("replaced"),
            elicit=lambda _: {"name": "Zoë"},
        ) as client,
    ):
        assert (await client.call_tool("who")).text == "accept: Zoë"
        await restart()
        with trio.fail_after(PATIENCE):
            assert (await client.call_tool("who")).text == "accept: Zoë"
            await replaced.until(1)


async def test_a_unix_socket_is_free_again_after_its_server_ended(tmp_path: Path) -> None:
    where = tmp_path / "socket"
    server = HttpServer(url="http://localhost/mcp", network=Network(unix_socket=str(where)))
    for _ in range(2):
        async with our_server(tmp_path, unix_socket=str(where)) as (_, running):
            async with connect(server) as client:
                added = await client.call_tool("add", {"a": 1, "b": 2})
                assert added.structured_content == {"result": 3}
            assert await running.stop() == 128 + signal.SIGTERM
