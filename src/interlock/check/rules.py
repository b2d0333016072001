"""From what a server is like to what that means for locks: pure.

Each rule looks at one thing and yields what it found: how bad it is, what is there, and what to do
unless it is fine. Its name is `Finding.check`, which programs may rely on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.upkeep.session import GRACE
from interlock._version import __version__
from interlock.check.data_rules import eviction, persistence, replicas
from interlock.check.facts import is_sentinel
from interlock.check.report import Finding, Row, Severity
from interlock.check.services import service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interlock.check.facts import Facts
    from interlock.check.report import Rows
    from interlock.options import Options

OK, NOTE, WARNING, ERROR = Severity
OLDEST = (6, 2)
SLOW_SHARE = 1 / 30
"""The part of a lease that a round trip may take: a renewal has a third of it, for several."""
MUCH_OFFSET = 1.0
"""Seconds between the clocks that are worth telling."""
MANY_CLIENTS = 0.8
"""The part of maxclients that is worth telling."""
SHOWN = 3
"""Addresses of one name that are told."""
SHORT_IDLE = 60
"""Seconds. A pooled connection of a calm application may well be idle for longer."""
HOW_TO_LOOK = {
    "INFO": "with a user that may (redis-cli INFO), or in the console of a managed service: "
    "version, role, replicas, memory and its maxmemory-policy, persistence, number of clients",
    "CONFIG": "with a user that may (redis-cli CONFIG GET '*'), or in the console of a managed "
    "service: appendfsync, save, timeout, min-replicas-to-write",
    "TIME": "on both machines, at the same moment: date +%s.%N",
}


def apply_rules(facts: Facts, options: Options, *, clustered: bool = False) -> tuple[Finding, ...]:
    """Return a finding for everything that was looked at, and for what could not be looked at.

    Args:
        facts: what the server is like.
        options: the client's.
        clustered: whether the client knows that the server is one node of a cluster.
    """
    return tuple(_findings(facts, options, clustered=clustered))


def _findings(facts: Facts, options: Options, *, clustered: bool) -> Iterator[Finding]:
    if is_sentinel(facts.info):
        found = "a Sentinel: it knows where servers are and keeps no locks itself"
        advice = "give its address as redis+sentinel://HOST:PORT/SERVICE"
        yield Finding("role", ERROR, found, advice)
        return
    if facts.number("cluster_enabled") and not clustered:
        found = "one node of a cluster: names that belong to another node are refused"
        advice = "give its address as redis+cluster://HOST:PORT"
        yield Finding("cluster", ERROR, found, advice)
    for judge in (latency, replicas):
        for row in judge(facts, options):
            yield Finding(judge.__name__, *row)
    for rule in RULES:
        for row in rule(facts):
            yield Finding(rule.__name__, *row)
    for command, how in HOW_TO_LOOK.items():
        if command in facts.silent:
            found = f"unknown what {command} would tell: the server said {facts.silent[command]!r}"
            yield Finding(command.lower(), NOTE, found, f"look {how}")


def addresses(facts: Facts) -> Rows:
    """Look at how many servers the host's name may lead to."""
    if len(facts.addresses) > 1:
        shown = ", ".join(facts.addresses[:SHOWN])
        shown += ", ..." if len(facts.addresses) > SHOWN else ""
        yield Row(
            WARNING,
            f"the host's name leads to {len(facts.addresses)} addresses ({shown}): each connection "
            "may meet another server, which keeps locks of its own",
            "give the name of the primary alone, redis+sentinel:// or redis+cluster://; if all "
            "addresses lead to one server, all is well",
        )


def latency(facts: Facts, options: Options) -> Rows:
    """Look at whether renewals and clean-up have the time that they need."""
    found = f"a round trip takes {facts.round_trip * 1000:.1f} ms"
    timeout, lease = options.command_timeout, options.lease
    if facts.round_trip > lease * SLOW_SHARE:
        yield Row(
            ERROR,
            f"{found}, and a lease lasts {lease:g} s: a renewal may come too late",
            "use a server that is nearer, or a longer lease",
        )
    elif facts.round_trip < min(GRACE / 2, timeout / 4):
        yield Row(OK, found)
    else:
        yield Row(
            WARNING,
            f"{found}; a command is given up after {timeout:g} s, "
            "and clean-up that takes this long is left to the background",
            "use a server that is nearer, or a longer command_timeout",
        )


def version(facts: Facts) -> Rows:
    """Look at whether the server is one that interlock is made for."""
    own = facts.word("valkey_version")
    text = own or facts.word("redis_version")
    found = f"{'Valkey' if own else 'Redis'} {text}"
    digits = [int(part) if part.isdigit() else 0 for part in text.split(".")]
    if facts.info is None:
        return
    if tuple(digits) >= OLDEST:
        yield Row(OK, found)
    else:
        wanted = "interlock is made for Redis 6.2 and later, and Valkey"
        yield Row(ERROR, f"{found}: {wanted}", "upgrade the server")


def role(facts: Facts) -> Rows:
    """Look at whether it takes writes."""
    if facts.word("role") == "slave":
        primary = f"{facts.word('master_host')}:{facts.word('master_port')}"
        yield Row(
            ERROR,
            f"a replica of {primary}: it refuses writes, or keeps them to itself",
            f"connect to the primary, {primary}",
        )
    elif facts.info is not None:
        yield Row(OK, "a primary")


def clock(facts: Facts) -> Rows:
    """Look at the difference between the clocks."""
    if facts.clock_offset is None:
        return
    apart = abs(facts.clock_offset)
    found = f"the server's clock is {apart:.3f} s {'ahead' if facts.clock_offset > 0 else 'behind'}"
    if apart < MUCH_OFFSET + facts.round_trip:
        yield Row(OK, found)
    else:
        yield Row(
            WARNING,
            f"{found}: leases do not depend on that, "
            "but a clock that is put right in one step lets them end early or late",
            "have both machines follow a time server, by slewing",
        )


def clients(facts: Facts) -> Rows:
    """Look at whether more clients can connect."""
    limit, now = facts.number("maxclients"), facts.number("connected_clients")
    found = f"{now} of {limit} connections are in use"
    if now < MANY_CLIENTS * limit:
        yield Row(OK, found)
    elif limit:
        yield Row(
            WARNING,
            f"{found}: at the limit nobody can connect, and waiting acquires wait longer",
            "raise maxclients, or lower max_connections in the clients' URLs",
        )


def idle(facts: Facts) -> Rows:
    """Look at whether the server closes connections."""
    seconds = facts.setting("timeout")
    if seconds == 0:
        yield Row(OK, "idle connections are never closed")
    elif seconds is not None and seconds >= SHORT_IDLE:
        yield Row(OK, f"idle connections are closed after {seconds} s (timeout)")
    elif seconds is not None:
        yield Row(
            NOTE,
            f"connections are closed after {seconds} s of silence (timeout): "
            "the next command connects anew, which takes longer",
            f"CONFIG SET timeout 0, or {SHORT_IDLE} and more",
        )


def transport(facts: Facts) -> Rows:
    """Look at who could listen."""
    if facts.transport == "tls":
        yield Row(OK, "TLS")
    elif facts.local:
        yield Row(OK, "within this machine")
    else:
        yield Row(
            NOTE,
            "without TLS: whoever hears the network can read the password and release locks",
            "use rediss:// where the network is not trusted",
        )


def versions(facts: Facts) -> Rows:
    """Look at the other clients."""
    others = {each: count for each, count in facts.versions.items() if each != __version__}
    if others:
        told = ", ".join(f"{each or 'unknown'} ({count})" for each, count in sorted(others.items()))
        yield Row(
            NOTE,
            f"clients of other versions of interlock share this server: {told}; "
            f"this is {__version__}",
            "the CHANGELOG tells which versions can share a server",
        )


def untouched(facts: Facts) -> Rows:
    """Look at what may be left over."""
    if facts.untouched:
        names = ", ".join(facts.untouched)
        yield Row(
            NOTE,
            f"numbers that nobody touched for a week, as semaphores and latches are: {names}",
            "delete those that are leftovers: client.semaphore(NAME).delete(), or DEL",
        )


RULES: tuple[Callable[[Facts], Rows], ...] = (
    *(service, addresses, version, role, eviction, persistence),
    *(clock, clients, idle, transport, versions, untouched),
)
