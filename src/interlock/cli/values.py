"""The values of options, read from text; every error says what was wanted and what was found."""

from __future__ import annotations

import argparse
import enum
import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.status import UsageError
from interlock.errors import ConfigError
from interlock.options import check_lease

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_EXIT_CODE = 255
MAX_NUMBER = 2**31 - 1
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class OnLost(enum.Enum):
    """The job's fate when its lock is lost."""

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


def urls_of_file(path: str) -> list[str]:
    """Return the URLs in the file *path*, one on each line; a line that begins with # is a comment.

    The list of processes shows the arguments of a command to every user of a machine, and so the
    password in a URL. A file can be kept from them.

    Raises:
        argparse.ArgumentTypeError: it cannot be read, or has no URL.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from error
    urls = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not urls:
        raise argparse.ArgumentTypeError(f"{path} has no URL")
    return urls


def urls_of(environ: Mapping[str, str]) -> list[str]:
    """Return what INTERLOCK_URL says, or else the file INTERLOCK_URL_FILE.

    Raises:
        UsageError: both are set, or the file cannot be read, or has no URL.
    """
    urls, path = environ.get("INTERLOCK_URL"), environ.get("INTERLOCK_URL_FILE")
    if urls and path:
        raise UsageError("INTERLOCK_URL_FILE and INTERLOCK_URL exclude each other")
    if urls:
        return urls.split()
    try:
        return urls_of_file(path) if path else []
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"INTERLOCK_URL_FILE: {error}") from error


def url_of_file(path: str) -> str:
    """Return the one URL in the file *path*; errors as `urls_of_file`, and for several."""
    urls = urls_of_file(path)
    if len(urls) > 1:
        raise argparse.ArgumentTypeError(f"{path} has {len(urls)} URLs, and one is wanted")
    return urls[0]


def positive_number(text: str) -> int:
    """Read a whole number above 0.

    Raises:
        argparse.ArgumentTypeError: unless it is a number from 1 to 2**31 - 1.
    """
    # Eleven digits are too many, and thousands of them would take int() long.
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_NUMBER))
    if not digits or not 1 <= int(text) <= MAX_NUMBER:
        raise argparse.ArgumentTypeError(f"wanted a number from 1 on, found {text!r}")
    return int(text)


def limit(text: str) -> Limit:
    """Read how many may run at a time, up to 2**31 - 1 as in Redisson."""
    return Limit(positive_number(text))
