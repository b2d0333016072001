"""A hold that no process has: a ticket stands for it until it is released.

`transfer.HandOver` leaves the lock to a holder id that nobody has. Any client that knows the ticket
may extend the lease of that holder, or adopt the hold and release it. So a pipeline or a shell holds
a lock across many processes. Nobody renews it by itself.

Operators read cards to learn who holds a lock. A ticket has no process that writes one, so it is
written once, and is kept as long as the ticket is good.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from interlock._core.insight.card import BY_TICKET, FORMAT, writing
from interlock._core.insight.events import tell_loss
from interlock._core.locks.base import Lock
from interlock._core.locks.errors import name_holder
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.spin_lock import SpinLock
from interlock._core.model.effects import NEVER, Eval
from interlock._core.model.names import forced_note
from interlock._core.scripts.locks import RENEW, forced_note_read
from interlock._core.scripts.replies import milliseconds
from interlock.backoff import ExponentialBackoff
from interlock.errors import ConfigError, InterlockError, NotHeldError
from interlock.options import check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock._core.model.effects import Op
    from interlock._core.upkeep.session import Session

LONGEST_SHOWN, BEGINNING = 60, 20
"""Characters of a wrong ticket that are told, and those of a longer one."""

KINDS: Mapping[str, Callable[[Session, str, str], Lock]] = {
    "lock": Lock,
    "fair lock": FairLock,
    "fenced lock": FencedLock,
    "spin lock": partial(SpinLock, backoff=ExponentialBackoff()),
}
"""What the class of a lock calls it -> makes the lock that a ticket stands for."""


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
        """Read a ticket from the text that `str` made of it; raise ConfigError if it is none."""
        text = check_text(text, "a ticket")
        try:
            kind, client, number, token, name = text.split(":", 4)
            kind = kind.replace("_", " ")
            _ = KINDS[kind]
            return cls(kind, f"{client}:{int(number)}", int(token) if token else None, name)
        except (ValueError, KeyError):
            # It may be all of a secret file that somebody named.
            shown = text if len(text) <= LONGEST_SHOWN else f"{text[:BEGINNING]}..."
            raise ConfigError(
                f"{shown!r} is not a ticket, as hold.hand_over() returns and "
                "`interlock ticket acquire` prints"
            ) from None


def core_of(session: Session, ticket: Ticket) -> Lock:
    """Return the lock that *ticket* is of."""
    return KINDS[ticket.kind](session, ticket.name, session.key(ticket.name))


def extend(session: Session, ticket: Ticket, lease: float) -> Op[None]:
    """Let *ticket* be good for at least *lease* seconds from now; raise if its hold is over."""
    args = milliseconds(lease), ticket.holder
    call = Eval(RENEW, (core_of(session, ticket).key,), args)
    [held] = yield from session.persist(call, NEVER)
    if not held:
        raise (yield from over(session, ticket))


def over(session: Session, ticket: Ticket) -> Op[NotHeldError]:
    """Return the error for *ticket*, whose hold is over; it tells why, as far as that is known."""
    lock = core_of(session, ticket)
    why: str | int | None = None
    with suppress(InterlockError):
        call = forced_note_read(forced_note(lock.key, ticket.holder))
        why = yield from session.persist(call, NEVER)
    cause = "it was used before, or its lease has ended"
    if isinstance(why, str):
        cause = tell_loss("force-released", why)
    error = NotHeldError(
        f"{lock!r} is not held by this ticket ({cause})", name=lock.name, owner=ticket.holder
    )
    _, holder = yield from lock.present_holder()
    name_holder(error, holder, session)
    return error


def announce(
    session: Session, ticket: Ticket, about: Mapping[str, object], lease: float, held_for: float
) -> Op[None]:
    """Tell operators who has *ticket*, for *lease* seconds; it is held for *held_for* already.

    *about* has ``host``, ``version``, and ``thread``, which has the reason.
    """
    lock, client = core_of(session, ticket), ticket.holder.rpartition(":")[0]
    told = {"format": FORMAT, "period": lease, "holds": 1, "permits": 0, "waits": 0}
    line = {**told, "host": about["host"], "version": about["version"], "program": BY_TICKET}
    entry = {"age": held_for, "owner": 0, "kind": lock.kind, "lease": lease, "renewed": False}
    hold = json.dumps({**entry, "thread": about["thread"]})
    fields = (f"h {ticket.holder} {lock.key}", hold, "client", json.dumps(line))
    yield from _write(session, client, lease, fields)


def withdraw(session: Session, ticket: Ticket) -> Op[None]:
    """Tell operators that *ticket* is over; one round trip."""
    yield from _write(session, ticket.holder.rpartition(":")[0], 1, ())


def _write(session: Session, client: str, keep: float, fields: tuple[str, ...]) -> Op[None]:
    # Locks never depend on cards: the user may lack the right.
    with suppress(InterlockError):
        _ = yield from session.persist(writing(session, client, keep, fields), NEVER)
