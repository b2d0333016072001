"""`interlock list`: who holds and awaits what, on all servers of a service."""

from __future__ import annotations

import argparse
import gc
import json
import queue
import threading
from typing import TYPE_CHECKING, cast

from interlock._core.kinds import seen
from interlock._core.model.foreign_text import safe
from interlock.cli.reading import add_url, open_reader
from interlock.cli.status import say
from interlock.cli.table import lines, row_of, widths_of
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from interlock.inspection import LockInfo

DESCRIPTION = """\
List the locks that anybody holds or awaits: Python or Java, on all primaries of a service.
Nothing on the server is changed, and the server is never blocked.
"""

EPILOG = """\
HELD FOR and host, process and thread come from the cards that clients write about holds and waits
of more than a second, in each renewal round (a third of the lease). Where there is none, HOLDER is
the id on the server. LATE means that a renewed lock was not renewed in time: its holder is dying,
or cut off from the server. DEAD means that nobody is there: the client's card is two rounds late,
and the server has no connection of it. A client that is slow or cut off is "silent since" a time.
So is one that has not connected again, for a minute after the server was started.

exit status:
    0   the list was printed; stderr tells what the user has no right to read
   64   usage: the command line or the URL is wrong
   69   a server could not be asked, or refused

examples:
  interlock list --url redis://db.example:6379/0
  interlock list 'orders:*' --waiting --older-than 5m
  interlock list --late --json
  interlock list --dead
  interlock list --plain | cut -f4
"""

AHEAD = 2
"""Pages that are read before they are printed."""
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument(
        "pattern", nargs="?", default="*", metavar="PATTERN", help="of names, such as 'orders:*'"
    )
    parser.add_argument("--waiting", action="store_true", help="only those that somebody awaits")
    parser.add_argument(
        "--late", action="store_true", help="only those with a renewal that is late"
    )
    parser.add_argument(
        "--dead",
        action="store_true",
        help="only those whose holder is dead: its client is silent, and has no connection",
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
        choices=tuple(seen()),
        metavar="KIND",
        help=f"only these, several times for several: {', '.join(seen())}",
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="print only kind, seconds left, holder ids and name, between tabs, for many locks",
    )
    add_url(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object for each line")


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Print the locks page by page as they are read, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        ConfigError: a URL that cannot be, or options that exclude each other.
        ServerUnavailableError: a server could not be asked.
    """
    if given["plain"] and (given["json"] or given["older_than"] is not None or _filters(given)):
        raise ConfigError(
            "--plain reads no details: give it neither --json nor a filter but --kind"
        )
    kinds = cast("list[str]", given["kinds"] or [])
    # There is no garbage in cycles. To look for it takes a quarter of the time of a long list.
    gc.disable()
    try:
        _print(given, environ, kinds)
    finally:
        gc.enable()
    return 0


def _print(given: Mapping[str, object], environ: Mapping[str, str], kinds: list[str]) -> None:
    """Print all pages."""
    with open_reader(given, environ) as reader:
        widths: list[int] = []
        found = False
        plain = bool(given["plain"])
        for page in _ahead(reader.pages(str(given["pattern"]), kinds, plain=plain)):
            chosen = list(_chosen(page, given))
            found = found or bool(chosen)
            if plain:
                print("\n".join(map(_plain, chosen)))
            elif given["json"]:
                for info in chosen:
                    print(json.dumps(info.as_dict()))
            elif chosen:
                rows = [row_of(info) for info in chosen]
                # The columns of the first page are those of all.
                heading, widths = not widths, widths or widths_of(rows)
                print("\n".join(lines(rows, heading=heading, widths=widths)))
        if not found and not given["json"] and not reader.missing():
            say(f"no lock {_wanted(given)}")
        for line in reader.missing():
            say(line)


def _plain(info: LockInfo) -> str:
    """Return what the keys of a lock tell, between tabs."""
    left = "" if info.remaining is None else f"{info.remaining:.3f}"
    holders = ",".join([each.holder for each in info.holders])
    return "\t".join((info.kind, left, safe(holders), safe(info.name)))


def _filters(given: Mapping[str, object]) -> list[str]:
    """Return the options that choose locks by what is known of their clients."""
    return [f"--{each}" for each in ("waiting", "late", "dead") if given[each]]


def _wanted(given: Mapping[str, object]) -> str:
    """Return what no lock is, in words."""
    wanted = _filters(given)
    wanted += ["--older-than"] if given["older_than"] is not None else []
    pattern = "" if given["pattern"] == "*" else f" under {given['pattern']!r}"
    filters = f" that passes {' '.join(wanted)}" if wanted else ""
    return f"is held or awaited{pattern}{filters}"


def _ahead(pages: Iterator[list[LockInfo]]) -> Iterator[list[LockInfo]]:
    """Yield *pages*; a thread reads the next ones while these are printed."""
    pipe: queue.Queue[list[LockInfo] | BaseException | None] = queue.Queue(AHEAD)

    def read() -> None:
        try:
            for page in pages:
                pipe.put(page)
            pipe.put(None)
        except BaseException as error:  # noqa: BLE001 - raised below, where it is waited for
            pipe.put(error)

    # If nobody reads the list any more it must not keep the process.
    threading.Thread(target=read, daemon=True).start()
    while (page := pipe.get()) is not None:
        if isinstance(page, BaseException):
            raise page
        yield page


def _chosen(page: Sequence[LockInfo], given: Mapping[str, object]) -> Iterator[LockInfo]:
    older_than = cast("float | None", given["older_than"])
    for info in page:
        # Where it is not known, somebody may.
        if given["waiting"] and info.awaited is False:
            continue
        if given["late"] and not info.late:
            continue
        if given["dead"] and not info.dead:
            continue
        # An unknown age may be a high one. Java tells none.
        held_for = info.held_for
        if older_than is not None and held_for is not None and held_for <= older_than:
            continue
        yield info
