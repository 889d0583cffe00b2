"""What the two sides say about themselves and the connection: initialize, capabilities, discovery,
cancellation, progress, logging, tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from mcpcore.jsonrpc import RequestId
from mcpcore.types.base import (
    CacheableResult,
    Implementation,
    PaginatedResult,
    Params,
    Result,
    WireObject,
)

Flag = dict[str, Any]
"""A capability without members that are known here: present means on, `{}` included."""


class ListChanged(WireObject, frozen=True):
    """A feature whose list may change; with `list_changed` the change is notified."""

    list_changed: bool = False


class ResourcesCapability(WireObject, frozen=True):
    subscribe: bool = False
    list_changed: bool = False


class SamplingCapability(WireObject, frozen=True):
    """`tools` and `context` since 2025-11-25."""

    context: Flag | None = None
    tools: Flag | None = None


class ElicitationCapability(WireObject, frozen=True):
    """An empty object means form mode only. `form` and `url` since 2025-11-25."""

    form: Flag | None = None
    url: Flag | None = None

    @property
    def forms(self) -> bool:
        """Whether form mode is on."""
        return self.form is not None or self.url is None


class ClientCapabilities(WireObject, frozen=True):
    experimental: dict[str, Any] | None = None
    roots: ListChanged | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    tasks: Flag | None = None
    extensions: dict[str, Any] | None = None


class ServerCapabilities(WireObject, frozen=True):
    experimental: dict[str, Any] | None = None
    logging: Flag | None = None
    completions: Flag | None = None
    prompts: ListChanged | None = None
    resources: ResourcesCapability | None = None
    tools: ListChanged | None = None
    tasks: Flag | None = None
    extensions: dict[str, Any] | None = None


_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_EXTENSION = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def check_extensions(extensions: Mapping[str, Any]) -> dict[str, Any]:
    """Extensions with their settings, by identifier: a reversed domain name, a slash and a name (EXT26-02).

    Raises ValueError for an identifier that is none, TypeError for settings that are no object.
    """
    for name, settings in extensions.items():
        if not _EXTENSION.fullmatch(name):
            raise ValueError(f"{name!r} is no identifier of an extension, such as com.example/name")
        if not isinstance(settings, Mapping):
            raise TypeError(f"the settings of {name} must be a dict; without settings it is empty")
    return dict(extensions)


class InitializeParams(Params, frozen=True):
    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Result, frozen=True):
    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult, frozen=True):
    """The stateless revision's answer to `server/discover`."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None


class CancelledParams(Params, frozen=True):
    request_id: RequestId | None = None
    reason: str | None = None


class ProgressParams(Params, frozen=True):
    """`progress` grows with each notification; `total` may stay unknown. `message` since 2025-03-26."""

    progress_token: RequestId
    progress: float
    total: float | None = None
    message: str | None = None


LOGGING_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From least to most severe (RFC 5424)."""


class SetLevelParams(Params, frozen=True):
    level: str


class LoggingMessageParams(Params, frozen=True):
    """`data` is any JSON value."""

    level: str
    data: Any
    logger: str | None = None


class SubscriptionFilter(WireObject, frozen=True):
    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] | None = None


class ListenParams(Params, frozen=True):
    notifications: SubscriptionFilter


class ListenResult(Result, frozen=True):
    """The graceful end of a `subscriptions/listen`."""


class AcknowledgedParams(Params, frozen=True):
    notifications: SubscriptionFilter


class TaskMetadata(WireObject, frozen=True):
    """Asks for a task instead of an answer; `ttl` in milliseconds. Only in 2025-11-25."""

    ttl: int | None = None


class Task(WireObject, frozen=True):
    """A request that goes on after its first answer. `ttl` and `poll_interval` in milliseconds."""

    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl: int | None
    status_message: str | None = None
    poll_interval: int | None = None


class CreateTaskResult(Result, frozen=True):
    task: Task


class TaskParams(Params, frozen=True):
    task_id: str


class TaskResult(Result, frozen=True):
    """A task, flat, as `tasks/get` and `tasks/cancel` give it."""

    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl: int | None
    status_message: str | None = None
    poll_interval: int | None = None


class TaskStatusParams(Params, frozen=True):
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl: int | None
    status_message: str | None = None
    poll_interval: int | None = None


class ListTasksResult(PaginatedResult, frozen=True):
    tasks: list[Task]


class ElicitationCompleteParams(Params, frozen=True):
    """Says that a url-mode elicitation is done. Only in 2025-11-25."""

    elicitation_id: str = msgspec.field(name="elicitationId")
