"""`interlock top`: the locks with the most trouble, again and again, in the whole terminal."""

from __future__ import annotations

import heapq
import shutil
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, cast

from interlock.cli.reading import add_url, open_reader
from interlock.cli.status import one_line, signal_status
from interlock.cli.table import clock_time, cut, lines, row_of
from interlock.cli.values import positive_number, positive_seconds
from interlock.errors import ServerUnavailableError
from interlock.inspection.words import client_of, counted, trouble, without_holders

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from interlock.inspection import LockInfo

DESCRIPTION = """\
Show the locks with the most trouble, and look again every few seconds: first those of dead holders
and in deadlocks, then late renewals, long queues, long waits and long holds. Ctrl-C ends it.
"""

EPILOG = """\
If the output is no terminal, the pictures follow each other.

exit status:
    0   --count pictures were shown
   64   usage: the command line or the URL is wrong
  130   Ctrl-C ended it
  143   SIGTERM ended it
"""

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
NARROW = 100
"""Columns of a terminal below which the column WAITING comes before others."""
WAITS = 5
"""Longest waits that are shown."""
_AROUND = 3
"""Lines of the terminal that show no lock."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument(
        "pattern", nargs="?", default="*", metavar="PATTERN", help="of names, such as 'orders:*'"
    )
    parser.add_argument(
        "--interval",
        type=positive_seconds,
        default=2.0,
        metavar="SECS",
        help="between two looks (default: 2)",
    )
    parser.add_argument(
        "--count", type=positive_number, metavar="N", help="end after N looks (default: never)"
    )
    add_url(parser)


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Show the locks until Ctrl-C, or as often as was asked for; return the exit status.

    A server that cannot be asked is told, and asked again.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        ConfigError: a URL that cannot be.
    """
    count, looks = cast("int | None", given["count"]), 0
    with _whole_screen() as whole:
        while True:
            size = shutil.get_terminal_size()
            narrow = whole and size.columns < NARROW
            text = _picture(given, environ, size.lines - _AROUND, narrow=narrow)
            if whole:
                shown = [f"{cut(line, size.columns)}{_REST_OF_LINE}" for line in text]
                sys.stdout.write(_HOME + "\r\n".join(shown) + _REST_OF_SCREEN)
            else:
                sys.stdout.write("\n".join(text) + "\n\n")
            sys.stdout.flush()
            looks += 1
            if looks == count:
                return 0
            time.sleep(cast("float", given["interval"]))


def _end(number: int, frame: object) -> NoReturn:
    del frame
    raise SystemExit(signal_status(number))


@contextmanager
def _whole_screen() -> Generator[bool]:
    """Take the whole terminal, if there is one, and give it back, also if a signal ends this."""
    whole = sys.stdout.isatty()
    # Who ignores a signal, as nohup does, goes on to do so.
    former = {
        number: signal.signal(number, _end)
        for number in _ENDING
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        sys.stdout.write(_ENTER if whole else "")
        yield whole
    finally:
        sys.stdout.write(_LEAVE if whole else "")
        for number, handler in former.items():
            _ = signal.signal(number, handler)


def _picture(
    given: Mapping[str, object], environ: Mapping[str, str], rows: int, *, narrow: bool
) -> list[str]:
    """Return the lines of one picture, with *rows* locks at most."""
    worst: list[LockInfo] = []
    count = late = awaited = dead = 0
    waits: list[tuple[float, str]] = []
    try:
        with open_reader(given, environ) as reader:
            for page in reader.pages(str(given["pattern"])):
                count += len(page)
                late += sum(info.late for info in page)
                dead += sum(info.dead for info in page)
                waits = heapq.nlargest(WAITS, [*waits, *_waits(page)])
                awaited += sum(bool(info.awaited) for info in page)
                worst = heapq.nsmallest(max(rows, 1), [*worst, *page], key=trouble)
    except ServerUnavailableError as error:
        return [f"interlock top, {time.strftime('%X')}: {one_line(str(error))}"]
    head = (
        f"interlock top, {time.strftime('%X')}: {counted(count, 'lock')}, "
        f"{dead} dead, {late} late, {awaited} awaited"
    )
    missing = reader.missing()
    longest = [text for _, text in waits]
    if longest:
        longest = ["", "longest waits", *longest]
    # They take the place of the last locks.
    worst = worst[: max(rows - len(missing) - len(longest), 1)]
    table = lines([row_of(info) for info in worst], heading=True, narrow=narrow)
    return [head, *missing, "", *table, *longest]


def _waits(page: Iterable[LockInfo]) -> Iterator[tuple[float, str]]:
    """Yield the waits for the locks of *page* with their lines."""
    for info in page:
        holder = next(iter(info.holders), None)
        if holder is not None:
            held = f"held by {client_of(holder.client, holder.holder)}"
        else:
            held = "held by nobody" if info.free is None else without_holders(info)
        for place, each in enumerate(info.waiters, 1):
            if each.waited is not None:
                who = " ".join(filter(None, (client_of(each.client, each.holder), each.thread)))
                queue = f", place {place}" if info.queued else ""
                line = f"{clock_time(each.waited)}  {who} for {info.name!r}{queue}, {held}"
                yield each.waited, f"  {one_line(line)}"
