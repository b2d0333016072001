"""Look at servers and judge them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlock._links.sentinel import SentinelEndpoint
from interlock.check.facts import collect
from interlock.check.report import Finding, Report, ServerReport, Severity
from interlock.check.rules import judge
from interlock.check.sentinels import examine_sentinels
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock._links.topology import Topology
    from interlock.check.requirements import Requirements


def examine(given: Iterable[Topology], requirements: Requirements) -> Report:
    """Return what is found on the servers that *given* leads to; also those that are away.

    Of a Sentinel service the Sentinels and the primary are looked at, of a cluster every primary.

    Raises:
        ConfigError: from reaching a server, for what cannot work.
    """
    options = requirements.options
    found: list[ServerReport] = []
    library: list[bool] = []
    for servers in given:
        timeout = servers.command_timeout or options.command_timeout
        try:
            nodes = servers.primaries(timeout)
        except ServerUnavailableError as error:
            found.append(_unreached(servers, error))
            nodes = ()
        requirements = replace(requirements, finding=(*requirements.finding, *servers.rights))
        # As the client decides it.
        if servers.clustered and options.pubsub in ("auto", "sharded"):
            requirements = replace(requirements, sharded=bool(servers.sharded))
        if isinstance(servers, SentinelEndpoint):
            found.append(examine_sentinels(servers, options.lease, timeout))
        for node in nodes:
            try:
                facts = collect(node, timeout, _messages(requirements))
            except ServerUnavailableError as error:
                found.append(_unreached(node, error))
                continue
            library.append(facts.library)
            findings = tuple(judge(facts, options, clustered=servers.clustered))
            found.append(ServerReport(node.where, reached=True, findings=findings))
    # A server refuses a whole line with a rule that it does not know.
    return Report(tuple(found), replace(requirements, library=bool(library) and all(library)))


def _messages(requirements: Requirements) -> list[tuple[str, ...]]:
    """Return the commands that show whether a user may use the channels of the objects."""
    shard = "S" if requirements.sharded else ""
    channels = [each.replace("*", "") for each in requirements.channels[:1]]
    return [
        *((f"{shard}PUBLISH", channel, "") for channel in channels),
        *((f"{shard}SUBSCRIBE", channel) for channel in channels),
    ]


def _unreached(servers: Topology, error: ServerUnavailableError) -> ServerReport:
    # The error itself says what to do.
    finding = Finding("connection", Severity.ERROR, str(error))
    return ServerReport(servers.where, reached=False, findings=(finding,))
