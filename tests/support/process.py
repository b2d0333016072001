"""A server process that cannot outlive the process that started it.

Beside every server runs a small shell, the *warden*, that reads from a pipe whose only writer is
this process. However this process ends, by SIGKILL too, the kernel closes the pipe. The warden
then reads the end of file, kills the server and removes its directory.

``PR_SET_PDEATHSIG`` was rejected: it fires when the *thread* that forked ends. A server that a
worker thread started would die with that thread. It exists on Linux only, too.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import weakref
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_WARDEN = 'read -r _line; kill -KILL "$0"; rm -rf -- "$1"'

# A password or an ACL rule may forbid PING, but then somebody has answered.
_ANSWERS = (b"+PONG", b"-NOAUTH", b"-NOPERM")

_lifelines: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()


def _drop_inherited_lifelines() -> None:
    # A forked child holds the writing ends too: it would keep the servers of a dead parent alive.
    for lifeline in tuple(_lifelines):
        lifeline.close()


os.register_at_fork(after_in_child=_drop_inherited_lifelines)


class ServerProcess:
    """One run of a server, from start to death."""

    def __init__(self, command: Sequence[str | Path], *, directory: Path, log: Path) -> None:
        """Start *command*.

        Args:
            command: The binary and its arguments.
            directory: What the warden removes when this process dies first.
            log: The file that standard output and error are appended to.
        """
        self._log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        # A process group of its own: Ctrl-C is for the tests, which then stop their servers.
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        try:
            self._warden = subprocess.Popen(
                ["/bin/sh", "-c", _WARDEN, str(self._server.pid), directory],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
        except BaseException:
            self._server.kill()
            self._server.wait()
            raise
        assert self._warden.stdin is not None
        self._lifeline = self._warden.stdin
        _lifelines.add(self._lifeline)

    @property
    def pid(self) -> int:
        return self._server.pid

    @property
    def alive(self) -> bool:
        """Whether the server still runs, be it stopped by a signal."""
        return self._server.poll() is None

    def answers(self, unix_path: Path, deadline: float) -> bool:
        """Wait until the server answers on *unix_path*; return False if it will not.

        The Unix socket is certainly ours; on a TCP port somebody else may be serving.

        Args:
            unix_path: Where the server was told to listen.
            deadline: On the monotonic clock.
        """
        while self.alive and time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(1)
                try:
                    probe.connect(str(unix_path))
                    probe.sendall(b"PING\r\n")
                    answer = probe.recv(64)
                except OSError:  # not listening yet
                    answer = b""
            if answer.startswith(_ANSWERS):
                return True
            time.sleep(0.005)  # between two questions
        return False

    def log_tail(self, lines: int = 15) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def pause(self) -> None:
        if not self.alive:
            raise ProcessLookupError(f"the server has ended:\n{self.log_tail()}")
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        self._server.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the server with SIGKILL, and its warden; harmless when repeated."""
        # In this order the server is killed whenever this process ends. No other process is killed:
        # a pid is not given out again before its process was waited for.
        self._server.kill()
        self._warden.kill()
        self._server.wait()
        self._warden.wait()
        self._lifeline.close()
