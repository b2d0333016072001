"""`python -m benchmarks failover`: who is given a lock that a failover forgot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from benchmarks.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy


def test_two_failovers_of_each_lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A forgotten lock is granted twice, but not a red lock, nor one that replicas had to have.

    A fenced resource lets no stale writer in.
    """
    file = tmp_path / "report.json"
    # The primary is killed before the replica hears of the lock, even if the machine stands still
    # in between.
    assert main(["failover", "--rounds", "2", "--delay", "1", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    results = {result["lock"]: result for result in report["results"]}
    assert [result["rounds"] for result in results.values()] == [2] * 5
    assert not any(result["refused"] for result in results.values())
    assert results["redis-py's Lock"]["granted_twice"] == 2
    assert results["redis-py's Lock"]["stale_writes_let_through"] == 2
    assert results["interlock, replicas off"]["granted_twice"] == 2
    for name in ('interlock, required("all")', "interlock, red lock over 3"):
        assert results[name]["granted_twice"] == 0
        assert results[name]["met"]
    fenced = results["interlock, fenced resource"]
    assert (fenced["granted_twice"], fenced["stale_writes_rejected"]) == (2, 2)
    assert fenced["stale_writes_let_through"] == 0
    assert "| redis-py's Lock " in capsys.readouterr().out
