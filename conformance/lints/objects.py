"""The shapes of params and results, by method and revision."""

import json
from typing import Any

from .. import revisions, shapes
from ..shapes import wrong
from . import Seen, Story, lint
from .story import Told


def _shape(story: Story, method: str, shape: Any) -> Seen:
    for told in story.results(method):
        if told.result.get("resultType", "complete") == "complete":
            yield (
                told,
                wrong(
                    told.result, shape(told.revision) if callable(shape) else shape, "the result"
                ),
            )


def _known(told: Told) -> str:
    return told.revision if told.revision in revisions.ALL else revisions.ALL[-1]


@lint("LIFE-04")
def initialize_result(story: Story) -> Seen:
    """The answer to `initialize` has `protocolVersion`, `capabilities` and `serverInfo`, and perhaps
    `instructions`.
    """
    shape = {
        "protocolVersion": str,
        "capabilities": shapes.SERVER_CAPABILITIES,
        "serverInfo": dict,
        "instructions?": str,
    }
    for told in story.results("initialize"):
        yield told, wrong(told.result, shape, "the result")


@lint("LIFE-03")
def implementations(story: Story) -> Seen:
    """`clientInfo` and `serverInfo` have a string `name` and a string `version`."""
    for told in story.said(kind="request", method="initialize"):
        yield told, wrong(told.params.get("clientInfo"), shapes.IMPLEMENTATION, "clientInfo")
    for told in story.results("initialize"):
        yield told, wrong(told.result.get("serverInfo"), shapes.IMPLEMENTATION, "serverInfo")


@lint("LIFE-02")
def initialize_request(story: Story) -> Seen:
    """`initialize` carries `protocolVersion`, `capabilities` and `clientInfo`."""
    shape = {"protocolVersion": str, "capabilities": shapes.CLIENT_CAPABILITIES, "clientInfo": dict}
    for told in story.said(kind="request", method="initialize"):
        yield told, wrong(told.params, shape, "params")


@lint("CAP-02")
def flags_are_booleans(story: Story) -> Seen:
    """A capability is an object, and `listChanged` and `subscribe` in it are booleans."""
    for side in ("client", "server"):
        shape = shapes.CLIENT_CAPABILITIES if side == "client" else shapes.SERVER_CAPABILITIES
        for told in story.said(method="initialize"):
            holder = told.params if told.kind == "request" else told.result
            if told.sender == side and isinstance(holder, dict) and "capabilities" in holder:
                yield told, wrong(holder["capabilities"], shape, "capabilities")


@lint("PING-02")
def ping_result(story: Story) -> Seen:
    """The answer to `ping` is an empty result."""
    for told in story.results("ping"):
        more = sorted(set(told.result) - {"_meta"})
        yield told, f"it has {', '.join(more)}" if more else None


@lint("PING-03")
def ping_params(story: Story) -> Seen:
    """`ping` has no parameters but `_meta`."""
    for told in story.said(kind="request", method="ping"):
        more = sorted(set(told.params) - {"_meta"})
        yield told, f"it has {', '.join(more)}" if more else None


@lint("TOOL-02 TOOL26-02")
def tool_lists(story: Story) -> Seen:
    """`tools/list` gives an array `tools` and perhaps a string `nextCursor`."""
    yield from _shape(story, "tools/list", {"tools": list, "nextCursor?": str})


@lint("TOOL-03 TOOL26-06")
def tools_have_their_shape(story: Story) -> Seen:
    """A tool has a string `name` and an object `inputSchema`; what else it has is of the right type."""
    for told in story.results("tools/list"):
        yield told, wrong(told.result.get("tools"), [shapes.tool(_known(told))], "tools")


@lint("TOOL-04 JSCH-07 TOOL26-07")
def input_schemas_are_objects(story: Story) -> Seen:
    """`inputSchema` is a JSON Schema object, never null, with `type` "object" at the root."""
    for told in story.results("tools/list"):
        for tool in _entries(told, "tools"):
            yield (
                told,
                wrong(
                    tool.get("inputSchema"),
                    shapes.object_schema,
                    f"inputSchema of {tool.get('name')}",
                ),
            )


@lint("TOOL26-09")
def output_schemas_are_objects(story: Story) -> Seen:
    """`outputSchema`, where present, is a JSON Schema object."""
    for told in story.results("tools/list"):
        for tool in _entries(told, "tools"):
            if "outputSchema" in tool:
                yield told, wrong(tool["outputSchema"], dict, f"outputSchema of {tool.get('name')}")


@lint("TOOL-05 TOOL26-08")
def tools_without_parameters(story: Story) -> Seen:
    """A tool without parameters has an input schema that says no more than that it is an object."""
    for told in story.results("tools/list"):
        for tool in _entries(told, "tools"):
            schema = tool.get("inputSchema")
            if isinstance(schema, dict) and not schema.get("properties"):
                yield (
                    told,
                    None if schema.get("type") == "object" else f"{tool.get('name')}: {schema}",
                )


NAME_CHARACTERS = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


@lint("TOOL-06")
def tool_names_are_short(story: Story) -> Seen:
    """A tool's name has 1 to 128 characters."""
    for told in story.results("tools/list"):
        for name in _names(told, "tools"):
            yield (
                told,
                None if 1 <= len(name) <= 128 else f"{name[:40]!r} has {len(name)} characters",
            )


@lint("TOOL-08 TOOL-09 TOOL26-12")
def tool_names_are_plain(story: Story) -> Seen:
    """A tool's name has only ASCII letters, digits, `_`, `-` and `.`."""
    for told in story.results("tools/list"):
        for name in _names(told, "tools"):
            odd = sorted(set(name) - NAME_CHARACTERS)
            yield told, f"{name!r} has {odd}" if odd else None


@lint("TOOL-12 TOOL26-17")
def call_results_have_content(story: Story) -> Seen:
    """The result of `tools/call` has an array `content`, also beside structured content; `isError` is a
    boolean.
    """
    yield from _shape(story, "tools/call", {"content": list, "isError?": bool})


@lint("TOOL-13 VERS-09 TOOL26-18")
def content_blocks(story: Story) -> Seen:
    """Each content block is of a type that the revision has, with the members of that type."""
    for told in story.results("tools/call"):
        if isinstance(told.result.get("content"), list):
            yield told, wrong(told.result["content"], [shapes.block(_known(told))], "content")


@lint("TOOL-21")
def structured_content_is_an_object(story: Story) -> Seen:
    """`structuredContent`, where present, is an object."""
    for told in story.results("tools/call"):
        if "structuredContent" in told.result and not told.stateless:
            yield told, wrong(told.result["structuredContent"], dict, "structuredContent")


@lint("TOOL-22 TOOL26-21")
def structured_content_is_repeated(story: Story) -> Seen:
    """Structured content is repeated as JSON in a text block."""
    for told in story.results("tools/call"):
        if "structuredContent" in told.result and isinstance(told.result.get("content"), list):
            texts = [each.get("text") for each in told.result["content"] if isinstance(each, dict)]
            repeated = any(
                _json(text) == told.result["structuredContent"]
                for text in texts
                if isinstance(text, str)
            )
            yield told, None if repeated else "no text block holds the same JSON"


@lint("TOOL-23 TOOL26-23 SCHEMA26-16")
def structured_content_conforms(story: Story) -> Seen:
    """The successful result of a tool with an `outputSchema` has structured content that conforms to it."""
    known: dict[str, Any] = {}
    for told in story.results(("tools/list", "tools/call")):
        if told.method == "tools/list":
            known |= {
                tool["name"]: tool.get("outputSchema")
                for tool in _entries(told, "tools")
                if "name" in tool
            }
        elif told.request is not None and told.result.get("resultType", "complete") == "complete":
            schema = known.get(str(told.request.params.get("name")))
            if isinstance(schema, dict) and not told.result.get("isError"):
                if "structuredContent" not in told.result:
                    yield told, "there is no structuredContent"
                else:
                    yield (
                        told,
                        shapes.schema_problem(
                            told.result["structuredContent"], schema, "structuredContent"
                        ),
                    )


@lint("TOOL-26 TOOL26-19")
def embedding_servers_have_resources(story: Story) -> Seen:
    """A server whose tools embed resources declares `resources`."""
    for told in story.results("tools/call"):
        content = told.result.get("content")
        if isinstance(content, list) and any(
            isinstance(b, dict) and b.get("type") == "resource" for b in content
        ):
            declared = story.capabilities("server")
            if declared is not None:
                yield told, None if "resources" in declared else "resources is not declared"


@lint("RES-02 RES26-05")
def resources_have_their_shape(story: Story) -> Seen:
    """`resources/list` gives resources with a `uri` and a `name`; what else they have is of the right
    type.
    """
    yield from _shape(story, "resources/list", {"resources": [shapes.RESOURCE], "nextCursor?": str})


@lint("RES-03 RES26-14")
def templates_have_their_shape(story: Story) -> Seen:
    """`resources/templates/list` gives templates with a `uriTemplate` and a `name`."""
    yield from _shape(
        story,
        "resources/templates/list",
        {"resourceTemplates": [shapes.TEMPLATE], "nextCursor?": str},
    )


@lint("RES-04 RES-06 RES26-07")
def contents_have_their_shape(story: Story) -> Seen:
    """`resources/read` gives contents, each with a `uri` and exactly one of `text` and Base64 `blob`."""
    yield from _shape(story, "resources/read", {"contents": [shapes.contents]})


@lint("RES-13 RES26-13")
def uris_have_a_scheme(story: Story) -> Seen:
    """Every URI of a resource follows RFC 3986."""
    for told in story.results("resources/list"):
        for resource in _entries(told, "resources"):
            yield told, shapes.uri(resource.get("uri"))


@lint("RES-14 RES26-23")
def annotations(story: Story) -> Seen:
    """Annotations: `audience` of user and assistant, `priority` from 0 to 1, `lastModified` in ISO 8601."""
    for told in story.results(("resources/list", "resources/templates/list")):
        for member in ("resources", "resourceTemplates"):
            for entry in _entries(told, member):
                if "annotations" in entry:
                    yield told, wrong(entry["annotations"], shapes.ANNOTATIONS, "annotations")


@lint("PROMPT-02 PROMPT26-04")
def prompts_have_their_shape(story: Story) -> Seen:
    """`prompts/list` gives prompts with a `name`, and arguments with a `name` each."""
    yield from _shape(story, "prompts/list", {"prompts": [shapes.PROMPT], "nextCursor?": str})


@lint("PROMPT-04 PROMPT-05 PROMPT26-06")
def prompt_results(story: Story) -> Seen:
    """`prompts/get` gives messages, each with a role and one content block of a type that the revision
    has.
    """
    for told in story.results("prompts/get"):
        if told.result.get("resultType", "complete") == "complete":
            yield told, wrong(told.result, shapes.prompt_result(_known(told)), "the result")


@lint("PROMPT-06 PROMPT-07 PROMPT26-07")
def prompt_media(story: Story) -> Seen:
    """Images and sounds in prompts are Base64 with a valid media type."""
    for told in story.results("prompts/get"):
        for content in _prompt_blocks(told):
            if content.get("type") in ("image", "audio"):
                yield (
                    told,
                    wrong(
                        content, {"data": shapes.encoded, "mimeType": shapes.media_type}, "content"
                    ),
                )


@lint("PROMPT-08 PROMPT26-09")
def prompt_resources(story: Story) -> Seen:
    """A resource in a prompt has a valid URI, its media type, and text or blob."""
    shape = {"uri": shapes.uri, "mimeType": shapes.media_type}
    for told in story.results("prompts/get"):
        for content in _prompt_blocks(told):
            if content.get("type") == "resource":
                yield (
                    told,
                    wrong(content.get("resource"), shape, "resource")
                    or shapes.contents(content["resource"]),
                )


@lint("COMP-04 COMP26-03")
def completions(story: Story) -> Seen:
    """A completion has at most 100 string `values`, and perhaps `total` and `hasMore`."""
    for told in story.results("completion/complete"):
        problem = wrong(told.result, shapes.COMPLETION, "the result")
        if problem is None and len(told.result["completion"]["values"]) > 100:
            problem = f"there are {len(told.result['completion']['values'])} values"
        yield told, problem


@lint("LOG-06 LOG-02 LOG26-08 LOG26-07")
def log_messages(story: Story) -> Seen:
    """A log notification has a known `level` and `data`; `logger`, where present, is a string."""
    for told in story.said(kind="notification", method="notifications/message"):
        yield told, wrong(told.params, shapes.LOG, "params")


@lint("LOG-01 LOG26-01")
def logging_is_declared(story: Story) -> Seen:
    """A server that sends log notifications declares `logging`."""
    for told in story.said(by="server", kind="notification", method="notifications/message"):
        declared = story.capabilities("server")
        if declared is not None:
            yield told, None if "logging" in declared else "logging is not declared"


@lint("PAGE-01 PAGE26-01")
def cursors_are_strings(story: Story) -> Seen:
    """`nextCursor` and `cursor` are strings."""
    lists = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
    for told in story.said(method=lists):
        holder = told.params if told.kind == "request" else told.result
        name = "cursor" if told.kind == "request" else "nextCursor"
        if isinstance(holder, dict) and name in holder:
            yield told, wrong(holder[name], str, name)


@lint("ICON-01 ICON26-01")
def icons(story: Story) -> Seen:
    """An icon has `src`, and perhaps `mimeType`, `sizes` and `theme`."""
    members = ("tools", "prompts", "resources", "resourceTemplates")
    for told in story.results(
        ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    ):
        for member in members:
            for entry in _entries(told, member):
                if "icons" in entry:
                    yield told, wrong(entry["icons"], shapes.ICONS, "icons")


@lint("META-01")
def meta_is_an_object(story: Story) -> Seen:
    """`_meta`, where present in params or result, is an object."""
    for told in story.told:
        for holder in (told.params, told.result):
            if isinstance(holder, dict) and "_meta" in holder:
                yield told, wrong(holder["_meta"], dict, "_meta")


@lint("META-03 META-04 META26-18 META26-21")
def meta_keys(story: Story) -> Seen:
    """A key in `_meta` is an optional prefix of dot-separated labels and a slash, and a name."""
    for told in story.told:
        for holder in (told.params, told.result):
            if isinstance(holder, dict) and isinstance(holder.get("_meta"), dict):
                odd = [key for key in holder["_meta"] if not shapes.META_KEY.fullmatch(key)]
                yield told, f"the keys {odd}" if odd else None


@lint("SAMP-02 SAMP26-05")
def sampling_requests(story: Story) -> Seen:
    """A request for sampling has an array of `messages` and an integer `maxTokens`."""
    shape = {
        "messages": [{"role": ("user", "assistant"), "content": shapes.ANY}],
        "maxTokens": int,
        "temperature?": float,
        "systemPrompt?": str,
        "stopSequences?": [str],
        "metadata?": dict,
        "modelPreferences?": {
            "costPriority?": shapes.within(0, 1),
            "speedPriority?": shapes.within(0, 1),
            "intelligencePriority?": shapes.within(0, 1),
        },
    }
    for told, params in _questions(story, "sampling/createMessage"):
        yield told, wrong(params, shape, "params")


@lint("ELIC-05 ELIC-19 ELIC26-08 ELIC26-12 ELIC26-05")
def elicitation_requests(story: Story) -> Seen:
    """An elicitation has a `message`; a form has a `requestedSchema`; one by URL has a valid `url`."""
    for told, params in _questions(story, "elicitation/create"):
        if isinstance(params, dict) and params.get("mode", "form") == "url":
            more = {} if told.stateless else {"elicitationId": str}
            yield told, wrong(params, {"message": str, "url": shapes.uri, **more}, "params")
        else:
            mode = {"mode?": ("form",)}
            yield told, wrong(params, {"message": str, "requestedSchema": dict, **mode}, "params")


@lint("ELIC-08 ELIC26-09")
def forms_are_flat(story: Story) -> Seen:
    """The schema of a form is an object whose properties are primitive: nothing is nested or referred to."""
    for told, params in _questions(story, "elicitation/create"):
        schema = params.get("requestedSchema") if isinstance(params, dict) else None
        if isinstance(schema, dict):
            yield told, _form_problem(schema)


def _form_problem(schema: dict[str, Any]) -> str | None:
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        return "it is no object with properties"
    for name, field in schema["properties"].items():
        if not isinstance(field, dict) or field.get("type") not in (
            "string",
            "number",
            "integer",
            "boolean",
            "array",
        ):
            return f"{name} is {field}"
        if "$ref" in field or "properties" in field:
            return f"{name} is nested or refers elsewhere"
        if field["type"] == "array" and not ({"enum", "anyOf"} & set(field.get("items", {}))):
            return f"{name} is an array of something other than choices"
    return None


@lint("ROOT-02 ROOT-03 ROOT26-03 ROOT26-04")
def roots_are_files(story: Story) -> Seen:
    """Roots are an array, each with a `file://` URI."""

    def file_uri(value: Any) -> str | None:
        return (
            None
            if isinstance(value, str) and value.startswith("file://")
            else f"{value!r} is no file URI"
        )

    shape = {"roots": [{"uri": file_uri, "name?": str}]}
    for told, result in _replies(story, "roots/list"):
        yield told, wrong(result, shape, "the result")


@lint("SAMP-03 SAMP26-14")
def sampling_results(story: Story) -> Seen:
    """A sampled message has a `role`, `content` and the `model`."""
    shape = {"role": ("user", "assistant"), "content": shapes.ANY, "model": str, "stopReason?": str}
    for told, result in _replies(story, "sampling/createMessage"):
        yield told, wrong(result, shape, "the result")


@lint("ELIC-14 ELIC-15 ELIC26-14")
def elicitation_results(story: Story) -> Seen:
    """An elicited answer has an `action`; `content` is flat."""

    def flat(value: Any) -> str | None:
        ok = shapes.either(str, float, bool, [str])
        problems = (
            [wrong(each, ok, name) for name, each in value.items()]
            if isinstance(value, dict)
            else ["no object"]
        )
        return next((each for each in problems if each), None)

    shape = {"action": ("accept", "decline", "cancel"), "content?": flat}
    for told, result in _replies(story, "elicitation/create"):
        yield told, wrong(result, shape, "the result")


def _questions(story: Story, method: str) -> Any:
    """What a server asks of its client: requests of its own, or the parts of an input-required result."""
    for told in story.said(by="server", kind="request", method=method):
        yield told, told.params
    for told in story.results():
        asked = told.result.get("inputRequests")
        for each in asked.values() if isinstance(asked, dict) else ():
            if isinstance(each, dict) and each.get("method") == method:
                yield told, each.get("params")


def _replies(story: Story, method: str) -> Any:
    """What a client answered: results of its own, or the parts of its next round."""
    for told in story.results(method):
        if told.sender == "client":
            yield told, told.result
    for told in story.said(by="client", kind="request"):
        given = told.params.get("inputResponses")
        asked = _asked_before(story, told)
        for name, each in given.items() if isinstance(given, dict) else ():
            question = asked.get(name)
            if isinstance(question, dict) and question.get("method") == method:
                yield told, each


def _asked_before(story: Story, told: Told) -> dict[str, Any]:
    for other in reversed(story.told[: told.position]):
        asked = other.result.get("inputRequests") if isinstance(other.result, dict) else None
        if isinstance(asked, dict) and other.method == told.method:
            return asked
    return {}


def _entries(told: Told, member: str) -> list[dict[str, Any]]:
    found = told.result.get(member)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _names(told: Told, member: str) -> list[str]:
    return [each["name"] for each in _entries(told, member) if isinstance(each.get("name"), str)]


def _prompt_blocks(told: Told) -> list[dict[str, Any]]:
    blocks = [each.get("content") for each in _entries(told, "messages")]
    return [each for each in blocks if isinstance(each, dict)]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return object()
