"""Locks in Celery: a real worker with a pool of processes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from tests.hosts.host_process import Hosts
from tests.hosts.pages import write_programs
from tests.support.patience import wait_until
from tests.support.servers import RedisServer

import interlock
import interlock.celery

SOON = 30.0
LEASE = 2.0

WORK = """
import os, time
import interlock
import redis
from celery import Celery
from interlock.celery import Single

URL = os.environ["INTERLOCK_URL"]
app = Celery("work", broker=URL, backend=URL)
app.conf.update(interlock_options={"lease": 2}, broker_connection_retry_on_startup=True,
                worker_prefetch_multiplier=1, broker_transport_options={"visibility_timeout": 3600})
store = redis.Redis.from_url(URL)

def until_open(gate):
    store.rpush("inside", os.getpid())
    while not store.exists(gate):
        time.sleep(0.01)  # between two questions

@app.task(base=Single, lock="skip:{name}", otherwise="skipped")
def skip(name, gate="open"):
    until_open(gate)
    return "done"

@app.task(base=Single, lock="turns", if_locked="wait", lock_timeout=30)
def take_turn():
    before = int(store.get("turns taken") or 0)
    store.ping()
    store.set("turns taken", before + 1)

@app.task(base=Single, lock="turns", if_locked="wait", lock_timeout=0.1)
def be_impatient():
    return "done"

@app.task(base=Single, bind=True, if_locked="retry", default_retry_delay=0.2, max_retries=None)
def again(self, gate="open"):
    until_open(gate)
    return self.request.retries

@app.task(base=Single, lock="again", name="twice", if_locked="retry", default_retry_delay=0.1,
          max_retries=1)
def twice():
    return "done"

@app.task(base=Single, lock="late", acks_late=True, reject_on_worker_lost=True, otherwise="skipped")
def late():
    until_open("late gate")
    return "done"

@app.task(base=Single, lock="only:{name}", otherwise="skipped")
def only(name, gate="open"):
    until_open(gate)
    return "done"

@app.task(base=Single, bind=True, name="more", lock="more", if_queued="raise", max_retries=None)
def more(self, gate="open"):
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    try:
        more.delay()
    except interlock.AcquireTimeoutError:
        until_open(gate)
        return self.request.retries
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[RedisServer]:
    """Give a server of this module's own: emptying it would take its queues from the worker."""
    with RedisServer() as own:
        yield own


@pytest.fixture(scope="module")
def store(broker: RedisServer) -> Iterator[redis.Redis]:
    with broker.client() as client:
        yield client


@pytest.fixture(scope="module")
def project(broker: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    directory: Path = tmp_path_factory.mktemp("celery")
    write_programs("celery.md", directory)
    (directory / "work.py").write_text(WORK)
    started = Hosts(directory, broker.url())
    yield started
    started.close()


@pytest.fixture(scope="module")
def tasks(project: Hosts, broker: RedisServer) -> Iterator[Celery]:
    """Run a worker with four processes, and give an application that sends it tasks."""
    lean = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    for module, queue in (("work", "celery"), ("tasks", "pages")):
        project.start(
            *("celery", "-A", module, "worker", "-c", "4", "-l", "info", "-Q", queue, *lean),
            *("-n", module),
            log=f"{module}.log",
        )
    with Celery("sender", broker=broker.url(), backend=broker.url()) as sender:
        yield sender


def send(app: Celery, name: str, *args: object, **options: object) -> Any:
    own = name in ("twice", "more")
    return app.send_task(name if own else f"work.{name}", args, **options)


def inside(store: redis.Redis) -> int:
    """Wait until a task is inside its lock; return the process that runs it."""
    wait_until(lambda: store.llen("inside") > 0, SOON, "a task is inside")
    return int(store.lpop("inside") or 0)


def test_skip(tasks: Celery, store: redis.Redis) -> None:
    """A task is skipped while another one has its arguments, and told so by its result."""
    first = send(tasks, "skip", "a", "gate a")
    inside(store)
    assert send(tasks, "skip", "a", "gate a").get(timeout=SOON) == "skipped"
    store.set("gate b", 1)
    assert send(tasks, "skip", "b", "gate b").get(timeout=SOON) == "done"
    inside(store)
    store.set("gate a", 1)
    assert first.get(timeout=SOON) == "done"


def test_wait(tasks: Celery, store: redis.Redis, broker: RedisServer) -> None:
    """Tasks that wait run one after another, and one that has waited long enough fails."""
    results = [send(tasks, "take_turn") for _ in range(24)]
    for result in results:
        result.get(timeout=SOON)
    assert int(store.get("turns taken") or 0) == len(results)
    with interlock.connect(broker.url()) as other, other.lock("turns"):
        result = send(tasks, "be_impatient")
        with pytest.raises(interlock.AcquireTimeoutError):
            result.get(timeout=SOON)


def test_retry(tasks: Celery, store: redis.Redis, broker: RedisServer) -> None:
    """A task that retries runs when the lock is free, or fails after its last try."""
    store.set("open", 1)
    with interlock.connect(broker.url()) as other:
        with other.lock("work.again"):
            result = send(tasks, "again")
            wait_until(lambda: result.state == "RETRY", SOON, "it is tried again")
        assert result.get(timeout=SOON) > 0
        inside(store)
        with other.lock("again"), pytest.raises(interlock.AcquireTimeoutError):
            send(tasks, "twice").get(timeout=SOON)


def test_a_killed_worker(tasks: Celery, store: redis.Redis) -> None:
    """The task of a killed process is delivered again, and runs when the lease has ended."""
    result = send(tasks, "late")
    os.kill(inside(store), signal.SIGKILL)
    assert store.pttl("late") > 0
    store.set("late gate", 1)
    assert result.get(timeout=SOON) == "done"
    inside(store)
    assert not store.exists("late")


@pytest.fixture
def only(tasks: Celery, broker: RedisServer) -> Iterator[Callable[..., Any]]:
    """Give what makes the worker's task as a sender has it, which refuses to send it twice."""
    with contextlib.ExitStack() as closing:

        def make(name: str = "work.only", **settings: Any) -> Any:
            app = closing.enter_context(Celery("here", broker=broker.url(), backend=broker.url()))
            closing.callback(lambda: interlock.celery.client(app).close())
            settings = {"if_queued": "raise", "otherwise": "not sent"} | settings
            settings = {"lock": "only:{name}", "typing": False} | settings

            @app.task(base=interlock.celery.Single, name=name, **settings)
            def sent(name: str = "", gate: str = "open") -> None: ...

            return sent

        yield make


def test_a_task_that_is_queued_is_not_sent_again(
    tasks: Celery, store: redis.Redis, only: Callable[..., Any]
) -> None:
    """A task in the queue refuses one with its arguments; a lost one does so for its lease."""
    refusing = only(queue_lease=60)
    refusing.apply_async(["a"], queue="nobody")
    assert 50_000 < store.pttl("only:a") <= 60_000
    with pytest.raises(interlock.AcquireTimeoutError, match="is queued or runs already"):
        refusing.delay("a")
    refusing.if_queued = "skip"
    result = refusing.delay(name="a")
    assert (result.state, result.result, store.llen("nobody")) == ("REJECTED", "not sent", 1)
    refusing.apply_async(["late"], queue="nobody", countdown=100)
    assert 150_000 < store.pttl("only:late") <= 160_000
    refusing.queue_lease = 0.3
    refusing.apply_async(["b"], queue="nobody", eta=datetime.now(UTC))
    wait_until(lambda: not store.exists("only:b"), SOON, "its lease ends")
    refusing.apply_async(["b"], queue="nobody")
    assert store.llen("nobody") == 4

    refusing.if_queued = "send"
    refusing.apply_async(["a"], queue="nobody")
    assert store.llen("nobody") == 5


def test_a_task_that_runs_is_not_sent_again(
    tasks: Celery, store: redis.Redis, only: Callable[..., Any]
) -> None:
    """The worker takes over the lock that the sender took, and frees it at the end."""
    refusing = only()
    result = refusing.delay("run", "gate run")
    inside(store)
    assert 0 < store.pttl("only:run") <= LEASE * 1000
    with pytest.raises(interlock.AcquireTimeoutError):
        refusing.delay("run", "gate run")
    store.set("gate run", 1)
    assert result.get(timeout=SOON) == "done"
    assert refusing.delay("run", "gate run").get(timeout=SOON) == "done"
    store.delete("inside")


def test_a_task_that_is_tried_again_keeps_its_lock(
    tasks: Celery, store: redis.Redis, only: Callable[..., Any]
) -> None:
    """A retry takes the lock along, so an equal task is refused meanwhile, by its own task too."""
    refusing = only("more", lock="more")
    result = refusing.apply_async(kwargs={"gate": "gate more"})
    inside(store)
    with pytest.raises(interlock.AcquireTimeoutError):
        refusing.delay()
    store.set("gate more", 1)
    assert result.get(timeout=SOON) == 2
    wait_until(lambda: not store.exists("more"), SOON, "the lock is free")


def test_the_tasks_of_the_page(tasks: Celery, store: redis.Redis) -> None:
    """The tasks of the how-to run, by positional and by named arguments."""
    results = [
        tasks.send_task("tasks.report", kwargs={"month": "May"}, queue="pages"),
        tasks.send_task("tasks.ship", [42], queue="pages"),
        tasks.send_task("tasks.sync", [42], queue="pages"),
        tasks.send_task("tasks.tidy", queue="pages"),
    ]
    assert [result.get(timeout=SOON) for result in results] == [
        "written for May",
        "shipped",
        "in sync",
        "tidy",
    ]
    assert not store.exists("report:May", "orders:42", "tasks.tidy")
    assert 0 < store.pttl("sync:42") <= 5000


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ({"lock": "it:{x}"}, "names 'x', which is no parameter"),
        ({"lock": "it:{"}, "is no template for a name"),
        ({"if_locked": "perhaps"}, "skip, wait or retry"),
        ({"lock_timeout": -2}, "timeout must be None"),
        ({"lock_lease": 0}, "lease must be"),
        ({"queue_lease": 0}, "lease must be"),
        ({"if_queued": "perhaps"}, "if_queued is send, skip or raise"),
        ({"min_hold": 2, "max_hold": 1}, "max_hold must be 2 to"),
    ],
)
def test_a_mistake_is_told_when_the_task_is_made(mistake: dict[str, Any], words: str) -> None:
    """Settings of a task that cannot work are errors before anything is sent."""
    app = Celery("here", broker="memory://")
    with pytest.raises(interlock.ConfigError, match=words):

        @app.task(base=interlock.celery.Single, lazy=False, **mistake)
        def it(number: int = 1) -> None: ...
