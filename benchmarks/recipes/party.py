"""A process that takes part: `python -m benchmarks.recipes.party LIBRARY URL WORK NUMBER TOTAL`.

It says ``ready``, plays the work, and says its figures as JSON: times of `time.monotonic`, which is
one clock for all processes of a machine.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import interlock
from benchmarks.recipes import etcd

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 50
"""How often the parties meet at a barrier."""
SETTLED = 2.0
"""Seconds after which waiters that were started wait."""


def client_of(library: str, url: str, stack: ExitStack) -> Any:
    """Return a connected client of *library*, which *stack* ends."""
    if library == "interlock":
        return stack.enter_context(interlock.connect(url))
    if library == "etcd":
        return stack.enter_context(closing(etcd.Client(url)))
    from kazoo.client import KazooClient  # noqa: PLC0415 - of the extra `bench`

    client = KazooClient(hosts=url, timeout=30)
    client.start(30)
    stack.callback(client.close)
    stack.callback(client.stop)
    return client


def _event(library: str, client: Any) -> Callable[[], object]:
    if library == "interlock":
        return client.event("recipe").wait  # type: ignore[no-any-return]
    return client.Barrier("/event").wait  # type: ignore[no-any-return]


def _waiters(library: str, client: Any, number: int) -> list[float]:
    """Start *number* threads that wait for the event; return when each went on."""
    woken: list[float] = []

    def wait() -> None:
        _event(library, client)()
        woken.append(time.monotonic())

    threads = [threading.Thread(target=wait) for _ in range(number)]
    for thread in threads:
        thread.start()
    time.sleep(SETTLED)
    print("ready", flush=True)
    for thread in threads:
        thread.join()
    return woken


def _rounds(library: str, client: Any, total: int) -> list[float]:
    """Meet *total* parties at a barrier again and again; return when each round was over."""
    print("ready", flush=True)
    sys.stdin.readline()
    passed: list[float] = [time.monotonic()]
    barrier = client.barrier("recipe", total) if library == "interlock" else None
    for number in range(ROUNDS):
        if barrier is not None:
            barrier.wait(60)
        else:
            # Each round has a path of its own: kazoo's is made for one entry and one leave.
            client.DoubleBarrier(f"/barrier/{number}", total).enter()
        passed.append(time.monotonic())
    return passed


def main() -> None:
    """Take part as the command line says."""
    library, url, work, number, total = sys.argv[1:]
    with ExitStack() as stack:
        client = client_of(library, url, stack)
        if work == "event":
            figures = _waiters(library, client, int(number))
        else:
            figures = _rounds(library, client, int(total))
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
