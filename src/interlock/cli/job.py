"""A job that runs while a hold lasts: start it, pass signals on, stop it if it must, report its end.

Everything happens in one loop of the main thread, which `Signals.wait` wakes: for a signal, the end
of the job and the loss of the lock. Signals go to the job alone, not to its process group, which is
our caller's, as with flock(1).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from interlock._core.insight.events import tell_loss
from interlock.cli.status import Status, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from interlock import Hold
    from interlock.credentials import FileCredentials

POSIX = hasattr(signal, "SIGHUP")
"""Whether there are the signals that `interlock run` is about; Windows has others."""
FORWARDED = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP, signal.SIGQUIT) if POSIX else ()))
"""What is passed on to the job."""
LAUNCH = Path(__file__).with_name("launch.py")
Mode: TypeAlias = Literal["plain", "shared", "exclusive", "fair"]
"""Which lock of the name is held."""
OnLost: TypeAlias = Literal["term", "kill", "warn"]
"""The job's fate when its lock is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `interlock run` was asked for; durations in seconds, None where there is no bound.

    With a *limit*, one of so many permits is held in place of a lock.
    """

    name: str
    command: tuple[str, ...] = ()
    shell_text: str | None = None
    urls: tuple[str, ...] = ()
    prefix: str | None = None
    wait: float | None = None
    mode: Mode = "plain"
    limit: int | None = None
    conflict_exit_code: int = 1
    lease: float | timedelta | None = None
    min_hold: float = 0.0
    max_hold: float | None = None
    on_lost: OnLost = "term"
    kill_after: float = 5.0
    verbose: bool = False
    credentials: FileCredentials | None = None


class Interrupted(KeyboardInterrupt):
    """The signal *signum* came before the job was started."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Signals:
    """The process' signals, from entering this context to leaving it. For the main thread only.

    Until `queue_signals` the first signal raises `Interrupted`. The library then takes back what it
    asked the server for, and a second signal must not cut that short. Afterwards `wait` returns the
    signals, for the job. One that our caller ignores (nohup) stays ignored, here and in the job.

    All news is a byte in one socket pair. CPython writes a signal's number there from its C
    handler, whichever thread the kernel chose. A Python handler or a queue would be late by a whole
    time-out whenever that was not the main thread.
    """

    def __init__(self) -> None:
        self._raising = True
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._fd_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for signum in FORWARDED:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._arrived)
        # Without a handler, the end of a child would write nothing.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._arrived)
        # If our caller blocks them, the end of the job would never be noticed.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD, *FORWARDED))
        return self

    def __exit__(self, *error: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._fd_before)
        self._reader.close()
        self._writer.close()

    def _arrived(self, signum: int, _frame: object) -> None:
        if self._raising and signum in FORWARDED:
            self._raising = False
            raise Interrupted(signum)

    def queue_signals(self) -> None:
        """Raise no more: from now on `wait` returns the signals."""
        self._raising = False

    def wake(self) -> None:
        """End the present or the next `wait`; from any thread."""
        with contextlib.suppress(BlockingIOError):  # a full buffer wakes as well
            self._writer.send(b"\0")

    def wait(self, timeout: float | None) -> list[int]:
        """Wait until something happens, *timeout* seconds at most; return the signals among it.

        After a day it ends in any case: more milliseconds may overflow the int that poll(2) takes.
        """
        self._reader.settimeout(None if timeout is None else min(timeout, 86400.0))
        try:
            arrived = self._reader.recv(4096)
        except (TimeoutError, BlockingIOError):
            return []
        return [signum for signum in arrived if signum in FORWARDED]


def pressed_key(signum: int) -> bool:
    """Return whether *signum* comes from a key press, which the job has received already.

    The job is in our process group. While that is the terminal's foreground group, Ctrl-C reaches
    both. A job that takes a second one for impatience must not get it from us.
    """
    if signum not in (signal.SIGINT, signal.SIGQUIT):
        return False
    try:
        with open("/dev/tty", "rb") as terminal:  # noqa: PTH123 - a device
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False  # no terminal, no keys


def start(
    command: Sequence[str], environ: Mapping[str, str], on_lost: OnLost
) -> subprocess.Popen[bytes]:
    """Start *command* in our process group, with our files.

    If interlock itself dies, which sooner or later loses the lock, the kernel does to the job what
    *on_lost* says. An unknown program ends with 127, as in a shell.
    """
    death = {"term": signal.SIGTERM, "kill": signal.SIGKILL, "warn": 0}[on_lost]
    launch = [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), str(int(death))]
    return subprocess.Popen(  # noqa: S603 - running the user's command is what we are for
        [*launch, *command],
        env=environ,
        close_fds=False,  # what our caller left open is for the job (3<file, socket activation)
    )


@dataclass
class Supervision:
    """One job under one hold, which *began* on the monotonic clock, until it may be released.

    If the lock is lost while the job runs, the loss is noticed, and the user is told.
    """

    job: subprocess.Popen[bytes]
    hold: Hold
    options: RunOptions
    signals: Signals
    began: float
    loss_noticed: bool = False
    _stopped_for: Status | None = None
    _stop_at: float | None = None
    _kill_at: float | None = None

    def run(self) -> int:
        """Return the exit status when the job has ended and --min-hold has passed."""
        if self.options.max_hold is not None:
            self._stop_at = self.began + self.options.max_hold
        try:
            self.hold.on_lost(self.signals.wake)
            while self.job.poll() is None:
                self._stop_if_due(time.monotonic())
                for signum in self.signals.wait(self._until_due(time.monotonic())):
                    if not pressed_key(signum):
                        self._send(signum)
            self._sit_out_min_hold()
        finally:
            # A fault of ours ends in giving the lock up, and no job runs on without it.
            if self.job.poll() is None:
                self._send(signal.SIGKILL)
                self.job.wait()
        if self._stopped_for is not None:
            return self._stopped_for
        code: int = self.job.returncode
        return code if code >= 0 else 128 - code

    def _stop_if_due(self, now: float) -> None:
        if self.hold.lost.is_set() and not self.loss_noticed:
            self.loss_noticed = True
            self._handle_loss(now)
        if self._stop_at is not None and now >= self._stop_at:
            self._stop_at = None
            if self._stopped_for is None:
                self._stop(Status.MAX_HOLD, now)
                say(f"the command ran for {self.options.max_hold:g} s (--max-hold): stopping it")
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            if self._send(signal.SIGKILL):
                say(f"the command did not stop within {self.options.kill_after:g} s: killing it")

    def _handle_loss(self, now: float) -> None:
        lost = f"lock {self.options.name!r} was lost while the command runs"
        if (reason := self.hold.lost.reason) is not None:
            lost = f"{lost} ({tell_loss(reason, self.hold.lost.detail)})"
        if self.options.on_lost == "warn":
            say(f"{lost}: from now on it may not be alone (--on-lost warn)")
        elif self.options.on_lost == "kill":
            self._stopped_for, self._kill_at = Status.LOST, None
            self._send(signal.SIGKILL)
            say(f"{lost}: killing it")
        else:
            self._stop(Status.LOST, now)
            say(f"{lost}: stopping it")

    def _stop(self, why: Status, now: float) -> None:
        self._stopped_for = why
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)  # a suspended job could not stop
        if self._kill_at is None:
            self._kill_at = now + self.options.kill_after

    def _send(self, signum: int) -> bool:
        """Send the job a signal; return whether that was allowed.

        A job of another user (sudo) may refuse it. Then only its end lets the lock go.
        """
        try:
            self.job.send_signal(signum)
        except PermissionError:
            say(f"this user may not send signal {signum} to the command: waiting for its end")
            return False
        return True

    def _until_due(self, now: float) -> float | None:
        due = [at for at in (self._stop_at, self._kill_at) if at is not None]
        return max(0.0, min(due) - now) if due else None

    def _sit_out_min_hold(self) -> None:
        """Keep the lock until --min-hold has passed, it is lost, or a signal says not to."""
        while not self.hold.lost.is_set():
            left = self.began + self.options.min_hold - time.monotonic()
            if left <= 0 or self.signals.wait(left):
                return
