"""A server that does not let us in: each reason has its own clear error, at once."""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import until
from tests.support.address import free_port
from tests.support.certificates import Certificates
from tests.support.servers import RedisServer

from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.objects.awaited import Stage

AT_ONCE = 20.0
"""Seconds, for a machine that stalls.

The callers below are ready to wait three times as long. A mistake is not waited for.
"""


@contextmanager
def refused_at_once(code: str | None, match: str) -> Iterator[None]:
    """Expect ServerUnavailableError with *code* and a message that matches, at once.

    Nothing may have been sent, and no password is told.
    """
    started = time.monotonic()
    with pytest.raises(ServerUnavailableError, match=match) as caught:
        yield
    assert time.monotonic() - started < AT_ONCE
    assert caught.value.code == code
    assert not caught.value.transient
    assert not caught.value.sent
    told = "".join(traceback.format_exception(caught.value))
    assert not {"secret", "hush", "wonder"} & set(re.findall(r"\w+", told)), "a password is told"


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    users = ["alice on >wonder ~* &* +@all", "bob off >wonder ~* &* +@all"]
    with RedisServer(password="secret", users=users) as server:
        yield server


@pytest.mark.parametrize(
    ("login", "database", "code"),
    [
        ("", "", "NOAUTH"),
        ("", "/1", "NOAUTH"),
        (":hush@", "", "WRONGPASS"),
        ("nobody:secret@", "", "WRONGPASS"),
        ("alice:secret@", "", "WRONGPASS"),
        ("bob:wonder@", "", "WRONGPASS"),
    ],
)
async def test_a_bad_login_is_told_at_once(
    stage: Stage, guarded: RedisServer, login: str, database: str, code: str
) -> None:
    """A bad login is told at once, by a with statement too.

    There is no password or a wrong one, or the user is unknown or disabled.
    """
    url, owner = f"redis://{login}127.0.0.1:{guarded.port}{database}", stage.owner()
    lock = stage.client(url).lock("name", timeout=60)
    for call in (lambda: lock.acquire(timeout=60), lambda: stage.face.enter(lock), lock.locked):
        with refused_at_once(code, f"127.0.0.1:{guarded.port}"):
            await owner.do(call)
    assert guarded.execute("EXISTS", "name") == 0


async def test_a_server_that_cannot_be_used_is_told_at_once(stage: Stage, tmp_path: Path) -> None:
    """A mistake is no outage to be sat out.

    A user that a server without users does not know, a number above its last database, a port or
    socket where nothing listens, or a host without an address.
    """
    owner, port = stage.owner(), stage.redis.config_get("port")["port"]
    for url, code, match in (
        (f"redis://nobody:x@127.0.0.1:{port}", "WRONGPASS", "user name or password"),
        (f"redis://127.0.0.1:{port}/99", "DATABASE", "DB index is out of range"),
        (f"redis://127.0.0.1:{free_port()}", None, r"cannot connect to 127\.0\.0\.1:\d+: Connect"),
        (f"unix://{tmp_path}/no.sock", None, r"cannot connect to \S*no\.sock: No such"),
        ("redis://no-such-host.invalid", None, "cannot connect to no-such-host.invalid"),
        ("redis://a..b", None, r"cannot connect to a\.\.b:6379: "),
    ):
        with refused_at_once(code, match):
            await owner.do(stage.client(url).lock("name").acquire, timeout=60)


async def test_a_bad_certificate_is_told_at_once(
    stage: Stage, tls_server: RedisServer, tmp_path: Path
) -> None:
    """A server whose certificate another authority signed is not talked to.

    One that wants another certificate of the client says so after the handshake, and is understood.
    """
    ours, foreign, owner = tls_server.certificates, Certificates.create(tmp_path), stage.owner()
    assert ours is not None
    good, bad = (
        f"ssl_certfile={each.client_cert}&ssl_keyfile={each.client_key}" for each in (ours, foreign)
    )
    trust = f"ssl_ca_certs={ours.ca}"
    for query in (f"ssl_ca_certs={foreign.ca}&{good}", good, trust, f"{trust}&{bad}"):
        client = stage.client(f"rediss://127.0.0.1:{tls_server.port}?{query}")
        with refused_at_once("TLS", "no TLS connection to 127.0.0.1"):
            await owner.do(client.lock("name").acquire, timeout=60)


@pytest.mark.needs("tls")
async def test_a_wrong_host_name_is_told_at_once(
    stage: Stage, tls_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate for other hosts is refused, unless the URL says not to look at it."""
    good = tls_server.url().replace("127.0.0.1", "127.0.0.2")
    tls_server.execute("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2")
    owner = stage.owner()
    with refused_at_once("TLS", "no TLS connection to 127.0.0.2"):
        await owner.do(stage.client(good).lock("name").acquire, timeout=60)
    lax = stage.client(f"{good}&ssl_check_hostname=false").lock("name")
    assert await owner.do(lax.acquire, timeout=60)
    await owner.do(lax.release)


async def test_plain_and_tls_do_not_mix(stage: Stage, tls_server: RedisServer) -> None:
    """A plain URL for a TLS server, or the reverse, ends in an error in time that speaks of TLS."""
    owner = stage.owner()
    plain_port = stage.redis.config_get("port")["port"]
    for url, told in {
        f"redis://127.0.0.1:{tls_server.port}": "TLS.*rediss://|rediss://.*TLS",
        f"rediss://127.0.0.1:{plain_port}": "TLS",
    }.items():
        started = time.monotonic()
        with pytest.raises(ServerUnavailableError, match=told):
            await owner.do(stage.client(url, command_timeout=0.5).lock("name").acquire, timeout=0.5)
        assert time.monotonic() - started < AT_ONCE


async def test_too_many_clients_is_sat_out(stage: Stage, fresh_server: RedisServer) -> None:
    """A server that has no room for another client says so, and is asked again until it has."""
    owner, lock = stage.owner(), stage.client(fresh_server.url()).lock("name")
    with fresh_server.client() as first:
        first.ping()
        first.config_set("maxclients", 1)
        for _ in range(20):
            with pytest.raises(ServerUnavailableError, match="too many clients"):
                await owner.do(lock.acquire, timeout=0)

        def refused() -> int:
            return int(first.info("stats")["rejected_connections"])

        before = refused()
        waiting = asyncio.create_task(owner.do(lock.acquire, timeout=60))
        await until(lambda: refused() > before, 10, "it is refused")
        first.config_set("maxclients", 100)
        assert await waiting
        await owner.do(lock.release)
        await stage.end()


async def test_threads_and_tasks_share_few_connections(stage: Stage) -> None:
    """``max_connections`` bounds the connections of threads; tasks share one connection.

    A thread that finds none free gets an error in time.
    """
    url = f"{stage.url}?max_connections=2&client_name=counted"
    client = stage.client(url, command_timeout=1)
    owners = [stage.owner() for _ in range(12)]

    async def work(owner: object, number: int) -> None:
        lock = client.lock(f"name-{number}")
        for _ in range(20):
            assert await owner.do(lock.acquire)
            await owner.do(lock.release)

    await asyncio.gather(*(work(owner, number) for number, owner in enumerate(owners)))
    assert 1 <= sum(c["name"] == "counted" for c in stage.redis.client_list()) <= 2
    if not stage.face.is_async:
        [pool] = client._driver._pool._pools.values()
        busy = [pool._take(5), pool._take(5)]
        with pytest.raises(ServerUnavailableError, match=r"all 2 connections .* max_connections"):
            await owners[2].do(client.lock("other").acquire, timeout=0)
        for connection in busy:
            pool.take_back(connection)
        assert await owners[2].do(client.lock("other").acquire, timeout=0)
        await owners[2].do(client.lock("other").release)
