"""A database: read-only SQLite for a model that writes the SQL.

Notice: the schema that the model sees (three environments, the default, the bounds) is the signature
and nothing else. The rest is layers, each of which alone would keep the data safe: the file is opened
read-only, an authorizer lets nothing but reading through, a clock stops what runs too long, and what
comes back has a limit in rows, columns and bytes. Each refusal is a `ToolError`, so the model reads why.

Exercise: offer the tables as a resource `database://{environment}/tables`. Must it be asked for as SQL?
"""

import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated, Literal

from msgspec import Meta

from mcpcore import Context, Server, ToolError

Environment = Literal["development", "staging", "production"]
PLANETS = [
    ("Mercury", 0),
    ("Venus", 0),
    ("Earth", 1),
    ("Mars", 2),
    ("Jupiter", 97),
    ("Saturn", 274),
]
MAX_ROWS = 100
READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


@dataclass
class Records:
    columns: list[str]
    rows: list[list[int | float | str | None]]
    truncated: bool
    """There were more rows."""


@asynccontextmanager
async def databases() -> AsyncIterator[Path]:
    """A lifespan: made before the first request, removed after the last. Handlers see it as `ctx.state`."""
    with tempfile.TemporaryDirectory() as folder:
        for size, environment in ((2, "development"), (4, "staging"), (6, "production")):
            with closing(sqlite3.connect(Path(folder, environment))) as connection, connection:
                connection.execute("CREATE TABLE planets (name TEXT, moons INTEGER)")
                connection.executemany("INSERT INTO planets VALUES (?, ?)", PLANETS[:size])
        yield Path(folder)


server = Server("database", "1.0", lifespan=databases)


def open_read_only(path: Path, seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)

    def authorize(action: int, *_: str | None) -> int:
        return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    # No value of gigabytes, no thousand columns, no pattern that takes for ever to match.
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, 50)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50)
    # SQLite asks every thousand steps whether to stop.
    deadline = monotonic() + seconds
    connection.set_progress_handler(lambda: monotonic() > deadline, 1000)
    return connection


# A plain function: it runs in a thread, where it may block without keeping anybody else waiting.
@server.tool
def query_database_records(
    sql_query: Annotated[str, Meta(max_length=5000)],
    timeout_seconds: Annotated[int, Meta(ge=1, le=30)] = 5,
    environment: Environment = "development",
    *,
    ctx: Context[Path],
) -> Records:
    """Run one SELECT on the table planets(name, moons).

    Args:
        sql_query: One statement that only reads.
        timeout_seconds: After how long the query is stopped.
        environment: Which database to ask.
    """
    with closing(open_read_only(ctx.state / environment, timeout_seconds)) as connection:
        try:
            cursor = connection.execute(sql_query)
            rows = [list(row) for row in cursor.fetchmany(MAX_ROWS + 1)]
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise ToolError(explain(error, timeout_seconds)) from None
        columns = [column[0] for column in cursor.description or ()]
    return Records(columns, rows[:MAX_ROWS], truncated=len(rows) > MAX_ROWS)


def explain(error: Exception, seconds: int) -> str:
    match getattr(error, "sqlite_errorcode", None):
        case sqlite3.SQLITE_AUTH:
            return f"refused, since this server only reads: {error}"
        case sqlite3.SQLITE_INTERRUPT:
            return f"stopped after {seconds} s: ask for less, or raise timeout_seconds (at most 30)"
    return f"the database says: {error}"


if __name__ == "__main__":
    server.run()
