"""The barrier: a fixed number of parties wait for each other, in any number of processes.

Theory. A hash has the number of the present generation. A sorted set has its parties, each with
the end of its lease. The arrival of the last party ends the generation: in one step, the script
draws a larger number and empties the set. A party knows its generation, and asks how that one
ended. So parties of two generations are never mixed, and a late party learns what it missed.

Rules:

* A party is a hold: the client renews it while it waits. If its process dies, its lease ends, and
  the next look breaks the barrier.
* The end of a generation is final. One look serves all parties of a client.
* A generation that has passed is noted. If one is neither present nor noted, it did not pass: the
  barrier was reset, or the server has lost its data.
* An arrival that is sent twice counts once. An interrupted arrival is taken back. Late copies of an
  arrival that was taken back or refused do not count.

Source: threading.Barrier of Python 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from interlock._core.model import names
from interlock._core.model.effects import NEVER
from interlock._core.model.holds import Hold, Owner
from interlock._core.objects.leased_waiters import MOST, LeasedWaiters
from interlock._core.queue.lines import section
from interlock._core.queue.waiting import wait_in_queue
from interlock._core.scripts import barrier as scripts
from interlock.errors import BrokenBarrierError, ConfigError
from interlock.options import check_number

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op, Step
    from interlock._core.scripts.barrier import Arrival
    from interlock._core.upkeep.idempotency import IdempotentCall
    from interlock._core.upkeep.session import Session

GIVING_UP = 0.15
"""Seconds after its deadline that a party has to arrive, or to learn how its generation ended."""
REMEMBERED = 10_000
"""Generations whose end a client remembers, at least; the server remembers as many that passed."""


class Barrier(LeasedWaiters):
    """The operations of one barrier for one client.

    Args:
        session: the client's state.
        name: what the user calls it.
        parties: how many wait for each other.

    Attributes:
        error: the error that a broken barrier raises.
    """

    kind = "barrier"

    def __init__(self, session: Session, name: str, parties: int) -> None:
        super().__init__(session, name, names.barrier_parties)
        self.parties = check_number(parties, "parties", 1, MOST)
        self.error = BrokenBarrierError

    def wait(self, deadline: float) -> Step[int]:
        """Wait until all parties have arrived; return the index of this one, from 0 on.

        The public `Barrier.wait` lists errors and costs.
        """
        last: list[Hold] = []
        return self._waiting(self._wait(deadline, last), last)

    def _wait(self, deadline: float, last: list[Hold]) -> Op[int]:
        """Wait as `wait` does; *last* gets the party, so that the step undoes it."""
        owner = Owner(f"a party of barrier {self.name!r}")  # it keeps the party alive
        request = self._calls.begin(deadline)
        party = Hold(self, owner, request.id, self._lease, self.renewal)
        last.append(party)
        try:
            return (yield from self._arrive_and_wait(party, request, deadline))
        except GeneratorExit:
            # An abandoned wait is not undone, but a PENDING hold must not stay in the table.
            self.session.holds.unreserve(party)
            raise

    def _arrive_and_wait(self, party: Hold, request: IdempotentCall, deadline: float) -> Op[int]:
        session = self.session
        session.holds.begin(party)
        call = scripts.barrier_arrive(
            *(self._place(), request, party.holder, self.parties, self._lease, self._kept),
            deadline=max(deadline, session.clock() + GIVING_UP),
        )
        sent_at = session.clock()
        party.sent()
        arrival = yield from self._calls.send(request, call)
        self._calls.end(request)
        if arrival.place < 0:
            party.uncount_try()
        elif party.grant(None, sent_at, session.clock()):
            session.watchdog.watch(party)
        passed = yield from self._await_end(party, arrival, deadline)
        # Nothing is left to undo, however its wait ended.
        party.gave_back()
        session.holds.end(party)
        if arrival.place == -1:
            raise self.error(f"barrier {self.name!r} is broken; reset() mends it", name=self.name)
        if not passed:
            cause = "a timeout, a dead party, abort, reset or lost data"
            raise self.error(
                f"barrier {self.name!r} broke while this party waited ({cause})", name=self.name
            )
        return arrival.place

    def _await_end(self, party: Hold, arrival: Arrival, deadline: float) -> Op[bool]:
        """Wait until the generation of *arrival* ends; return whether all its parties came."""
        session = self.session
        if arrival.place == -2:  # noqa: PLR2004 - as the script says
            raise ConfigError(
                f"barrier {self.name!r} has {arrival.generation} parties, not {self.parties}"
            )
        if arrival.place == -1 or arrival.place + 1 == self.parties:
            return arrival.place >= 0
        ends = _ends_of(session, self.key)
        generation = arrival.generation
        # Each generation has a queue of its own. In a shared queue a party of the next generation
        # could stand in front. It would block the others, and yet need their next arrivals.
        line = section(self._place().channel, generation)
        waiting = wait_in_queue(
            session, line, deadline, None, self._look, ends, generation, deadline
        )
        if not (yield from waiting):
            limit = session.clock() + max(GIVING_UP, session.options.command_timeout)
            return (yield from self._give_up(party, generation, limit))
        return ends.passed(generation)

    def _give_up(self, party: Hold, generation: str, limit: float = NEVER) -> Op[bool]:
        """Break *generation*, if *party* is still in it; return whether it had passed before."""
        call = scripts.barrier_look(
            self._place(), generation, self._kept, party.holder, deadline=limit
        )
        return (yield from self.session.persist(call)) is True

    def _look(self, ends: _Ends, generation: str, deadline: float) -> Op[float | None]:
        """Look once; return the seconds until a party may be dead.

        None if *generation* has ended.
        """
        if ends.knows(generation):
            return None
        call = scripts.barrier_look(self._place(), generation, self._kept, deadline=deadline)
        stand = yield from self.session.persist(call)
        if not isinstance(stand, bool):
            return stand
        ends.note(generation, passed=stand)
        return None

    def abort(self) -> Step[bool]:
        """Break it: parties that wait, or come before a `reset`, get BrokenBarrierError.

        It is carried through even if it is interrupted. One round trip.
        """
        return self._calls.carried_through(lambda call: self._end_script(call, "abort"))

    def reset(self) -> Step[bool]:
        """Make it empty and whole; waiting parties get BrokenBarrierError. Otherwise as `abort`."""
        return self._calls.carried_through(lambda call: self._end_script(call, "reset"))

    def status(self) -> Op[tuple[int, bool]]:
        """Return how many parties wait, and whether it is broken; one round trip."""
        return (yield from self.session.persist(scripts.barrier_query(self._place())))

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes back the arrival of *hold*; *depth* is not used."""
        del depth
        # A delayed copy of the arrival must not count for a party that has left.
        request = names.own_request(self._base, hold.holder)
        return scripts.barrier_leave(self.key, request, hold.holder, self._calls.ttl())

    def _end_script(self, call: IdempotentCall, how: str) -> Eval[bool]:
        return scripts.barrier_end(self._place(), call, how, self._kept)

    def _place(self) -> scripts.Barrier:
        base = self._base
        return scripts.Barrier(
            names.barrier_key(base),
            self.key,
            names.barrier_passed(base),
            self.session.publish,
            names.barrier_channel(base),
        )


class _Ends:
    """How the last generations of a barrier ended, as far as this client knows."""

    __slots__ = ("__weakref__", "_ends")

    def __init__(self) -> None:
        self._ends: dict[str, bool] = {}

    def knows(self, generation: str) -> bool:
        return generation in self._ends

    def passed(self, generation: str) -> bool:
        return self._ends.get(generation, False)

    def note(self, generation: str, *, passed: bool) -> None:
        ends = self._ends
        ends[generation] = passed
        if len(ends) > 2 * REMEMBERED:
            # A client whose parties never all leave keeps this object.
            for old in list(ends)[:-REMEMBERED]:
                _ = ends.pop(old, None)


_all_ends: WeakKeyDictionary[Session, WeakValueDictionary[str, _Ends]] = WeakKeyDictionary()
"""By client and key, while somebody waits there."""


def _ends_of(session: Session, key: str) -> _Ends:
    return _all_ends.setdefault(session, WeakValueDictionary()).setdefault(key, _Ends())
