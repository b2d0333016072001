"""Permits with leases: of a limit that each call brings along, or of Redisson's leased semaphore.

Each acquire is a hold of its own, whatever its owner has already. What it wants stands in its id, so
that nothing else need be known to let it in: how many, and the limit. Waiters have their turns
strictly in order. A release lets in from the front while it fits; who is let in loses its place, so
there are no marks. Who was let in and missed its message is the oldest of its line, which looks.

The ids of a leased semaphore's permits are made of their holder's. So its end takes nothing but its
id, a permit that expires tells whose it was, and Redisson takes them for its own.

A permit belongs to the thread or task that acquired it, and to the object that the user got: it is
renewed while one of the two lives, or until its block is left.

Source: RPermitExpirableSemaphore, Redisson 4.7.0; the limit is our own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from interlock._core.locks.base import Acquire, Lock
from interlock._core.locks.errors import not_held
from interlock._core.model.effects import NEVER, Eval
from interlock._core.model.forms import HOLE, Form
from interlock._core.model.hold import GIVEN_BACK, Hold
from interlock._core.model.names import (
    GRANT,
    draw,
    leased_queue,
    limited_channel,
    limited_permits,
    limited_queue,
    packed_text,
    permit_leases,
    semaphore_channel,
    shares_channels,
)
from interlock._core.objects.number import check_permits
from interlock._core.scripts.locks import remember
from interlock._core.scripts.permits import (
    LEASED_ASK,
    LEASED_RELEASE,
    LEASED_TRY,
    LIMITED_ASK,
    LIMITED_QUERY,
    LIMITED_RELEASE,
    LIMITED_TRY,
    permits_renew,
)
from interlock._core.scripts.replies import milliseconds
from interlock.errors import ConfigError
from interlock.options import check_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock._core.model.effects import Op, Script
    from interlock._core.model.hold import Owner
    from interlock._core.objects.number import LeasedNumber
    from interlock._core.upkeep.session import Session

_ID = re.compile("[0-9a-f]{32}")
_WISH = re.compile("[*%].*")
MOST = 10_000
"""Permits of one hold, at most: their numbers have four digits."""


class Permit(Hold):
    """A hold of one permit, or of several that were acquired together."""

    __slots__ = ()
    of_permits = True
    lock: Permits

    @property
    def holder(self) -> str:
        """What others see of it: the ids of its permits, or what they begin with; before, its place."""
        return self.lock.shown(self) if self.since else _WISH.sub("", self.member)

    @property
    def ids(self) -> tuple[str, ...]:
        """What the server knows its permits by."""
        return self.lock.ids_of(self)


class Permits(Lock):
    """What gives permits, *n* at a time.

    Attributes:
        wish: what the id of each hold says that it wants.
        permits: the key of the zset of those that are held.
        idle: seconds after its last use when it ends; 0 for never.
        tries, asks, releases: its scripts; to try leaves no place.
    """

    permits: str
    idle = 0.0
    enters = False
    waiters_apart = True
    tries: ClassVar[Mapping[str, Script[Any]]]

    def __init__(self, session: Session, name: str, key: str, n: int = 1, wish: str = "") -> None:
        self.n, self.named = n, key
        self.wish = f"*{n}{wish}" if n > 1 else wish
        super().__init__(session, name, key, reentrant=False)
        self.queue = "" if shares_channels(key) else self._queue_of(key)

    @staticmethod
    def _queue_of(name: str) -> str:
        raise NotImplementedError

    def channels(self, client: str) -> tuple[str, ...]:
        before, after = self._queue_of(self.named).split("_queue", 1)
        return self.channel, f"{before}_waiting{after}", f"{before}_wake{after}:{client}"

    def new_hold(self, owner: Owner, lease: float | None) -> Permit:
        session, lasts = self.session, self._lasts if lease is None else lease
        if lease is None and lasts >= GRANT and not self.wish:
            packed = f"{session.head}{draw()}\r\n"
        else:
            shorter = "" if lasts >= GRANT else f"/{max(1, round(lasts * 1000))}"
            # A number that begins with 2 says that the permits may end by themselves: no fault of
            # the client.
            number = draw() + (0 if lease is None else 10**11)
            packed = packed_text(f"{session.client_id}:{number}{shorter}{self.wish}")
        return Permit().of(self, owner.reference, packed, lasts, lease is None)

    def shown(self, permit: Permit) -> str:
        """Return what others see of *permit*."""
        raise NotImplementedError

    def ids_of(self, permit: Permit) -> tuple[str, ...]:
        """Return what the server knows the permits of *permit* by."""
        raise NotImplementedError

    # The commands.

    def _more(self) -> tuple[str | int, ...]:
        """The arguments that a try has besides."""
        return ()

    def call(self, hold: Hold, lease: float, depth: int) -> Eval[Any]:
        """Return the script by which *hold* gets permits, unless somebody waits."""
        del depth
        form = self._forms.get((lease,)) or self._forms.keep((lease,), self._trying(lease))
        return form.of(hold)

    def _trying(self, lease: float) -> Form:
        return self._form(self.tries, milliseconds(lease), HOLE, self.channel, *self._more())

    def _asking(self, lease: float, deaf: str) -> Form:
        args = milliseconds(lease), HOLE, self.channel, *self._more(), "1"
        return self._form(self.asks, *args, *deaf)

    def _leaving(self, depth: int, how: str) -> Form:
        del depth
        return self._form(self.releases, HOLE, self.channel, *how)

    def renewing(self, group: Sequence[Hold], lease: float) -> Eval[list[bool]]:
        locks: list[Any] = [hold.lock for hold in group]
        ids = [" ".join(lock.ids_of(hold)) for lock, hold in zip(locks, group, strict=True)]
        semaphores = [lock.key for lock in locks] if self.idle else ()
        return permits_renew([lock.permits for lock in locks], lease, ids, self.idle, semaphores)

    def excludes(self, hold: Any) -> bool:
        del hold
        return False  # nobody need hold all


class Take(Acquire):
    """An acquire of permits: a hold of its own, whatever its owner has already."""

    __slots__ = ()

    def begin(self) -> Eval[Any] | None:
        hold = self.hold = self._lock.new_hold(self._owner, self._lease)
        return self._lock.first(hold, self._deadline)


Permits.acquiring = Take


class LimitedPermits(Permits):
    """At most *limit* at once: the number comes with each call, and there is nothing to set up."""

    kind = "limit"
    tries, asks, releases = LIMITED_TRY, LIMITED_ASK, LIMITED_RELEASE
    _queue_of = staticmethod(limited_queue)

    def __init__(self, session: Session, name: str, key: str, limit: int) -> None:
        self.limit = limit
        super().__init__(session, name, key, wish=f"%{limit}")
        self.key = self.permits = limited_permits(key)
        self.renewed_with = f"limited {self.renewed_with}"

    channel_of = staticmethod(limited_channel)

    def shown(self, permit: Permit) -> str:
        """Return what the ids of *permit* begin with."""
        client, _, number = permit.member.partition(":")
        return f"{client}:{number[:12]}"

    def ids_of(self, permit: Permit) -> tuple[str, ...]:
        return tuple(f"{self.shown(permit)}.{each}" for each in range(self.n))

    def running(self) -> Op[int]:
        return self.session.persist(Eval(LIMITED_QUERY, (self.key,), ()), NEVER)


class LeasedPermits(Permits):
    """Permits of Redisson's leased semaphore."""

    kind = "leased semaphore"
    gone = GIVEN_BACK
    tries, asks, releases = LEASED_TRY, LEASED_ASK, LEASED_RELEASE
    _queue_of = staticmethod(leased_queue)
    channel_of = staticmethod(semaphore_channel)

    def __init__(
        self, session: Session, name: str, key: str, n: int = 1, *, number: LeasedNumber
    ) -> None:
        self.number, self.idle, self.permits = number, number.seconds, permit_leases(key)
        super().__init__(session, name, key, n)
        self.own_keys = (self.permits,)
        self.renewed_with = f"leased {self.idle} {self.renewed_with}"

    def taking(self, n: int) -> LeasedPermits:
        """Return the same, of which one acquire takes *n*."""
        if check_permits(n) > MOST:
            raise ConfigError(f"at most {MOST} permits can be acquired together")
        return LeasedPermits(self.session, self.name, self.key, n, number=self.number)

    def _more(self) -> tuple[str | int, ...]:
        return self.number.makes, self.number.idle

    def shown(self, permit: Permit) -> str:
        return "".join(self.ids_of(permit))

    def ids_of(self, permit: Permit) -> tuple[str, ...]:
        """Return 32 hex digits for each, as Redisson has them."""
        client, _, number = permit.member.partition(":")
        head = client.replace("-", "")[:16].ljust(16, "0")
        return tuple(f"{head}{number[:12]}{each:04}" for each in range(self.n))

    def granted(self, hold: Hold, answer: Any) -> bool:
        """Take the *answer* to a try, as of a lock; warn if there can never be enough."""
        if super().granted(hold, answer):
            return True
        self.number.warn_too_many(self.n, self.number.number)
        return False

    def wait(self, hold: Hold, deadline: float) -> Op[bool]:
        """Wait for *hold*; warn first if nobody has set the number of permits."""
        yield from self.number.note_wait(deadline)
        return (yield from super().wait(hold, deadline))

    def known(self, permit_id: object) -> Permit | None:
        """Return this client's permit with *permit_id*; None if it has none.

        NotHeldError: it is no id. ConfigError: it is one of several that were acquired together.
        """
        permit_id = check_text(permit_id, "a permit's id")
        if not _ID.fullmatch(permit_id):
            raise self._not_held(permit_id)
        for hold in list(self.session.live):
            if isinstance(hold, Permit) and hold.lock.key == self.key and hold.entries:
                if permit_id not in hold.ids:
                    continue
                if len(hold.ids) > 1:
                    raise ConfigError(
                        f"{permit_id} is one of {len(hold.ids)} permits "
                        "that were acquired together; give the permit itself, for all of them"
                    )
                return hold
        return None

    def give_back(self, permit_id: str) -> Op[None]:
        """Give back the permit *permit_id*, which another client has; one round trip.

        Raises:
            NotHeldError: nobody holds it; nothing was changed.

        Source:
            RPermitExpirableSemaphore.release.
        """
        session = self.session
        call = self.forced(permit_id)
        remember(call, self.key, session.client_id)
        if not (yield from session.persist(call, NEVER)):
            raise self._not_held(permit_id)

    def prolong(self, permit_id: str, lease: float) -> Op[None]:
        """Extend the permit *permit_id*, which another client has; errors as of `give_back`.

        Source:
            RPermitExpirableSemaphore.updateLeaseTime, which may also shorten it.
        """
        semaphores = [self.key] if self.idle else ()
        call = permits_renew([self.permits], lease, [permit_id], self.idle, semaphores)
        if (yield from self.session.persist(call, NEVER)) != [True]:
            raise self._not_held(permit_id)

    def of_another(self, name: str) -> Exception:
        """Return the error for a permit of *name*, which is not this semaphore."""
        return not_held(self.kind, self.name, f"a permit of {name!r}")

    def _not_held(self, permit_id: str) -> Exception:
        return not_held(self.kind, self.name, f"permit {permit_id}")
