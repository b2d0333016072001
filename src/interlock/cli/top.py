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
from interlock.cli.table import lines, row_of
from interlock.cli.values import positive_number, positive_seconds
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Mapping

    from interlock.inspection import LockInfo

DESCRIPTION = """\
Show the locks with the most trouble, and look again every few seconds: first those with a late
renewal, then those with the most waiters, then those that are held for longest. Ctrl-C ends it.
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
            text = _picture(given, environ, size.lines - _AROUND)
            if whole:
                shown = [f"{line[: size.columns]}{_REST_OF_LINE}" for line in text]
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


def _picture(given: Mapping[str, object], environ: Mapping[str, str], rows: int) -> list[str]:
    """Return the lines of one picture, with *rows* locks at most."""
    worst: list[LockInfo] = []
    count = late = awaited = 0
    try:
        with open_reader(given, environ) as reader:
            for page in reader.pages(str(given["pattern"])):
                count += len(page)
                late += sum(info.late for info in page)
                awaited += sum(bool(info.awaited) for info in page)
                worst = heapq.nlargest(max(rows, 1), [*worst, *page], key=_trouble)
    except ServerUnavailableError as error:
        return [f"interlock top, {time.strftime('%X')}: {one_line(str(error))}"]
    head = f"interlock top, {time.strftime('%X')}: {count} locks, {late} late, {awaited} awaited"
    missing = reader.missing()
    # They take the place of the last locks.
    worst = worst[: max(rows - len(missing), 1)]
    return [head, *missing, "", *lines([row_of(info) for info in worst], heading=True)]


def _trouble(info: LockInfo) -> tuple[bool, int, float]:
    """Return how bad it is; the worst is the largest."""
    return info.late, info.waiting_at_least, info.held_for or 0.0
