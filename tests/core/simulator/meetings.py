"""Random parties at a barrier under random faults.

``python -m tests.core.simulator.meetings --seeds 1000`` plays them, and so do the tests.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.core.simulator import Simulator
from tests.core.simulator.schedule import Interrupted
from tests.core.simulator.workload import PROFILES

from interlock._core.model.effects import NEVER
from interlock._core.objects.barrier import Barrier
from interlock.errors import BrokenBarrierError, InterlockError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from tests.core.simulator.process import Process

    from interlock._core.model.effects import Eval

ROUNDS = 5
FORGETS = {"restart", "failover"}
"""Faults after which the server may not know who has ended."""


class Meetings:
    """How the parties of *world* have ended on the server, and whether that may be.

    Attributes:
        ended: each party's index; -1 if it did not pass.
    """

    def __init__(self, world: Simulator) -> None:
        self._world = world
        self.ended: dict[str, int] = {}
        self._forgets = bool(FORGETS & set(world.schedule.rates))

    def ran(self, call: Eval[object], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Look at what *call* did at a barrier."""
        waiting, notes = call.keys[:2] if len(call.keys) > 1 else ("", "")
        if not notes:
            return
        old, new = (
            {
                key.decode(): int(abs(score)) % 10**6 if score > 0 else -1
                for key, score in each.items()
            }
            for each in (_zset(before, notes), _zset(after, notes))
        )
        me, world = str(call.args[0]), self._world
        changed = {party for party in old.keys() & new.keys() if old[party] != new[party]}
        if changed:
            world.fail(f"{changed} ended twice: {old} became {new}")
        came = {party: index for party, index in new.items() if party not in old}
        passed = {party: index for party, index in came.items() if index >= 0}
        stood = _zset(before, waiting)
        if passed:
            if sorted(passed.values()) != list(range(int(call.args[1]))):
                world.fail(f"{passed} passed by {call.args}")
            if b"" in stood:
                world.fail(f"a broken barrier let {passed} pass")
            now = world.network.server._now() * 1000  # pyright: ignore[reportPrivateUsage]
            dead = [party for party, ends in stood.items() if ends < now - 1]
            if dead:
                world.fail(f"{passed} passed though {dead} were dead")
        if me in old and (came or _zset(after, waiting) != stood):
            world.fail(f"a copy of {call.args} changed something: {came}")
        self.ended.update(came)

    def met(self, party: str, index: int) -> None:
        """Look whether *party*, which was told *index*, has ended so."""
        if not self._forgets and self.ended.get(party) != index:
            self._world.fail(f"{party} was told {index}, and ended with {self.ended.get(party)}")

    def at_rest(self) -> None:
        """Look whether a party of a living client is left."""
        crashed = {each.session.client_id for each in self._world.clients if each.crashed}
        for key, stored in self._world.network.view().items():
            value: Any = stored.value
            left = [
                each for each in value if each.partition(b":")[0].decode() not in {*crashed, ""}
            ]
            if key.startswith("interlock_barrier:") and left:
                self._world.fail(f"{left} are left at {key}")


def _zset(dump: Mapping[str, Any], key: str) -> dict[bytes, float]:
    return dict(dump[key].value) if key in dump else {}


def prepare(seed: int) -> Simulator:
    """Return a simulation of random parties."""
    world = Simulator(seed, PROFILES[seed % len(PROFILES)])
    random, benign = world.random, world.schedule.benign
    meetings = world.judge.meetings = Meetings(world)
    many = random.randint(1, 5)
    parties = many if benign else random.randint(1, many)

    def program(me: Process) -> Generator[Any, Any, None]:
        barrier = Barrier(me.client.session, "name", "name", parties)
        for _ in range(ROUNDS):
            yield from me.sleep(random.random() ** 3)
            timeout = NEVER if benign else random.choice((0.0, 0.5, 5.0, 20.0))
            step = barrier.wait(me.client.clock() + timeout)
            try:
                index = yield from me.perform(step)
                meetings.met(step.party.holder, index)
            except BrokenBarrierError:
                if benign:
                    world.fail(f"without any fault the barrier broke for {me.name}")
                meetings.met(step.party.holder, -1)
                ends = barrier.reset if random.random() < 0.7 else barrier.abort
                with suppress(InterlockError, Interrupted):
                    yield from me.perform(ends())
            except (InterlockError, Interrupted) as error:
                if benign:
                    world.fail(f"without any fault {me.name} got {error!r}")

    clients = [
        world.client(Options(lease=6.0, command_timeout=0.5, outage_timeout=2.0))
        for _ in range(random.randint(1, many))
    ]
    if random.random() < 0.2:
        random.choice(clients).session.publish = ""
    for number in range(many):
        clients[number % len(clients)].spawn(program)
    return world


def play(seed: int) -> Simulator:
    """Run one simulation to its end; errors as `workload.play`."""
    world = prepare(seed)
    world.run()
    return world


def main() -> None:
    """Play the seeds that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    asked = parser.parse_args()
    began, passed, ended = time.monotonic(), 0, 0
    for seed in range(asked.start, asked.start + asked.seeds):
        try:
            known = play(seed).judge.meetings.ended  # type: ignore[union-attr]
        except BaseException as error:
            error.add_note(f"--start {seed} --seeds 1")
            raise
        passed, ended = passed + sum(each >= 0 for each in known.values()), ended + len(known)
    seconds = time.monotonic() - began
    print(f"{asked.seeds} seeds, {passed} of {ended} passed, {seconds:.1f} s: all is well")


if __name__ == "__main__":
    main()
