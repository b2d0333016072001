"""A process forks in the middle of a wait."""

from __future__ import annotations

import pytest
from tests.lock.children import Child

import interlock

WAITS = """
client = interlock.connect(url, lease=30)
lock = client.lock("the name")
def wait():
    with lock:
        say("got")
waiting = threading.Thread(target=wait)
waiting.start()
session = lock._core.session
def listens():
    lines = [hold.place.line for hold in list(session.queues.places.values())]
    return any(each.waiters and each.heard for each in lines)
until(listens)
time.sleep(0.1)
if (child := os.fork()) == 0:
    try:
        assert not lock.acquire(timeout=0.2)
        client.close()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0) == (child, 0)
say("forked")
waiting.join()
client.close()
say("done")
"""


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "fenced_lock"])
def test_a_fork_in_a_wait_leaves_the_place_to_the_parent(redis_url: str, kind: str) -> None:
    """The parent's thread keeps its place, and gets the lock by a message; its child stands apart."""
    with interlock.connect(redis_url) as client:
        lock = getattr(client, kind)("the name")
        with lock:
            parent = Child(WAITS.replace("client.lock(", f"client.{kind}("), redis_url)
            with parent:
                assert parent.hear() == "forked"
                lock.release()
                assert parent.hear() == "got"
                assert parent.hear() == "done"
                assert parent.end() == (0, "")
                assert lock.acquire(timeout=5)
        assert not lock.locked()
