"""The invariant of the server's queue: who stands in it comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock._core.locks.read_write_lock import WriteLock
from interlock._core.locks.spin_lock import SpinLock
from interlock._core.locks.started_lock import StartedLock
from interlock._core.locks.transfer import LEFT_MARK, TICKET_MARK
from interlock._core.model import names
from interlock._core.model.holds import CLAIM, Permit
from interlock._core.queue.policy import LEFT_EVERY

if TYPE_CHECKING:
    from interlock._core.locks.lock_base import LockBase
    from tests.support.simulator.rules import Dump, Dumps
    from tests.support.simulator.world import World

_WRITES = names.writer("")
_OF_NO_CLIENT = (TICKET_MARK, LEFT_MARK)


class _Look(NamedTuple):
    """One lock at the last look.

    Attributes:
        holder: its field; None when it is free, or read.
        ends_at: when its lease ends, or the readers' longest.
        queue: the clients, the first in front.
        read: whether it has readers.
        claimed: whether it was given to its holder, which has not taken it yet.
    """

    holder: str | None = None
    ends_at: float = 0.0
    queue: tuple[str, ...] = ()
    read: bool = False
    claimed: bool = False


class _Standing:
    """A client in the queue: since when, how often it was overtaken, and how often it may be."""

    def __init__(self, since: float, lapses: int) -> None:
        self.since = since
        self.overtaken = 0
        self.lapses = lapses


class BoundedOvertaking:
    """I-13: a client in the queue is overtaken once in two seconds at most, and takes its claims.

    Once more for each lease or claim that ended meanwhile: then nobody knows that the lock is free,
    and the first who looks takes it. Once more for each forced release, too, which tells everybody
    at once. Where nothing goes wrong, no claim ends unused.

    Of a read/write lock only writers count: many read together. Clients that wait to read stand in
    no queue, and listen. So the lock is left to them once for each client in front, and once for
    the client itself. A writer may come then.
    """

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str, str], _Look] = {}
        self._standing: dict[tuple[tuple[str, str, str], str], _Standing] = {}
        self._disturbed_at = 0.0

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every lock of one owner that has a queue."""
        if self._disturbed_at != simulator.disturbed_at:
            # A restart or an operator may have changed anything.
            self._disturbed_at = simulator.disturbed_at
            self._looks.clear()
            self._standing.clear()
        elif not simulator.changed:
            return  # as time goes by, more may be overtaken, never fewer
        for place, lock in simulator.locks.items():
            queued = isinstance(lock, StartedLock) and not isinstance(lock, SpinLock)
            if queued and not lock.shared:
                self._look_at(simulator, place, lock, dumps[lock.session.where])

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""

    def _look_at(
        self, simulator: World, place: tuple[str, str, str], lock: LockBase, dump: Dump
    ) -> None:
        [network] = [n for n in simulator.networks if n.where == lock.session.where]
        first = place not in self._looks
        before = self._looks.get(place, _Look())
        now = _look(lock, dump, network.viewed_at)
        if before.holder == now.holder and not before.claimed:
            now = now._replace(claimed=False)
        self._looks[place] = now
        ended = before.holder is not None and now.holder != before.holder
        emptied = before.read and not now.read
        lapsed = (ended or emptied) and network.viewed_at >= before.ends_at
        # No release: a writer has found that all readers had died.
        lapsed = lapsed or (emptied and now.holder is not None and not _is_claim(now.holder))
        if lapsed and before.holder is not None and before.claimed:
            self._unused(simulator, lock, before.holder)
        if now.holder is not None and now.holder != before.holder:
            self._granted(place, before, now)
        shared = isinstance(lock, WriteLock)
        # At the first look count a lapse: a restart or an operator may have freed the lock.
        lapsed |= simulator.doubts.take_told_all(network.where, lock.key) or first
        self._update(simulator, place, before, now, lapses=int(lapsed), shared=shared)
        for client in now.queue:
            standing = self._standing[place, client]
            # The spans are those of the server's clock. So a short wait may touch two of them.
            waited = simulator.now // LEFT_EVERY - standing.since // LEFT_EVERY
            turns = 1 + int(waited)
            if standing.overtaken > turns + standing.lapses:
                simulator.fail(
                    f"I-13: {client} waits for {lock.key!r} since {standing.since:.4f},"
                    f" and was overtaken {standing.overtaken} times"
                )

    @staticmethod
    def _unused(simulator: World, lock: LockBase, claim: str) -> None:
        """Look at a claim that nobody has taken."""
        if simulator.schedule.benign and not simulator.disturbed_at:
            simulator.fail(f"I-13: {lock.key!r} was given to {claim} in vain")

    def _granted(self, place: tuple[str, str, str], before: _Look, now: _Look) -> None:
        """Count who was before the client that has got the lock, or was given it."""
        assert now.holder is not None
        client = now.holder.partition(":")[0]
        if before.holder is not None and before.holder.partition(":")[0] == client:
            return  # it was given it before
        if now.holder.startswith(_OF_NO_CLIENT):
            return  # it is handed over
        if (before.holder or "").startswith(_OF_NO_CLIENT) and not now.claimed:
            return  # the ticket is taken
        for other in before.queue:
            if other == client:
                break
            if other in now.queue:
                self._standing[place, other].overtaken += 1
        _ = self._standing.pop((place, client), None)

    def _update(
        self,
        simulator: World,
        place: tuple[str, str, str],
        before: _Look,
        now: _Look,
        *,
        lapses: int,
        shared: bool,
    ) -> None:
        """Note who stands in the queue now."""
        for client in {*before.queue} - {*now.queue}:
            _ = self._standing.pop((place, client), None)
        for ahead, client in enumerate(now.queue):
            standing = self._standing.get((place, client))
            if standing is None:
                spare = ahead + 1 if shared else 0
                self._standing[place, client] = _Standing(simulator.now, lapses + spare)
            else:
                standing.lapses += lapses


def _look(lock: LockBase, dump: Dump, at: float) -> _Look:
    stored, queue = dump.get(lock.key), dump.get(names.waiting_queue(lock.channel))
    places = queue.value if queue is not None and isinstance(queue.value, dict) else {}
    # Those that begin with a colon are no clients: they tell when the lock was left to others.
    members = [each for each in places if not each.startswith(b":")]
    order = sorted(members, key=lambda each: places[each])
    # A client may stand there in the name of a holder.
    clients = tuple(dict.fromkeys(member.decode().partition(":")[0] for member in order))
    if stored is None or not isinstance(stored.value, dict):
        return _Look(queue=clients)
    holders = [field.decode() for field in stored.value]
    ends_at = at + (stored.ttl or 0) / 1000
    holder: str | None = holders[0]
    if "mode" in holders:
        holder = next((each for each in holders if each.endswith(_WRITES)), None)
    claimed = holder is not None and (
        _is_claim(holder) or CLAIM * 800 < (stored.ttl or 0) <= CLAIM * 1000
    )
    return _Look(holder, ends_at, clients, read=holder is None, claimed=claimed)


def _is_claim(holder: str) -> bool:
    return holder.removesuffix(_WRITES).endswith(":0")


class PermitsInOrder:
    """I-13 for semaphores: nobody in the queue gets permits before one who came earlier.

    Unless the earlier one wants more. Those without a place are not counted: they find the number
    as it is. This is for simulations of semaphores; they are no locks, and have no holders.
    """

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], tuple[dict[str, float], int]] = {}

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every semaphore that has a queue."""
        for where, dump in dumps.items():
            for key in list(dump):
                queue = names.waiting_queue(names.semaphore_channel(key))
                if isinstance(dump[key].value, bytes) and (
                    queue in dump or (where, key) in self._looks
                ):
                    self._look_at(simulator, (where, key), dump, queue)

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""

    def _look_at(self, simulator: World, place: tuple[str, str], dump: Dump, queue: str) -> None:
        stored, number = dump.get(queue), dump[place[1]].value
        assert isinstance(number, bytes)
        scores = stored.value if stored is not None and isinstance(stored.value, dict) else {}
        now = {member.decode(): float(score) for member, score in scores.items()}
        before, had = self._looks.get(place, ({}, 0))
        self._looks[place] = now, int(number)
        woken = [each[1:] for each in now if each[0] == "+" and before.get(each) != now[each]]
        if int(number) < had:
            woken += [each for each in before if each not in now and f"+{each}" not in before]
        for member in woken:
            came = before.get(member, now.get(member, 0.0))
            for other, since in before.items():
                passed = other[0] != "+" and since < came and now.get(other) == since
                if passed and f"+{other}" not in now and _wants(other) <= _wants(member):
                    simulator.fail(f"I-13: {member} gets permits of {place[1]!r} before {other}")


class PermitsExclude:
    """I-02 and I-03 for leased permits: no more are valid than there are; the server has each.

    Args:
        total: how many permits there are.
    """

    def __init__(self, total: int) -> None:
        self._total = total

    def after_step(self, simulator: World, dumps: Dumps) -> None:
        """Look at every permit that its client believes in."""
        valid = 0
        for client in simulator.clients:
            if client.crashed or not client.session.holds.table:
                continue
            now, where = client.clock(), client.network.where
            for hold in client.session.holds.snapshot():
                if isinstance(hold, Permit) and hold.valid(now):
                    valid += len(hold.ids)
                    stored = dumps[where].get(names.permit_leases(hold.key))
                    ends = stored.value if stored and isinstance(stored.value, dict) else {}
                    if any(bytes.fromhex(each) not in ends for each in hold.ids):
                        simulator.fail(f"I-03: the server does not have {hold!r}")
        if valid > self._total:
            simulator.fail(f"I-02: {valid} permits of {self._total} are valid")

    def at_rest(self, simulator: World, dumps: Dumps) -> None:
        """Do nothing more."""


def _wants(member: str) -> int:
    return int(member.rpartition(":")[2]) if ":" in member else 1
