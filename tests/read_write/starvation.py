"""How long a writer waits among readers that come and go all the time.

``python tests/read_write/starvation.py`` reports, and judges nothing. A writer's wait depends on
how often the readers leave the lock free between them.
"""

from __future__ import annotations

import itertools
import random
import statistics
import threading
import time
from typing import TYPE_CHECKING

from tests.support.servers import RedisServer

import interlock

if TYPE_CHECKING:
    from interlock import Client

READS_FOR = 0.002
"""Seconds that a reader holds the lock on average."""
ROUNDS = 12
PATIENCE = 3.0
"""Seconds after which a writer counts as starved."""


def main() -> None:
    """Measure each case and print a line for it."""
    print(
        f"{'readers':>8} {'pause':>8} {'they are in':<16} {'median':>10} {'worst':>10}"
        f" {'starved':>8}"
    )
    with RedisServer() as server:
        for readers, pause, same in itertools.product((1, 4, 16), (0.0, 0.01), (True, False)):
            waits = measure(server.url(), readers, pause, same_client=same)
            starved = sum(wait >= PATIENCE for wait in waits)
            where = "the same client" if same else "another client"
            print(
                f"{readers:>8} {pause * 1000:>5.0f} ms {where:<16}"
                f" {statistics.median(waits) * 1000:>7.1f} ms"
                f" {max(waits) * 1000:>7.1f} ms {starved:>3} of {len(waits)}",
                flush=True,
            )


def measure(url: str, readers: int, pause: float, *, same_client: bool) -> list[float]:
    """Return the waits of some writers among *readers* that pause between their reads.

    A pause takes *pause* seconds on average.
    """
    over = threading.Event()
    with interlock.connect(url) as client, interlock.connect(url) as other:
        threads = [
            threading.Thread(target=_read, args=(client if same_client else other, pause, over))
            for _ in range(readers)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.2)  # until readers come and go
        waits = [_write(client) for _ in range(ROUNDS)]
        over.set()
        for thread in threads:
            thread.join()
    return waits


def _read(client: Client, pause: float, over: threading.Event) -> None:
    lock = client.read_write_lock("name")
    while not over.is_set():
        with lock.read:
            time.sleep(random.uniform(0, 2 * READS_FOR))  # a reader reads in real time
        time.sleep(random.uniform(0, 2 * pause))  # and pauses


def _write(client: Client) -> float:
    lock, began = client.read_write_lock("name"), time.monotonic()
    if lock.write.acquire(timeout=PATIENCE):
        waited = time.monotonic() - began
        lock.write.release()
        return waited
    return PATIENCE


if __name__ == "__main__":
    main()
