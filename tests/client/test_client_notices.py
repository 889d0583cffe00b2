"""What a client does with notifications, and how it keeps count of what it forgave."""

from __future__ import annotations

import logging

import pytest
import trio
from handshake import open_client
from scripted_server import greeting, scripted

from mcpcore import RemoteProtocolError
from mcpcore.client import ForgivenReport
from mcpcore.protocol.events import Forgiven, Notification
from mcpcore.types import LoggingMessageParams

LIST_CHANGED = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}


class Heard(list):
    """A callback that notes what it gets."""

    def __call__(self, thing: object) -> None:
        self.append(thing)


async def test_log_messages_reach_the_callback_plain_or_async():
    plain = Heard()
    async with scripted(on_log=plain) as (_, server):
        for data in (None, 5, {"a": [1]}):
            server.notify("notifications/message", {"level": "info", "data": data, "logger": "l"})
        await server.expect_silence()
    assert plain[0] == LoggingMessageParams(level="info", data=None, logger="l")
    assert [message.data for message in plain] == [None, 5, {"a": [1]}]
    got = []

    async def later(message):
        await trio.lowlevel.checkpoint()
        got.append(message.data)

    async with scripted(on_log=later) as (_client, server):
        server.notify("notifications/message", {"level": "info", "data": 1})
        await trio.testing.wait_all_tasks_blocked()
    assert got == [1]


@pytest.mark.parametrize(("method", "kind"), LIST_CHANGED.items())
async def test_changed_lists_are_told_by_kind(method, kind):
    heard = Heard()
    async with scripted(on_list_changed=heard) as (_client, server):
        server.notify(method)
        await trio.testing.wait_all_tasks_blocked()
        assert heard == [kind]


async def test_a_burst_of_changes_is_one_call_running_and_one_more(autojump_clock):
    """F-052: two hundred notifications must not become two hundred lists."""
    calls = []

    async def changed(kind):
        calls.append((trio.current_time(), kind))
        await trio.sleep(1)

    async with scripted(on_list_changed=changed) as (_client, server):
        for _ in range(200):
            server.notify("notifications/tools/list_changed")
        await trio.sleep(0.5)
        assert len(calls) == 1
        for _ in range(200):
            server.notify("notifications/tools/list_changed")
        await trio.sleep(100)
        assert [kind for _, kind in calls] == ["tools", "tools"]


async def test_the_last_change_is_never_lost(autojump_clock):
    """F-052: a change while the callback works is told after it."""
    state = {"truth": 0, "seen": None}

    async def changed(kind):
        state["seen"] = state["truth"]
        await trio.sleep(1)

    async with scripted(on_list_changed=changed) as (_client, server):
        for n in range(50):
            state["truth"] = n
            server.notify("notifications/tools/list_changed")
            await trio.sleep(0.3)
        await trio.sleep(10)
        assert state["seen"] == 49


async def test_a_storm_stays_ten_a_second(autojump_clock):
    """F-052: a minimum interval under sustained storms, also for a callback that takes no time."""
    heard = Heard()
    async with scripted(on_list_changed=heard) as (_client, server):
        for _ in range(1000):
            server.notify("notifications/tools/list_changed")
            await trio.sleep(0.01)
        await trio.sleep(1)
        assert 50 <= len(heard) <= 105


async def test_changes_of_different_lists_do_not_wait_for_each_other(autojump_clock):
    heard = []

    async def changed(kind):
        heard.append(kind)
        await trio.sleep_forever()

    async with scripted(on_list_changed=changed) as (_client, server):
        for method in LIST_CHANGED:
            server.notify(method)
        await trio.sleep(1)
        assert sorted(heard) == ["prompts", "resources", "tools"]


async def test_a_callback_that_raises_is_logged_and_called_again(autojump_clock, caplog):
    calls = []

    def changed(kind):
        calls.append(kind)
        raise ValueError("callback broke")

    async with scripted(on_list_changed=changed) as (_client, server):
        for _ in range(3):
            server.notify("notifications/tools/list_changed")
            await trio.sleep(1)
    assert calls == ["tools"] * 3
    assert "callback for changed lists raised" in caplog.text


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_other_callbacks_that_raise_end_nothing(kind, caplog):
    def plain(thing):
        raise ValueError("callback broke")

    async def later(thing):
        raise ValueError("callback broke")

    function = plain if kind == "plain" else later
    options = {"on_log": function, "on_resource_updated": function, "on_notification": function}
    async with scripted(**options) as (_client, server):
        server.notify("notifications/message", {"level": "info", "data": 1})
        server.notify("notifications/resources/updated", {"uri": "x:a"})
        server.notify("notifications/vendor", {})
        await server.expect_silence()
    assert caplog.text.count("ValueError: callback broke") == 3


async def test_updates_name_the_resource():
    heard = Heard()
    async with scripted(on_resource_updated=heard) as (_client, server):
        server.notify("notifications/resources/updated", {"uri": "users/me"})
        await server.expect_silence()
    assert heard == ["users/me"]


async def test_everything_else_goes_to_on_notification():
    heard = Heard()
    async with scripted(on_notification=heard) as (_client, server):
        server.notify("notifications/vendor", {"a": 1})
        server.notify("notifications/elicitation/complete", {"elicitationId": "e"})
        server.notify("notifications/message", {"level": "info", "data": 1})
        await server.expect_silence()
    methods = [notification.method for notification in heard]
    assert methods[0] == "notifications/vendor"
    assert isinstance(heard[0], Notification)
    assert "notifications/message" in methods


async def test_unreadable_and_unwanted_notifications_are_dropped():
    """F-033: an unknown notification is never answered and never fatal."""
    heard = Heard()
    async with scripted(on_log=heard, on_resource_updated=heard) as (_client, server):
        server.notify("notifications/message", {"level": 5})
        server.notify("notifications/message", {})
        server.notify("notifications/message")
        server.notify("notifications/resources/updated", {"uri": 5})
        server.notify("notifications/futurething", {"a": 1})
        server.notify("notifications/tools/list_changed")
        await server.expect_silence()
    assert heard == []


async def test_notifications_without_a_callback_are_dropped():
    async with scripted() as (_client, server):
        for method in (*LIST_CHANGED, "notifications/message", "notifications/resources/updated"):
            server.notify(method, {"level": "info", "data": 1, "uri": "x"})
        await server.expect_silence()


async def test_a_notification_of_something_undeclared_is_counted():
    heard = Heard()
    async with scripted({}, on_log=heard) as (client, server):
        server.notify("notifications/message", {"level": "info", "data": 1})
        await server.expect_silence()
        assert client.forgiven.counts == {"CAP-01": 1}
        assert len(heard) == 1


async def test_a_strict_client_drops_a_notification_of_something_undeclared():
    heard = Heard()
    async with scripted({}, on_log=heard, strict=True) as (client, server):
        server.notify("notifications/message", {"level": "info", "data": 1})
        with pytest.raises(RemoteProtocolError):
            await client.ping()
        assert heard == []


# The report.


async def test_nothing_is_forgiven_silently(caplog):
    async with scripted() as (client, server):
        assert not client.forgiven
        assert str(client.forgiven) == "nothing was forgiven"
        caplog.clear()
        for _ in range(150):
            server.send(b"a line of log")
        await server.expect_silence()
        assert client.forgiven
        assert client.forgiven.counts == {"STDIO-04": 150}
        assert len(client.forgiven.recent) == 100
        assert client.forgiven.recent[-1] == Forgiven("STDIO-04", "a line of log")
        assert str(client.forgiven).startswith("STDIO-04 x150: A server writes nothing but")
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "STDIO-04" in warnings[0].getMessage()


def test_a_report_is_in_the_order_of_the_rules():
    report = ForgivenReport()
    for rule in ("TOOL-12", "JRPC-07", "TOOL-12"):
        report.add(Forgiven(rule, "seen"))
    lines = str(report).splitlines()
    assert [line.split(":")[0] for line in lines] == ["JRPC-07 x1", "TOOL-12 x2"]


# Strictness.


async def test_a_strict_client_fails_the_call_whose_answer_deviates():
    async with scripted({"tools": {}}, strict=True) as (client, server):
        call = server.begin(client.call_tool, "f")
        server.answer(await server.expect("tools/call"), {"structuredContent": {}})
        with pytest.raises(RemoteProtocolError) as caught:
            await call.result()
        assert caught.value.rule == "TOOL-12"
        call = server.begin(client.call_tool, "f")
        request = await server.expect("tools/call")
        server.answer(request | {"id": str(request["id"])}, {"content": []})
        with pytest.raises(RemoteProtocolError) as caught:
            await call.result()
        assert caught.value.rule == "JRPC-07"
        call = server.begin(client.call_tool, "f")
        server.answer(await server.expect("tools/call"), {"content": []})
        await call.result()
        assert not client.forgiven


@pytest.mark.parametrize("junk", [b"Server listening...", b'{"jsonrpc":"2.0"}', b"[]", b"42"])
async def test_a_strict_client_ends_the_connection_for_what_belongs_to_no_call(junk):
    async with scripted({"tools": {}}, strict=True) as (client, server):
        call = server.begin(client.call_tool, "f")
        await server.expect("tools/call")
        server.send(junk)
        with pytest.raises(RemoteProtocolError):
            await call.result()
        with pytest.raises(RemoteProtocolError) as caught:
            await client.ping()
        assert caught.value.rule is not None


@pytest.mark.parametrize(
    "junk", [b"Server listening...", b'{"jsonrpc":"2.0"}', b"[]", b"42", b"\xff"]
)
async def test_a_lenient_client_survives_what_belongs_to_no_call(junk):
    async with scripted({"tools": {}}) as (client, server):
        server.send(junk)
        server.begin(server.answer_the_rest)
        await client.ping()


async def test_a_server_that_asks_before_its_answer_to_initialize_is_refused():
    async with greeting() as (channel, server):
        opening = server.begin(open_client, server._nursery, channel, roots=["file:///a"])
        request = await server.expect("initialize")
        server.ask("r", "roots/list")
        refused = await server.expect_answer("r")
        assert "error" in refused
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"},
        }
        server.answer(request, result)
        await server.expect("notifications/initialized")
        client = await opening.result()
        await client.aclose()


async def test_capabilities_of_the_wrong_shape_are_read_and_counted():
    async with scripted({"tools": True, "prompts": None, "logging": {}}) as (client, _server):
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.prompts is None
        assert client.forgiven.counts["CAP-02"] == 2
