"""Look at servers and judge them."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from interlock._links.cluster import Cluster
from interlock.check.gather import gather
from interlock.check.judge import judge
from interlock.check.report import Finding, Report, ServerReport, Severity
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock._links.endpoint import Endpoint
    from interlock.check.wishes import Wishes


TRIES = 5000
"""Names that are tried until one belongs to a node that serves few slots."""


def examine(given: Iterable[Endpoint | Cluster], wishes: Wishes) -> Report:
    """Return what is found on the servers that *given* leads to; that one cannot be reached is a finding too.

    Args:
        given: servers, or what finds them: of a Sentinel service the primary is looked at, of a cluster every primary.
        wishes: what they are to be fit for.

    Raises:
        ConfigError: from reaching a server, for what cannot work.
    """
    found: list[ServerReport] = []
    rights: list[str] = []
    sharded = wishes.sharded
    for servers in given:
        timeout = servers.command_timeout or wishes.options.command_timeout
        try:
            nodes = servers.primaries(timeout)
        except ServerUnavailableError as error:
            found.append(_unreached(servers, error))
            nodes = ()
        wished = wishes.reaching(servers.rights, sharded=_sharded(servers, wishes))
        rights += servers.rights
        sharded = sharded or wished.sharded
        found += [_examine(node, _name(servers, node, wished), wished, timeout) for node in nodes]
    return Report(tuple(found), wishes.reaching(rights, sharded=sharded).acl_line())


async def examine_async(given: Iterable[Endpoint | Cluster], wishes: Wishes) -> Report:
    """Do the same in a thread, while the event loop goes on; cancelled, it leaves that thread to end by itself."""
    return await asyncio.to_thread(examine, given, wishes)


def _examine(node: Endpoint, name: str | None, wishes: Wishes, timeout: float) -> ServerReport:
    try:
        facts = gather(node, name, wishes, timeout)
    except ServerUnavailableError as error:
        return _unreached(node, error)
    return ServerReport(node.where, reached=True, findings=judge(facts, wishes))


def _sharded(servers: Endpoint | Cluster, wishes: Wishes) -> bool:
    """Return whether messages go by sharded channels, as the client decides it."""
    wanted = wishes.options.pubsub in ("auto", "sharded")
    return isinstance(servers, Cluster) and wanted and bool(servers.sharded)


def _name(servers: Endpoint | Cluster, node: Endpoint, wishes: Wishes) -> str | None:
    """Return a name that *wishes* cover and *node* serves, or None."""
    names = islice(wishes.examples(), TRIES)
    if not isinstance(servers, Cluster):
        return next(names)
    return next((name for name in names if servers.owner(name) is node), None)


def _unreached(servers: Endpoint | Cluster, error: ServerUnavailableError) -> ServerReport:
    # The error itself says what to do.
    finding = Finding("connection", Severity.ERROR, str(error))
    return ServerReport(servers.where, reached=False, findings=(finding,))
