"""`Client.from_redis` uses the server and credentials of a client of redis-py or valkey-py."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.support.servers import RedisServer

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.objects.awaited import Stage

PASSWORD = "p@ss/w:rd"


@pytest.fixture
def make(library: Any) -> Callable[..., Any]:
    """Give the class of each library in turn."""
    return library.Redis


async def _closed(client: Any) -> None:
    closed = client.aclose() if hasattr(client, "aclose") else client.close()
    if inspect.isawaitable(closed):
        await closed


async def _take(stage: Stage, configured: Any, seen: redis.Redis) -> Any:
    client = stage.face.module.Client.from_redis(configured, lease=70)
    lock, owner = client.lock("name"), stage.owner()
    assert await owner.do(lock.acquire, timeout=5)
    assert 60_000 < seen.pttl("name") <= 70_000
    await owner.do(lock.release)
    await stage.close(client)
    await _closed(configured)
    return client


async def test_tcp_with_a_database(
    stage: Stage, server: RedisServer, make: Callable[..., Any]
) -> None:
    """Host, port and database are taken over; what redis-py would do on its own account is not."""
    configured = make(
        host="127.0.0.1",
        port=server.port,
        db=4,
        decode_responses=True,
        socket_timeout=0.001,
        health_check_interval=1,
        protocol=3,
        max_connections=3,
    )
    with server.client(db=4) as seen:
        client = await _take(stage, configured, seen)
    assert f"127.0.0.1:{server.port}" in repr(client)


async def test_credentials(stage: Stage, make: Callable[..., Any]) -> None:
    """User and password are taken over, or asked from the credential provider."""
    with RedisServer(users=[f"alice on >{PASSWORD} ~* &* +@all", "default off"]) as guarded:
        provider = redis.UsernamePasswordCredentialProvider("alice", PASSWORD)
        for login in (
            {"username": "alice", "password": PASSWORD},
            {"credential_provider": provider},
        ):
            configured = make(host="127.0.0.1", port=guarded.port, **login)
            with guarded.client(0, "alice", PASSWORD) as seen:
                client = await _take(stage, configured, seen)
            assert PASSWORD not in repr(client)


async def test_unix_socket_and_url(
    stage: Stage, server: RedisServer, make: Callable[..., Any]
) -> None:
    """The path of a Unix socket is taken over; a client that was made from a URL serves as well."""
    await _take(stage, make(unix_socket_path=str(server.unix_path)), stage.redis)
    with server.client(db=5) as seen:
        await _take(stage, make.from_url(server.url(db=5)), seen)


async def test_tls(stage: Stage, tls_server: RedisServer, make: Callable[..., Any]) -> None:
    """The TLS settings are taken over."""
    certificates = tls_server.certificates
    assert certificates is not None
    configured = make(
        host="127.0.0.1",
        port=tls_server.port,
        ssl=True,
        ssl_ca_certs=str(certificates.ca),
        ssl_certfile=str(certificates.client_cert),
        ssl_keyfile=str(certificates.client_key),
    )
    with tls_server.client() as seen:
        await _take(stage, configured, seen)


def test_a_class_of_tls_connections_with_another_name_speaks_tls() -> None:
    """A class that is derived from redis-py's for TLS never leads to a connection without it."""

    class Encrypted(redis.SSLConnection):
        pass

    pool = redis.ConnectionPool(connection_class=Encrypted, host="127.0.0.1", password="secret")
    client = interlock.Client.from_redis(redis.Redis(connection_pool=pool))
    assert client._servers.tls
