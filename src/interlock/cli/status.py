"""The exit statuses of the command, what it says on stderr, and how what serves comes to its end."""

from __future__ import annotations

import contextlib
import enum
import getpass
import logging
import os
import signal
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock._core.model.foreign_text import safe

if TYPE_CHECKING:
    from collections.abc import Generator


class Status(enum.IntEnum):
    """Exit statuses of interlock itself; every other one is the job's own."""

    CONFLICT = 1  # the lock was not acquired (flock(1); another one with --conflict-exit-code)
    FOUND = 1  # the check found what it was to look for
    USAGE = 64  # the command line, the URL or the name cannot work (EX_USAGE)
    UNAVAILABLE = 69  # the server could not be reached, or refused (EX_UNAVAILABLE)
    LOST = 70  # the lock was lost, and the job stopped for it
    FAULT = 71  # interlock itself failed (EX_OSERR, for EX_SOFTWARE is LOST)
    OUTPUT = 74  # the output could not be written (EX_IOERR)
    MAX_HOLD = 124  # the job was stopped after --max-hold (timeout(1))


class UsageError(Exception):
    """What was asked for cannot be done, whatever the server says."""


def user() -> str:
    """Return who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user without a name
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "an unknown user"


def log_to_stderr() -> None:
    """Write warnings of the loggers to stderr, one line each, with the time."""
    logging.basicConfig(stream=sys.stderr, format="interlock: %(asctime)s %(message)s")


def one_line(message: str) -> str:
    """Return *message* as one line that a terminal shows and does not act on."""
    return safe(" ".join(message.split()))


def say(message: str) -> None:
    """Write *message* to stderr as one line of ours; if stderr is closed, nowhere."""
    if sys.stderr is None:
        return  # print() would take stdout instead
    # Nobody may be reading any more (`2>&1 | head`); the job is to be looked after all the same.
    with contextlib.suppress(OSError):
        print(f"interlock: {one_line(message)}", file=sys.stderr, flush=True)


def need(extra: str, *modules: str) -> None:
    """Raise unless *modules* of *extra* are installed."""
    for module in modules:
        if find_spec(module) is None:
            raise UsageError(f"{module} is not installed: pip install 'interlock[{extra}]'")


@contextlib.contextmanager
def until_signalled() -> Generator[None]:
    """Leave the block when a signal asks this process to end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        yield
