"""An address: read as redis-py reads it, dialled and logged in to, without redis-py."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.connection
from tests.cli.cli_process import ENVIRON
from tests.support.listening import listening
from tests.support.patience import GIVE_UP
from tests.support.program import run
from tests.support.servers import RedisServer

from interlock._links.dialled import Dialled
from interlock._links.endpoint import Endpoint
from interlock._links.options import read_url
from interlock._links.pipeline import Pipeline
from interlock._links.resp import ParserError, ReplyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

parse_url: Callable[[str], dict[str, Any]] = getattr(redis.connection, "parse_url")  # noqa: B009


@pytest.mark.parametrize(
    "url",
    [
        *("redis://localhost", "redis://localhost/", "redis://LocalHost:6380/15"),
        *("redis://localhost:0/0", "redis://:secret@db.example.com:65/1"),
        *("redis://me:p%40ss%2Fword@db_1.example.com", "redis://me@localhost:59999"),
        *("redis://me:@localhost", "redis://@localhost", "redis://a:b:c@localhost"),
        *("redis://[::1]:6379", "redis://loc alhost", "redis:///0"),
        "redis://localhost/1?db=2&socket_timeout=1&socket_connect_timeout=.5&max_connections=3",
        "redis://localhost?socket_keepalive=no&client_name=a+b%20c&username=&password=first",
        "rediss://localhost?ssl_check_hostname=True&ssl_min_version=771&ssl_ca_certs=/ca.pem",
        "rediss://localhost?ssl_include_verify_flags=[VERIFY_X509_STRICT, VERIFY_CRL_CHECK_LEAF]",
        *("unix:///run/redis.sock", "unix:///run/%20.sock?db=3"),
        "unix://me:secret@/run/redis.sock?client_name=me",
    ],
)
def test_a_url_means_what_redis_py_says(url: str) -> None:
    """What is read of a URL is what redis-py reads."""
    expected = parse_url(url)
    if expected.pop("connection_class", None) is redis.SSLConnection:
        expected["ssl"] = True
    assert read_url(url) == expected


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as started, started.client() as client:
        client.execute_command("ACL", "SETUSER", "me", "on", ">secret", "~*", "&*", "+@all")
        yield started


def opened(url: str, **changes: object) -> Dialled:
    connection = Dialled()
    try:
        connection.connect(read_url(url) | changes, 5)
    except BaseException:
        connection.disconnect()
        raise
    return connection


def tcp(server: RedisServer, credentials: str = "", db: int = 0) -> str:
    return f"redis://{credentials}127.0.0.1:{server.port}/{db}"


def test_it_logs_in_and_chooses_its_database(server: RedisServer) -> None:
    """User, password and database of the URL are those of the connection."""
    for url in (tcp(server, "me:secret@", 3), f"unix://me:secret@{server.unix_path}?db=3"):
        connection = opened(url)
        told = connection.ask("CLIENT", "INFO")
        assert isinstance(told, bytes)
        assert b" db=3 " in told
        assert b" user=me " in told
        connection.disconnect()
        connection.disconnect()
        with pytest.raises(ConnectionError):
            _ = connection.ask("PING")


@pytest.mark.parametrize(
    ("answer", "error"),
    [(b"", ConnectionError), (b"HTTP/1.1 400\r\n\r\n", ParserError), (b"-ERR no\r\n", ReplyError)],
)
def test_what_is_no_server_is_an_error(answer: bytes, error: type[Exception]) -> None:
    """A peer that hangs up, or answers with something else, ends the login."""

    def serve(peer: socket.socket) -> None:
        _ = peer.recv(100)
        peer.sendall(answer)

    with listening(serve) as port, pytest.raises(error):
        opened(f"redis://:secret@127.0.0.1:{port}")


async def test_a_task_that_was_cancelled_leaves_no_connection() -> None:
    """A thread goes on with what a task began; what nobody waits for any more is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint.from_url(f"redis://:secret@127.0.0.1:{listener.getsockname()[1]}")
        connecting = asyncio.create_task(Pipeline.open(endpoint, GIVE_UP))
        peer, _ = await asyncio.to_thread(listener.accept)
        with peer:
            assert await asyncio.to_thread(peer.recv, 100)
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            peer.sendall(b"+OK\r\n")
            peer.settimeout(GIVE_UP)
            assert await asyncio.to_thread(peer.recv, 100) == b""


def test_a_forked_child_leaves_the_connection_open(server: RedisServer) -> None:
    """A child that closes an inherited connection does not end its parent's."""
    connection = opened(tcp(server))
    connection._pid += 1
    inherited = connection.sock
    assert inherited is not None
    kept = inherited.dup()
    connection.disconnect()
    kept.sendall(b"*1\r\n$4\r\nPING\r\n")
    assert kept.recv(100) == b"+PONG\r\n"
    kept.close()


LOADED = """
import sys
{program}
print(*sorted({{"asyncio", "redis", "ssl"}} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    "program",
    [
        "import interlock",
        "import interlock\nwith interlock.connect(sys.argv[1]) as c, c.lock('name'): pass",
        "from interlock.cli import main\nmain(['run', '--url', sys.argv[1], 'name', '--', 'true'])",
        "from interlock.cli import main\nassert main(['list', '--url', sys.argv[1]]) == 0",
    ],
    ids=["import", "lock", "run", "list"],
)
def test_a_plain_address_loads_neither_redis_py_nor_asyncio(redis_url: str, program: str) -> None:
    """Short programs start fast: what takes long to load is not loaded."""
    done = run(sys.executable, "-c", LOADED.format(program=program), redis_url, env=ENVIRON)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [""]), done.stderr
