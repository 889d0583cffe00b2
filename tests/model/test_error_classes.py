"""One tree of exceptions, each of which says what happened and to whom."""

from __future__ import annotations

import pytest

from mcpcore import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.LocalProtocolError("no"),
        errors.RemoteProtocolError("no", "JRPC-01"),
        errors.VersionMismatch(["x"], ["y"]),
        errors.CapabilityMissing("tools", "tools/list"),
        errors.RequestFailed(-1, "no"),
        errors.ConnectionLost("gone"),
        errors.RequestTimeout("ping", 1.5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_of_a_call_is_an_mcp_error(error: Exception) -> None:
    assert isinstance(error, errors.McpError)


def test_a_tool_error_stands_apart() -> None:
    assert not issubclass(errors.ToolError, errors.McpError)


def test_a_remote_protocol_error_names_the_rule() -> None:
    assert errors.RemoteProtocolError("no", "JRPC-01").rule == "JRPC-01"
    assert errors.RemoteProtocolError("no").rule is None


def test_a_version_mismatch_names_both_sides() -> None:
    error = errors.VersionMismatch(["b", "a"], ["z"])
    assert (error.ours, error.theirs) == (("b", "a"), ("z",))
    assert "this side speaks b, a" in str(error)
    assert "the peer speaks z" in str(error)
    assert "none that it named" in str(errors.VersionMismatch(["a"], []))


def test_a_missing_capability_names_it_and_the_method() -> None:
    error = errors.CapabilityMissing("resources.subscribe", "resources/subscribe")
    assert (error.capability, error.method) == ("resources.subscribe", "resources/subscribe")
    assert "'resources.subscribe'" in str(error)
    assert "resources/subscribe needs it" in str(error)


def test_a_failed_request_keeps_code_message_and_data() -> None:
    error = errors.RequestFailed(-32602, "Invalid params", {"at": "$"})
    assert (error.code, error.message, error.data) == (-32602, "Invalid params", {"at": "$"})
    assert str(error) == "Invalid params (code -32602)"


def test_a_lost_connection_quotes_stderr_when_there_is_some() -> None:
    error = errors.ConnectionLost("the server ended", -9, "Traceback\nValueError\n")
    assert str(error) == "the server ended; stderr ended with:\nTraceback\nValueError"
    assert str(errors.ConnectionLost("the server ended", stderr=" \n")) == "the server ended"


def test_each_caller_gets_an_instance_of_its_own() -> None:
    error = errors.ConnectionLost("gone", 3, "why")
    again = error.again()
    assert again is not error
    assert (again.reason, again.exit_status, again.stderr) == ("gone", 3, "why")


def test_a_timeout_says_what_was_waited_for_and_how_long() -> None:
    error = errors.RequestTimeout("tools/call", 2.0, "; progress came")
    assert (error.method, error.seconds) == ("tools/call", 2.0)
    assert str(error) == "no answer to tools/call within 2 s; progress came"
