"""From what a server is like to what that means for locks: pure.

Each rule looks at one thing and yields what it found. Its first word in `_finding` calls are
`Finding.check`, which programs may rely on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlock._core.upkeep.session import DEAF_POLL, GRACE
from interlock._links.replies import refusal
from interlock._version import __version__
from interlock.check.data_rules import eviction, persistence, replicas
from interlock.check.facts import is_sentinel
from interlock.check.report import Finding, Severity
from interlock.check.rights import NAMING
from interlock.check.services import service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interlock.check.facts import Facts
    from interlock.check.requirements import Requirements

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

_HOW_TO_LOOK = {
    "INFO": "with a user that may (redis-cli INFO), or in the console of a managed service: "
    "version, role, replicas, memory and its maxmemory-policy, persistence, number of clients",
    "CONFIG": "with a user that may (redis-cli CONFIG GET '*'), or in the console of a managed "
    "service: appendfsync, save, timeout, min-replicas-to-write",
    "TIME": "on both machines, at the same moment: date +%s.%N",
}
_SPARED = {
    *("+subscribe", "+ssubscribe", "+unsubscribe", "+sunsubscribe", "+ping"),
    *("+pubsub|numsub", "+pubsub|shardnumsub"),
}


def apply_rules(facts: Facts, requirements: Requirements) -> tuple[Finding, ...]:
    """Return a finding for everything that was looked at, and for what could not be looked at."""
    if is_sentinel(facts.info):
        return (
            Finding(
                "role",
                ERROR,
                "a Sentinel: it knows where servers are and keeps no locks itself",
                "give its address as redis+sentinel://HOST:PORT/SERVICE",
            ),
        )
    return tuple(finding for rule in RULES for finding in rule(facts, requirements))


def _silence(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    for command, how in _HOW_TO_LOOK.items():
        if command in facts.silent:
            yield Finding(
                command.lower(),
                NOTE,
                f"unknown what {command} would tell: the server said {facts.silent[command]!r}",
                f"look {how}",
            )


def _addresses(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
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


def _latency(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    found = f"a round trip takes {facts.round_trip * 1000:.1f} ms"
    timeout, lease = requirements.options.command_timeout, requirements.options.lease
    if facts.round_trip > lease * SLOW_SHARE:
        yield Finding(
            "latency",
            ERROR,
            f"{found}, and a lease lasts {lease:g} s: a renewal may come too late",
            "use a server that is nearer, or a longer lease",
        )
    elif facts.round_trip < min(GRACE / 2, timeout / 4):
        yield Finding("latency", OK, found)
    else:
        yield Finding(
            "latency",
            WARNING,
            f"{found}; a command is given up after {timeout:g} s, "
            "and clean-up that takes this long is left to the background",
            "use a server that is nearer, or a longer command_timeout",
        )


def _version(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    if facts.info is None:
        return
    own = facts.word("valkey_version")
    text = own or facts.word("redis_version")
    found = f"{'Valkey' if own else 'Redis'} {text}"
    digits = [int(part) if part.isdigit() else 0 for part in text.split(".")]
    if tuple(digits) >= OLDEST:
        yield Finding("version", OK, found)
    else:
        yield Finding(
            "version", ERROR, f"{found}: interlock is made for Redis 6.2 and later, and Valkey",
            "upgrade the server",
        )  # fmt: skip


def _role(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    if facts.info is None:
        return
    if facts.word("role") == "slave":
        primary = f"{facts.word('master_host')}:{facts.word('master_port')}"
        yield Finding(
            "role",
            ERROR,
            f"a replica of {primary}: it refuses writes, or keeps them to itself",
            f"connect to the primary, {primary}",
        )
    else:
        yield Finding("role", OK, "a primary")


def _cluster(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    if facts.number("cluster_enabled") and "cluster|slots" not in requirements.finding:
        yield Finding(
            "cluster",
            ERROR,
            "one node of a cluster: names that belong to another node are refused",
            "give its address as redis+cluster://HOST:PORT",
        )


def _writes(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    if facts.rights is None:
        return
    for code, text in facts.rights.refused.items():
        if code != "READONLY" or facts.word("role") != "slave":  # else the role has told it
            yield Finding("writes", ERROR, str(refusal(text, None, facts.where)))


def _without(missing: set[str], requirements: Requirements) -> str:
    """Return what follows where only optional rights are *missing*; nothing if some are not."""
    if missing <= {f"+{command}" for command in NAMING}:
        return ": cards are written, but their connections have no name"
    locks = tuple(kind for kind in requirements.objects if kind != "cards")
    needed = replace(requirements, objects=locks).rules() if locks else frozenset[str]()
    if missing <= requirements.rules() - needed:
        return ": locks work, but no card tells operators who holds and awaits them"
    if all(rule in _SPARED or rule.startswith("&") for rule in missing):
        return ": who waits may hear nothing, and looks every poll_cap seconds"
    return ""


def _rights(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    rights, what = (
        facts.rights,
        f"{', '.join(requirements.objects)} under {requirements.name_pattern!r}",
    )
    if rights is None:
        yield Finding(
            "rights",
            NOTE,
            f"not tried: no name under {requirements.name_pattern!r} belongs to this node",
        )
        return
    if rights.missing:
        bare = set(rights.missing)
        follows = _without(bare, requirements)
        yield Finding(
            "rights",
            WARNING if follows else ERROR,
            f"user {facts.user!r} lacks {' '.join(rights.missing)} for {what}{follows}",
            f"ACL SETUSER {facts.user} {' '.join(rights.missing)}",
        )
    if rights.unknown:
        yield Finding(
            "rights",
            NOTE if rights.missing else WARNING,
            f"unknown whether user {facts.user!r} may do the rest: {rights.unknown}",
            "permit what is missing and check again; "
            "--names (names=) tells how the application's names begin",
        )
    if not rights.missing and not rights.unknown:
        yield Finding("rights", OK, f"user {facts.user!r} may run the scripts of {what}")


def _messages(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    if requirements.options.pubsub == "off":
        interval = min(requirements.options.poll_cap, DEAF_POLL)
        yield Finding(
            "messages",
            NOTE,
            f"pubsub is off: nobody is told of releases, and who waits looks every {interval:g} s",
        )
    elif facts.heard:
        kind = "sharded" if requirements.sharded else "plain"
        yield Finding("messages", OK, f"a message by a {kind} channel arrives")
    elif facts.heard is not None:
        yield Finding(
            "messages",
            WARNING,
            "a message that was published did not arrive: waiters look every poll_cap seconds",
            "look for a proxy between here and the server that does not pass pub/sub on",
        )


def _clock(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    if facts.clock_offset is None:
        return
    found = (
        f"the server's clock is {abs(facts.clock_offset):.3f} s "
        f"{'ahead' if facts.clock_offset > 0 else 'behind'}"
    )
    if abs(facts.clock_offset) < MUCH_OFFSET + facts.round_trip:
        yield Finding("clock", OK, found)
    else:
        yield Finding(
            "clock",
            WARNING,
            f"{found}: leases do not depend on that, "
            "but a clock that is put right in one step lets them end early or late",
            "have both machines follow a time server, by slewing",
        )


def _clients(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    limit, now = facts.number("maxclients"), facts.number("connected_clients")
    if not limit:
        return
    found = f"{now} of {limit} connections are in use"
    if now < MANY_CLIENTS * limit:
        yield Finding("clients", OK, found)
    else:
        yield Finding(
            "clients",
            WARNING,
            f"{found}: at the limit nobody can connect, and waiting acquires wait longer",
            "raise maxclients, or lower max_connections in the clients' URLs",
        )


def _idle(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    seconds = facts.setting("timeout")
    if seconds is None:
        return
    if seconds == 0 or seconds >= SHORT_IDLE:
        found = f"closed after {seconds} s (timeout)" if seconds else "never closed"
        yield Finding("idle", OK, f"idle connections are {found}")
    else:
        yield Finding(
            "idle",
            NOTE,
            f"connections are closed after {seconds} s of silence (timeout): "
            "the next command connects anew, which takes longer",
            f"CONFIG SET timeout 0, or {SHORT_IDLE} and more",
        )


def _transport(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    if facts.transport == "tls":
        yield Finding("transport", OK, "TLS")
    elif facts.local:
        yield Finding("transport", OK, "within this machine")
    else:
        yield Finding(
            "transport",
            NOTE,
            "without TLS: whoever hears the network can read the password and release locks",
            "use rediss:// where the network is not trusted",
        )


def _versions(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    others = {each: count for each, count in facts.versions.items() if each != __version__}
    if not others:
        return
    told = ", ".join(f"{each or 'unknown'} ({count})" for each, count in sorted(others.items()))
    yield Finding(
        "versions",
        NOTE,
        f"clients of other versions of interlock share this server: {told}; this is {__version__}",
        "the CHANGELOG tells which versions can share a server",
    )


def _untouched(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    del requirements
    if facts.untouched:
        yield Finding(
            "untouched",
            NOTE,
            "numbers that nobody touched for a week, as semaphores and latches are: "
            f"{', '.join(facts.untouched)}",
            "delete those that are leftovers: client.semaphore(NAME).delete(), or DEL",
        )


RULES: tuple[Callable[[Facts, Requirements], Iterator[Finding]], ...] = (
    service, _addresses, _latency, _version, _role, _cluster, replicas, eviction, persistence,
    _writes, _rights, _messages, _clock, _clients, _idle, _transport, _versions, _untouched,
    _silence,
)  # fmt: skip
