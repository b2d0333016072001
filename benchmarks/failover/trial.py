"""One failover at a time: take the lock, kill the primary, and see who else is given it."""

from __future__ import annotations

import contextlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from tests.support.servers import RedisServer

from benchmarks.failover.bed import Bed
from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import redis

    from benchmarks.failover.cases import Case, Claimant

DELAY = 0.25
"""Seconds that replication lags behind."""
PATIENCE = 1.0
"""Seconds after the promotion for which the second claimant goes on trying."""
_TRIES = 3
"""After the promotion at the least, however long the machine stands still."""
_FIRST = 10.0
_TIMEOUT = 8.0
_TOLD = 2.0


@dataclass(slots=True)
class Tally:
    """What the rounds of one case came to.

    Attributes:
        case: The case.
        rounds: Failovers.
        refused: Times that the first claimant did not get the lock in the first place.
        twice: Times that the second got it although the first had not released it and its lease
            was not over.
        unaware: Times of these that the first still took itself for the holder at that moment.
        told: Seconds after that until the first knew better, each time that it did within two.
        accepted: Writes of the first that were let through after one of the second.
        rejected: Those that were not.
    """

    case: Case
    rounds: int = 0
    refused: int = 0
    twice: int = 0
    unaware: int = 0
    told: list[float] = field(default_factory=list[float])
    accepted: int = 0
    rejected: int = 0

    @property
    def violations(self) -> int:
        """What there should be none of."""
        return self.accepted if self.case.fenced else self.twice

    @property
    def met(self) -> bool:
        """Whether the expectation was met, where there is one."""
        return self.rounds > self.refused and not (self.case.zero and self.violations)


class Trial:
    """One case on beds of its own, which are replaced when one fails.

    Attributes:
        tally: What it has come to so far.
        spoilt: Rounds that were played again because a failover did not come about.
    """

    def __init__(self, case: Case, delay: float, binary: Path | None, number: int) -> None:
        self.tally = Tally(case)
        self.spoilt = 0
        self._delay = delay
        self._binary = binary
        self._number = number
        self._stack = contextlib.ExitStack()
        self._beds: list[Bed] = []

    def __enter__(self) -> Self:
        """Start the beds."""
        with contextlib.ExitStack() as stack:
            count = self.tally.case.beds
            self._beds = [stack.enter_context(Bed(self._binary)) for _ in range(count)]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop them."""
        self._stack.close()

    def play(self, resource: RedisServer) -> None:
        """Play one round."""
        with resource.client(db=self._number) as client:
            while not self._played(client):
                self.spoilt += 1
                self._stack.close()
                self.__enter__()

    def _played(self, resource: redis.Redis) -> bool:
        tally, beds = self.tally, self._beds
        resource.flushdb()
        try:
            for bed in beds:
                bed.prepare(self._delay)
            with tally.case.opened(beds) as first, tally.case.opened(beds) as second:
                if first.acquire(_FIRST):
                    beds[0].fail()
                    if any(_tries(second, beds[0])):
                        _judge(tally, first, second, resource)
                else:
                    tally.refused += 1
        except (TimeoutError, ServerUnavailableError):
            return False
        tally.rounds += 1
        return True


def conduct(
    cases: Sequence[Case], *, rounds: int, delay: float, binary: Path | None
) -> list[Trial]:
    """Play every case *rounds* times, all cases at the same time.

    So the load of the machine is the same for each.
    """
    with contextlib.ExitStack() as stack:
        resource = stack.enter_context(RedisServer(binary))
        trials = [
            stack.enter_context(Trial(case, delay, binary, number))
            for number, case in enumerate(cases)
        ]
        workers = stack.enter_context(ThreadPoolExecutor(len(trials)))
        for number in range(1, rounds + 1):
            print(f"\r{number}/{rounds}", end="", file=sys.stderr)
            # A list: what a round raises is raised here.
            list(workers.map(lambda trial: trial.play(resource), trials))
        print(file=sys.stderr)
    return trials


def _tries(second: Claimant, bed: Bed) -> Iterator[bool]:
    """Try to acquire with *second* until some time after the promotion; yield each outcome."""
    until, promoted, tries = time.monotonic() + _TIMEOUT, False, 0
    while time.monotonic() < until or (promoted and tries < _TRIES):
        yield second.acquire(0.2)
        if promoted:
            tries += 1
        elif bed.promoted():
            promoted, until = True, time.monotonic() + PATIENCE
    if not promoted:
        raise TimeoutError("no failover")


def _judge(tally: Tally, first: Claimant, second: Claimant, resource: redis.Redis) -> None:
    granted_at = time.monotonic()
    tally.twice += 1
    if first.believes():
        tally.unaware += 1
        while time.monotonic() < granted_at + _TOLD:
            if not first.believes():
                tally.told.append(time.monotonic() - granted_at)
                break
            time.sleep(0.005)
    if not second.write(resource, "second"):
        raise RuntimeError(f"{tally.case.name}: the present holder's write was refused")
    if first.write(resource, "first"):
        tally.accepted += 1
    else:
        tally.rejected += 1
