"""A waiter changes as its table says, and every change of the table happens."""

from __future__ import annotations

import random
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from interlock._core.queue.waiter import TRANSITIONS, Stand
from interlock._core.queue.waiters import LONGEST_OFFER

if TYPE_CHECKING:
    from tests.core.bench import Bench

    from interlock._core.queue.waiter import Candidate, Waiter

SEEDS = 60
STEPS = 60
Changes = dict[tuple[Stand, str], set[Stand]]


class Walk:
    """Random calls of all methods, as operations make them."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self._waiters = bench.waiters
        self._random = random.Random(seed)
        self._now = 0.0
        self.all: list[Waiter] = []
        self.changes: Changes = defaultdict(set)

    def step(self) -> None:
        """Make one call, and note how each waiter changed."""
        self._now += self._random.random() * LONGEST_OFFER
        if self._random.random() < 0.2:
            self._join()
        waiting = list(self._waiters.queues.get("c", ()))
        if not waiting:
            return
        waiter = waiting[0] if self._random.random() < 0.7 else self._random.choice(waiting)
        method = self._random.choice(("begin_asking", "asked", "offer", "conclude", "leave"))
        method = "give_up" if method == "leave" and self._random.random() < 0.5 else method
        before = [(one, one.stand) for one in self.all]
        getattr(self, method)(waiter)
        for one, stand in before:
            if one.stand is not stand:
                self.changes[stand, method].add(one.stand)

    def _join(self) -> None:
        waiter = self._waiters.join("c", lambda: None)
        hold = SimpleNamespace(core=self, offer=lambda: None, holder="me:1", placed=False)
        self._waiters.introduce(waiter, cast("Candidate", hold), shares=False)
        self.all.append(waiter)

    def begin_asking(self, waiter: Waiter) -> None:
        """Ask the server, as the front does, and who heard of a claim but could not start."""
        if not waiter.busy and not waiter.departed:
            _ = self._waiters.begin_asking(waiter, self._now)

    def asked(self, waiter: Waiter) -> None:
        """Take a refusal."""
        waiter.busy = False

    def offer(self, _waiter: Waiter) -> None:
        """Give the lock to the front, if it may have it."""
        _ = self._waiters.offer("c", Walk, self._now)

    def conclude(self, waiter: Waiter) -> None:
        """Take the server's answer to an offer."""
        if waiter.offered:
            taken = self._random.random() < 0.5
            _ = self._waiters.conclude(waiter, lambda: taken)

    def leave(self, waiter: Waiter) -> None:
        """Leave the queue."""
        self._waiters.leave(waiter)

    def give_up(self, waiter: Waiter) -> None:
        """End a wait in vain."""
        _ = self._waiters.give_up(waiter)


def test_a_waiter_changes_as_the_table_says(bench: Bench) -> None:
    """No walk leaves the table, and together they see all of it."""
    seen: Changes = defaultdict(set)
    for seed in range(SEEDS):
        walk = Walk(bench, seed)
        for _ in range(STEPS):
            walk.step()
            queue = [one.front for one in bench.waiters.queues.get("c", ())]
            assert queue == [True, *[False] * (len(queue) - 1)][: len(queue)], "one is the front"
        for waiter in walk.all:
            bench.waiters.leave(waiter)
        for change, after in walk.changes.items():
            seen[change] |= after
    assert dict(seen) == TRANSITIONS
