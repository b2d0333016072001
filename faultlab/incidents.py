"""Play incidents on a real server with real processes, and check what operators are told.

Each incident is a row: what happens, and what `interlock why` must say of the lock then. It is
asked again and again until it says so, or until `GIVE_UP` is over. The table tells how long that
took.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.servers import RedisServer

from interlock import Options
from interlock._links.urls import open_url
from interlock.inspection import Reader
from interlock.inspection.face import account_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.inspection.why import Account

GIVE_UP = 30.0
"""Seconds in which the tools must tell the truth."""
PAUSE = 0.2
"""Seconds between two questions."""
PROGRAM = """
import sys, threading, time, interlock
url, job = sys.argv[1:]
client = interlock.connect(url, lease=3)
def take(first, second):
    with client.lock(first):
        time.sleep(1)
        with client.lock(second):
            pass
if job == "long":
    client.lock("lock", lease=500).acquire()
elif job == "renewed":
    client.lock("lock").acquire()
elif job == "typo":
    client.lock("l\\u043eck").acquire()
elif job == "permits":
    semaphore = client.leased_semaphore("lock")
    semaphore.try_set_permits(2)
    permits = semaphore.acquire(2, lease=500)
elif job == "deadlock2":
    threading.Thread(target=take, args=("lock", "b"), daemon=True).start()
    threading.Thread(target=take, args=("b", "lock"), daemon=True).start()
elif job == "deadlock3":
    for pair in (("lock", "b"), ("b", "c"), ("c", "lock")):
        threading.Thread(target=take, args=pair, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Incident:
    """One incident.

    Attributes:
        name: what happens, in words.
        jobs: what the processes do, one each.
        strike: what is done to them and to the server, once the first ones hold.
        state: of the account that is true then.
        words: what the account says then.
    """

    name: str
    jobs: tuple[str, ...]
    strike: Callable[[RedisServer, Sequence[subprocess.Popen[bytes]]], None]
    state: str
    words: tuple[str, ...]


def _nothing(server: RedisServer, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    del server, processes


def _kill(server: RedisServer, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    del server
    processes[0].kill()


def _freeze(server: RedisServer, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    del server
    processes[0].send_signal(signal.SIGSTOP)


def _delete(server: RedisServer, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    del processes
    _ = server.execute("DEL", "lock")


def _flush(server: RedisServer, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    del processes
    _ = server.execute("FLUSHALL")


INCIDENTS = (
    Incident("a holder is killed", ("renewed",), _kill, "free", ("Nobody holds",)),
    Incident(
        "a holder with a long lease is killed",
        ("long",),
        _kill,
        "dead",
        ("is dead", "no connection", "ends in 49 min"),
    ),
    Incident(
        "a holder with a long lease is frozen",
        ("long",),
        _freeze,
        "silent",
        ("slow, frozen or cut off", "silent since"),
    ),
    Incident("two wait for each other", ("deadlock2",), _nothing, "deadlock", ("deadlock of 2",)),
    Incident("three wait in a ring", ("deadlock3",), _nothing, "deadlock", ("deadlock of 3",)),
    Incident("two names look alike", ("typo",), _nothing, "free", ("looks alike", "l\u043eck")),
    Incident("permits leak", ("permits",), _kill, "dead", ("2 permits held and 0 free", "is dead")),
    Incident(
        "a key is deleted",
        ("renewed",),
        _delete,
        "free",
        ("Nobody holds", "it was lost", "its key was deleted"),
    ),
    Incident("all data is deleted", ("renewed",), _flush, "free", ("Nobody holds",)),
)


@dataclass(frozen=True)
class Outcome:
    """How an incident went.

    Attributes:
        incident: which one.
        seconds: until the truth was told; None if it was not.
        account: the last one.
    """

    incident: Incident
    seconds: float | None
    account: Account


def play(incident: Incident) -> Outcome:
    """Play *incident* on a server of its own."""
    with RedisServer() as server:
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for job in incident.jobs:
                command = [sys.executable, "-c", PROGRAM, server.url(), job]
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                processes.append(process)
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
            # The cards are written within three seconds.
            time.sleep(3.5)
            incident.strike(server, processes)
            return _ask(incident, server)
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def _ask(incident: Incident, server: RedisServer) -> Outcome:
    began = time.monotonic()
    while True:
        with Reader(open_url(server.url()), Options()) as reader:
            _, account = account_of(reader, "lock")
        passed = time.monotonic() - began
        if account.state == incident.state and all(w in account.text for w in incident.words):
            return Outcome(incident, passed, account)
        if passed > GIVE_UP:
            return Outcome(incident, None, account)
        time.sleep(PAUSE)


def main(wanted: Sequence[str] = ()) -> int:
    """Play the incidents whose names have a word of *wanted*, or all; print the table.

    Return 1 if the truth was not told in one of them, or if none has such a name.
    """
    print("| incident | what `interlock why` says | after |\n|---|---|---|")
    failed = played = 0
    for incident in INCIDENTS:
        if wanted and not any(word in incident.name for word in wanted):
            continue
        outcome = play(incident)
        played += 1
        failed += outcome.seconds is None
        after = "NOT TOLD" if outcome.seconds is None else f"{outcome.seconds:.1f} s"
        print(f"| {incident.name} | {outcome.account.text} | {after} |", flush=True)
    return 1 if failed or not played else 0
