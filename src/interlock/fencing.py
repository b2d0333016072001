"""The check that a protected resource makes: refuse whoever comes with an older token than the last.

A lock alone cannot stop a holder that was paused beyond its lease and then goes on writing. A resource that keeps the largest
token it has seen can. The token comes from `Hold.token` of a fenced lock; check and write must be one atomic step of the resource::

    with client.fenced_lock("report") as hold:
        fencing.write(redis, "report:text", "...", hold.token)           # Redis: one script
        fencing.update(cursor, "report", {"text": "..."}, {"id": 7}, hold.token)  # SQL: one UPDATE

Source: Kleppmann 2016, "How to do distributed locking"; Chubby's sequencers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from interlock._core.names import suffix_name
from interlock.errors import ConfigError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CHECK = """
local last = tonumber(redis.call('get', KEYS[1])) or 0
if tonumber(ARGV[1]) < last then return last end
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

    rowcount: int

    def execute(self, operation: Any, parameters: Any, /) -> object:
        """Run one statement."""
        ...


def fence_key(key: str) -> str:
    """Return the key under which Redis keeps the largest token seen for *key*; in the same slot."""
    return suffix_name(key, "fence")


def check(redis: Any, key: str, token: int | None) -> None:
    """Have Redis refuse a *token* that is older than the last one seen for *key*, and remember it otherwise.

    Args:
        redis: a redis-py client (sync).
        key: what is protected.
        token: `Hold.token`.

    Raises:
        StaleTokenError: a newer hold was here.

    Cost:
        One round trip. It protects what follows only as far as nothing comes in between: prefer `write`.
    """
    _judge(key, _token(token), redis.eval(_CHECK, 1, fence_key(key), _token(token)))


def write(redis: Any, key: str, value: str | bytes | float, token: int | None) -> None:
    """Set *key* to *value* in Redis unless a newer hold has written; one script, one round trip.

    Raises:
        StaleTokenError: a newer hold has written; nothing was changed.
    """
    drawn = _token(token)
    _judge(key, drawn, redis.eval(_CHECK, 2, fence_key(key), key, drawn, value))


def update_statement(
    table: str,
    columns: tuple[str, ...],
    where: tuple[str, ...],
    *,
    token_column: str = "token",  # noqa: S107 - a column's name
    paramstyle: Literal["qmark", "format", "numeric", "dollar"] = "qmark",
) -> str:
    """Return ``UPDATE table SET columns..., token = ? WHERE where... AND token <= ?``.

    Parameters follow in this order: the columns' values, the token, the values of *where*, the token again.

    Raises:
        ConfigError: a name that is not a plain SQL identifier, or an unknown *paramstyle*.
    """
    for name in (table, *columns, *where, token_column):
        if not _IDENTIFIER.fullmatch(name):
            raise ConfigError(f"not a plain SQL identifier: {name!r}")
    if paramstyle not in _MARKS:
        raise ConfigError(f"paramstyle must be one of {', '.join(_MARKS)}, not {paramstyle!r}")
    if not where:
        raise ConfigError("an update of a whole table is most likely a mistake: name the row")
    mark = _MARKS[paramstyle]
    names = (*columns, token_column)
    sets = ", ".join(f"{name} = {mark(i)}" for i, name in enumerate(names, 1))
    start = len(names) + 1
    conditions = [f"{name} = {mark(i)}" for i, name in enumerate(where, start)]
    conditions.append(f"{token_column} <= {mark(start + len(where))}")
    return f"UPDATE {table} SET {sets} WHERE {' AND '.join(conditions)}"  # noqa: S608 - names are checked


def update(
    cursor: Cursor,
    table: str,
    values: Mapping[str, object],
    where: Mapping[str, object],
    token: int | None,
    *,
    token_column: str = "token",  # noqa: S107 - a column's name
    paramstyle: Literal["qmark", "format", "numeric", "dollar"] = "qmark",
) -> None:
    """Update the row(s) *where* of an SQL *table* unless a newer hold has written; one statement, nothing is committed.

    The table needs an integer column *token_column* that is 0 at first.

    Raises:
        StaleTokenError: no row was changed: a newer hold has written, or there is no such row.
    """
    drawn = _token(token)
    statement = update_statement(
        table, tuple(values), tuple(where), token_column=token_column, paramstyle=paramstyle
    )
    _ = cursor.execute(statement, (*values.values(), drawn, *where.values(), drawn))
    if cursor.rowcount == 0:
        raise StaleTokenError(
            f"no row of {table} takes token {drawn}: a newer hold has written, or there is no such row",
            token=drawn,
        )


def _token(token: int | None) -> int:
    if token is None:
        raise ConfigError("the hold has no token: use client.fenced_lock(...)")
    return token


def _judge(key: str, token: int, reply: object) -> None:
    newest = int(cast("int", reply))
    if newest >= 0:
        raise StaleTokenError(
            f"{key!r} has seen token {newest}; the hold with token {token} is over",
            token=token,
            newest=newest,
        )
