"""The tables of `mcpcore.revisions`, held against the models that the official SDK generates from
the published schemas.

For the two newest revisions every wire object must have the same members on both sides, and every
object of theirs must be one that is compared here or is named with the reason why not. The methods
are compared in each direction, for the older revisions too.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, get_args

import mcp_types
import mcp_types._v2025_11_25 as generated_2025_11_25
import mcp_types._v2026_07_28 as generated_2026_07_28
import msgspec
import pytest
from mcp_types import methods
from pydantic import BaseModel

from mcpcore import types as t
from mcpcore.revisions import CODES, FIELDS, KINDS, METHODS, REVISIONS, Revision

pytestmark = pytest.mark.judge

GENERATED: dict[str, ModuleType] = {
    "2025-11-25": generated_2025_11_25,
    "2026-07-28": generated_2026_07_28,
}

# Where one of our Structs is found on their side: names of models, and members of models where an
# object has no name of its own. Several mean that ours is the union of theirs. Names that only one of
# the two revisions has are skipped in the other.
THEIRS: dict[type[msgspec.Struct], tuple[str, ...]] = {
    t.AcknowledgedParams: ("SubscriptionsAcknowledgedNotificationParams",),
    t.Annotations: ("Annotations",),
    t.AudioContent: ("AudioContent",),
    t.CacheableResult: ("CacheableResult",),
    t.CallToolParams: ("CallToolRequestParams",),
    t.CallToolResult: ("CallToolResult",),
    t.CancelledParams: ("CancelledNotificationParams",),
    t.ClientCapabilities: ("ClientCapabilities",),
    t.CompleteParams: ("CompleteRequestParams",),
    t.CompleteResult: ("CompleteResult",),
    t.Completion: ("CompleteResult.completion",),
    t.CompletionArgument: ("CompleteRequestParams.argument",),
    t.CompletionContext: ("CompleteRequestParams.context",),
    t.CreateMessageParams: ("CreateMessageRequestParams",),
    t.CreateMessageResult: ("CreateMessageResult",),
    t.CreateTaskResult: ("CreateTaskResult",),
    t.DiscoverResult: ("DiscoverResult",),
    t.ElicitParams: ("ElicitRequestFormParams", "ElicitRequestURLParams"),
    t.ElicitResult: ("ElicitResult",),
    t.ElicitationCapability: ("ClientCapabilities.elicitation",),
    t.ElicitationCompleteParams: ("ElicitationCompleteNotification.params",),
    t.EmbeddedResource: ("EmbeddedResource",),
    t.EmptyResult: ("EmptyResult",),
    t.GetPromptParams: ("GetPromptRequestParams",),
    t.GetPromptResult: ("GetPromptResult",),
    t.Icon: ("Icon",),
    t.ImageContent: ("ImageContent",),
    t.Implementation: ("Implementation",),
    t.InitializeParams: ("InitializeRequestParams",),
    t.InitializeResult: ("InitializeResult",),
    t.InputRequiredResult: ("InputRequiredResult",),
    t.ListChanged: (
        "ServerCapabilities.tools",
        "ServerCapabilities.prompts",
        "ClientCapabilities.roots",
    ),
    t.ListPromptsResult: ("ListPromptsResult",),
    t.ListResourceTemplatesResult: ("ListResourceTemplatesResult",),
    t.ListResourcesResult: ("ListResourcesResult",),
    t.ListRootsResult: ("ListRootsResult",),
    t.ListTasksResult: ("ListTasksResult",),
    t.ListToolsResult: ("ListToolsResult",),
    t.ListenParams: ("SubscriptionsListenRequestParams",),
    t.ListenResult: ("SubscriptionsListenResult",),
    t.LoggingMessageParams: ("LoggingMessageNotificationParams",),
    t.Message: ("PromptMessage",),
    t.ModelHint: ("ModelHint",),
    t.ModelPreferences: ("ModelPreferences",),
    t.Option: ("TitledSingleSelectEnumSchema.one_of", "TitledMultiSelectEnumSchema.items.any_of"),
    t.Options: ("TitledMultiSelectEnumSchema.items", "UntitledMultiSelectEnumSchema.items"),
    t.PaginatedParams: ("PaginatedRequestParams",),
    t.PaginatedResult: ("PaginatedResult",),
    t.Params: ("RequestParams", "NotificationParams", "ListRootsRequest.params"),
    t.PrimitiveSchema: (
        "StringSchema",
        "NumberSchema",
        "BooleanSchema",
        "LegacyTitledEnumSchema",
        "TitledSingleSelectEnumSchema",
        "UntitledSingleSelectEnumSchema",
        "TitledMultiSelectEnumSchema",
        "UntitledMultiSelectEnumSchema",
    ),
    t.ProgressParams: ("ProgressNotificationParams",),
    t.Prompt: ("Prompt",),
    t.PromptArgument: ("PromptArgument",),
    t.PromptReference: ("PromptReference",),
    t.ReadResourceParams: ("ReadResourceRequestParams",),
    t.ReadResourceResult: ("ReadResourceResult",),
    t.Resource: ("Resource",),
    t.ResourceContents: ("TextResourceContents", "BlobResourceContents"),
    t.ResourceLink: ("ResourceLink",),
    t.ResourceParams: (
        "ResourceRequestParams",
        "SubscribeRequestParams",
        "UnsubscribeRequestParams",
        "ResourceUpdatedNotificationParams",
    ),
    t.ResourceTemplate: ("ResourceTemplate",),
    t.ResourceTemplateReference: ("ResourceTemplateReference",),
    t.ResourcesCapability: ("ServerCapabilities.resources",),
    t.Result: ("Result",),
    t.Root: ("Root",),
    t.SamplingCapability: ("ClientCapabilities.sampling",),
    t.SamplingMessage: ("SamplingMessage",),
    t.ServerCapabilities: ("ServerCapabilities",),
    t.SetLevelParams: ("SetLevelRequestParams",),
    t.SubscriptionFilter: ("SubscriptionFilter",),
    t.Task: ("Task",),
    t.TaskMetadata: ("TaskMetadata",),
    t.TaskParams: (
        "GetTaskRequest.params",
        "GetTaskPayloadRequest.params",
        "CancelTaskRequest.params",
    ),
    t.TaskResult: ("GetTaskResult", "CancelTaskResult"),
    t.TaskStatusParams: ("TaskStatusNotificationParams",),
    t.TextContent: ("TextContent",),
    t.Tool: ("Tool",),
    t.ToolAnnotations: ("ToolAnnotations",),
    t.ToolChoice: ("ToolChoice",),
    t.ToolExecution: ("ToolExecution",),
    t.ToolResultContent: ("ToolResultContent",),
    t.ToolUseContent: ("ToolUseContent",),
}

# Members that only we have, and why.
OURS_ONLY: dict[tuple[str, type[msgspec.Struct]], tuple[set[str], str]] = {
    ("2025-11-25", t.PrimitiveSchema): (
        {"pattern"},
        "the text of the specification has it (client/elicitation), its schema forgot it; read, never sent",
    ),
    ("2026-07-28", t.PrimitiveSchema): ({"pattern"}, "the same"),
    ("2025-11-25", t.ElicitationCompleteParams): (
        {"_meta"},
        "every notification may carry it (NotificationParams); the schema spells these params out and forgot it",
    ),
    ("2025-11-25", t.TaskParams): (
        {"_meta"},
        "every request may carry it (RequestParams); the schema spells these params out and forgot it",
    ),
    ("2026-07-28", t.PaginatedResult): (
        {"ttlMs", "cacheScope"},
        "every list of the revision is cacheable; theirs mixes the two in each list, ours inherits",
    ),
    ("2026-07-28", t.ListRootsResult): (
        {"_meta", "resultType"},
        "no result of its own in this revision but an entry of inputResponses",
    ),
    ("2026-07-28", t.ElicitResult): ({"_meta", "resultType"}, "the same"),
    ("2026-07-28", t.CreateMessageResult): ({"resultType"}, "the same"),
}

# Structs that are not compared in a revision that has no such object.
NOT_THERE = {
    "2025-11-25": {
        t.AcknowledgedParams,
        t.CacheableResult,
        t.DiscoverResult,
        t.InputRequiredResult,
        t.ListenParams,
        t.ListenResult,
        t.SubscriptionFilter,
    },
    "2026-07-28": {
        t.CreateTaskResult,
        t.ElicitationCompleteParams,
        t.InitializeParams,
        t.InitializeResult,
        t.ListTasksResult,
        t.SetLevelParams,
        t.Task,
        t.TaskMetadata,
        t.TaskParams,
        t.TaskResult,
        t.TaskStatusParams,
        t.ToolExecution,
    },
}

# Structs of ours that are no object of the schema.
OWN = {
    t.WireObject: "the base of all",
    t.UnknownContent: "stands for a block that no revision knows",
}

# Models of theirs that are no object of ours, by name, and why.
PLAIN = "stays a plain JSON object here"
NOT_OURS: dict[str, str] = {
    "WireModel": "the base of all",
    "BaseMetadata": "a mixin",
    "Icons": "a mixin",
    "ResourceContents": "a base; its two heirs are compared",
    "TaskAugmentedRequestParams": "a base",
    "InputResponseRequestParams": "a base",
    "Error": "an object of JSON-RPC",
    "Error1": "an object of JSON-RPC",
    "Error2": "an object of JSON-RPC",
    "Error3": "an object of JSON-RPC",
    "InternalError": "an object of JSON-RPC",
    "InvalidParamsError": "an object of JSON-RPC",
    "InvalidRequestError": "an object of JSON-RPC",
    "MethodNotFoundError": "an object of JSON-RPC",
    "ParseError": "an object of JSON-RPC",
    "Data": "the data of an error",
    "Data1": "the data of an error",
    "InputSchema": PLAIN,
    "OutputSchema": PLAIN,
    "RequestedSchema": PLAIN,
    "Meta": PLAIN,
    "MetaObject": PLAIN,
    "NotificationMetaObject": PLAIN,
    "RequestMetaObject": PLAIN,
    "ResultMetaObject": PLAIN,
    "SubscriptionsListenResultMeta": PLAIN,
    "RelatedTaskMetadata": PLAIN,
    "GetTaskPayloadResult": "any result",
}

# The capability for tasks, experimental: one plain object here, with all that is in it.
PLAIN_PATHS = ("ClientCapabilities.tasks", "ServerCapabilities.tasks")

# Where the generated maps of methods lag behind the schema.
TASKS = {"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "notifications/tasks/status"}


def our_members(struct: type[msgspec.Struct], revision: Revision) -> set[str]:
    lacking = {
        row.name
        for row in FIELDS
        if issubclass(struct, row.struct)
        and not row.since.position <= revision.position <= row.until.position
    }
    names = {
        field.encode_name for field in msgspec.structs.fields(struct) if field.name not in lacking
    }
    tag = struct.__struct_config__.tag_field
    return names | ({tag} if tag else set())


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation allows, through options, unions and lists."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]


def models_at(module: ModuleType, path: str) -> list[type[BaseModel]]:
    """The models that `path` names in a generated module; none if it has no such thing."""
    name, *members = path.split(".")
    model = getattr(module, name, None)
    models = [] if model is None else [model]
    for member in members:
        fields = [model.model_fields.get(member) for model in models]
        models = [found for field in fields if field for found in models_in(field.annotation)]
    return models


def with_inner(models: list[type[BaseModel]]) -> list[type[BaseModel]]:
    """The models and all that are inside of them."""
    inner = [
        found
        for model in models
        for field in model.model_fields.values()
        for found in models_in(field.annotation)
    ]
    return models + with_inner(inner) if inner else models


def their_members(models: list[type[BaseModel]]) -> set[str]:
    return {field.alias or name for model in models for name, field in model.model_fields.items()}


def wire_objects(module: ModuleType) -> dict[str, type[BaseModel]]:
    """The models of a generated module that are no whole message."""
    return {
        name: model
        for name, model in vars(module).items()
        if inspect.isclass(model)
        and issubclass(model, BaseModel)
        and not {"jsonrpc", "method"} & model.model_fields.keys()
        and "error" not in model.model_fields
    }


CASES = [
    pytest.param(name, struct, id=f"{name}-{struct.__name__}")
    for name in GENERATED
    for struct in THEIRS
    if struct not in NOT_THERE[name]
]


@pytest.mark.parametrize(("name", "struct"), CASES)
def test_a_wire_object_has_the_members_of_the_schema(
    name: str, struct: type[msgspec.Struct]
) -> None:
    models = [model for path in THEIRS[struct] for model in models_at(GENERATED[name], path)]
    assert models, f"{THEIRS[struct]} not found in {name}"
    extra, _ = OURS_ONLY.get((name, struct), (set(), ""))
    ours = our_members(struct, REVISIONS[name])
    assert extra <= ours
    assert ours - extra == their_members(models)


@pytest.mark.parametrize("name", GENERATED)
def test_an_object_that_is_not_compared_is_really_not_in_the_schema(name: str) -> None:
    for struct in NOT_THERE[name]:
        assert not [path for path in THEIRS[struct] if models_at(GENERATED[name], path)]


def test_every_struct_is_compared() -> None:
    structs = {
        value
        for value in vars(t).values()
        if inspect.isclass(value) and issubclass(value, msgspec.Struct)
    }
    assert structs == THEIRS.keys() | OWN.keys()


@pytest.mark.parametrize("name", GENERATED)
def test_every_object_of_the_schema_is_compared(name: str) -> None:
    module = GENERATED[name]
    compared = {
        model for paths in THEIRS.values() for path in paths for model in models_at(module, path)
    } | {model for path in PLAIN_PATHS for model in with_inner(models_at(module, path))}
    left = {
        found
        for found, model in wire_objects(module).items()
        if model not in compared and found not in NOT_OURS
    }
    assert left == set()


# Methods.


def method_of(model: type[BaseModel]) -> str:
    (name,) = get_args(model.model_fields["method"].annotation)
    return str(name)


def our_methods(revision: Revision, sender: str, *, requests: bool) -> set[str]:
    return {
        row.name
        for row in METHODS
        if row.exists_in(revision) and row.sender in (sender, "both") and row.is_request == requests
    }


DIRECTIONS = [
    ("ClientRequest", "client", True),
    ("ServerRequest", "server", True),
    ("ClientNotification", "client", False),
    ("ServerNotification", "server", False),
]


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize(("union", "sender", "requests"), DIRECTIONS)
def test_a_direction_has_the_methods_of_the_schema(
    name: str, union: str, sender: str, requests: bool
) -> None:
    theirs = {method_of(model) for model in models_in(getattr(GENERATED[name], union, None))}
    assert our_methods(REVISIONS[name], sender, requests=requests) == theirs


MAPS = [
    (methods.CLIENT_REQUESTS, "client", True),
    (methods.SERVER_REQUESTS, "server", True),
    (methods.CLIENT_NOTIFICATIONS, "client", False),
    (methods.SERVER_NOTIFICATIONS, "server", False),
]


@pytest.mark.parametrize("name", REVISIONS)
@pytest.mark.parametrize(
    ("table", "sender", "requests"), MAPS, ids=[f"{row[1]}-{row[2]}" for row in MAPS]
)
def test_a_direction_has_the_methods_that_the_sdk_serves(
    name: str, table: Any, sender: str, requests: bool
) -> None:
    theirs = {method for method, revision in table if revision == name}
    assert our_methods(REVISIONS[name], sender, requests=requests) - TASKS == theirs


# Content kinds.


def kinds_at(module: ModuleType, path: str) -> set[str]:
    return {
        str(kind)
        for model in models_at(module, path)
        for kind in get_args(model.model_fields["type"].annotation)
    }


@pytest.mark.parametrize("name", GENERATED)
def test_the_content_kinds_are_those_of_the_schema(name: str) -> None:
    module = GENERATED[name]
    theirs = (
        kinds_at(module, "CallToolResult.content")
        | kinds_at(module, "PromptMessage.content")
        | kinds_at(module, "SamplingMessage.content")
        | kinds_at(module, "CreateMessageResult.content")
    )
    ours = {
        row.struct.__struct_config__.tag
        for row in KINDS
        if row.since.position <= REVISIONS[name].position
    }
    assert ours == theirs


# Error codes.


def test_the_error_codes_are_those_of_the_sdk() -> None:
    ours = {row.name.upper().replace(" ", "_"): row.code for row in CODES}
    ours["MISSING_REQUIRED_CLIENT_CAPABILITY"] = ours.pop("MISSING_CLIENT_CAPABILITY")
    theirs = {name: getattr(mcp_types, name, None) for name in ours}
    # Two numbers that the SDK has no name for.
    assert theirs.pop("USER_REJECTED_SAMPLING") is None
    assert theirs.pop("RESOURCE_NOT_FOUND") is None
    assert {name: ours[name] for name in theirs} == theirs
