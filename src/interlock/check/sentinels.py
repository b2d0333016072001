"""Judge the Sentinels of a service: whether a failover would work, and whether holds outlast it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock._links.sentinel import told_by
from interlock.check.report import Finding, ServerReport, Severity
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock._links.endpoint import Endpoint
    from interlock._links.sentinel import SentinelEndpoint

OK, NOTE, WARNING, ERROR = Severity
FEWEST = 3
"""Sentinels of which one may fail: a majority of the rest must agree."""
PROMOTION = 2.0
"""Seconds that a failover takes after the Sentinels take the primary for dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelFacts:
    """What one Sentinel told.

    Attributes:
        where: its address.
        primary: the address that it names.
        is_down: whether it takes the primary for dead.
        known: how many Sentinels of the service there are, as it knows.
        replicas: how many replicas it knows.
        down_after: seconds of silence after which it takes a server for dead.
        quorum: what it says of the quorum: empty if there is one, None if it may not be asked.
    """

    where: str
    primary: str
    is_down: bool
    known: int
    replicas: int
    down_after: float
    quorum: str | None


def examine_sentinels(servers: SentinelEndpoint, lease: float, timeout: float) -> ServerReport:
    """Return what is found on the Sentinels of *servers*, each of which is asked for *timeout*."""
    told: list[SentinelFacts] = []
    findings: list[Finding] = []
    for node in servers.sentinels.nodes:
        try:
            told.append(_ask(node, servers.sentinels.service, timeout))
        except ServerUnavailableError as error:
            findings.append(Finding("connection", WARNING, str(error)))
    findings += judge(told, len(servers.sentinels.nodes), lease)
    return ServerReport(servers.where, reached=bool(told), findings=tuple(findings))


def judge(told: Sequence[SentinelFacts], named: int, lease: float) -> Iterator[Finding]:
    """Yield what the answers mean; the URL names *named* Sentinels, holds last for *lease*."""
    if not told:
        yield Finding("sentinels", ERROR, "no Sentinel answered: nobody tells a failover")
        return
    yield from _agreement(told)

    known = max(facts.known for facts in told)
    if known < FEWEST:
        found = f"{known} of them in all: if one fails, no majority can promote a replica"
        advice = f"run {FEWEST} or more, on machines of their own"
        yield Finding("sentinels", WARNING, found, advice)
    if known > named == 1:
        found = f"the URL names 1 of {known}: while it is down, no connection can be made"
        yield Finding("sentinels", WARNING, found, "name them all in the URL")

    for facts in told:
        if facts.quorum:
            advice = "start the Sentinels that are missing, or lower the quorum"
            yield Finding("quorum", ERROR, f"{facts.where} says: {facts.quorum}", advice)
        elif facts.quorum is None:
            yield Finding("quorum", NOTE, f"unknown: {facts.where} may not be asked (CKQUORUM)")
    if all(facts.quorum == "" for facts in told):
        yield Finding("quorum", OK, "enough Sentinels can agree on a failover")

    seconds = max(facts.down_after for facts in told) + PROMOTION
    found = f"a dead primary is replaced after about {seconds:g} s"
    left = lease * 2 / 3  # at its death the last renewal may be a third of the lease ago
    if not any(facts.replicas for facts in told):
        found = "there is no replica that could be promoted"
        yield Finding("failover", WARNING, found, "add a replica, or connect without Sentinels")
    elif seconds < left:
        yield Finding("failover", OK, f"{found}, and holds last at least {left:g} s")
    else:
        found += f", and a hold may end {left:g} s after the death: it is lost"
        advice = "lower down-after-milliseconds, or choose a longer lease"
        yield Finding("failover", WARNING, found, advice)


def _agreement(told: Sequence[SentinelFacts]) -> Iterator[Finding]:
    down = ", ".join(facts.where for facts in told if facts.is_down)
    if len({facts.primary for facts in told}) > 1:
        words = ", ".join(f"{facts.where} names {facts.primary}" for facts in told)
        found = f"the Sentinels disagree about the primary: {words}"
        advice = "wait if a failover is under way; else SENTINEL RESET on those that are wrong"
        yield Finding("sentinels", ERROR, found, advice)
    elif down:
        found = f"{down} cannot reach the primary {told[0].primary}"
        yield Finding("sentinels", ERROR, found, "look for what lies between them")
    else:
        yield Finding("sentinels", OK, f"{len(told)} Sentinels name {told[0].primary}")


def _ask(node: Endpoint, service: str, timeout: float) -> SentinelFacts:
    state = told_by(node, timeout, service)
    return SentinelFacts(
        where=node.where,
        primary=f"{state['ip']}:{state['port']}",
        is_down=not {"s_down", "o_down"}.isdisjoint(state["flags"].split(",")),
        known=int(state["num-other-sentinels"]) + 1,
        replicas=int(state["num-slaves"]),
        down_after=int(state["down-after-milliseconds"]) / 1000,
        quorum=_ask_for_quorum(node, timeout, service),
    )


def _ask_for_quorum(node: Endpoint, timeout: float, service: str) -> str | None:
    try:
        _ = node.answer(timeout, "SENTINEL", "CKQUORUM", service)
    except ServerUnavailableError as error:
        if error.code == "NOQUORUM":
            return str(error)
        if error.code is None:
            raise
        return None
    return ""
