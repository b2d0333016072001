"""The incidents: what happens, and what each witness must say of it.

Each thing that a witness must say is a regular expression. So is each thing that it must
never say, because it would not be so. Alerts that are neither wanted nor allowed must not fire.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.faults import delay
from tests.support.proxy import FaultProxy, command
from tests.support.servers import RedisServer, SentinelServers

from faultlab import disk
from faultlab.clock import ClockedServer
from faultlab.incidents.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Playing = contextlib.AbstractContextManager[Stage]


@dataclass(frozen=True)
class Incident:
    """One incident.

    Attributes:
        name: what happens, in words.
        play: sets the stage; when it is entered, the incident has happened.
        says: what each witness must say: witness -> regular expressions.
        never: what each witness must not say.
        alerts: that fire in it.
        allowed: alerts that may fire, too: what they say is so.
    """

    name: str
    play: Callable[[], Playing]
    says: Mapping[str, tuple[str, ...]]
    never: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alerts: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()


INCIDENTS: list[Incident] = []


def incident(
    name: str,
    *,
    alerts: str = "",
    allowed: str = "",
    never: Mapping[str, tuple[str, ...]] | None = None,
    **says: str | tuple[str, ...],
) -> Callable[[Callable[[], Iterator[Stage]]], None]:
    """Return a decorator that takes a generator into the table.

    Args:
        name: what happens.
        alerts: names without ``Interlock``, with spaces between.
        allowed: as *alerts*.
        never: as of `Incident`.
        **says: as of `Incident`; one text stands for itself alone.
    """

    def take(play: Callable[[], Iterator[Stage]]) -> None:
        INCIDENTS.append(
            Incident(
                name,
                contextlib.contextmanager(play),
                {who: (what,) if isinstance(what, str) else what for who, what in says.items()},
                never or {},
                _alerts(alerts),
                _alerts(allowed),
            )
        )

    return take


def _alerts(names: str) -> frozenset[str]:
    return frozenset(f"Interlock{each}" for each in names.split())


@contextlib.contextmanager
def _alone(
    *jobs: str, sees: str = r"pid \d+", config: Mapping[str, str | int] | None = None
) -> Iterator[Stage]:
    """Give a server of its own, and programs that do *jobs*."""
    with RedisServer(config=config) as server, Stage(server) as stage:
        for job in jobs:
            stage.start(job)
        stage.see(sees)
        yield stage


@contextlib.contextmanager
def _behind_proxy() -> Iterator[tuple[Stage, FaultProxy]]:
    """Give a program that reaches its server through a proxy."""
    with (
        RedisServer() as server,
        FaultProxy(("127.0.0.1", server.port)) as proxy,
        Stage(server) as stage,
    ):
        stage.start("renewed", proxy.url())
        stage.see(r"pid \d+")
        yield stage, proxy


FREE = "^free: Nobody holds"
HELD = "^held: .*is alive"
NONE = "no lock is held or awaited"
NO_LOSS = {"console": ("lost by",), "log": ("lock.lost",)}


# Processes.


@incident(
    "a holder is killed",
    why=FREE,
    list=NONE,
    console="lost by .* its lease ran out",
    metrics="interlock_clients 0",
    never={"console": ("released by",)},
    allowed="RenewalLate",
)
def _killed() -> Iterator[Stage]:
    with _alone("renewed") as stage:
        stage.programs[0].kill()
        yield stage


@incident(
    "a holder is frozen, and goes on later",
    log=r"ERROR lock.lost .*\(expired\)",
    why=(FREE, "it was lost: its lease ran out"),
    list=NONE,
    console="lost by .* its lease ran out",
    metrics="interlock_clients 0",
    never={"console": ("released by",)},
    alerts="LockLost",
    allowed="RenewalLate",
)
def _frozen() -> Iterator[Stage]:
    with _alone("renewed") as stage:
        stage.programs[0].freeze()
        time.sleep(5)
        stage.programs[0].thaw()
        yield stage


@incident(
    "a holder with a long lease is frozen",
    why=("^silent", "slow, frozen or cut off", "py-spy"),
    list="silent since",
    console="slow, frozen or cut off",
    metrics="interlock_silent_holders 1",
    never=NO_LOSS | {"why": ("is dead",), "metrics": ("interlock_dead_holders 1",)},
)
def _frozen_long() -> Iterator[Stage]:
    with _alone("long") as stage:
        stage.programs[0].freeze()
        yield stage


@incident(
    "a holder is cut off from the server",
    log=("WARNING renewal.failing", "ERROR lock.lost .*unreachable"),
    why=FREE,
    list=NONE,
    console="lost by .* its lease ran out",
    metrics="interlock_clients 0",
    alerts="LockLost",
    allowed="RenewalFailing ValidityLow RenewalLate",
)
def _cut_off() -> Iterator[Stage]:
    with _behind_proxy() as (stage, proxy):
        proxy.stop_accepting()
        proxy.disconnect()
        yield stage


@incident(
    "a holder keeps the interpreter",
    log=r"ERROR lock.lost .*\(expired\)",
    why=(FREE, "it was lost: its lease ran out"),
    list=NONE,
    console="lost by .* its lease ran out",
    alerts="LockLost",
    allowed="RenewalLate",
)
def _gil() -> Iterator[Stage]:
    with _alone("renewed") as stage:
        stage.programs[0].say("hold_gil")
        yield stage


@incident(
    "a holder with a long lease is killed",
    why=("^dead", "no connection", "ends in 8 min", "interlock release"),
    list="DEAD",
    console=("dead", "is dead, and holds it still"),
    metrics="interlock_dead_holders 1",
    alerts="DeadHolder",
    never=NO_LOSS,
)
def _dead() -> Iterator[Stage]:
    with _alone("long") as stage:
        stage.programs[0].kill()
        yield stage


@incident(
    "permits leak: their holder died",
    why=("^dead", "2 permits held and 0 free", "is dead"),
    list="DEAD",
    console="2 permits held and 0 free",
    metrics="interlock_dead_holders 2",
    alerts="DeadHolder",
)
def _leak() -> Iterator[Stage]:
    with _alone("permits") as stage:
        stage.programs[0].kill()
        yield stage


# Those who wait.


@incident(
    "two wait for each other",
    why=("^deadlock", "deadlock of 2"),
    console="deadlock of 2",
    metrics="interlock_deadlocked_locks 2",
    alerts="Deadlock",
    allowed="LongWait",
)
def _deadlock_of_two() -> Iterator[Stage]:
    with _alone("deadlock2") as stage:
        yield stage


@incident(
    "three wait in a ring",
    why=("^deadlock", "deadlock of 3"),
    console="deadlock of 3",
    metrics="interlock_deadlocked_locks 3",
    alerts="Deadlock",
    allowed="LongWait",
)
def _deadlock_of_three() -> Iterator[Stage]:
    with _alone("deadlock3") as stage:
        yield stage


@incident(
    "the first in a queue is frozen",
    why=("^awaited", "Nobody holds", "first in its queue does not answer"),
    list="nobody",
    console="first in its queue does not answer",
    metrics='interlock_locks_waiters{kind="fair_lock"} [12]',
    allowed="SlowAcquire LongWait",
)
def _frozen_head() -> Iterator[Stage]:
    with _alone("fair") as stage:
        first = stage.start("wait")
        stage.see("1 waits for it")
        stage.start("wait")
        stage.see("2 wait for it")
        first.freeze()
        time.sleep(5.5)
        stage.programs[0].say("release")
        yield stage


@incident(
    "many take turns all day",
    why=("^held", "has changed hands: it is busy, and not stuck"),
    list="lock",
    console="has changed hands: it is busy, and not stuck",
    metrics='interlock_locks_waiters{kind="fair_lock"} 1[89]',
    allowed="SlowAcquire LongWait",
    never=NO_LOSS,
)
def _turns() -> Iterator[Stage]:
    with _alone("crowd") as stage:
        yield stage


# Names and numbers.


@incident(
    "two names look alike",
    why=("^free", "looks alike", "l\u043eck"),
    list="l\u043eck",
    console="looks alike",
    metrics='interlock_locks{kind="lock"} 1',
)
def _alike() -> Iterator[Stage]:
    with _alone("alike", sees="looks alike") as stage:
        yield stage


@incident(
    "a semaphore's number is set twice",
    why=("^held", "2 permits held and 0 free"),
    list="permits by 2",
    console="2 permits held and 0 free",
    metrics='interlock_locks{kind="leased_semaphore"} 1',
)
def _set_twice() -> Iterator[Stage]:
    with _alone("two", "five", sees="2 permits held") as stage:
        yield stage


@incident(
    "two versions share the server",
    why=HELD,
    list="lock",
    console="0.0.1",
)
def _versions() -> Iterator[Stage]:
    with _alone("old") as stage:
        yield stage


# The server and its data.


@incident(
    "a key is deleted",
    log="ERROR lock.lost .*gone from the server",
    why=(FREE, "it was lost", "deleted, evicted"),
    list=NONE,
    console="lost by .*deleted, evicted",
    metrics="interlock_clients 0",
    alerts="LockLost",
    never={"console": ("released by",)},
)
def _deleted() -> Iterator[Stage]:
    with _alone("renewed") as stage:
        stage.server.execute("DEL", "lock")
        yield stage


@incident(
    "all data is deleted",
    log="ERROR lock.lost .*gone from the server",
    why=FREE,
    list=NONE,
    console="lost by .*FLUSHDB or FLUSHALL",
    alerts="LockLost",
    never={"console": ("released by",)},
)
def _flushed() -> Iterator[Stage]:
    with _alone("renewed") as stage:
        stage.server.execute("FLUSHALL")
        yield stage


@incident(
    "the server restarts with its data",
    why=HELD,
    list="lock",
    console="a server was restarted or replaced",
    allowed="RenewalFailing",
    never=NO_LOSS,
)
def _restarted() -> Iterator[Stage]:
    with RedisServer(appendonly=True) as server, Stage(server) as stage:
        stage.start("renewed")
        stage.see(r"pid \d+")
        server.restart(empty=False)
        yield stage


@incident(
    "the server restarts without its data",
    log="ERROR lock.lost .*gone from the server",
    why=FREE,
    list=NONE,
    console="lost by .*a server was restarted or replaced",
    alerts="LockLost",
    never={"console": ("released by",)},
)
def _restarted_empty() -> Iterator[Stage]:
    with _alone("renewed") as stage:
        stage.server.restart()
        yield stage


@incident(
    "the server is out of memory",
    why=HELD,
    list="lock",
    console="is alive",
    doctor="error .*out of memory",
    never=NO_LOSS,
)
def _out_of_memory() -> Iterator[Stage]:
    with _alone("renewed") as stage:
        stage.server.execute("CONFIG", "SET", "maxmemory", "1")
        yield stage


@incident(
    "the server's disk is full",
    log=("renewal.failing .*MISCONF", "ERROR lock.lost"),
    why=FREE,
    list=NONE,
    console="lost by .* its lease ran out",
    doctor="error .*cannot persist",
    alerts="LockLost",
    allowed="RenewalFailing ValidityLow RenewalLate",
)
def _disk_full() -> Iterator[Stage]:
    config = {"save": "1 1"}
    with RedisServer(config=config) as server, disk.small(server) as small, Stage(server) as stage:
        stage.start("renewed")
        stage.see(r"pid \d+")
        with small.full():
            yield stage


@incident(
    "the server evicts locks",
    log="ERROR lock.lost .*gone from the server",
    why=FREE,
    list=NONE,
    console="lost by .*evicted",
    doctor="evict",
    alerts="LockLost",
    never={"console": ("released by",)},
)
def _evicting() -> Iterator[Stage]:
    with _alone("renewed") as stage:
        stage.server.execute("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        stage.server.execute("CONFIG", "SET", "maxmemory", "1mb")
        yield stage


@incident(
    "the primary fails over",
    log="server.changed",
    why=HELD,
    list="lock",
    console="can be read again",
    allowed="RenewalFailing ValidityLow ExporterBlind",
)
def _failover() -> Iterator[Stage]:
    with SentinelServers() as bed, Stage(bed.primary, bed.url()) as stage:
        stage.start("renewed", bed.url())
        stage.see(r"pid \d+")
        bed.primary.kill()
        yield stage


@incident(
    "the server is slow",
    why=HELD,
    list="lock",
    console="alive",
    allowed="RenewalFailing ValidityLow RenewalLate",
    never=NO_LOSS,
)
def _slow() -> Iterator[Stage]:
    with _behind_proxy() as (stage, proxy):
        proxy.on_request(command(), delay(0.4))
        yield stage


@incident(
    "a script blocks the server until it is killed",
    log="renewal.failing .*BUSY",
    why=HELD,
    list="lock",
    console="alive",
    allowed="RenewalFailing ValidityLow RenewalLate",
    never=NO_LOSS,
)
def _script_killed() -> Iterator[Stage]:
    with _alone("renewed", config={"lua-time-limit": 100}) as stage:
        ended = threading.Thread(target=_endless, args=(stage.server,))
        ended.start()
        time.sleep(1.5)
        stage.server.execute("SCRIPT", "KILL")
        ended.join()
        yield stage


def _endless(server: RedisServer) -> None:
    with contextlib.suppress(Exception):
        server.execute("EVAL", "while true do end", "0")


def _with_user(server: RedisServer, *rules: str) -> str:
    server.execute("ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all", *rules)
    return server.url(username="app", password="secret")


@incident(
    "rights are withdrawn",
    log=("renewal.failing .*NOPERM|renewal.failing .*no permission", "ERROR lock.lost"),
    why=FREE,
    list=NONE,
    console="lost by .* its lease ran out",
    alerts="LockLost",
    allowed="RenewalFailing ValidityLow RenewalLate",
)
def _rights() -> Iterator[Stage]:
    with RedisServer() as server, Stage(server) as stage:
        stage.start("renewed", _with_user(server))
        stage.see(r"pid \d+")
        _with_user(server, "-@scripting")
        yield stage


@incident(
    "the password is changed",
    log=("renewal.failing .*WRONGPASS|renewal.failing", "ERROR lock.lost"),
    why=FREE,
    list=NONE,
    console="lost by .* its lease ran out",
    alerts="LockLost",
    allowed="RenewalFailing ValidityLow RenewalLate",
    never={"log": ("secret",)},
)
def _password() -> Iterator[Stage]:
    with RedisServer() as server, Stage(server) as stage:
        stage.start("renewed", _with_user(server))
        stage.see(r"pid \d+")
        server.execute("ACL", "SETUSER", "app", "resetpass", ">another")
        server.execute("CLIENT", "KILL", "USER", "app")
        yield stage


@incident(
    "the server's clock is stepped",
    log="ERROR lock.lost .*gone from the server",
    why=FREE,
    list=NONE,
    console="lost by ",
    alerts="LockLost",
    never={"console": ("released by",)},
)
def _clock() -> Iterator[Stage]:
    clocked = ClockedServer(RedisServer().binary, {})
    with clocked, clocked.server as server, Stage(server) as stage:
        stage.start("renewed")
        stage.see(r"pid \d+")
        clocked.step(60)
        yield stage
