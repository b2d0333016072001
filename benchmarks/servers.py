"""The servers of rival schemes: PostgreSQL, MariaDB, ZooKeeper and etcd as Debian packages them.

Each belongs to one run: its data is in a temporary directory, it listens on this machine alone, and
it ends with the run. Durability is as the package has it. A row that was reported as inserted is on
the disk. Users of a table as a lock pay for that.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.address import free_port
from tests.support.process import ServerProcess
from tests.support.servers import wait_until

from benchmarks.delay import far_away

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import Self

_START = 60.0  # seconds
_USERS = ("postgres", "nobody")  # users for servers that refuse to run as root
_ZOOKEEPER = Path("/usr/share/java/zookeeper.jar")
_ZOO_CFG = """
tickTime=500
maxSessionTimeout=60000
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
"""


class Others:
    """The servers beside Redis, each started when it is first asked for; a context manager."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._urls: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def url(self, name: str) -> str:
        """Return where the server *name* is.

        Raises:
            FileNotFoundError: It is not installed.
        """
        if name not in self._urls:
            self._urls[name] = self._stack.enter_context(_SERVERS[name]())
        return self._urls[name]

    def far_away(self, url: str, round_trip: float) -> str:
        """Return where the server at *url* seems to be so many seconds away: Redis, PostgreSQL."""
        name = f"{url} {round_trip}"
        if name not in self._urls:
            home = re.search(r"host=(/\S+)", url)
            port = re.search(r":(\d+)(?=/|$)", url)
            if home is not None:
                target, part = f"{home[1]}/.s.PGSQL.5432", home[0]
            elif port is not None:
                target, part = port[1], port[0]
            else:
                raise LookupError(f"no proxy for {url}")
            proxy = self._stack.enter_context(far_away(target, round_trip))
            near = f"host=127.0.0.1 port={proxy}" if home is not None else f":{proxy}"
            self._urls[name] = url.replace(part, near)
        return self._urls[name]


@contextlib.contextmanager
def _postgresql() -> Generator[str]:
    binaries = _newest(Path("/usr/lib/postgresql").glob("*/bin/postgres"), "postgresql").parent
    with _home() as (home, as_user):
        options = ["--username=app", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        _run([*as_user, binaries / "initdb", *options, home / "data"])
        settings = ("listen_addresses=", f"unix_socket_directories={home}", "max_connections=300")
        words = [f"--{setting}" for setting in settings]
        command: list[str | Path] = [*as_user, binaries / "postgres", "-D", home / "data", *words]
        state = home / "data" / "postmaster.pid"  # its socket is there before it lets anybody in
        with _running(command, home, lambda: state.exists() and "ready" in state.read_text()):
            yield f"host={home} user=app dbname=postgres"


@contextlib.contextmanager
def _mariadb() -> Generator[str]:
    daemon = _newest([Path("/usr/sbin/mariadbd")], "mariadb-server")
    with _home() as (home, as_user):
        options = [f"--datadir={home}/data", "--auth-root-authentication-method=normal"]
        user = f"--user={pwd.getpwuid(home.stat().st_uid).pw_name}"
        _run([*as_user, "mariadb-install-db", "--no-defaults", user, *options])
        path = home / "server.sock"
        words = [f"--datadir={home}/data", f"--socket={path}", "--skip-networking"]
        limit = "--max-connections=300"
        command: list[str | Path] = [*as_user, daemon, "--no-defaults", *words, limit]
        with _running(command, home, path.exists):
            yield str(path)


@contextlib.contextmanager
def _zookeeper() -> Generator[str]:
    jar, port = _newest([_ZOOKEEPER], "zookeeper"), free_port()
    with _home() as (home, _):
        configuration = home / "zoo.cfg"
        configuration.write_text(_ZOO_CFG.format(data=home / "data", port=port))
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command: list[str | Path] = ["java", "-cp", f"{home}:{jar}", main, configuration]
        with _running(command, home, lambda: _listens(port)):
            yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def _etcd() -> Generator[str]:
    binary, port, peers = _newest([Path("/usr/bin/etcd")], "etcd-server"), free_port(), free_port()
    with _home() as (home, as_user):
        url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
        words = ["--data-dir", f"{home}/data", "--initial-cluster", f"default={peer_url}"]
        words += ["--listen-client-urls", url, "--advertise-client-urls", url]
        words += ["--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url]
        with _running([*as_user, binary, *words], home, lambda: _listens(port)):
            yield f"127.0.0.1:{port}"


_SERVERS = {
    "etcd": _etcd,
    "mariadb": _mariadb,
    "postgresql": _postgresql,
    "zookeeper": _zookeeper,
}


def _newest(paths: Generator[Path] | list[Path], package: str) -> Path:
    found = sorted(path for path in paths if path.exists())
    if not found:
        raise FileNotFoundError(f"{package} is not installed: apt-get install {package}")
    return found[-1]


@contextlib.contextmanager
def _home() -> Generator[tuple[Path, list[str]]]:
    """Make a directory; yield it, and the words that run a command as its owner.

    The path is short, because those of sockets have to be.
    """
    home = Path(tempfile.mkdtemp(prefix="interlock-"))
    as_user: list[str] = []
    try:
        if os.geteuid() == 0:
            user = next(entry for entry in pwd.getpwall() if entry.pw_name in _USERS)
            os.chown(home, user.pw_uid, user.pw_gid)
            ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            as_user = ["setpriv", *ids]
        yield home, as_user
    finally:
        shutil.rmtree(home)


def _run(command: Sequence[str | Path]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if ran.returncode:
        raise ChildProcessError(f"{command} failed: {(ran.stdout + ran.stderr)[-500:]}")


@contextlib.contextmanager
def _running(
    command: Sequence[str | Path], home: Path, answers: Callable[[], bool]
) -> Generator[None]:
    process = ServerProcess(command, directory=home, log=home / "log")
    try:
        try:
            wait_until(answers, _START, f"{command[0]} answers")
        except TimeoutError as late:
            late.add_note(process.log_tail())
            raise
        yield
    finally:
        process.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
