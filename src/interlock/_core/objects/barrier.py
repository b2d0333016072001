"""The barrier: a fixed number of parties wait for each other, in any number of processes.

A party arrives under a number that is never used again. The arrival of the last one ends all of
them in one step, and notes for each how it ended. So parties of two generations are never mixed,
though nothing counts generations, and a copy of whatever a party has sent finds how it ended.

    the party           index     its call
    ----------------    ------    ----------------------------------------------------------
    PENDING             None      arrives, or waits: for a message, or its next look
    PENDING             a number  was told how it ended, and returns or raises
    ENDED               any       is over. If it ended early, the party is garbage: it leaves

A look is the arrival once more, and keeps the party alive. If its process dies, its lease ends, and
the next look or arrival breaks the barrier.

Source: threading.Barrier of Python 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import GRACE, NEVER, Eval, Op, Step
from interlock._core.model.hold import ENDED, Hold
from interlock._core.model.names import barrier_ended, barrier_key, barrier_wakes, draw
from interlock._core.queue.notices import Notices
from interlock._core.queue.places import POLL, news_for, nobody
from interlock._core.scripts.barrier import ARRIVE, END, QUERY
from interlock._core.scripts.replies import LOOK, milliseconds
from interlock.errors import BrokenBarrierError
from interlock.options import check_name, check_number

if TYPE_CHECKING:
    from interlock._core.upkeep.session import Session

MOST = 1_000_000
"""The largest number of parties."""
KEEP = 60.0
"""Seconds for which the server knows how a party has ended, or two leases if they are longer."""


class Party(Hold):
    """Who waits at a barrier, or ends it from outside.

    Attributes:
        index: how it has ended, as it was told: -1 if it did not pass.
        how: what takes it back: "leave", or else "break" or "reset" of one from outside.
    """

    __slots__ = ("how", "index")
    index: int | None
    how: str

    def may_come(self) -> bool:
        return False  # once it has ended, a copy of its arrival does nothing


class Parties(Notices):
    """The parties of one client at one barrier."""

    def hear(self, payload: bytes) -> None:
        """Take the message that a party has ended."""
        number, _, index = payload.partition(b":")
        client: Any = self._client
        party = client.queues.places.get(number)
        if isinstance(party, Party) and party.place is not None:
            party.index = int(index)
            party.place.tell(LOOK)


class Barrier:
    """The operations of one barrier for one client; *base* is its name behind the client's prefix.

    A face may set `error`, which a broken barrier raises.
    """

    kind = "barrier"
    place = ""
    line = Parties

    def __init__(self, session: Session, name: str, base: str, parties: int) -> None:
        self.session, self.name = session, check_name(name)
        self.parties = check_number(parties, "parties", 1, MOST)
        self.key, self._ended = barrier_key(base), barrier_ended(base)
        self._wakes = barrier_wakes(base)
        self._lease = session.options.lease
        self._keep = max(KEEP, 2 * self._lease)
        self.error = BrokenBarrierError

    def __repr__(self) -> str:
        return f"barrier {self.name!r}"

    def party(self, how: str = "leave") -> Party:
        lock: Any = self
        party: Any = Party().of(lock, nobody, f"{self.session.head}{draw()}\r\n", self._lease, True)
        party.index, party.how = None, how
        return party  # type: ignore[no-any-return]

    def arrive(self, party: Party, *look: str) -> Eval[int | None]:
        """Return the script that counts *party*, or keeps it alive if it is a *look*."""
        lease, keep = milliseconds(self._lease), milliseconds(self._keep)
        args: tuple[str | int, ...] = (party.holder, self.parties, lease, keep, self._wakes)
        return Eval(ARRIVE[self.session.publish], (self.key, self._ended), (*args, *look))

    def end(self, party: Party, how: str) -> Eval[int | None]:
        args = (party.holder, how, milliseconds(self._keep), self._wakes)
        return Eval(END[self.session.publish], (self.key, self._ended), args)

    def down(self, hold: Party, depth: int) -> Eval[int | None]:
        del depth
        return self.end(hold, hold.how)

    def channels(self, client: str) -> tuple[str, ...]:
        return (f"{self._wakes}{client}",)

    @property
    def standing(self) -> str:
        return self.channels(self.session.client_id)[0]

    def heard(self) -> bool:
        """Return whether this client hears the messages of the barrier already."""
        line = self.session.lines.get(self.standing)
        return line is not None and line.ready

    def wait(self, deadline: float) -> Arrive:
        return Arrive(self, deadline)

    def abort(self) -> End:
        return End(self, "break")

    def reset(self) -> End:
        return End(self, "reset")

    def status(self) -> Op[tuple[int, bool]]:
        """Return how many parties wait, and whether it is broken; one round trip."""
        waiting, broken = yield from self.session.persist(Eval(QUERY, (self.key,), ()), NEVER)
        return waiting, broken == 1


class Arrive(Step[int]):
    """A wait at *barrier* until *deadline*; the public `Barrier.wait` lists errors and costs."""

    __slots__ = ("_barrier", "_call", "_deadline", "_waits", "party")

    def __init__(self, barrier: Barrier, deadline: float) -> None:
        self._barrier, self._deadline = barrier, deadline
        self.party = barrier.party()
        self._waits = False

    def begin(self) -> Eval[Any]:
        barrier, session = self._barrier, self._barrier.session
        party = self.party
        session.live[party] = None
        party.asking = True  # until it is over: what ends the call early takes it back
        if barrier.heard():  # else it may end before it stands there, and looks once more
            session.queues.stand(party).sent = session.clock()
        call = self._call = barrier.arrive(party)
        call.deadline = max(self._deadline, session.clock() + GRACE)
        return call

    def done(self, answer: int | None) -> bool:
        if answer is None:
            self._waits = True
            return False
        party, barrier = self.party, self._barrier
        barrier.session.queues.forget(party)
        barrier.session.live.pop(party, None)
        party.over = ENDED  # last: whoever is interrupted before takes it back
        if answer < 0:
            text = (
                "broke while this party waited (a timeout, a dead party, abort, reset or lost data)"
                if self._waits
                else "is broken; reset() mends it"
            )
            raise barrier.error(f"{barrier!r} {text}", name=barrier.name)
        self.result = answer
        return True

    def rest(self, failure: Exception | None) -> Op[int]:
        """Wait until the party has ended, and look now and then; or break the barrier at the end."""
        party, barrier, session = self.party, self._barrier, self._barrier.session
        if failure is not None:
            until = max(self._deadline, session.clock() + GRACE)
            if self.done((yield from session.persist(self._call, until, failure=failure))):
                return self.result
        look_at = session.clock() + self._pause()
        while True:
            _ = yield from news_for(party, min(self._deadline, look_at))
            if party.index is not None:
                _ = self.done(party.index)
                return self.result
            now = session.clock()
            if now >= self._deadline:
                return (yield from self._time_is_up(party))
            session.queues.stand(party).sent = now
            look = barrier.arrive(party, "1")
            if self.done((yield from session.persist(look, self._deadline))):
                return self.result
            look_at = session.clock() + self._pause()

    def _pause(self) -> float:
        session = self._barrier.session
        # At different times: they may all have arrived at once.
        return min(POLL, session.options.lease / 3) * (0.75 + session.random() / 4)

    def _time_is_up(self, party: Party) -> Op[int]:
        """Break the barrier; but if the party has passed meanwhile, return its index."""
        barrier, session = self._barrier, self._barrier.session
        until = session.clock() + max(GRACE, session.patience)
        _ = self.done((yield from session.persist(barrier.end(party, "break"), until)))
        return self.result

    def give_up(self) -> None:
        """Take the arrival back, unless the party has ended; a repetition goes on where one stopped."""
        self._barrier.session.give_up(self.party)


class End(Step[None]):
    """Break *barrier*, or make it new; carried through if it is interrupted."""

    __slots__ = ("_party",)
    result = None

    def __init__(self, barrier: Barrier, how: str) -> None:
        self._party = barrier.party(how)

    def begin(self) -> Eval[Any]:
        self._party.asking = True  # from here on it is garbage if anything ends this early
        return self._party.lock.down(self._party, 0)

    def done(self, answer: int | None) -> bool:
        del answer
        self._party.over = ENDED
        return True

    def rest(self, failure: Exception | None) -> Op[None]:
        session, call = self._party.lock.session, self._party.lock.down(self._party, 0)
        _ = self.done((yield from session.persist(call, NEVER, failure=failure)))

    def give_up(self) -> None:
        if self._party.asking:
            self._party.lock.session.give_up(self._party)
