"""What everybody does in `torture`, and what is known of it afterwards."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from .agent import PATIENCE, Agent, AgentDiedError, AgentError, Answer
from .intervals import History, Need, Span
from .shared import LEASE, OBJECTS, REENTRANT, SLACK, Slot, may_vanish, stays_after_loss

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

LOSSES = ("IllegalMonitorStateException", "NotHeldError", "HoldLostError", "RedisException")
"""What a release raises when the hold is over; the last is what Java says of permits."""

HASTE = ("QuorumError", "ServerUnavailableError")
"""What a red lock raises if servers take longer than it waits for them."""

CLOCK = 0.002
"""Seconds by which a lease may end early: the server counts whole milliseconds. Ours allow for it."""


class Toil:
    """The work, and its history."""

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
        self._late: list[tuple[str, float, float]] = []

    def set_up(self, agent: Agent) -> None:
        for name in ("permits", "leased"):
            made = OBJECTS[name]
            agent.ask("set up", "try_set_permits", kind=made.kind, name=name, n=made.capacity)

    @contextlib.contextmanager
    def no_permits_in_flight(self) -> Iterator[None]:
        """Wait until nobody has permits of the semaphore.

        It has no owners, so permits are lost if their process dies.
        """
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
        found = [fault for history in self._histories.values() for fault in history.faults()]
        return self._faults + found

    def work(self, slot: Slot, lane: int, chance: random.Random) -> None:
        """Use objects at random until the time is over."""
        while time.monotonic() < self.until:
            name = chance.choice(list(OBJECTS))
            timeout = chance.choice([0, 0.3, 5.0, 5.0])
            lease = chance.choice([None, None, 0.4, 3.0])
            holding = chance.choice([0, 0, 0.01, 0.1, 0.6])
            depth = chance.choice([1, 1, 1, 2])
            if name == "forced" and chance.random() < 0.3:
                self._try(slot, lane, "force_release", kind="lock", name=name)
            elif chance.random() < 0.1:
                do = chance.choice(["try_set_count", "count_down", "count", "wait"])
                self._try(slot, lane, do, kind="latch", name="latch", n=2, timeout=timeout)
            elif name == "permits":
                with self._permit_in_flight():
                    self._use(slot, lane, name, timeout, None, holding, 1)
            else:
                self._use(slot, lane, name, timeout, lease, holding, depth)

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
        depth: int,
    ) -> None:
        made = OBJECTS[name]
        if name == "leased" and lease is None:
            lease = 3.0  # Redisson's would stay for ever
        agent, asked = slot.present(), time.monotonic()
        target = {"kind": made.kind, "name": made.share or name, "fresh": True, **dict(made.rest)}
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
        self._note_late(name, slot, lease, got)
        if got.value:
            entries = depth if made.kind in REENTRANT else 1
            self._hold(slot, lane, name, lease, holding, entries, agent, target, got)

    def _hold(
        self,
        slot: Slot,
        lane: int,
        name: str,
        lease: float | None,
        holding: float,
        depth: int,
        agent: Agent,
        target: dict[str, Any],
        got: Answer,
    ) -> None:
        if target["kind"] == "leased_semaphore":
            target = {**target, "ids": got.value}
        time.sleep(holding)  # a job takes real time
        given_up, ended = time.monotonic(), 0.0
        try:
            entered = self._enter_again(name, slot, agent, lane, target, lease, depth - 1)
            for _ in range(1 + entered):
                released = agent.start(f"lane {lane}", "release", **target).result(PATIENCE)
            given_up, ended = released.started, released.ended
        except AgentDiedError:
            # It died at some time between: from its start to its kill nothing is certain.
            given_up, ended = got.ended, time.monotonic() + (lease or LEASE)
        except AgentError as error:
            ended = time.monotonic()
            if error.kind == "HoldLostError":
                self._leave(agent, f"lane {lane}", target)  # each entry of it must be released
            excused = (
                (lease is not None and ended > got.started + lease - 0.1)
                or slot.paused(got.started, ended) is not None
                or self._shortened(name, got.started, ended) is not None
            )
            if error.kind not in LOSSES:
                self._error(name, slot, got.started, f"release {name} {lease}", error)
                if target["kind"] in REENTRANT:
                    self._leave(agent, f"lane {lane}", target)
                ended = time.monotonic() + (lease or LEASE)
            elif stays_after_loss(slot, name):
                ended = math.inf
            elif not excused and not may_vanish(slot, name):
                self._fault(f"{slot.language} {lane} lost {name}, lease {lease}: {error}; {got}")
        certain = given_up if lease is None else min(given_up, got.started + lease - CLOCK)
        # A process that is frozen renews nothing; permits of the semaphore need no renewal.
        paused = slot.paused(got.started, given_up)
        if lease is None and name != "permits" and paused is not None:
            certain = min(certain, paused)
        shortened = self._shortened(name, got.started, given_up)
        if shortened is not None:
            certain = min(certain, shortened)
        who, weight = f"{slot.language} {lane}", OBJECTS[name].weight
        history = self._histories[OBJECTS[name].share or name]
        with self._guard:
            if certain > got.ended and not may_vanish(slot, name):
                history.certain.append(Span(who, weight, got.ended, certain))
            # A process that is frozen may have it for long before it answers.
            stood = slot.paused(got.started, got.ended) is not None
            since = got.started if stood else got.ended - 1
            history.possible.append(Span(who, weight, since, ended))

    def _shortened(self, name: str, since: float, until: float) -> float | None:
        """Return from when on Redisson may have ended a hold of *name* in that time.

        At the end of a leased acquire or re-entry its RedissonMultiLock sets the lease of each
        member anew, and does not ask who holds it. If it stood still before, that is somebody else.
        """
        late = [
            at for which, at, ended in self._late if which == name and since < at and until < ended
        ]
        return min(late, default=None)

    def _note_late(self, name: str, slot: Slot, lease: float | None, got: Answer) -> None:
        """Note what *got* says of an acquire or re-entry that `_shortened` is about."""
        joint = slot.language == "java" and OBJECTS[name].kind in {"multi", "red"}
        if joint and got.value and lease and got.ended > got.started + lease:
            with self._guard:
                self._late.append((name, got.ended, got.ended + lease + SLACK))

    def _enter_again(
        self,
        name: str,
        slot: Slot,
        agent: Agent,
        lane: int,
        target: dict[str, Any],
        lease: float | None,
        times: int,
    ) -> int:
        """Enter the held lock again; return how often that worked.

        A lost hold is released afterwards like any other.
        """
        thread, how = f"lane {lane}", {"lease": lease} if lease else {}
        for entered in range(times):
            try:
                again = agent.start(thread, "acquire", **target, timeout=0, **how).result(PATIENCE)
            except AgentError as error:
                if error.kind == "HoldLostError":
                    return entered
                raise
            if not again.value:
                raise AgentError("NotHeldError", "a holder could not enter again")
            self._note_late(name, slot, lease, again)
        return times

    @staticmethod
    def _leave(agent: Agent, thread: str, target: dict[str, Any]) -> None:
        """Release until nothing is held: after an error nobody knows how many entries there are.

        A process that lives would renew those that are left for ever.
        """
        while True:
            try:
                agent.start(thread, "release", **target).result(PATIENCE)
            except AgentDiedError:
                return
            except AgentError as error:
                if error.kind in LOSSES:
                    return

    def _try(self, slot: Slot, lane: int, do: str, **rest: Any) -> None:
        asked = time.monotonic()
        try:
            slot.present().start(f"lane {lane}", do, **rest).result(PATIENCE)
            self._count(f"{slot.language} {do}")
        except AgentDiedError:
            return
        except AgentError as error:
            self._error("", slot, asked, do, error)

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
        """Count an error of a command; it is a fault unless the process was frozen.

        A process that was frozen may find its replies late. A red lock gives a server a tenth of a
        second and less, which a busy machine may need.
        """
        self._count(f"{slot.language} {error.kind}")
        if name == "permits":
            with self._guard:
                self._permits_unknown += 1
        hasty = name == "red" and error.kind in HASTE
        if not hasty and slot.paused(since, time.monotonic()) is None:
            self._fault(f"{slot.language}: {what}: {error}")

    def _fault(self, text: str) -> None:
        with self._guard:
            self._faults.append(text)

    def _count(self, what: str) -> None:
        with self._guard:
            self.done[what] += 1
