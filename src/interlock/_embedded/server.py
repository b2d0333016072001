"""Join the embedded server of this user, starting it where nobody has.

The rules that make it race-free are told in `supervisor`.
"""

from __future__ import annotations

import fcntl
import math
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from interlock._embedded import supervisor
from interlock._embedded.binary import find_binary
from interlock._embedded.place import place_of
from interlock.errors import ConfigError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager

_PATIENCE = 10.0  # seconds for a join, a start or a stop
_PAUSE = 0.01
_LINGER = 5.0
_PATH_LIMIT = 100  # bytes; sun_path ends at 104 on macOS, at 108 on Linux


def ensure(name: str = "default", *, linger: float | None = None) -> str:
    """Return the URL of this user's embedded server *name*, which runs and answers.

    The server does not end before *linger* seconds have passed since this call and since its last
    client. Its state ends with it. Call again before every reconnect: the server may have ended, or
    been killed, meanwhile.

    Args:
        name: one of several servers of the same user.
        linger: seconds; ``INTERLOCK_EMBEDDED_LINGER`` or 5 by default. The process that starts the
            server decides.

    Returns:
        A ``unix://`` URL.

    Raises:
        ConfigError: no server program, no safe directory, a path too long for a socket, or a bad
            argument.
        ServerUnavailableError: no answering server within 10 seconds.

    Cost:
        Two round trips on a Unix socket to join. A start takes some tens of milliseconds, once per
        machine and user.
    """
    with EmbeddedServer(place_of(name)).joined(linger=linger) as url:
        return url


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """The server that lives in *directory*, whether it runs or not.

    Attributes:
        directory: private to this user.
    """

    directory: Path

    @property
    def socket(self) -> Path:
        """Name the socket it listens on."""
        return self.directory / supervisor.SOCKET

    @property
    def log(self) -> Path:
        """Name the file with what the server and its supervisor had to say since the last start."""
        return self.directory / supervisor.LOG

    @property
    def url(self) -> str:
        """Return the URL to connect to."""
        return f"unix://{quote(str(self.socket))}"

    def running(self) -> bool:
        """Tell whether a server or its supervisor is alive here, answering or not."""
        with supervisor.locked(str(self.directory), fcntl.LOCK_EX) as free:
            return not free

    def answers(self) -> bool:
        """Tell whether the server replies; one that is busy with somebody's script does."""
        try:
            return supervisor.ask(str(self.socket), "PING")[0].startswith(("+PONG", "-BUSY"))
        except OSError:
            return False

    @contextmanager
    def joined(self, *, linger: float | None = None) -> Generator[str, None, None]:
        """Give the URL of the running, answering server, and keep it from ending by itself.

        The server is started if it does not run.

        Args:
            linger: seconds, as for the function `ensure`.

        Raises:
            ConfigError: no server program, a path too long for a socket, or a bad *linger*.
            ServerUnavailableError: no answering server within 10 seconds.
        """
        seconds = _linger(linger)
        if len(os.fsencode(self.socket)) >= _PATH_LIMIT:
            raise ConfigError(
                f"{self.socket} is too long for a socket ({_PATH_LIMIT} bytes): "
                "set XDG_RUNTIME_DIR to a shorter directory"
            )
        deadline = time.monotonic() + _PATIENCE
        while True:
            with self._door(fcntl.LOCK_SH) as joined:
                if joined and self.answers():
                    yield self.url
                    return
            with self._door(fcntl.LOCK_EX) as alone:
                # Asked again: between the two doors another process may have started one.
                started = alone and not self.answers() and not self.running()
                if started:
                    self._start(seconds, deadline)
            if time.monotonic() >= deadline:
                raise self._unavailable("did not answer")
            if not started:
                time.sleep(_PAUSE)

    def stop(self) -> bool:
        """End the server now, even if clients are connected.

        Returns:
            Whether there was one.

        Raises:
            ServerUnavailableError: it did not end within 10 seconds.
        """
        deadline = time.monotonic() + _PATIENCE
        found = False
        while True:
            with self._door(fcntl.LOCK_EX) as alone:  # a start that is under way comes first
                while alone and self.running():
                    found = True
                    with suppress(OSError):  # it ends instead of replying, or has ended already
                        supervisor.ask(str(self.socket), "SHUTDOWN NOSAVE")
                    if time.monotonic() >= deadline:
                        raise self._unavailable("did not end")
                    time.sleep(_PAUSE)
            if alone:
                return found
            if time.monotonic() >= deadline:
                raise self._unavailable("is being joined without end")
            time.sleep(_PAUSE)

    def _door(self, kind: int) -> AbstractContextManager[bool]:
        return supervisor.locked(str(self.directory / supervisor.DOOR), kind)

    def _start(self, linger: float, deadline: float) -> None:
        """Leave a supervised server behind, unless another one just took the place."""
        binary = find_binary()
        if getattr(sys, "frozen", False) or not Path(supervisor.__file__).is_file():
            raise ConfigError(
                "the embedded server cannot be started from a zip archive or a frozen program: "
                "name a server by a URL or by INTERLOCK_URL"
            )
        patience = max(deadline - time.monotonic(), _PAUSE)
        # By path and not by module: see the head of supervisor.py.
        command = [sys.executable, "-I", "-S", supervisor.__file__, str(self.directory), binary]
        try:
            with self.log.open("ab") as log:
                status = subprocess.run(  # noqa: S603 - our own interpreter and file
                    [*command, str(linger), str(patience)],
                    check=False,
                    stdin=subprocess.DEVNULL,
                    # Nothing of the caller's: its pipes must end with it, not with the server.
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # a Ctrl-C is the caller's
                    timeout=patience,
                ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._unavailable(f"could not be started ({error})") from error
        if status not in (0, supervisor.TAKEN):
            raise self._unavailable(f"could not be started with {binary}")

    def _unavailable(self, what: str) -> ServerUnavailableError:
        tail = ""
        with suppress(FileNotFoundError):  # never started: nothing was said
            tail = self.log.read_text(errors="replace")[-2000:].strip()
        return ServerUnavailableError(
            f"the embedded server in {self.directory} {what}; "
            f"its log ends with:\n{tail or '(nothing)'}"
        )


def _linger(wanted: float | None) -> float:
    source = os.environ.get("INTERLOCK_EMBEDDED_LINGER", _LINGER) if wanted is None else wanted
    try:
        seconds = float(source)
    except ValueError:
        seconds = math.nan
    if 0 < seconds < math.inf:
        return seconds
    raise ConfigError(f"an embedded server lingers for a number of seconds above 0, not {source!r}")
