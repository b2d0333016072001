"""A fork while any thread has any lock of the package leaves a child that works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

PATIENCE = 120.0


OF_MODULES = {
    ("interlock._drivers.background.callbacks", "_callbacks"),
}
"""Each has an after-fork hook, as `test_a_fork_in_the_middle_of_anything` shows."""


CHILD = """
import gc, os, signal, sys, threading, types
from importlib import import_module
import celery, django.conf
import interlock

url, names = sys.argv[1], [name.split("=") for name in sys.argv[2:]]
django.conf.settings.configure(INTERLOCK=url)
modules = {module: import_module(module) for module, _ in names}
app = celery.Celery(broker=url)
CONTAINERS = dict, list, tuple, set, frozenset
kinds = type(threading.Lock()), type(threading.RLock())


def locks(root):
    "Return the locks that *root* leads to through objects of the package and containers."
    seen, found, stack = set(), [], [root]
    while stack:
        each = stack.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, kinds):
            found.append(each)
        elif isinstance(each, CONTAINERS) or (
            type(each).__module__.startswith(("interlock", "threading", "collections"))
            and not isinstance(each, threading.Thread)
        ):
            stack += gc.get_referents(each)
    return found


client = interlock.connect(url)
client._driver.session.watchdog.period = 0.3
with client.lock("before"):
    heard = client.lock("heard").acquire()
roots = [client, *(getattr(modules[module], name) for module, name in names)]
taken, let_go, held = threading.Event(), threading.Event(), []


def hold():
    for root in roots:
        for lock in locks(root):
            if lock.acquire(timeout=0.1):
                held.append(lock)
    taken.set()
    let_go.wait()
    for lock in reversed(held):
        lock.release()


thread = threading.Thread(target=hold, daemon=True)
thread.start()
taken.wait()
assert len(held) >= LEAST, len(held)
child = os.fork()
if not child:
    import interlock.celery, interlock.django
    done = threading.Event()
    assert interlock.django.client().lock("django").acquire(timeout=5)
    assert interlock.celery.client(app).lock("celery").acquire(timeout=5)
    assert client.lock("child").acquire(timeout=5)
    hold = client.lock("child").hold
    hold.on_lost(done.set)
    assert client.force_release("child", holder=hold.holder)
    assert done.wait(), "a callback"
    client.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
let_go.set()
thread.join()
heard and client.lock("heard").release()
client.close()
print("child:", os.waitstatus_to_exitcode(status))
"""


def test_a_fork_in_the_middle_of_anything(redis_url: str) -> None:
    """While a thread has every lock of the package, the child of a fork acquires and is told."""
    with subprocess.Popen(
        [
            *(sys.executable, "-W", "ignore::DeprecationWarning", "-c"),
            textwrap.dedent(CHILD).replace("LEAST", "4"),
            redis_url,
            *("=".join(each) for each in sorted(OF_MODULES)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            told = process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)
            told = process.communicate()[0]
    assert told.endswith("child: 0\n"), told
