"""Look at servers and judge them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from interlock._links.cluster import Cluster
from interlock._links.sentinel_endpoint import SentinelEndpoint
from interlock.check.collect import collect
from interlock.check.report import Finding, Report, ServerReport, Severity
from interlock.check.rules import apply_rules
from interlock.check.sentinels import examine_sentinels
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock._links.endpoint import Endpoint
    from interlock.check.requirements import Requirements


TRIES = 5000
"""Names that are tried until one belongs to a node that serves few slots."""


def examine(given: Iterable[Endpoint | Cluster], requirements: Requirements) -> Report:
    """Return what is found on the servers that *given* leads to.

    That one cannot be reached is a finding too.

    Args:
        given: servers, or what finds them: of a Sentinel service the Sentinels and the primary are
            looked at, of a cluster every primary.
        requirements: what they are to be fit for.

    Raises:
        ConfigError: from reaching a server, for what cannot work.
    """
    found: list[ServerReport] = []
    rights: list[str] = []
    library: list[bool] = []
    sharded = requirements.sharded
    for servers in given:
        timeout = servers.command_timeout or requirements.options.command_timeout
        try:
            nodes = servers.primaries(timeout)
        except ServerUnavailableError as error:
            found.append(_unreached(servers, error))
            nodes = ()
        required = requirements.reaching(servers.rights, sharded=_sharded(servers, requirements))
        rights += servers.rights
        sharded = sharded or required.sharded
        if isinstance(servers, SentinelEndpoint):
            found.append(examine_sentinels(servers, requirements, timeout))
        for node in nodes:
            name = _name(servers, node, required)
            try:
                facts = collect(node, name, required, timeout)
            except ServerUnavailableError as error:
                found.append(_unreached(node, error))
                continue
            library.append(facts.library)
            findings = apply_rules(facts, replace(required, library=library[-1]))
            found.append(ServerReport(node.where, reached=True, findings=findings))
    # A server refuses a whole line with a rule that it does not know.
    known = bool(library) and all(library)
    needed = replace(requirements.reaching(rights, sharded=sharded), library=known)
    return Report(tuple(found), needed)


def _sharded(servers: Endpoint | Cluster, requirements: Requirements) -> bool:
    """Return whether messages go by sharded channels, as the client decides it."""
    wanted = requirements.options.pubsub in ("auto", "sharded")
    return isinstance(servers, Cluster) and wanted and bool(servers.sharded)


def _name(servers: Endpoint | Cluster, node: Endpoint, requirements: Requirements) -> str | None:
    """Return a name that *requirements* cover and *node* serves, or None."""
    names = islice(requirements.examples(), TRIES)
    if not isinstance(servers, Cluster):
        return next(names)
    return next((name for name in names if servers.owner(name) is node), None)


def _unreached(servers: Endpoint | Cluster, error: ServerUnavailableError) -> ServerReport:
    # The error itself says what to do.
    finding = Finding("connection", Severity.ERROR, str(error))
    return ServerReport(servers.where, reached=False, findings=(finding,))
