"""Random parties at a barrier under random faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.core.simulator.watcher import Watcher, zset

from interlock._core.model.effects import NEVER
from interlock._core.objects.barrier import Barrier
from interlock.errors import BrokenBarrierError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.core.simulator import Simulator
    from tests.core.simulator.process import Process
    from tests.core.simulator.watcher import Dump

    from interlock._core.model.effects import Eval

ROUNDS = 5
FORGETS = {"restart", "failover"}
"""Faults after which the server may not know who has ended."""


class Meetings(Watcher):
    """How the parties of *world* have ended on the server, and whether that may be.

    Attributes:
        ended: each party's index; -1 if it did not pass.
    """

    def __init__(self, world: Simulator) -> None:
        super().__init__(world)
        self.ended: dict[str, int] = {}
        self._forgets = bool(FORGETS & set(world.schedule.rates))

    def ran(self, call: Eval[object], before: Dump, after: Dump) -> None:
        waiting, notes = call.keys[:2] if len(call.keys) > 1 else ("", "")
        if not notes:
            return
        old, new = (
            {
                key.decode(): int(abs(score)) % 10**6 if score > 0 else -1
                for key, score in zset(each, notes).items()
            }
            for each in (before, after)
        )
        me, world = str(call.args[0]), self.world
        changed = {party for party in old.keys() & new.keys() if old[party] != new[party]}
        if changed:
            world.fail(f"{changed} ended twice: {old} became {new}")
        came = {party: index for party, index in new.items() if party not in old}
        passed = {party: index for party, index in came.items() if index >= 0}
        stood = zset(before, waiting)
        if passed:
            if sorted(passed.values()) != list(range(int(call.args[1]))):
                world.fail(f"{passed} passed by {call.args}")
            if b"" in stood:
                world.fail(f"a broken barrier let {passed} pass")
            now = world.network.server._now() * 1000  # pyright: ignore[reportPrivateUsage]
            dead = [party for party, ends in stood.items() if ends < now - 1]
            if dead:
                world.fail(f"{passed} passed though {dead} were dead")
        if me in old and (came or zset(after, waiting) != stood):
            world.fail(f"a copy of {call.args} changed something: {came}")
        self.ended.update(came)

    def met(self, party: str, index: int) -> None:
        if not self._forgets and self.ended.get(party) != index:
            self.world.fail(f"{party} was told {index}, and ended with {self.ended.get(party)}")

    def at_rest(self, dump: Dump) -> None:
        """Look whether a party of a living client is left."""
        crashed = {each.session.client_id for each in self.world.clients if each.crashed}
        for key, stored in dump.items():
            value: Any = stored.value
            left = [
                each for each in value if each.partition(b":")[0].decode() not in {*crashed, ""}
            ]
            if key.startswith("interlock_barrier:") and left:
                self.world.fail(f"{left} are left at {key}")


def meet(world: Simulator) -> None:
    random, benign = world.random, world.schedule.benign
    meetings = world.judge.watcher = Meetings(world)

    def begin(me: Process) -> Callable[[], Generator[Any, Any, None]]:
        barrier = Barrier(me.client.session, "name", "name", parties)

        def turn() -> Generator[Any, Any, None]:
            timeout = NEVER if benign else random.choice((0.0, 0.5, 5.0, 20.0))
            step = barrier.wait(me.client.clock() + timeout)
            try:
                index = yield from me.perform(step)
                meetings.met(step.party.holder, index)
            except BrokenBarrierError:
                meetings.met(step.party.holder, -1)
                if benign:
                    raise
                ends = barrier.reset if random.random() < 0.7 else barrier.abort
                yield from me.perform(ends())

        return turn

    world.populate(begin, ROUNDS)
    many = sum(len(client.processes) for client in world.clients)
    parties = many if benign else random.randint(1, many)
