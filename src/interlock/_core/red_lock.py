"""The red lock: a quorum of locks on independent servers, asked all at once.

A try is good when n // 2 + 1 servers granted it and the shortest-lived of those is still valid when the last answer is in.
Each server is given far less time than the lease, so that one that is down costs that much and no more. Who fails gives back
everywhere, also where the reply is unknown. A server that lost its data (a restart) stays lost for this hold: to write the lock there
anew could give it to two holders.

Source: RedissonRedLock, Redisson 4.7.0 (redisson-wire 7); antirez, "Distributed Locks with Redis"; hazards R-27.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from interlock._core.effects import NEVER, Ask, Away, Settle, undoing
from interlock._core.holds import Hold, State
from interlock._core.joint_hold import JointHold
from interlock._core.multi_lock import Joint
from interlock.errors import HoldLostError, QuorumError, ServerUnavailableError
from interlock.options import check_lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Eval, Op
    from interlock._core.holds import Owner
    from interlock._core.lock_like import LockLike
    from interlock._core.scripts.script import Grant
    from interlock._core.session import Session

SHARE = 50
"""Each server is given this fraction of the lease to answer."""
LEAST_PATIENCE, MOST_PATIENCE = 0.05, 0.5
"""Seconds between which that lies."""


class RedLock(Joint):
    """As many members as make a majority."""

    kind = "red lock"

    def __init__(self, members: Sequence[LockLike]) -> None:
        super().__init__(members)
        self.needed = len(self.members) // 2 + 1
        self._warn()

    def _warn(self) -> None:
        n = len(self.members)
        servers = {member.session.where for member in self.members}
        if n < 3 or n % 2 == 0:  # noqa: PLR2004 - three is the least that survives a failure
            survives = n - self.needed
            text = f"a red lock over {n} servers survives {survives} of them: take an odd number from 3"
        elif len(servers) < n:
            text = (
                f"{n} members on {len(servers)} servers: a server that fails takes several with it"
            )
        else:
            return
        warnings.warn(text, UserWarning, stacklevel=5)

    def acquire(self, owner: Owner, deadline: float, lease: float | None) -> Op[JointHold | None]:
        """Acquire on a quorum of the servers.

        Returns:
            The hold, or None when *deadline* came first; then nothing is held.

        Raises:
            QuorumError: so many servers cannot be reached that there is no quorum; its ``causes`` tell of each.

        Cost:
            One round trip to all servers at once.
        """
        clock = self._session.clock
        lease = None if lease is None else check_lease(lease)
        if self.hold_of(owner) is not None:
            return (yield from self._reenter(owner, lease))
        give_up: float | None = None
        while True:
            held: list[Hold] = []
            failures = yield from undoing(self._try(owner, lease, held), self._undo, held, owner)
            now = clock()
            good = [hold for hold in held if hold.valid(now)]
            if len(good) >= self.needed:
                yield from self._clear([hold for hold in held if hold not in good], owner)
                return JointHold(self, good)
            yield from self._clear(held, owner)
            if len(failures) <= len(self.members) - self.needed:
                give_up = None
            else:
                give_up = give_up or min(deadline, now + self._session.options.outage_timeout)
                hopeless = not any(
                    getattr(error, "transient", False) for error in failures.values()
                )
                if hopeless or clock() >= give_up:
                    raise self._no_quorum(failures)
            if clock() >= deadline:
                return None
            yield from self._pause(deadline)

    def _try(
        self, owner: Owner, lease: float | None, held: list[Hold]
    ) -> Op[dict[str, BaseException]]:
        """Ask every server once; put a hold for each member in *held* and return what failed, server by server."""
        now = self._session.clock()
        calls: list[tuple[Session, Eval[Grant | float]]] = []
        for member in self.members:
            hold = member.new_hold(owner, lease)
            held.append(hold)
            member.session.holds.begin(hold)
            hold.unsettled = True
            until = now + min(max(hold.lease / SHARE, LEAST_PATIENCE), MOST_PATIENCE)
            calls.append((member.session, member.attempt(hold, hold.lease, 1, until)))
        failures: dict[str, BaseException] = {}
        for member, hold, reply in zip(
            self.members, held, (yield from Ask(tuple(calls))), strict=True
        ):
            if isinstance(reply, Exception):
                failures[f"{member.name} at {member.session.where}"] = reply
                hold.unsettled = getattr(reply, "sent", True)
            else:
                _ = member.accept(hold, now, reply)
        return failures

    def _clear(self, holds: Sequence[Hold], owner: Owner) -> Op[None]:
        """Give back what *holds* may have on their servers, all at once; the background goes on where nobody answers."""
        calls: list[tuple[Session, Eval[bool]]] = []
        for hold in holds:
            session = hold.recipe.session
            if hold.state is State.HELD or hold.unsettled:
                call = hold.recipe.release_script(hold, 0)
                call.deadline = session.clock() + LEAST_PATIENCE
                calls.append((session, call))
            if hold.unsettled:
                # Its acquire may still arrive: what is sent for it must not meet a later hold.
                owner.renumber()
            session.holds.end(hold)
        if not calls:
            return
        replies = yield from Ask(tuple(calls))
        for (session, call), reply in zip(calls, replies, strict=True):
            if isinstance(reply, Exception):
                call.deadline = NEVER
                until = session.clock() + session.options.lease
                yield from Away(session, _leave(Settle(call, until)))

    def _undo(self, held: list[Hold], owner: Owner, error: BaseException) -> Op[None]:
        del error
        yield from self._clear(held, owner)

    def _reenter(self, owner: Owner, lease: float | None) -> Op[JointHold]:
        entered: list[Hold] = []
        failures: dict[str, BaseException] = {}
        for member in self.members:
            if member.hold_of(owner) is None:
                continue
            now = member.session.clock()
            try:
                hold = yield from Away(member.session, member.acquire(owner, now, lease))
            except (HoldLostError, ServerUnavailableError) as error:
                failures[f"{member.name} at {member.session.where}"] = error
                continue
            if hold is not None:
                entered.append(hold)
        if len(entered) >= self.needed:
            return JointHold(self, entered)
        yield from self._give_back(entered)
        raise self._no_quorum(failures)

    def _no_quorum(self, failures: dict[str, BaseException]) -> QuorumError:
        return QuorumError(
            f"red lock {self.name!r} needs {self.needed} of {len(self.members)} servers; not available: "
            + "; ".join(f"{where}: {error}" for where, error in failures.items()),
            causes=failures,
        )


def _leave(effect: Settle[bool]) -> Op[None]:
    yield from effect
