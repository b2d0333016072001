"""The read/write lock: many readers or one writer, in the order of one queue.

Each side is a lock of its own, with its own holds. Both stand in one queue, where a writer's id ends
with ``:write``. A release lets in from the front while it fits: one writer, or all readers up to the
next one.

    reader      its first try names the queue: it comes in unless somebody waits
    refused     the server keeps an entry for it from the moment when it joins, so it may start
                with its message
    let in      a reader keeps its mark in the queue until its first command, a writer until it
                releases
    gone        a reader that was let in and never came ends with *coming*; one that died later is
                found by looks: a refusal names readers, and the next look names their entries
    downgrade   who writes may read besides, at once, and then stop writing

A release never lowers the TTL of the hash, which is the longest lease of all who were in.

Rejected: asking by a granted reader before it starts, which costs a third command each turn.

Source: RedissonReadLock and RedissonWriteLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import PROMPT, Lock
from interlock._core.model.effects import NEVER, Eval
from interlock._core.model.forms import HOLE, MORE, Form, Spliced
from interlock._core.model.hold import Hold
from interlock._core.model.names import (
    GRANT,
    KEEP,
    WRITES,
    draw,
    packed_text,
    read_entries,
    read_entry,
    read_write_channel,
    reader_coming,
)
from interlock._core.scripts import read_write_lock as scripts
from interlock._core.scripts.replies import Grant, milliseconds
from interlock.errors import UpgradeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Op
    from interlock._core.model.hold import Owner
    from interlock._core.scripts.locks import LockStatus
    from interlock._core.scripts.replies import News
    from interlock._core.upkeep.session import Session

DEEPEST, MOST_ENTRIES = 100, 1000
"""Entries of one reader, and of all, that a look names at most."""
_FIRST = read_entry("", "", 1)
"""What the key of a reader's first entry ends with."""
_ID = slice(5, -2)
"""Where an id is in `Hold.packed`, if it is not longer than usual: its lease is below 3 s then."""


class _ReadForm(Form):
    """A form with a second hole, for the key of the reader's entry.

    Args:
        lock: the lock.
        writes: what the owner calls a write hold by which it may come in; or empty.
        parts: as for a `Form`.
    """

    __slots__ = ("_between", "_length", "_start", "_writes", "entries")

    def __init__(self, lock: ReadLock, writes: str, *parts: Any) -> None:
        super().__init__(*parts)
        self.entries, self._writes = lock.entries, writes
        usual = f"{lock.session.head}{'0' * 12}\r\n"
        self._length = len(usual)
        size = len(f"{lock.entries}{usual[_ID]}{_FIRST}".encode())
        self._start = f"{self.head}${size}\r\n{lock.entries}"
        self._between = f"{_FIRST}\r\n{self.middle}"

    def of(self, hold: Hold) -> Eval[Any]:
        call: Any = _Read()
        packed = hold.packed
        call.script, call.form, call.hold = self.script, self, hold
        call.packed = None
        if len(packed) == self._length:  # else it is packed when it is sent
            call.packed = f"{self._start}{packed[_ID]}{self._between}{packed}{self.tail}".encode()
        if self._writes:
            owner: Any = hold.owner()  # which acquires just now
            if self._writes in owner.table:
                lock: Any = hold.lock
                call = call.anew()
                call.args = (*call.args, lock.written(hold))
        return call  # type: ignore[no-any-return]


class _Read(Spliced):
    __slots__ = ()

    @property
    def more(self) -> str:  # type: ignore[override] # pyright: ignore[reportIncompatibleVariableOverride]
        """The key of the reader's first entry."""
        form: Any = self.form
        return f"{form.entries}{self.hold.member}{_FIRST}"


class _Side(Lock):
    """What the two sides have in common."""

    sides = True
    channel_of = staticmethod(read_write_channel)
    side: int

    def __init__(self, session: Session, name: str, key: str, *, reentrant: bool = True) -> None:
        self.entries = read_entries(key)
        self._coming = reader_coming(key)
        place = f"{id(session)}:{key}"
        self._reads, self._writes = f"read {place}", f"write {place}"
        super().__init__(session, name, key, reentrant=reentrant)
        if self.side == scripts.READERS:
            self.place = self.renewed_with = self._reads
        else:
            self.place = self._writes

    @property
    def queue_keys(self) -> tuple[str, ...]:
        return (self._coming, self.queue) if self.queue else ()

    def ask(self, hold: Hold) -> Eval[Any]:
        """Return the script by which *hold* comes in, or gets a place.

        A look names readers that its last refusal named, with their entries, and a reader the write
        hold of its owner.
        """
        call, written = super().ask(hold), self.written(hold)
        entries = self._entries_of(() if hold.place is None else hold.place.line.readers)
        if not entries and not written:
            return call
        named, keys = [reader for reader, _ in entries], [entry for _, entry in entries]
        args = (*call.args, "", "")[:5]
        return Eval(
            call.script, (*call.keys, *keys), (*args, written, *named),
            spare_keys=0 if entries else len(self.queue_keys),
        )  # fmt: skip

    def _entries_of(self, readers: Sequence[bytes]) -> list[tuple[str, str]]:
        """Return *readers*, of whom each is followed by its depth, with their entries."""
        found = list[tuple[str, str]]()
        for field, depth in zip(readers[::2], readers[1::2], strict=False):
            if field != b"mode" and depth.isdigit():
                reader = field.decode()
                for number in range(min(int(depth), DEEPEST)):
                    found.append((reader, read_entry(self.entries, reader, number + 1)))
        return found[:MOST_ENTRIES]

    def written(self, hold: Hold) -> str:
        """Return the id of the write hold that the owner of *hold* has; or empty."""
        owner = hold.owner()
        found = None if owner is None else owner.table.get(self._writes)
        return found.holder if found is not None and found.valid(self.session.clock()) else ""

    def victims(self) -> Op[list[str]]:
        """Return who loses it if this side is freed: the writer last, with what that reads."""
        call = Eval(scripts.QUERIES[scripts.BOTH], (self.key,), ())
        found = (yield from self.session.persist(call, NEVER)).holders
        writer = {holder for holder in found if holder.endswith(WRITES)}
        mine = bool(writer) == (self.side == scripts.WRITER)
        return sorted(found, key=writer.__contains__) if mine else []

    def state(self) -> Eval[LockStatus]:
        return Eval(scripts.QUERIES[self.side], (self.key,), ())

    def query(self) -> Eval[LockStatus]:
        """Return the script that tells who holds either side, to be answered within one round trip."""
        until = self.session.clock() + PROMPT
        return Eval(scripts.QUERIES[scripts.BOTH], (self.key,), (), until)

    def owning(self, number: bytes) -> Lock:
        kind = WriteLock if number.endswith(WRITES.encode()) else ReadLock
        return self if isinstance(self, kind) else kind(self.session, self.name, self.key)

    def excludes(self, hold: Hold) -> bool:
        place = hold.lock.place
        return place == self._writes or (self.side == scripts.WRITER and place == self._reads)


class ReadLock(_Side):
    """The side that many owners may hold at a time."""

    kind = "read lock"
    side, asks, releases = scripts.READERS, scripts.READ_ASK, scripts.READ_RELEASE
    own_keys = (MORE,)

    def _entering(self, lease: float, depth: int) -> Form:
        keys = (self.key, MORE, self.queue) if self.queue else (self.key, MORE)
        args = (milliseconds(lease), HOLE, depth)
        writes = self._writes if depth == 1 else ""
        return _ReadForm(self, writes, scripts.READ_ACQUIRE, keys, args, len(keys) - 2)

    def _made(self, *parts: Any) -> Form:
        return _ReadForm(self, "", *parts)

    def started(self, hold: Hold, news: News) -> bool:
        """Return whether *hold*, which waits, is valid by the *news*; if not, it asks.

        Its entry must outlive the grant.
        """
        place = hold.place
        assert place is not None
        ends = (news.at - place.refused) / 1e6 + GRANT
        if news.at and ends >= max(KEEP, hold.lease):
            return False
        return super().started(hold, news)

    def attempt(self, hold: Hold, until: float, failure: Exception | None) -> Op[Any]:
        """Try as other locks do; if *hold* stood, let the next one ask, until one is refused.

        The message for all who were let in was lost, or there is none.
        """
        answer = yield from super().attempt(hold, until, failure)
        place, session = hold.place, self.session
        if answer.__class__ is Grant and place is not None and place.came:
            session.queues.leave(hold)
            place.line.look(session.clock())
        return answer

    def renewing(self, group: Sequence[Hold], lease: float) -> Eval[list[bool]]:
        holders = [hold.holder for hold in group]
        keys = [self.key, *[read_entry(self.entries, holder, 1) for holder in holders]]
        queue = [self.queue] if self.queue else []
        args: tuple[str | int, ...] = (milliseconds(lease), *holders)
        return Eval(scripts.READ_RENEW, (*keys, *queue), args, spare_keys=len(queue))


class WriteLock(_Side):
    """The side that one owner holds alone: no other owner has either side then."""

    kind = "write lock"
    side, asks, releases = scripts.WRITER, scripts.WRITE_ASK, scripts.WRITE_RELEASE

    def _entering(self, lease: float, depth: int) -> Form:
        return Form(scripts.WRITE_ACQUIRE, (self.key,), (milliseconds(lease), HOLE, depth))

    def new_hold(self, owner: Owner, lease: float | None) -> Hold:
        found = owner.table.get(self._reads)
        if found is not None and found.valid(self.session.clock()):
            raise UpgradeError(
                f"{owner.label} holds the read lock {self.name!r} and would wait for itself; "
                "release that first, or take the write lock from the start",
                name=self.name,
            )
        session, lasts = self.session, self._lasts
        if lease is None and lasts >= GRANT:
            packed = f"{session.write_head}{draw()}{WRITES}\r\n"
            return Hold().of(self, owner.reference, packed, lasts, True)
        hold = super().new_hold(owner, lease)
        hold.packed = packed_text(f"{hold.member}{WRITES}")
        return hold
