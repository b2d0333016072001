"""The multi lock: all members or none.

    first try    all at once; by one script if they are plain locks of one client
    refused      one member after the other, in one order, each waiting in the queue of its member. So
                 two multi locks never wait for each other in a ring
    too long     others may take the same locks in another order: what it has is given back after a
                 while, and it begins again, each time with more patience
    own lease    is made whole when the last member is held

Source: RedissonMultiLock, Redisson 4.7.0, which tries all of them again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Acquire, Lock
from interlock._core.locks.composite import Composite
from interlock._core.model.effects import Op, Wait, performed, run_on
from interlock._core.model.forms import HOLE, Form
from interlock._core.model.hold import LEAST, Hold
from interlock._core.scripts.locks import LEAVE_ALL, TAKE_ALL
from interlock._core.scripts.replies import milliseconds
from interlock.errors import HoldLostError, NotHeldError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.locks.composite import CompositeHold
    from interlock._core.model.effects import Eval

MEMBER_BUDGET = 1.5
"""Seconds of the first wait for later members, for each member; the next one is twice as long."""
LONGEST_PAUSE = 0.1
"""The longest pause, in seconds, after members were given back."""


class MultiLock(Composite):
    """All of several locks as one."""

    kind = "multi lock"

    def __init__(self, members: Sequence[Lock]) -> None:
        super().__init__(members, len(members))
        session = self.session
        self._by_one_script = (
            all(type(each) is Lock and each.queue and each.session is session for each in members)
            and not session.outside.clustered
            and session.replicas is None
        )
        self._take_all: Form | None = None
        self._leave_all: Form | None = None

    def first(self, hold: Any, deadline: float) -> Eval[Any] | None:
        del deadline
        session, owner = self.session, hold.owner()  # which acquires just now
        table, lines = owner.table, session.lines
        for member in self.members:
            known = member.place in table or (lines and member.channel in lines)
            if known or not self._by_one_script:
                return None
        lease, now = None if hold.renewed else hold.lease, session.clock()
        parts = hold.parts = list[Hold]()
        for member in self.members:
            part = member.new_hold(owner, lease)
            parts.append(part)  # first: whatever ends this gives it up
            table[member.place] = part
            if owner.cell is not None:
                part.come_among(owner.cell)
            session.live[part] = None
            part.sent_at, part.asking = now, True
        take, lasts = self._take_all, milliseconds(hold.lease)
        if take is None or take.args[0] != lasts:
            keys = tuple([member.key for member in self.members])
            take = self._take_all = Form(TAKE_ALL, keys, (lasts, *[HOLE for _ in keys]))
        hold.packed = "".join([part.packed for part in parts])
        return take.of(hold)

    def leave_all(self, hold: CompositeHold, began: float) -> Eval[list[int]] | None:
        session, parts = self.session, hold.parts
        until = began + session.patience
        if not self._by_one_script:
            return None
        for part in parts:
            plain = part.place is None and part.over is None and part.valid_until >= until
            if not plain or len(part.entries) != LEAST or part.entries[-1] is not hold:
                return None
        closed = [part for part in parts if part.leave(hold)]  # or another flow has just entered it
        for part in closed:
            session.live.pop(part, None)  # from here on nobody is told of a loss
            session.recent.append((began, part.lock, part.packed))
            part.leave_owner()
        leave = self._leave_all
        if leave is None or len(leave.keys) != 2 * len(closed):
            locks = [part.lock for part in closed]
            keys = [lock.key for lock in locks] + [lock.queue for lock in locks]
            args = [HOLE for _ in locks] + [lock.channel for lock in locks]
            leave = Form(LEAVE_ALL[session.publish], tuple(keys), tuple(args), len(locks))
        if len(closed) == len(parts):
            self._leave_all = leave
        hold.parts = closed
        hold.packed = "".join([part.packed for part in closed])
        return leave.of(hold) if closed else None

    def obtain(self, hold: CompositeHold, deadline: float, failure: Exception | None) -> Op[bool]:
        if hold.parts:  # one script tried to take all
            if failure is None and self.session.clock() >= deadline:
                return False
            if not getattr(failure, "sent", True):
                for part in hold.parts:
                    part.asking = False
        elif not self._by_one_script:
            yield from self.ask_all(hold)
            if self.keep(hold):
                return True
        hold.give_back()
        yield from self.free(hold)  # or its own parts would be in its way
        # A single try has time for this, too: its connection may have been dead. And a member that
        # is asked alone tells of its key.
        return (yield from self._in_turn(hold, deadline))

    def _in_turn(self, hold: CompositeHold, deadline: float) -> Op[bool]:
        """Acquire the members one after the other, until that succeeds in time."""
        clock, random = self.session.clock, self.session.random
        until, budget = deadline, MEMBER_BUDGET * len(self.members) * (0.75 + random() / 2)
        while True:
            failure: ServerUnavailableError | None = None
            try:
                if (yield from self._collect(hold, until, budget)):
                    return True
            except ServerUnavailableError as error:
                # The first member has waited for the end of the outage.
                if not error.transient or len(hold.steps) == 1:
                    raise
                failure = error
            hold.give_back()
            outage = clock() + self.session.options.outage_timeout
            until = deadline if failure is None else min(until, outage)
            if clock() >= until:
                if failure is not None:
                    raise failure
                return False
            budget *= 2
            yield from Wait(None, min(until, clock() + LONGEST_PAUSE * (0.1 + 0.9 * random())))

    def _collect(self, hold: CompositeHold, deadline: float, budget: float) -> Op[bool]:
        """Acquire one member after the other; the later ones together within *budget* seconds."""
        owner: Any = hold.owner()  # which acquires just now
        clock, lease = self.session.clock, None if hold.renewed else hold.lease
        until, hold.parts, hold.steps = deadline, (), ()
        for member in self.members:
            step = Acquire().of(member, owner, until, lease, hold)
            hold.steps = [*hold.steps, step]
            if (yield from run_on(member.session, performed(step), self.session)) is None:
                return False
            if len(hold.steps) == 1:
                until = min(deadline, clock() + budget)
        if not self.keep(hold):
            return False
        if lease is not None:
            # The first ones have less left: the last one was waited for.
            try:
                yield from self.extend_parts(hold, lease)
            except (HoldLostError, NotHeldError):  # a member is lost
                return False
        return True
