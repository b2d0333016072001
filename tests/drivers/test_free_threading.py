"""Threads that really run at once, where the interpreter has no lock (GIL), share all they can.

Each program runs in a process of its own, because pytest's modules may turn the GIL on.
`.ci/free-threaded` runs them on a Python without it.
"""

from __future__ import annotations

import sysconfig

import pytest
from tests.lock.children import Child

LIMIT = 1000.0
"""Seconds, for a Python that ThreadSanitizer slows down; pytest's time limit comes first."""

PROGRAM = """
import gc, random, warnings
from concurrent.futures import ThreadPoolExecutor
sys.setswitchinterval(1e-5)

def gil():
    return getattr(sys, "_is_gil_enabled", lambda: True)()

def clients(count):
    return [interlock.connect(url) for _ in range(count)]

class Place:  # a plain counter: two who are inside at once lose a turn
    def __init__(self):
        self.turns = self.inside = self.most = 0
    def visit(self):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.turns += 1
        self.inside -= 1

def crowd(work, count=8):
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(work, number) for number in range(count)]:
            future.result(LIMIT)

"""

TURNS = """
def turns(locks):
    place, count = Place(), 30
    def work(number):
        for _ in range(count):
            with locks[number]:
                place.visit()
    crowd(work)
    assert (place.turns, place.most) == (8 * count, 1), vars(place)

one = clients(1)[0]
turns([one.lock("shared")] * 8)  # one lock object
turns([one.lock("each") for _ in range(8)])  # one client
several = clients(8)
turns([client.lock("apart") for client in several])
turns([client.fair_lock("fair") for client in several])
for client in [one, *several]:
    client.close()
say(gil())
"""

CLOSE = """
KNOWN = (interlock.ClosedError, interlock.NotHeldError, interlock.HoldLostError,
         interlock.ServerUnavailableError, TimeoutError)

def use(client, number, over):
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

for number in range(10):
    client, over = clients(1)[0], threading.Event()
    threads = [threading.Thread(target=use, args=(client, each, over)) for each in range(7)]
    for thread in threads:
        thread.start()
    time.sleep(random.Random(number).uniform(0, 0.1))  # the moments of a close
    crowd(lambda _: client.close(), 2)
    over.set()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
say(gil())
"""


@pytest.mark.parametrize("rest", [TURNS, CLOSE], ids=["turns", "close"])
def test_threads_that_run_at_once(redis_url: str, rest: str) -> None:
    """Nobody is inside twice, `close` ends all, and no module has turned the GIL on."""
    with Child(f"LIMIT = {LIMIT}\n{PROGRAM}{rest}", redis_url) as child:
        assert child.hear(LIMIT) == str(not sysconfig.get_config_var("Py_GIL_DISABLED"))
        assert child.end() == (0, "")
