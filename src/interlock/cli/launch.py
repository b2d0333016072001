"""Become the job: what the child process runs first, as a script of its own.

Usage: launch.py PARENT_PID DEATH_SIGNAL CMD [ARG...]

The job is to get a signal when its parent dies (Linux' PR_SET_PDEATHSIG), which only the child
itself can ask for. A `preexec_fn` would ask between fork and exec, which is not safe in a process
with threads, and interlock has some. So a small interpreter of its own asks (about 25 ms). It is
started without site packages and imports nothing of interlock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
NOT_FOUND, CANNOT_EXECUTE = 127, 126


def main(parent: int, death_signal: int, command: list[str]) -> int:
    """Replace this process by *command*; return only when that fails.

    Args:
        parent: the process whose death is felt.
        death_signal: how it is felt; 0: not at all.
        command: the program and its arguments.
    """
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    if death_signal and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), death_signal)
    try:
        os.execvp(command[0], command)  # noqa: S606 - becoming the job is what this is for
    except FileNotFoundError:
        status, found = NOT_FOUND, "there is no such program (or its interpreter is missing)"
        if " " in command[0]:
            found += "; a line for the shell goes behind -c"
    except OSError as error:
        status, found = CANNOT_EXECUTE, error.strerror or str(error)
    if sys.stderr is not None:  # closed: print() would take stdout instead
        print(f"interlock: cannot run {command[0]!r}: {found}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
