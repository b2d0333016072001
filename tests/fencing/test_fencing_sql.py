"""The check in SQL, on SQLite and PostgreSQL: an UPDATE finds no row that a newer hold wrote."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.fencing.postgres import PostgresServer
from tests.support.servers import wait_until

from interlock import ConfigError, fencing


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def report_dsn(postgres: PostgresServer) -> str:
    """Give the address of a PostgreSQL database with one report that no hold has written yet."""
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS report")
        connection.execute(
            "CREATE TABLE report"
            " (id integer PRIMARY KEY, text text NOT NULL, token bigint NOT NULL DEFAULT 0)"
        )
        connection.execute("INSERT INTO report VALUES (7, 'blank')")
    return postgres.dsn


class Database:
    """One of the two, with one report of id 7."""

    def __init__(self, connection: Any, paramstyle: fencing.ParamStyle) -> None:
        self.connection = connection
        self.cursor = connection.cursor()
        self.paramstyle = paramstyle

    def write(self, text: str, token: int | None, **options: Any) -> None:
        values, where = {"text": text}, {"id": options.pop("id", 7)}
        style = self.paramstyle
        fencing.update(self.cursor, "report", values, where, token, paramstyle=style, **options)

    @property
    def row(self) -> tuple[Any, ...]:
        self.cursor.execute("SELECT text, token FROM report WHERE id = 7")
        return tuple(self.cursor.fetchone())


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "postgres":
        with psycopg.connect(request.getfixturevalue("report_dsn")) as connection:
            yield Database(connection, "format")
        return
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE TABLE report (id INTEGER, text TEXT, token INTEGER NOT NULL DEFAULT 0)"
    )
    connection.execute("INSERT INTO report (id, text) VALUES (7, 'blank')")
    yield Database(connection, "qmark")
    connection.close()


def test_newer_and_equal_tokens_write_and_older_do_not(database: Database) -> None:
    """A write with an equal or newer token succeeds; an older one is refused without effect."""
    for text, token in (("one", 4), ("two", 4), ("three", 9)):
        database.write(text, token)
        assert database.row == (text, token)
    for late in (8, 4, 1, 0):
        with pytest.raises(fencing.StaleTokenError) as caught:
            database.write("too late", late)
        assert (caught.value.token, caught.value.newest) == (late, None)
    assert database.row == ("three", 9)


def test_nothing_is_committed(database: Database) -> None:
    """The update is part of the caller's transaction, token and all."""
    database.connection.commit()
    database.write("draft", 5)
    database.connection.rollback()
    assert database.row == ("blank", 0)
    database.write("older", 3)
    database.connection.commit()
    assert database.row == ("older", 3)


def test_a_hold_without_token_is_refused(database: Database) -> None:
    """A plain lock's hold is refused: the error names a lock that would do, and nothing is run."""
    with pytest.raises(ConfigError, match="fenced_lock"):
        database.write("plain", None)
    assert database.row == ("blank", 0)


def test_a_write_that_waits_behind_a_newer_ones_transaction_is_refused(report_dsn: str) -> None:
    """On PostgreSQL an update that waits for a newer one's row lock finds the newer token then."""
    with psycopg.connect(report_dsn) as new, psycopg.connect(report_dsn) as old:
        Database(new, "format").write("new", 2)
        refused = threading.Event()

        def come_late() -> None:
            with pytest.raises(fencing.StaleTokenError):
                Database(old, "format").write("late", 1)
            refused.set()

        late = threading.Thread(target=come_late)
        late.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        with psycopg.connect(report_dsn, autocommit=True) as watcher:
            wait_until(
                lambda: watcher.execute(waiting).fetchone() == (1,), 20, "the late one waits"
            )
        new.commit()
        late.join(20)
        assert refused.is_set()
        assert Database(new, "format").row == ("new", 2)


async def test_an_awaited_cursor(report_dsn: str) -> None:
    """`update_async` does the same with psycopg's asyncio cursors."""
    async with await psycopg.AsyncConnection.connect(report_dsn) as connection:
        cursor = connection.cursor()
        values, where = {"text": "new"}, {"id": 7}
        await fencing.update_async(cursor, "report", values, where, 6, paramstyle="format")
        with pytest.raises(fencing.StaleTokenError):
            await fencing.update_async(cursor, "report", values, where, 5, paramstyle="format")
        with pytest.raises(ConfigError, match="fenced_lock"):
            await fencing.update_async(cursor, "report", values, where, None, paramstyle="format")


@pytest.mark.parametrize(
    ("paramstyle", "statement"),
    [
        ("qmark", "UPDATE s.t SET a = ?, b = ?, seen = ? WHERE x = ? AND y = ? AND seen <= ?"),
        (
            "format",
            "UPDATE s.t SET a = %s, b = %s, seen = %s WHERE x = %s AND y = %s AND seen <= %s",
        ),
        (
            "numeric",
            "UPDATE s.t SET a = :1, b = :2, seen = :3 WHERE x = :4 AND y = :5 AND seen <= :6",
        ),
        (
            "dollar",
            "UPDATE s.t SET a = $1, b = $2, seen = $3 WHERE x = $4 AND y = $5 AND seen <= $6",
        ),
    ],
)
def test_the_statement_in_each_style(paramstyle: fencing.ParamStyle, statement: str) -> None:
    """Parameters come in the order of the text: values, token, conditions, token."""
    assert statement == fencing.update_statement(
        "s.t", ("a", "b"), ("x", "y"), token_column="seen", paramstyle=paramstyle
    )


def test_the_upsert_of_the_guide(report_dsn: str) -> None:
    """The guide's statement for rows that may not exist inserts, updates and refuses as it says."""
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "fencing.md"
    statement = re.findall(r"^```sql\n(.*?)^```$", guide.read_text(), re.DOTALL | re.MULTILINE)[0]
    with psycopg.connect(report_dsn) as connection:
        for text, token, rows in (("new", 2, 1), ("same", 2, 1), ("newer", 3, 1), ("late", 2, 0)):
            row = {"id": 8, "text": text, "token": token}
            assert connection.execute(statement, row).rowcount == rows
        row = connection.execute("SELECT text, token FROM report WHERE id = 8").fetchone()
        assert row == ("newer", 3)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"table": "report; DROP TABLE report"}, {"table": ""}, {"table": "a.b.c"}),
        *({"columns": ("text = 'x', id",)}, {"columns": ("1st",)}, {"columns": ("token",)}),
        *({"where": ()}, {"where": ("1=1 OR id",)}, {"where": ("id\n",)}),
        *({"token_column": "token --"}, {"paramstyle": "named"}),
    ],
    ids=str,
)
def test_what_cannot_be_a_statement_is_refused(wrong: dict[str, Any]) -> None:
    """Names are plain identifiers, a row is named, and the token's column is the token's."""
    good: dict[str, Any] = {"table": "report", "columns": ("text",), "where": ("id",)}
    arguments = {**good, **wrong}
    with pytest.raises(ConfigError):
        fencing.update_statement(
            arguments.pop("table"), arguments.pop("columns"), arguments.pop("where"), **arguments
        )


@pytest.mark.parametrize("token", ["9", 9.5, True])
def test_a_token_that_is_no_int_is_refused(database: Database, token: Any) -> None:
    """A text, as from a variable, would be compared as a text by some columns."""
    with pytest.raises(TypeError, match=f"an int, as hold.token is, not {type(token).__name__}"):
        database.write("late", token)
    assert database.row == ("blank", 0)
