"""The values that options take, read from text; every error says what was wanted and what was found."""

from __future__ import annotations

import argparse
import enum
import math
import threading
from dataclasses import dataclass

from interlock.errors import ConfigError
from interlock.options import check_lease

MAX_EXIT_CODE = 255
MAX_LIMIT = 2**31 - 1
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class OnLost(enum.Enum):
    """What happens to the job when its lock is lost."""

    TERM = "term"
    KILL = "kill"
    WARN = "warn"


class Mode(enum.Enum):
    """Which lock of the name is held."""

    PLAIN = "plain"
    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    FAIR = "fair"


@dataclass(frozen=True, slots=True)
class Limit:
    """In place of a lock, one of so many permits.

    Attributes:
        permits: how many may run at a time.
    """

    permits: int


def boolean(text: str) -> bool:
    """Read a yes or a no.

    Raises:
        argparse.ArgumentTypeError: for anything else.
    """
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise argparse.ArgumentTypeError(f"wanted 1 or 0 (yes, no, true, false), found {text!r}")


def seconds(text: str) -> float:
    """Read a duration of 0 or more.

    Raises:
        argparse.ArgumentTypeError: unless it is a number that can be waited for.
    """
    try:
        duration = float(text)
    except ValueError:
        duration = math.nan
    if not 0 <= duration <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"wanted seconds such as 5 or 0.5, found {text!r}")
    return duration


def positive_seconds(text: str) -> float:
    """Read a duration above 0.

    Raises:
        argparse.ArgumentTypeError: unless it is a number that can be waited for.
    """
    if not (duration := seconds(text)):
        raise argparse.ArgumentTypeError(f"wanted seconds above 0, found {text!r}")
    return duration


def lease(text: str) -> float:
    """Read a duration that a lock can be leased for.

    Raises:
        argparse.ArgumentTypeError: for another one.
    """
    try:
        return check_lease(seconds(text))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def exit_code(text: str) -> int:
    """Read an exit status.

    Raises:
        argparse.ArgumentTypeError: unless it is 0 to 255.
    """
    if not text.isascii() or not text.isdigit() or int(text) > MAX_EXIT_CODE:
        raise argparse.ArgumentTypeError(f"wanted 0 to {MAX_EXIT_CODE}, found {text!r}")
    return int(text)


def on_lost(text: str) -> OnLost:
    """Read what happens to the job when its lock is lost.

    Raises:
        argparse.ArgumentTypeError: for anything else.
    """
    try:
        return OnLost(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"wanted term, kill or warn, found {text!r}") from None


def limit(text: str) -> Limit:
    """Read how many may run at a time.

    Raises:
        argparse.ArgumentTypeError: unless it is a number from 1 to 2**31 - 1, as in Redisson.
    """
    # Eleven digits are too many, and thousands of them would take int() long.
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_LIMIT))
    if not digits or not 1 <= int(text) <= MAX_LIMIT:
        raise argparse.ArgumentTypeError(f"wanted a number from 1 on, found {text!r}")
    return Limit(int(text))
