"""A hold: its life, and who may end it.

A hold has an id of its own on the server, ``<client>:<number>``, which is never used again. So
whatever the network delivers late finds nothing to change, and whoever is unsure just releases.

    entries      over       the hold is
    ---------    -------    ------------------------------------------------------------------
    none         None       PENDING: its acquire is under way; with a `place`, it waits (`queue`)
    some         None       HELD. Or they have just gone, and its release is under way
    any          LOST       LOST: the server or its lease ended it; each release says so
    any          ENDED      ENDED: final. Its id may still be on the server: see `upkeep.garbage`

Its depth is the number of its entries. Each entry says who ends it: a `Claim`, which is a weak
reference to an open block; a `Job`, which is one to the lock object by which a pool's job has
acquired; or any other object, which stands for the owner. A renewed hold whose entries have all
lost who could end them is garbage. The hash on the server has a copy of the depth, for people.

The first entry is `OPEN`. Who takes away the last other one also takes `OPEN` away, by a `pop` that
gets whatever is last then: so either the hold is closed, or somebody has entered again meanwhile.
And who enters again looks afterwards whether `OPEN` is still there. No mutex is needed for that.
"""

from __future__ import annotations

import itertools
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from interlock._core.model.effects import NEVER
from interlock._core.model.names import KEEP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType

    from interlock._core.locks.base import Lock
    from interlock._core.locks.release import Extend, Release
    from interlock._core.model.replication import Replication
    from interlock._core.queue.places import Place
    from interlock.errors import LossReason

GONE = "deleted, evicted, or the server lost its data or stepped its clock"
"""What may have happened to a hold that is gone without a note."""
UNASKED = "deleted, evicted, released by force, or the server lost its data or stepped its clock"
"""What may have happened to a hold that is gone, if nobody could be asked why."""
GIVEN_BACK = f"given back by its id, {GONE}"
"""What may have happened to a permit that is gone without a note."""
DRIFT = 0.001
"""The limit for the difference between two clocks' rates: 500 ppm each, as of a bad quartz."""
SLACK = 0.002
"""Seconds: the granularity of the server's expiry."""

Line: TypeAlias = "tuple[CodeType, int]"
"""A line of a program that runs: a function, and the byte of its code."""
_PACKAGE = __file__.partition("_core")[0]
_LIBRARY = suppress.__exit__.__code__.co_filename.removesuffix("contextlib.py")
_numbers = itertools.count(1)
"""The numbers of the next owners."""

# The states of a hold: plain strings, because the hot path looks at them often.
PENDING: Final = "pending"
HELD: Final = "held"
ENDED: Final = "ended"
LOST: Final = "lost"

OPEN: Final = object()
"""The first entry of each hold that can be entered."""
FIRST: Final = object()
"""The entry of an acquire by hand; re-entries have one of their own, so that each drops only that."""
KEPT: Final = 1 - DRIFT
"""What is left of a lease by our clock if the server's is faster."""
LEAST = 2
"""The length of the entries of a hold that was entered once."""


def valid_until(sent_at: float, lease: float) -> float:
    """Return the end of *lease* seconds that were granted to a command sent at *sent_at*."""
    return sent_at + lease * KEPT - SLACK


Scope: TypeAlias = "list[Any]"
"""What an owner has: holds. It begins with None, which the first hold takes the place of."""


class Reference(weakref.ref["Owner"]):
    """A weak reference to an owner; it knows what to call that when it is gone."""

    __slots__ = ("label",)

    def __init__(self, owner: Owner, _gone: Callable[[Any], object] | None = None, /) -> None:
        self.label = owner.label  # `__new__` has made the reference


class Owner:
    """Who may re-enter and release: a flow of a thread, or a task.

    Attributes:
        identity: tells owners of this process apart.
        label: what to call the owner in messages.
        reference: a weak reference, which a hold has in place of its owner: a hold must not keep a
            thread or task alive.
        cell: a list of its scope, in place of which it gets another one when it has nothing; None if
            nobody asks.
        table: what it has, by what the core calls each lock.
        in_job: whether it stands for a job or task, which ends before its thread.
        alone_in: the identifier of the thread whose only owner it is; 0 if there are others in it, so
            that one may wait in vain; -1 for a task.
        lasting: whether it is known to go on when the call that acquires for it has returned.
    """

    __slots__ = (
        *("__weakref__", "_ended", "alone_in", "cell", "identity", "in_job", "label", "lasting"),
        *("reference", "table"),
    )

    def __init__(self, label: str, ended: Callable[[], bool] | None = None) -> None:
        self.identity = next(_numbers)
        self.label = label
        self.cell: list[Scope] | None = None
        self.table: dict[object, Any] = {}
        self.in_job = self.lasting = False
        self.alone_in = -1
        self._ended = ended
        self.reference: Callable[[], Owner | None] = Reference(self)

    def ended(self) -> bool:
        """Return whether the thread or task has ended."""
        return self._ended is not None and self._ended()

    def lets_caller_release(self) -> bool:
        """Return whether the caller, who is another owner, may release what it has by hand."""
        return False

    def refuse_vain_wait(self, lock: Any, deadline: float) -> None:
        """Raise ReentryError if only this thread could end a wait for *lock* until *deadline*."""


class Claim(weakref.ref[Any]):
    """A weak reference to what ends one entry of *hold*; an inbox hears when that is gone.

    The callback is the inbox's `put`, which is C: no signal can strike in it.
    """

    __slots__ = ("hold",)
    hold: Hold | None


class Job(weakref.ref[Any]):
    """Stands for what a job of a pool acquired by hand: a weak reference to the lock object."""

    __slots__ = ()


class Hold:
    """One hold of one lock.

    Attributes:
        owner: returns its owner, or None if that is gone.
        packed: its id, as the argument of a command, before that is encoded.
        entries, over: see above; *over* is None, ENDED or LOST.
        lease: seconds that the server keeps it.
        renewed: whether the watchdog keeps it alive.
        valid_until: nobody else can hold the lock before that.
        sent_at: when the last try to acquire was sent; 0 if none was.
        since: when it was granted.
        asking: whether that try has no answer yet.
        resent: whether an earlier try has none: a copy of it may still come.
        place: what it knows as a waiter; None if it never was one.
        listeners: whom to call when it is lost.
        line: where the user's code acquired it; None if nobody knows.
        parts: the holds that make it, if it is one of several locks.
        among: what its owner has in its present context; None if nobody asks.
        ends_by: when it ends although it is renewed; NEVER if it need not.
        newest: the last of those that have taken its place, if any has.
    """

    parts: Sequence[Hold] = ()
    __slots__ = (
        "__weakref__", "among", "asking", "detail", "ends_by", "entries", "lease", "line", "listeners", "lock", "newest", "over", "owner",
        "packed", "place", "reason", "renewed", "replication", "resent", "sent_at", "since", "token", "valid_until",
    )  # fmt: skip
    newest: list[Hold]

    def of(
        self,
        lock: Lock,
        owner: Callable[[], Owner | None],
        packed: str,
        lease: float,
        renewed: bool,
    ) -> Self:
        """Begin; return this hold."""
        self.lock, self.owner, self.packed = lock, owner, packed
        self.lease, self.renewed = lease, renewed
        self.entries: list[object] = []
        self.over: str | None = None
        self.valid_until = self.sent_at = self.since = 0.0
        self.asking = self.resent = False
        self.token: int | None = None
        self.place: Place | None = None
        self.among: list[Any] | None = None
        self.line: Line | None = None
        self.replication: Replication | None = None
        self.reason: LossReason | None = None
        self.detail, self.ends_by = "", NEVER
        self.listeners: list[Callable[[], object]] | None = None
        return self

    of_permits = False
    """Whether it is of permits, of which others may have some, too."""

    def __repr__(self) -> str:
        return f"<hold of {self.lock!r} {self.state} {self.holder}>"

    @property
    def state(self) -> str:
        """The state, in a word."""
        return self.over or (HELD if self.entries else PENDING)

    @property
    def holder(self) -> str:
        """Its id on the server."""
        return self.member

    @property
    def member(self) -> str:
        """What its commands call it."""
        return self.packed.partition("\n")[2][:-2]

    @property
    def number(self) -> bytes:
        """The second half of its id, by which messages call it."""
        return self.packed[:-2].partition(":")[2].encode()

    def ask(self, now: float) -> None:
        """Note that a try to acquire is sent *now*."""
        self.resent = self.resent or self.asking
        self.sent_at, self.asking = now, True

    def grant(self, sent_at: float, lease: float) -> None:
        """Note that a command sent at *sent_at* keeps it for *lease* seconds."""
        until = min(valid_until(sent_at, lease), self.ends_by)
        if until > self.valid_until:  # noqa: PLR1730 - faster than `max`
            self.valid_until = until

    @property
    def released(self) -> bool:
        """Whether nothing is left to release: it is over, or still being acquired."""
        return self.over is not None or not self.valid_until

    def unsure(self) -> bool:
        """Return whether the server may have something of it."""
        return bool(self.valid_until or self.asking or self.resent or self.place is not None)

    def may_come(self) -> bool:
        """Return whether a try may still be executed behind a release that is answered."""
        place = self.place
        return self.resent or (self.asking and place is not None and place.sent > 0)

    def end_by(self, time: float) -> None:
        """End it at *time* at the latest; only then does the server hear of that."""
        self.ends_by = time
        self.valid_until = min(self.valid_until, time)

    def valid(self, now: float) -> bool:
        """Return whether nobody else can hold the lock."""
        return self.over is None and now < self.valid_until and bool(self.entries)

    def lost(self, now: float) -> bool:
        """Return whether it has ended without being released, as far as is known here."""
        return self.over is LOST or (
            self.over is None and bool(self.entries) and now >= self.valid_until
        )

    def enter(self, entry: object) -> bool:
        """Enter it again, unless another flow has just closed it; return whether that was done."""
        self.entries.append(entry)
        if self.entries[0] is OPEN and self.over is None:
            return True
        self.drop(entry)
        return False

    def leave(self, entry: object) -> bool:
        """Drop *entry*, unless somebody did, and close it if none is left.

        Return whether this call has closed it.
        """
        entries = self.entries
        try:  # noqa: SIM105 - faster than `suppress`
            entries.remove(entry)
        except ValueError:
            pass
        if len(entries) != 1:
            return False
        try:
            last = entries.pop()
        except IndexError:  # somebody else has closed it
            return False
        if last is OPEN:
            return True
        entries.append(last)  # somebody has entered just now
        return False

    def by_hand(self) -> bool:
        """Return whether it has an entry that is no block's."""
        return any(
            not isinstance(each, (Claim, Hold)) and each is not OPEN for each in self.entries
        )

    def taken_by(self, lock: object) -> bool:
        """Return whether a job of a pool acquired it by the object *lock*."""
        return any(isinstance(entry, Job) and entry() is lock for entry in list(self.entries))

    def wholes(self) -> list[Hold]:
        """Return the holds of several members that it is a part of."""
        return [entry for entry in list(self.entries) if isinstance(entry, Hold)]

    def bury(self) -> None:
        """Drop the entries of blocks that are gone."""
        for entry in list(self.entries):
            if type(entry) is Claim and entry() is None:
                self.drop(entry)

    def drop(self, entry: object) -> None:
        """Drop *entry*, unless somebody did."""
        try:  # noqa: SIM105 - faster than `suppress`
            self.entries.remove(entry)
        except ValueError:
            pass

    def claimed(self) -> bool:
        """Return whether somebody is left who can release it."""
        owner = self.owner()
        lives = owner is not None and not owner.ended()
        for entry in list(self.entries):
            if isinstance(entry, Hold):
                claimed = entry.claimed()
            elif isinstance(entry, Claim):
                claimed = entry() is not None
            else:
                claimed = lives or (isinstance(entry, Job) and entry() is not None)
            if claimed and entry is not OPEN:
                return True
        return False

    def come_among(self, cell: list[Any]) -> None:
        """Come among what its owner has in the context of *cell*."""
        among: list[Any] = cell[0]
        self.among = among
        if among and among[0] is None:
            among[0] = self
        else:
            among.append(self)

    def replace_among(self, other: Hold) -> None:
        """Stand where *other* stands among what its owner has, if it does."""
        among = other.among
        if among is not None and other in among:
            self.among = among
            among[among.index(other)] = self
            other.among = None

    def leave_owner(self) -> None:
        """Take it out of the table of its owner."""
        owner, place = self.owner(), self.lock.place
        if owner is not None and owner.table.get(place) is self:
            _ = owner.table.pop(place, None)  # another thread may end it too
        among = self.among
        if among is not None:
            try:  # noqa: SIM105 - faster than `suppress`
                among.remove(self)
            except ValueError:
                pass  # another flow has done that
            self.among = None  # last: whoever was interrupted does it again

    def over_by(self, now: float) -> float:
        """Return when the server has forgotten all that was sent before *now*.

        A place lasts longer if others keep the queue. Then its turn is the end of it.
        """
        if self.place is not None:
            return now + max(self.lease, KEEP)
        unsure = self.renewed or self.asking or self.resent
        return now + self.lease if unsure else self.valid_until

    # What a face and its driver ask.

    @property
    def name(self) -> str:
        return self.lock.name

    @property
    def depth(self) -> int:
        """How often it was entered."""
        return max(0, len(self.entries) - 1)

    @property
    def acquired_at(self) -> str:
        """The user's line that acquired it, as ``file:line``; empty if nobody knows."""
        line = next((each.line for each in (self, *self.wholes()) if each.line is not None), None)
        return "" if line is None or is_ours(line) else f"{line[0].co_filename}:{number_of(line)}"

    @property
    def key(self) -> str:
        return self.lock.key

    @property
    def identity(self) -> int:
        """What tells its owner from all others of this process; 0 if that is gone."""
        owner = self.owner()
        return 0 if owner is None else owner.identity

    def ran_out(self) -> bool:
        """Return whether it ended with the lease that its owner chose, outside of any block.

        Then nobody needs to release it. A rate limit is a lock of this kind.
        """
        expired = (self.reason or self.expiry_reason()) == "expired" and not self.renewed
        return expired and not any(isinstance(entry, Claim) for entry in self.entries)

    @property
    def label(self) -> str:
        """What to call its owner in messages."""
        label: str = getattr(self.owner, "label", "an owner that is gone")
        return label

    @property
    def replicas(self) -> int | None:
        """How many replicas had it when it was acquired; None if they were not asked."""
        replication = self.replication
        return None if replication is None else replication.acknowledged

    @property
    def token_source(self) -> str | None:
        """What keeps the token above all earlier ones; None without a token."""
        return None if self.token is None else self.lock.token_source

    def expiry_reason(self) -> LossReason:
        """Return why it is lost if its validity has just ended.

        If no renewal has failed or is without an answer, none was made: the process was paused, or
        too busy.
        """
        session = self.lock.session
        renewed = self.renewed and self.ends_by == NEVER
        failed = session.watchdog.failure_of(self) is not None
        return "unreachable past validity" if renewed and failed else "expired"

    def listen(self, callback: Callable[[], object]) -> bool:
        """Call *callback* when it is lost; return False if it is."""
        if self.listeners is None:
            self.listeners = []
        self.listeners.append(callback)
        if self.over is LOST:
            with suppress(ValueError):  # it has just been told
                self.listeners.remove(callback)
                return False
        return True

    def unlisten(self, callback: Callable[[], object]) -> None:
        """Call *callback* no more."""
        if self.listeners is not None and callback in self.listeners:
            self.listeners.remove(callback)

    def kept(self) -> bool:
        """Return whether it is held, or lost and not released."""
        return bool(self.entries) and self.over is not ENDED

    def give_up_parts(self) -> None:
        """End its parts; no I/O, and repeatable."""

    def latest(self) -> Hold:
        """Return the hold that has taken its place after waits for conditions, or itself."""
        newest: list[Hold] | None = getattr(self, "newest", None)
        return self if newest is None else newest[0]

    def succeed(self, former: Hold, entries: list[object]) -> None:
        """Take the place of *former*, which had the *entries*: who ends one of them ends it here."""
        # Shared by all: who keeps the first of a thousand does not keep those in between.
        newest: list[Hold] = getattr(former, "newest", [])
        self.newest = former.newest = newest
        newest[:] = (self,)
        self.line, self.listeners = former.line, former.listeners
        self.entries = [OPEN, *entries]
        for entry in entries:
            if isinstance(entry, Claim):
                entry.hold = self

    def release(self, entry: object = None) -> Release:
        """Return the step that ends *entry*, or the last one."""
        step: Release = self.lock.releasing().of(self, entry)
        return step

    def extend(self, lease: float) -> Extend:
        """Return the step that keeps it for at least *lease* seconds from now."""
        step: Extend = self.lock.extending(self, lease)
        return step


def is_ours(line: Line) -> bool:
    """Return whether *line* is of this package, or of Python's library: so no user knows it.

    A pool's thread calls `acquire` itself where that is its whole job.
    """
    filename = line[0].co_filename
    library = filename.startswith(_LIBRARY) and "site-packages" not in filename
    return library or filename.startswith(_PACKAGE)


def number_of(line: Line) -> int:
    """Return the number that a user knows *line* by."""
    code, instruction = line
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            return number
    return code.co_firstlineno
