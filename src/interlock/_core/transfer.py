"""A hold that goes from one process to another, and a lease that is set to the second.

Theory. A web request acquires, and a worker on another machine releases. Two processes must never
believe in one hold, so the lock changes its holder on the server, in one script
(`lock_hand_over`), both when it is given away and when it is adopted:

    the giver's holder id  ->  a holder id that nobody has: the ticket  ->  the adopter's holder id

Rules:

* Only one can adopt: whoever comes second with the same ticket finds another holder, and is
  refused.
* Nobody renews a ticket. The lock ends with the ticket's lease unless it is adopted before.
* What the giver sent before and what arrives late speaks of a holder who is gone, and changes
  nothing.
* A script that is sent again finds the new holder there already, and does no more.

Source: none in Redisson; redis-py's Lock passes its token on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from interlock._core.effects import undoing
from interlock._core.holds import Hold, Owner, State
from interlock._core.lock import Lock
from interlock._core.lock_base import end_late_grants, lost, not_held, renumber_owner
from interlock._core.scripts import lock as scripts
from interlock._core.scripts.script import Grant
from interlock.errors import ConfigError, NotHeldError, ReentryError
from interlock.options import check_lease

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Possession
    from interlock._core.session import Session


class Ticket(NamedTuple):
    """Entitles to one hold.

    Attributes:
        kind: the kind of lock.
        holder: ``"<client id>:<number>"``, who holds it until it is adopted.
        token: the fencing token, or None.
        name: what the user calls the lock.
    """

    kind: str
    holder: str
    token: int | None
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.holder}:{self.token or ''}:{self.name}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `str` made.

        Raises:
            TypeError: *text* is not a string.
            ConfigError: it is not a ticket.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
            raise TypeError(f"a ticket must be a str, not {type(text).__name__}")
        try:
            kind, client, number, token, name = text.split(":", 4)
            return cls(kind, f"{client}:{int(number)}", int(token) if token else None, name)
        except ValueError:
            raise ConfigError(f"{text!r} is not a ticket that Hold.hand_over() returned") from None


def hand_over(possession: Possession, lease: float | None) -> Op[Ticket]:
    """Give the hold *possession* away, to whoever has the ticket.

    Args:
        possession: the hold.
        lease: seconds that the ticket is good for; None for the client's own lease.

    Raises:
        ConfigError: it is not a hold of a lock that can be given away.
        NotHeldError: it was released.
        ReentryError: it is entered more than once.
        HoldLostError: it is lost.
        ServerUnavailableError: no usable answer. The hold goes on, for the ticket's lease or until
            its next renewal, unless it is found to be lost.

    Cost:
        One round trip.
    """
    hold, core = transferable(possession)
    session = core.session
    lease = check_lease(session.options.lease if lease is None else lease)
    _ensure(session, hold)
    if hold.depth > 1:
        raise ReentryError(
            f"{core.kind} {hold.name!r} is entered {hold.depth} times; release it before it is handed over",
            name=hold.name,
        )
    nobody = session.holder(Owner("ticket"))
    call = scripts.lock_hand_over(core.key, hold.holder, nobody, lease, deadline=hold.valid_until)
    # The watchdog lets it alone from here on.
    if hold.begin_release() != (0, True):
        raise not_held(core.kind, hold.name, hold.label)
    # Before it is sent: the server may do it unheard, and then the ticket's lease counts.
    hold.ask_lease(session.clock(), lease)
    done = yield from undoing(session.persist(call), _take_back, session, hold, nobody)
    renumber_owner(hold)
    if not done:
        session.lose(hold, "force-released")
        session.holds.end(hold)
        raise lost(hold)
    session.holds.released(hold)
    yield from end_late_grants(session, hold)
    return Ticket(core.kind, nobody, hold.token, hold.name)


def adopt(
    core: Lock, owner: Owner, holder: str, token: int | None, lease: float | None
) -> Op[Hold]:
    """Take the lock over from *holder*.

    Args:
        core: the lock.
        owner: who will hold it.
        holder: who holds it: a ticket's, or a process that is to lose it.
        token: its fencing token.
        lease: seconds, or None for a hold that the watchdog renews.

    Raises:
        ReentryError: *owner* holds the lock.
        NotHeldError: *holder* does not hold it any more.
        ServerUnavailableError: no usable answer; *holder* has it still, or nobody after a lease.

    Cost:
        One round trip.
    """
    session = core.session
    if session.holds.get(core.hold_key, owner) is not None:
        raise ReentryError(f"{core.kind} {core.name!r} is held by the same owner", name=core.name)
    hold = core.new_hold(owner, lease)
    try:
        if session.holds.reserve(hold) is not hold:
            raise ReentryError(
                f"{core.kind} {core.name!r} is held by the same owner", name=core.name
            )
        sent_at = session.clock()
        call = scripts.lock_hand_over(core.key, holder, hold.holder, hold.lease)
        done = yield from undoing(session.persist(call), _give_back, session, hold, holder)
        if done and Lock.accept(core, hold, sent_at, Grant(token)):
            return hold
    finally:
        if hold.state is State.PENDING:
            session.holds.end(hold)
    if done:
        # The answer took longer than the lease.
        yield from session.clean_up_later(
            core.release_script(hold, 0), session.clock() + hold.lease
        )
    raise NotHeldError(
        f"{core.kind} {core.name!r} cannot be adopted: it was adopted before, or its lease has ended",
        name=core.name,
        owner=holder,
    )


def set_lease(possession: Possession, lease: float) -> Op[None]:
    """Have the hold *possession* end in *lease* seconds, be it sooner or later than before.

    It is not renewed any more. If a renewal is under way, the server may execute it later. Then the
    server frees the lock up to one lease of the client later, and the hold still ends in time. No
    second command corrects that: it could cut short what the user sets next.

    Raises:
        ConfigError: it is not a hold of a lock that can do this.
        NotHeldError: it was released.
        HoldLostError: it is lost.
        ServerUnavailableError: no usable answer; the hold is valid for the shorter of the two
            times.

    Cost:
        One round trip.
    """
    hold, core = transferable(possession)
    session = core.session
    lease = check_lease(lease)
    _ensure(session, hold)
    sent_at = session.clock()
    deadline = min(hold.valid_until, sent_at + session.options.outage_timeout)
    # Before it is sent: the server may do it without our hearing of it.
    hold.end_renewal()
    hold.ask_lease(sent_at, lease)
    call = scripts.lock_set_lease(core.key, lease, hold.holder, deadline=deadline)
    done = yield from session.persist(call)
    if not done:
        session.lose(hold, "force-released")
        raise lost(hold)
    hold.set_lease(sent_at, lease)
    session.watchdog.watch(hold)


def transferable(possession: Possession) -> tuple[Hold, Lock]:
    """Return the hold *possession* and the lock that it is of.

    Raises:
        ConfigError: it is of another kind.
    """
    core = possession.core if isinstance(possession, Hold) else None
    if isinstance(possession, Hold) and isinstance(core, Lock) and core.transferable:
        return possession, core
    raise ConfigError(
        f"{possession.name!r} is not a lock, fair lock, fenced lock or spin lock: only their holds can be handed over or shortened"
    )


def _ensure(session: Session, hold: Hold) -> None:
    """Raise unless *hold* is held."""
    if hold.lost(session.clock()):
        session.lose(hold, hold.expiry_reason())
        raise lost(hold)
    if hold.state is not State.HELD:
        raise not_held(hold.core.kind, hold.name, hold.label)


def _take_back(session: Session, hold: Hold, nobody: str, error: BaseException) -> Op[None]:
    """Go on holding what could not be handed over because of *error*."""
    call = scripts.lock_hand_over(hold.key, nobody, hold.holder, hold.lease)
    kept = hold in session.holds
    if kept:
        hold.take_back()
        session.watchdog.watch(hold)
    yield from session.clean_up_after(error, call, session.clock() + hold.lease)
    if not kept:
        # Its owner has asked for the lock anew, as another holder: this hold must be over.
        call = hold.core.release_script(hold, 0)
        yield from session.clean_up_after(error, call, session.clock() + hold.lease)


def _give_back(session: Session, hold: Hold, holder: str, error: BaseException) -> Op[None]:
    """Let *holder* have what could not be adopted because of *error*."""
    call = scripts.lock_hand_over(hold.key, hold.holder, holder, hold.lease)
    yield from session.clean_up_after(error, call, session.clock() + hold.lease)
