"""The servers of a run: Redis, and PostgreSQL if somebody needs it; both end with the run."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.patience import wait_until
from tests.support.process import ServerProcess
from tests.support.server import RedisServer

from benchmarks.process import processor_time

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Self

_START = 60.0
"""Seconds in which PostgreSQL is to start."""
_USERS = ("postgres", "nobody")
"""Users for PostgreSQL, which refuses to run as root."""
_SCRIPTS = ("evalsha", "eval", "fcall")
_MESSAGES = ("publish", "spublish")


class Servers:
    """The servers as a context manager; PostgreSQL starts when its URL is first asked for."""

    def __init__(self, binary: Path | None = None) -> None:
        """Describe the servers; *binary* is the redis-server or valkey-server to run."""
        self.redis = RedisServer(binary)
        self._stack = contextlib.ExitStack()
        self._postgresql: tuple[str, int] | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(self.redis)
        self._client = self._stack.enter_context(self.redis.client())
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def url(self, peer: str) -> str:
        """Return where *peer* finds its server."""
        if peer != "postgresql":
            return self.redis.url()
        if self._postgresql is None:
            self._postgresql = self._stack.enter_context(_postgresql())
        return self._postgresql[0]

    def processor_time(self, peer: str) -> float:
        """Return the seconds of processor time that the server of *peer* has used."""
        if peer != "postgresql" or self._postgresql is None:
            return processor_time(self.redis.pid)
        pid = self._postgresql[1]
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(map(processor_time, (pid, *map(int, children))))

    def sent(self) -> tuple[int, int]:
        """Return how many scripts Redis has run, and how many messages were published."""
        calls = self._client.info("commandstats")

        def total(names: tuple[str, ...]) -> int:
            found = (calls.get(f"cmdstat_{name}") for name in names)
            return sum(int(each["calls"]) for each in found if each)

        return total(_SCRIPTS), total(_MESSAGES)

    def version(self) -> str:
        """Return the name and the version of the Redis server."""
        info = self._client.info("server")
        name = "valkey" if "valkey_version" in info else "redis"
        return f"{name} {info[f'{name}_version']}"


@contextlib.contextmanager
def _postgresql() -> Generator[tuple[str, int]]:
    """Yield the address and the process of a server with PostgreSQL's own settings."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
    binaries = found[-1].parent
    # Its socket's path has to be short.
    home = Path(tempfile.mkdtemp(prefix="interlock-"))
    try:
        as_user = _as_owner(home)
        _initialise([*as_user, str(binaries / "initdb")], home)
        # Without workers that come and go, the sum of all processor times never sinks.
        settings = ("max_connections=300", "autovacuum=off", "listen_addresses=")
        words = [f"--{each}" for each in (*settings, f"unix_socket_directories={home}")]
        command: list[str | Path] = [*as_user, binaries / "postgres", "-D", home / "data", *words]
        server = ServerProcess(command, directory=home, log=home / "log")
        try:
            state = home / "data" / "postmaster.pid"  # there before it lets anybody in
            ready = f"PostgreSQL answers: {home / 'log'}"
            wait_until(lambda: state.exists() and "ready" in state.read_text(), _START, ready)
            yield f"host={home} user=app dbname=postgres", server.pid
        finally:
            server.kill()
    finally:
        shutil.rmtree(home)


def _as_owner(home: Path) -> list[str]:
    """Give *home* to a user that PostgreSQL accepts; return what runs a command as that user."""
    if os.geteuid() != 0:
        return []
    user = next(entry for entry in pwd.getpwall() if entry.pw_name in _USERS)
    os.chown(home, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _initialise(initdb: list[str], home: Path) -> None:
    options = ["--username=app", "--auth=trust", "--encoding=UTF8", "--locale=C"]
    command = [*initdb, *options, str(home / "data")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if ran.returncode:
        raise ChildProcessError(f"initdb failed: {(ran.stdout + ran.stderr)[-500:]}")
