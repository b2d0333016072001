"""A PostgreSQL server of the tests' own, on a Unix socket, that cannot outlive them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import psycopg
from tests.support.process import ServerProcess
from tests.support.servers import wait_until

START_TIMEOUT = 60.0
USERS = ("postgres", "nobody")
"""Whom root lets it run as: it refuses to run as root."""


class PostgresServer:
    """A PostgreSQL server, empty and without durability; a context manager.

    Attributes:
        dsn: how to connect to it.
    """

    def __init__(self) -> None:
        self._bin = _binaries()
        self._as_user: list[str] = []
        self.dsn = ""

    def __enter__(self) -> Self:
        # pytest's own temporary directories have paths too long for a socket.
        self._home = Path(tempfile.mkdtemp(prefix="interlock-pg-"))
        if os.geteuid() == 0:
            user = _unprivileged_user()
            os.chown(self._home, user.pw_uid, user.pw_gid)
            ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            self._as_user = ["setpriv", *ids]
        self.dsn = f"host={self._home} user=app dbname=postgres"
        try:
            self._start()
        except BaseException:
            shutil.rmtree(self._home)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._process.pid, signal.SIGINT)  # "fast": it hangs up on everybody and ends
        try:
            wait_until(lambda: not self._process.alive, 30, "PostgreSQL ended")
        finally:
            self._process.kill()
            shutil.rmtree(self._home)

    def _start(self) -> None:
        data, log = self._home / "data", self._home / "log"
        options = ["--username=app", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [*self._as_user, self._bin / "initdb", *options, data],
            cwd=self._home,
            check=True,
            capture_output=True,
        )
        settings = {"listen_addresses": "", "unix_socket_directories": self._home, "fsync": "off"}
        chosen = [f"--{name}={value}" for name, value in settings.items()]
        self._process = ServerProcess(
            [*self._as_user, self._bin / "postgres", "-D", data, *chosen],
            directory=self._home,
            log=log,
        )
        try:
            wait_until(self._answers, START_TIMEOUT, "PostgreSQL answers")
        except BaseException as error:
            error.add_note(self._process.log_tail())
            self._process.kill()
            raise

    def _answers(self) -> bool:
        if not self._process.alive:
            raise ChildProcessError("PostgreSQL has ended")
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:  # not listening yet
            return False
        return True


def _binaries() -> Path:
    """Return the directory of the newest version in Debian's place, or of the one on the PATH."""
    debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    found = sorted(debian, key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
    return Path(on_path).parent


def _unprivileged_user() -> pwd.struct_passwd:
    for name in USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise LookupError(f"none of these users exists: {', '.join(USERS)}")
