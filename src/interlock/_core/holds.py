"""The holds of one client and their states: passive, `now` is an argument.

Rules:

* A hold is in the table before the server can grant it, so that an interruption anywhere finds
  it.
* Reentrancy is decided from this table, never from what is found on the server.
* Only this file changes a hold, but for `renew_at`, which the watchdog sets. The table
  `TRANSITIONS` says how its state may change; LOST and ENDED are final.
* The watchdog touches a hold only while it is HELD, so an answer about a hold that was meanwhile
  released says nothing.
* `Hold.late_grants` counts the commands that may still make it the holder, because no reply to
  them was read. Whatever ends the hold has the cleanup release it again and again until as many
  were found, or its lease would have ended it.
* ``valid_until`` is the time of *sending* the last acknowledged acquire or renewal, plus the
  lease, less what clocks may drift. Until then nobody else can hold the lock; after it, nobody
  may believe in the hold.
* A number whose release was sent and not answered is not used again for a new hold: that release
  may still arrive.

A number belongs to an owner, not to a hold. A number for each hold was tried. Its packed command
is a cached prefix, the number, and a cached rest. The pair then took 74,200 instructions in place
of 63,400 on a stub socket (callgrind, Python 3.11). So a new number is drawn only in doubt.
"""

from __future__ import annotations

import itertools
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from interlock._core.effects import NEVER, Client
from interlock.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock._core.effects import Eval, Step
    from interlock._core.replication import Replication
    from interlock.errors import InterlockError, LossReason
    from interlock.options import Options

DRIFT = 0.001
"""The bound on the difference between two clocks' rates; 500 ppm each way is a bad quartz."""
SLACK = 0.002
"""Seconds: the granularity of the server's expiry."""

_numbers = itertools.count(1)


class Owner:
    """Who may re-enter and release: a thread, a task, or whatever ``owner=`` names.

    Attributes:
        identity: tells owners of this process apart.
        number: the second half of the holder id; drawn from a process-wide counter, never used
            for another owner.
        label: what to call the owner in messages.
        shared: whether others may come and release under the same name when those who have used
            it are gone.
        known_as: a client's id, a number, and the holder id made of the two; None until it
            comes again.
        reference: what a hold knows its owner by: a weak reference, because a thread or task is
            not kept alive by what it holds.
    """

    shared = False
    __slots__ = ("__weakref__", "_gone", "identity", "known_as", "label", "number", "reference")

    def __init__(self, label: str, gone: Callable[[], bool] | None = None) -> None:
        self.identity = self.number = next(_numbers)
        self.label = label
        self.known_as: tuple[str, int, str] | None = None
        self._gone = gone
        self.reference: Callable[[], Owner | None] = weakref.ref(self)

    def renumber(self) -> None:
        """Draw another number for holds to come."""
        self.number = next(_numbers)

    def gone(self) -> bool:
        """Return whether the thread or task has ended."""
        return self._gone is not None and self._gone()

    def may_await(self, pending: Hold) -> bool:
        """Return whether *pending*, which is being acquired for this owner, will end meanwhile.

        It will not if this very thread or task acquires it, and was interrupted by a signal.
        """
        del pending
        return False


class State:
    """Where a hold is in its life; plain strings, because the hot path looks at them often."""

    PENDING: Final = "pending"
    HELD: Final = "held"
    ENDING: Final = "ending"
    ENDED: Final = "ended"
    LOST: Final = "lost"


# The same, bound once: Python 3.11 looks an attribute of a class up anew each time.
PENDING: Final = State.PENDING
HELD: Final = State.HELD
ENDING: Final = State.ENDING
ENDED: Final = State.ENDED
LOST: Final = State.LOST

TRANSITIONS: Final = {
    # from            method            to
    (State.PENDING, "grant"): State.HELD,
    (State.PENDING, "end"): State.ENDED,
    (State.HELD, "begin_release"): State.ENDING,
    (State.HELD, "end"): State.ENDED,
    (State.HELD, "lose"): State.LOST,
    (State.ENDING, "take_back"): State.HELD,
    (State.ENDING, "end"): State.ENDED,
    (State.ENDING, "lose"): State.LOST,
}
"""Every change of a hold's state, for `Hold`'s methods of these names.

Any other pair leaves the state as it is. `Holds.released` makes the change of `end`, inline.
"""


def valid_until(sent_at: float, lease: float) -> float:
    """Return the end of *lease* seconds that the server granted to a command of *sent_at*."""
    return sent_at + lease * (1 - DRIFT) - SLACK


class Renewal(Protocol):
    """How holds of one kind are kept alive, many at a time."""

    def __call__(
        self, keys: Sequence[str], lease: float, holders: Sequence[str], /, *, deadline: float
    ) -> Eval[list[bool]]:
        """Return the script that keeps *keys* for another *lease*, and tells which were kept."""
        ...


class HoldClient(Client, Protocol):
    """The client of a hold: its `Session`, as the hold sees it."""

    @property
    def holds(self) -> Holds:
        """Return its table."""
        ...

    @property
    def options(self) -> Options:
        """Return its options."""
        ...


class CoreLock(Protocol):
    """The lock of a hold, as the hold sees it."""

    kind: str
    name: str
    key: str
    hold_key: object
    renewal: Renewal

    @property
    def session(self) -> HoldClient:
        """Return its client."""
        ...

    def release_hold(self, hold: Hold) -> Step[None]:
        """Go down by one depth in *hold*."""
        ...

    def last_release(self, hold: Hold) -> Eval[int]:
        """Return the script that takes *hold* down from depth 1; not to be changed."""
        ...

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes *hold* down to *depth*."""
        ...


class Possession(Protocol):
    """A hold as the faces see it: of one lock, of several (`composite`) or none (`no_hold`)."""

    label: str

    @property
    def holder(self) -> str | None: ...
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
    def detail(self) -> str: ...
    @property
    def valid_until(self) -> float: ...
    def valid(self, now: float) -> bool: ...
    def lost(self, now: float) -> bool: ...
    def expiry_reason(self) -> LossReason: ...
    def listen(self, callback: Callable[[], object]) -> bool: ...
    def unlisten(self, callback: Callable[[], object]) -> None: ...
    def kept(self) -> bool: ...
    def leaving(self) -> bool: ...
    def own(self) -> None: ...
    def hand(self, handle: Callable[[], object], *, alone: bool = True) -> None: ...
    def latest(self) -> Possession: ...
    def release(self) -> Step[None]: ...


class Hold:
    """One owner's possession of one name.

    Attributes:
        core: the lock.
        holder: the hash field, ``"<client id>:<number>"``.
        owner: returns who holds, as long as it lives.
        depth: how often it was entered.
        lease: seconds of one renewal, or of the whole hold.
        renewal: how it is kept alive; None when it ends with its lease.
        renew_at: when the watchdog is to renew it; the watchdog's own.
        valid_until: see the rules above.
        cut_at: when the server was last asked to end it sooner.
        token: the fencing token, or None.
        replication: what replicas were asked about it; None when they were not.
        since: when it was granted, on the session's clock.
        unanswered: how many tries to get it were sent without a reply being read. Each may be
            executed yet.
        offered: whether somebody who releases may make it the holder; set and reset under the
            mutex of `waiters`.
        queued: whether it may have a place in the server's queue (fair locks).
        handles: weak references to what its owner was given for single entries: blocks, holds.
            While one lives it is renewed.
        owned: whether its owner may release it without any of them.
        line: one list for all holds that followed one another; it has the newest. Unset for most.
    """

    __slots__ = (
        "_detail", "_listeners", "core", "cut_at", "depth", "handles", "holder", "label", "lease",
        "line", "offered",
        "owned", "owner", "queued", "reason", "renew_at", "renewal", "replication", "since",
        "state", "table_key", "token", "unanswered", "valid_until",
    )  # fmt: skip
    line: list[Hold]

    def __init__(
        self,
        core: CoreLock,
        owner: Owner,
        holder: str,
        lease: float,
        renewal: Renewal | None = None,
    ) -> None:
        self.core = core
        self.table_key = (core.hold_key, owner.identity)
        self.holder = holder
        self.owner = owner.reference
        self.label = owner.label
        self.depth = 0
        self.lease = lease
        self.renewal = renewal
        self.renew_at = 0.0
        self.since = 0.0
        self.valid_until = 0.0
        self.cut_at = 0.0
        self.state: str = PENDING
        self.reason: LossReason | None = None
        self.token: int | None = None
        self.replication: Replication | None = None
        self.unanswered = 0
        self.offered = self.queued = False
        self.handles: tuple[Callable[[], object], ...] = ()
        self.owned = True
        self._listeners: list[Callable[[], object]] | None = None

    def __repr__(self) -> str:
        return f"<Hold {self.name!r} {self.state} depth={self.depth} holder={self.holder}>"

    # Being acquired.

    def sent(self) -> None:
        """Note that a try to get it is sent."""
        self.unanswered += 1

    def uncount_try(self) -> None:
        """Note that a try was refused, or never sent."""
        self.unanswered -= 1

    def failed(self, error: InterlockError) -> None:
        """Note that a try ended by *error*; what was not sent, or refused, will not be executed."""
        if not isinstance(error, ClosedError) and not error.sent:
            self.unanswered -= 1

    def late_grants(self) -> int:
        """Return how many commands may still make it the holder, whatever becomes of it."""
        return self.unanswered + self.offered + self.queued

    def settled(self) -> bool:
        """Return whether an acquire of it that ends by an error has nothing left to undo."""
        if self.state is ENDED:
            return not (self.depth or self.late_grants())
        return self.state is not PENDING and self.state is not HELD

    def entered_again(self) -> bool:
        """Return whether it was entered once more since it was acquired."""
        return self.state is HELD and self.depth > 1

    def offer(self) -> None:
        """Note that another holder, which releases, may make it the holder."""
        self.offered = True

    def queue(self) -> None:
        """Note that it has a place in the server's queue."""
        self.queued = True

    def grant(self, token: int | None, sent_at: float, now: float) -> bool:
        """Take what the server granted to a try that was sent at *sent_at*.

        Return whether it is held at *now*.

        It is not if the client was closed meanwhile, or if the lease may be over: then it is the
        server's until it is given back.
        """
        self.unanswered -= 1
        if self.state is not PENDING:
            return False
        self.depth = 1
        self.offered = self.queued = False
        self.token = token
        # `valid_until` written out: this is every acquire's.
        until = self.valid_until = sent_at + self.lease * (1 - DRIFT) - SLACK
        if now >= until:
            return False
        self.state = HELD
        self.since = now
        return True

    def refuse_grant(self) -> None:
        """Note that the server made it the holder, and that this cannot be made use of."""
        self.depth = 1

    def gave_back(self) -> None:
        """Note that the server has neither it nor a place for it, and that no known command changes that."""
        self.depth = self.unanswered = 0
        self.offered = self.queued = False

    def rename(self, holder: str) -> None:
        """Be known to the server as *holder* from now on, of which nothing was sent yet.

        Late commands do not meet it.
        """
        self.holder = holder
        self.gave_back()

    def ask_replicas(self, replication: Replication) -> None:
        """Note that replicas are asked about it."""
        self.replication = replication

    # Being held.

    def enter(self) -> int | None:
        """Go one deeper; return how deep it is, or None if it is not held any more.

        Makes no call, so that no thread releases it between the look and the entry.
        """
        if self.state is not HELD:
            return None
        depth = self.depth = self.depth + 1
        return depth

    def leave(self) -> int:
        """Go one less deep while it stays held; return how deep it is."""
        depth = self.depth = self.depth - 1
        return depth

    def end_renewal(self) -> None:
        """Be renewed no more; it ends with its lease."""
        self.renewal = None

    def keep_renewed(self, renewal: Renewal) -> None:
        """Be renewed by *renewal* from now on."""
        self.renewal = renewal

    def own(self) -> None:
        """Allow the owner to release it, even if all that the user was given is gone."""
        self.owned = True

    def extend_validity(self, sent_at: float, lease: float) -> None:
        """Note that the server acknowledged *lease* seconds for a command sent at *sent_at*.

        A command that was sent before the lease was cut short says nothing.
        The server may have executed it first.
        """
        if sent_at >= self.cut_at:
            self.valid_until = max(self.valid_until, valid_until(sent_at, lease))

    def ask_lease(self, sent_at: float, lease: float) -> None:
        """Note that at *sent_at* the server is asked to end it after *lease* seconds.

        Until it answers, the earlier end counts.
        """
        self.cut_at = sent_at
        self.valid_until = min(self.valid_until, valid_until(sent_at, lease))

    def set_lease(self, sent_at: float, lease: float) -> None:
        """Note that it ends *lease* seconds after *sent_at*."""
        self.lease = lease
        self.extend_validity(sent_at, lease)

    # Its end.

    def take_back(self) -> None:
        """Be held again, after a release or hand-over that did not come about."""
        if self.state is ENDING:
            self.state = HELD

    def begin_release(self, now: float = -NEVER) -> tuple[int, bool] | None:
        """Go one less deep; at the last depth enter ENDING, in which it is not renewed.

        Makes no call once it has looked, so that of two threads that release it each goes down by
        one.

        Returns:
            The depth to reach, and whether no release to it was begun before; None if it is lost
            at *now*, or not held.
        """
        if (self.state is not HELD or now >= self.valid_until) and self.lost(now):
            return None
        state = self.state
        if state is PENDING or state is ENDED:
            return None
        if self.depth > 1:
            self.depth -= 1
            return self.depth, True
        first = state is HELD
        if first:
            self.state = ENDING
        return 0, first

    def released(self) -> None:
        """Note that the server has it no more."""
        self.depth = 0

    def end(self) -> None:
        """Be over."""
        if self.state is not LOST:
            self.state = ENDED

    def lose(self, reason: LossReason) -> list[Callable[[], object]]:
        """Enter LOST; return whom to tell (nobody when it is not held any more)."""
        if self.state not in (HELD, ENDING):
            return []
        self.reason = reason
        if self.state is ENDING:
            self.depth = 0
        self.state = LOST
        listeners, self._listeners = self._listeners, None
        return listeners or []

    def found(self, depth: int) -> None:
        """Stand for what the server has of another client's hold, to be released by force."""
        self.depth = depth

    def keep_holder_unique(self) -> bool:
        """Give later holds of the owner another number. Return whether this one is still held.

        From then on the holder id names this hold alone. That is tested last: a hold that begins
        after the end of this one may have drawn the old number before.
        """
        owner = self.owner()
        if owner is not None and self.holder.removesuffix(":write").endswith(f":{owner.number}"):
            owner.renumber()
        return self.state is HELD

    def explain(self, detail: str) -> None:
        """Note what the operator said who released it by force."""
        self._detail = detail

    def listen(self, callback: Callable[[], object]) -> bool:
        """Tell *callback* of a loss.

        False when it is lost already (and the caller must tell it).
        """
        if self._listeners is None:
            self._listeners = []
        listeners = self._listeners
        listeners.append(callback)
        if self.state is not LOST:
            return True
        # The loss may have come in between. The thread that takes the callback out is the one to call
        # it.
        try:
            listeners.remove(callback)
        except ValueError:
            return True
        return False

    def unlisten(self, callback: Callable[[], object]) -> None:
        """Tell *callback* no more of a loss."""
        with suppress(ValueError, AttributeError):  # it was told, or is just being told
            self._listeners.remove(callback)  # type: ignore[union-attr]

    def hand_on(self, successor: Hold) -> None:
        """Hand its handles and its listeners on to the next hold of its owner."""
        if successor is self:
            return
        # Who has the first of a thousand holds does not keep those in between.
        self.line = successor.line = getattr(self, "line", None) or []
        self.line[:] = (successor,)
        self.share(successor, self.listeners())

    def share(self, other: Hold, listeners: Iterable[Callable[[], object]]) -> None:
        """Give its handles to *other*, too, and let *listeners* hear of a loss of *other*."""
        other.handles, other.owned = self.handles, self.owned
        for listener in listeners:
            if not other.listen(listener):
                listener()

    def listeners(self) -> tuple[Callable[[], object], ...]:
        """Return who is told of a loss."""
        return tuple(self._listeners or ())

    def latest(self) -> Hold:
        """Return the hold that has taken its place, or itself."""
        line: list[Hold] = getattr(self, "line", [])
        return line[0] if line else self

    # What it is.

    @property
    def key(self) -> str:
        """Return the lock's key."""
        return self.core.key

    @property
    def name(self) -> str:
        """Return what the user calls it."""
        return self.core.name

    @property
    def detail(self) -> str:
        """Return why it was released by force, if an operator told that; else an empty text."""
        # Most holds have none: the slot is empty.
        return getattr(self, "_detail", "")

    @property
    def replicas(self) -> int | None:
        """Return how many replicas had it when it was acquired; None when they were not asked."""
        return None if self.replication is None else self.replication.acknowledged

    def valid(self, now: float) -> bool:
        """Return whether nobody else can hold the lock at *now*."""
        return self.state is HELD and now < self.valid_until

    def lost(self, now: float) -> bool:
        """Return whether the hold ended without being released."""
        if self.state is LOST:
            return True
        return self.state in (HELD, ENDING) and now >= self.valid_until

    def expiry_reason(self) -> LossReason:
        """Return why a hold is lost whose validity ended by the clock.

        A renewal without an answer is tried again soon, until the end. If no try was due near the
        end, there was none: the process was paused, or too busy.
        """
        tried = self.renew_at > self.valid_until - self.lease / 3
        return "unreachable past validity" if self.renewal is not None and tried else "expired"

    def abandoned(self) -> bool:
        """Return whether nobody is left who could release it."""
        for handle in self.handles:
            if handle() is not None:
                return False
        owner = self.owner()
        return not self.owned or owner is None or owner.gone()

    def hand(self, handle: Callable[[], object], *, alone: bool = True) -> None:
        """Keep it as long as what *handle* refers to, which was given for the newest entry.

        Args:
            handle: a weak reference to what releases that entry, in any thread or task.
            alone: nothing else releases that entry. If there is no other entry, the hold is
                abandoned when *handle* is dead, though its owner lives.
        """
        if alone and self.depth == 1:
            self.handles, self.owned = (handle,), False
        else:
            living = [former for former in self.handles if former() is not None]
            self.handles = (*living, handle)

    def inside(self) -> bool:
        """Return whether somebody may go on believing in it.

        It was neither released nor abandoned.
        """
        return not self.leaving() and not self.abandoned()

    def leaving(self) -> bool:
        """Return whether its last release has begun; that release raises, if the hold is lost."""
        return self.depth == 0 or self.state is ENDING

    def ran_out(self) -> bool:
        """Return whether it ended with the lease that its owner chose, outside of any block.

        Then nobody needs to release it. A rate limit is a lock of this kind.
        """
        expired = (self.reason or self.expiry_reason()) == "expired" and self.renewal is None
        return expired and all(handle() is None for handle in self.handles)

    def kept(self) -> bool:
        """Return whether its owner has not released it yet, be it lost or not."""
        return self in self.core.session.holds

    def release(self) -> Step[None]:
        """Go down by one depth; free the lock at 0."""
        return self.core.release_hold(self)


class Permit(Hold):
    """Permits that were acquired together, and end together.

    Their lease may be cut short while a renewal is under way, whose answer then speaks of a
    longer one: so what is believed is the shorter of the two.

    Attributes:
        ids: what the server knows them by, 32 hex digits each.
        ends_at: when a lease of their own ends, whatever a renewal says; never while they are
            renewed.
    """

    __slots__ = ("ends_at", "ids")

    def __init__(
        self,
        core: CoreLock,
        owner: Owner,
        ids: tuple[str, ...],
        lease: float,
        renewal: Renewal | None = None,
    ) -> None:
        super().__init__(core, owner, "", lease, renewal)
        self.identify(ids)
        self.ends_at = NEVER

    def identify(self, ids: tuple[str, ...]) -> None:
        """Be known to the server by *ids* from now on, of which nothing was sent yet."""
        self.ids = ids
        self.rename("".join(ids))

    def ask_to_end(self, ends_at: float, *, renewed: bool) -> None:
        """Note that the server is asked to end them at *ends_at*.

        Until it answers, the earlier end counts.
        """
        self.ends_at = min(self.ends_at, ends_at)
        if not renewed:
            self.renewal = None

    def end_at(self, ends_at: float, lease: float, renewal: Renewal | None) -> None:
        """Note that the server has them until *ends_at*, and whether they are renewed now."""
        self.lease = lease
        self.valid_until = ends_at
        self.renewal = renewal
        self.ends_at = NEVER if renewal is not None else ends_at

    def begin_release(self, now: float = -NEVER) -> tuple[int, bool] | None:
        """Begin to give them back; see `Hold.begin_release`."""
        return None if now >= self.ends_at and self.lost(now) else super().begin_release(now)

    def valid(self, now: float) -> bool:
        """Return whether nobody else can have the permits at *now*."""
        return now < self.ends_at and super().valid(now)

    def lost(self, now: float) -> bool:
        """Return whether they ended without being released."""
        over = now >= self.ends_at and self.state in (HELD, ENDING)
        return over or super().lost(now)


class HoldObserver(Protocol):
    """What is told of each use of a lock (`observing`)."""

    def acquired(self, hold: Hold, sent_at: float) -> None: ...
    def released(self, hold: Hold) -> None: ...


class Holds:
    """The table of one client's holds.

    Attributes:
        table: by key and owner.
        observer: is told of each hold that is acquired or released; None if nobody wants that.
    """

    def __init__(self) -> None:
        self.observer: HoldObserver | None = None
        self.table: dict[tuple[object, int], Hold] = {}

    def get(self, key: object, owner: Owner) -> Hold | None:
        """Return *owner*'s hold of *key*, in whatever state.

        Locks of two sides have a key for each.
        """
        return self.table.get((key, owner.identity))

    def reserve(self, hold: Hold, former: Hold | None = None) -> Hold:
        """Enter *hold* before the first try to get it is sent, and count that.

        Args:
            hold: PENDING.
            former: what it may replace: a hold of the same owner that is over.

        Returns:
            *hold*, or what another thread of the same owner has entered meanwhile.
        """
        found = self.table.setdefault(hold.table_key, hold)
        if former is not None and found is former:
            self._forget(former)
            found = self.table.setdefault(hold.table_key, hold)
        # Not before: a hold that came too late has sent nothing, and must undo nothing.
        if found is hold:
            hold.unanswered = 1
        return found

    def begin(self, hold: Hold) -> None:
        """Enter *hold* before anything is sent for it."""
        self.table[hold.table_key] = hold

    def end(self, hold: Hold) -> None:
        """Forget *hold*; a later one of the same owner stays."""
        # In this order: a Ctrl-C may strike in between, and then it is done once more.
        self._forget(hold)
        hold.end()

    def released(self, hold: Hold) -> None:
        """Forget *hold*, which the server has no more."""
        hold.depth = 0
        if hold.state is not LOST:
            if self.observer is not None and hold.state is not ENDED:
                self.observer.released(hold)
            hold.state = ENDED
        # `_forget` written out: this is every release's.
        try:
            if self.table[hold.table_key] is hold:
                del self.table[hold.table_key]
        except KeyError:
            return

    def _forget(self, hold: Hold) -> None:
        # Others may be ending it at the same time: a client that closes, the watchdog. No call,
        # so that no thread comes in between.
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
