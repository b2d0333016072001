"""What the trial says of servers and users that do locks right, in another way, or not at all."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.support.binary import main_version
from tests.support.servers import ClusterServers, RedisServer, SentinelServers, binaries

import interlock
from interlock.check import Requirements, Severity
from interlock.check.try_out import SCENES, try_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.check import Finding

OK, NOTE, WARNING, ERROR = Severity
RULES = Requirements(names="app:*").acl_line().split()[2:]
CHANNELS = [rule for rule in RULES if rule[0] == "&"]


def played(url: str) -> list[Finding]:
    return list(try_out(partial(interlock.connect, url), "app:*"))


def assert_as_it_should(findings: list[Finding]) -> None:
    """See that each scene was played, and ended well."""
    assert [(one.check, one.severity) for one in findings] == [(scene, OK) for scene in SCENES]
    assert not any(one.advice for one in findings)
    assert "ms after the release" in findings[1].found


def test_every_supported_server_does_as_it_should(any_server: RedisServer) -> None:
    """All scenes end well on each version, for a user with just the printed rights.

    The server denies nothing, and no key stays.
    """
    any_server.execute("ACL", "SETUSER", "app", "reset", *RULES)
    any_server.execute("ACL", "LOG", "RESET")
    assert_as_it_should(played(any_server.url(0, "app", "secret")))
    assert any_server.execute("ACL", "LOG") == []
    assert any_server.execute("DBSIZE") == 0


def test_a_cluster_does_as_it_should() -> None:
    """The two clients also meet in a cluster, with sharded channels."""
    with ClusterServers(binary=binaries()[main_version()]) as servers:
        assert_as_it_should(played(servers.url()))


def test_under_sentinel_the_primary_does_as_it_should() -> None:
    """The two clients also meet at the primary that Sentinels name."""
    with SentinelServers() as servers:
        assert_as_it_should(played(servers.url()))


@pytest.mark.parametrize(
    ("lacking", "scenes", "says"),
    [
        (["+evalsha"], [ERROR], "evalsha"),
        (["+eval"], [ERROR], "eval"),
        (["~app:*"], [ERROR], "access (a key|one of the keys)"),
        (["+hset"], [ERROR], "does not permit this user"),
        (["+publish"], [OK, WARNING, OK, OK, OK], "so waiters poll"),
        (CHANNELS, [OK, WARNING, OK, OK, OK], "so waiters poll"),
        (["+subscribe"], [OK, WARNING, OK, OK, OK], "so waiters poll"),
        (CHANNELS[:1], [OK, WARNING, OK, OK, OK], "so waiters poll"),
        (["+hgetall"], [OK, OK, OK, ERROR], "does not permit this user"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) and value[0] in RULES else None,
)
def test_a_user_without_a_right(
    fresh_server: RedisServer, lacking: list[str], scenes: list[Severity], says: str
) -> None:
    """The scene that needs the right says what happened, and points to the line for an ACL.

    Behind an error nothing more is played, and what was held ends with its lease.
    """
    server = fresh_server
    server.execute("SCRIPT", "FLUSH")
    server.execute(
        *("ACL", "SETUSER", "app", "reset", *(rule for rule in RULES if rule not in lacking))
    )
    findings = played(server.url(0, "app", "secret"))
    assert [one.severity for one in findings[: len(scenes)]] == scenes
    assert scenes[-1] is not ERROR or len(findings) == len(scenes)
    bad = next(one for one in findings if one.severity is not OK)
    assert re.search(says, bad.found)
    assert "ACL line that interlock doctor prints" in bad.advice


@pytest.mark.parametrize(
    ("config", "scenes", "says"),
    [
        ({"rename-command EVAL": '""'}, [ERROR], "does not run scripts"),
        ({"rename-command PUBLISH": '""'}, [OK, WARNING, OK, OK, OK], "so waiters poll"),
        ({"maxmemory": "1"}, [ERROR], "out of memory"),
        ({"min-replicas-to-write": 1}, [ERROR], "too few replicas"),
    ],
    ids=str,
)
def test_a_server_that_does_something_else(
    config: dict[str, str | int], scenes: list[Severity], says: str
) -> None:
    """A server that lacks a command, or refuses writes, is told by the scene that it ends."""
    with RedisServer(config=config) as server:
        findings = played(server.url())
    assert [one.severity for one in findings] == scenes
    [bad] = [one for one in findings if one.severity is not OK]
    assert re.search(says, bad.found)


def two_holders(url: str) -> Callable[..., interlock.Client]:
    """Return what makes clients that do not meet, as behind a proxy that spreads them."""
    databases = iter(range(2))
    return lambda **options: interlock.connect(f"{url[:-1]}{next(databases)}", **options)


def test_two_servers_behind_one_address(redis_url: str) -> None:
    """If the clients meet different servers, both hold the lock: an error."""
    findings = try_out(two_holders(redis_url))
    assert [(one.check, one.severity) for one in findings] == [("refuse", ERROR)]
    assert findings[0].found == "two clients hold the same lock"
