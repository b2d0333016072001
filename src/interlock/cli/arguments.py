"""Arguments that several commands take: durations, and the server with its credentials."""

from __future__ import annotations

import argparse
import math
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import interlock
from interlock._links.urls import open_url
from interlock.cli.status import UsageError
from interlock.credentials import FileCredentials
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock._links.topology import Topology
    from interlock.inspection import Reader

_UNITS = {"s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float:
    """Return the seconds that *text* stands for: ``90``, ``90s``, ``5m`` or ``2h``."""
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


def lease(text: str) -> float | timedelta:
    """Read a duration; one with a unit is a timedelta, which nobody means in milliseconds."""
    seconds = duration(text)
    return timedelta(seconds=seconds) if text[-1] in _UNITS else seconds


def add_url(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* where the server is."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help="the server (default: $INTERLOCK_URL, $REDIS_URL); `ps` shows a URL that is typed, "
        "and not one of a variable, to every user of this machine",
    )
    add_prefix(parser)


def add_prefix(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* what all keys begin with."""
    parser.add_argument(
        "--prefix",
        metavar="TEXT",
        help="what all keys begin with, such as acme:, as of Options.prefix; names are given and "
        "told without it (default: that of the URL, ?prefix=acme:)",
    )


def urls_of(environ: Mapping[str, str]) -> list[str]:
    """Return the URLs of INTERLOCK_URL, which blanks separate."""
    return environ.get("INTERLOCK_URL", "").split()


def url_of(given: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return the URL that was given, or the only one that the environment names.

    An operator who forgot it would look at an embedded server without any locks.
    """
    if given["url"]:
        return str(given["url"])
    named = urls_of(environ)
    if len(named) > 1:
        raise UsageError("INTERLOCK_URL names several servers: choose one by --url")
    if url := named[0] if named else environ.get("REDIS_URL"):
        return url
    raise UsageError(
        "no server is named: give --url, or set INTERLOCK_URL or REDIS_URL; "
        "the embedded server of this machine is embedded://"
    )


def credentials_of(environ: Mapping[str, str]) -> FileCredentials | None:
    """Return the credentials in the file that the environment names; None if it names none."""
    path = environ.get("INTERLOCK_CREDENTIALS_FILE")
    return FileCredentials(path) if path else None


def options_of(given: Mapping[str, Any], environ: Mapping[str, str]) -> Options:
    """Return the options of a client, as the command line and the environment have them."""
    return Options(prefix=given.get("prefix"), credentials=credentials_of(environ))


def open_servers(given: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[Topology, Options]:
    """Return the servers that were named, and the options of those who ask them.

    Errors as `url_of`, and ConfigError for a URL or a prefix that cannot be.
    """
    return open_url(url_of(given, environ), options_of(given, environ))


def open_reader(given: Mapping[str, Any], environ: Mapping[str, str]) -> Reader:
    """Return what reads the locks of the server that was named; errors as `open_servers`."""
    from interlock.inspection import Reader  # noqa: PLC0415 - `interlock run` starts without it

    return Reader(*open_servers(given, environ))


def open_client(
    given: Mapping[str, Any], environ: Mapping[str, str], *, card: bool = False
) -> interlock.Client:
    """Return a client of the server that was named; without *card* it tells operators nothing."""
    return interlock.connect(url_of(given, environ), options=options_of(given, environ), card=card)
