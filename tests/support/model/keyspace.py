"""What a Redis server stores, and the rules that all its commands share.

It follows Redis 7.0:

* A key with a deadline is still there in the very millisecond of the deadline, and gone in the
  next.
* A list, hash or sorted set that becomes empty is removed.
* Writing a string anew drops the deadline. Changing a value in place keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ModelError(Exception):
    """An error reply, with the server's own text, such as ``WRONGTYPE Operation against ...``."""


class Hash(dict[bytes, bytes]):
    """Fields in the order in which they came, as a small hash has them on a server."""


class List(list[bytes]):
    """The head is at index 0."""


class ZSet(dict[bytes, float]):
    """Scores by member."""

    def ranked(self) -> list[tuple[float, bytes]]:
        return sorted((score, member) for member, score in self.items())


# A nested error can only come out of a script; an error that is the whole reply is raised.
Reply: TypeAlias = "int | bytes | ModelError | list[Reply] | None"
Value: TypeAlias = "bytes | Hash | List | ZSet"
Args: TypeAlias = "Sequence[bytes]"
V = TypeVar("V", bytes, Hash, List, ZSet)

OK = b"OK"


class Entry:
    """A stored value and the time in milliseconds at which it expires, if ever."""

    __slots__ = ("expires", "value")

    def __init__(self, value: Value) -> None:
        self.value: Value = value
        self.expires: int | None = None


class Keyspace:
    """The keys of one server, at the time that its owner sets before each script.

    Attributes:
        now_us: the time in microseconds; it stands still during a script.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self._entries: dict[bytes, Entry] = {}

    @property
    def now_ms(self) -> int:
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
            raise ModelError("WRONGTYPE Operation against a key holding the wrong kind of value")
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

    def take(self, key: bytes, kind: type[Hash | ZSet], items: Args) -> int:
        """Remove *items* of the *kind* at *key*; return how many there were."""
        stored: Hash | ZSet | None = self.find(key, kind)  # type: ignore[type-var]
        if stored is None:
            return 0
        before = len(stored)
        for item in items:
            stored.pop(item, None)
        self.drop_if_empty(key, stored)
        return before - len(stored)

    def drop_if_empty(self, key: bytes, value: Hash | List | ZSet) -> None:
        """Remove *key*, whose *value* has just shrunk, when nothing is left in it."""
        if not value:
            del self._entries[key]

    def remove(self, key: bytes) -> bool:
        return self.entry(key) is not None and bool(self._entries.pop(key))

    def items(self) -> Iterator[tuple[bytes, Entry]]:
        """Yield each key that has not expired."""
        for key in tuple(self._entries):
            entry = self.entry(key)
            if entry is not None:
                yield key, entry


def format_score(score: float) -> bytes:
    """Return *score* as Redis 7.0 writes it: 17 significant digits, no trailing zeros."""
    return b"%.17g" % score


def pairs(items: Args) -> Iterator[tuple[bytes, bytes]]:
    return zip(items[::2], items[1::2], strict=True)
