"""What each revision of the protocol has: the tables, and the only place that names a revision.

Five revisions were published. Their objects are almost the same, so there is one set of objects
(`mcpcore.types`), and a revision is a set of rows: how messages travel (`REVISIONS`), which methods
exist in which direction and what they need (`METHODS`), which members and content kinds came and
went (`FIELDS`, `KINDS`), which error codes mean what (`CODES`). Code asks a row, for example
`revision.batching`, and never compares names.

To add a revision: add its row to `REVISIONS`, then a row wherever it differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from mcpcore import types as t
from mcpcore.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)

RESOURCE_NOT_FOUND = -32002
"""The handshake era's code; what the stateless era has instead says its row."""

Role = Literal["client", "server"]
Sender = Literal["client", "server", "both"]


class Revision(msgspec.Struct, frozen=True):
    """How one revision works.

    `era`: `handshake` opens a session with initialize, `stateless` says everything in each request.
    `batching`: arrays of messages are legal. `version_header`: HTTP requests name the revision.
    `polling`: a server may let go of a stream's connection, whose events begin with one that has an id and
    no data.
    `resource_not_found`: the error code for it. `object_results`: structured content must be an object.
    """

    position: int
    name: str
    era: Literal["handshake", "stateless"]
    batching: bool = False
    version_header: bool = False
    polling: bool = False
    resource_not_found: int = RESOURCE_NOT_FOUND
    object_results: bool = True

    def __str__(self) -> str:
        return self.name


A = Revision(0, "2024-11-05", "handshake")
B = Revision(1, "2025-03-26", "handshake", batching=True)
C = Revision(2, "2025-06-18", "handshake", version_header=True)
D = Revision(3, "2025-11-25", "handshake", version_header=True, polling=True)
E = Revision(
    4,
    "2026-07-28",
    "stateless",
    version_header=True,
    resource_not_found=INVALID_PARAMS,
    object_results=False,
)

REVISIONS: dict[str, Revision] = {row.name: row for row in (A, B, C, D, E)}
"""Oldest first."""

UNNAMED = B
"""What an HTTP request means that names no revision and belongs to no session."""

HANDSHAKE: tuple[str, ...] = tuple(row.name for row in (D, C, B, A))
"""The revisions that initialize can agree on, newest first."""

STATELESS: tuple[str, ...] = (E.name,)
"""The revisions whose requests stand alone, newest first."""

ALL: tuple[str, ...] = STATELESS + HANDSHAKE
"""Newest first."""


class Method(msgspec.Struct, frozen=True):
    """One method in one direction over a range of revisions, both ends included.

    The capabilities are dotted paths: the server's for what a client sends, the client's for what a
    server sends. `safe`: sending it twice does no harm. `may_ask`: the stateless era may answer it with
    questions. `named_by`: the member of its params that says
    what it is about, which HTTP headers repeat in the stateless era.
    """

    name: str
    sender: Sender
    params: type[msgspec.Struct]
    result: type[t.Result] | None = None
    since: Revision = A
    until: Revision = E
    server_capability: str | None = None
    client_capability: str | None = None
    safe: bool = False
    may_ask: bool = False
    named_by: Literal["name", "uri", "taskId"] | None = None

    @property
    def is_request(self) -> bool:
        return self.result is not None

    def exists_in(self, revision: Revision) -> bool:
        return self.since.position <= revision.position <= self.until.position


_N, _P, _R = t.Params, t.PaginatedParams, t.ResourceParams

METHODS: tuple[Method, ...] = (
    # Requests of the client.
    Method("initialize", "client", t.InitializeParams, t.InitializeResult, until=D),
    Method("server/discover", "client", _N, t.DiscoverResult, since=E, safe=True),
    Method(
        "tools/list",
        "client",
        _P,
        t.ListToolsResult,
        server_capability="tools",
        safe=True,
    ),
    Method(
        "tools/call",
        "client",
        t.CallToolParams,
        t.CallToolResult,
        server_capability="tools",
        may_ask=True,
        named_by="name",
    ),
    Method(
        "resources/list",
        "client",
        _P,
        t.ListResourcesResult,
        server_capability="resources",
        safe=True,
    ),
    Method(
        "resources/templates/list",
        "client",
        _P,
        t.ListResourceTemplatesResult,
        server_capability="resources",
        safe=True,
    ),
    Method(
        "resources/read",
        "client",
        t.ReadResourceParams,
        t.ReadResourceResult,
        server_capability="resources",
        safe=True,
        may_ask=True,
        named_by="uri",
    ),
    Method(
        "resources/subscribe",
        "client",
        _R,
        t.EmptyResult,
        until=D,
        server_capability="resources.subscribe",
        safe=True,
    ),
    Method(
        "resources/unsubscribe",
        "client",
        _R,
        t.EmptyResult,
        until=D,
        server_capability="resources.subscribe",
        safe=True,
    ),
    Method(
        "prompts/list",
        "client",
        _P,
        t.ListPromptsResult,
        server_capability="prompts",
        safe=True,
    ),
    Method(
        "prompts/get",
        "client",
        t.GetPromptParams,
        t.GetPromptResult,
        server_capability="prompts",
        safe=True,
        may_ask=True,
        named_by="name",
    ),
    # The first revision has completion without a capability for it.
    Method("completion/complete", "client", t.CompleteParams, t.CompleteResult, until=A, safe=True),
    Method(
        "completion/complete",
        "client",
        t.CompleteParams,
        t.CompleteResult,
        since=B,
        server_capability="completions",
        safe=True,
    ),
    Method(
        "logging/setLevel",
        "client",
        t.SetLevelParams,
        t.EmptyResult,
        until=D,
        server_capability="logging",
        safe=True,
    ),
    Method("subscriptions/listen", "client", t.ListenParams, t.ListenResult, since=E),
    # Requests of the server. In the stateless revision they live inside results and are no messages.
    Method(
        "sampling/createMessage",
        "server",
        t.CreateMessageParams,
        t.CreateMessageResult,
        until=D,
        client_capability="sampling",
    ),
    Method(
        "elicitation/create",
        "server",
        t.ElicitParams,
        t.ElicitResult,
        since=C,
        until=D,
        client_capability="elicitation",
    ),
    Method(
        "roots/list", "server", _N, t.ListRootsResult, until=D, client_capability="roots", safe=True
    ),
    # Requests of either side.
    Method("ping", "both", _N, t.EmptyResult, until=D, safe=True),
    Method(
        "tasks/get",
        "both",
        t.TaskParams,
        t.TaskResult,
        since=D,
        until=D,
        server_capability="tasks",
        client_capability="tasks",
        safe=True,
    ),
    Method(
        "tasks/result",
        "both",
        t.TaskParams,
        t.Result,
        since=D,
        until=D,
        server_capability="tasks",
        client_capability="tasks",
        safe=True,
    ),
    Method(
        "tasks/list",
        "both",
        _P,
        t.ListTasksResult,
        since=D,
        until=D,
        server_capability="tasks.list",
        client_capability="tasks.list",
        safe=True,
    ),
    Method(
        "tasks/cancel",
        "both",
        t.TaskParams,
        t.TaskResult,
        since=D,
        until=D,
        server_capability="tasks.cancel",
        client_capability="tasks.cancel",
        safe=True,
    ),
    # Notifications. The capability is the one that the sender declared, but for the last of the
    # roots and the completed elicitations, which rest on what the client declared.
    Method("notifications/initialized", "client", _N, until=D),
    Method("notifications/cancelled", "both", t.CancelledParams),
    Method("notifications/progress", "both", t.ProgressParams, until=D),
    Method("notifications/progress", "server", t.ProgressParams, since=E),
    Method("notifications/message", "server", t.LoggingMessageParams, server_capability="logging"),
    Method("notifications/tools/list_changed", "server", _N, server_capability="tools.listChanged"),
    Method(
        "notifications/prompts/list_changed", "server", _N, server_capability="prompts.listChanged"
    ),
    Method(
        "notifications/resources/list_changed",
        "server",
        _N,
        server_capability="resources.listChanged",
    ),
    Method(
        "notifications/resources/updated", "server", _R, server_capability="resources.subscribe"
    ),
    Method(
        "notifications/roots/list_changed",
        "client",
        _N,
        until=D,
        client_capability="roots.listChanged",
    ),
    Method(
        "notifications/elicitation/complete",
        "server",
        t.ElicitationCompleteParams,
        since=D,
        until=D,
        client_capability="elicitation.url",
    ),
    Method("notifications/tasks/status", "both", t.TaskStatusParams, since=D, until=D),
    Method("notifications/subscriptions/acknowledged", "server", t.AcknowledgedParams, since=E),
)

MAY_ASK: frozenset[str] = frozenset(row.name for row in METHODS if row.may_ask)
"""The requests that the stateless era may answer with questions."""

SAFE: frozenset[str] = frozenset(row.name for row in METHODS if row.is_request and row.safe)
"""The requests that do no harm when they are sent twice."""


class Field(msgspec.Struct, frozen=True):
    """A member that not every revision has. `until` is the last revision that has it."""

    struct: type[msgspec.Struct]
    name: str
    since: Revision = A
    until: Revision = E


class Kind(msgspec.Struct, frozen=True):
    """A content kind and the first revision that has it."""

    struct: type[msgspec.Struct]
    since: Revision


def _fields(
    since: Revision, *members: tuple[type[msgspec.Struct], str], until: Revision = E
) -> Iterable[Field]:
    return [
        Field(struct, name, since, until) for struct, names in members for name in names.split()
    ]


FIELDS: tuple[Field, ...] = (
    *_fields(
        B,
        (t.ServerCapabilities, "completions"),
        (t.ProgressParams, "message"),
        (t.Tool, "annotations"),
    ),
    *_fields(
        C,
        (t.Annotations, "last_modified"),
        (t.AudioContent, "meta"),
        (t.CallToolResult, "structured_content"),
        (t.ClientCapabilities, "elicitation"),
        (t.CompleteParams, "context"),
        (t.EmbeddedResource, "meta"),
        (t.ImageContent, "meta"),
        (t.Implementation, "title"),
        (t.Prompt, "title meta"),
        (t.PromptArgument, "title"),
        (t.PromptReference, "title"),
        (t.Resource, "title meta"),
        (t.ResourceContents, "meta"),
        (t.ResourceTemplate, "title meta"),
        (t.Root, "meta"),
        (t.TextContent, "meta"),
        (t.Tool, "title output_schema meta"),
    ),
    *_fields(
        D,
        (t.CreateMessageParams, "tools tool_choice"),
        (t.ElicitParams, "mode url"),
        (t.ElicitationCapability, "form url"),
        (t.Implementation, "description icons website_url"),
        (t.Prompt, "icons"),
        (t.Resource, "icons"),
        (t.ResourceLink, "icons"),
        (t.ResourceTemplate, "icons"),
        (t.SamplingCapability, "context tools"),
        (t.SamplingMessage, "meta"),
        (t.Tool, "icons"),
    ),
    *_fields(
        D,
        (t.CallToolParams, "task"),
        (t.ClientCapabilities, "tasks"),
        (t.CreateMessageParams, "task"),
        (t.ElicitParams, "elicitation_id task"),
        (t.ServerCapabilities, "tasks"),
        (t.Tool, "execution"),
        until=D,
    ),
    *_fields(A, (t.CreateMessageParams, "meta"), (t.ElicitParams, "meta"), until=D),
    *_fields(
        E,
        (t.CallToolParams, "input_responses request_state"),
        (t.ClientCapabilities, "extensions"),
        (t.GetPromptParams, "input_responses request_state"),
        (t.ReadResourceParams, "input_responses request_state"),
        (t.Result, "result_type"),
        (t.CacheableResult, "ttl_ms cache_scope"),
        (t.ServerCapabilities, "extensions"),
    ),
)


class Filled(msgspec.Struct, frozen=True):
    """A member that results must have since a revision, and what it says where nobody said anything."""

    struct: type[t.Result]
    name: str
    value: Any
    since: Revision


FILLED: tuple[Filled, ...] = (
    Filled(t.Result, "result_type", "complete", E),
    Filled(t.CacheableResult, "ttl_ms", 0, E),
    Filled(t.CacheableResult, "cache_scope", "private", E),
)

KINDS: tuple[Kind, ...] = (
    Kind(t.TextContent, A),
    Kind(t.ImageContent, A),
    Kind(t.EmbeddedResource, A),
    Kind(t.AudioContent, B),
    Kind(t.ResourceLink, C),
    Kind(t.ToolUseContent, D),
    Kind(t.ToolResultContent, D),
)

MULTIPLE_SAMPLING_CONTENT = D
"""The first revision in which a sampling message may hold several blocks."""

MULTIPLE_CHOICE = D
"""The first revision in which a form may ask for several of some choices."""


USER_REJECTED = -1
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042


class Code(msgspec.Struct, frozen=True):
    """An error code, by name."""

    name: str
    code: int
    since: Revision = A
    until: Revision = E


CODES: tuple[Code, ...] = (
    Code("parse error", PARSE_ERROR),
    Code("invalid request", INVALID_REQUEST),
    Code("method not found", METHOD_NOT_FOUND),
    Code("invalid params", INVALID_PARAMS),
    Code("internal error", INTERNAL_ERROR),
    Code("user rejected sampling", -1, until=D),
    Code("resource not found", RESOURCE_NOT_FOUND, until=D),
    Code("header mismatch", HEADER_MISMATCH, since=E),
    Code("missing client capability", MISSING_CLIENT_CAPABILITY, since=E),
    Code("unsupported protocol version", UNSUPPORTED_VERSION, since=E),
    Code("url elicitation required", -32042, since=D, until=D),
)


_BY_SENDER: dict[tuple[str, Role, str], Method] = {
    (revision.name, sender, row.name): row
    for revision in REVISIONS.values()
    for row in METHODS
    for sender in ("client", "server")
    if row.sender in (sender, "both") and row.exists_in(revision)
}

_KNOWN_METHODS = {row.name for row in METHODS}


def method_row(method: str, sender: Role, revision: Revision) -> Method | None:
    """The row of `method` as sent by `sender` in `revision`; None if there is none."""
    return _BY_SENDER.get((revision.name, sender, method))


def is_known(method: str) -> bool:
    """Whether any revision has this method, in any direction."""
    return method in _KNOWN_METHODS


def lookup(names: Iterable[str]) -> tuple[Revision, ...]:
    """The rows of the named revisions, newest first. Raises ValueError for an unknown name or none."""
    unknown = [name for name in names if name not in REVISIONS]
    if unknown:
        raise ValueError(f"unknown protocol revision {unknown[0]!r}; known: {', '.join(REVISIONS)}")
    rows = tuple(sorted((REVISIONS[name] for name in names), key=lambda row: -row.position))
    if not rows:
        raise ValueError("at least one protocol revision is needed")
    return rows
