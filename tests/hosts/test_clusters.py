"""The programs that the manifests of examples/ run do what they promise."""

from __future__ import annotations

import itertools
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import yaml
from tests.hosts.host_process import Hosts
from tests.support.address import free_port
from tests.support.servers import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"

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
