"""The sync face in programs that gevent or eventlet has patched: greenlets in place of threads."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from tests.support.faults import delay_reply, swallow_reply
from tests.support.program import run
from tests.support.proxy import FaultProxy

NETWORK = 0.005
"""Seconds that each reply takes."""

PROGRAM = """
import sys

library, part, url = sys.argv[1:]
if library == "gevent":
    import gevent
    from gevent import monkey

    monkey.patch_all()
    spawn, wait_for_all = gevent.spawn, gevent.joinall
else:
    import eventlet

    eventlet.monkey_patch()
    spawn = eventlet.spawn

    def wait_for_all(greenlets):
        for greenlet in greenlets:
            greenlet.wait()

if part == "Python":
    sys.modules["interlock._links._exchange"] = None  # as where there was no compiler

import time

import interlock
from interlock._links import exchange

assert (exchange._in_c is not None) == (part == "C")

client = interlock.connect(url, command_timeout=2)
for _ in range(3):
    assert client.lock("alone").acquire(timeout=0.5)
    client.lock("alone").release()

inside = turns = ticks = 0
done = False


def tick():
    global ticks
    while not done:
        ticks += 1
        time.sleep(0.001)  # a tick of real time


def take_turns():
    global inside, turns
    for _ in range(5):
        with client.lock("shared", timeout=20):
            inside += 1
            assert inside == 1
            client.lock("other").locked()
            inside -= 1
            turns += 1


ticker = spawn(tick)
wait_for_all([spawn(take_turns) for _ in range(5)])
assert turns == 25, turns
assert ticks > 25, ticks  # a greenlet that waits for the server lets the others run

began, before = time.monotonic(), ticks
try:
    client.lock("silent").acquire(timeout=0.3)
except interlock.ServerUnavailableError:
    pass
else:
    raise AssertionError("there was no reply")
took = time.monotonic() - began
assert 1.9 < took < 20, took  # a try has the time of a command
assert ticks - before > 5, ticks - before
done = True
wait_for_all([ticker])
client.close()
print("well")
"""


@pytest.mark.parametrize("part", ["C", "Python"])
@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_greenlets_take_turns_over_a_slow_network(
    proxy: FaultProxy, library: str, part: str
) -> None:
    """Greenlets acquire, wait and hand over while others run; they time out on a silent server."""

    def of_silence(words: Sequence[bytes]) -> bool:
        return b"silent" in words

    proxy.on_request(of_silence, swallow_reply)
    proxy.on_request(lambda _: True, delay_reply(NETWORK))
    child = run(sys.executable, "-c", PROGRAM, library, part, proxy.url())
    assert (child.returncode, child.stdout) == (0, "well\n"), child.stderr


@pytest.mark.parametrize("part", ["C", "Python"])
@pytest.mark.parametrize("patched", ["late", "never", "without threads"])
def test_greenlets_of_one_thread_exclude_each_other(
    redis_url: str, patched: str, part: str
) -> None:
    """Where `threading` was not patched in time, each greenlet is an owner, and none waits in vain."""
    program = """if True:
        import sys
        url, patched, part = sys.argv[1:]
        if part == "Python":
            sys.modules["interlock._links._exchange"] = None
        from interlock import AcquireTimeoutError, ReentryError, connect
        client = connect(url)
        client.lock("other").acquire()  # the thread, before there are greenlets
        from gevent import monkey
        if patched == "late":
            monkey.patch_all()
        elif patched == "without threads":
            monkey.patch_all(thread=False)
        import gevent, gevent.event
        left = gevent.event.Event()
        def first():
            with client.lock("name"):
                second = gevent.spawn(enter)
                gevent.sleep(0)  # only switches
                left.wait()
        def enter():
            try:
                with client.lock("name", timeout=0) as hold:
                    print("both inside", hold.depth)
            except AcquireTimeoutError:
                print("outside")
            try:
                client.lock("name").acquire(timeout=5)
            except ReentryError:
                print("refused")
            left.set()
        greenlet = gevent.spawn(first)
        greenlet.get()
        print(client.lock("other").owned())  # the thread is who it was
        client.lock("other").release()
        client.close()
    """
    done = run(sys.executable, "-c", program, redis_url, patched, part)
    assert done.stdout.split() == ["outside", "refused", "True"], done.stderr
