"""Random users of what nobody owns: a semaphore, a latch and an event.

The judge knows by itself what each script shall make of what it finds. A call counts once: a copy of
one that has counted makes nothing of anything.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.core.simulator.judge import TRIPS
from tests.core.simulator.schedule import EFFECT_KINDS
from tests.core.simulator.watcher import Watcher

from interlock._core.model.hold import Hold
from interlock._core.model.names import event_key, latch_total, semaphore_total
from interlock._core.objects.count_down_latch import CountDownLatch
from interlock._core.objects.event import Event
from interlock._core.objects.semaphore import Semaphore
from interlock._core.queue.places import LONGEST_POLL
from interlock.errors import InterlockError, LatchDeletedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.core.simulator import Simulator
    from tests.core.simulator.process import Process
    from tests.core.simulator.watcher import Dump

    from interlock._core.model.effects import Eval
    from interlock._core.objects.gate import Gate

    Values = tuple[str | None, ...]

NAME, ROUNDS = "name", 6
ANSWERED = {*EFFECT_KINDS, "pause", "deafen", "lose messages", "delay messages"}
"""Faults in which whatever a client finishes in the background comes to the server."""


class Ledger(Watcher):
    """What the calls on one object have changed on the server, and who waits for what.

    Args:
        kind: what the names of its scripts begin with.
        keys: of the object.
        made: returns what a call makes of values, from its verb, its arguments and the values.
        opens: returns whether nobody who finds values has to wait.

    Attributes:
        counted: the calls whose copies change nothing, by their verbs and numbers.
        total: how many permits there are, of a semaphore.
        taken: how many of them each call has taken, by its number, until that is undone.
        held: how many of them processes have, as far as they know.
        exact: whether no change was lost.
        open_at, opened_at: when it was open last, and when it was opened.
    """

    def __init__(
        self,
        world: Simulator,
        kind: str,
        keys: tuple[str, ...],
        made: Callable[[Ledger, str, list[str], Values], Values],
        opens: Callable[[Values], bool],
    ) -> None:
        super().__init__(world)
        self.lasting, world.others = keys, [keys[:1]]
        self._kind, self._made, self._opens = kind, made, opens
        self.counted, self.taken = set[str](), dict[str, int]()
        self.total = self.held = 0
        self.exact = set(world.schedule.rates) <= ANSWERED
        self.open_at, self.opened_at = 0.0, -1.0
        self._generation = 0
        self._waits_since = dict[Hold, float]()

    def values(self, dump: Dump) -> Values:
        found: list[Any] = [dump[key].value if key in dump else None for key in self.lasting]
        return tuple(None if each is None else each.decode() for each in found)

    def ran(self, call: Eval[object], before: Dump, after: Dump) -> None:
        kind, _, verb = call.script.name.partition("_")
        if kind != self._kind:
            return
        if self._generation != self.world.network.generation:  # it has restarted
            self._generation = self.world.network.generation
            self.counted, self.taken = set(), {}
        args, old, new = [str(each) for each in call.args], self.values(before), self.values(after)
        copied = f"{verb} {args[0]}" in self.counted
        wanted = old if copied else self._made(self, verb, args, old)
        if new != wanted:
            self.world.fail(f"{verb} of {args} made {new} of {old}, and not {wanted}")
        if self._opens(old) or self._opens(new):
            self.open_at = self.world.now
            self.opened_at = self.opened_at if self._opens(old) else self.world.now

    def after_step(self, dump: Dump) -> None:
        """Look whether somebody waits for what is there, or was there."""
        world, values, waiting = self.world, self.values(dump), dict[Hold, float]()
        if self._opens(values):
            self.open_at = world.now
        bound = LONGEST_POLL + 1.5
        if world.schedule.benign and all(client.session.publish for client in world.clients):
            bound = TRIPS * world.latency[1]
        for hold in world.judge.waiting():
            waiting[hold] = self._waits_since.get(hold, world.now)
            wants: int = getattr(hold, "wants", 0)
            goes = int(values[0] or 0) >= wants if wants else self._opens(values)
            if (goes or self.opened_at > waiting[hold]) and not world.network.unreachable:
                world.judge.lasts(("waits", hold), bound, f"{hold!r} waits, and there is {values}")
            else:
                world.judge.lasts_no_more(("waits", hold))
        self._waits_since = waiting

    def passed(self, began: float) -> None:
        if self.open_at < began:
            self.world.fail(f"a wait ended, and it was open {self.world.now - self.open_at} s ago")

    def took(self, permits: int) -> None:
        """Note that a process has taken *permits*, or given them back."""
        self.held += permits
        if self.exact and self.held > self.total:
            self.world.fail(f"processes have {self.held} permits of {self.total}")

    def at_rest(self, dump: Dump) -> None:
        free = self.values(dump)[0]
        if self.total and self.exact and free not in (str(self.total), None):
            self.world.fail(f"{free} permits are free of {self.total}")

    def remember(self) -> Callable[[], None]:
        counted, taken = self.counted.copy(), self.taken.copy()

        def restore() -> None:
            self.counted, self.taken = counted, taken
            self._generation = self.world.network.generation

        return restore

    def lost(self) -> None:
        """Note that changes are lost, and so may be an opening; or it opens by that."""
        self.exact, self.open_at, self.opened_at = False, self.world.now, -1.0


# What each script makes of what it finds.


def _permits(ledger: Ledger, verb: str, args: list[str], old: Values) -> Values:
    number, _, how, permits = args[:4]
    missing, total = old[0] is None, str(ledger.total)
    if how == "undo":
        ledger.counted.add(f"acquire {number}")
        back = ledger.taken.pop(number, 0)
        return old if missing else (str(int(old[0] or 0) + back), old[1])
    all_ = total if missing else old[1]
    free = int(total if missing else old[0] or 0)
    if verb == "change":
        ledger.counted.add(f"change {number}")
        free += 0 if missing and how != "new" else int(permits)
    elif permits != "0":
        wanted = free if permits == "all" else int(permits)
        if free >= wanted:
            ledger.counted.add(f"acquire {number}")
            ledger.taken[number] = wanted
            free -= wanted
    return str(free), all_


def _count(ledger: Ledger, verb: str, args: list[str], old: Values) -> Values:
    if verb == "query":
        return old
    number, _, how, count = args[:4]
    ledger.counted.add(f"change {number}")
    left, total = old
    if how == "delete":
        return None, None
    if how == "make":
        return (count, total and count) if left is None else old
    if count and old == (None, None):
        left = total = count
    if how == "down" and left is not None:
        left = str(int(left) - 1)
    return None if left == "0" else left, total


def _state(ledger: Ledger, verb: str, args: list[str], old: Values) -> Values:
    if verb == "query":
        return old
    number, _, how, _, _, client = args[:6]
    ledger.counted.add(f"change {number}")
    word, _, mark = (old[0] or "clear").partition(" ")
    if how == word:
        return old
    return (f"set {client}:{number}" if how == "set" else f"clear {mark}",)


def count(world: Simulator) -> None:
    """Let random processes share a semaphore, of which they take some at a time."""
    random, total = world.random, world.random.randint(1, 4)
    keys = NAME, semaphore_total(NAME)
    ledger = Ledger(world, "semaphore", keys, _permits, lambda _: False)
    world.judge.watcher, ledger.total = ledger, total

    def begin(me: Process) -> Callable[[], Generator[Any, Any, None]]:
        semaphore = Semaphore(me.client.session, NAME, NAME, total)

        def turn() -> Generator[Any, Any, None]:
            permits, entry = random.randint(1, total), random.choice((None, object()))
            until = me.until(random.choice((0.0, 0.02, 0.5, 3.0, 12.0)))
            taking = semaphore.acquire(permits, until, entry=entry)
            if random.random() < 0.1:
                permits, entry = (yield from me.perform(semaphore.drain_permits())), None
                if permits <= 0:
                    return
            elif not (yield from me.perform(taking, until)):
                return
            ledger.took(permits)
            release: Any = semaphore.release(permits)
            if entry is not None and taking.has is not None:
                release = taking.has.release(entry)
            try:
                yield from me.sleep(random.random() ** 4 * random.choice((0.1, 1.0, 8.0)))
            except BaseException:
                release.give_up()
                raise
            finally:
                ledger.took(-permits)
            try:
                yield from me.perform(release)
            except InterlockError:
                ledger.exact = False  # it says that they were not given back
                raise

        return turn

    world.populate(begin, ROUNDS)


def open_latch(world: Simulator) -> None:
    """Let random processes count a latch down, wait for it, close it again, and delete it."""
    most, keys = world.random.randint(1, 4), (NAME, latch_total(NAME))
    ledger = world.judge.watcher = Ledger(
        world, "latch", keys, _count, lambda values: values[0] is None
    )

    def begin(me: Process) -> Callable[[], Generator[Any, Any, None]]:
        latch = CountDownLatch(me.client.session, NAME, NAME, most)
        closes = (latch.count_down, lambda: latch.try_set_count(most))
        changes = (closes, *[(latch.count_down,)] * 4, (latch.delete,))
        return lambda: _use_gate(me, latch, changes, ledger)

    world.populate(begin, 2 * ROUNDS)


def set_event(world: Simulator) -> None:
    keys = (event_key(NAME),)
    ledger = world.judge.watcher = Ledger(
        world, "event", keys, _state, lambda values: (values[0] or "").startswith("set")
    )

    def begin(me: Process) -> Callable[[], Generator[Any, Any, None]]:
        event = Event(me.client.session, NAME, NAME)
        return lambda: _use_gate(me, event, ((event.set, event.clear), (event.set,)), ledger)

    world.populate(begin, 2 * ROUNDS)


def _use_gate(
    me: Process, gate: Gate[Any], changes: tuple[tuple[Callable[[], Any], ...], ...], ledger: Ledger
) -> Generator[Any, Any, None]:
    if me.random.random() < 0.5:
        for change in me.random.choice(changes):
            yield from me.perform(change())
        return
    began, until = me.client.now, me.until(me.random.choice((0.0, 0.3, 3.0, 12.0)))
    with suppress(LatchDeletedError):
        if (yield from me.perform(gate.wait(until), until)):
            ledger.passed(began)
