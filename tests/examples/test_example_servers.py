"""The edges of the example servers, over memory: what they refuse, and that they refuse it in bounds."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import trio
from example_programs import as_child, load

from mcpcore import CallToolResult, Client, RequestFailed, connect
from mcpcore.types import LoggingMessageParams


@pytest.fixture
async def calculator(nursery: trio.Nursery) -> Client:
    return await Client.open(nursery, load("calculator").server)


async def calculate(client: Client, expression: str) -> CallToolResult:
    return await client.call_tool("calculate_expression", {"expression": expression})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(3.5 * 10) / (2 + 3)", 7),
        ("2^10", 1024),
        ("2**10", 1024),
        ("1 + 2 * 3 - 4 / 2", 5),
        ("10 - 2 - 3", 5),
        ("100 / 10 / 5", 2),
        ("2 ^ 3 ^ 2", 512),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^-1", 0.5),
        ("2^-3 * 2", 0.25),
        ("2 * -3", -6),
        ("--3", 3),
        ("+.5", 0.5),
        ("7.", 7),
        ("7/2", 3.5),
        ("(-8)^3", -512),
        ("2^64", 2.0**64),
        ("0 / 5", 0),
        ("\t1\n+ 1 ", 2),
        ("9" * 300, float("9" * 300)),
        ("(" * 49 + "1" + ")" * 49, 1),
        ("+".join("1" * 150), 150),
    ],
)
async def test_an_expression_has_its_value(
    calculator: Client, expression: str, value: float
) -> None:
    result = await calculate(calculator, expression)
    assert not result.is_error, result.text
    assert result.structured_content == {"result": value}


async def test_a_whole_value_is_written_without_a_point(calculator: Client) -> None:
    assert (await calculate(calculator, "(3.5 * 10) / (2 + 3)")).text == "7"
    assert (await calculate(calculator, "2^10")).text == "1024"


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("9**9**9", "too large"),
        ("9^9^9^9^9^9", "too large"),
        ("10^308 * 10", "too large"),
        ("1/0", "1 / 0 has no value"),
        ("0^-1", "no value"),
        ("(-8)^.5", "no value"),
        ("(" * 60 + "1" + ")" * 60, "nested"),
        ("-" * 100 + "1", "nested"),
        ("^".join("1" * 100), "nested"),
        ("(" * 150 + ")" * 150, "nested"),
        ("1" * 301, "length <= 300"),
        ("1+" * 1_000_000 + "1", "length <= 300"),
        ("__import__('os').system('true')", "found _"),
        ("pi", "found p"),
        ("1e5", "found e"),
        ("5 % 2", "found %"),
        ("1 << 9", "found <"),
        ("1;2", "found ;"),
        ("2 3", "found 3"),
        ("\u0663 + 1", "found \u0663"),
        ("1\x002", "found \x00"),
        ("2 \u00d7 3", "found \u00d7"),
        ("* 2", r"found *"),
        ("2 * * 3", r"found *"),
        ("1 +", "found the end"),
        ("(1", "found the end"),
        ("()", "found )"),
        ("1)", "found )"),
        (".", "found ."),
        ("1.2.3", "found .3"),
        ("", "found the end"),
        ("   ", "found the end"),
        ("the end", "found t"),
    ],
)
async def test_what_is_no_expression_or_has_no_value_is_a_tool_error(
    calculator: Client, expression: str, says: str
) -> None:
    result = await calculate(calculator, expression)
    assert result.is_error
    assert says in result.text
    assert len(result.text) < 200


async def test_the_calculator_shows_pages_and_everything_that_a_tour_walks_through(
    calculator: Client,
) -> None:
    page = await calculator.list_tools_page()
    assert len(page.tools) == 2
    assert page.next_cursor is not None
    assert [tool.name for tool in await calculator.list_tools()] == [
        "calculate_expression",
        "count",
        "wait",
    ]
    read = await calculator.read_resource("calculator://constants")
    assert read.contents[0].mime_type == "application/json"
    assert json.loads(read.contents[0].text or "") == {
        "e": math.e,
        "pi": math.pi,
        "tau": math.tau,
    }
    read = await calculator.read_resource("calculator://constants/tau")
    assert read.contents[0].text == str(math.tau)
    with pytest.raises(RequestFailed) as caught:
        await calculator.read_resource("calculator://constants/x")
    assert caught.value.code == -32602
    prompt = await calculator.get_prompt("explain", {"expression": "1 + 1"})
    assert "1 + 1" in prompt.messages[0].content.text  # type: ignore[union-attr]


async def test_counting_logs_and_reports_progress(autojump_clock: trio.abc.Clock) -> None:
    logs: list[LoggingMessageParams] = []
    seen: list[tuple[float, float | None, str | None]] = []
    async with connect(load("calculator").server, on_log=logs.append) as client:
        result = await client.call_tool(
            "count",
            {"to": 3},
            on_progress=lambda progress: seen.append(
                (progress.progress, progress.total, progress.message)
            ),
        )
        assert result.text == "counted to 3"
        waited = await client.call_tool("wait", {"seconds": 2.5})
        assert waited.text == "waited for 2.5 s"
    assert seen == [(1, 3, "1 of 3"), (2, 3, "2 of 3"), (3, 3, "3 of 3")]
    assert [(log.level, log.data) for log in logs] == [("info", "counting to 3")]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("count", {"to": 0}),
        ("count", {"to": 1001}),
        ("count", {"to": 2, "pause": -1}),
        ("wait", {"seconds": -1}),
        ("wait", {"seconds": 1e9}),
    ],
)
async def test_numbers_out_of_bounds_are_tool_errors(
    calculator: Client, tool: str, arguments: dict[str, float]
) -> None:
    result = await calculator.call_tool(tool, arguments)
    assert result.is_error
    assert list(arguments)[-1] in result.text


# The database.


@pytest.fixture
def database() -> ModuleType:
    return load("database")


async def query(module: ModuleType, sql: str, **arguments: Any) -> CallToolResult:
    async with connect(module.server) as client:
        return await client.call_tool("query_database_records", {"sql_query": sql, **arguments})


async def test_the_schema_of_a_query_shows_choices_default_and_bounds(database: ModuleType) -> None:
    async with connect(database.server) as client:
        (tool,) = await client.list_tools()
    assert tool.name == "query_database_records"
    schema = tool.input_schema
    assert schema["required"] == ["sql_query"]
    assert schema["additionalProperties"] is False
    seconds = schema["properties"]["timeout_seconds"]
    assert (seconds["type"], seconds["default"]) == ("integer", 5)
    assert (seconds["minimum"], seconds["maximum"]) == (1, 30)
    environment = schema["properties"]["environment"]
    assert sorted(environment["enum"]) == ["development", "production", "staging"]
    assert all("description" in value for value in schema["properties"].values())


async def test_a_query_gives_records_of_the_chosen_environment(database: ModuleType) -> None:
    for environment, expected in (("development", 2), ("staging", 4), ("production", 6)):
        result = await query(database, "SELECT count(*) FROM planets", environment=environment)
        assert result.structured_content == {
            "columns": ["count(*)"],
            "rows": [[expected]],
            "truncated": False,
        }
    result = await query(database, "SELECT name, moons FROM planets ORDER BY name")
    assert result.structured_content["rows"] == [["Mercury", 0], ["Venus", 0]]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO planets VALUES ('X', 1)",
        "UPDATE planets SET moons = 9",
        "DELETE FROM planets",
        "DROP TABLE planets",
        "CREATE TABLE more (x)",
        "CREATE TEMP TABLE more (x)",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "ATTACH 'elsewhere' AS other",
        "BEGIN",
        "VACUUM",
        "VACUUM INTO 'elsewhere'",
        "ANALYZE",
        "SELECT load_extension('x')",
    ],
)
async def test_whatever_does_not_only_read_is_a_tool_error_and_changes_nothing(
    database: ModuleType, sql: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with connect(database.server) as client:
        result = await client.call_tool("query_database_records", {"sql_query": sql})
        assert result.is_error
        assert "auth" in result.text
        after = await client.call_tool(
            "query_database_records", {"sql_query": "SELECT * FROM planets"}
        )
    assert after.structured_content["rows"] == [["Mercury", 0], ["Venus", 0]]
    assert list(tmp_path.iterdir()) == []


async def test_the_file_is_read_only_even_without_the_authorizer(
    database: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for action in ("INSERT", "TRANSACTION"):
        database.READING.add(getattr(database.sqlite3, f"SQLITE_{action}"))
    result = await query(database, "INSERT INTO planets VALUES ('X', 1)")
    assert result.is_error
    assert "readonly" in result.text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; DELETE FROM planets",
        "no SQL at all",
        "SELECT nothing FROM planets",
        "SELECT '\0'",
        "SELECT CAST(x'ff' AS TEXT)",
        "SELECT zeroblob(1000000)",
        "SELECT hex(zeroblob(9000))",
        "SELECT 9e999",
        "SELECT 'a' LIKE '" + "%a" * 50 + "'",
        "SELECT " + ", ".join("1" * 51),
        "SELECT '" + "x" * 5000 + "'",
    ],
)
async def test_a_query_that_cannot_be_answered_in_bounds_is_a_tool_error(
    database: ModuleType, sql: str
) -> None:
    result = await query(database, sql)
    assert result.is_error
    assert "unexpectedly" not in result.text
    assert len(result.text) < 200


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"


async def test_rows_beyond_the_limit_are_left_out_and_the_records_say_so(
    database: ModuleType,
) -> None:
    result = await query(database, ENDLESS.format("i"))
    assert result.structured_content["truncated"] is True
    assert len(result.structured_content["rows"]) == database.MAX_ROWS
    exactly = await query(database, ENDLESS.format("i") + f" LIMIT {database.MAX_ROWS}")
    assert exactly.structured_content["truncated"] is False


async def test_a_query_that_runs_too_long_is_stopped_and_is_a_tool_error(
    database: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is ours, so that nobody waits: it jumps ten seconds whenever it is read."""
    clock = itertools.count(0, 10)
    monkeypatch.setattr(database, "monotonic", lambda: next(clock))
    result = await query(database, ENDLESS.format("count(*)"), timeout_seconds=25)
    assert result.is_error
    assert "stopped after 25 s" in result.text
    assert next(clock) == 40  # read at the start, then at 10, 20 and 30


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 31}, "timeout_seconds"),
        ({"timeout_seconds": "5"}, "timeout_seconds"),
        ({"environment": "elsewhere"}, "environment"),
        ({"environment": "../production"}, "environment"),
    ],
)
async def test_arguments_of_a_query_out_of_bounds_are_tool_errors(
    database: ModuleType, arguments: dict[str, Any], says: str
) -> None:
    result = await query(database, "SELECT 1", **arguments)
    assert result.is_error
    assert says in result.text


async def test_the_databases_are_removed_with_the_connection(
    database: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(database.tempfile, "tempdir", str(tmp_path))
    async with connect(database.server) as client:
        await client.ping()
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


# The orders.


async def test_the_one_order_has_its_three_fields() -> None:
    async with connect(load("orders").server) as client:
        (tool,) = await client.list_tools()
        result = await client.call_tool("get_order_status", {"order_id": "ORD-104"})
    assert tool.input_schema["properties"]["order_id"]["pattern"] == "^ORD-[0-9]{3}$"
    assert result.structured_content == {
        "order_id": "ORD-104",
        "status": "shipped",
        "estimated_delivery": "2026-03-14",
    }


@pytest.mark.parametrize(
    "order_id",
    [
        "ORD-104\n",
        "\nORD-104",
        " ORD-104",
        "ORD-104 ",
        "ORD-1044",
        "ORD-10",
        "XORD-104",
        "ord-104",
        "ORD-\u0661\u0660\u0664",
        "ORD-104\u2028",
        "ORD-104\0",
        "ORD-104' OR '1'='1",
        "",
        "x" * 100_000,
    ],
)
async def test_a_malformed_order_id_is_a_tool_error(order_id: str) -> None:
    async with connect(load("orders").server) as client:
        result = await client.call_tool("get_order_status", {"order_id": order_id})
    assert result.is_error
    assert "no order id" in result.text


async def test_an_unknown_order_is_a_tool_error() -> None:
    async with connect(load("orders").server) as client:
        for order_id in ("ORD-103", "ORD-105", "ORD-000"):
            result = await client.call_tool("get_order_status", {"order_id": order_id})
            assert result.is_error
            assert "no order with this id" in result.text


# The weather, the engine's client.


async def test_a_city_is_found_in_any_spelling_of_its_letters() -> None:
    async with connect(load("weather").server) as client:
        for city in ("Oslo", "OSLO", " oslo "):
            result = await client.call_tool("fetch_weather", {"city": city})
            assert result.structured_content == {"city": "Oslo", "celsius": -3.0, "sky": "snow"}
        unknown = await client.call_tool("fetch_weather", {"city": "Atlantis"})
    assert unknown.is_error
    assert "Lisbon, Oslo, Quito" in unknown.text


@pytest.fixture
def blocking() -> Callable[[str], Any]:
    client = load("02_engine_without_io").BlockingClient
    return lambda name: client(as_child(name).command)


@pytest.mark.process
def test_the_client_in_a_page_sees_errors_and_goes_on(
    blocking: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", as_child("orders").env["PYTHONPATH"])
    client = blocking("orders")
    client.open()
    with pytest.raises(RuntimeError, match="Unknown tool: nothing"):
        client.request("tools/call", {"name": "nothing"})
    call = {"name": "get_order_status", "arguments": {"order_id": "ORD-104"}}
    assert client.request("tools/call", call)["structuredContent"]["status"] == "shipped"
    assert client.close() == 0


@pytest.mark.process
def test_the_client_in_a_page_says_which_calls_a_dead_server_left_unanswered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A child that writes half a message and ends: nothing waits, nothing is taken for an answer."""
    module = load("02_engine_without_io")
    client = module.BlockingClient(
        [module.sys.executable, "-c", "input(); print('{\"jsonrpc\":\"2.0\",', end='')"]
    )
    with pytest.raises(RuntimeError, match=r"never answered: \(1,\)"):
        client.open()
    assert client.close() == 0
