"""Threads that share all they can, in one game: `python -m tests.crowds GAME URL`.

Eight threads use one object, several objects and several clients, of every kind, while another one
looks at all of them. The interpreter changes threads as often as it can, or has no lock (GIL) at
all; the last line tells whether it is on.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import interlock
import interlock.observe
from tests.support.patience import GIVE_UP, wait_until

INTERVAL = 1e-6
"""Seconds after which the interpreter changes threads."""
LIMIT = 1000.0
"""Seconds, for a Python that ThreadSanitizer slows down."""
THREADS = 8
TURNS = 10
"""Of each thread, in one game."""


class Place:
    """Plain counters of who is inside: two who change them at once lose a turn."""

    def __init__(self) -> None:
        self.turns = self.inside = self.most = 0

    def visit(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.turns += 1
        self.inside -= 1


class Room:
    """Guarded counters of what is inside, where more than one may be.

    Args:
        most: how many may be inside at once, of each kind.
    """

    def __init__(self, **most: int) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._inside = Counter[str]()
        self.turns = 0

    @contextmanager
    def visit(self, kind: str, *others: str) -> Generator[None]:
        """Be inside as *kind*, while nobody of *others* is."""
        with self._mutex:
            self._inside[kind] += 1
            self.turns += 1
            assert self._inside[kind] <= self._most.get(kind, THREADS), self._inside
            assert not any(self._inside[other] for other in others), self._inside
        try:
            yield
        finally:
            with self._mutex:
                self._inside[kind] -= 1


def crowd(work: Callable[[int], object], count: int = THREADS) -> None:
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(work, number) for number in range(count)]:
            future.result(LIMIT)


@contextmanager
def clients(url: str, count: int, **options: Any) -> Generator[list[interlock.Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(interlock.connect(url, **options)) for _ in range(count)]


def of_kinds(client: interlock.Client) -> dict[str, interlock.Lock | interlock.MultiLock]:
    """Return a lock of each kind that one at a time may have."""
    return {
        "lock": client.lock("lock"),
        "fair": client.fair_lock("fair"),
        "fenced": client.fenced_lock("fenced"),
        "spin": client.spin_lock("spin"),
        "write": client.read_write_lock("written").write,
        "group": client.group_lock("group", ["a", "b"]),
        "multi": client.multi_lock(client.lock("first"), client.lock("second")),
        "permit": client.semaphore("one", 1),  # type: ignore[dict-item]
    }


def locks(url: str) -> None:
    """Eight threads take turns: with one lock object, with one each, and with a client each."""
    with clients(url, THREADS) as all_:
        one = of_kinds(all_[0])
        for users in (
            [one] * THREADS,
            [of_kinds(all_[0]) for _ in range(THREADS)],
            [of_kinds(client) for client in all_],
        ):
            for kind in one:
                place = Place()

                def work(number: int, kind: str = kind, place: Place = place) -> None:
                    for _ in range(TURNS):
                        with users[number][kind]:  # noqa: B023 - the crowd ends before the next
                            place.visit()

                crowd(work)
                assert (place.turns, place.most) == (THREADS * TURNS, 1), vars(place)


def readers(url: str) -> None:
    """Readers are inside together, and a writer alone."""
    room = Room(write=1)
    with clients(url, 2) as pair:

        def work(number: int) -> None:
            chance, both = random.Random(number), pair[number % 2].read_write_lock("both")
            for _ in range(TURNS):
                if chance.random() < 0.3:
                    with both.write, room.visit("write", "read"):
                        pass
                else:
                    with both.read, room.visit("read", "write"):
                        pass

        crowd(work)
    assert room.turns == THREADS * TURNS


def permits(url: str) -> None:
    """At most as many are inside as there are permits."""
    room = Room(plain=3, leased=3)
    with clients(url, 2) as pair:

        def work(number: int) -> None:
            client = pair[number % 2]
            plain, leased = client.semaphore("plain", 3), client.leased_semaphore("leased", 3)
            for _ in range(TURNS):
                with plain, room.visit("plain"):
                    pass
                with leased.acquire(), room.visit("leased"):
                    pass

        crowd(work)
    assert room.turns == 2 * THREADS * TURNS


def signals(url: str) -> None:
    """Conditions, barriers, latches and events let all of them through."""
    items: list[int] = []
    with clients(url, 2) as pair:

        def work(number: int) -> None:
            client = pair[number % 2]
            condition = client.condition("changed")
            barrier = client.barrier("all", THREADS)
            for turn in range(TURNS):
                if number % 2:
                    with condition:
                        condition.wait_for(lambda: items)
                        items.pop()
                else:
                    with condition:
                        items.append(turn)
                        condition.notify()
            barrier.wait()
            latch = client.count_down_latch("down", THREADS)
            latch.count_down()
            assert latch.wait()
            if number == 0:
                client.event("over").set()
            assert client.event("over").wait()

        crowd(work)
        assert not items
        pair[0].event("over").clear()


def looked_at(url: str) -> None:
    """Others look at all that a client has, while threads use it."""
    over, seen = threading.Event(), Counter[str]()

    class Observer(interlock.observe.Observer):
        def acquired(self, event: interlock.observe.Acquired) -> None:
            seen[event.name] += 1

    with clients(url, 1) as [client]:
        stop = client.observe(Observer())

        def look() -> None:
            while not over.is_set():
                held = [(hold.valid, hold.remaining, repr(hold)) for hold in client.holds()]
                assert len(held) <= THREADS + 1, held
                assert len(list(client.locks("looked*"))) <= THREADS
                repr(client)

        def work(number: int) -> None:
            for turn in range(TURNS):
                name = f"looked {number} {turn}"
                lock = client.lock(name)
                with lock, lock:
                    assert lock.hold_count() == 2
                with client.try_lock("looked", timeout=0.01) as hold:
                    assert not hold or hold.valid

        looking = threading.Thread(target=look)
        looking.start()
        try:
            crowd(work)
        finally:
            over.set()
            looking.join(LIMIT)
        # Each name is of one turn; "looked" itself may be taken by nobody.
        wait_until(lambda: len(seen) >= THREADS * TURNS, GIVE_UP, "the observer is told of all")
        stop()


KNOWN = (
    *(interlock.ClosedError, interlock.NotHeldError, interlock.HoldLostError),
    *(interlock.ServerUnavailableError, TimeoutError),
)


def closing(url: str) -> None:
    """A client closes, twice at once, while seven threads do all they can with it."""

    def use(client: interlock.Client, number: int, over: threading.Event) -> None:
        chance = random.Random(number)
        while not over.is_set():
            try:
                lock = client.lock(f"name{chance.randint(0, 2)}")
                if lock.acquire(timeout=chance.choice((0, 0.01, 1))):
                    hold = lock.hold  # None if the client is closed by now
                    check = lock.locked if hold is None else hold.ensure
                    chance.choice((lock.locked, lock.owned, check))()
                    lock.release()
                client.semaphore("permits").try_set_permits(2)
            except KNOWN:
                continue

    def end(number: int) -> None:
        client, over = interlock.connect(url), threading.Event()
        threads = [
            threading.Thread(target=use, args=(client, each, over)) for each in range(THREADS - 1)
        ]
        for thread in threads:
            thread.start()
        time.sleep(random.Random(number).uniform(0, 0.1))  # the moments of a close
        crowd(lambda _: client.close(), 2)
        over.set()
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive()

    for number in range(TURNS):
        end(number)


GAMES = {game.__name__: game for game in (locks, readers, permits, signals, looked_at, closing)}


if __name__ == "__main__":
    name, url = sys.argv[1:]
    sys.setswitchinterval(INTERVAL)
    GAMES[name](url)
    print(f"GIL: {getattr(sys, '_is_gil_enabled', lambda: True)()}")
