"""What people use instead of a lock on Redis with a library, each as its tutorials show it.

A scheme that cannot wait asks again every tenth of a second, as redis-py's Lock does.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import redis

import interlock
from benchmarks.peer import LEASE, SyncPeer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from benchmarks.peer import Peer, SyncSession

_POLL = 0.1  # seconds
_TABLE = "CREATE TABLE IF NOT EXISTS locks (name VARCHAR(200) PRIMARY KEY)"
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"


def _until(attempt: Callable[[], bool]) -> bool:
    while not attempt():
        time.sleep(_POLL)
    return True


@dataclass(frozen=True, slots=True)
class _Setnx:
    """SETNX, then EXPIRE; released by DEL."""

    client: redis.Redis
    name: str

    def acquire(self) -> bool:
        return _until(self._attempt)

    def _attempt(self) -> bool:
        if not self.client.setnx(self.name, 1):
            return False
        self.client.expire(self.name, max(1, int(LEASE)))
        return True

    def release(self) -> None:
        self.client.delete(self.name)


@dataclass(slots=True)
class _SetNxPx:
    """SET NX PX with a token of its own; released by a script that compares it."""

    client: redis.Redis
    name: str
    token: str = ""

    def acquire(self) -> bool:
        self.token = uuid.uuid4().hex
        px = int(LEASE * 1000)
        return _until(lambda: bool(self.client.set(self.name, self.token, nx=True, px=px)))

    def release(self) -> None:
        self.client.eval(_RELEASE, 1, self.name, self.token)


@dataclass(frozen=True, slots=True)
class _UniqueRow:
    """INSERT of a row with a unique name, each in a transaction of its own; released by DELETE."""

    connection: Any
    taken: type[Exception]
    name: str

    def acquire(self) -> bool:
        return _until(self._attempt)

    def _attempt(self) -> bool:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute("INSERT INTO locks VALUES (%s)", (self.name,))
        except self.taken:
            return False
        return True

    def release(self) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute("DELETE FROM locks WHERE name = %s", (self.name,))


@dataclass(frozen=True, slots=True)
class _Advisory:
    """pg_advisory_lock, for as long as the connection lives."""

    connection: Any
    name: str

    def acquire(self) -> bool:
        self.connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (self.name,))
        return True

    def release(self) -> None:
        self.connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (self.name,))


@dataclass(frozen=True, slots=True)
class _Session:
    make: Callable[[str], Any]

    def lock(self, name: str) -> Any:
        return self.make(name)


@dataclass(slots=True)
class _Connections:
    """A database connection for each thread, closed with the session."""

    connect: Callable[[], Any]
    stack: contextlib.ExitStack
    local: threading.local = field(default_factory=threading.local)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def mine(self) -> Any:
        if not hasattr(self.local, "connection"):
            connection = self.connect()
            with self.guard:
                self.stack.callback(connection.close)
            self.local.connection = connection
        return self.local.connection


def _redis_session(make: Callable[[redis.Redis, str], Any]) -> Any:
    @contextmanager
    def session(url: str, workers: int) -> Generator[SyncSession]:
        with redis.Redis.from_url(url, max_connections=workers + 1) as client:
            yield _Session(lambda name: make(client, name))

    return session


@contextmanager
def _postgresql_row(url: str, _workers: int) -> Generator[SyncSession]:
    import psycopg  # noqa: PLC0415 - of the extra `bench`

    with contextlib.ExitStack() as stack:
        connections = _Connections(lambda: psycopg.connect(url, autocommit=True), stack)
        # Of two at once, one may be told that the table or its type is there.
        there = psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject
        with contextlib.suppress(*there, psycopg.errors.DuplicateTable):
            connections.mine().execute(_TABLE)
        taken = psycopg.errors.UniqueViolation
        yield _Session(lambda name: _UniqueRow(connections.mine(), taken, name))


@contextmanager
def _postgresql_advisory(url: str, _workers: int) -> Generator[SyncSession]:
    import psycopg  # noqa: PLC0415 - of the extra `bench`

    with contextlib.ExitStack() as stack:
        connections = _Connections(lambda: psycopg.connect(url, autocommit=True), stack)
        yield _Session(lambda name: _Advisory(connections.mine(), name))


@contextmanager
def _mariadb_row(path: str, _workers: int) -> Generator[SyncSession]:
    import pymysql  # noqa: PLC0415 - of the extra `bench`

    def connect() -> Any:
        return pymysql.connect(unix_socket=path, user="root", database="test", autocommit=True)

    with contextlib.ExitStack() as stack:
        connections = _Connections(connect, stack)
        with connections.mine().cursor() as cursor:
            cursor.execute(_TABLE)
        taken = pymysql.err.IntegrityError
        yield _Session(lambda name: _UniqueRow(connections.mine(), taken, name))


@contextmanager
def _zookeeper(hosts: str, _workers: int) -> Generator[SyncSession]:
    from kazoo.client import KazooClient  # noqa: PLC0415 - of the extra `bench`

    client = KazooClient(hosts=hosts, timeout=LEASE)
    client.start()
    try:
        yield _Session(lambda name: client.Lock(f"/locks/{name}"))
    finally:
        client.stop()
        client.close()


@contextmanager
def _leased(url: str, _workers: int) -> Generator[SyncSession]:
    with interlock.connect(url, lease=LEASE) as client:
        yield client


_REDIS = ("redis", "hiredis")
SETNX = SyncPeer(
    "SETNX + EXPIRE", _REDIS, {"setnx": 1, "expire": 1, "del": 1}, open=_redis_session(_Setnx)
)
SET_NX_PX = SyncPeer(
    "SET NX PX + Lua", _REDIS, {"set": 1, "eval": 1}, open=_redis_session(_SetNxPx)
)
ROW = SyncPeer("PostgreSQL row", ("psycopg",), server="postgresql", open=_postgresql_row)
ADVISORY = SyncPeer(
    "PostgreSQL advisory", ("psycopg",), server="postgresql", open=_postgresql_advisory
)
MARIADB = SyncPeer("MariaDB row", ("PyMySQL",), server="mariadb", open=_mariadb_row)
ZOOKEEPER = SyncPeer("ZooKeeper", ("kazoo",), server="zookeeper", open=_zookeeper)
LEASED = SyncPeer("interlock leased", ("interlock", *_REDIS), open=_leased)
"""interlock with the lease that the scenarios ask for."""

RIVALS: tuple[Peer, ...] = (SETNX, SET_NX_PX, ROW, MARIADB, ADVISORY, ZOOKEEPER)
