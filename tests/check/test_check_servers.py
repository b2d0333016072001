"""The check on real servers that are configured as they should not be."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.support.address import free_port
from tests.support.binary import main_version
from tests.support.servers import (
    ClusterServers,
    RedisServer,
    ReplicatedServers,
    SentinelServers,
    binaries,
    wait_until,
)

import interlock
from interlock.check import Requirements, Severity
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.check import Report

    Check = Callable[..., Report]
    SeverityOf = Callable[[Report, str], Severity]

OK, NOTE, WARNING, ERROR = Severity


def test_every_supported_server_is_fit(
    any_server: RedisServer, check: Check, severity: SeverityOf
) -> None:
    """A check of each supported version warns about persistence only, and leaves no key behind."""
    report = check(any_server.url(), objects=("lock", "fair_lock", "semaphore"))
    assert report.reached
    assert report.worst is WARNING
    assert [one.check for one in report.findings if one.severity is not OK] == ["persistence"]
    version = ".".join(map(str, any_server.version))
    family = "Valkey" if "valkey" in any_server.binary.name else "Redis"
    assert f"{family} {version}" in str(report)
    assert any_server.execute("DBSIZE") == 0


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}, {"eviction": ERROR}),
        ({"maxmemory": "1"}, {"eviction": ERROR}),
        ({"save": "60 1"}, {"persistence": WARNING}),
        ({"appendonly": "yes", "appendfsync": "always"}, {"persistence": OK}),
        ({"min-replicas-to-write": 1}, {"replicas": ERROR}),
        ({"rename-command CONFIG": '""'}, {"config": NOTE, "persistence": WARNING}),
        ({"rename-command INFO": '""'}, {"info": NOTE, "latency": OK}),
        ({"cluster-enabled": "yes"}, {"cluster": ERROR}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_a_configuration_has_its_findings(
    config: dict[str, str | int], wanted: dict[str, Severity], check: Check, severity: SeverityOf
) -> None:
    """A server that is configured so gives those findings."""
    with RedisServer(config=config) as server:
        report = check(server.url())
        assert {name: severity(report, name) for name in wanted} == wanted


@pytest.mark.parametrize("lacking", ["+publish", "+subscribe", "&"])
@pytest.mark.parametrize("options", [Options(), Options(pubsub="off")], ids=["messages", "none"])
def test_a_user_without_messages_is_told(
    lacking: str, options: Options, fresh_server: RedisServer, check: Check, severity: SeverityOf
) -> None:
    """A user who may not send or hear messages is warned, unless the client uses none."""
    rules = Requirements(names="app:*").acl_line().split()[2:]
    given = [rule for rule in rules if not rule.startswith(lacking)]
    fresh_server.execute("ACL", "SETUSER", "app", "reset", *given)
    report = check(fresh_server.url(0, "app", "secret"), names="app:*", options=options)
    if options.pubsub == "off":
        assert "messages" not in {one.check for one in report.findings}
    else:
        assert severity(report, "messages") is WARNING


def _followed(primary: RedisServer) -> bool:
    with primary.client() as client:
        info = client.info("replication")
    return info["slave0"]["state"] == "online" and int(info["slave0"]["lag"]) <= 1


def test_a_replica_is_an_error_and_its_primary_is_named(check: Check, severity: SeverityOf) -> None:
    """A replica is an error that names the primary; the primary itself is told who follows it."""
    with ReplicatedServers(1) as servers:
        [replica] = servers.replicas
        report = check(replica.url())
        assert severity(report, "role") is ERROR
        assert f"connect to the primary, 127.0.0.1:{servers.primary.port}" in str(report)

        primary = servers.primary
        wait_until(lambda: _followed(primary), 10, "the replica has acknowledged")
        report = check(primary.url())
        assert severity(report, "role") is OK
        assert severity(report, "replicas") is NOTE
        assert "1 in step" in str(report)


@pytest.mark.parametrize("version", [main_version(), "valkey-9.1"])
def test_a_sentinel_is_not_taken_for_a_server(
    check: Check, severity: SeverityOf, version: str
) -> None:
    """The address of a Sentinel gives one error, which says what to write instead."""
    with RedisServer(binaries()[version], sentinel=True) as sentinel:
        [finding] = check(sentinel.url()).findings
    assert (finding.check, finding.severity) == ("role", ERROR)
    assert "redis+sentinel://" in finding.advice


def test_under_sentinel_the_primary_is_looked_at(check: Check, severity: SeverityOf) -> None:
    """The check of a Sentinel URL reports on the primary, and says if no Sentinel answers.

    Its ACL line has the right to ROLE, which a client needs to find the primary.
    """
    with SentinelServers() as servers:
        wait_until(lambda: _followed(servers.primary), 10, "the replicas have acknowledged")
        report = check(servers.url())
        service, primary = report.servers
        assert service.where.startswith("mymaster (Sentinels ")
        assert primary.where == f"127.0.0.1:{servers.primary.port}"
        assert [finding.check for finding in service.findings] == [
            *("sentinels", "quorum", "failover")
        ]
        assert report.worst < ERROR
        assert severity(report, "role") is OK
        assert severity(report, "replicas") is NOTE
        assert report.acl.endswith("+role")

        first, second, third = servers.sentinels
        first.kill()
        report = check(servers.url())
        assert severity(report, "connection") is WARNING
        assert severity(report, "quorum") is OK
        second.kill()
        wait_until(
            lambda: severity(check(servers.url()), "quorum") is ERROR, 20, "it missed the second"
        )
        third.kill()
        report = check(servers.url(), options=interlock.Options(command_timeout=1))
        assert not report.reached
        assert "no Sentinel answered" in str(report)


@pytest.mark.parametrize(("version", "kind"), [("redis-7.0", "sharded"), ("redis-6.2", "plain")])
def test_of_a_cluster_every_primary_is_looked_at(version: str, kind: str, check: Check) -> None:
    """The check of a cluster URL reports on each primary, and the line that it prints suffices."""
    with ClusterServers(binary=binaries()[version]) as servers:
        line = check(servers.url(), names="locks:*").acl
        for node in servers.nodes:
            node.execute("ACL", "SETUSER", "app", "reset", *line.split()[2:])
            node.execute("ACL", "LOG", "RESET")
        url = servers.url().replace("://", "://app:secret@")
        report = check(url, names="locks:*")
        primaries = {f"127.0.0.1:{node.port}" for node in servers.nodes[:3]}
        assert {server.where for server in report.servers} == primaries
        told = {(one.check, one.severity) for one in report.findings}
        assert ("role", OK) in told or ("info", NOTE) in told
        assert "cluster" not in {check for check, _ in told}
        assert ("+spublish" in report.acl) is (kind == "sharded")

        with interlock.connect(url) as client, interlock.connect(url) as other:
            for number in range(10):
                with client.lock(f"locks:{number}"):
                    assert not other.lock(f"locks:{number}").acquire(timeout=0.2)
        for node in servers.nodes:
            asked = {row[b"object"] for row in map(_as_dict, node.execute("ACL", "LOG"))}
            optional = {b"info", b"config|get", b"config", b"acl|whoami", b"acl"}
            assert asked <= optional


def _as_dict(row: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(row[::2], row[1::2], strict=True))


def test_a_server_that_is_not_there_is_a_finding(check: Check, severity: SeverityOf) -> None:
    """No server, a wrong password, a frozen server: each is reported as an error, in time."""
    report = check(f"redis://127.0.0.1:{free_port()}")
    assert (report.reached, report.worst) == (False, ERROR)
    assert "cannot connect" in report.findings[0].found
    with RedisServer(password="secret") as server:
        report = check(server.url(0, None, "wrong"))
        assert not report.reached
        assert "refused the user name or password" in report.findings[0].found
        server.pause()
        began = time.monotonic()
        report = check(server.url(), options=interlock.Options(command_timeout=0.3))
        assert not report.reached
        assert time.monotonic() - began < 10


async def test_both_faces_find_the_same(server: RedisServer, redis_url: str) -> None:
    """`check` of either face gives the same report, but for what differs from moment to moment."""
    with interlock.connect(redis_url) as client:
        ours = client.check(objects=("fair_lock",), names="a*")
    async with interlock.asyncio.connect(redis_url) as client:
        theirs = await client.check(objects=("fair_lock",), names="a*")
    assert ours.acl == theirs.acl
    assert [(one.check, one.severity) for one in ours.findings] == [
        (one.check, one.severity) for one in theirs.findings
    ]
    assert server.execute("DBSIZE") == 0
