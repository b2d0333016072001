"""What everybody does in `torture`, and what is known of it afterwards."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .agent import PATIENCE, Agent, AgentDiedError, AgentError, Answer
from .intervals import History, Need, Span

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

LEASE = 5.0
"""Seconds, of holds that are renewed; also how long a fair waiter keeps its place."""

ALL = 1000
"""What a writer takes of a read/write lock."""

LOSSES = ("IllegalMonitorStateException", "NotHeldError", "HoldLostError", "RedisException")
"""What a release raises when the hold is over; the last is what Java says of permits."""

SLACK = 3.0
"""Seconds that this machine may be slow, on top of the poll cap."""


@dataclass(frozen=True, slots=True)
class Object:
    """Something that everybody shares.

    Attributes:
        kind: of the object.
        capacity: how much there is.
        weight: how much a hold takes.
        patience: how long a waiter may overlook that it is free, seconds; by language if that matters.
        share: under whose name the holds are counted.
        rest: what else commands need.
    """

    kind: str
    capacity: int = 1
    weight: int = 1
    patience: float = SLACK
    share: str | None = None
    rest: tuple[tuple[str, Any], ...] = ()


_MEMBERS = tuple({"kind": "lock", "name": f"member{n}"} for n in range(3))
OBJECTS = {
    "plain": Object("lock"),
    "other": Object("lock"),
    "fenced": Object("fenced"),
    # Nobody is told: the back-off is short.
    "spin": Object("spin"),
    # Somebody who died or froze in the queue is in the way for as long as its place lasts.
    "fair": Object("fair", patience=4 * LEASE + SLACK),
    # A message of a reader wakes one of Java's waiters in a process, whichever it is; the next look comes after the lease.
    "reading": Object("read", ALL, 1, LEASE + SLACK, "read-write"),
    "writing": Object("write", ALL, ALL, LEASE + SLACK, "read-write"),
    # Redisson waits for each member in turn and begins again.
    "multi": Object("multi", patience=LEASE + 2 * SLACK, rest=(("members", _MEMBERS),)),
    "group": Object("group", rest=(("values", ("a", "b", "c")),)),
    "permits": Object("semaphore", 3),
    "leased": Object("leased_semaphore", 2),
}


class Slot:
    """A process and its successors.

    Args:
        language: what it is written in.
        start: makes the next one.
    """

    def __init__(self, language: str, start: Callable[[], Agent]) -> None:
        self.language = language
        self.pauses: list[tuple[float, float]] = []
        self._start = start
        self._up = threading.Event()
        self.agent = start()
        self._up.set()

    def present(self) -> Agent:
        """Return the process, once there is one."""
        assert self._up.wait(60)
        return self.agent

    def pause(self, seconds: float) -> None:
        """Freeze the process for *seconds*."""
        began = time.monotonic()
        # At once: who judges meanwhile must know of it.
        self.pauses.append((began, began + seconds + SLACK))
        self.agent.pause()
        time.sleep(seconds)
        self.agent.resume()
        # It needs a moment until it has caught up.
        self.pauses[-1] = (began, time.monotonic() + 1)

    def kill_and_restart(self) -> None:
        """End the process and start the next."""
        self._up.clear()
        self.agent.kill()
        self.agent = self._start()
        self._up.set()

    def paused(self, start: float, end: float) -> float | None:
        """Return when the first pause began that touches the time from *start* to *end*."""
        return min((at for at, until in self.pauses if at < end and until > start), default=None)


class Toil:
    """The work, and its history.

    Attributes:
        until: when it ends, seconds.
        done: how often what was done.
    """

    def __init__(self) -> None:
        self.until = 0.0
        self.done: Counter[str] = Counter()
        self._histories = {
            made.share or name: History(made.share or name, made.capacity)
            for name, made in OBJECTS.items()
        }
        self._faults: list[str] = []
        self._guard = threading.Lock()
        self._permits = threading.Condition()
        self._permits_out = 0
        self._killing = False
        self._permits_unknown = 0

    def set_up(self, agent: Agent) -> None:
        """Make what must be made once."""
        for name in ("permits", "leased"):
            made = OBJECTS[name]
            agent.ask("set up", "try_set_permits", kind=made.kind, name=name, n=made.capacity)

    @contextlib.contextmanager
    def no_permits_in_flight(self) -> Iterator[None]:
        """Wait until nobody has permits of the semaphore, which has no owners: what dies with a process is lost."""
        with self._permits:
            self._killing = True
            assert self._permits.wait_for(lambda: not self._permits_out, 60)
        try:
            yield
        finally:
            with self._permits:
                self._killing = False
                self._permits.notify_all()

    def permits_expected(self) -> tuple[int, int]:
        """Return how many permits of the semaphore may be free at the end, at least and at most."""
        return OBJECTS["permits"].capacity - self._permits_unknown, OBJECTS["permits"].capacity

    def faults(self) -> list[str]:
        """Return what was wrong."""
        found = [fault for history in self._histories.values() for fault in history.faults()]
        return self._faults + found

    def work(self, slot: Slot, lane: int, chance: random.Random) -> None:
        """Use objects at random until the time is over."""
        while time.monotonic() < self.until:
            name = chance.choice(list(OBJECTS))
            timeout = chance.choice([0, 0.3, 5.0, 5.0])
            lease = chance.choice([None, None, 0.4, 3.0])
            holding = chance.choice([0, 0, 0.01, 0.1, 0.6])
            if name == "permits":
                with self._permit_in_flight():
                    self._use(slot, lane, name, timeout, None, holding)
            else:
                self._use(slot, lane, name, timeout, lease, holding)

    @contextlib.contextmanager
    def _permit_in_flight(self) -> Iterator[None]:
        with self._permits:
            self._permits.wait_for(lambda: not self._killing)
            self._permits_out += 1
        try:
            yield
        finally:
            with self._permits:
                self._permits_out -= 1
                self._permits.notify_all()

    def _use(
        self,
        slot: Slot,
        lane: int,
        name: str,
        timeout: float,
        lease: float | None,
        holding: float,
    ) -> None:
        """Acquire, hold, release, and note what that says."""
        made = OBJECTS[name]
        if name in ("leased", "group") and lease is None:
            # Redisson's permits would stay for ever, and its group lock has the lease that its object was used with before.
            lease = 3.0
        agent, asked = slot.present(), time.monotonic()
        target = {"kind": made.kind, "name": made.share or name, **dict(made.rest)}
        thread = f"lane {lane}"
        try:
            got = agent.start(
                thread, "acquire", **target, timeout=timeout, **({"lease": lease} if lease else {})
            ).result(timeout + PATIENCE)
        except AgentDiedError:
            self._doubt(name, slot, asked, lease)
            return
        except AgentError as error:
            self._error(name, slot, asked, f"acquire {name} {timeout} {lease}", error)
            self._doubt(name, slot, asked, lease)
            return
        self._count(f"{slot.language} {made.kind} {'got' if got.value else 'not'}")
        self._waited(name, slot, lane, got, timeout)
        if got.value:
            self._hold(slot, lane, name, lease, holding, agent, target, got)

    def _hold(
        self,
        slot: Slot,
        lane: int,
        name: str,
        lease: float | None,
        holding: float,
        agent: Agent,
        target: dict[str, Any],
        got: Answer,
    ) -> None:
        if target["kind"] == "leased_semaphore":
            target = {**target, "ids": got.value}
        time.sleep(holding)
        given_up, ended, over = time.monotonic(), 0.0, True
        try:
            released = agent.start(f"lane {lane}", "release", **target).result(PATIENCE)
            given_up, ended = released.started, released.ended
        except AgentDiedError:
            # It died at some time between: from its start to its kill nothing is certain.
            given_up, ended = got.ended, time.monotonic() + (lease or LEASE)
        except AgentError as error:
            ended, over = time.monotonic(), error.kind in LOSSES
            excused = (lease is not None and ended > got.started + lease - 0.1) or slot.paused(
                got.started, ended
            ) is not None
            if not over:
                self._error(name, slot, got.started, f"release {name} {lease}", error)
                ended += lease or LEASE
            elif not excused and not _evaporates(slot, name):
                self._fault(f"{slot.language} {lane} lost {name}, lease {lease}: {error}; {got}")
        if name == "permits":
            over, lease = True, None
        certain = given_up if lease is None else min(given_up, got.started + lease)
        if lease is None and name != "permits":
            paused = slot.paused(got.started, given_up)
            certain = certain if paused is None else min(certain, paused)
        who, weight = f"{slot.language} {lane}", OBJECTS[name].weight
        history = self._histories[OBJECTS[name].share or name]
        with self._guard:
            if certain > got.ended and not _evaporates(slot, name):
                history.certain.append(Span(who, weight, got.ended, certain))
            history.possible.append(Span(who, weight, got.ended - 1, ended))

    def _waited(self, name: str, slot: Slot, lane: int, got: Answer, timeout: float) -> None:
        if timeout < 1 or slot.paused(got.started, got.ended) is not None:
            return
        made = OBJECTS[name]
        need = Need(f"{slot.language} {lane}", made.weight, got.started, got.ended, made.patience)
        with self._guard:
            self._histories[made.share or name].waits.append(need)

    def _doubt(self, name: str, slot: Slot, since: float, lease: float | None) -> None:
        """Note that something may be held, and by nobody who knows."""
        made = OBJECTS[name]
        until = time.monotonic() + max(lease or 0, LEASE) + 1
        with self._guard:
            self._histories[made.share or name].possible.append(
                Span(f"{slot.language}, in doubt", made.weight, since, until)
            )

    def _error(self, name: str, slot: Slot, since: float, what: str, error: AgentError) -> None:
        """Note an error that is nobody's answer: a process that was frozen may find its replies late."""
        self._count(f"{slot.language} {error.kind}")
        if name == "permits":
            with self._guard:
                self._permits_unknown += 1
        if slot.paused(since, time.monotonic()) is None:
            self._fault(f"{slot.language}: {what}: {error}")

    def _fault(self, text: str) -> None:
        with self._guard:
            self._faults.append(text)

    def _count(self, what: str) -> None:
        with self._guard:
            self.done[what] += 1


def _evaporates(slot: Slot, name: str) -> bool:
    """Return whether a hold may vanish through no fault of ours.

    Redisson's group lock does not prolong a hash of which less than a millisecond is left, though it has just taken values in it:
    who acquires at the moment at which the last holder's lease ends loses its hold at once.
    """
    return name == "group" and slot.language == "java"
