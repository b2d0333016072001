"""The judgement: facts in, findings out, and the name of the service; no server."""

from __future__ import annotations

import pytest

from interlock.check import Finding, Severity
from interlock.check.facts import Facts
from interlock.check.rules import judge
from interlock.check.services import service_of
from interlock.options import Options, best_effort, required

OK, NOTE, WARNING, ERROR = Severity
HEALTHY: dict[str, object] = {
    "redis_version": "7.0.15",
    "redis_mode": "standalone",
    "role": "master",
    "connected_slaves": 0,
    "maxmemory": 0,
    "maxmemory_policy": "noeviction",
    "used_memory": 50,
    "evicted_keys": 0,
    "aof_enabled": 1,
    "rdb_last_bgsave_status": "ok",
    "aof_last_write_status": "ok",
}
SETTINGS = {
    "appendfsync": "always",
    "save": "",
    "min-replicas-to-write": "0",
    "stop-writes-on-bgsave-error": "yes",
}


def found(
    check: str,
    *,
    info: dict[str, object] | None = None,
    config: dict[str, str] | None = None,
    options: Options | None = None,
    **facts: object,
) -> list[Finding]:
    """Return the findings about *check* on a server that is healthy but for what is given."""
    whole = Facts(info=HEALTHY | (info or {}), config=SETTINGS | (config or {}), **facts)
    return [one for one in judge(whole, options or Options()) if one.check == check]


def follower(state: str = "online", lag: object = 0) -> dict[str, object]:
    """Return INFO's words about one replica."""
    return {
        "connected_slaves": 1,
        "slave0": {"ip": "10.0.0.2", "port": 6379, "state": state, "lag": lag},
    }


def full(policy: str, evicted: int = 0, used: int = 50) -> dict[str, object]:
    """Return INFO's words about a bounded memory of 100."""
    return {
        "maxmemory": 100,
        "maxmemory_policy": policy,
        "evicted_keys": evicted,
        "used_memory": used,
    }


def test_a_healthy_server_gives_nothing_to_worry_about() -> None:
    """On a server as it should be every finding is ok, and none asks for anything to be done."""
    findings = list(judge(Facts(info=HEALTHY, config=SETTINGS), Options()))
    assert {one.severity for one in findings} == {OK}
    assert not any(one.advice for one in findings)
    assert len({one.check for one in findings}) == len(findings) == 8


@pytest.mark.parametrize(
    ("check", "changes", "severity", "says"),
    [
        ("latency", {"round_trip": 0.07}, OK, "70.0 ms"),
        ("latency", {"round_trip": 0.2}, WARNING, "200.0 ms"),
        ("version", {"info": {"redis_version": "6.2.0"}}, OK, "Redis 6.2.0"),
        ("version", {"info": {"redis_version": "6.0.16"}}, ERROR, "6.0.16"),
        ("version", {"info": {"valkey_version": "8.1.8"}}, OK, "Valkey 8.1.8"),
        ("version", {"info": {"redis_version": "8.4-rc1"}}, OK, "8.4-rc1"),
        ("role", {}, OK, "primary"),
        (
            "role",
            {"info": {"role": "slave", "master_host": "db", "master_port": 7000}},
            ERROR,
            "db:7000",
        ),
        ("role", {"info": {"redis_mode": "sentinel"}}, ERROR, "Sentinel"),
        ("cluster", {"info": {"cluster_enabled": 1}}, ERROR, "cluster"),
        ("replicas", {}, OK, "none"),
        ("replicas", {"info": follower()}, NOTE, "1 in step"),
        ("replicas", {"info": follower(lag=60)}, WARNING, "10.0.0.2:6379 (online, lag 60 s)"),
        ("replicas", {"info": follower("wait_bgsave")}, WARNING, "wait_bgsave"),
        ("replicas", {"info": follower(lag="never")}, WARNING, "lag never s"),
        ("replicas", {"info": {"connected_slaves": 10**12, "slave0": "foo"}}, OK, "none"),
        ("eviction", {}, OK, "maxmemory is not set"),
        ("eviction", {"info": {"maxmemory_policy": "allkeys-lru"}}, OK, "not set"),
        ("eviction", {"info": full("noeviction")}, OK, "50%"),
        ("eviction", {"info": full("noeviction", used=95)}, WARNING, "OOM"),
        ("eviction", {"info": full("noeviction", used=100)}, ERROR, "OOM"),
        ("eviction", {"info": full("volatile-lru")}, WARNING, "none was evicted so far"),
        ("eviction", {"info": full("volatile-ttl", evicted=3)}, ERROR, "3 keys were evicted"),
        ("eviction", {"info": full("allkeys-lru")}, ERROR, "two owners"),
        ("persistence", {}, OK, "before it is acknowledged"),
        ("persistence", {"config": {"appendfsync": "everysec"}}, NOTE, "every second"),
        ("persistence", {"config": {"appendfsync": "no"}}, WARNING, "when the system likes"),
        ("persistence", {"info": {"aof_enabled": 0}}, WARNING, "nothing is written"),
        (
            "persistence",
            {"info": {"aof_enabled": 0}, "config": {"save": "3600 1"}},
            WARNING,
            "save 3600 1",
        ),
        ("transport", {"transport": "tls"}, OK, "TLS"),
        ("transport", {"transport": "local"}, OK, "this machine"),
        ("transport", {"transport": "plain"}, NOTE, "without TLS"),
    ],
)
def test_a_fact_has_its_finding(
    check: str, changes: dict[str, object], severity: Severity, says: str
) -> None:
    """One fact gives one finding, with its severity, its figures, and advice unless it is ok."""
    [finding] = found(check, **changes)
    assert finding.severity is severity
    assert says in finding.found
    assert bool(finding.advice) == (severity > OK)


@pytest.mark.parametrize(
    ("policy", "followers", "severity"),
    [
        (required("all"), {}, ERROR),
        (required(2), follower(), ERROR),
        (required(1), follower(lag=60), ERROR),
        (best_effort(2), follower(), WARNING),
        (required("all"), follower(), NOTE),
    ],
)
def test_replicas_that_must_acknowledge_are_counted(
    policy: object, followers: dict[str, object], severity: Severity
) -> None:
    """If the client wants replicas to acknowledge, too few replicas in step are reported.

    A replica that lags is not in step.
    """
    findings = found("replicas", info=followers, options=Options(replicas=policy))
    assert findings[0].severity is severity


def test_locks_that_must_be_on_disk_need_a_log_of_writes() -> None:
    """With fsync=True a server without appendonly is an error, and one with it is not."""
    options = Options(replicas=required(0, fsync=True))
    finding, *_ = found("replicas", info={"aof_enabled": 0}, options=options)
    assert (finding.severity, "appendonly no" in finding.found) == (ERROR, True)
    assert [one.severity for one in found("replicas", options=options)] == [OK]


@pytest.mark.parametrize(("stops", "severity"), [("yes", ERROR), ("no", WARNING)])
def test_a_disk_that_failed_is_told(stops: str, severity: Severity) -> None:
    """A failed write to disk is reported; it is an error if the server then refuses acquires."""
    findings = found(
        "persistence",
        info={"rdb_last_bgsave_status": "err"},
        config={"stop-writes-on-bgsave-error": stops},
    )
    assert findings[0].severity is severity
    assert "rdb_last_bgsave_status" in findings[0].found


def test_what_the_server_does_not_tell_is_unknown() -> None:
    """Refused INFO and CONFIG are reported as unknown, with advice; nothing is guessed."""
    silent = {"INFO": "NOPERM no", "CONFIG GET": "ERR unknown command"}
    findings = list(judge(Facts(silent=silent), Options()))
    unknown = [one for one in findings if one.severity is NOTE]
    assert [one.check for one in unknown] == ["info", "config"]
    assert all(one.found.startswith("unknown") and one.advice for one in unknown)
    assert "ERR unknown command" in unknown[1].found
    known = {one.check for one in findings} - {"info", "config"}
    assert known == {"latency", "transport"}


@pytest.mark.parametrize(
    ("where", "info", "server", "name"),
    [
        ("localhost:6379", {"redis_version": "7.0.15"}, "redis", "Redis"),
        ("localhost:6379", {"valkey_version": "8.1.0"}, "valkey", "Valkey"),
        ("db:6379", {"dragonfly_version": "df-1.20"}, "redis", "Dragonfly"),
        ("db:6379", {"kvrocks_version": "2.9"}, "redis", "Kvrocks"),
        ("db:6379", {}, "garnet", "Garnet"),
        ("db:6379", {"mvcc_depth": 0}, "redis", "KeyDB"),
        ("x.abc.ng.0001.euw1.cache.amazonaws.com:6379", {}, "redis", "ElastiCache"),
        ("x.serverless.euw1.cache.amazonaws.com:6379", {}, "redis", "ElastiCache Serverless"),
        ("clustercfg.x.abc.memorydb.us-east-1.amazonaws.com:6379", {}, "redis", "MemoryDB"),
        ("eu1-x.upstash.io:6379", {}, "redis", "Upstash"),
        ("r-x.redis.rds.aliyuncs.com:6379", {}, "redis", "Alibaba Tair"),
        ("x.redis.cache.windows.net:6380", {}, "redis", "Azure"),
        ("x.aivencloud.com:12345", {"valkey_version": "8.0.1"}, "valkey", "Aiven"),
        ("upstash.io.example:6379", {}, "redis", "Redis"),
    ],
)
def test_a_service_is_named(where: str, info: dict[str, object], server: str, name: str) -> None:
    """The host's name counts first, then what the server says of itself."""
    found = service_of(Facts(where=where, info=info, server=server))
    assert found is not None
    assert found.name == name
