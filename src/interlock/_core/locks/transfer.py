"""The transfer of a hold to another process.

Theory. A web request acquires, and a worker on another machine releases. Two processes must never
both believe that they have the hold. So one script (`lock_give`) changes the holder of the
lock on the server. It runs when the lock is given away, and again when it is adopted:

    the giver's holder id  ->  a holder id that nobody has: the ticket  ->  the adopter's holder id

Rules:

* Only one process can adopt the hold: a second try with the same ticket finds another holder, and
  is refused.
* Nobody renews a ticket. The lock ends with the ticket's lease unless it is adopted before.
* A command that the giver sent before may arrive late. It names a holder who is gone, and changes
  nothing.
* A script that is sent again finds the new holder there already, and at most renews the lease.

Source: none in Redisson; redis-py's Lock passes its token on.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from interlock._core.locks.doubt import doubt
from interlock._core.locks.known_lock import not_held
from interlock._core.locks.lock import Lock
from interlock._core.locks.lock_base import end_late_grants, lost, renumber_owner, undo_acquire
from interlock._core.model.effects import Undoable, undoing
from interlock._core.model.holds import HELD, Hold, Owner, lease_until
from interlock._core.scripts import lock as scripts
from interlock._core.scripts.script import Grant
from interlock._core.upkeep.idempotency import copies_of, once
from interlock.errors import ConfigError, NotHeldError, ReentryError
from interlock.options import check_lease, check_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from interlock._core.model.effects import Eval, Op, Step
    from interlock._core.model.holds import AnyHold
    from interlock._core.upkeep.session import Session

    _Interrupted: TypeAlias = Callable[[Session, Hold, Eval[int], BaseException], Op[None]]


TICKET_MARK, LEFT_MARK = "f" * 8, "e" * 8
"""How holder ids begin that no client has: of a ticket, and of a hold whose lease goes on."""
LONGEST_SHOWN, BEGINNING = 60, 20
"""Characters of a wrong ticket that are told, and those of a longer one."""


class Ticket(NamedTuple):
    """The right to adopt one hold.

    Attributes:
        kind: the kind of lock.
        holder: ``"<client id>:<number>"``, the holder id until the hold is adopted.
        token: the fencing token, or None.
        name: what the user calls the lock.
    """

    kind: str
    holder: str
    token: int | None
    name: str

    def __str__(self) -> str:
        # Without a blank, so that a shell takes it for one word.
        return f"{self.kind.replace(' ', '_')}:{self.holder}:{self.token or ''}:{self.name}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a ticket from the text that `str` made of it.

        Raises:
            TypeError: *text* is not a string.
            ConfigError: it is not a ticket.
        """
        text = check_text(text, "a ticket")
        try:
            kind, client, number, token, name = text.split(":", 4)
            return cls(
                kind.replace("_", " "),
                f"{client}:{int(number)}",
                int(token) if token else None,
                name,
            )
        except ValueError:
            raise not_a_ticket(text) from None


def not_a_ticket(text: str) -> ConfigError:
    """Return the error for *text*, which may be all of a secret file that somebody named."""
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:BEGINNING]}..."
    return ConfigError(
        f"{shown!r} is not a ticket, as hold.hand_over() returns and `interlock ticket acquire` prints"
    )


def hand_over(any_hold: AnyHold, lease: float | None) -> Op[Ticket]:
    """Give the hold *any_hold* away; anyone who has the ticket may adopt it.

    Args:
        any_hold: the hold.
        lease: seconds that the ticket is good for; None for the client's own lease.

    Raises:
        ConfigError: it is not a hold of a lock that can be given away.
        NotHeldError: it was released.
        ReentryError: it is entered more than once.
        HoldLostError: it is lost.
        ServerUnavailableError: no usable answer. The hold goes on unless it is found to be lost.
            Until its next renewal it is valid for the ticket's lease at most.

    Cost:
        One round trip.
    """
    hold, core = transferable(any_hold)
    lease = check_lease(core.session.options.lease if lease is None else lease)
    nobody = _nobody(core.session, TICKET_MARK)
    yield from _give_to(nobody, hold, core, lease, _take_back)
    return Ticket(core.kind, nobody, hold.token, hold.name)


def leave_locked(any_hold: AnyHold, lease: float) -> Op[None]:
    """End the hold *any_hold*, but leave the lock locked for *lease* seconds.

    An interruption does not stop that: the script is sent again, at once or in the background.

    Raises:
        As `hand_over`.

    Cost:
        One round trip.
    """
    hold, core = transferable(any_hold)
    nobody = _nobody(core.session, LEFT_MARK)
    yield from _give_to(nobody, hold, core, check_lease(lease), _finish_giving)


def _nobody(session: Session, mark: str) -> str:
    """Return a new holder id that no client has; the *mark* tells operators what it stands for.

    Its card is its own, too: the client's card tells of what the client has.
    """
    holder = session.holder(Owner("nobody"))
    digest = hashlib.blake2b(holder.encode(), digest_size=16).hexdigest()
    parts = (mark, digest[8:12], digest[12:16], digest[16:20], digest[20:])
    return f"{'-'.join(parts)}:{holder.rpartition(':')[2]}"


def _give_to(
    nobody: str, hold: Hold, core: Lock, lease: float, interrupted: _Interrupted
) -> Op[None]:
    """Give the lock of *hold* to the holder id *nobody* for *lease* seconds.

    An error calls *interrupted*, which keeps the hold or ends it.
    """
    session = core.session
    _ensure(session, hold)
    if hold.depth > 1:
        raise ReentryError(
            f"{core.kind} {hold.name!r} is entered {hold.depth} times; "
            "release it before it is handed over",
            name=hold.name,
        )
    deadline = min(hold.valid_until, session.clock() + session.options.outage_timeout)
    giving = scripts.lock_give(core.key, hold.holder, nobody, lease, deadline=deadline)
    call = once(session, core.key, giving)
    # From here on the watchdog does not renew it.
    if hold.begin_release() != (0, True):
        raise not_held(core.kind, hold.name, hold.label)
    # Before sending: if the server does it and the reply is lost, the ticket's lease counts.
    hold.ask_lease(session.clock(), lease)
    done = yield from undoing(session.persist(call), interrupted, session, hold, call)
    renumber_owner(hold)
    if not done:
        session.lose(hold, hold.gone_reason(session.clock()))
        session.holds.end(hold)
        raise lost(hold)
    session.holds.released(hold)
    yield from end_late_grants(session, hold)


def adopt(
    core: Lock, owner: Owner, holder: str, token: int | None, lease: float | None
) -> Step[Hold]:
    """Take the lock over from *holder*.

    Args:
        core: the lock.
        owner: who will hold it.
        holder: who holds it now: a ticket, or a process that is to lose it.
        token: its fencing token.
        lease: seconds, or None for a hold that the watchdog renews.

    Raises:
        ReentryError: *owner* holds the lock.
        NotHeldError: *holder* does not hold it any more.
        ServerUnavailableError: no usable answer; *holder* keeps it, or nobody has it after a lease.

    Cost:
        One round trip.
    """
    hold = core.new_hold(owner, lease)
    undo = partial(undo_acquire, core.session, hold)
    return Undoable(_adopt(core, hold, holder, token), hold.settled, undo)


def _adopt(core: Lock, hold: Hold, holder: str, token: int | None) -> Op[Hold]:
    session, call = core.session, None
    try:
        if session.holds.reserve(hold) is not hold:
            raise ReentryError(
                f"{core.kind} {core.name!r} is held by the same owner", name=core.name
            )
        if (owner := hold.owner()) is not None:
            core.name_anew(hold, owner)
        hold.gave_back()  # nothing is sent yet
        sent_at = session.clock()
        call = once(session, core.key, scripts.lock_give(core.key, holder, hold.holder, hold.lease))
        done = yield from undoing(_take(session, hold, call), _give_back, session, hold, call)
        if not done:
            hold.uncount_try()
        elif Lock.accept(core, hold, sent_at, Grant(token)):
            return hold
    finally:
        if call is None:
            hold.gave_back()
        session.holds.unreserve(hold)
    if done:
        yield from undo_acquire(session, hold)  # the answer took longer than the lease
    raise NotHeldError(
        f"{core.kind} {core.name!r} cannot be adopted: "
        "it was adopted before, or its lease has ended",
        name=core.name,
        owner=holder,
    )


def _take(session: Session, hold: Hold, call: Eval[int]) -> Op[int]:
    """Send *call*, which makes *hold* the holder; return its answer."""
    hold.sent()  # in here, so that a Ctrl-C right after it is undone as one after the try
    return (yield from session.persist(call))


def transferable(any_hold: AnyHold) -> tuple[Hold, Lock]:
    """Return the hold *any_hold* and its lock.

    Raises:
        ConfigError: its lock is of a kind that cannot be transferred.
    """
    core = any_hold.core if isinstance(any_hold, Hold) else None
    if isinstance(any_hold, Hold) and isinstance(core, Lock) and core.transferable:
        return any_hold, core
    raise ConfigError(
        f"{any_hold.name!r} is not a lock, fair lock, fenced lock or spin lock: "
        "only their holds can be handed over"
    )


def _ensure(session: Session, hold: Hold) -> None:
    """Raise unless *hold* is held."""
    if hold.lost(session.clock()):
        session.lose(hold, hold.expiry_reason())
        raise lost(hold)
    if hold.state is not HELD:
        raise not_held(hold.core.kind, hold.name, hold.label)


def _way_back(call: Eval[int], lease: float) -> Eval[int]:
    """Return the script that undoes *call*, a `lock_give`; copies of *call* then do nothing."""
    holder, successor = (str(each) for each in call.args[:2])
    back = scripts.lock_give(call.keys[0], successor, holder, lease, back=True)
    return copies_of(call, back)


def _take_back(session: Session, hold: Hold, giving: Eval[int], error: BaseException) -> Op[None]:
    """Keep *hold*, which could not be given away by *giving* because of *error*.

    Until the way back is answered, *giving* may still be executed. Until then, nothing makes the
    hold valid for longer than the ticket's lease.
    """
    # It may have been extended beyond its own lease, and is believed for as long.
    call = _way_back(giving, max(hold.lease, lease_until(hold.valid_until, session.clock())))
    if hold in session.holds:
        hold.take_back()
        session.watchdog.watch(hold)
        yield from doubt(session, hold, call, error)
        return
    # Its owner has asked for the lock again, under another holder id: this hold must end.
    for step in (call, hold.core.release_script(hold, 0)):
        yield from session.clean_up(step, session.clock() + hold.lease, error=error)


def _finish_giving(
    session: Session, hold: Hold, giving: Eval[int], error: BaseException
) -> Op[None]:
    """End *hold*, and carry *giving* through in spite of *error*."""
    renumber_owner(hold)
    yield from session.clean_up(giving.anew(), session.clock() + hold.lease, error=error)
    session.holds.released(hold)
    yield from end_late_grants(session, hold)


def _give_back(session: Session, hold: Hold, taking: Eval[int], error: BaseException) -> Op[None]:
    """Give the lock back to its former holder, because *error* ended the adoption by *taking*."""
    call = _way_back(taking, hold.lease)
    renumber_owner(hold)  # that may be executed late, when the owner has adopted the lock again
    yield from session.clean_up(call, session.clock() + hold.lease, error=error)
    hold.gave_back()
