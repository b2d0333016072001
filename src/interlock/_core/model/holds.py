"""The holds of one client and their states: passive, `now` is an argument.

Rules:

* A hold is in the table before the server can grant it, so that an interruption anywhere finds
  it.
* Reentrancy is decided from this table, never from what is found on the server.
* Only this file changes a hold. The one exception is `renew_at`, which the watchdog sets. The table
  `TRANSITIONS` says how its state may change; LOST and ENDED are final.
* The watchdog renews a hold only while it is HELD. If the hold was released meanwhile, the answer
  that the server has lost it means nothing.
* `Hold.late_grants` counts the commands that may still make it the holder, because no reply to
  them was read. When the hold ends, the cleanup repeats its release. It stops when it has found as
  many grants, or when the lease would have ended them.
* ``valid_until`` is the time when the last acknowledged acquire or renewal was *sent*, plus the
  lease, less the drift of clocks. Until then nobody else can hold the lock. After that, nobody may
  rely on the hold.
* If a release was sent and not answered, its number is not used for a new hold: that release may
  still arrive.

A number belongs to an owner, not to a hold. A number for each hold was tried. The packed command
was then a cached prefix, the number, and a cached rest. An acquire and its release took 74,200
instructions in place of 63,400 on a stub socket (callgrind, Python 3.11). So an owner draws a new
number only if an old command may still be under way.
"""

from __future__ import annotations

import itertools
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from interlock._core.model.effects import NEVER, Client
from interlock.errors import ClosedError
from interlock.options import MIN_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock._core.model.effects import Eval, Step
    from interlock._core.model.replication import Replication
    from interlock.errors import InterlockError, LossReason
    from interlock.options import Options

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

ID_DIGITS = 32
"""Hex digits in the id of a permit."""
CLAIM = 0.25
"""Seconds for which a release keeps a lock for the next client, which may start with this alone."""

numbers = itertools.count(1)
"""The numbers of the next owners."""


class Owner:
    """Who may re-enter and release: a flow of a thread, or a task.

    Attributes:
        identity: tells owners of this process apart.
        number: the second half of the holder id; drawn from a process-wide counter, never used
            for another owner.
        label: what to call the owner in messages.
        known_as: a client's id, a number, and the holder id made of the two, as a cache. None
            before the first acquire, a placeholder until the second.
        reference: a weak reference, which a hold has in place of its owner: a hold must not keep a
            thread or task alive.
        holds: what it has; None if nobody asks.
        in_job: whether it stands for a job or task, which ends before its thread.
        alone_in: the identifier of the thread whose only owner it is; else 0. A wait of others may be
            in vain.
    """

    holds: set[Hold] | None = None
    in_job = False
    alone_in = 0
    __slots__ = ("__weakref__", "_ended", "identity", "known_as", "label", "number", "reference")

    def __init__(self, label: str, ended: Callable[[], bool] | None = None) -> None:
        self.identity = self.number = next(numbers)
        self.label = label
        self.known_as: tuple[str, int, str] | None = None
        self._ended = ended
        self.reference: Callable[[], Owner | None] = weakref.ref(self)

    def renumber(self) -> int:
        """Draw another number for later holds; return it."""
        number = self.number = next(numbers)
        return number

    def ended(self) -> bool:
        """Return whether the thread or task has ended."""
        return self._ended is not None and self._ended()

    def lets_caller_release(self) -> bool:
        """Return whether the caller, who is another owner, may release what it has by hand."""
        return False

    def place_of_call(self) -> str:
        """Return the line of the user's that called; empty if nobody knows."""
        return ""

    def refuse_vain_wait(self, lock: Any, deadline: float) -> None:
        """Raise ReentryError if only this thread could end a wait for *lock* until *deadline*."""


# The states of a hold: plain strings, because the hot path looks at them often.
PENDING: Final = "pending"
HELD: Final = "held"
ENDING: Final = "ending"
ENDED: Final = "ended"
LOST: Final = "lost"

TRANSITIONS: Final = {
    # from            method            to
    (PENDING, "grant"): HELD,
    (PENDING, "start"): HELD,
    (PENDING, "end"): ENDED,
    (HELD, "begin_release"): ENDING,
    (HELD, "end"): ENDED,
    (HELD, "lose"): LOST,
    (ENDING, "take_back"): HELD,
    (ENDING, "end"): ENDED,
    (ENDING, "lose"): LOST,
}
"""Every change of a hold's state: the state before, the method of `Hold`, the state after.

Any other pair leaves the state as it is. `Holds.released` makes the change of `end`, inline.
"""


def valid_until(sent_at: float, lease: float) -> float:
    """Return the end of the *lease* seconds granted to a command that was sent at *sent_at*."""
    return sent_at + lease * (1 - DRIFT) - SLACK


def lease_until(until: float, now: float) -> float:
    """Return the lease that makes a hold valid until *until*, set by a command sent at *now*."""
    return (until - now + SLACK) / (1 - DRIFT)


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
    def holds(self) -> Holds: ...
    @property
    def options(self) -> Options: ...
    @property
    def took_over(self) -> Callable[[str], float]:
        """Return the function that tells how long ago another server took over a key."""
        ...


class CoreLock(Protocol):
    """The lock of a hold, as the hold sees it; `Holdable` says what its methods do."""

    kind: str
    name: str
    key: str
    hold_key: object
    renewal: Renewal

    @property
    def session(self) -> HoldClient: ...
    @property
    def looked_at(self) -> object:
        """Return what to look at if a release tells another client that it is next, or None."""
        ...

    def release_hold(self, hold: Hold) -> Step[None]: ...
    def extend_hold(self, hold: Hold, lease: float) -> Step[None]: ...
    def kept_release(self, hold: Hold, depth: int) -> Eval[int]: ...
    def release_script(self, hold: Hold, depth: int) -> Eval[int]: ...


class AnyHold(Protocol):
    """A hold as the faces see it: of one lock, of several (`composite`) or none (`no_hold`)."""

    label: str

    @property
    def holder(self) -> str | None: ...
    @property
    def name(self) -> str: ...
    @property
    def token(self) -> int | None: ...
    @property
    def token_source(self) -> str | None: ...
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
    def stay_with(self, keeper: Callable[[], object], place: str) -> None: ...
    def left_to(self, keeper: Callable[[], object]) -> bool: ...
    @property
    def owner(self) -> Callable[[], Owner | None]: ...
    def latest(self) -> AnyHold: ...
    def release(self) -> Step[None]: ...
    def extend(self, lease: float) -> Step[None]: ...


class HoldUsers:
    """Who uses a hold: its owner, the objects that the user got, and who is told of its loss.

    Attributes:
        owner: returns the owner, or None when it is gone.
        handles: weak references to the objects that the user got for single entries: blocks,
            holds. While one of these objects lives, the hold is renewed.
        owned: whether its owner may release it without any of these objects.
        place: the line that acquired it in a job of a pool. Unset for most holds.
    """

    __slots__ = ("_listeners", "handles", "label", "owned", "owner", "place")
    depth: int
    state: str
    owner: Callable[[], Owner | None]
    label: str
    handles: tuple[Callable[[], object], ...]
    owned: bool
    place: str
    _listeners: list[Callable[[], object]] | None

    def own(self) -> None:
        """Allow the owner to release it, even if all that the user was given is gone."""
        self.owned = True

    def disown(self) -> None:
        """Forget it if all that the user was given is gone, even if its owner lives."""
        self.owned = False

    def hand(self, handle: Callable[[], object], *, alone: bool = True) -> None:
        """Keep it while the object of *handle* lives, which the user got for the newest entry.

        Args:
            handle: a weak reference to the object that releases that entry, in any thread or task.
            alone: whether nothing else releases that entry. Then a hold without other entries is
                abandoned when the object of *handle* is gone, even if its owner lives.
        """
        if alone and self.depth == 1:
            self.handles, self.owned = (handle,), False
        else:
            living = [former for former in self.handles if former() is not None]
            self.handles = (*living, handle)

    def stay_with(self, keeper: Callable[[], object], place: str) -> None:
        """Keep it while the lock object of *keeper* lives, by which *place* has acquired it.

        The job of a pool that acquired it by hand may be over before it is released.
        """
        self.place = place
        if keeper not in self.handles:
            self.handles = (*self.handles, keeper)

    def left_to(self, keeper: Callable[[], object]) -> bool:
        """Return whether the caller may release it for who acquired it, by *keeper*'s object."""
        owner = self.owner()
        return keeper in self.handles if owner is None else owner.lets_caller_release()

    def belong_to(self, owner: Owner) -> None:
        """Renew it while *owner* lives, too; its key in the table stays."""
        self.owner, self.label = owner.reference, owner.label

    def abandoned(self) -> bool:
        """Return whether nobody is left to release it."""
        for handle in self.handles:
            if handle() is not None:
                return False
        owner = self.owner()
        return not self.owned or owner is None or owner.ended()

    def listen(self, callback: Callable[[], object]) -> bool:
        """Tell *callback* of a loss.

        Return False if it is lost already. Then the caller must tell *callback*.
        """
        if self._listeners is None:
            self._listeners = []
        listeners = self._listeners
        listeners.append(callback)
        if self.state is not LOST:
            return True
        # The loss may have come in between. The thread that takes the callback out calls it.
        try:
            listeners.remove(callback)
        except ValueError:
            return True
        return False

    def unlisten(self, callback: Callable[[], object]) -> None:
        """Stop telling *callback* of a loss."""
        with suppress(ValueError, AttributeError):  # it was told, or is being told just now
            self._listeners.remove(callback)  # type: ignore[union-attr]

    def share(self, other: Hold, listeners: Iterable[Callable[[], object]]) -> None:
        """Give its handles to *other*, too, and tell *listeners* of a loss of *other*."""
        other.handles, other.owned = self.handles, self.owned
        for listener in listeners:
            if not other.listen(listener):
                listener()

    def listeners(self) -> tuple[Callable[[], object], ...]:
        """Return the listeners that are told of a loss."""
        return tuple(self._listeners or ())


class HoldLease(HoldUsers):
    """The validity of a hold, and how it is kept alive.

    Attributes:
        core: the lock.
        lease: seconds of one renewal, or of the whole hold.
        renewal: how it is kept alive; None when it ends with its lease.
        renew_at: when the watchdog renews it next; only the watchdog sets this.
        valid_until: see the rules above.
        asked_by: 0 for most holds. A hold that began with a claim is not lost before this time:
            `NEVER` until somebody has asked whether the server keeps it.
        cuts: how many commands that may end it sooner are under way. Meanwhile nothing makes it
            valid for longer: another connection's renewal may be sent later and executed first.
        cut_at: when the last such command was answered; `NEVER` while one without an answer may
            still be executed. Then nothing makes it valid for longer either.
        recall: the script after which such a command does nothing. Unset for most holds.
        ends_at: when it ends although it is renewed. Unset for most holds.
    """

    __slots__ = (
        *("asked_by", "core", "cut_at", "cuts", "ends_at", "lease", "recall"),
        *("renew_at", "renewal", "valid_until"),
    )
    core: CoreLock
    lease: float
    renewal: Renewal | None
    renew_at: float
    valid_until: float
    asked_by: float
    cut_at: float
    cuts: int
    ends_at: float
    recall: Eval[object]

    def keep_renewed(self, renewal: Renewal) -> None:
        """Renew it by *renewal* from now on."""
        self.renewal = renewal

    def end_renewal(self) -> None:
        """Stop its renewal: it ends with its lease."""
        self.renewal = None

    def end_by(self, time: float) -> None:
        """End it at *time* although it is renewed; its present lease must not last longer."""
        self.ends_at = time

    def next_lease(self, lease: float, now: float) -> float:
        """Return the seconds of a renewal that is sent at *now*: *lease*, or less near its end."""
        ends_at = getattr(self, "ends_at", NEVER)
        return lease if ends_at - now >= lease else max(ends_at - now, MIN_LEASE)

    def extend_validity(self, sent_at: float, lease: float) -> None:
        """Note that the server acknowledged *lease* seconds for a command sent at *sent_at*.

        A command that was sent before a cut of the lease was answered does not count. The server
        may have executed it first. A hold that began with a claim is like any other from then on.
        """
        self.asked_by = 0.0
        if sent_at >= self.cut_at and not self.cuts:
            until = valid_until(sent_at, lease)
            if until > self.valid_until:  # noqa: PLR1730 - `max` takes as long as all the rest
                self.valid_until = until

    def ask_lease(self, sent_at: float, lease: float) -> None:
        """Note that at *sent_at* the server is asked to end it after *lease* seconds.

        Until the server answers, the earlier end counts. `doubt_lease` must follow, unless the hold
        is over.
        """
        self.cuts += 1
        self.valid_until = min(self.valid_until, valid_until(sent_at, lease))

    def doubt_lease(self, recall: Eval[object]) -> None:
        """Note that a command of `ask_lease` may be executed until *recall* is answered."""
        self.cut_at, self.recall = NEVER, recall
        self.cuts -= 1

    def end_doubt(self, now: float) -> None:
        """Note that no such command has an effect any more."""
        if self.cut_at == NEVER:
            self.cut_at = now

    def ask_until(self, until: float) -> None:
        """Note that the server is asked whether it keeps this hold, and should answer by *until*.

        Only the first call counts.
        """
        if self.asked_by == NEVER:
            self.asked_by = until

    def over_by(self, now: float) -> float:
        """Return when the server has ended it at the latest, if nothing renews it after *now*."""
        return now + self.lease if self.asked_by else self.valid_until

    def valid(self, now: float) -> bool:
        """Return whether nobody else can hold the lock at *now*."""
        return self.state is HELD and (now < self.valid_until or self._renewed_meanwhile(now))

    def lost(self, now: float) -> bool:
        """Return whether the hold ended without being released."""
        if self.state is LOST:
            return True
        # A release that has begun tells itself whether the server still had the hold.
        over = self.state is HELD and now >= self.valid_until
        return over and now >= self.asked_by and not self._renewed_meanwhile(now)

    def _renewed_meanwhile(self, now: float) -> bool:
        """Return whether a reply that nobody has read yet makes it valid at *now*."""
        self.core.session.holds.hear()
        return now < self.valid_until

    def expiry_reason(self) -> LossReason:
        """Return why the hold is lost, if its validity has run out.

        A renewal without an answer is tried again soon, until the end. If no try was due near the
        end, none was made: the process was paused, or too busy.
        """
        tried = self.renew_at > self.valid_until - self.lease / 3
        return "unreachable past validity" if self.renewal is not None and tried else "expired"

    def gone_reason(self, now: float) -> LossReason:
        """Return why the hold is lost, if the server does not have it at *now*."""
        return self.expiry_reason() if now >= self.valid_until else "server lost it"


class Hold(HoldLease):
    """One owner's possession of one name.

    Attributes:
        holder: the hash field, ``"<client id>:<number>"``.
        depth: how often it was entered.
        among: the holds of its owner, where it is while it is in the table; None if nobody asks.
        heard: when the last refused try was sent, and the server's time of the refusal in
            microseconds; None if it is not known.
        token: the fencing token, or None.
        replication: what replicas were asked about it; None if they were not asked.
        since: when it was granted, on the session's clock.
        unanswered: how many tries to get it were sent and no reply was read. The server may still
            execute each of them.
        offered: whether the release of another hold may make it the holder; set and reset under
            the mutex of `waiters`.
        queued: whether it may have a place in the server's queue (fair locks).
        placed: whether its client may stand in the queue in its name, to be given it by a release.
        newest: a list with the newest of holds that replaced each other. Unset for most holds.
    """

    __slots__ = (
        "_detail", "_token_source", "among", "depth", "heard", "holder", "newest", "offered",
        "placed", "queued", "reason", "replication", "since", "state", "table_key", "token",
        "unanswered",
    )  # fmt: skip
    newest: list[Hold]

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
        self.cut_at = self.asked_by = 0.0
        self.cuts = 0
        self.heard: tuple[float, int] | None = None
        self.state = PENDING
        self.reason: LossReason | None = None
        self.token: int | None = None
        self.replication: Replication | None = None
        self.unanswered = 0
        self.offered = self.queued = self.placed = False
        self.handles = ()
        self.owned = True
        self._listeners = None
        self.among = owner.holds

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
        """Note that a try ended with *error*; one that was refused or not sent is not executed."""
        if not isinstance(error, ClosedError) and not error.sent:
            self.unanswered -= 1

    def late_grants(self) -> int:
        """Return how many commands may still make it the holder, even after it has ended."""
        return self.unanswered + self.offered + self.queued

    def settled(self) -> bool:
        """Return whether nothing is left to undo if its acquire ends with an error."""
        if self.state is ENDED:
            return not (self.depth or self.late_grants())
        return self.state is not PENDING and self.state is not HELD

    def entered_again(self) -> bool:
        """Return whether it was entered once more since it was acquired."""
        return self.state is HELD and self.depth > 1

    def offer(self) -> None:
        """Note that the release of another hold may make it the holder."""
        self.offered = True

    def stand(self) -> None:
        """Note that its client may stand in the server's queue in its name."""
        self.placed = True

    def step_out(self) -> bool:
        """Note that its client gives up the place in its name; return whether it may have one."""
        placed, self.placed = self.placed, False
        return placed

    def queue(self) -> None:
        """Note that it has a place in the server's queue."""
        self.queued = True

    def grant(self, token: int | None, sent_at: float, now: float) -> bool:
        """Take the grant for a try that was sent at *sent_at*.

        Return whether it is held at *now*.

        It is not held if the client was closed meanwhile, or if the lease may be over. Then the
        server has the hold until it is given back.
        """
        self.unanswered -= 1
        if self.state is not PENDING:
            return False
        self.depth = 1
        self.offered = self.queued = self.placed = False
        self.token = token
        # `valid_until` inlined: every acquire runs this.
        until = self.valid_until = sent_at + self.lease * (1 - DRIFT) - SLACK
        if now >= until:
            return False
        self.state = HELD
        self.since = now
        return True

    def tell_source(self, source: str) -> None:
        """Note what keeps its token above all earlier ones."""
        self._token_source = source

    def refused(self, sent_at: float, at: int) -> None:
        """Note that the server refused a try at *at*, by its clock; it was sent at *sent_at*."""
        self.unanswered -= 1
        self.heard = sent_at, at

    def claim_end(self, at: int, now: float) -> float:
        """Return when the claim ends that a release gave it at *at*, or an earlier time.

        *at* is in microseconds by the server's clock. A claim from before the last refusal is over:
        then the result is 0. The server refused the try no earlier than it was sent. So the claim
        ends no earlier than this, however long its message took. A claim from the future shows that
        the server's clock was set, or that another server has taken over. It is not believed.
        """
        if self.state is not PENDING or self.heard is None:
            return 0.0
        sent_at, refused_at = self.heard
        passed = (at - refused_at) / 1e6
        begun = sent_at + passed * (1 - DRIFT)
        if passed <= 0 or begun > now:
            return 0.0
        return begun + CLAIM * (1 - DRIFT) - SLACK  # `valid_until` inlined

    def start(self, token: int | None, until: float, now: float) -> bool:
        """Begin with a claim, which ends at *until*; return whether it is held now.

        Half of the claim must be left: the confirmation is on its way for that long at most. If it
        is held, the confirmation counts no more as a try without a reply.
        """
        if now + CLAIM / 2 >= until or self.state is not PENDING:  # closed meanwhile
            return False
        self.depth = 1
        self.token = token
        self.offered = self.queued = self.placed = False
        self.valid_until = until
        self.asked_by = NEVER
        self.state = HELD
        self.since = now
        self.unanswered -= 1
        return True

    def refuse_grant(self) -> None:
        """Note that the server made it the holder, but that the grant cannot be used."""
        self.depth = 1
        self.heard = None

    def gave_back(self) -> None:
        """Note that the server has neither this hold nor a place for it.

        No known command will change that.
        """
        self.depth = self.unanswered = 0
        self.offered = self.queued = False
        self.heard = None

    def rename(self, holder: str) -> None:
        """Use the holder id *holder* from now on; no command with that id was sent yet.

        So late commands do not hit this hold.
        """
        self.holder = holder
        self.gave_back()

    def ask_replicas(self, replication: Replication) -> None:
        """Note that replicas are asked about it."""
        self.replication = replication

    # Being held.

    def enter(self) -> int | None:
        """Enter it once more; return its new depth, or None if it is no longer held.

        This makes no call. So no thread can release the hold between the check and the entry.
        """
        if self.state is not HELD:
            return None
        depth = self.depth = self.depth + 1
        return depth

    def leave(self) -> int:
        """Go down by one depth while it stays held; return its new depth."""
        depth = self.depth = self.depth - 1
        return depth

    # Its end.

    def take_back(self) -> None:
        """Be held again, after a release or hand-over that failed."""
        if self.state is ENDING:
            self.state = HELD

    def begin_release(self, now: float = -NEVER) -> tuple[int, bool] | None:
        """Go down by one depth; at the last depth enter ENDING, in which it is not renewed.

        This makes no call after its checks. So if two threads release the hold, each goes down by
        one.

        Returns:
            The depth to reach, and whether this is the first release to that depth; None if the
            hold is lost at *now*, or not held.
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
        """Note that the server no longer has it."""
        self.depth = 0
        self.heard = None

    def end(self) -> None:
        """Enter ENDED, unless it is lost."""
        if self.state is not LOST:
            self.state = ENDED

    def lose(self, reason: LossReason) -> list[Callable[[], object]]:
        """Enter LOST; return the listeners to tell, or none if it is no longer held."""
        if self.state not in (HELD, ENDING):
            return []
        self.reason = reason
        if self.state is ENDING:
            self.depth = 0
        self.state = LOST
        listeners, self._listeners = self._listeners, None
        return listeners or []

    def found(self, depth: int) -> None:
        """Take the *depth* that the server has, to release that hold by force or to undo it."""
        self.depth = depth

    def keep_holder_unique(self) -> bool:
        """Give later holds of the owner another number. Return whether this one is still held.

        From then on the holder id names this hold alone. The state is checked last: if this hold
        has ended, a later one may already have the old number.
        """
        owner = self.owner()
        if owner is not None and self.holder.removesuffix(":write").endswith(f":{owner.number}"):
            owner.renumber()
        return self.state is HELD

    def explain(self, detail: str) -> None:
        """Note that it was released by force, and the reason that an operator gave, if any."""
        self._detail = detail
        if self.reason is not None:
            self.reason = "force-released"

    def leave_open(self, failure: str) -> None:
        """Note what may have ended it: a release by force, or the *failure* of its renewal."""
        if self.reason == "server lost it":
            self._detail = UNASKED
        elif failure and self.reason == "unreachable past validity":
            self._detail = f"the last renewal failed: {failure}"

    def hear(self, answer: str | int | None) -> None:
        """Take the server's *answer* to why it is gone.

        Args:
            answer: the note of a forced release. Without one, for how many seconds the server has
                run; None if it does not tell that.
        """
        if isinstance(answer, str):
            self.explain(answer)
        elif self.reason == "server lost it":
            self._detail = self._what_happened(answer)

    def recall_failover(self) -> None:
        """Note that another server has taken over, if nobody has told why it is gone."""
        if self.detail == UNASKED:
            self._detail = self._what_happened(None) or UNASKED

    def _what_happened(self, runs: int | None) -> str:
        """Return what has happened to the server since this hold began; empty for nothing."""
        session = self.core.session
        held = session.clock() - self.since
        took_over = session.took_over(self.key)
        if took_over < held:
            return f"another server took over {took_over:.0f} s ago"
        # The server tells whole seconds.
        return "" if runs is None or runs + 1 > held else f"the server was restarted {runs} s ago"

    def hand_on(self, successor: Hold) -> None:
        """Hand its handles and its listeners on to the next hold of its owner."""
        if successor is self:
            return
        # A user that keeps the first of a thousand holds does not keep those in between alive.
        self.newest = successor.newest = getattr(self, "newest", None) or []
        self.newest[:] = (successor,)
        self.share(successor, self.listeners())

    def latest(self) -> Hold:
        """Return the hold that has taken its place, or itself."""
        newest: list[Hold] = getattr(self, "newest", [])
        return newest[0] if newest else self

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
        """Return what more is known of its loss, as the reason of a forced release; else empty."""
        # Most holds have none: the slot is empty.
        return getattr(self, "_detail", "")

    @property
    def token_source(self) -> str | None:
        """Return what keeps its token above all earlier ones; None if that is not known."""
        # Most holds have none: the slot is empty.
        return getattr(self, "_token_source", None)

    @property
    def replicas(self) -> int | None:
        """Return how many replicas had it when it was acquired; None if they were not asked."""
        return None if self.replication is None else self.replication.acknowledged

    def inside(self) -> bool:
        """Return whether somebody may still rely on it.

        That is so if it was neither released nor abandoned.
        """
        return not self.leaving() and not self.abandoned()

    def leaving(self) -> bool:
        """Return whether its last release has begun; that release raises if the hold is lost."""
        return self.depth == 0 or self.state is ENDING

    def ran_out(self) -> bool:
        """Return whether it ended with the lease that its owner chose, outside of any block.

        Then nobody needs to release it. A rate limit is a lock of this kind.
        """
        expired = (self.reason or self.expiry_reason()) == "expired" and self.renewal is None
        return expired and all(handle() is None for handle in self.handles)

    def kept(self) -> bool:
        """Return whether its owner has not released it yet, even if it is lost."""
        return self in self.core.session.holds

    def release(self) -> Step[None]:
        """Go down by one depth; free the lock at 0."""
        return self.core.release_hold(self)

    def extend(self, lease: float) -> Step[None]:
        """Extend it to at least *lease* seconds from now."""
        return self.core.extend_hold(self, lease)


class Permit(Hold):
    """Permits that were acquired together, and end together.

    Their holder id is made of their ids, so each permit has an id of its own on the server.
    """

    __slots__ = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Return their ids on the server."""
        ids = self.holder
        return tuple(ids[at : at + ID_DIGITS] for at in range(0, len(ids), ID_DIGITS))

    def hear(self, answer: str | int | None) -> None:
        """Take the *answer* to why they are gone; without one, others may have given them back."""
        super().hear(answer)
        if self.reason == "server lost it":
            self._detail = self._detail or GIVEN_BACK


class HoldObserver(Protocol):
    """An object that is told of each use of a lock (`observing`)."""

    def acquired(self, hold: Hold, sent_at: float) -> None: ...
    def released(self, hold: Hold) -> None: ...


class Holds:
    """The table of one client's holds.

    Attributes:
        table: the holds, by key and owner.
        observer: is told of each hold that is acquired or released; None if nobody wants that.
        cleaning: the calls that clean up after an operation and have no answer yet, by their ids.
            Their holds are not in the table any more. So a client that closes sends them, too.
        hear: reads the replies that have come to commands that were posted.
    """

    def __init__(self) -> None:
        self.observer: HoldObserver | None = None
        self.cleaning: dict[int, Eval[Any]] = {}
        self.hear: Callable[[], None] = lambda: None
        self.table: dict[tuple[object, int], Hold] = {}

    def get(self, key: object, owner: Owner) -> Hold | None:
        """Return *owner*'s hold of *key*, in any state.

        A lock with two sides has a key for each side.
        """
        return self.table.get((key, owner.identity))

    def label_of(self, holder: str) -> str | None:
        """Return who of this client is *holder*, for a message; None if nobody is."""
        held = (hold.label for hold in self.snapshot() if hold.holder == holder)
        return next(held, None)

    def reserve(self, hold: Hold, former: Hold | None = None) -> Hold:
        """Enter *hold* before the first try to get it is sent, and count that try.

        Args:
            hold: PENDING.
            former: a hold of the same owner that is over. *hold* may replace it.

        Returns:
            *hold*, or the hold that a signal handler has entered meanwhile.
        """
        among = hold.among
        if among is not None:
            among.add(hold)
        found = self.table.setdefault(hold.table_key, hold)
        if former is not None and found is former:
            self._forget(former)
            found = self.table.setdefault(hold.table_key, hold)
        # Only now: a hold that came too late has sent nothing, and must undo nothing.
        if found is hold:
            hold.unanswered = 1
        elif among is not None:
            among.discard(hold)
        return found

    def begin(self, hold: Hold) -> None:
        """Enter *hold* before anything is sent for it."""
        if hold.among is not None:
            hold.among.add(hold)
        self.table[hold.table_key] = hold

    def try_first(self, hold: Hold) -> None:
        """Enter *hold*, which no other owner can have, and count the try that is sent next."""
        self.begin(hold)
        hold.unanswered = 1

    def end(self, hold: Hold) -> None:
        """Forget *hold*; a later one of the same owner stays."""
        # In this order: if a Ctrl-C comes in between, this is called once more.
        self._forget(hold)
        hold.end()

    def unreserve(self, hold: Hold) -> None:
        """Forget *hold* if it is still PENDING.

        Every end of an acquire calls this, also one that nobody is left to perform. Otherwise its
        owner would get ReentryError for ever.
        """
        if hold.state is PENDING:
            self.end(hold)

    def released(self, hold: Hold) -> None:
        """Forget *hold*, which the server no longer has."""
        hold.depth = 0
        if hold.state is not LOST:
            if self.observer is not None and hold.state is not ENDED:
                self.observer.released(hold)
            hold.state = ENDED
        # `_forget` inlined: every release runs this.
        if hold.among is not None:
            hold.among.discard(hold)
        try:
            if self.table[hold.table_key] is hold:
                del self.table[hold.table_key]
        except KeyError:
            return

    def _forget(self, hold: Hold) -> None:
        # A client that closes, or the watchdog, may end it at the same time. There is no call in
        # here, so no other thread comes in between.
        if hold.among is not None:
            hold.among.discard(hold)
        try:
            if self.table[hold.table_key] is hold:
                del self.table[hold.table_key]
        except KeyError:
            return

    def clean_up_calls(self) -> list[Eval[Any]]:
        """Return copies of the calls of `cleaning`.

        Ask for them before the clean-up in the background: a call without an answer moves there.
        """
        return [call.anew() for call in self.cleaning.copy().values()]

    def of_key(self, key: str) -> list[Hold]:
        """Return all of this client's holds of *key*."""
        return [hold for hold in self.snapshot() if hold.key == key]

    def snapshot(self) -> list[Hold]:
        """Return all holds; it is one step, so other threads may change the table meanwhile."""
        return list(self.table.values())

    def __iter__(self) -> Iterator[Hold]:
        return iter(self.snapshot())

    def __contains__(self, hold: Hold) -> bool:
        return self.table.get(hold.table_key) is hold

    def __len__(self) -> int:
        return len(self.table)
