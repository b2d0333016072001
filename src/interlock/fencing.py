"""The check that a protected resource makes: refuse a token that is older than the last.

A lock alone cannot stop a holder that was paused beyond its lease and then goes on writing. A
resource that keeps the largest token it has seen can. The token comes from `Hold.token` of a fenced
lock. Check and write must be one atomic step of the resource:

```python
with client.fenced_lock("report") as hold:
    fencing.write(redis, "report:text", "...", hold.token)  # Redis: one script
    fencing.update(cursor, "report", {"text": "..."}, {"id": 7}, hold.token)  # SQL: one UPDATE
```

A token equal to the last is welcome: one hold may write many times. `check_async`, `write_async`
and `update_async` are the same for clients and cursors that are awaited.

Source: Kleppmann 2016, "How to do distributed locking"; Chubby's sequencers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

from interlock._core.model.names import suffix_name
from interlock.errors import ConfigError, InterlockError
from interlock.options import check_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

Value: TypeAlias = str | bytes | float
ParamStyle: TypeAlias = Literal["qmark", "format", "numeric", "dollar"]

_CHECK = """
local last = redis.call('get', KEYS[1])
if last and tonumber(ARGV[1]) < tonumber(last) then return tonumber(last) end
redis.call('set', KEYS[1], ARGV[1])
if KEYS[2] then redis.call('set', KEYS[2], ARGV[2]) end
return -1
"""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_MARKS: dict[str, Callable[[int], str]] = {
    "qmark": lambda _: "?",
    "format": lambda _: "%s",
    "numeric": lambda i: f":{i}",
    "dollar": lambda i: f"${i}",
}


class StaleTokenError(InterlockError):
    """The resource has seen a newer hold; nothing was written.

    Attributes:
        token: the one that came too late.
        newest: the one that the resource has seen, when it could tell.
    """

    def __init__(self, message: str, *, token: int = 0, newest: int | None = None) -> None:
        super().__init__(message)
        self.token = token
        self.newest = newest


class Cursor(Protocol):
    """A DB-API cursor, as far as it is needed."""

    @property
    def rowcount(self) -> int:
        """Return how many rows the last statement changed."""
        ...

    def execute(self, operation: Any, parameters: Any, /) -> object:
        """Run one statement."""
        ...


class AsyncCursor(Cursor, Protocol):
    """A DB-API cursor whose `execute` is awaited."""

    def execute(self, operation: Any, parameters: Any, /) -> Awaitable[object]:
        """Run one statement."""
        ...


def fence_key(key: str) -> str:
    """Return the key under which Redis keeps the largest token seen for *key*; in the same slot."""
    return suffix_name(check_name(key, "a key"), "fence")


def check(redis: Any, key: str, token: int | None) -> None:
    """Refuse a *token* that is older than the last one that Redis saw for *key*; else remember it.

    Args:
        redis: a redis-py client.
        key: what is protected.
        token: `Hold.token`.

    Raises:
        StaleTokenError: a newer hold was here.
        ConfigError: the hold has no token.

    Cost:
        One round trip. A newer hold may write between the check and what follows it: prefer
        `write`.
    """
    drawn = _drawn(token)
    _judge(key, drawn, redis.eval(_CHECK, 1, fence_key(key), drawn))


async def check_async(redis: Any, key: str, token: int | None) -> None:
    """Do what `check` does with a client of `redis.asyncio`."""
    drawn = _drawn(token)
    _judge(key, drawn, await redis.eval(_CHECK, 1, fence_key(key), drawn))


def write(redis: Any, key: str, value: Value, token: int | None) -> None:
    """Set *key* to *value* in Redis unless a newer hold has written; one script, one round trip.

    Args:
        redis: a redis-py client.
        key: what is written; a time to live that it has is dropped, as by SET.
        value: what redis-py takes for one.
        token: `Hold.token`.

    Raises:
        StaleTokenError: a newer hold has written; nothing was changed.
        ConfigError: the hold has no token.
    """
    drawn = _drawn(token)
    _judge(key, drawn, redis.eval(_CHECK, 2, fence_key(key), key, drawn, value))


async def write_async(redis: Any, key: str, value: Value, token: int | None) -> None:
    """Do what `write` does with a client of `redis.asyncio`."""
    drawn = _drawn(token)
    _judge(key, drawn, await redis.eval(_CHECK, 2, fence_key(key), key, drawn, value))


def update_statement(
    table: str,
    columns: tuple[str, ...],
    where: tuple[str, ...],
    *,
    token_column: str = "token",  # noqa: S107 - a column's name
    paramstyle: ParamStyle = "qmark",
) -> str:
    """Return ``UPDATE table SET columns..., token = ? WHERE where... AND token <= ?``.

    Parameters follow in this order: the columns' values, the token, the values of *where*, the
    token again.

    Args:
        table: its name, with or without a schema.
        columns: what is set, besides the token.
        where: the columns that tell the row.
        token_column: an integer column, 64 bits wide, 0 at first and never NULL.
        paramstyle: as of DB-API: ``"qmark"`` ``?`` (SQLite), ``"format"`` ``%s`` (psycopg, MySQL
            drivers), ``"numeric"`` ``:1`` (Oracle), and ``"dollar"`` ``$1`` (asyncpg).

    Raises:
        ConfigError: a name that is not a plain SQL identifier, the token's among *columns*, no
            *where*, or an unknown *paramstyle*.
    """
    table, token_column = check_name(table, "a table"), check_name(token_column, "a column")
    columns, where = (
        tuple(check_name(name, "a column") for name in group) for group in (columns, where)
    )
    for name in (table, *columns, *where, token_column):
        if not _IDENTIFIER.fullmatch(name):
            raise ConfigError(f"not a plain SQL identifier: {name!r}")
    if paramstyle not in _MARKS:
        raise ConfigError(f"paramstyle must be one of {', '.join(_MARKS)}, not {paramstyle!r}")
    if not where:
        raise ConfigError("an update of a whole table is most likely a mistake: name the row")
    if token_column in columns:
        raise ConfigError(f"the column {token_column!r} is set to the token and to nothing else")
    mark = _MARKS[paramstyle]
    names = (*columns, token_column)
    sets = ", ".join(f"{name} = {mark(i)}" for i, name in enumerate(names, 1))
    start = len(names) + 1
    conditions = [f"{name} = {mark(i)}" for i, name in enumerate(where, start)]
    conditions.append(f"{token_column} <= {mark(start + len(where))}")
    condition = " AND ".join(conditions)
    return f"UPDATE {table} SET {sets} WHERE {condition}"  # noqa: S608 - names are checked


def update(
    cursor: Cursor,
    table: str,
    values: Mapping[str, object],
    where: Mapping[str, object],
    token: int | None,
    *,
    token_column: str = "token",  # noqa: S107 - a column's name
    paramstyle: ParamStyle = "qmark",
) -> None:
    """Update the row *where* of an SQL *table* unless a newer hold has written.

    It is one statement, and nothing is committed.

    Args:
        cursor: a DB-API cursor whose `rowcount` counts the rows that were found. All do but those
            of MySQL's drivers, which count changed rows unless they are told ``FOUND_ROWS``.
        table: as for `update_statement`, like the other names.
        values: column -> what it is set to.
        where: column -> what tells the row. If it tells several rows, those with a newer token are
            left out unnoticed.
        token: `Hold.token`.
        token_column: where the row keeps the largest token seen.
        paramstyle: that of the driver.

    Raises:
        StaleTokenError: no row was changed: a newer hold has written, or there is no such row.
        ConfigError: the hold has no token, names that cannot be, or a driver that does not count
            rows; roll back.
    """
    drawn = _drawn(token)
    statement = update_statement(
        table, tuple(values), tuple(where), token_column=token_column, paramstyle=paramstyle
    )
    _ = cursor.execute(statement, (*values.values(), drawn, *where.values(), drawn))
    _count(table, drawn, cursor.rowcount)


async def update_async(
    cursor: AsyncCursor,
    table: str,
    values: Mapping[str, object],
    where: Mapping[str, object],
    token: int | None,
    *,
    token_column: str = "token",  # noqa: S107 - a column's name
    paramstyle: ParamStyle = "qmark",
) -> None:
    """Do what `update` does with a cursor that is awaited."""
    drawn = _drawn(token)
    statement = update_statement(
        table, tuple(values), tuple(where), token_column=token_column, paramstyle=paramstyle
    )
    _ = await cursor.execute(statement, (*values.values(), drawn, *where.values(), drawn))
    _count(table, drawn, cursor.rowcount)


def _drawn(token: object) -> int:
    if token is None:
        raise ConfigError("the hold has no token: use client.fenced_lock(...)")
    if not isinstance(token, int) or isinstance(token, bool):
        raise TypeError(f"a token must be an int, as hold.token is, not {type(token).__name__}")
    return token


def _judge(key: str, token: int, reply: object) -> None:
    newest = int(cast("int", reply))
    if newest >= 0:
        raise StaleTokenError(
            f"{key!r} has seen token {newest}; the hold with token {token} is over",
            token=token,
            newest=newest,
        )


def _count(table: str, token: int, rows: int) -> None:
    if rows < 0:
        raise ConfigError(f"the driver does not tell how many rows of {table} were updated")
    if rows == 0:
        raise StaleTokenError(
            f"no row of {table} takes token {token}: "
            "a newer hold has written, or there is no such row",
            token=token,
        )
