"""The programs of examples/ that run in a fleet, and those that its manifests run."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path

import redis
import yaml
from tests.hosts.host_process import Hosts
from tests.support.address import free_port
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


MIGRATE = """
import json, os, sys, time
began = time.monotonic()
time.sleep(0.1)  # a migration takes real time
with open(sys.argv[1], "a") as log:
    print(json.dumps([began, time.monotonic(), os.environ["INTERLOCK_NAME"]]), file=log)
"""


def test_pods_migrate_one_after_another(hosts: Hosts, tmp_path: Path) -> None:
    """Three init containers that start at once run the migration one at a time."""
    manifest = (EXAMPLES / "kubernetes/migration.yaml").read_text()
    [deployment] = [document for document in yaml.safe_load_all(manifest) if document]
    [container] = deployment["spec"]["template"]["spec"]["initContainers"]
    program, *command = container["command"]
    assert (program, container["args"][:2]) == ("interlock", ["python", "manage.py"])
    log = tmp_path / "migrations"
    pods = [
        hosts.start("interlock", *command, sys.executable, "-c", MIGRATE, str(log))
        for _ in range(3)
    ]
    assert [pod.wait(60) for pod in pods] == [0, 0, 0], hosts.log()
    runs = sorted(json.loads(line) for line in log.read_text().splitlines())
    assert [name for _, _, name in runs] == ["shop-migration"] * 3
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(runs))


def _answers(port: int, path: str) -> int:
    """Return the status of a probe; 0 if nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def test_the_standby_becomes_ready_when_the_leader_ends(hosts: Hosts) -> None:
    """One of two pods is ready; after a TERM to it, the other one is."""
    program = EXAMPLES / "kubernetes/singleton.py"
    (hosts.directory / "singleton.py").write_text(program.read_text())
    ports = {}
    for name in ("pod-1", "pod-2"):
        port = free_port()
        ports[port] = hosts.start("singleton", log=name, PORT=str(port), POD_NAME=name)

    def ready() -> list[int]:
        return [port for port in ports if _answers(port, "/readyz") == 200]

    wait_until(lambda: len(ready()) == 1, 30, "one pod leads")
    [leader] = ready()
    wait_until(lambda: all(_answers(port, "/livez") == 200 for port in ports), 30, "both live")
    assert ready() == [leader]
    ports[leader].terminate()
    assert ports[leader].wait(30) == 0, hosts.log("pod-1") + hosts.log("pod-2")
    [standby] = set(ports) - {leader}
    wait_until(lambda: ready() == [standby], 30, "the standby leads")
