"""Whether the server may forget a lock: replicas, eviction, persistence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from interlock.check.report import Row, Severity

if TYPE_CHECKING:
    from interlock.check.facts import Facts
    from interlock.check.report import Rows
    from interlock.options import Options

OK, NOTE, WARNING, ERROR = Severity
MUCH_LAG = 5
"""Seconds. A replica that is healthy acknowledges every second."""
NEARLY_FULL = 0.9
"""The part of maxmemory that is worth telling."""
_REPLICA = re.compile(r"slave\d+")
_FORGETS = "two owners can then hold the same lock until the first one's next renewal"


def replicas(facts: Facts, options: Options) -> Rows:
    """Look at who follows this primary, and how closely."""
    if facts.info is None or facts.word("role") == "slave":
        return
    followers = [
        cast("Mapping[str, object]", told)
        for field, told in facts.info.items()
        if _REPLICA.fullmatch(field) and isinstance(told, Mapping)
    ]
    late = [
        f"{it.get('ip')}:{it.get('port')} ({it.get('state')}, lag {it.get('lag')} s)"
        for it in followers
        if it.get("state") != "online" or not _keeps_up(str(it.get("lag", 0)))
    ]
    good = len(followers) - len(late)
    yield from _acknowledging(facts, options, good)
    if late:
        yield Row(
            WARNING,
            f"{len(late)} of {len(followers)} replicas are not in step: {', '.join(late)}",
            "look at the log and the network of those; "
            "promoted now, they would not know the latest locks",
        )
    elif followers:
        yield Row(
            NOTE,
            f"{good} in step, asynchronously: a failover within moments of an acquire may lose "
            f"the lock, and {_FORGETS}",
            "narrow it by replicas=required(...), or have the resource check tokens "
            "(docs/how-to/fencing.md)",
        )
    else:
        yield Row(
            OK, "none: no failover can lose a lock, and without this server there are no locks"
        )
    least = facts.setting("min-replicas-to-write")
    if least and good < least:
        yield Row(
            ERROR,
            f"min-replicas-to-write is {least}, and {good} are in step: "
            "every acquire is refused (NOREPLICAS)",
            "bring the replicas back, or lower min-replicas-to-write",
        )


def _keeps_up(lag: str) -> bool:
    return lag.isdecimal() and len(lag) < 10 and int(lag) <= MUCH_LAG  # noqa: PLR2004


def _acknowledging(facts: Facts, options: Options, good: int) -> Rows:
    policy = options.replicas
    if policy == "off" or policy.mode == "off":
        return
    wanted = 1 if policy.count == "all" else policy.count
    bad = ERROR if policy.mode == "required" else WARNING
    if good < wanted:
        yield Row(
            bad,
            f"replicas={policy.mode}({policy.count!r}) wants {wanted} or more to acknowledge, "
            f"and {good} are in step",
            "add replicas, or ask for fewer",
        )
    if policy.fsync and not facts.number("aof_enabled"):
        yield Row(
            bad,
            f"replicas={policy.mode}(..., fsync=True) wants locks on disk, "
            "and this server writes none there (appendonly no)",
            "CONFIG SET appendonly yes, here and on the replicas, on Redis 7.2 or Valkey; "
            "or leave fsync out",
        )


def eviction(facts: Facts) -> Rows:
    """Look at whether locks may be thrown away, or refused, for want of memory."""
    limit, policy = facts.number("maxmemory"), facts.word("maxmemory_policy")
    used = facts.number("used_memory") / limit if limit else 0
    evicted = facts.number("evicted_keys")
    if facts.info is None:
        return
    if not limit:
        yield Row(OK, "none: maxmemory is not set")
    elif policy != "noeviction":
        so_far = f"{evicted} keys were evicted already" if evicted else "none was evicted so far"
        yield Row(
            ERROR if evicted or policy.startswith("allkeys") else WARNING,
            f"{policy}: when maxmemory is reached ({used:.0%} are used), "
            f"the server throws away keys that expire, as every lock does; {_FORGETS}; {so_far}",
            "CONFIG SET maxmemory-policy noeviction, or keep locks on a server of their own",
        )
    elif used < NEARLY_FULL:
        yield Row(OK, f"none (noeviction); {used:.0%} of maxmemory are used")
    else:
        yield Row(
            ERROR if used >= 1 else WARNING,
            f"none (noeviction), but {used:.0%} of maxmemory are used: "
            "when it is full, acquires are refused (OOM)",
            "raise maxmemory, or free some",
        )


def persistence(facts: Facts) -> Rows:
    """Look at what a restart of the server forgets."""
    if facts.info is None:
        return
    writes = ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
    failing = [name for name in writes if facts.word(name) == "err"]
    if failing:
        refuses = facts.config.get("stop-writes-on-bgsave-error") != "no"
        yield Row(
            ERROR if refuses else WARNING,
            f"the last write to disk failed ({', '.join(failing)})"
            + (": the server may refuse every acquire (MISCONF)" if refuses else ""),
            "look at the server's log and at its disk",
        )
    if facts.number("aof_enabled"):
        yield _log(facts.config.get("appendfsync"))
        return
    snapshots = facts.config.get("save")
    kept = {
        None: "no log of writes (AOF), perhaps snapshots",
        "": "nothing is written to disk",
    }.get(snapshots, f"snapshots only (save {snapshots})")
    yield Row(
        WARNING,
        f"{kept}: a restart within a lease forgets the locks, and {_FORGETS}",
        "CONFIG SET appendonly yes, with appendfsync always where locks matter more than speed; "
        "or restart only after the longest lease",
    )


def _log(appendfsync: str | None) -> Row:
    if appendfsync == "always":
        return Row(OK, "every write is on disk before it is acknowledged")
    how = {
        None: "of which is unknown how often it goes to disk (appendfsync)",
        "everysec": "that goes to disk every second: "
        "a crash of the machine forgets the locks of the last one or two",
    }.get(appendfsync, f"that goes to disk when the system likes (appendfsync {appendfsync})")
    return Row(
        NOTE if appendfsync != "no" else WARNING,
        f"a log of writes (AOF) {how}; and {_FORGETS}",
        "appendfsync always where locks matter more than speed, "
        "or tokens that the resource checks (docs/how-to/fencing.md)",
    )
