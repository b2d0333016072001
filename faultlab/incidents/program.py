"""A program with locks, to which incidents happen: ``python -m faultlab.incidents.program``.

Its arguments are a URL and a job. It writes its log to stderr, serves its metrics, and prints
``ready PORT`` when it has what its job takes. Each line of its standard input is a word:
``release`` ends the hold, ``hold_gil`` stops all threads for a while. It ends with its input.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server

import interlock
from interlock._drivers.process import identity
from interlock.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock import Client

LEASE = 3.0
"""Seconds: a tenth of the default. The rules of `Monitoring` are in tenths, too."""
PATIENT_LEASE, PATIENT_WAIT = 6.0, 12.0
"""Of a program that waits: it is silent after 5 s, well before its place in the queue ends."""
GIL = 5
"""Seconds for which ``hold_gil`` keeps the interpreter."""
NAME = "lock"
OLD = "old"
"""The job of a program of another version."""
ALIKE = "l\u043eck"
"""It looks like `NAME`, with a Cyrillic letter."""
TURN = 2.0
"""Seconds of one hold of many who take turns."""
CROWD = 20
"""Threads that take turns; each of them waits for longer than half a minute."""


def _take(client: Client, first: str, second: str) -> None:
    """Take two locks, one after the other, as somebody does who ends in a deadlock."""
    with client.lock(first):
        time.sleep(1)
        with client.lock(second):
            pass


def _ring(client: Client, *names: str) -> None:
    """Start a thread for each of *names*, which then wants the next one, too."""
    for first, second in zip(names, (*names[1:], names[0]), strict=True):
        threading.Thread(target=_take, args=(client, first, second), daemon=True).start()


def _turns(client: Client) -> None:
    """Take turns for ever."""
    while True:
        with client.fair_lock(NAME):
            time.sleep(TURN)


def _crowd(client: Client) -> None:
    for _ in range(CROWD):
        threading.Thread(target=_turns, args=(client,), daemon=True).start()


def _permits(client: Client) -> None:
    semaphore = client.leased_semaphore(NAME)
    semaphore.try_set_permits(2)
    _KEPT.append(semaphore.acquire(2, lease=500))


def _size(client: Client, permits: int) -> None:
    """Set the number of permits, as each part of a program does at its start; take one."""
    semaphore = client.leased_semaphore(NAME)
    semaphore.try_set_permits(permits)
    _KEPT.append(semaphore.acquire())


def _wait(client: Client) -> None:
    """Wait in a thread, and hold then for a moment."""

    def wait() -> None:
        with client.fair_lock(NAME):
            time.sleep(TURN)

    threading.Thread(target=wait, daemon=True).start()


_KEPT: list[object] = []
_JOBS: dict[str, Callable[[Client], object]] = {
    "renewed": lambda client: client.lock(NAME).acquire(),
    OLD: lambda client: client.lock(NAME).acquire(),
    "long": lambda client: client.lock(NAME).acquire(lease=500),
    "fair": lambda client: client.fair_lock(NAME).acquire(),
    "wait": _wait,
    "alike": lambda client: client.lock(ALIKE).acquire(),
    "permits": _permits,
    "two": lambda client: _size(client, 2),
    "five": lambda client: _size(client, 5),
    "deadlock2": lambda client: _ring(client, NAME, "b"),
    "deadlock3": lambda client: _ring(client, NAME, "b", "c"),
    "crowd": _crowd,
}


def main(url: str, job: str) -> None:
    """Do *job* until the standard input ends."""
    logging.basicConfig(format="%(levelname)s %(event)s %(message)s", stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_with_event)
    logging.getLogger("interlock").setLevel(logging.INFO)
    registry = CollectorRegistry()
    server, _ = start_http_server(0, "127.0.0.1", registry)
    if job == OLD:
        setattr(identity, "__version__", "0.0.1")  # noqa: B010 - no name of that module
    lease, fair_wait = (PATIENT_LEASE, PATIENT_WAIT) if job == "wait" else (LEASE, 5.0)
    client = interlock.connect(url, lease=lease, fair_wait=fair_wait)
    client.observe(Prometheus(registry))
    _JOBS[job](client)
    print("ready", server.server_port, flush=True)
    for line in sys.stdin:
        if line == "release\n":
            client.fair_lock(NAME).release()
        elif line == "hold_gil\n":
            # A function of a `PyDLL` keeps the interpreter while it runs.
            ctypes.PyDLL(None).sleep(GIL)


def _with_event(record: logging.LogRecord) -> bool:
    """Give records of other loggers an event, too."""
    record.__dict__.setdefault("event", "-")
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
