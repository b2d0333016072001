"""A real Redis 7.0 and the model side by side: both get the same commands and must agree."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from typing import TYPE_CHECKING, Self

import hiredis
from tests.support.model.redis_model import ModelError, RedisModel, Stored
from tests.support.servers import RedisServer, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Durations of the tests are far above, the time between two servers' executions far below.
LONG = 1_000_000
NEAR_MS = 20_000

_READ = {
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"list": ("LRANGE", 0, -1),
    b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
}


@contextlib.contextmanager
def real_redis() -> Iterator[Path]:
    """Run the reference server; yields the path of its socket."""
    with RedisServer(binaries()["redis-7.0"]) as server:
        yield server.unix_path


class Server:
    """One connection to the real server, with replies as they are."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(str(path))
        self._reader = hiredis.Reader()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def execute(self, *args: str | bytes | int) -> object:
        """Return the reply to one command, an error as a value."""
        (reply,) = self.pipeline(args)
        return reply

    def pipeline(self, *commands: tuple[str | bytes | int, ...]) -> list[object]:
        """Return the replies to commands that are sent at once."""
        self._socket.sendall(b"".join(map(hiredis.pack_command, commands)))
        return [self._read() for _ in commands]

    def _read(self) -> object:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(65536)
            assert data, "the server has gone"
            self._reader.feed(data)
        return reply

    def dump(self) -> dict[bytes, Stored]:
        """Return what `RedisModel.dump` returns."""
        keys = self.execute("KEYS", "*")
        types = self.pipeline(*(("TYPE", key) for key in keys))
        reads = [_READ[kind] for kind in types]
        values = self.pipeline(
            *((name, key, *rest) for key, (name, *rest) in zip(keys, reads, strict=True))
        )
        ttls = self.pipeline(*(("PTTL", key) for key in keys))
        return {
            key: Stored(kind.decode(), _value(kind, value), None if ttl == -1 else ttl)
            for key, kind, value, ttl in zip(keys, types, values, ttls, strict=True)
        }


def _value(kind: bytes, value: object) -> object:
    if kind in (b"hash", b"zset"):
        read = float if kind == b"zset" else bytes
        return {k: read(v) for k, v in zip(value[::2], value[1::2], strict=True)}
    return value


class Twin:
    """The model and the server, empty at first."""

    def __init__(self, path: Path) -> None:
        self.model = RedisModel(now=time.time)
        self.server = Server(path)
        self.server.pipeline(("FLUSHALL",), ("SCRIPT", "FLUSH"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()

    def check(self, *args: str | bytes | int, near: bool = False) -> object:
        """Execute the same command on both, compare the replies and return the model's."""
        answer = self.server.execute(*args)
        reply: object
        try:
            reply = self.model.execute(*args)
        except ModelError as error:
            reply = error
        expected, found = comparable(answer), comparable(reply)
        same = alike(expected, found) if near else expected == found
        assert same, f"{args}: the server says {expected!r}, the model {found!r}"
        return reply

    def check_dumps(self) -> None:
        """Compare everything that is stored, deadlines too."""
        expected, found = self.server.dump(), self.model.dump()
        assert expected.keys() == found.keys()
        for key, stored in expected.items():
            assert alike(stored, found[key]), f"{key}: {stored} on the server, {found[key]} here"


def comparable(reply: object) -> object:
    """Return a reply in which errors are their texts, less the line that a tail call hides."""
    if isinstance(reply, list):
        return [comparable(item) for item in reply]
    if isinstance(reply, Exception):
        return "error: " + re.sub(r", on @user_script:\d+\.$", "", str(reply))
    return reply


def alike(expected: object, found: object) -> bool:
    """Whether two values are equal but for what may have changed with the time, in milliseconds."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            # A key of a zset may be a time, too.
            and alike(sorted(expected.items()), sorted(found.items()))
        )
    if isinstance(expected, bytes) and isinstance(found, bytes) and b" " in expected + found:
        expected, found = expected.split(), found.split()
    if isinstance(expected, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(expected) == len(found)
            and all(map(alike, expected, found))
        )
    if expected == found:
        return True
    if type(expected) is not type(found):
        return False
    with contextlib.suppress(TypeError, ValueError):
        first, second = float(expected), float(found)
        # A number above 1e15 is a time in microseconds.
        near = NEAR_MS * 1000 if min(first, second) > 1e15 else NEAR_MS
        return min(first, second) > near and abs(first - second) < near
    return False
