"""Run a job while a hold lasts: start it, pass signals on, stop it if it must, say how it ended.

Everything happens in one loop of the main thread, woken through `Signals`. Signals go to the job
alone, not to its process group, which is our caller's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from interlock._core.insight.events import tell_loss
from interlock.cli.signals import FORWARDED, Signals, pressed_key
from interlock.cli.status import Status, say, signal_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock import Hold
    from interlock.cli.options import OnLost, RunOptions

LAUNCH = Path(__file__).with_name("launch.py")

_DEATH_SIGNAL = {
    "term": signal.SIGTERM,
    "kill": getattr(signal, "SIGKILL", 9),  # Windows has none, and can import this all the same
    "warn": 0,
}
"""What the job gets when interlock itself dies, which sooner or later loses the lock."""


def start(
    command: Sequence[str], environ: Mapping[str, str], on_lost: OnLost
) -> subprocess.Popen[bytes]:
    """Start *command* in our process group, with our files.

    An unknown program ends with 127, as in a shell.
    """
    # Signals wait, in the child too, until launch.py can take them as the program would.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    try:
        return subprocess.Popen(  # noqa: S603 - running the user's command is what we are for
            [
                *(sys.executable, "-I", "-S", str(LAUNCH)),
                *(str(os.getpid()), str(int(_DEATH_SIGNAL[on_lost]))),
                *command,
            ],
            env=environ,
            close_fds=False,  # what our caller left open is for the job (3<file, socket activation)
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Supervision:
    """One job under one hold, from the job's start until the lock may be released.

    Args:
        job: the process, just started.
        hold: what it needs.
        options: when and how to stop it.
        signals: where news comes from.
        began: time of the acquisition, on the monotonic clock.

    Attributes:
        loss_noticed: the lock was lost while the job ran, and the user was told.
    """

    def __init__(
        self,
        job: subprocess.Popen[bytes],
        hold: Hold,
        options: RunOptions,
        signals: Signals,
        began: float,
    ) -> None:
        self._job = job
        self._hold = hold
        self._options = options
        self._signals = signals
        self._release_at = began + options.min_hold
        self._stop_at = None if options.max_hold is None else began + options.max_hold
        self._kill_at: float | None = None
        self._refusal_told = False
        self.loss_noticed = False
        self._stopped_for: Status | None = None

    def run(self) -> int:
        """Return the exit status when the job has ended and --min-hold has passed."""
        try:
            self._hold.on_lost(self._signals.wake)
            while self._job.poll() is None:
                self._stop_if_due(time.monotonic())
                for signum in self._signals.wait(self._until_due(time.monotonic())):
                    if not pressed_key(signum):
                        self._send(signum)
            self._sit_out_min_hold()
        except BaseException:
            # A fault of ours ends in giving the lock up, and no job runs on without it.
            self._send(signal.SIGKILL)
            self._job.wait()
            raise
        if self._stopped_for is not None:
            return self._stopped_for
        code: int = self._job.returncode
        return code if code >= 0 else signal_status(-code)

    def _stop_if_due(self, now: float) -> None:
        if self._hold.lost.is_set() and not self.loss_noticed:
            self.loss_noticed = True
            self._handle_loss(now)
        if self._stop_at is not None and now >= self._stop_at:
            self._stop_at = None
            if self._stopped_for is None:
                self._stop(Status.MAX_HOLD, now)
                say(f"the command ran for {self._options.max_hold:g} s (--max-hold): stopping it")
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            if self._send(signal.SIGKILL):
                say(f"the command did not stop within {self._options.kill_after:g} s: killing it")

    def _handle_loss(self, now: float) -> None:
        lost = f"lock {self._options.name!r} was lost while the command runs"
        if (reason := self._hold.lost.reason) is not None:
            lost = f"{lost} ({tell_loss(reason, self._hold.lost.detail)})"
        if self._options.on_lost == "warn":
            say(f"{lost}: from now on it may not be alone (--on-lost warn)")
        elif self._options.on_lost == "kill":
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
            self._kill_at = now + self._options.kill_after

    def _send(self, signum: int) -> bool:
        """Send the job a signal; return whether that was allowed.

        A job of another user (sudo) may refuse it. Then only its end lets the lock go.
        """
        try:
            self._job.send_signal(signum)
        except PermissionError:
            if not self._refusal_told:
                self._refusal_told = True
                say("this user may not signal the command: waiting for its end")
            return False
        return True

    def _until_due(self, now: float) -> float | None:
        due = [at for at in (self._stop_at, self._kill_at) if at is not None]
        return max(0.0, min(due) - now) if due else None

    def _sit_out_min_hold(self) -> None:
        """Keep the lock until --min-hold has passed, it is lost, or a signal says not to."""
        while not self._hold.lost.is_set():
            left = self._release_at - time.monotonic()
            if left <= 0 or self._signals.wait(left):
                return
