"""A hold that no process has: a ticket stands for it until it is released.

Theory. `transfer.hand_over` leaves the lock to a holder id that nobody has. Any client that knows
the ticket may extend the lease of that holder, or adopt the hold and release it. So a pipeline or a
shell holds a lock across many processes. Nobody renews it by itself.

Operators read cards to learn who holds a lock. A ticket has no process that writes one, so it is
written once, and is kept as long as the ticket is good.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock._core.insight.card import BY_TICKET, CARD, FORMAT, INDEX
from interlock._core.insight.events import tell_loss
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.known_lock import name_holder
from interlock._core.locks.lock import Lock
from interlock._core.locks.spin_lock import SpinLock
from interlock._core.locks.transfer import not_a_ticket
from interlock._core.model import names
from interlock._core.model.effects import NEVER
from interlock._core.scripts.card import card_write
from interlock._core.scripts.forced import forced_note_read
from interlock.backoff import ExponentialBackoff
from interlock.errors import InterlockError, NotHeldError
from interlock.options import check_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock._core.locks.transfer import Ticket
    from interlock._core.model.effects import Op
    from interlock._core.upkeep.session import Session


def _spin_lock(session: Session, name: str) -> Lock:
    return SpinLock(session, name, backoff=ExponentialBackoff())


WITH_TICKETS: Mapping[str, Callable[[Session, str], Lock]] = {
    "lock": Lock,
    "fair lock": FairLock,
    "fenced lock": FencedLock,
    "spin lock": _spin_lock,
}
"""What the class of a lock calls it -> makes the lock that a ticket stands for."""


def lock_of(session: Session, ticket: Ticket) -> Lock:
    """Return the lock that *ticket* is of.

    Raises:
        ConfigError: it is of a kind that cannot be adopted.
    """
    make = WITH_TICKETS.get(ticket.kind)
    if make is None:
        raise not_a_ticket(str(ticket))
    return make(session, ticket.name)


def extend(session: Session, ticket: Ticket, lease: float) -> Op[None]:
    """Let *ticket* be good for at least *lease* seconds from now.

    Raises:
        NotHeldError: its hold is over.
        ServerUnavailableError: no usable answer.

    Cost:
        One round trip; two more if its hold is over.
    """
    core = lock_of(session, ticket)
    call = core.renewal([core.key], check_lease(lease), [ticket.holder], deadline=NEVER)
    [held] = yield from session.persist(call)
    if not held:
        raise (yield from over(session, ticket))


def over(session: Session, ticket: Ticket) -> Op[NotHeldError]:
    """Return the error for *ticket*, whose hold is over; it tells why, as far as that is known."""
    core = lock_of(session, ticket)
    why: str | int | None = None
    with suppress(InterlockError):
        why = yield from session.persist(
            forced_note_read(names.forced_note(core.key, ticket.holder))
        )
    cause = "it was used before, or its lease has ended"
    if isinstance(why, str):
        cause = tell_loss("force-released", why)
    error = NotHeldError(
        f"{core.kind} {core.name!r} is not held by this ticket ({cause})",
        name=core.name,
        owner=ticket.holder,
    )
    name_holder(error, (yield from core.refusal(0)).holder, core.session)
    return error


def announce(
    session: Session, ticket: Ticket, about: Mapping[str, object], lease: float, held_for: float
) -> Op[None]:
    """Tell operators who has *ticket*, for *lease* seconds.

    Args:
        session: of any client.
        ticket: which.
        about: ``host``, ``version``, and ``thread``, which has the reason.
        lease: seconds that it is good for.
        held_for: seconds that it is held already.

    Cost:
        One round trip. Without the right to write cards, nothing happens.
    """
    core, client = lock_of(session, ticket), ticket.holder.rpartition(":")[0]
    told = {"format": FORMAT, "number": 1, "period": lease, "holds": 1, "permits": 0, "waits": 0}
    line = {**told, "host": about["host"], "version": about["version"], "program": BY_TICKET}
    entry: dict[str, object] = {
        "age": held_for,
        "owner": 0,
        "kind": core.kind,
        "lease": lease,
        "renewed": False,
    }
    entry |= {"thread": about["thread"]}
    fields = (f"h {ticket.holder} {core.key}", json.dumps(entry), "client", json.dumps(line))
    yield from _write(session, client, lease, fields)


def withdraw(session: Session, ticket: Ticket) -> Op[None]:
    """Tell operators that *ticket* is over; one round trip."""
    yield from _write(session, ticket.holder.rpartition(":")[0], 1, ())


def _write(session: Session, client: str, keep: float, fields: tuple[str, ...]) -> Op[None]:
    index = "" if session.clustered else INDEX
    call = card_write(CARD.format(client), index, client, 1, keep, fields)
    # Locks never depend on cards: the user may lack the right.
    with suppress(InterlockError):
        _ = yield from session.persist(call)
