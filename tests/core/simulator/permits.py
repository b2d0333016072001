"""Random users of permits with leases: of limits, and of a leased semaphore."""

# The time of the simulated server, and who listens to it.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.core.simulator.judge import TRIPS, client_of, in_order
from tests.core.simulator.schedule import Interrupted
from tests.core.simulator.watcher import Watcher, zset

from interlock._core.model.names import (
    GRANT,
    leased_queue,
    limited_permits,
    limited_queue,
    permit_leases,
)
from interlock._core.objects.number import LeasedNumber
from interlock._core.objects.permits import LeasedPermits, LimitedPermits, Permits
from interlock._core.queue.places import COURTESY, LONGEST_POLL
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from tests.core.simulator import Simulator
    from tests.core.simulator.process import Process
    from tests.core.simulator.watcher import Dump

    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold

NAME, ROUNDS = "name", 6
MARGIN = 2.0
"""Milliseconds by which a lease may end on the server before or after it ends for this judge."""
_MEMBER = re.compile(r"([^:]*):(\d{12})[^*%]*(?:\*(\d+))?(?:%(\d+))?")
"""A member of the queue: client, number, how many permits, and the limit."""


class Wish(NamedTuple):
    """What a member of the queue wants: so many permits of so many, with these ids."""

    n: int
    limit: int
    ids: list[bytes]


class Sharing(Watcher):
    """Who has permits on the server, who waits for them, and whether that may be.

    Args:
        total: how many there are at most.
        leased: whether they are those of a leased semaphore.

    Attributes:
        lock: what one of its users has.
    """

    lock: Permits

    def __init__(self, world: Simulator, total: int, *, leased: bool) -> None:
        super().__init__(world)
        self._total, self._leased = total, leased
        self._permits = permit_leases(NAME) if leased else limited_permits(NAME)
        self._queue = leased_queue(NAME) if leased else limited_queue(NAME)
        keys = (NAME, self._permits) if leased else (self._permits,)
        self.lasting, world.others = keys if leased else (), [keys]
        self._wishes = dict[str, Wish]()
        self._takers = dict[bytes, str]()

    # What the server has.

    def _now(self) -> float:
        """Return the time of the server, in milliseconds."""
        return self.world.network.server._now() * 1000

    def _wish(self, member: str) -> Wish:
        wish = self._wishes.get(member)
        if wish is None:
            found = _MEMBER.fullmatch(member)
            assert found is not None
            client, number, n, most = found.groups()
            several = [f"{client}:{number}.{each}".encode() for each in range(int(n or 1))]
            if self._leased:
                head = client.ljust(16, "0") + number
                several = [bytes.fromhex(f"{head}{each:04}") for each in range(len(several))]
            wish = self._wishes[member] = Wish(len(several), int(most or self._total), several)
            self._takers.update(dict.fromkeys(several, member))
        return wish

    def _standing(self, dump: Dump) -> list[str]:
        found = dump.members.get(self._queue)
        if found is None:
            found = dump.members[self._queue] = in_order(zset(dump, self._queue))
        return list(found)

    def _inside(self, dump: Dump) -> list[str]:
        """Return who has permits whose leases have not ended."""
        now = self._now()
        return self._takers_of([key for key, end in zset(dump, self._permits).items() if end > now])

    def _takers_of(self, ids: list[bytes]) -> list[str]:
        """Return who took the permits with *ids*, as far as it has been seen."""
        return list({self._takers[each]: None for each in ids if each in self._takers})

    def _taken(self, members: Sequence[str]) -> int:
        return sum(self._wish(each).n for each in members)

    def _fits(self, member: str, inside: Sequence[str]) -> bool:
        return self._taken([*inside, member]) <= self._wish(member).limit

    def left(self, hold: Hold, dump: Dump) -> float | None:
        """Return the seconds that are left of *hold* on the server; None if that does not have it."""
        held = zset(dump, self._permits)
        ends = [held.get(each, 0.0) for each in self._wish(hold.member).ids]
        return (min(ends) - self._now()) / 1000 if all(ends) else None

    # Each script.

    def ran(self, call: Eval[object], before: Dump, after: Dump) -> None:
        kind, _, verb = call.script.name.rpartition("_")
        if kind not in ("limited", "leased"):
            return
        asks = verb in ("ask", "release")
        stands = verb == "ask" and len(call.args) > (5 if self._leased else 3)  # or it only tries
        me = str(call.args[0 if verb == "release" else 1]) if asks else ""
        queue, line = self._standing(before), self._standing(after)
        for each in filter(None, [me, *queue]):
            self._wish(each)
        former, inside = self._inside(before), self._inside(after)
        came = [each for each in inside if each not in former]
        self._counts(call, after, came, inside)
        if (came and not asks) or {*former} - {*inside} - ({me} if verb == "release" else set()):
            self.world.fail(f"{verb} of {me} made {inside} of {former}")
        if verb == "release" and (me in inside or me in line):
            self.world.fail(f"{me} has given back its permits, and is there: {inside}, {line}")
        if not asks:
            return
        self._places(me, {*came, *line}, queue, before)
        waiting = [each for each in queue if each in line]
        if not waiting or self._cannot_tell(me, waiting[0], before):
            return
        if any(each not in queue[: queue.index(waiting[0])] for each in came):
            self.world.fail(f"{came} got permits before {waiting[0]} by {verb} of {me}: {queue}")
        stood = me in queue and client_of(me) not in self._late(before, MARGIN)
        # A release does not know the number that the code names, and makes none.
        lacks = self._leased and NAME not in before
        gives = (verb == "release" and not lacks) or (stands and stood)
        if gives and self._fits(waiting[0], inside):
            self.world.fail(f"{waiting[0]} was not let in by {verb} of {me}: {inside}")

    def _counts(
        self, call: Eval[object], after: Dump, came: Sequence[str], inside: Sequence[str]
    ) -> None:
        """Look whether there are too many, or for too long; each who *came* got all, or none."""
        held, now = zset(after, self._permits), self._now()
        if came and self._taken(inside) > max(self._wish(each).limit for each in came):
            self.world.fail(f"{came} got permits beyond their limit: {inside}")
        asked = call.script.name.endswith(("ask", "renew"))
        latest = now + max(float(call.args[0]) if asked else 0.0, 1000 * GRANT) + 1
        if any(
            not now < held.get(one, 0) <= latest for each in came for one in self._wish(each).ids
        ):
            self.world.fail(f"{came} got some of their permits, or for too long: {held} at {now}")
        value: Any = after[NAME].value if self._leased and NAME in after else None
        if value is not None and int(value) + len(held) != self._total:
            self.world.fail(f"{int(value)} permits are free and {len(held)} held")

    def _cannot_tell(self, me: str, first: str, dump: Dump) -> bool:
        """Return whether *me* is of a client without messages, and *first* waits for one."""
        silent = {c.session.client_id for c in self.world.clients if not c.session.publish}
        return client_of(me) in silent and f"{first}?".encode() not in zset(dump, self._queue)

    def _late(self, dump: Dump, margin: float, but: str = "") -> set[str]:
        """Return the clients that did not give back in time, and lose their places by that.

        What *but* has does not count: it is given back now.
        """
        now, held = self._now() + margin, zset(dump, self._permits)
        return {
            client_of(member)
            for member in self._takers_of([key for key, end in held.items() if end <= now])
            if member != but and not member.partition(":")[2].startswith("2")
        }

    def _places(self, me: str, there: set[str], queue: Sequence[str], before: Dump) -> None:
        """Look whether somebody of the *queue* has lost a place who listens, or has kept one."""
        perhaps, late = self._late(before, MARGIN), self._late(before, -MARGIN, me)
        for each in queue:
            client = client_of(each)
            wakes = self.lock.channels(client)[-1].encode()
            hears = f"{each}?".encode() in zset(before, self._queue)
            hears = hears or bool(self.world.network._listeners(wakes))
            if each != me and (
                client in late if each in there else client not in perhaps and hears
            ):
                self.world.fail(f"{each} has lost its place by {me}, or kept it: {there}")

    # Each step.

    def after_step(self, dump: Dump) -> None:
        world, judge = self.world, self.world.judge
        inside, standing = self._inside(dump), self._standing(dump)
        judge.ghosts(self.lock, inside, standing)
        valid = [
            hold.member
            for client in world.clients
            if not client.crashed
            for hold in client.session.live
            if hold.valid(client.clock()) and not judge.excused(hold)
        ]
        if self._taken(valid) > max((self._wish(each).limit for each in valid), default=0):
            world.fail(f"too many are valid: {valid}")
        waiting = [hold.member for hold in judge.waiting()]
        first = next(iter([*standing, *waiting]), "")
        if waiting and self._fits(first, inside) and not world.network.unreachable:
            bound = LONGEST_POLL + 1.5
            if world.schedule.benign and all(each.session.publish for each in world.clients):
                bound = TRIPS * world.latency[1] + 2 * COURTESY
            judge.lasts("free permits", bound, f"{first} waits, and fits beside {inside}")
        else:
            judge.lasts_no_more("free permits")

    def at_rest(self, dump: Dump) -> None:
        if left := [*self._inside(dump), *self._standing(dump)]:
            self.world.fail(f"{left} are left")


def _use(world: Simulator, sharing: Sharing, make: Callable[[Process], Sequence[Permits]]) -> None:
    """Let random processes use what *make* makes for each of them."""
    random, benign = world.random, world.schedule.benign
    world.judge.watcher = sharing

    def begin(me: Process) -> Callable[[], Generator[Any, Any, None]]:
        several = make(me)
        sharing.lock = several[0]

        def turn() -> Generator[Any, Any, None]:
            lease = None if benign else random.choice((None, None, 0.3, 2.5, 5.0))
            timeout = random.choice((0.0, 0.02, 0.5, 3.0, None))
            hold = yield from me.acquire(random.choice(several), timeout, lease)
            if hold is None:
                return
            try:
                yield from me.sleep(random.random() ** 4 * random.choice((0.1, 1.0, 8.0)))
                if random.random() < 0.1:
                    yield from me.perform(hold.extend(random.choice((0.3, 2.5))))
            except (InterlockError, Interrupted):
                yield from me.perform(hold.release())
                raise
            yield from me.perform(hold.release())

        return turn

    world.populate(begin, ROUNDS)


def limit(world: Simulator) -> None:
    """Let random processes share a limit, of which some have another idea than others."""
    most = world.random.randint(1, 3)
    limits = [most, max(1, most - world.random.randint(0, 1))]

    def make(me: Process) -> Sequence[Permits]:
        return [LimitedPermits(me.client.session, NAME, NAME, each) for each in limits]

    _use(world, Sharing(world, most, leased=False), make)


def lend(world: Simulator) -> None:
    """Let random processes share a leased semaphore, of which they take some at a time."""
    total = world.random.randint(1, 4)

    def make(me: Process) -> Sequence[Permits]:
        number = LeasedNumber(me.client.session, NAME, NAME, total)
        sizes = 1, me.random.randint(1, total)
        return [LeasedPermits(me.client.session, NAME, NAME, n, number=number) for n in sizes]

    _use(world, Sharing(world, total, leased=True), make)
