"""Locks in RQ, in a real worker."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys

import redis
from rq import Queue
from rq.job import Job, JobStatus
from tests.hosts.host_process import Hosts
from tests.hosts.pages import HOW_TO, write_programs
from tests.support.patience import wait_until

import interlock

SOON = 30.0
CRON = """
from rq import cron
import jobs

cron.register(jobs.report, "cron", args=("May",), interval=1)
"""
HANG = """

def hang() -> None:
    import time

    with client.lock("orders:13"):
        time.sleep(3600)
"""


def result(job: Job) -> object:
    wait_until(lambda: job.get_status(refresh=True) == JobStatus.FINISHED, SOON, "it has ended")
    return job.return_value(refresh=True)


def test_jobs(hosts: Hosts, redis_url: str) -> None:
    """The jobs of the how-to skip, wait and retry; dead ones leave the lock to others."""
    write_programs("celery.md", hosts.directory)
    with (hosts.directory / "jobs.py").open("a") as jobs:
        jobs.write(HANG)
    hosts.start("rq.cli", "worker", "--with-scheduler", "--url", redis_url)
    with redis.Redis.from_url(redis_url) as store, interlock.connect(redis_url) as other:
        queue = Queue(connection=store)
        with other.lock("report:May"), other.lock("tidy"):
            assert result(queue.enqueue("jobs.report", "May")) == "skipped"
            assert result(queue.enqueue("jobs.report", "June")) == "written for June"
            again = queue.enqueue("jobs.tidy")
            wait_until(
                lambda: again.get_status(refresh=True) == JobStatus.SCHEDULED, SOON, "it is retried"
            )
        assert result(queue.enqueue("jobs.ship", 42)) == "shipped 42"
        assert result(again) == "tidy"

        late = queue.enqueue("jobs.hang", job_timeout=1)
        wait_until(lambda: late.get_status(refresh=True) == JobStatus.FAILED, SOON, "it has ended")
        assert not other.lock("orders:13").locked()

        killed = queue.enqueue("jobs.hang")
        wait_until(lambda: other.lock("orders:13").locked(), SOON, "it holds the lock")
        [worker] = [each for each in _workers(store) if each]
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: killed.get_status(refresh=True) == JobStatus.FAILED, SOON, "it is dead")
        remaining = other.lock("orders:13").remaining()
        assert remaining is not None
        assert remaining <= 10


def test_cron(hosts: Hosts, redis_url: str) -> None:
    """The command of the how-to starts RQ's cron in one process of several."""
    write_programs("celery.md", hosts.directory)
    (hosts.directory / "cron_config.py").write_text(CRON)
    [line] = re.findall(
        r"^\$ interlock (.*rq cron.*)$", (HOW_TO / "celery.md").read_text(), re.MULTILINE
    )
    words = shlex.split(line)
    at = words.index("rq")
    command = ("interlock", *words[:at], sys.executable, "-m", "rq.cli", *words[at + 1 :])
    first = hosts.start(*command, "--url", redis_url, log="first.log")
    with redis.Redis.from_url(redis_url) as store:
        wait_until(lambda: store.llen("rq:queue:cron") > 0, SOON, "the first one enqueues")
        hosts.start(*command, "--url", redis_url, log="second.log")
        before = store.llen("rq:queue:cron")
        wait_until(lambda: store.llen("rq:queue:cron") > before, SOON, "it goes on")
        assert hosts.log("second.log") == ""
        first.send_signal(signal.SIGTERM)
        wait_until(lambda: hosts.log("second.log") != "", SOON, "the second one takes over")


def _workers(store: redis.Redis) -> list[int]:
    """Return the processes that run jobs: the children of the worker."""
    from rq import Worker

    return [worker.get_current_job() and _child_of(worker.pid) for worker in Worker.all(store)]


def _child_of(pid: int) -> int:
    with open(f"/proc/{pid}/task/{pid}/children") as children:  # noqa: PTH123
        return int(children.read().split()[-1])
