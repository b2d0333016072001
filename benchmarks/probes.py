"""Programs that are measured from outside: `python -m benchmarks.probes NAME URL NUMBER NUMBER`.

Each prints one JSON line when it is ready, waits for a line on its standard input, does what is
left, and prints another. Memory is what the interpreter allocated, as tracemalloc counts it. So
neither the allocator's reserve nor the libraries count. Tracemalloc slows everything else down, so
it is switched off before anything is timed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
import tracemalloc
from dataclasses import replace

import interlock.asyncio
from benchmarks.measure import Pace, measure
from benchmarks.peers import interlock as peer

_SLEEPERS = 1000
_WARMUP = 0.5  # seconds
_SETTLE, _SETTLED = 1.0, 2000  # seconds until waiters wait: some at least, and one for so many


def _tell(**facts: float) -> None:
    print(json.dumps(facts), flush=True)


async def _told() -> None:
    await asyncio.to_thread(sys.stdin.readline)


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def holds(url: str, count: int, lease: float) -> None:
    """Take *count* locks and keep them; tell the bytes for each, then what the loop felt."""
    async with interlock.asyncio.connect(url, lease=lease, card=False) as client:
        await client.lock("first").acquire()
        tracemalloc.start()
        before = _allocated()
        kept = [client.lock(f"hold:{number}") for number in range(count)]
        bare = _allocated()
        for lock in kept:
            await lock.acquire()
        after = _allocated()
        tracemalloc.stop()
        _tell(bytes_hold=(after - bare) / count, bytes_lock=(bare - before) / count)
        await _told()
        lost = sum(not (lock.hold and lock.hold.valid) for lock in kept)
        _tell(lost=lost)


async def waiters(url: str, count: int, names: int) -> None:
    """Wait for *names* locks that others hold, with *count* tasks; tell how long all turns took."""
    async with interlock.asyncio.connect(url) as client:
        await client.lock("first").acquire()
        tracemalloc.start()
        before = _allocated()

        async def wait(number: int) -> None:
            lock = client.lock(f"wanted:{number % names}")
            await lock.acquire()
            await lock.release()

        async def idle() -> None:
            await asyncio.Event().wait()

        sleepers = [asyncio.create_task(idle()) for _ in range(_SLEEPERS)]
        await asyncio.sleep(0)
        task_bytes = (_allocated() - before) / _SLEEPERS
        for sleeper in sleepers:
            sleeper.cancel()
        await asyncio.gather(*sleepers, return_exceptions=True)
        sleepers.clear()
        before = _allocated()
        tasks = [asyncio.create_task(wait(number)) for number in range(count)]
        await asyncio.sleep(_SETTLE + count / _SETTLED)  # everybody has tried and subscribed
        after = _allocated()
        tracemalloc.stop()
        _tell(bytes_waiter=(after - before) / count, bytes_task=task_bytes)
        await _told()
        began = time.monotonic()
        await asyncio.gather(*tasks)
        _tell(drained=time.monotonic() - began)


def pairs(url: str, tasks: int, seconds: float) -> None:
    """Make pairs with *tasks* tasks on names of this process; tell how many, and the CPU time."""
    mine = replace(peer.ASYNC, name=f"interlock:{os.getpid()}")
    _tell()
    sys.stdin.readline()
    before = time.process_time()
    sample = measure(mine, tasks, url, Pace(_WARMUP, seconds))
    _tell(rate=sample.rate, total=sample.total, cpu=time.process_time() - before)


def main(words: list[str]) -> None:
    """Run one probe."""
    match words:
        case ["holds", url, count, lease]:
            asyncio.run(holds(url, int(count), float(lease)))
        case ["waiters", url, count, names]:
            asyncio.run(waiters(url, int(count), int(names)))
        case ["pairs", url, tasks, seconds]:
            pairs(url, int(tasks), float(seconds))
        case unknown:
            raise SystemExit(f"no such probe: {unknown}")


if __name__ == "__main__":
    main(sys.argv[1:])
