"""The values of options, read from text; every error says what was wanted and what was found."""

from __future__ import annotations

import argparse
import math
import threading

from interlock.cli.status import say
from interlock.errors import ConfigError
from interlock.options import check_lease

_UNITS = {"s": 1, "m": 60, "h": 3600}
_LONG_LEASE = 3600.0
"""Seconds. A number without a unit that is larger is probably meant in milliseconds."""
_MAX_EXIT_CODE = 255
_MAX_NUMBER = 2**31 - 1


def duration(text: str) -> float:
    """Return the seconds that *text* stands for: ``90``, ``90s``, ``5m`` or ``2h``.

    Raises:
        argparse.ArgumentTypeError: unless it is a time that can be waited for.
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(
            f"wanted a duration such as 90, 90s, 5m or 2h, found {text!r}"
        )
    return seconds


def positive_duration(text: str) -> float:
    """Read a duration above 0; errors as of `duration`."""
    if not (seconds := duration(text)):
        raise argparse.ArgumentTypeError(f"wanted a duration above 0, found {text!r}")
    return seconds


def lease(text: str) -> float:
    """Read a duration that a lock can be leased for; warn if it looks like milliseconds.

    Raises:
        argparse.ArgumentTypeError: for another one.
    """
    try:
        seconds = check_lease(duration(text))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds > _LONG_LEASE and text[-1] not in _UNITS:
        say(
            f"warning: a lease of {text} s keeps others out for {seconds / 3600:.3g} h"
            " if this machine dies: was it meant in milliseconds?"
        )
    return seconds


def exit_code(text: str) -> int:
    """Read an exit status.

    Raises:
        argparse.ArgumentTypeError: unless it is 0 to 255.
    """
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_EXIT_CODE:
        raise argparse.ArgumentTypeError(f"wanted 0 to {_MAX_EXIT_CODE}, found {text!r}")
    return int(text)


def limit(text: str) -> int:
    """Read how many may run at a time, up to 2**31 - 1 as in Redisson.

    Raises:
        argparse.ArgumentTypeError: unless it is a number from 1 on.
    """
    # Eleven digits are too many, and thousands of them would take int() long.
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_NUMBER))
    if not digits or not 1 <= int(text) <= _MAX_NUMBER:
        raise argparse.ArgumentTypeError(f"wanted a number from 1 on, found {text!r}")
    return int(text)
