"""`interlock list`: who holds and awaits what, once or live, and who waits for whom in a ring."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

from interlock._core.model.foreign_text import safe
from interlock.cli.arguments import add_url, duration, open_reader
from interlock.cli.status import Status, UsageError, one_line, say
from interlock.errors import ServerUnavailableError
from interlock.inspection import words
from interlock.inspection.kinds import seen

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from interlock.inspection import HolderInfo, LockInfo

DESCRIPTION = """\
List the locks that anybody holds or awaits: Python or Java, on all primaries of a service.
Nothing on the server is changed, and the server is never blocked.
"""

EPILOG = """\
HELD FOR and host, process and thread come from the cards that clients write about holds and waits
of more than a second, in each renewal round (a third of the lease). LATE means that a renewed lock
was not renewed in time: its holder is dying, or cut off from the server. DEAD means that nobody is
there: the client's card is two rounds late, and the server has no connection of it.

exit status:
    0   the list was printed, or with --deadlocks: there are none
    1   with --deadlocks: there are some
"""

PAUSE = 2.0
"""Seconds between two pictures of --watch."""
_CLEAR = "\x1b[H\x1b[2J"
_AROUND = 4
"""Lines of a picture that show no lock."""
HEADINGS = ("NAME", "KIND", "HELD FOR", "RENEWED", "HOLDER", "WAITING")
_WIDEST = (48, 22, 12, 10, 84, 40)


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    add = parser.add_argument
    add("pattern", nargs="?", default="*", metavar="PATTERN", help="of names, such as 'orders:*'")
    for flag, text in (
        ("--waiting", "only those that somebody awaits"),
        ("--late", "only those with a renewal that is late"),
        ("--dead", "only those whose holder is dead: its client is silent, and has no connection"),
        ("--deadlocks", "in place of locks, the threads and tasks that wait in a ring"),
    ):
        add(flag, action="store_true", help=text)
    longer = "only those that are held for longer: 90, 90s, 5m, 2h"
    add("--older-than", type=duration, metavar="TIME", help=longer)
    text = f"only these, several times for several: {', '.join(seen())}"
    add("--kind", dest="kinds", action="append", choices=tuple(seen()), metavar="KIND", help=text)
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
    """Print the locks page by page as they are read, and return the exit status."""
    filters = [f"--{each}" for each in ("waiting", "late", "dead") if given[each]]
    filters += [] if given["older_than"] is None else ["--older-than"]
    if given["deadlocks"]:
        if filters or given["kinds"] or given["watch"] or given["pattern"] != "*":
            raise UsageError("--deadlocks is about all locks: give it nothing but --json and --url")
        return _print_deadlocks(given, environ)
    if given["watch"]:
        _watch(given, environ)
    widths: list[int] = []
    found = False
    for page in _chosen(given, environ):
        found = True
        if given["json"]:
            print("\n".join(json.dumps(info.as_dict()) for info in page))
            continue
        rows = [row_of(info) for info in page]
        if not widths:  # the columns of the first page are those of all
            rows.insert(0, HEADINGS)
            widths = _widths(rows)
        print("\n".join(_lines(rows, widths)))
    if not found and not given["json"]:
        pattern = "" if given["pattern"] == "*" else f" under {given['pattern']!r}"
        passes = f" that passes {' '.join(filters)}" if filters else ""
        say(f"no lock is held or awaited{pattern}{passes}")
    return 0


def _chosen(given: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[list[LockInfo]]:
    """Yield the locks that pass all filters, some at a time."""
    older_than: float | None = given["older_than"]
    filters = (("waiting", "awaited"), ("late", "late"), ("dead", "dead"))
    wanted = [has for word, has in filters if given[word]]

    def passes(info: LockInfo) -> bool:
        # An unknown age may be a high one. Java tells none.
        if older_than is not None and (info.held_for or older_than + 1) <= older_than:
            return False
        return all(getattr(info, has) for has in wanted)

    with open_reader(given, environ) as reader:
        for page in reader.pages(given["pattern"], given["kinds"] or ()):
            if chosen := list(filter(passes, page)):
                yield chosen


def _print_deadlocks(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    with open_reader(given, environ) as reader:
        found = reader.deadlocks()
    for deadlock in found:
        if given["json"]:
            print(json.dumps(asdict(deadlock)))
            continue
        print(f"deadlock of {len(deadlock.steps)}:")
        for step in deadlock.steps:
            who = safe(words.called(step.client, step.thread, step.client.client_id))
            print(f"  {who} has waited {words.duration(step.waited)} for {safe(step.waits_for)!r}")
            print(f"      held by {safe(step.held_by)}")
    if not found and not given["json"]:
        say("no deadlock is seen; a new one is seen after the next renewal round")
    return Status.FOUND if found else 0


def _watch(given: Mapping[str, Any], environ: Mapping[str, str]) -> NoReturn:
    """Print the locks with the most trouble again and again, until Ctrl-C.

    On a terminal each picture replaces the one before. Lines are cut off at its edge. If a server
    cannot be asked, the picture says so.
    """
    whole = sys.stdout.isatty()
    while True:
        size = shutil.get_terminal_size()
        title = f"interlock list, {time.strftime('%X')}"
        try:
            found = [info for page in _chosen(given, environ) for info in page]
        except ServerUnavailableError as error:
            text = [f"{title}: {one_line(str(error))}"]
        else:
            sums = [sum(getattr(i, word) for i in found) for word in ("dead", "late", "awaited")]
            counts = "locks: {}, {} dead, {} late, {} awaited".format(len(found), *sums)
            worst = sorted(found, key=words.trouble)[: max(size.lines - _AROUND, 1)]
            rows = [HEADINGS, *map(row_of, worst)]
            text = [f"{title}: {counts}", "", *_lines(rows, _widths(rows))]
        shown = [line[: size.columns] for line in text] if whole else text
        print(_CLEAR if whole else "", "\n".join(shown), sep="", end="\n\n", flush=True)
        time.sleep(PAUSE)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return how wide the columns of *rows* are: as wide as these need, within bounds."""
    columns = zip(zip(*rows, strict=True), _WIDEST, strict=True)
    return [min(max(map(len, column)), widest) for column, widest in columns]


def _lines(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def row_of(info: LockInfo) -> tuple[str, ...]:
    """Return the line of a lock, with the holder that is worst off."""
    bad = [each for each in info.holders if each.client.dead]
    bad += [each for each in info.holders if each.late]
    holder = next(iter((*bad, *info.holders)), None)
    waiting = _waiting(info)
    if info.deadlock:
        waiting = f"DEADLOCK {waiting}"
    if bad and bad[0].remaining is not None:
        waiting = f"{waiting}  ends in {words.duration(bad[0].remaining)}"
    who = words.without_holders(info)
    if holder is not None:
        who = words.called(holder.client, holder.thread, holder.holder)
    more = info.holder_count - 1
    return (
        safe(info.name),
        _kind_of(info),
        "?" if info.held_for is None else words.duration(info.held_for),
        "" if holder is None else renewed_of(holder),
        safe(f"{who} and {more} more" if holder and more > 0 else who),
        waiting,
    )


def _kind_of(info: LockInfo) -> str:
    """Return the kind of a lock in a few words."""
    if info.any_number:
        return "semaphore or latch"
    word = info.mode or info.kind.removesuffix("_lock").replace("_", " ")
    depth = max((holder.depth for holder in info.holders), default=1)
    if info.holder_count > 1:
        return f"{word} by {info.holder_count}"
    return f"{word} x{depth}" if depth > 1 else word


def renewed_of(holder: HolderInfo) -> str:
    """Return when a hold was renewed last."""
    if holder.client.dead:
        return "DEAD"
    ago = holder.renewed_ago
    if ago is None:
        return "fixed" if holder.renewed is False else "?"
    return f"LATE {ago:.0f}s" if holder.late else f"{ago:.0f} s ago"


def _waiting(info: LockInfo) -> str:
    """Return how many wait, and how long the first of them has."""
    if not info.awaited:
        return "-"
    count, clients = max(info.waiter_count, len(info.waiters)), info.waiting_clients
    text = f"{clients} client{'s' if clients > 1 else ''}"
    text = f"{count} in {text}" if count > 1 else text
    longest = info.longest_wait
    return text if longest is None else f"{text}, first {words.duration(longest)}"
