"""What the tour says of a frame: by its kind, by what it answers, by what it breaks."""

from __future__ import annotations

import json

import pytest

from mcpcore.cli.frames import Story
from mcpcore.cli.output import visible


def told(*frames: tuple[str, object]):
    """What is told of the last of `frames`."""
    story = Story()
    for direction, message in frames:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        last = story.tell(direction, data)
    return last


def request(method: str, id: object = 1, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def answer(result: object, id: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (request("initialize"), "LIFE-02"),
        (request("tools/list"), "PAGE-01"),
        (request("prompts/list", cursor=""), "PAGE-02"),
        (request("tools/call"), "TOOL-11"),
        (request("tools/call", _meta={"progressToken": 0}), "PROG-01"),
        (request("tools/call", _meta=7), "TOOL-11"),
        (request("resources/read"), "JRPC-02"),
        ({"id": 1, "method": "ping", "params": [1]}, "JRPC-02"),
        ({"method": "notifications/initialized"}, "LIFE-05"),
        ({"method": "notifications/progress"}, "PROG-06"),
        ({"method": "notifications/cancelled"}, "CANC-02"),
        ({"method": "notifications/message"}, "LOG-01"),
        ({"method": "notifications/something/else"}, "JRPC-12"),
    ],
)
def test_what_asks_or_tells_is_known_by_its_method(message, rule):
    last = told(("sent", message))
    assert (last.rule.id, last.broken) == (rule, False)
    assert message["method"] in last.what


@pytest.mark.parametrize(
    ("method", "result", "rule"),
    [
        ("initialize", {}, "LIFE-04"),
        ("ping", {}, "PING-02"),
        ("tools/list", {"tools": []}, "TOOL-02"),
        ("tools/list", {"tools": [], "nextCursor": ""}, "PAGE-04"),
        ("prompts/list", {"prompts": []}, "PAGE-04"),
        ("tools/call", {"content": []}, "TOOL-12"),
        ("tools/call", {"content": [], "isError": True}, "TOOL-17"),
        ("resources/read", {}, "RES-04"),
        ("prompts/get", {}, "PROMPT-04"),
        ("logging/setLevel", {}, "JRPC-07"),
    ],
)
def test_an_answer_is_known_by_its_request(method, result, rule):
    last = told(("sent", request(method)), ("received", answer(result)))
    assert (last.rule.id, last.broken) == (rule, False)
    assert last.what.startswith(f"answer to {method}: ")


def test_an_error_is_an_answer():
    failure = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}}
    last = told(("sent", request("tools/call")), ("received", failure))
    assert (last.what, last.rule.id) == ("answer to tools/call: an error", "JRPC-08")


def test_the_two_sides_have_ids_of_their_own():
    frames = [("sent", request("tools/call")), ("received", request("ping"))]
    assert told(*frames, ("sent", answer({}))).what.startswith("answer to ping")
    assert told(*frames, ("received", answer({}))).what.startswith("answer to tools/call")


@pytest.mark.parametrize(
    ("frames", "rule"),
    [
        ([("received", b"not json")], "STDIO-04"),
        ([("received", b'"\xff"')], "STDIO-04"),
        ([("received", b"[" * 100_000)], "STDIO-04"),
        ([("received", [])], "JRPC-18"),
        ([("received", answer({}))], "JRPC-07"),
        ([("sent", request("ping", 1)), ("received", answer({}, "1"))], "JRPC-07"),
        ([("sent", request("ping", 1)), ("sent", answer({}, 1))], "JRPC-07"),
        (
            [
                ("sent", request("tools/call", 5)),
                ("sent", {"method": "notifications/cancelled", "params": {"requestId": 5}}),
                ("received", answer({"content": []}, 5)),
            ],
            "CANC-06",
        ),
    ],
)
def test_what_breaks_a_rule_is_told_as_such(frames, rule):
    last = told(*frames)
    assert (last.rule.id, last.broken) == (rule, True)


def test_json_stays_the_same_json_when_it_is_made_visible():
    value = {"text": "\x7f\x85\u202e\u2066 é…\u2028"}
    text = json.dumps(value, ensure_ascii=False)
    assert json.loads(visible(text)) == value
    assert not set("\x7f\x85\u202e\u2066") & set(visible(text))
    assert visible("tab\tand\nline") == "tab\tand\nline"
