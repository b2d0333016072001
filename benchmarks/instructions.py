"""Count the instructions of one uncontended pair of each object, so that CI can guard them.

Valgrind counts what the client executes in user space. The server runs beside it and is not
counted. So a busy machine changes next to nothing, where a clock would tell nonsense.

`instructions.json` has the counts as a command wrote them. Another build of Python needs other
counts. So they are compared as multiples of `bare`, two commands that a bare socket sends.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.server import RedisServer

from benchmarks import bare
from benchmarks.peers import OBJECTS, TASKS, THREADS
from benchmarks.process import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.peers import AsyncLock, AsyncOpen, Open, SyncLock

TABLE = Path(__file__).with_name("instructions.json")
WARM, PAIRS, COUNTS = 150, 20, 7
"""Pairs before the count begins, those of one count, and how often they are counted.

Python adapts its functions to the types that it meets. After another object it takes 60 pairs and
more until it has adapted them anew.
"""
MORE = 1.05
"""The multiple of its former count from which an object has become slower."""
AGAIN = 2
"""How many more processes count what one process found slower, or what is written down."""
PLAIN, BARE = "interlock", "bare"
COUNTED_THREADS: dict[str, Open] = {BARE: bare.threads, **{name: THREADS[name] for name in OBJECTS}}
COUNTED_TASKS: dict[str, AsyncOpen] = {BARE: bare.tasks, **{name: TASKS[name] for name in OBJECTS}}
Counts = dict[str, int]


def run(only: re.Pattern[str], *, update: bool, check: bool) -> int:
    """Count the objects whose name *only* finds, print them, and return the exit status."""
    counts = [count(only) for _ in range(1 + AGAIN if update else 1)]
    counted = {name: statistics.median_low(each[name] for each in counts) for name in counts[0]}
    print(as_table(counted))
    if update:
        kept = {"python": platform.python_version(), "counts": counted}
        TABLE.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    if not check:
        return 0
    known: Counts = json.loads(TABLE.read_text(encoding="utf-8"))["counts"]
    found = slower(counted, known)
    for _ in range(AGAIN):
        if found:
            print("\n".join(("counted again:", *found.values())))
            counted = lowest(counted, count(re.compile("|".join(map(re.escape, found)))))
            found = slower(counted, known)
    print("\n".join(found.values()) or f"no object takes 5 % more than {TABLE.name} says")
    return int(bool(found))


def lowest(one: Counts, other: Counts) -> Counts:
    """Return the lower one of each two counts.

    Where Python adapts a function to other types, a whole process counts 3 to 15 % more. That
    depends on when its other threads have a turn. Code that became slower is so in each process.
    """
    return {name: min(number, other.get(name, number)) for name, number in one.items()}


def count(only: re.Pattern[str]) -> Counts:
    """Return the instructions of a pair of each object whose name *only* finds.

    Raises:
        FileNotFoundError: valgrind or gcc is missing.
    """
    for program in ("valgrind", "gcc"):
        if shutil.which(program) is None:
            raise FileNotFoundError(f"{program} is missing: install Debian's package {program}")
    with tempfile.TemporaryDirectory() as directory, RedisServer() as server:
        library = Path(directory) / "callgrind.so"
        source = Path(__file__).with_name("callgrind.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        out = Path(directory) / "out"
        words = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "-q"]
        words += [f"--callgrind-out-file={out}", sys.executable, "-m", __name__]
        command = [*words, server.url(), str(library), only.pattern]
        # The hashes of names decide which ways Python takes.
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ChildProcessError(f"the counted program failed:\n{done.stderr}")
        return read(out.parent.glob("out.*"))


def read(files: Iterable[Path]) -> Counts:
    """Return the counts in callgrind's *files*: what was counted -> instructions of a pair.

    The median of several counts stands. If another thread has a turn during one of them, callgrind
    books a part of it to the next one.
    """
    found: dict[str, list[int]] = {}
    for path in files:
        text = path.read_text(encoding="utf-8")
        name = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.MULTILINE)
        total = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
        if name and total:
            found.setdefault(name[1], []).append(int(total[1]) // PAIRS)
    return {name: statistics.median_low(found[name]) for name in _names() if name in found}


def _names() -> list[str]:
    """Return what each count is called: the object, and who uses it."""
    threads = [f"{name}, threads" for name in COUNTED_THREADS]
    return threads + [f"{name}, tasks" for name in COUNTED_TASKS]


def multiples(counts: Mapping[str, int], of: str) -> dict[str, float]:
    """Return each of *counts* as a multiple of that of *of* for the same kind of user."""
    found = {}
    for name, number in counts.items():
        base = counts.get(f"{of}, {name.rpartition(', ')[2]}")
        if base:
            found[name] = number / base
    return found


def slower(counted: Mapping[str, int], known: Mapping[str, int]) -> dict[str, str]:
    """Return each object that takes more of `bare` than the table has -> a line that says so."""
    before, found = multiples(known, BARE), {}
    for name, now in multiples(counted, BARE).items():
        if name not in before:
            found[name] = f"{name}: not in {TABLE.name}; run with --update"
        elif now > before[name] * MORE:
            found[name] = f"{name}: {now:.2f} times {BARE}, {before[name]:.2f} in {TABLE.name}"
    return found


def as_table(counted: Mapping[str, int]) -> str:
    """Return the counts as text, each beside the plain lock."""
    of_plain = multiples(counted, PLAIN)
    lines = [f"{'object':32}{'instructions a pair':>20}{'of the plain lock':>20}"]
    for name, number in counted.items():
        beside = f"{of_plain[name]:.2f}" if name in of_plain else ""
        lines.append(f"{name:32}{number:>20,}{beside:>20}")
    return "\n".join(lines)


def _be_counted(url: str, library: str, only: str) -> None:
    """Be the program that valgrind runs."""
    callgrind = ctypes.CDLL(library)
    gc.disable()  # this program's own: a collection at a random pair would be counted
    for name in _names():
        lock, _, kind = name.rpartition(", ")
        if not re.search(only, name) and lock not in (BARE, PLAIN):
            continue
        if kind == "threads":
            with COUNTED_THREADS[lock](url, 1) as make:
                _count_thread(make(f"count:{lock}"), callgrind, name.encode())
        else:
            asyncio.run(_count_task(lock, url, callgrind, name.encode()))
        gc.collect()


def _count_thread(lock: SyncLock, callgrind: ctypes.CDLL, name: bytes) -> None:
    _pairs(lock, WARM)
    for _ in range(COUNTS):
        callgrind.begin()
        _pairs(lock, PAIRS)
        callgrind.end(name)


def _pairs(lock: SyncLock, number: int) -> None:
    acquire, release = lock.acquire, lock.release
    for _ in range(number):
        acquire()
        release()


async def _count_task(peer: str, url: str, callgrind: ctypes.CDLL, name: bytes) -> None:
    async with COUNTED_TASKS[peer](url, 1) as make:
        lock = await make(f"count:{peer}:task")
        await _awaited_pairs(lock, WARM)
        for _ in range(COUNTS):
            callgrind.begin()
            await _awaited_pairs(lock, PAIRS)
            callgrind.end(name)


async def _awaited_pairs(lock: AsyncLock, number: int) -> None:
    for _ in range(number):
        await lock.acquire()
        await lock.release()


if __name__ == "__main__":
    _be_counted(*sys.argv[1:])
