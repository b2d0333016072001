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
METHODS = (
    *("begin_asking", "asked", "offer", "conclude"),
    *("leave", "give_up", "mend", "serve_all", "started"),
)
RARE = 0.2
"""How often all waiters are served at once, when it is their turn."""
Changes = dict[tuple[Stand, str], set[Stand]]


class Walk:
    """Random calls of all methods, as operations make them."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self._waiters = bench.waiters
        self.line = "c:x"
        if seed % 2:
            # A waiter that gives up here stays in its line until the place is given up.
            self.line = "c:placed"
            self._waiters.place_for(self.line, "me")
        self._random = random.Random(seed)
        self._now = 0.0
        self.all: list[Waiter] = []
        self.changes: Changes = defaultdict(set)

    def step(self) -> None:
        """Make one call, and note how each waiter changed."""
        self._now += self._random.random() * LONGEST_OFFER
        if self._random.random() < 0.2:
            self._join()
        waiting = list(self._waiters.queues.get(self.line, ()))
        if not waiting:
            return
        waiter = waiting[0] if self._random.random() < 0.7 else self._random.choice(waiting)
        method = self._random.choice(METHODS)
        before = [(one, one.stand) for one in self.all]
        getattr(self, method)(waiter)
        for one, stand in before:
            if one.stand is not stand:
                self.changes[stand, method].add(one.stand)

    def _join(self) -> None:
        waiter = self._waiters.join(self.line, lambda: None)
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
        _ = self._waiters.offer(self.line, Walk, self._now)

    def conclude(self, waiter: Waiter) -> None:
        """Take the server's answer to an offer."""
        if waiter.offered:
            taken = self._random.random() < 0.5
            _ = self._waiters.conclude(waiter, lambda: taken)

    def leave(self, waiter: Waiter) -> None:
        """Leave the queue."""
        self._waiters.leave(waiter)

    def mend(self, waiter: Waiter) -> None:
        """Look for a waiter in front that signals kept from leaving."""
        self._waiters.mend(waiter)

    def serve_all(self, _waiter: Waiter) -> None:
        """End the wait of all at once, which is for objects that nobody is offered."""
        if self._random.random() < RARE and not any(one.offered for one in self.all):
            self._waiters.serve_all(self.line)

    def started(self, waiter: Waiter) -> None:
        """Begin with a claim."""
        if not (waiter.busy or waiter.departed):
            self._waiters.started(waiter, "me:1")

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
            queue = [one.front for one in bench.waiters.queues.get(walk.line, ())]
            assert queue == [True, *[False] * (len(queue) - 1)][: len(queue)], "one is the front"
        for waiter in walk.all:
            bench.waiters.leave(waiter)
        for change, after in walk.changes.items():
            seen[change] |= after
    assert dict(seen) == TRANSITIONS
