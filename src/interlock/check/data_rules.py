"""Whether the server may forget a lock: replicas, eviction, persistence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from interlock.check.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.check.facts import Facts
    from interlock.check.requirements import Requirements

OK, NOTE, WARNING, ERROR = Severity
MUCH_LAG = 5
"""Seconds. A replica that is healthy acknowledges every second."""
NEARLY_FULL = 0.9
"""The part of maxmemory that is worth telling."""
_REPLICA = re.compile(r"slave\d+")
_FORGETS = "two owners can then hold the same lock until the first one's next renewal"


def _keeps_up(lag: str) -> bool:
    return lag.isdecimal() and len(lag) < 10 and int(lag) <= MUCH_LAG  # noqa: PLR2004


def replicas(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
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
    yield from _acknowledging(facts, requirements, good)
    if late:
        yield Finding(
            "replicas",
            WARNING,
            f"{len(late)} of {len(followers)} replicas are not in step: {', '.join(late)}",
            "look at the log and the network of those; "
            "promoted now, they would not know the latest locks",
        )
    elif not followers:
        yield Finding(
            "replicas",
            OK,
            "none: no failover can lose a lock, and without this server there are no locks",
        )
    else:
        yield Finding(
            "replicas",
            NOTE,
            f"{good} in step, asynchronously: a failover within moments of an acquire may lose "
            f"the lock, and {_FORGETS}",
            "narrow it by replicas=required(...), or have the resource check tokens "
            "(docs/how-to/fencing.md)",
        )
    least = facts.setting("min-replicas-to-write")
    if least and good < least:
        yield Finding(
            "replicas",
            ERROR,
            f"min-replicas-to-write is {least}, and {good} are in step: "
            "every acquire is refused (NOREPLICAS)",
            "bring the replicas back, or lower min-replicas-to-write",
        )


def _acknowledging(facts: Facts, requirements: Requirements, good: int) -> Iterator[Finding]:
    policy = requirements.options.replicas
    if policy == "off" or policy.mode == "off":
        return
    wanted = 1 if policy.count == "all" else policy.count
    bad = ERROR if policy.mode == "required" else WARNING
    if good < wanted:
        yield Finding(
            "replicas",
            bad,
            f"replicas={policy.mode}({policy.count!r}) wants {wanted} or more to acknowledge, "
            f"and {good} are in step",
            "add replicas, or ask for fewer",
        )
    if policy.fsync and not facts.number("aof_enabled"):
        yield Finding(
            "replicas",
            bad,
            f"replicas={policy.mode}(..., fsync=True) wants locks on disk, "
            "and this server writes none there (appendonly no)",
            "CONFIG SET appendonly yes, here and on the replicas, on Redis 7.2 or Valkey; "
            "or leave fsync out",
        )


def eviction(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    """Look at whether locks may be thrown away, or refused, for want of memory."""
    del requirements
    if facts.info is None:
        return
    limit, policy = facts.number("maxmemory"), facts.word("maxmemory_policy")
    if not limit:
        yield Finding("eviction", OK, "none: maxmemory is not set")
        return
    used = facts.number("used_memory") / limit
    if policy == "noeviction":
        if used < NEARLY_FULL:
            yield Finding("eviction", OK, f"none (noeviction); {used:.0%} of maxmemory are used")
        else:
            yield Finding(
                "eviction",
                WARNING,
                f"none (noeviction), but {used:.0%} of maxmemory are used: "
                "when it is full, acquires are refused (OOM)",
                "raise maxmemory, or free some",
            )
        return
    evicted = facts.number("evicted_keys")
    so_far = f"{evicted} keys were evicted already" if evicted else "none was evicted so far"
    yield Finding(
        "eviction",
        ERROR if evicted or policy.startswith("allkeys") else WARNING,
        f"{policy}: when maxmemory is reached ({used:.0%} are used), "
        f"the server throws away keys that expire, as every lock does; {_FORGETS}; {so_far}",
        "CONFIG SET maxmemory-policy noeviction, or keep locks on a server of their own",
    )


def persistence(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    """Look at what a restart of the server forgets."""
    del requirements
    if facts.info is None:
        return
    failing = [
        name
        for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
        if facts.word(name) == "err"
    ]
    if failing:
        refuses = facts.config.get("stop-writes-on-bgsave-error") != "no"
        yield Finding(
            "persistence",
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
    yield Finding(
        "persistence",
        WARNING,
        f"{kept}: a restart within a lease forgets the locks, and {_FORGETS}",
        "CONFIG SET appendonly yes, with appendfsync always where locks matter more than speed; "
        "or restart only after the longest lease",
    )


def _log(appendfsync: str | None) -> Finding:
    if appendfsync == "always":
        return Finding("persistence", OK, "every write is on disk before it is acknowledged")
    how = {
        None: "of which is unknown how often it goes to disk (appendfsync)",
        "everysec": "that goes to disk every second: "
        "a crash of the machine forgets the locks of the last one or two",
    }.get(appendfsync, f"that goes to disk when the system likes (appendfsync {appendfsync})")
    return Finding(
        "persistence",
        NOTE if appendfsync != "no" else WARNING,
        f"a log of writes (AOF) {how}; and {_FORGETS}",
        "appendfsync always where locks matter more than speed, "
        "or tokens that the resource checks (docs/how-to/fencing.md)",
    )
