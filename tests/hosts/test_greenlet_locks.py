"""What a lock promises, under gevent and eventlet: waiting, renewal, loss, owners, close."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, warnings

library, url = sys.argv[1:]
if library == "gevent":
    import gevent
    from gevent import monkey

    monkey.patch_all()
    spawn = gevent.spawn
else:
    warnings.simplefilter("ignore")
    import eventlet

    eventlet.monkey_patch()
    spawn = eventlet.spawn

import threading, time
import interlock

client = interlock.connect(url)
client._driver.session.watchdog.period = 0.3
other = interlock.connect(url)

# A greenlet is an owner of its own; who does not hold a lock cannot release it.
with client.lock("name") as hold:
    caught = []

    def strange():
        assert not client.lock("name").owned()
        assert not client.lock("name").acquire(blocking=False)
        try:
            client.lock("name").release()
        except interlock.NotHeldError as error:
            caught.append(error)

    thread = threading.Thread(target=strange)
    thread.start()
    thread.join()
    assert len(caught) == 1
    # Renewed while this greenlet sleeps.
    least = hold.remaining
    while hold.remaining <= least:
        least = min(least, hold.remaining)
        time.sleep(0.01)  # between two questions
    assert hold.valid and client.lock("name").owned()

# A waiter is woken by a release in another client, not by its poll cap.
assert other.lock("woken").acquire()
times = []


def wait():
    with client.lock("woken", timeout=20):
        times.append(time.monotonic())


waiter = threading.Thread(target=wait)
waiter.start()
time.sleep(0.2)  # until it waits
released = time.monotonic()
other.lock("woken").release()
waiter.join()
assert times[0] - released < 15, times[0] - released

# A time-out is kept.
assert other.lock("taken").acquire()
began = time.monotonic()
assert not client.lock("taken").acquire(timeout=0.3)
assert 0.28 < time.monotonic() - began < 15

# A loss is told, and ends who waits for it.
told = []
assert client.lock("lost").acquire()
hold = client.lock("lost").hold
hold.on_lost(lambda: told.append(hold.name))
other.lock("lost").force_release()
assert hold.lost.wait(30)
while not told:
    time.sleep(0.01)  # the thread that tells
assert told == ["lost"], told

# Closing wakes who waits, releases what is held, and leaves nothing behind.
assert client.lock("held").acquire()
errors = []


def wait_for_long():
    try:
        client.lock("taken").acquire()
    except interlock.ClosedError as error:
        errors.append(error)


waiter = threading.Thread(target=wait_for_long)
waiter.start()
time.sleep(0.2)  # until it waits
client.close()
waiter.join(10)
assert len(errors) == 1
assert not other.lock("held").locked()
other.close()
assert threading.active_count() == 1, threading.enumerate()
print("well")
"""


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_a_lock_in_greenlets(redis_url: str, library: str) -> None:
    """In greenlets, owners, renewal, waits, time-outs, losses and close work as in threads."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, library, redis_url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_the_adapter_for_redis_py_in_greenlets(redis_url: str, library: str) -> None:
    """The lock behind redis-py's interface works in a patched program."""
    patch = {
        "gevent": "from gevent import monkey; monkey.patch_all()",
        "eventlet": "import eventlet; eventlet.monkey_patch()",
    }
    program = f"""if 1:
        {patch[library]}
        import redis, threading
        from interlock.redis_py import Lock, client_of
        r = redis.Redis.from_url({redis_url!r})
        inside = []
        def work():
            for _ in range(5):
                with r.lock("name", lock_class=Lock, timeout=20):
                    inside.append(1)
                    assert len(inside) == 1
                    r.ping()
                    inside.pop()
        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        client_of(r).close()
        print("well")
        """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
