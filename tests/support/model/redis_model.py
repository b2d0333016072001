"""A Redis server in memory that runs the real Lua scripts, on a clock of the caller's choice.

It is the server of the simulator: no sockets, no threads, no time but the one it is given. It
knows the commands of the library's scripts, answers as Redis 7.0 does, errors included, and refuses
aloud what it does not know. The tests hold it against a real server, script by script.

fakeredis cannot take its place: it has neither a clock of ours nor a hook for the messages of the
simulated network, an acquire script takes eight times as long, and errors differ from Redis's.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tests.support.model.commands import COMMANDS
from tests.support.model.keyspace import (
    OK,
    TYPE_NAMES,
    Args,
    Command,
    Hash,
    Keyspace,
    List,
    ModelError,
    Reply,
    Table,
    ZSet,
    at_least,
    exactly,
    integer,
    printable,
    wrong_arguments,
)
from tests.support.model.lua import Chunk, LuaSandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ModelError", "RedisModel", "Reply", "Stored"]

BUSY = "a hook must not call the model: the server is busy with a command"
_NOT_FROM_SCRIPTS = frozenset(("EVAL", "EVALSHA", "SCRIPT"))


class Stored(NamedTuple):
    """A copy of what lives at a key.

    Attributes:
        type: ``string``, ``hash``, ``list`` or ``zset``, as TYPE tells it.
        value: a hash as a dict, a sorted set as a dict of scores.
        ttl: milliseconds until it expires, None when it does not.
    """

    type: str
    value: bytes | dict[bytes, bytes] | list[bytes] | dict[bytes, float]
    ttl: int | None


class _Script(NamedTuple):
    sha: str
    sha_bytes: bytes
    chunk: Chunk


def _no_receivers(channel: bytes, payload: bytes) -> int:
    return 0


def _no_listeners(channel: bytes) -> int:
    return 0


class RedisModel:
    """One server, to be used from one thread at a time.

    Attributes:
        commands: how often each command ran, by its name in capitals; those that scripts ran too.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        on_publish: Callable[[bytes, bytes], int] = _no_receivers,
        on_spublish: Callable[[bytes, bytes], int] = _no_receivers,
        listeners: Callable[[bytes], int] = _no_listeners,
    ) -> None:
        """Create an empty server.

        Args:
            now: The time in seconds since the epoch of the simulation. It is read once for each
                command or script: within them the time stands still.
            on_publish: Called by PUBLISH with channel and payload, returns the number of receivers.
                A script may publish in its midst, so that a hook notes the message and delivers
                it later: it must not call the model.
            on_spublish: The same for SPUBLISH, whose channels are others.
            listeners: Called by PUBSUB NUMSUB and SHARDNUMSUB, returns who listens to a channel.
        """
        self.commands: Counter[str] = Counter()
        self._now = now
        self._on_publish = on_publish
        self._on_spublish = on_spublish
        self._listeners = listeners
        self._busy = False
        self._ran = 0
        self._viewed: tuple[int, float, dict[bytes, Stored]] = (0, math.inf, {})
        self._keyspace = Keyspace()
        self._lua = LuaSandbox(self._call_from_script)
        self._compiled: dict[bytes, _Script] = {}
        self._loaded: dict[bytes, _Script] = {}
        self._texts: dict[str | bytes, _Script] = {}
        self._from_scripts: dict[bytes, tuple[str, Command]] = {}
        self._commands: Table = {
            **COMMANDS,
            b"PUBLISH": exactly(2, self._publish),
            b"SPUBLISH": exactly(2, self._spublish),
            b"PUBSUB": at_least(1, self._pubsub),
            b"CLUSTER": exactly(1, self._cluster),
            b"EVAL": at_least(2, self._eval),
            b"EVALSHA": at_least(2, self._evalsha),
            b"SCRIPT": at_least(1, self._script),
        }

    def execute(self, *args: str | bytes | int) -> Reply:
        """Execute one command, as a client would send it.

        Args:
            args: The command's name and its arguments.

        Returns:
            None for nil; int; bytes for strings and statuses; a list, in which an error that a
            script put there stands as a ModelError.

        Raises:
            ModelError: The command is unknown or failed; the message is the server's.
        """
        name, *rest = map(_encode, args)
        command = self._commands.get(name.upper())
        if command is None:
            shown = "".join(f"'{printable(arg)}' " for arg in rest)
            raise ModelError(
                f"ERR unknown command '{printable(name)}', with args beginning with: {shown}"
            )
        if not command.accepts(len(rest)):
            raise wrong_arguments(name)
        if self._busy:
            raise RuntimeError(BUSY)
        self._busy = True
        self._ran += 1
        try:
            self._tick()
            return self._run(name.upper(), command, rest)
        finally:
            self._busy = False

    def eval(
        self, script: str, keys: Sequence[str | bytes], args: Sequence[str | bytes | int]
    ) -> Reply:
        """Run the Lua text *script* atomically.

        Args:
            script: The text; it is compiled once.
            keys: What the script finds in KEYS.
            args: What it finds in ARGV, all as strings.

        Returns:
            The converted result, as `execute` returns it.

        Raises:
            ModelError: The script failed or returned an error.
        """
        if self._busy:
            raise RuntimeError(BUSY)
        # As EVAL, which would encode the text and look it up anew each time.
        found = self._texts.get(script)
        if found is None:
            text = script if isinstance(script, bytes) else script.encode()
            found = self._texts[script] = self._load(text)
        self._loaded[found.sha_bytes] = found
        self._busy = True
        self._ran += 1
        self.commands["EVAL"] += 1
        try:
            self._tick()
            words = [_encode(word) for word in args]
            return self._lua.run(found.chunk, found.sha, [_encode(key) for key in keys], words)
        finally:
            self._busy = False

    def dump(self) -> dict[bytes, Stored]:
        """Return a copy of all keys that have not expired."""
        self._tick()
        now = self._keyspace.now_ms
        return {
            key: Stored(
                TYPE_NAMES[type(entry.value)],
                _copy(entry.value),
                None if entry.expires is None else entry.expires - now,
            )
            for key, entry in self._keyspace.items()
        }

    def view(self) -> dict[bytes, Stored]:
        """Return what `dump` returned when something last changed: the same object until then."""
        ran, soonest, stored = self._viewed
        if ran != self._ran or self._now() * 1000 >= soonest:
            stored = self.dump()
            ends = [one.ttl for one in stored.values() if one.ttl is not None]
            soonest = self._keyspace.now_ms + min(ends, default=math.inf)
            self._viewed = self._ran, soonest, stored
        return stored

    def _tick(self) -> None:
        self._keyspace.now_us = round(self._now() * 1_000_000)

    def _run(self, name: bytes, command: Command, args: Args) -> Reply:
        self.commands[name.decode()] += 1
        return command.run(self._keyspace, args)

    def _call_from_script(self, words: Sequence[bytes]) -> Reply:
        args = words[1:]
        name, command = self._from_scripts.get(words[0]) or self._find_for_script(words[0])
        if not command.accepts(len(args)):
            raise ModelError("ERR Wrong number of args calling Redis command from script")
        if name in _NOT_FROM_SCRIPTS:
            raise ModelError("ERR This Redis command is not allowed from script")
        self.commands[name] += 1
        return command.run(self._keyspace, args)

    def _find_for_script(self, word: bytes) -> tuple[str, Command]:
        name = word.upper()
        command = self._commands.get(name)
        if command is None:
            raise ModelError("ERR Unknown Redis command called from script")
        found = self._from_scripts[word] = name.decode(), command
        return found

    def _publish(self, _db: Keyspace, args: Args) -> Reply:
        return self._on_publish(args[0], args[1])

    def _spublish(self, _db: Keyspace, args: Args) -> Reply:
        return self._on_spublish(args[0], args[1])

    def _pubsub(self, _db: Keyspace, args: Args) -> Reply:
        action, *channels = args
        if action.upper() not in (b"NUMSUB", b"SHARDNUMSUB"):
            raise ModelError(f"ERR unknown subcommand '{printable(action)}'. Try PUBSUB HELP.")
        return [part for channel in channels for part in (channel, self._listeners(channel))]

    def _cluster(self, _db: Keyspace, args: Args) -> Reply:
        if args[0].upper() != b"INFO":
            raise ModelError(f"ERR unknown subcommand '{printable(args[0])}'. Try CLUSTER HELP.")
        return b"cluster_current_epoch:3\r\ncluster_my_epoch:2\r\n"

    def _eval(self, _db: Keyspace, args: Args) -> Reply:
        keys, rest = _split_keys(args)
        script = self._load(args[0])
        return self._lua.run(script.chunk, script.sha, keys, rest)

    def _evalsha(self, _db: Keyspace, args: Args) -> Reply:
        keys, rest = _split_keys(args)
        script = self._loaded.get(args[0].lower())
        if script is None:
            raise ModelError("NOSCRIPT No matching script. Please use EVAL.")
        return self._lua.run(script.chunk, script.sha, keys, rest)

    def _script(self, _db: Keyspace, args: Args) -> Reply:
        action, *rest = args
        match action.upper(), len(rest):
            case b"LOAD", 1:
                return self._load(rest[0]).sha_bytes
            case b"EXISTS", count if count:
                return [int(sha.lower() in self._loaded) for sha in rest]
            case b"FLUSH", 0:
                self._loaded.clear()
                return OK
            case _:
                shown = printable(action)
                raise ModelError(f"ERR unknown subcommand '{shown}'. Try SCRIPT HELP.")

    def _load(self, text: bytes) -> _Script:
        # Compiled scripts outlive SCRIPT FLUSH: what is compiled is the model's affair.
        script = self._compiled.get(text)
        if script is None:
            sha = hashlib.sha1(text).hexdigest()
            chunk = self._lua.compile(text)
            script = self._compiled[text] = _Script(sha, sha.encode(), chunk)
        self._loaded[script.sha_bytes] = script
        return script


def _encode(arg: str | bytes | int) -> bytes:
    if isinstance(arg, bytes):
        return arg
    return str(arg).encode()


def _split_keys(args: Args) -> tuple[Args, Args]:
    count = integer(args[1])
    if count > len(args) - 2:
        raise ModelError("ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise ModelError("ERR Number of keys can't be negative")
    return args[2 : 2 + count], args[2 + count :]


def _copy(
    value: bytes | Hash | List | ZSet,
) -> bytes | dict[bytes, bytes] | list[bytes] | dict[bytes, float]:
    if isinstance(value, Hash):
        return dict(value)
    if isinstance(value, ZSet):
        return dict(value)
    return list(value) if isinstance(value, List) else value
