"""APScheduler 4, which cannot be installed beside version 3: `.ci/dependencies` runs this alone."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import redis
from tests.hosts.pages import write_programs
from tests.support.patience import wait_until

if TYPE_CHECKING:
    from tests.hosts.host_process import Hosts


def test_one_scheduler_of_two_runs_the_jobs(hosts: Hosts, redis_url: str) -> None:
    """One of two schedulers runs the jobs. A lost lock ends it; another takes over when it dies."""
    write_programs("apscheduler.md", hosts.directory)
    first = hosts.start("schedule4", log="first.log")
    wait_until(lambda: hosts.log("first.log").count("written") >= 3, 10, "the first one runs it")
    with redis.Redis.from_url(redis_url) as client:
        client.delete("reports")
    wait_until(lambda: "was lost" in hosts.log("first.log"), 10, "its scheduler has ended")
    told = hosts.log("first.log").count("written")
    wait_until(lambda: hosts.log("first.log").count("written") > told, 10, "it leads again")
    hosts.start("schedule4", log="second.log")
    told = hosts.log("first.log").count("written")
    wait_until(lambda: hosts.log("first.log").count("written") > told + 3, 10, "it still leads")
    assert hosts.log("second.log") == ""
    first.send_signal(signal.SIGKILL)
    wait_until(lambda: "written" in hosts.log("second.log"), 10, "the second one takes over")
