"""`interlock list`: who holds and awaits what, once or live, and who waits for whom in a ring."""

from __future__ import annotations

import heapq
import json
import shutil
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from interlock._core.model.foreign_text import safe
from interlock.cli.reading import add_url, open_reader
from interlock.cli.status import Status, UsageError, one_line, say, signal_status
from interlock.cli.table import clock_time, lines, row_of, widths_of
from interlock.cli.values import duration
from interlock.errors import ServerUnavailableError
from interlock.inspection.kinds import seen
from interlock.inspection.words import client_of, counted, trouble

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Iterator, Mapping, Sequence

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

Deadlocks are found by cards as well: locks that Java holds end the search. A suspected one is
looked at again for some seconds, until it is certain or gone.

exit status:
    0   the list was printed; stderr tells what the user has no right to read
    1   with --deadlocks: there are some
   64   usage: the command line or the URL is wrong
   69   a server could not be asked, or refused; with --deadlocks also: none was found, and not all
        could be read
  130   Ctrl-C ended --watch

examples:
  interlock list --url redis://db.example:6379/0
  interlock list 'orders:*' --waiting --older-than 5m
  interlock list --late --json
  interlock list --watch
"""

PAUSE = 2.0
"""Seconds between two pictures of --watch."""
NARROW = 100
"""Columns of a terminal below which the column WAITING comes before others."""
_AROUND = 3
"""Lines of the terminal that show no lock."""
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?7l\x1b[?25l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""A screen of our own, where long lines are cut off and no cursor is seen; and back."""
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    parser.add_argument(
        "pattern", nargs="?", default="*", metavar="PATTERN", help="of names, such as 'orders:*'"
    )
    for flag, text in (
        ("--waiting", "only those that somebody awaits"),
        ("--late", "only those with a renewal that is late"),
        (
            "--dead",
            "only those whose holder is dead: its client is silent, and has no connection",
        ),
    ):
        parser.add_argument(flag, action="store_true", help=text)
    parser.add_argument(
        "--older-than",
        type=duration,
        metavar="TIME",
        help="only those that are held for longer: 90, 90s, 5m, 2h",
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
        "--deadlocks",
        action="store_true",
        help="in place of locks, the threads and tasks that wait for each other in a ring, in all "
        "processes",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--watch",
        action="store_true",
        help="show those with the most trouble, again every 2 s, until Ctrl-C: first dead holders "
        "and deadlocks, then late renewals, long queues, long waits and long holds",
    )
    output.add_argument("--json", action="store_true", help="print one JSON object for each line")
    add_url(parser)


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Print the locks page by page as they are read, and return the exit status.

    Raises:
        ConfigError: a URL that cannot be.
        UsageError: no URL, or options that exclude each other.
        ServerUnavailableError: a server could not be asked.
    """
    if given["deadlocks"]:
        if _filters(given) or given["kinds"] or given["watch"] or given["pattern"] != "*":
            raise UsageError("--deadlocks is about all locks: give it nothing but --json and --url")
        return _print_deadlocks(given, environ)
    if given["watch"]:
        _watch(given, environ)
    widths: list[int] = []
    found = False
    with open_reader(given, environ) as reader:
        for page in reader.pages(given["pattern"], given["kinds"] or ()):
            chosen = list(_chosen(page, given))
            found = found or bool(chosen)
            if given["json"]:
                for info in chosen:
                    print(json.dumps(info.as_dict()))
            elif chosen:
                rows = [row_of(info) for info in chosen]
                # The columns of the first page are those of all.
                heading, widths = not widths, widths or widths_of(rows)
                print("\n".join(lines(rows, heading=heading, widths=widths)))
    if not found and not given["json"]:
        say(f"no lock {_wanted(given)}")
    return 0


def _filters(given: Mapping[str, Any]) -> list[str]:
    """Return the options that choose locks by what is known of their clients."""
    wanted = [f"--{each}" for each in ("waiting", "late", "dead") if given[each]]
    return [*wanted, "--older-than"] if given["older_than"] is not None else wanted


def _wanted(given: Mapping[str, Any]) -> str:
    """Return what no lock is, in words."""
    pattern = "" if given["pattern"] == "*" else f" under {given['pattern']!r}"
    wanted = " ".join(_filters(given))
    return f"is held or awaited{pattern}{f' that passes {wanted}' if wanted else ''}"


def _chosen(page: Sequence[LockInfo], given: Mapping[str, Any]) -> Iterator[LockInfo]:
    older_than: float | None = given["older_than"]
    for info in page:
        # Where it is not known, somebody may.
        if given["waiting"] and info.awaited is False:
            continue
        if (given["late"] and not info.late) or (given["dead"] and not info.dead):
            continue
        # An unknown age may be a high one. Java tells none.
        held_for = info.held_for
        if older_than is not None and held_for is not None and held_for <= older_than:
            continue
        yield info


def _print_deadlocks(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Print the deadlocks, and return the exit status."""
    with open_reader(given, environ) as reader:
        found = reader.deadlocks()
    for deadlock in found:
        if given["json"]:
            print(json.dumps(deadlock.as_dict()))
            continue
        print(f"deadlock of {len(deadlock.steps)}:")
        for step in deadlock.steps:
            who = safe(f"{client_of(step.client, step.client.client_id)} {step.thread}")
            print(f"  {who} has waited {clock_time(step.waited)} for {safe(step.waits_for)!r}")
            print(f"      held by {safe(step.held_by)}")
    return Status.FOUND if found else 0


def _watch(given: Mapping[str, Any], environ: Mapping[str, str]) -> NoReturn:
    """Show the locks again and again until a signal ends it.

    If the output is no terminal, the pictures follow each other.
    """
    with _whole_screen() as whole:
        while True:
            size = shutil.get_terminal_size()
            narrow = whole and size.columns < NARROW
            text = _picture(given, environ, size.lines - _AROUND, narrow=narrow)
            if whole:
                shown = [f"{line}{_REST_OF_LINE}" for line in text]
                sys.stdout.write(_HOME + "\r\n".join(shown) + _REST_OF_SCREEN)
            else:
                sys.stdout.write("\n".join(text) + "\n\n")
            sys.stdout.flush()
            time.sleep(PAUSE)


def _picture(
    given: Mapping[str, Any], environ: Mapping[str, str], rows: int, *, narrow: bool
) -> list[str]:
    """Return the lines of one picture, with *rows* locks at most.

    A server that cannot be asked is told, and asked again for the next picture.
    """
    worst: list[LockInfo] = []
    count = late = awaited = dead = 0
    try:
        with open_reader(given, environ) as reader:
            for found in reader.pages(given["pattern"], given["kinds"] or ()):
                page = list(_chosen(found, given))
                count += len(page)
                late += sum(info.late for info in page)
                dead += sum(info.dead for info in page)
                awaited += sum(bool(info.awaited) for info in page)
                worst = heapq.nsmallest(max(rows, 1), [*worst, *page], key=trouble)
    except ServerUnavailableError as error:
        return [f"interlock list, {time.strftime('%X')}: {one_line(str(error))}"]
    head = (
        f"interlock list, {time.strftime('%X')}: {counted(count, 'lock')}, "
        f"{dead} dead, {late} late, {awaited} awaited"
    )
    table = lines([row_of(info) for info in worst], heading=True, narrow=narrow)
    return [head, "", *table]


@contextmanager
def _whole_screen() -> Generator[bool]:
    """Take the whole terminal, if there is one, and give it back, also if a signal ends this."""

    def end(number: int, frame: object) -> NoReturn:
        del frame
        raise SystemExit(signal_status(number))

    whole = sys.stdout.isatty()
    # Who ignores a signal, as nohup does, goes on to do so.
    former = {
        number: signal.signal(number, end)
        for number in _ENDING
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        sys.stdout.write(_ENTER if whole else "")
        yield whole
    finally:
        sys.stdout.write(_LEAVE if whole else "")
        for number, handler in former.items():
            signal.signal(number, handler)
