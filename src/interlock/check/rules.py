"""From what a server is like to what that means for locks: pure.

Each rule looks at one thing and yields what it found: how bad it is, what is there, and what to do
unless it is fine. Programs may rely on `Finding.check`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from interlock._core.model.effects import GRACE
from interlock.check.report import Finding, Severity
from interlock.check.services import TESTED, service_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.check.facts import Facts
    from interlock.options import Options

OK, NOTE, WARNING, ERROR = Severity
OLDEST = (6, 2)
SLOW_SHARE = 1 / 30
"""The part of a lease that a round trip may take: a renewal has a third of it, for several."""
HEALTHY_LAG = range(6)
"""Seconds. A replica that is healthy acknowledges every second."""
NEARLY_FULL = 0.9
"""The part of maxmemory that is worth telling."""
SHOWN = 3
"""Addresses of one name that are told."""
FORGETS = "two owners can then hold the same lock until the first one's next renewal"
UNKNOWN = {
    "INFO": "version, role, replicas, memory and its maxmemory-policy, persistence",
    "CONFIG GET": "appendfsync, save, min-replicas-to-write",
}
"""What stays unknown if the server refuses a command."""


def judge(facts: Facts, options: Options, *, clustered: bool = False) -> Iterator[Finding]:
    """Yield a finding for everything that was looked at, and for what could not be looked at.

    *clustered*: whether the client knows that the server is one node of a cluster.
    """
    if facts.is_sentinel:
        found = "a Sentinel: it knows where servers are and keeps no locks itself"
        advice = "give its address as redis+sentinel://HOST:PORT/SERVICE"
        yield Finding("role", ERROR, found, advice)
        return
    if facts.number("cluster_enabled") and not clustered:
        found = "one node of a cluster: names that belong to another node are refused"
        advice = "give its address as redis+cluster://HOST:PORT"
        yield Finding("cluster", ERROR, found, advice)
    yield from service(facts)
    yield from addresses(facts)
    yield latency(facts, options)
    yield transport(facts)
    if facts.info:
        yield version(facts)
        yield role(facts)
        if facts.word("role") != "slave":
            yield from replicas(facts, options)
        yield eviction(facts)
        if not facts.embedded:  # it ends with the last process of this machine that uses it
            yield from persistence(facts)
    yield from messages(facts)
    for command, unknown in UNKNOWN.items():
        if command in facts.silent:
            yield Finding(
                command.split()[0].lower(),
                NOTE,
                f"unknown what {command} would tell: the server said {facts.silent[command]!r}",
                f"look with a user that may, or in the console of a managed service: {unknown}",
            )


def messages(facts: Facts) -> Iterator[Finding]:
    """Look at whether the user may send messages and hear them."""
    for command in ("PUBLISH", "SPUBLISH", "SUBSCRIBE", "SSUBSCRIBE"):
        if (said := facts.silent.get(command, "")).startswith("NOPERM"):
            yield Finding(
                "messages",
                WARNING,
                f"the user may not {command}: whoever waits for a lock looks every 2 to 4 s "
                f"instead; the server said {said!r}",
                "permit the commands and channels of the ACL line below, or set pubsub='off'",
            )


def service(facts: Facts) -> Iterator[Finding]:
    """Look at which service this is."""
    found = service_of(facts)
    if found is None:
        return
    if found in TESTED:
        yield Finding("service", OK, f"{found.name}: locks are tested")
    else:
        yield Finding(
            "service",
            NOTE,
            f"{found.name}: locks are expected to work, and not tested here",
            (f"set {found.setting}; " if found.setting else "")
            + "interlock doctor --try shows what it does; docs/reference/services.md says why",
        )


def addresses(facts: Facts) -> Iterator[Finding]:
    """Look at how many servers the host's name may lead to."""
    if len(facts.addresses) > 1:
        shown = ", ".join(facts.addresses[:SHOWN])
        shown += ", ..." if len(facts.addresses) > SHOWN else ""
        yield Finding(
            "addresses",
            WARNING,
            f"the host's name leads to {len(facts.addresses)} addresses ({shown}): each connection "
            "may meet another server, which keeps locks of its own",
            "give the name of the primary alone, redis+sentinel:// or redis+cluster://; if all "
            "addresses lead to one server, all is well",
        )


def latency(facts: Facts, options: Options) -> Finding:
    """Look at whether renewals and clean-up have the time that they need."""
    found = f"a round trip takes {facts.round_trip * 1000:.1f} ms"
    timeout, lease = options.command_timeout, options.lease
    if facts.round_trip > lease * SLOW_SHARE:
        found += f", and a lease lasts {lease:g} s: a renewal may come too late"
        return Finding("latency", ERROR, found, "use a server that is nearer, or a longer lease")
    if facts.round_trip < min(GRACE / 2, timeout / 4):
        return Finding("latency", OK, found)
    found += f"; a command is given up after {timeout:g} s, "
    found += "and clean-up that takes this long is left to the background"
    advice = "use a server that is nearer, or a longer command_timeout"
    return Finding("latency", WARNING, found, advice)


def transport(facts: Facts) -> Finding:
    """Look at who could listen."""
    if facts.transport == "tls":
        return Finding("transport", OK, "TLS")
    if facts.transport == "local":
        return Finding("transport", OK, "within this machine")
    found = "without TLS: whoever hears the network can read the password and release locks"
    return Finding("transport", NOTE, found, "use rediss:// where the network is not trusted")


def version(facts: Facts) -> Finding:
    """Look at whether the server is one that interlock is made for."""
    own = facts.word("valkey_version")
    text = own or facts.word("redis_version")
    found = f"{'Valkey' if own else 'Redis'} {text}"
    if tuple(int(part) if part.isdigit() else 0 for part in text.split(".")) >= OLDEST:
        return Finding("version", OK, found)
    found += ": interlock is made for Redis 6.2 and later, and Valkey"
    return Finding("version", ERROR, found, "upgrade the server")


def role(facts: Facts) -> Finding:
    """Look at whether it takes writes."""
    if facts.word("role") != "slave":
        return Finding("role", OK, "a primary")
    primary = f"{facts.word('master_host')}:{facts.word('master_port')}"
    found = f"a replica of {primary}: it refuses writes, or keeps them to itself"
    return Finding("role", ERROR, found, f"connect to the primary, {primary}")


def replicas(facts: Facts, options: Options) -> Iterator[Finding]:
    """Look at who follows this primary, and how closely."""
    followers = [
        cast("Mapping[str, object]", told)
        for field, told in facts.info.items()
        if re.fullmatch(r"slave\d+", field) and isinstance(told, Mapping)
    ]
    late = [
        f"{it.get('ip')}:{it.get('port')} ({it.get('state')}, lag {it.get('lag')} s)"
        for it in followers
        if it.get("state") != "online" or it.get("lag", 0) not in HEALTHY_LAG
    ]
    good = len(followers) - len(late)

    yield from _asked(facts, options, good)
    if late:
        yield Finding(
            "replicas",
            WARNING,
            f"{len(late)} of {len(followers)} replicas are not in step: {', '.join(late)}",
            "look at the log and the network of those; "
            "promoted now, they would not know the latest locks",
        )
    elif followers:
        yield Finding(
            "replicas",
            NOTE,
            f"{good} in step, asynchronously: a failover within moments of an acquire may lose "
            f"the lock, and {FORGETS}",
            "narrow it by replicas=required(...), or have the resource check tokens "
            "(docs/how-to/fencing.md)",
        )
    else:
        found = "none: no failover can lose a lock, and without this server there are no locks"
        yield Finding("replicas", OK, found)

    least = facts.config.get("min-replicas-to-write", "")
    if least.isdigit() and good < int(least):
        yield Finding(
            "replicas",
            ERROR,
            f"min-replicas-to-write is {least}, and {good} are in step: "
            "every acquire is refused (NOREPLICAS)",
            "bring the replicas back, or lower min-replicas-to-write",
        )


def _asked(facts: Facts, options: Options, good: int) -> Iterator[Finding]:
    """Compare what the client asks of replicas with the *good* ones, which are in step."""
    policy = options.replicas
    if policy != "off" and policy.mode != "off":
        bad = ERROR if policy.mode == "required" else WARNING
        wanted = 1 if policy.count == "all" else policy.count
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


def eviction(facts: Facts) -> Finding:
    """Look at whether locks may be thrown away, or refused, for want of memory."""
    limit, policy = facts.number("maxmemory"), facts.word("maxmemory_policy")
    if not limit:
        return Finding("eviction", OK, "none: maxmemory is not set")
    used, evicted = facts.number("used_memory") / limit, facts.number("evicted_keys")
    if policy != "noeviction":
        so_far = f"{evicted} keys were evicted already" if evicted else "none was evicted so far"
        return Finding(
            "eviction",
            ERROR if evicted or policy.startswith("allkeys") else WARNING,
            f"{policy}: when maxmemory is reached ({used:.0%} are used), "
            f"the server throws away keys that expire, as every lock does; {FORGETS}; {so_far}",
            "CONFIG SET maxmemory-policy noeviction, or keep locks on a server of their own",
        )
    if used < NEARLY_FULL:
        return Finding("eviction", OK, f"none (noeviction); {used:.0%} of maxmemory are used")
    return Finding(
        "eviction",
        ERROR if used >= 1 else WARNING,
        f"none (noeviction), but {used:.0%} of maxmemory are used: "
        "when it is full, acquires are refused (OOM)",
        "raise maxmemory, or free some",
    )


def persistence(facts: Facts) -> Iterator[Finding]:
    """Look at what a restart of the server forgets."""
    writes = ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
    failing = ", ".join(name for name in writes if facts.word(name) == "err")
    if failing:
        severity, found = WARNING, f"the last write to disk failed ({failing})"
        if facts.config.get("stop-writes-on-bgsave-error") != "no":
            severity, found = ERROR, f"{found}: the server may refuse every acquire (MISCONF)"
        yield Finding("persistence", severity, found, "look at its log and its disk")

    if not facts.number("aof_enabled"):
        save = facts.config.get("save")
        kept = f"snapshots only (save {save})" if save else "nothing is written to disk"
        if save is None:
            kept = "no log of writes (AOF), perhaps snapshots"
        yield Finding(
            "persistence",
            WARNING,
            f"{kept}: a restart within a lease forgets the locks, and {FORGETS}",
            "CONFIG SET appendonly yes, with appendfsync always where locks matter more than "
            "speed; or restart only after the longest lease",
        )
        return
    fsync = facts.config.get("appendfsync")
    if fsync == "always":
        found = "every write is on disk before it is acknowledged"
        yield Finding("persistence", OK, found)
        return
    severity, how = NOTE, "of which is unknown how often it goes to disk (appendfsync)"
    if fsync == "everysec":
        how = "that goes to disk every second: "
        how += "a crash of the machine forgets the locks of the last one or two"
    elif fsync:
        severity, how = WARNING, f"that goes to disk when the system likes (appendfsync {fsync})"
    yield Finding(
        "persistence",
        severity,
        f"a log of writes (AOF) {how}; and {FORGETS}",
        "appendfsync always where locks matter more than speed, "
        "or tokens that the resource checks (docs/how-to/fencing.md)",
    )
