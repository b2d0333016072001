"""The programs of examples/ that put a scheduler or an agent into a fleet."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

import redis
from tests.hosts.host_process import Hosts
from tests.support.patience import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
SOON = 30.0


def test_one_scheduler_of_many_runs_the_jobs(hosts: Hosts) -> None:
    """Of several APSchedulers one runs the jobs; another takes over if it is killed or stopped."""
    shutil.copy(EXAMPLES / "apscheduler/schedule.py", hosts.directory)

    def written(number: int) -> int:
        return hosts.log(f"{number}.log").count("written")

    first = hosts.start("schedule", log="1.log")
    wait_until(lambda: written(1) >= 2, SOON, "the first one runs it")
    second = hosts.start("schedule", log="2.log")
    before = written(1)
    wait_until(lambda: written(1) > before + 10, SOON, "it still runs it")
    assert hosts.log("2.log") == ""
    first.kill()
    wait_until(lambda: written(2) > 0, SOON, "the second one takes over")
    third = hosts.start("schedule", log="3.log")
    second.send_signal(signal.SIGTERM)
    assert second.wait(SOON) == 0, hosts.log("2.log")
    wait_until(lambda: written(3) > 0, SOON, "the third one takes over")
    third.send_signal(signal.SIGTERM)
    assert third.wait(SOON) == 0, hosts.log("3.log")


def test_one_beat_of_many_sends_tasks(hosts: Hosts, redis_client: redis.Redis) -> None:
    """Of two beats one sends tasks; the other one takes over when it is killed or stopped."""
    shutil.copy(EXAMPLES / "celery/tasks.py", hosts.directory)
    program = (EXAMPLES / "celery/beat.sh").read_text().splitlines()[-1]
    execute, *command = shlex.split(program)
    assert execute == "exec"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def starts(number: int) -> int:
        return hosts.log(f"{number}.log").count("beat: Starting")

    first = hosts.start(*command, log="1.log", PATH=path)
    wait_until(lambda: redis_client.llen("celery") > 2, SOON, "the first one sends")
    second = hosts.start(*command, log="2.log", PATH=path)
    before = redis_client.llen("celery")
    wait_until(lambda: redis_client.llen("celery") > before + 4, SOON, "it still sends")
    assert starts(2) == 0
    os.killpg(first.pid, signal.SIGKILL)
    wait_until(lambda: starts(2) == 1, SOON, "the second one takes over")
    third = hosts.start(*command, log="3.log", PATH=path)
    second.send_signal(signal.SIGTERM)
    wait_until(lambda: starts(3) == 1, SOON, "the third one takes over")
    before = redis_client.llen("celery")
    wait_until(lambda: redis_client.llen("celery") > before, SOON, "it sends")
    third.send_signal(signal.SIGTERM)
    _ = second.wait(SOON), third.wait(SOON)
    wait_until(lambda: not redis_client.exists("celery-beat"), SOON, "the lock is free")


def test_agents_share_a_limit(hosts: Hosts, redis_client: redis.Redis) -> None:
    """Agents of pydantic-ai run within the limit, and leave no permit taken."""
    shutil.copy(EXAMPLES / "pydantic_ai/agents.py", hosts.directory)
    assert hosts.start("agents").wait(SOON) == 0, hosts.log()
    assert hosts.log() == "4 answers\n"
    assert not redis_client.exists("interlock_limited:{model}")
