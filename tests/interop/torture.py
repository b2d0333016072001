"""Everything at once: ``python -m tests.interop.torture --seconds 60 --seed 7``.

Three processes use the same objects at random: four threads in Java, four in Python and four
asyncio tasks. Meanwhile the processes are paused and killed. `intervals` judges what they saw. The
seed decides what everybody does. The machine decides the order.

Connections of the Python processes stand still, are given up, and come alive after later calls were
answered, so that commands arrive twice, and late.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.support.again import again
from tests.support.proxy import FaultProxy, delay
from tests.support.servers import RedisServer

from .agent import Agent
from .java import NEW, java_agent
from .shared import LEASE, OBJECTS, Slot
from .toil import Toil

PEER = Path(__file__).with_name("peer.py")
LANES = 4
STALL = 3.0
"""Seconds for which a connection stands still, at most: longer than the command time-out of 1 s."""


class Torture:
    """One run.

    Args:
        seed: decides what everybody does.
        seconds: how long.
        logs: a directory.
    """

    def __init__(self, seed: int, seconds: float, logs: Path) -> None:
        self.seed = seed
        self.done: Counter[str] = Counter()
        self._seconds = seconds
        self._logs = logs
        self._toil = Toil()

    def run(self) -> list[str]:
        with RedisServer() as server, FaultProxy(("127.0.0.1", server.port)) as self._proxy:
            self._toil.until = time.monotonic() + self._seconds + 3
            slots = [
                Slot(language, lambda language=language: self._start(language, server))
                for language in ("java", "sync", "asyncio")
            ]
            try:
                self._play(slots)
            finally:
                for slot in slots:
                    slot.agent.kill()
            return [*self._toil.faults(), *self._left_over(server)]

    def _start(self, language: str, server: RedisServer) -> Agent:
        log = self._logs / f"{language}.log"
        if language == "java":
            agent = java_agent(NEW, log).__enter__()
            agent.connect(addresses=[server.url()], lease=LEASE, fair_wait=LEASE)
        else:
            agent = Agent(language, [sys.executable, str(PEER), language], log).__enter__()
            options = {"lease": LEASE, "fair_wait": LEASE, "command_timeout": 1.0}
            agent.connect(url=self._proxy.url(), options=options)
        return agent

    def _play(self, slots: list[Slot]) -> None:
        self._toil.set_up(slots[1].agent)
        workers = [
            threading.Thread(
                target=self._toil.work,
                args=(slot, lane, random.Random(f"{self.seed} {slot.language} {lane}")),
                name=f"{slot.language} {lane}",
            )
            for slot in slots
            for lane in range(LANES)
        ]
        for worker in workers:
            worker.start()
        self._trouble(slots, random.Random(f"{self.seed} trouble"))
        for worker in workers:
            worker.join(90)
        stuck = [worker.name for worker in workers if worker.is_alive()]
        if stuck:
            raise TimeoutError(f"these never came back: {stuck}")
        self.done = self._toil.done

    def _trouble(self, slots: list[Slot], chance: random.Random) -> None:
        """Pause and kill processes until the time is over."""
        while (left := self._toil.until - 3 - time.monotonic()) > 0:
            time.sleep(min(left, chance.uniform(1.0, 3.0)))  # trouble in real time
            slot = chance.choice(slots)
            if chance.random() < 0.4:
                self._stall(slots[1:], chance)
            elif chance.random() < 0.5:
                slot.pause(chance.choice([0.3, 1.0, 0.5 * LEASE, 1.3 * LEASE]))
                self.done[f"pause of {slot.language}"] += 1
            else:
                with self._toil.no_permits_in_flight():
                    slot.kill_and_restart()
                self.done[f"kill of {slot.language}"] += 1
        self._toil.done += self.done

    def _stall(self, slots: list[Slot], chance: random.Random) -> None:
        nth, number = chance.randint(2, 30), itertools.count(1)
        began = time.monotonic()
        excuses = [(began, began + 4 * STALL)]
        for slot in slots:
            slot.pauses += excuses
        self._proxy.on_request(lambda _: next(number) % nth == 0, delay(chance.uniform(1.2, STALL)))
        time.sleep(chance.uniform(0.3, 1.5))  # a stall in real time
        self._proxy.clear_rules()
        self.done["stalls"] += 1

    def _left_over(self, server: RedisServer) -> list[str]:
        time.sleep(LEASE + 1)  # all leases of a real server end
        faults = []
        with server.client() as client:
            for key in client.scan_iter():
                stays = (b"redisson_lock_token", b"permits", b"{leased}", b"leased", b"latch")
                stays += (b"interlock_semaphore_total:",)
                queue = key.startswith((b"redisson_lock_queue", b"redisson_lock_timeout"))
                if client.pttl(key) == -1 and not key.startswith(stays) and not queue:
                    faults.append(f"{key!r} is left over: {client.dump(key)!r}")
            free = int(client.get("permits") or 0)
            least, most = self._toil.permits_expected()
            if not least <= free <= most:
                faults.append(f"of the semaphore's permits {free} are free, not {least} to {most}")
        return faults + self._leased_left(server)

    def _leased_left(self, server: RedisServer) -> list[str]:
        agent, what = self._start("sync", server), {"kind": "leased_semaphore", "name": "leased"}
        counts = [agent.ask("t", do, **what) for do in ("available_permits", "permits")]
        agent.kill()
        total = OBJECTS["leased"].capacity
        return [] if counts == [total, total] else [f"leased permits: {counts}, not {total}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as logs:
        torture = Torture(arguments.seed, arguments.seconds, Path(logs))
        faults = torture.run()
        for log in Path(logs).iterdir() if faults else ():
            print(f"--- {log.name}\n{log.read_text()[-4000:]}")
    print(json.dumps(dict(sorted(torture.done.items())), indent=1))
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults with seed {arguments.seed}")
    if faults:
        given = {"seed": arguments.seed, "seconds": arguments.seconds}
        print(again("tests.interop.torture", **given))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
