"""What a Redis server stores, and the rules that all its commands share.

It follows Redis 7.0:

* A key with a deadline is still there in the very millisecond of the deadline, and gone in the
  next.
* A list, hash or sorted set that becomes empty is removed.
* Writing a string anew drops the deadline. Changing a value in place keeps it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class ModelError(Exception):
    """An error reply, with the server's own text, such as ``WRONGTYPE Operation against ...``."""


class Status(bytes):
    """A status reply such as ``OK``: bytes to a client, ``{ok=...}`` to a script."""

    __slots__ = ()


class Hash(dict[bytes, bytes]):
    """Fields in the order in which they came, as a small hash has them on a server."""


class List(list[bytes]):
    """The head is at index 0."""


class ZSet(dict[bytes, float]):
    """Scores by member."""

    def ranked(self) -> list[tuple[float, bytes]]:
        """Return all members with their scores, the lowest first."""
        return sorted((score, member) for member, score in self.items())


# A nested error can only come out of a script; an error that is the whole reply is raised.
Reply: TypeAlias = "int | bytes | ModelError | list[Reply] | None"
Value: TypeAlias = "bytes | Hash | List | ZSet"
Args: TypeAlias = "Sequence[bytes]"
V = TypeVar("V", bytes, Hash, List, ZSet)

OK = Status(b"OK")
TYPE_NAMES: dict[type, str] = {bytes: "string", Hash: "hash", List: "list", ZSet: "zset"}

MAX_INT = 2**63 - 1
MIN_INT = -(2**63)
_INTEGER = re.compile(rb"0|-?[1-9][0-9]*")
_FLOAT = re.compile(
    rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE
)

NOT_AN_INTEGER = "ERR value is not an integer or out of range"
SYNTAX_ERROR = "ERR syntax error"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class Entry:
    """A stored value and the time in milliseconds at which it expires, if ever."""

    __slots__ = ("expires", "value")

    def __init__(self, value: Value) -> None:
        self.value: Value = value
        self.expires: int | None = None


class Keyspace:
    """The keys of one server, at the time that its owner sets before each command.

    Attributes:
        now_us: the time in microseconds; it stands still during a command and during a script.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self._entries: dict[bytes, Entry] = {}

    @property
    def now_ms(self) -> int:
        """The time in whole milliseconds."""
        return self.now_us // 1000

    def entry(self, key: bytes) -> Entry | None:
        """Return what lives at *key*, and remove it first if it has expired."""
        entry = self._entries.get(key)
        if entry is None or entry.expires is None or self.now_ms <= entry.expires:
            return entry
        del self._entries[key]
        return None

    def find(self, key: bytes, kind: type[V]) -> V | None:
        """Return the value at *key*, None when there is none.

        Raises:
            ModelError: It is not a *kind*.
        """
        entry = self.entry(key)
        if entry is None:
            return None
        if not isinstance(entry.value, kind):
            raise ModelError(WRONG_TYPE)
        return entry.value

    def make(self, key: bytes, kind: type[V]) -> V:
        """Return the value at *key*, which is created empty when there is none.

        Raises:
            ModelError: It is not a *kind*.
        """
        value = self.find(key, kind)
        if value is None:
            value = kind()
            self.put(key, value)
        return value

    def put(self, key: bytes, value: Value) -> Entry:
        """Store *value* anew: whatever was there is gone, deadline included."""
        entry = self._entries[key] = Entry(value)
        return entry

    def update(self, key: bytes, text: bytes) -> None:
        """Store a string and keep the deadline of the one that it follows."""
        entry = self.entry(key)
        if entry is None:
            self.put(key, text)
        else:
            entry.value = text

    def drop_if_empty(self, key: bytes, value: Hash | List | ZSet) -> None:
        """Remove *key*, whose *value* has just shrunk, when nothing is left in it."""
        if not value:
            del self._entries[key]

    def remove(self, key: bytes) -> bool:
        """Remove *key*; tell whether it was there."""
        if self.entry(key) is None:
            return False
        del self._entries[key]
        return True

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()

    def items(self) -> Iterator[tuple[bytes, Entry]]:
        """Yield each key that has not expired."""
        for key in tuple(self._entries):
            entry = self.entry(key)
            if entry is not None:
                yield key, entry


class Command(NamedTuple):
    """What runs a command, and how many arguments after its name it takes."""

    run: Callable[[Keyspace, Args], Reply]
    least: int
    most: int | None = None

    def accepts(self, count: int) -> bool:
        """Whether *count* arguments are neither too few nor too many."""
        return self.least <= count and (self.most is None or count <= self.most)


Table: TypeAlias = "dict[bytes, Command]"


def exactly(count: int, run: Callable[[Keyspace, Args], Reply]) -> Command:
    """Return the command that takes *count* arguments."""
    return Command(run, count, count)


def at_least(count: int, run: Callable[[Keyspace, Args], Reply]) -> Command:
    """Return the command that takes *count* arguments or more."""
    return Command(run, count)


def wrong_arguments(name: bytes) -> ModelError:
    """Return the error for too few or too many arguments."""
    return ModelError(f"ERR wrong number of arguments for '{printable(name.lower())}' command")


def printable(text: bytes) -> str:
    """Return *text* as it goes into an error message."""
    return text.decode("utf-8", "backslashreplace")


def integer(text: bytes, error: str = NOT_AN_INTEGER) -> int:
    """Return the integer in *text*, which the server takes in its canonical form only.

    Raises:
        ModelError: It is none, or has more than 64 bits; the message is *error*.
    """
    if _INTEGER.fullmatch(text):
        value = int(text)
        if MIN_INT <= value <= MAX_INT:
            return value
    raise ModelError(error)


def number(text: bytes, error: str = "ERR value is not a valid float") -> float:
    """Return the floating point number in *text*.

    Raises:
        ModelError: It is none; the message is *error*.
    """
    if _FLOAT.fullmatch(text):
        value = float(text)
        if abs(value) != float("inf") or b"inf" in text.lower():
            return value
    raise ModelError(error)


def format_score(score: float) -> bytes:
    """Return *score* as Redis 7.0 writes it: 17 significant digits, no trailing zeros."""
    return b"%.17g" % score


def pairs(items: Args) -> Iterator[tuple[bytes, bytes]]:
    """Yield the items two by two."""
    return zip(items[::2], items[1::2], strict=True)
