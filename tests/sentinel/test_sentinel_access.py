"""Access to a service: redis-py's clients, and passwords, rights and TLS of every server.

Servers and Sentinels each have their own. The errors say what is wrong.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import queued
from tests.operations.on_call import find_a_deadlock, operate
from tests.sentinel.small import SERVICE, knows, sentinel_of
from tests.support.servers import RedisServer, main_binary

from interlock import ConfigError, ServerUnavailableError

if TYPE_CHECKING:
    from tests.objects.awaited import Stage
    from tests.support.servers import SentinelServers

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "topologies.md"


def rule(user: str) -> str:
    found = re.search(rf"^user {user} (.*)$", DOCUMENT.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


async def take(stage: Stage, client: Any, name: str = "locks:a") -> None:
    owner, other = stage.owner(), stage.owner()
    lock = client.lock(name)
    assert await owner.do(lock.acquire, timeout=15)
    waiting = asyncio.create_task(other.do(lock.acquire, timeout=15))
    await queued(client)
    await owner.do(lock.release)
    assert await waiting
    await other.do(lock.release)


async def refused(stage: Stage, url: str) -> ServerUnavailableError:
    lock, owner = stage.client(url).lock("name"), stage.owner()
    started = time.monotonic()
    with pytest.raises(ServerUnavailableError) as caught:
        await owner.do(lock.acquire)
    assert time.monotonic() - started < 6, "what will not pass by itself is told at once"
    return caught.value


async def test_from_redis(stage: Stage, bed: SentinelServers, library: Any) -> None:
    """`from_redis` takes service, Sentinels and database from a client of `master_for`.

    It refuses clients of replicas.
    """
    hosts = [("127.0.0.1", sentinel.port) for sentinel in bed.sentinels]
    sentinels = importlib.import_module(f"{library.__name__}.sentinel")
    manager = sentinels.Sentinel(hosts, socket_timeout=1)
    configured = manager.master_for(SERVICE, db=3)
    client = stage.face.module.Client.from_redis(configured)
    assert SERVICE in repr(client)
    await take(stage, client)
    with pytest.raises(ConfigError, match="master_for"):
        stage.face.module.Client.from_redis(manager.slave_for(SERVICE))
    for each in (client, configured, *manager.sentinels):
        closed = each.aclose() if hasattr(each, "aclose") else each.close()
        if inspect.isawaitable(closed):
            await closed


def test_the_program_of_the_how_to(bed: SentinelServers) -> None:
    """The program of docs/reference/topologies.md makes a client of the Sentinels' primary."""
    program = re.findall(
        r"```python\n# with_sentinel\.py\n(.*?)```", DOCUMENT.read_text(), re.DOTALL
    )
    shown = '("sentinel-1", 26379), ("sentinel-2", 26379)'
    assert shown in program[0]
    assert f'"{SERVICE}", password="secret"' in program[0]
    hosts = ", ".join(f'("127.0.0.1", {sentinel.port})' for sentinel in bed.sentinels)
    text = program[0].replace(shown, hosts).replace(', password="secret"', "")
    names: dict[str, Any] = {}
    exec(text, names)
    with names["client"] as client, client.lock("documented") as hold:
        assert hold.valid


async def test_users_of_servers_and_sentinels(stage: Stage) -> None:
    """The documented rights suffice, each with its own password; mistakes are told apart."""
    users = [f"app {rule('app')}", f"watch {rule('watch')}", "default off"]
    own = [f"client {rule('client')}", "default on >root ~* &* +@all"]
    login = "auth-user watch; auth-pass hush"
    with (
        RedisServer(users=users) as primary,
        sentinel_of(primary, login=login, users=own) as sentinel,
    ):
        knows(sentinel, "default", "root")

        def url(password: str = "secret", own: str = "quiet") -> str:
            query = f"sentinel_username=client&sentinel_password={own}"
            return f"redis+sentinel://app:{password}@127.0.0.1:{sentinel.port}/{SERVICE}?{query}"

        await take(stage, stage.client(url()))
        wrong = await refused(stage, url(password="wrong"))
        assert (wrong.code, "sentinel_password" in str(wrong)) == ("WRONGPASS", False)
        wrong = await refused(stage, url(own="wrong"))
        assert (wrong.code, "sentinel_password" in str(wrong)) == ("WRONGPASS", True)
        assert "wrong" not in str(wrong).replace("wrong ", "")
        none = await refused(stage, f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}")
        assert none.code == "NOAUTH"
        error = await refused(stage, url().replace(SERVICE, "yourmaster"))
        assert "yourmaster" in str(error)
        assert "path of the URL" in str(error)


async def test_a_service_whose_name_cannot_be_sent(stage: Stage) -> None:
    """What an environment holds need not be UTF-8; the error is one of ours all the same."""
    with socket.create_server(("127.0.0.1", 0)) as sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.getsockname()[1]}/my\udc80"
        assert "surrogates not allowed" in str(await refused(stage, url))


@pytest.mark.parametrize("query", ["", "?socket_timeout=0.3"])
async def test_a_sentinel_that_was_always_silent(stage: Stage, query: str) -> None:
    """It is told as the mistake that it is, though a command has less time than the Sentinels."""
    with socket.create_server(("127.0.0.1", 0)) as sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.getsockname()[1]}/mymaster{query}"
        error = await refused(stage, url)
    assert "no answer in time" in str(error)
    assert not error.transient


@pytest.mark.needs("tls")
async def test_tls_of_servers_and_sentinels(stage: Stage) -> None:
    """TLS to both in one setting, to the servers alone, and to the Sentinels alone."""
    binary = main_binary()
    with RedisServer(binary, tls=True) as primary, RedisServer(binary) as plain:
        certificates = primary.certificates
        assert certificates is not None
        files = {
            "ssl_ca_certs": certificates.ca,
            "ssl_certfile": certificates.client_cert,
            "ssl_keyfile": certificates.client_key,
        }
        query = "&".join(f"{name}={path}" for name, path in files.items())
        own = "&".join(f"sentinel_{name}={path}" for name, path in files.items())
        both = {"tls-replication": "yes"}
        with sentinel_of(primary, tls=certificates, config=both) as sentinel:
            knows(sentinel)
            address = f"127.0.0.1:{sentinel.port}/{SERVICE}"
            await take(stage, stage.client(f"rediss+sentinel://{address}?{query}"))
            error = await refused(
                stage, f"rediss+sentinel://{address}?{query}&sentinel_ssl_ca_certs={__file__}"
            )
            assert error.code == "TLS"
        with sentinel_of(plain, tls=certificates, config={"tls-replication": "no"}) as sentinel:
            knows(sentinel)
            address = f"127.0.0.1:{sentinel.port}/{SERVICE}"
            await take(stage, stage.client(f"redis+sentinel://{address}?sentinel_ssl=true&{own}"))


async def test_a_demoted_server_and_another_one(stage: Stage) -> None:
    """After READONLY the client asks the Sentinels again, and follows a redefined service."""
    with RedisServer() as first, RedisServer() as second, sentinel_of(first) as sentinel:
        knows(sentinel)
        client = stage.client(f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}")
        await take(stage, client)
        first.execute("REPLICAOF", "127.0.0.1", second.port)
        owner = stage.owner()
        acquiring = asyncio.create_task(owner.do(client.lock("name").acquire, timeout=20))
        await asyncio.sleep(0.5)  # it finds a replica meanwhile
        assert not acquiring.done()
        sentinel.execute("SENTINEL", "REMOVE", SERVICE)
        sentinel.execute("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", second.port, 1)
        assert await acquiring
        assert second.execute("EXISTS", "name")
        await owner.do(client.lock("name").release)


def test_operations(bed: SentinelServers, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands ask the primary: they find and break a hold, and find a deadlock."""
    operate(bed.url(), capsys)
    find_a_deadlock(bed.url())
