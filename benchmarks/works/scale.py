"""More client processes, more primaries: a pair's cost on both sides, and who is full first."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, cast

from tests.support.server import RedisServer
from tests.support.servers import wait_until

from benchmarks.compare import Contender
from benchmarks.measure import GRACE, Case
from benchmarks.peers import interlock
from benchmarks.report import Column
from benchmarks.work import Work
from benchmarks.works.many import Probe, probe

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import redis

    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_SLOTS = 16384
_TASKS = 100
_SINGLE = tuple(
    Case("tasks", _TASKS, processes=number, label=f"1 server, {number} x {_TASKS} tasks")
    for number in (1, 2, 4, 8)
)
_CLUSTERS = {
    Case(
        "tasks", _TASKS, processes=4, label=f"cluster of {primaries}, 4 x {_TASKS} tasks"
    ): primaries
    for primaries in (1, 3, 6)
}


@contextlib.contextmanager
def _cluster(primaries: int) -> Generator[tuple[str, Sequence[redis.Redis]]]:
    """Start *primaries* nodes that share the slots evenly, without replicas."""
    with contextlib.ExitStack() as stack:
        config = {"cluster-enabled": "yes"}
        nodes = [stack.enter_context(RedisServer(config=config)) for _ in range(primaries)]
        clients = [stack.enter_context(node.client()) for node in nodes]
        for number, node in enumerate(nodes):
            first, after = _SLOTS * number // primaries, _SLOTS * (number + 1) // primaries
            node.execute("CLUSTER", "ADDSLOTSRANGE", first, after - 1)
            node.execute("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        wait_until(lambda: all(map(_formed, nodes)), GRACE, "the cluster is formed")
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        yield f"redis+cluster://{hosts}", clients


def _formed(node: RedisServer) -> bool:
    """Tell whether *node* knows of an owner for every slot."""
    return b"cluster_state:ok" in cast("bytes", node.execute("CLUSTER", "INFO"))


def _cpu(client: redis.Redis) -> float:
    """Return the seconds of processor time that the server's main thread has used."""
    info = client.info("cpu")
    return float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"])


def _measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    case = contender.case
    with contextlib.ExitStack() as stack:
        if primaries := _CLUSTERS.get(case):
            url, clients = stack.enter_context(_cluster(primaries))
        else:
            url, clients = bed.url, [stack.enter_context(bed.servers[0].client())]
        programs: list[Probe] = [
            stack.enter_context(probe("pairs", url, case.workers, pace.seconds))
            for _ in range(case.processes)
        ]
        for program in programs:
            program.step()
        before, began = [_cpu(client) for client in clients], time.monotonic()
        for program in programs:
            program.go_on()
        facts = [program.step() for program in programs]
        taken = time.monotonic() - began
        used = [_cpu(client) - past for client, past in zip(clients, before, strict=True)]
    total = sum(fact["total"] for fact in facts)
    spent = sum(fact["cpu"] for fact in facts)
    return {
        "rate": sum(fact["rate"] for fact in facts),
        "client_cost": spent / total,
        "server_cost": sum(used) / total,
        "client_busy": spent / taken / case.processes,
        "server_busy": max(used) / taken,
    }


WORK = Work(
    name="scale",
    question="What does a pair cost the client and the server, and which of them is full first?",
    columns=(
        Column("rate", "pairs/s"),
        Column("client_cost", "client CPU a pair, µs", ".1f", 1e6),
        Column("server_cost", "server CPU a pair, µs", ".1f", 1e6),
        Column("client_busy", "each client busy, %", scale=100),
        Column("server_busy", "busiest server busy, %", scale=100),
    ),
    contenders=tuple(Contender(case, interlock.ASYNC) for case in (*_SINGLE, *_CLUSTERS)),
    brief=(Contender(_SINGLE[0], interlock.ASYNC),),
    measure=_measure,
    references=(),
    seconds=3.0,
    brief_seconds=1.5,
    rounds=3,
    notes=(
        "clients and servers share the processors: the rates stop there, the costs are what scales",
        "busy: of one processor; the server's is that of its main thread",
    ),
)
