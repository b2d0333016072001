"""A holder is paused beyond its lease, another one takes over and writes, the first one goes on.

This is the classic case: Kleppmann 2016, "How to do distributed locking". SIGSTOP stops the
holder's process between its check of the lock and its write, where no lock can help.
"""

from __future__ import annotations

import contextlib
import signal
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.lock.children import Child

import interlock
from interlock import fencing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

HOLDER = """
from interlock import fencing
{connect}
client = interlock.connect(url)
lock = client.fenced_lock("report", lease=1)
lock.acquire()
hold = lock.hold
hold.ensure()  # it is ours indeed
say("about to write")
sys.stdin.readline()  # here it sleeps beyond its lease
try:
    {write}
    say("written")
except fencing.StaleTokenError as error:
    say("refused", error.token)
say(hold.valid)
"""


@dataclass(frozen=True)
class Store:
    """What is protected, for a child process and for this one.

    Attributes:
        connect: how the child comes to it.
        late: how the child writes with its token.
        write: writes from here, with a token.
        read: what is there now.
    """

    connect: str
    late: str
    write: Callable[[str, int | None], None]
    read: Callable[[], str]


@pytest.fixture
def redis_store(redis_client: redis.Redis, redis_url: str) -> Store:
    """Give a string in Redis."""
    return Store(
        connect=f"import redis; store = redis.Redis.from_url({redis_url!r})",
        late='fencing.write(store, "text", "late", hold.token)',
        write=lambda text, token: fencing.write(redis_client, "text", text, token),
        read=lambda: redis_client.get("text").decode(),
    )


def sql_store(connect: str, style: fencing.ParamStyle, open_: Callable[[], Any]) -> Store:
    """Give a row of a database; *connect* is code and *open_* the same as a function."""

    def write(text: str, token: int | None) -> None:
        with contextlib.closing(open_()) as connection:
            cursor, values = connection.cursor(), {"text": text}
            fencing.update(cursor, "report", values, {"id": 7}, token, paramstyle=style)
            connection.commit()

    def read() -> str:
        with contextlib.closing(open_()) as connection:
            text: str = connection.execute("SELECT text FROM report WHERE id = 7").fetchone()[0]
            return text

    return Store(
        connect=f"{connect}\ncursor = store.cursor()",
        late='fencing.update(cursor, "report", {"text": "late"}, {"id": 7}, hold.token,'
        f" paramstyle={style!r}); store.commit()",
        write=write,
        read=read,
    )


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Store:
    """Give a row of an SQLite file."""
    path = tmp_path / "reports"

    def open_() -> sqlite3.Connection:
        return sqlite3.connect(path)

    connection = open_()
    connection.execute("CREATE TABLE report (id INTEGER, text TEXT, token INTEGER DEFAULT 0)")
    connection.execute("INSERT INTO report (id, text) VALUES (7, 'blank')")
    connection.commit()
    connection.close()
    return sql_store(f"import sqlite3; store = sqlite3.connect({str(path)!r})", "qmark", open_)


@pytest.fixture
def postgres_store(report_dsn: str) -> Store:
    """Give a row of a PostgreSQL table."""
    connect = f"import psycopg; store = psycopg.connect({report_dsn!r})"
    return sql_store(connect, "format", lambda: psycopg.connect(report_dsn))


@pytest.mark.parametrize("store", ["redis_store", "sqlite_store", "postgres_store"])
def test_the_write_of_a_paused_holder(
    request: pytest.FixtureRequest, redis_url: str, store: str
) -> None:
    """After a pause beyond its lease a holder cannot overwrite newer work."""
    resource: Store = request.getfixturevalue(store)
    code = HOLDER.format(connect=resource.connect, write=resource.late)
    with Child(code, redis_url) as paused, interlock.connect(redis_url) as client:
        assert paused.hear() == "about to write"
        paused.signal(signal.SIGSTOP)
        with client.fenced_lock("report", timeout=20) as hold:
            assert hold.token == 2
            resource.write("new", hold.token)
            paused.tell()
            paused.signal(signal.SIGCONT)
            assert paused.hear() == "refused 1"
            assert paused.hear() == "False", "it could have known"
    assert resource.read() == "new"
