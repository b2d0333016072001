"""A fork while any thread has any lock of the package leaves a child that works."""

from __future__ import annotations

from tests.hosts.host_process import Hosts

PROGRAM = """
import gc, os, signal, sys, threading
import celery, django.conf
import interlock
from interlock._drivers.background import callbacks

signal.alarm(100)
url = sys.argv[1]
django.conf.settings.configure(INTERLOCK=url)
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
roots = [client, callbacks._callbacks]
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
assert len(held) >= 4, len(held)
child = os.fork()
if not child:
    signal.alarm(100)  # a hang ends, too
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


def test_a_fork_in_the_middle_of_anything(hosts: Hosts, redis_url: str) -> None:
    """While a thread has every lock of the package, the child of a fork acquires and is told."""
    (hosts.directory / "forks.py").write_text(PROGRAM)
    process = hosts.start("forks", redis_url, PYTHONWARNINGS="ignore::DeprecationWarning")
    _ = process.wait(110)
    assert hosts.log().endswith("child: 0\n"), hosts.log()
