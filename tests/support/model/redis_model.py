"""A Redis server in memory that runs the real Lua scripts, on a clock of the caller's choice.

It is the server of the simulator: no sockets, no threads, no time but the one it is given. It
knows the commands of the library's scripts, answers as Redis 7.0 does, and refuses aloud what it
does not know.

fakeredis cannot take its place: it has neither a clock of ours nor a hook for the messages of the
simulated network, an acquire script takes eight times as long, and errors differ from Redis's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tests.support.model.commands import COMMANDS
from tests.support.model.keyspace import (
    Args,
    Keyspace,
    ModelError,
    Reply,
    Value,
)
from tests.support.model.lua import Chunk, LuaSandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ModelError", "RedisModel", "Reply", "Stored"]


class Stored(NamedTuple):
    """A copy of what lives at a key.

    Attributes:
        value: a hash as a dict, a sorted set as a dict of scores.
        ttl: milliseconds until it expires, None when it does not.
    """

    value: bytes | dict[bytes, bytes] | list[bytes] | dict[bytes, float]
    ttl: int | None


class RedisModel:
    """One server, to be used from one thread at a time."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        publish: Callable[[bytes, bytes], int],
        listeners: Callable[[bytes], int],
    ) -> None:
        """Create an empty server.

        Args:
            now: The time in seconds since the epoch of the simulation. It is read once for each
                script: within it the time stands still.
            publish: Called by PUBLISH and SPUBLISH with channel and payload, returns the number of
                receivers. A script may publish in its midst, so that a hook notes the message and
                delivers it later.
            listeners: Called by PUBSUB NUMSUB and SHARDNUMSUB, returns who listens to a channel.
        """
        self._now = now
        self._publish = publish
        self._listeners = listeners
        self._ran = 0
        self._viewed: tuple[int, float, dict[bytes, Stored]] = (0, math.inf, {})
        self._keyspace = Keyspace()
        self._lua = LuaSandbox(self._call)
        self._compiled: dict[str, Chunk] = {}
        self._commands = {
            **COMMANDS,
            b"PUBLISH": self._send,
            b"SPUBLISH": self._send,
            b"PUBSUB": self._count_listeners,
        }
        # As scripts write them.
        self._commands |= {name.lower(): run for name, run in self._commands.items()}

    def eval(
        self, script: str, keys: Sequence[str | bytes], args: Sequence[str | bytes | int]
    ) -> Reply:
        """Run the Lua text *script* atomically.

        Args:
            script: The text; it is compiled once.
            keys: What the script finds in KEYS.
            args: What it finds in ARGV, all as strings.

        Returns:
            None for nil; int; bytes for strings; a list, in which an error that a script put there
            stands as a ModelError.

        Raises:
            ModelError: The script failed or returned an error.
        """
        chunk = self._compiled.get(script)
        if chunk is None:
            chunk = self._compiled[script] = self._lua.compile(script.encode())
        self._tick()
        return self._lua.run(chunk, [_encode(key) for key in keys], [_encode(arg) for arg in args])

    def remove(self, *keys: str) -> int:
        self._tick()
        return sum(self._keyspace.remove(key.encode()) for key in keys)

    def replace(self, keyspace: Keyspace | None = None) -> None:
        """Have what is in *keyspace* alone; by default nothing."""
        self._keyspace = keyspace or Keyspace()
        self._tick()

    def view(self) -> dict[bytes, Stored]:
        """Return a copy of all that has not expired, as it was when something last changed.

        It is the same object until something changes again.
        """
        ran, soonest, stored = self._viewed
        if ran != self._ran or self._now() * 1000 >= soonest:
            self._keyspace.now_us = self._now_us()
            now = self._keyspace.now_ms
            stored = {
                key: Stored(
                    _copy(entry.value), None if entry.expires is None else entry.expires - now
                )
                for key, entry in self._keyspace.items()
            }
            ends = [one.ttl for one in stored.values() if one.ttl is not None]
            soonest = self._keyspace.now_ms + min(ends, default=math.inf)
            self._viewed = self._ran, soonest, stored
        return stored

    def _now_us(self) -> int:
        return round(self._now() * 1_000_000)

    def _tick(self) -> None:
        self._ran += 1
        self._keyspace.now_us = self._now_us()

    def _call(self, words: Sequence[bytes]) -> Reply:
        run = self._commands.get(words[0])
        if run is None:
            raise ModelError("ERR Unknown Redis command called from script")
        return run(self._keyspace, words[1:])

    def _send(self, _db: Keyspace, args: Args) -> Reply:
        channel, payload = args
        return self._publish(channel, payload)

    def _count_listeners(self, _db: Keyspace, args: Args) -> Reply:
        return [part for channel in args[1:] for part in (channel, self._listeners(channel))]


def _encode(arg: str | bytes | int) -> bytes:
    return arg if isinstance(arg, bytes) else str(arg).encode()


def _copy(value: Value) -> bytes | dict[bytes, bytes] | list[bytes] | dict[bytes, float]:
    return value if isinstance(value, bytes) else value.copy()
