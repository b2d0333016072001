"""From nothing to the first lock: the import, and the round trips to a server."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.compare import Contender
from benchmarks.measure import Case, pair
from benchmarks.peer import SyncPeer
from benchmarks.peers import interlock, redis_py
from benchmarks.report import Column, Goal
from benchmarks.work import Work

if TYPE_CHECKING:
    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import time
began = time.perf_counter()
import {module}
imported = time.perf_counter()
{module}.{names}
print(imported - began, time.perf_counter() - began)
"""
# The names that a program needs for its first lock: both packages import lazily.
_NAMES = {
    interlock.SYNC.name: ("interlock", "connect"),
    redis_py.SYNC.name: ("redis", "Redis"),
}
CASE = Case("threads", 1)


def _measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    peer = contender.peer
    assert isinstance(peer, SyncPeer)
    module, names = _NAMES[peer.name]
    program = _PROGRAM.format(module=module, names=names)
    imports: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as compiled:
        _run(program, compiled)  # all is compiled, and in memory, afterwards
        ends = time.monotonic() + pace.seconds
        while not imports or time.monotonic() < ends:
            imports.append(_run(program, compiled))
    return {
        # The least: whatever disturbs makes it longer.
        "ready": min(ready for _, ready in imports),
        "module": min(module for module, _ in imports),
        **_first_pair(peer, bed),
    }


def _run(program: str, compiled: str) -> tuple[float, float]:
    """Run *program* with byte code in *compiled*, whatever the environment says of byte code."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    printed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=_ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    module, ready = map(float, printed.stdout.split())
    return module, ready


def _first_pair(peer: SyncPeer, bed: Bed) -> dict[str, float]:
    own = -bed.auditor.reads() + bed.auditor.reads()  # of asking alone
    before = bed.auditor.reads()
    with peer.open(bed.url, 1) as session:
        lock = session.lock("first")
        began = time.perf_counter()
        pair(lock)
        first = time.perf_counter() - began
        trips = bed.auditor.reads() - before - own
    return {"trips": float(trips), "first": first}


WORK = Work(
    name="startup",
    question="How long until a program that has just begun has its first lock?",
    columns=(
        Column("ready", "import, ms", ".1f", 1000),
        Column("module", "of it the bare import, ms", ".1f", 1000),
        Column("trips", "round trips until the first release"),
        Column("first", "connect and first pair, ms", ".2f", 1000),
    ),
    contenders=tuple(Contender(CASE, peer) for peer in (interlock.SYNC, redis_py.SYNC)),
    measure=_measure,
    references=("redis-py",),
    goals=(
        Goal(str(CASE), "ready", to="redis-py", most=0.060, apart=True),
        Goal(str(CASE), "trips", most=6),
    ),
    seconds=3.0,
    rounds=5,
    brief=(Contender(CASE, interlock.SYNC),),
    notes=(
        (
            "import: until interlock.connect, or redis.Redis, is there, from byte code; "
            "least of each round"
        ),
    ),
)
