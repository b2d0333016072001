"""Limits inside of workers: Celery's processes, Dramatiq's processes and threads."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from tests.hosts.host_process import Hosts
from tests.hosts.pages import write_programs
from tests.support.patience import wait_until

SOON = 60.0
TASKS = 12
SEND = {
    "celery": "import work\nfor n in range(12): work.report.delay(n)",
    "dramatiq": "import actors\nfor n in range(12): actors.report.send(n)",
}
WORKERS = {
    "celery": ("celery", "-A", "work", "worker", "-c", "4", "--without-mingle"),
    "dramatiq": ("dramatiq", "actors", "-p", "2", "-t", "2"),
}


@pytest.mark.parametrize("host", list(WORKERS))
def test_a_fleet_of_workers(
    hosts: Hosts, tmp_path: Path, redis_client: redis.Redis, host: str
) -> None:
    """Of four workers two are inside at a time, and never more; all tasks are done."""
    write_programs("limit.md", tmp_path)
    for program in tmp_path.glob("*.py"):
        # So long that a busy machine sees each task inside.
        program.write_text(program.read_text().replace("time.sleep(0.05)", "time.sleep(0.5)"))
    (tmp_path / "send.py").write_text(SEND[host])
    assert hosts.start("send", log="send.log").wait(SOON) == 0, hosts.log("send.log")
    worker = hosts.start(*WORKERS[host])
    most = 0
    names: set[bytes] = set()

    def all_are_done() -> bool:
        nonlocal most
        inside = {*redis_client.zrange("interlock_limited:{reports}", 0, -1)}
        names.update(inside)
        most = max(most, len(inside))
        return len(names - inside) == TASKS

    wait_until(all_are_done, SOON, "all tasks are done")
    assert most == 2, hosts.log()
    worker.terminate()
    worker.wait(SOON)
    key = "interlock_limited:{reports}"
    wait_until(lambda: not redis_client.exists(key), SOON, "all permits are free")
