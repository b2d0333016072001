"""News for interlock while it works: signals, the end of its job, the loss of its lock.

Rules:

1. Until the job is to be started, a signal raises `Interrupted` in the main thread, once. The
   library then takes back what it asked the server for, and a second signal must not cut that
   short.
2. From then on (`queue_signals`) signals are only queued, for the job.
3. After the job (`give_up_by`), a release may last as long as the server is away. The first signal
   of all says so. A second one gives up.
4. Everything ends up as a byte in one socket pair, so that one `wait` sees it all. CPython writes a
   signal's number there from its C handler, whichever thread the kernel chose. A Python handler or
   a queue would be late by a whole time-out whenever that was not the main thread.
5. A signal that our caller ignores (nohup) stays ignored, here and in the job.
6. A signal that our caller blocks is unblocked, here and in the job. Blocked, the end of a job and
   a request to stop would never be noticed.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

POSIX = hasattr(signal, "SIGHUP")
"""Whether there are the signals that `interlock run` is about; Windows has others."""

FORWARDED = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP, signal.SIGQUIT) if POSIX else ()))
"""What is passed on to the job."""

FROM_KEYBOARD = (signal.SIGINT, *((signal.SIGQUIT,) if POSIX else ()))
"""What a terminal sends to every process of its foreground group."""

_LONGEST_WAIT = 86400.0
"""Seconds. The milliseconds of a longer wait may overflow the int that poll(2) takes."""


class Interrupted(KeyboardInterrupt):
    """A signal came before the job was started.

    Attributes:
        signum: which.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Signals:
    """The process' signals, from entering this context to leaving it. For the main thread only."""

    def __init__(self) -> None:
        self._raising = True
        self._came = 0
        self._give_up: Callable[[bool], object] | None = None
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._fd_before = -1

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._fd_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for signum in FORWARDED:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._arrived)
        # Without a handler, the end of a child would write nothing.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _nothing)
        heard = (signal.SIGCHLD, *FORWARDED)
        self._mask_before = signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._fd_before)
        self._reader.close()
        self._writer.close()

    # The signature is that of signal's handlers.
    def _arrived(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._came += 1
        if self._raising:
            self._raising = False
            raise Interrupted(signum)
        if self._give_up is not None:
            self._give_up(self._came > 1)

    def queue_signals(self) -> None:
        """Raise no more: from now on `wait` returns the signals."""
        self._raising = False

    def give_up_by(self, give_up: Callable[[bool], object]) -> None:
        """Call *give_up* at each signal from now on, with whether another one came before."""
        self._give_up = give_up

    def wake(self) -> None:
        """End the present or the next `wait`; from any thread."""
        try:
            self._writer.send(b"\0")
        except BlockingIOError:
            return  # a full buffer wakes as well

    def wait(self, timeout: float | None) -> list[int]:
        """Wait until something happens, and return the signals among it.

        Args:
            timeout: seconds at most; None: no bound. After a day the wait ends in any case.
        """
        self._reader.settimeout(None if timeout is None else min(timeout, _LONGEST_WAIT))
        try:
            arrived = self._reader.recv(4096)
        except (TimeoutError, BlockingIOError):
            return []
        return [signum for signum in arrived if signum in FORWARDED]


def _nothing(signum: int, frame: FrameType | None) -> None:
    """Handle a signal whose number in the socket is all that is wanted."""


def pressed_key(signum: int) -> bool:
    """Tell whether *signum* comes from a key press, which the job has felt already.

    The job is in our process group, as with flock(1). While that is the terminal's foreground
    group, Ctrl-C reaches both. A job that takes a second one for impatience must not get it from
    us. Python cannot learn who sent a signal without blocking it in all threads. It can ask for the
    terminal's state.
    """
    if signum not in FROM_KEYBOARD:
        return False
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False  # no terminal, no keys
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False  # the terminal is gone
    finally:
        os.close(terminal)
