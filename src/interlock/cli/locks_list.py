"""`interlock list`: who holds and awaits what, on all servers of a service."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, cast

from interlock._links.urls import open_url
from interlock.cli.status import UsageError, say
from interlock.cli.table import lines, row_of
from interlock.cli.values import url_of_file, urls_of
from interlock.inspection import Reader
from interlock.inspection.reader import KINDS
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from interlock.inspection import LockInfo

DESCRIPTION = """\
List the locks that anybody holds or awaits: Python or Java, on all primaries of a service.
Nothing on the server is changed, and the server is never blocked.
"""

EPILOG = """\
HELD FOR and host, process and thread come from the cards that clients write about holds and waits
of more than a second. Where there is none, HOLDER is the id on the server. LATE means that a
renewed lock was not renewed in time: its holder is dying, or cut off from the server.

exit status:
    0   the list is complete
   64   usage: the command line or the URL is wrong
   69   a server could not be asked, or refused

examples:
  interlock list --url redis://db.example:6379/0
  interlock list 'orders:*' --waiting --older-than 5m
  interlock list --late --json
"""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str) -> float:
    """Return the seconds that *text* stands for: ``90``, ``90s``, ``5m``, ``2h`` or ``1d``.

    Raises:
        argparse.ArgumentTypeError: it stands for nothing.
    """
    number, unit = (text[:-1], text[-1]) if text and text[-1] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"wanted seconds, or 5m, 2h, 1d; found {text!r}")
    return seconds


def add_url(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* where the server is."""
    parser.add_argument(
        "--url", metavar="URL", help="the server (default: $INTERLOCK_URL, $REDIS_URL)"
    )
    parser.add_argument(
        "--url-file",
        dest="url",
        type=url_of_file,
        metavar="FILE",
        help="read the URL from FILE: `ps` shows that of --url to every user",
    )


def url_of(given: Mapping[str, object], environ: Mapping[str, str]) -> str | None:
    """Return the URL that was given, or that the environment names.

    Raises:
        UsageError: the environment names several.
    """
    if given["url"]:
        return str(given["url"])
    named = urls_of(environ)
    if len(named) > 1:
        raise UsageError("INTERLOCK_URL names several servers: choose one by --url")
    return named[0] if named else None


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "pattern", nargs="?", default="*", metavar="PATTERN", help="of names, such as 'orders:*'"
    )
    parser.add_argument("--waiting", action="store_true", help="only those that somebody awaits")
    parser.add_argument(
        "--late", action="store_true", help="only those with a renewal that is late"
    )
    parser.add_argument(
        "--older-than",
        type=duration,
        metavar="TIME",
        help="only those that are held for longer: 90, 5m, 2h, 1d",
    )
    parser.add_argument(
        "--kind",
        dest="kinds",
        action="append",
        choices=KINDS,
        metavar="KIND",
        help=f"only these, several times for several: {', '.join(KINDS)}",
    )
    add_url(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object for each line")


def main(
    given: Mapping[str, object], command: Sequence[str] | None, environ: Mapping[str, str]
) -> int:
    """Print the locks page by page as they are read, and return the exit status.

    Args:
        given: option -> value, from the command line.
        command: what stood behind ``--``; None if there was none.
        environ: for the URL.

    Raises:
        UsageError: a command, which there cannot be.
        ConfigError: a URL that cannot be.
        ServerUnavailableError: a server could not be asked.
    """
    if command is not None:
        raise UsageError("interlock list runs no command: leave out -- and what follows it")
    kinds = cast("list[str]", given["kinds"] or [])
    with Reader(open_url(url_of(given, environ)), Options()) as reader:
        heading = True
        for page in reader.pages(str(given["pattern"]), kinds):
            chosen = list(_chosen(page, given))
            if given["json"]:
                for info in chosen:
                    print(json.dumps(info.as_dict()))
            elif chosen:
                print("\n".join(lines([row_of(info) for info in chosen], heading=heading)))
                heading = False
        if reader.forbidden:
            say(f"{reader.forbidden} keys were left out: the user has no right to read them")
    return 0


def _chosen(page: Sequence[LockInfo], given: Mapping[str, object]) -> Iterator[LockInfo]:
    older_than = cast("float | None", given["older_than"])
    for info in page:
        if given["waiting"] and not (info.waiting or info.waiters):
            continue
        if given["late"] and not info.late:
            continue
        # An unknown age may be a high one. Java tells none.
        held_for = info.held_for
        if older_than is not None and held_for is not None and held_for <= older_than:
            continue
        yield info
