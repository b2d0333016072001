"""The troubles that a reachable server may have: each is a context manager that causes it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.support.servers import RedisServer, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def _out_of_memory(server: RedisServer) -> Iterator[None]:
    server.execute("CONFIG", "SET", "maxmemory", 1)
    yield
    server.execute("CONFIG", "SET", "maxmemory", 0)


@contextmanager
def _read_only(server: RedisServer) -> Iterator[None]:
    server.execute("REPLICAOF", "127.0.0.1", 1)
    yield
    server.execute("REPLICAOF", "NO", "ONE")


@contextmanager
def _too_few_replicas(server: RedisServer) -> Iterator[None]:
    server.execute("CONFIG", "SET", "min-replicas-to-write", 1)
    yield
    server.execute("CONFIG", "SET", "min-replicas-to-write", 0)


@contextmanager
def _not_permitted(server: RedisServer) -> Iterator[None]:
    server.execute("ACL", "SETUSER", "default", "-evalsha", "-eval")
    yield
    server.execute("ACL", "SETUSER", "default", "+@all")


@contextmanager
def _cannot_persist(server: RedisServer) -> Iterator[None]:
    dump = server.unix_path.parent / "data" / "dump.rdb"
    dump.unlink(missing_ok=True)
    in_the_way = dump / "not-empty"
    in_the_way.mkdir(parents=True)
    server.execute("CONFIG", "SET", "save", "3600 1000000")
    _save(server, "err")
    yield
    in_the_way.rmdir()
    dump.rmdir()
    _save(server, "ok")


def _save(server: RedisServer, outcome: str) -> None:
    def saved() -> bool:
        with server.client() as client:
            return client.info("persistence")["rdb_last_bgsave_status"] == outcome

    server.execute("BGSAVE")
    wait_until(saved, 10, f"the save ended: {outcome}")


@contextmanager
def busy(server: RedisServer) -> Iterator[None]:
    """Keep *server* busy with a script that does not end."""
    # The older of its two names; every version knows it.
    server.execute("CONFIG", "SET", "lua-time-limit", 1)

    def run_for_ever() -> None:
        with pytest.raises(redis.ResponseError, match="killed"):
            server.execute("EVAL", "while true do end", 0)

    def isbusy() -> bool:
        try:
            server.execute("GET", "anything")
        except redis.ResponseError as error:
            return str(error).startswith("BUSY")
        return False

    thread = threading.Thread(target=run_for_ever)
    thread.start()
    wait_until(isbusy, 5, "the server is busy")
    yield
    server.execute("SCRIPT", "KILL")
    thread.join()


TROUBLES: dict[str, Callable[[RedisServer], Any]] = {
    "BUSY": busy,
    "MISCONF": _cannot_persist,
    "NOPERM": _not_permitted,
    "NOREPLICAS": _too_few_replicas,
    "OOM": _out_of_memory,
    "READONLY": _read_only,
}
TRANSIENT = {"BUSY", "NOREPLICAS", "LOADING", "READONLY"}
"""Errors that may pass; READONLY from a server that has executed scripts before."""
