"""The room lock, to show what a new kind takes: two owners at most hold it at a time.

Section 8 of the architecture walks through this file, and tells where each part of a real kind is.
The Lua texts are in the folder `lua`.

Theory. A hash has a field for each holder, as that of a plain lock has. It has one TTL, but each
holder has a lease of its own. So a sorted set has the ends of the leases, by the server's clock.
Redisson has no such lock, so its keys are our own.

Rules:

* Each holder enters, renews and releases for itself; what one does changes nothing for the other.
* After a waiter of a client got a place, the next one asks at once: the second place may be free.
  That follows from `shared`.
* Clients do not stand in a queue on the server. A release tells all of them.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import interlock
import interlock.asyncio
from interlock._core.locks import forced
from interlock._core.locks.lock_base import LockBase
from interlock._core.model import names
from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts import script
from interlock._core.scripts.lock import status
from interlock._core.scripts.script import (
    Grant,
    Variants,
    done,
    grant_or_left,
    kept,
    load,
    milliseconds,
    released,
)
from interlock.inspection.kinds import KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

    from interlock._core.model.holds import Hold
    from interlock._core.scripts.lock import LockStatus
    from interlock._core.upkeep.session import Session

LUA = Path(__file__).parent / "lua"

# Names.


def room_key(name: str) -> str:
    """Return the key of the room lock *name*."""
    return names.prefix_name("interlock_room", name)


def room_leases(key: str) -> str:
    """Return the key that tells when the leases of the holders end, for the lock with *key*."""
    return names.beside("interlock_room_leases", key)


def room_channel(name: str) -> str:
    """Return the channel on which a release of the room lock *name* is announced."""
    return names.prefix_name("interlock_room__channel", name)


# Scripts. In the package each of them is a constant, `_ROOM_LOCK_ACQUIRE = load(...)`, with a
# constructor of that name, as `room_lock_renew` is.

_acquire = cache(lambda: load("room_lock_acquire", grant_or_left))
_release = cache(lambda: Variants("room_lock_release", released))
_renew = cache(lambda: load("room_lock_renew", kept))
_force_release = cache(lambda: Variants("room_lock_force_release", done))
_query = cache(lambda: load("room_lock_query", status))


def room_lock_renew(
    locks: Sequence[str], lease: float, holders: Sequence[str], *, deadline: float = NEVER
) -> Eval[list[bool]]:
    """Keep places in *locks* for another *lease*; return for each whether it is still held.

    A renewal gets the holds' keys alone, so the second key is derived from the first.
    """
    keys = tuple(chain.from_iterable((lock, room_leases(lock)) for lock in locks))
    return Eval(_renew(), keys, (milliseconds(lease), *holders), deadline)


# The class.


class RoomLock(LockBase):
    """A lock that two owners at most hold at a time."""

    kind = "room lock"
    shared = True
    renewal = staticmethod(room_lock_renew)
    repeats = True

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self.channel = room_channel(self.key)
        self.line = self.channel  # `a` and `{a}` are one lock: their keys are equal
        self.key = self.hold_key = room_key(self.key)
        self._keys = (self.key, room_leases(self.key))

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*."""
        args = (milliseconds(lease), hold.holder, depth)
        return Eval(_acquire(), self._keys, args, deadline)

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes *hold* down to *depth*."""
        args = (hold.holder, depth, self.channel)
        return Eval(_release()[self.session.publish], self._keys, args)

    def _force_release_script(self) -> Eval[bool]:
        return Eval(_force_release()[self.session.publish], self._keys, (self.channel,))

    def _query_script(self, deadline: float = NEVER) -> Eval[LockStatus]:
        return Eval(_query(), self._keys, (), deadline)


# The row of the catalogue, and the factory.


ROW = Kind(
    (RoomLock,),
    (
        *("room_lock_acquire", "room_lock_release", "room_lock_renew"),
        *("room_lock_force_release", "room_lock_query"),
    ),
    room_channel,
    forced.by_its_class(RoomLock),
    key=room_key,
    type="hash",
)


def room_lock(
    client: Any,
    name: str,
    *,
    timeout: float | None = None,
    lease: float | None = None,
    reentrant: bool = True,
    owner: str | None = None,
) -> Any:
    """Return the room lock *name*: the factory on the clients of both faces."""
    core = RoomLock(client._driver.session, name, reentrant=reentrant)
    return client._face(core, timeout, lease, owner)


# These stand for the package's folder of scripts and its catalogue.


def _reader_beside(read: Callable[[str], str]) -> Callable[[str], str]:
    """Return what reads the Lua files of this kind, and all others as *read* does."""

    def text(path: str) -> str:
        ours = LUA / path
        return ours.read_text(encoding="utf-8") if ours.exists() else read(path)

    return text


def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the row, the scripts and the factory, for one test."""
    monkeypatch.setitem(KINDS, "room_lock", ROW)
    monkeypatch.setattr(script, "_read", _reader_beside(script._read))
    for client in (interlock.Client, interlock.asyncio.Client):
        monkeypatch.setattr(client, "room_lock", room_lock, raising=False)
    yield
