"""Which locks this client holds, how deep, until when, and what became of them: passive, `now` is an argument.

Rules:

* A hold is in the table before the server can grant it, so that an interruption anywhere finds it.
* Reentrancy is decided from this table, never from what is found on the server.
* PENDING -> HELD -> ENDING -> ENDED is the owner's path; LOST can be entered from HELD and ENDING only, and is final. The
  watchdog touches a hold only while it is HELD, so an answer about a hold that was meanwhile released says nothing.
* ``valid_until`` is the time of *sending* the last acknowledged acquire or renewal, plus the lease, less what clocks may
  drift. Until then nobody else can hold the lock; after it, nobody may believe in the hold.
* A number whose release was sent and not answered is not used again for a new hold: that release may still arrive.
"""

from __future__ import annotations

import itertools
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interlock._core.confirmation import Confirmation
    from interlock._core.effects import Eval, Op
    from interlock._core.session import Session
    from interlock._core.watchdog import Renewal
    from interlock.errors import LossReason

DRIFT = 0.001
"""The bound on the difference between two clocks' rates; 500 ppm each way is a bad quartz."""
SLACK = 0.002
"""Seconds: the granularity of the server's expiry."""

_numbers = itertools.count(1)


class Owner:
    """Who may re-enter and release: a thread, a task, or whatever ``owner=`` names.

    Attributes:
        identity: tells owners of this process apart.
        number: the second half of the holder id; drawn from a process-wide counter, never used for another owner.
        label: what to call the owner in messages.
        shared: whether others may come and release under the same name when those who have used it are gone.
        known_as: a client's id, a number, and as whom that client lets this owner hold by that number; None until it comes again.
    """

    shared = False
    __slots__ = ("__weakref__", "_gone", "identity", "known_as", "label", "number")

    def __init__(self, label: str, gone: Callable[[], bool] | None = None) -> None:
        self.identity = self.number = next(_numbers)
        self.label = label
        self.known_as: tuple[str, int, str] | None = None
        self._gone = gone

    def renumber(self) -> None:
        """Draw another number for holds to come."""
        self.number = next(_numbers)

    def gone(self) -> bool:
        """Return whether the thread or task has ended."""
        return self._gone is not None and self._gone()

    def reference(self) -> Callable[[], Owner | None]:
        """Return what a hold refers to its owner by: a thread or task is not kept alive by what it holds."""
        return weakref.ref(self)


class State:
    """Where a hold is in its life; plain strings, because the hot path looks at them often."""

    PENDING: Final = "pending"
    HELD: Final = "held"
    ENDING: Final = "ending"
    ENDED: Final = "ended"
    LOST: Final = "lost"


def valid_until(sent_at: float, lease: float) -> float:
    """Return until when nobody else can hold what the server acknowledged for *lease* seconds when asked at *sent_at*."""
    return sent_at + lease * (1 - DRIFT) - SLACK


class Recipe(Protocol):
    """What a hold must know of the lock it is of."""

    kind: str
    name: str
    key: str
    hold_key: object
    renewal: Renewal
    session: Session
    hands_over: bool

    def release_hold(self, hold: Hold) -> Op[None]:
        """Go down by one depth in *hold*."""
        ...

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes *hold* down to *depth*."""
        ...


class Possession(Protocol):
    """What the faces ask of a hold, of one lock or of several (`joint_hold`)."""

    holder: str
    label: str

    @property
    def name(self) -> str: ...
    @property
    def token(self) -> int | None: ...
    @property
    def replicas(self) -> int | None: ...
    @property
    def depth(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> LossReason | None: ...
    @property
    def valid_until(self) -> float: ...
    def valid(self, now: float) -> bool: ...
    def lost(self, now: float) -> bool: ...
    def expiry_reason(self) -> LossReason: ...
    def listen(self, callback: Callable[[], object]) -> bool: ...
    def unlisten(self, callback: Callable[[], object]) -> None: ...
    def kept(self) -> bool: ...
    def release(self) -> Op[None]: ...


class Hold:
    """One owner's possession of one name.

    Attributes:
        recipe: the lock.
        holder: the hash field, ``"<client id>:<number>"``.
        owner: returns who holds, as long as it lives.
        depth: how often it was entered.
        lease: seconds of one renewal, or of the whole hold.
        renewal: how it is kept alive; None when it ends with its lease.
        renew_at: when the watchdog is to renew it.
        valid_until: see the rules above.
        token: the fencing token, or None.
        confirmation: what replicas were asked about it; None when they were not.
        unsettled: True when a command for this hold may have run although no reply was read.
        strays: how many tries to get it were given up although they were sent: each may be executed yet, whatever became of the hold.
        offered: True when such a command may have been somebody else's, who released and offered the lock.
        handle: for a hold that lives and dies with what the user was given: a weak reference to that.
    """

    __slots__ = (
        "_listeners", "confirmation", "depth", "handle", "holder", "label", "lease", "offered", "owner", "reason", "recipe",
        "renew_at", "renewal", "state", "strays", "table_key", "token", "unsettled", "valid_until",
    )  # fmt: skip

    def __init__(self, recipe: Recipe, owner: Owner, holder: str, lease: float) -> None:
        self.recipe = recipe
        self.table_key = (recipe.hold_key, owner.identity)
        self.holder = holder
        self.owner = owner.reference()
        self.label = owner.label
        self.depth = 0
        self.lease = lease
        self.renewal: Renewal | None = None
        self.renew_at = 0.0
        self.valid_until = 0.0
        self.state: str = State.PENDING
        self.reason: LossReason | None = None
        self.token: int | None = None
        self.confirmation: Confirmation | None = None
        self.strays = 0
        self.unsettled = self.offered = False
        self.handle: weakref.ref[object] | None = None
        self._listeners: list[Callable[[], object]] | None = None

    def __repr__(self) -> str:
        return f"<Hold {self.name!r} {self.state} depth={self.depth} holder={self.holder}>"

    @property
    def key(self) -> str:
        """Return the lock's key."""
        return self.recipe.key

    @property
    def name(self) -> str:
        """Return what the user calls it."""
        return self.recipe.name

    @property
    def replicas(self) -> int | None:
        """Return how many replicas had it when it was acquired; None when they were not asked."""
        return None if self.confirmation is None else self.confirmation.acknowledged

    def extend_validity(self, sent_at: float, lease: float) -> None:
        """Note that the server acknowledged *lease* seconds for a command sent at *sent_at*."""
        self.valid_until = max(self.valid_until, valid_until(sent_at, lease))

    def valid(self, now: float) -> bool:
        """Return whether nobody else can hold the lock at *now*."""
        return self.state is State.HELD and now < self.valid_until

    def lost(self, now: float) -> bool:
        """Return whether the hold ended without being released."""
        if self.state is State.LOST:
            return True
        return self.state in (State.HELD, State.ENDING) and now >= self.valid_until

    def expiry_reason(self) -> LossReason:
        """Return why a hold is lost whose validity ended by the clock."""
        return "unreachable past validity" if self.renewal is not None else "expired"

    def abandoned(self) -> bool:
        """Return whether nobody is left who could release it."""
        if self.handle is not None and self.handle() is None:
            return True
        owner = self.owner()
        return owner is None or owner.gone()

    def kept(self) -> bool:
        """Return whether its owner has not released it yet, be it lost or not."""
        return self in self.recipe.session.holds

    def release(self) -> Op[None]:
        """Go down by one depth; free the lock at 0."""
        return self.recipe.release_hold(self)

    def lose(self, reason: LossReason) -> list[Callable[[], object]]:
        """Enter LOST; return whom to tell (nobody when it is not held any more)."""
        if self.state not in (State.HELD, State.ENDING):
            return []
        self.reason = reason
        self.state = State.LOST
        listeners, self._listeners = self._listeners, None
        return listeners or []

    def listen(self, callback: Callable[[], object]) -> bool:
        """Have *callback* told of a loss; False when it is lost already (and the caller must tell it)."""
        if self._listeners is None:
            self._listeners = []
        listeners = self._listeners
        listeners.append(callback)
        if self.state is not State.LOST:
            return True
        # The loss may have come in between: whoever can take the callback out is the one to call it.
        try:
            listeners.remove(callback)
        except ValueError:
            return True
        return False

    def unlisten(self, callback: Callable[[], object]) -> None:
        """Have *callback* told no more of a loss."""
        with suppress(ValueError, AttributeError):  # it was told, or is just being told
            self._listeners.remove(callback)  # type: ignore[union-attr]


class Holds:
    """The table of one client's holds.

    Attributes:
        table: by key and owner.
    """

    def __init__(self) -> None:
        self.table: dict[tuple[object, int], Hold] = {}

    def get(self, key: object, owner: Owner) -> Hold | None:
        """Return *owner*'s hold of *key*, in whatever state; locks of two sides have a key for each."""
        return self.table.get((key, owner.identity))

    def begin(self, hold: Hold) -> None:
        """Enter *hold* before anything is sent for it."""
        self.table[hold.table_key] = hold

    def end(self, hold: Hold) -> None:
        """Forget *hold*; a later one of the same owner stays."""
        if hold.state is not State.LOST:
            hold.state = State.ENDED
        # Others may be ending it at the same time: a client that closes, the watchdog. No call, so that no thread comes in between.
        try:
            if self.table[hold.table_key] is hold:
                del self.table[hold.table_key]
        except KeyError:
            return

    def of_key(self, key: str) -> list[Hold]:
        """Return all of this client's holds of *key*."""
        return [hold for hold in self.snapshot() if hold.key == key]

    def snapshot(self) -> list[Hold]:
        """Return all holds; one step, so that other threads may come and go meanwhile."""
        return list(self.table.values())

    def __iter__(self) -> Iterator[Hold]:
        return iter(self.snapshot())

    def __contains__(self, hold: Hold) -> bool:
        return self.table.get(hold.table_key) is hold

    def __len__(self) -> int:
        return len(self.table)
