"""Who owns a lock in the workers of servers, queues and schedulers: jobs that arrive in turn.

Each job leaves its block open, and another thread ends it later. If the thread of a pool were the
owner, the next job that it takes would be inside as well.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from celery import Celery
from tests.support.address import free_port
from tests.support.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    from tests.hosts.host_process import Hosts

SOON = 60.0
COUNT = 6
WORK = """
import contextlib, os, threading, time, interlock, redis

URL = os.environ["INTERLOCK_URL"]
client, store = interlock.connect(URL, lease=3), redis.Redis.from_url(URL)

def enter():
    if store.incr("inside") > 1:
        store.incr("over")

def leave():
    store.decr("inside")

def work():
    stack = contextlib.ExitStack()
    stack.enter_context(client.lock("x", timeout=60))
    enter()
    def end():
        time.sleep(0.2)  # longer than until the next job
        leave()
        stack.close()
        store.incr("served")
    threading.Thread(target=end).start()
"""
PLAIN = """
def app(environ, start_response):
    if environ["PATH_INFO"] == "/job":
        work()
    start_response("200 OK", [])
    return [b"ok"]
"""
DJANGO = """
import django
from django.conf import settings
settings.configure(ROOT_URLCONF=__name__, MIDDLEWARE=[__name__ + ".hold"], ALLOWED_HOSTS=["*"])
django.setup()
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

def hold(get_response):
    def middleware(request):
        with client.lock("x", timeout=60):
            return get_response(request)
    return middleware

def job(request):
    with client.lock("x", timeout=0):
        enter()
        time.sleep(0.2)
        leave()
    store.incr("served")
    return HttpResponse("ok")

urlpatterns = [path("job", job), path("up", lambda request: HttpResponse("ok"))]
app = get_wsgi_application()
"""
CELERY = """
from celery import Celery
app = Celery("program", broker=URL)
app.conf.update(broker_connection_retry_on_startup=True, worker_prefetch_multiplier=1)
app.task(work, name="work")

@app.task(name="forget")
def forget():
    lock = client.lock("x", timeout=60)
    lock.acquire()
    if lock.hold.depth > 1:
        store.incr("over")
    store.incr("served")
"""


def in_turn(call: Callable[[], object]) -> None:
    """Make *call* in threads, one after the other."""
    threads = [threading.Thread(target=call) for _ in range(COUNT)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)  # each job comes while the one before is inside
    for thread in threads:
        thread.join()


def overlaps(redis_client: redis.Redis) -> int:
    """Wait until all jobs were served; return how many entered while another one was inside."""
    wait_until(lambda: int(redis_client.get("served") or 0) == COUNT, SOON, "all are served")
    wait_until(lambda: not redis_client.exists("x"), SOON, "the lock is free")
    return int(redis_client.get("over") or 0)


@pytest.mark.parametrize("program", [PLAIN, DJANGO], ids=["plain", "django"])
def test_gunicorns_threads(hosts: Hosts, redis_client: redis.Redis, program: str) -> None:
    """Requests exclude each other, and Django's view enters again what its middleware holds."""
    (hosts.directory / "program.py").write_text(WORK + program)
    port = free_port()
    threads = ("--worker-class", "gthread", "--threads", "3")
    hosts.start("gunicorn", "program:app", *threads, "--bind", f"127.0.0.1:{port}")

    def ask(path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=SOON) as answer:
                return bool(answer.read())
        except OSError:
            return False

    wait_until(lambda: ask("up"), SOON, "gunicorn serves")
    in_turn(lambda: ask("job"))
    assert overlaps(redis_client) == 0


@pytest.mark.parametrize(
    ("pool", "task"), [("threads", "work"), ("gevent", "work"), ("prefork", "forget")]
)
def test_celerys_pools(
    hosts: Hosts, redis_client: redis.Redis, redis_url: str, pool: str, task: str
) -> None:
    """Tasks exclude each other; no task enters what the one before it in a process forgot."""
    (hosts.directory / "program.py").write_text(WORK + CELERY)
    lean = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    hosts.start("celery", "-A", "program", "worker", "-P", pool, "-c", "3", *lean)
    with Celery("program", broker=redis_url) as sender:
        for _ in range(COUNT):
            sender.send_task(task)
            time.sleep(0.1)  # each task comes while the one before is inside
        assert overlaps(redis_client) == 0
