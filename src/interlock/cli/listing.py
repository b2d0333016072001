"""`interlock list`: who holds and awaits what, once or live, and who waits for whom in a ring."""

from __future__ import annotations

import json
import shutil
import sys
import time
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
_WIDEST = (48, 22, 11, 10, 84, 40)
_SHORT = {"leased_semaphore": "permits", "count_down_latch": "latch"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    add = parser.add_argument
    add("pattern", nargs="?", default="*", metavar="PATTERN", help="of names, such as 'orders:*'")
    for flag, text in (
        ("--waiting", "only those that somebody awaits"),
        ("--late", "only those with a renewal that is late"),
        ("--dead", "only those whose holder is dead: its client is silent, and has no connection"),
        (
            "--deadlocks",
            "in place of locks, the threads and tasks of all processes that wait in a ring",
        ),
    ):
        add(flag, action="store_true", help=text)
    add(
        "--older-than",
        type=duration,
        metavar="TIME",
        help="only those that are held for longer: 90, 90s, 5m, 2h",
    )
    add(
        "--kind",
        dest="kinds",
        action="append",
        choices=tuple(seen()),
        metavar="KIND",
        help=f"only these, several times for several: {', '.join(seen())}",
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
    """Print the locks page by page as they are read, and return the exit status."""
    if given["deadlocks"]:
        if _filters(given) or given["kinds"] or given["watch"] or given["pattern"] != "*":
            raise UsageError("--deadlocks is about all locks: give it nothing but --json and --url")
        return _print_deadlocks(given, environ)
    if given["watch"]:
        _watch(given, environ)
    found = False
    widths: list[int] = []
    for chosen in _chosen(given, environ):
        found = True
        if given["json"]:
            print("\n".join(json.dumps(info.as_dict()) for info in chosen))
            continue
        rows = [row_of(info) for info in chosen]
        if not widths:  # the columns of the first page are those of all
            rows.insert(0, HEADINGS)
            widths = _widths(rows)
        print("\n".join(_lines(rows, widths)))
    if not found and not given["json"]:
        pattern = "" if given["pattern"] == "*" else f" under {given['pattern']!r}"
        wanted = " ".join(_filters(given))
        passes = f" that passes {wanted}" if wanted else ""
        say(f"no lock is held or awaited{pattern}{passes}")
    return 0


def _filters(given: Mapping[str, Any]) -> list[str]:
    """Return the options that choose locks by what is known of their clients."""
    wanted = [f"--{each}" for each in ("waiting", "late", "dead") if given[each]]
    return [*wanted, "--older-than"] if given["older_than"] is not None else wanted


def _chosen(given: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[list[LockInfo]]:
    """Yield the locks that pass all filters, some at a time."""
    older_than: float | None = given["older_than"]

    def passes(info: LockInfo) -> bool:
        # An unknown age may be a high one. Java tells none.
        young = older_than is not None and (info.held_for or older_than + 1) <= older_than
        has = {"waiting": info.awaited, "late": info.late, "dead": info.dead}
        return not young and all(so for word, so in has.items() if given[word])

    with open_reader(given, environ) as reader:
        for page in reader.pages(given["pattern"], given["kinds"] or ()):
            if chosen := list(filter(passes, page)):
                yield chosen


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
            who = safe(f"{words.client_of(step.client, step.client.client_id)} {step.thread}")
            print(f"  {who} has waited {clock_time(step.waited)} for {safe(step.waits_for)!r}")
            print(f"      held by {safe(step.held_by)}")
    if not found and not given["json"]:
        say("no deadlock is seen; a new one is seen after the next renewal round")
    return Status.FOUND if found else 0


def _watch(given: Mapping[str, Any], environ: Mapping[str, str]) -> NoReturn:
    """Print the locks with the most trouble again and again, until Ctrl-C.

    On a terminal each picture replaces the one before. Lines are cut off at its edge.
    """
    whole = sys.stdout.isatty()
    while True:
        size = shutil.get_terminal_size()
        text = _picture(given, environ, max(size.lines - _AROUND, 1))
        shown = [line[: size.columns] for line in text] if whole else text
        print(_CLEAR if whole else "", "\n".join(shown), sep="", end="\n\n", flush=True)
        time.sleep(PAUSE)


def _picture(given: Mapping[str, Any], environ: Mapping[str, str], most: int) -> list[str]:
    """Return the lines of one picture, with *most* locks at most.

    If a server cannot be asked, they say so; it is asked again for the next picture.
    """
    title = f"interlock list, {time.strftime('%X')}"
    try:
        found = [info for page in _chosen(given, environ) for info in page]
    except ServerUnavailableError as error:
        return [f"{title}: {one_line(str(error))}"]
    dead, late, awaited = (
        sum(getattr(info, word) for info in found) for word in ("dead", "late", "awaited")
    )
    counts = f"locks: {len(found)}, {dead} dead, {late} late, {awaited} awaited"
    rows = [HEADINGS, *map(row_of, sorted(found, key=words.trouble)[:most])]
    return [f"{title}: {counts}", "", *_lines(rows, _widths(rows))]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return how wide the columns of *rows* are: as wide as these need, within bounds."""
    columns = zip(zip(*rows, strict=True), _WIDEST, strict=True)
    return [min(max(map(len, column)), widest) for column, widest in columns]


def _lines(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """Yield *rows* in columns of these *widths*."""
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def clock_time(seconds: float | None) -> str:
    """Return *seconds* as hours, minutes and seconds; a question mark if they are not known."""
    if seconds is None:
        return "?"
    days, rest = divmod(int(seconds), 86400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {text}" if days else text


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
    who = words.without_holders(info) if holder is None else person_of(holder)
    more = info.holder_count - 1
    return (
        safe(info.name),
        _kind_of(info),
        clock_time(info.held_for),
        "" if holder is None else renewed_of(holder),
        safe(f"{who} and {more} more" if holder and more > 0 else who),
        waiting,
    )


def _kind_of(info: LockInfo) -> str:
    """Return the kind of a lock in one or two words."""
    if info.any_number:
        return "semaphore or latch"
    word = info.mode or _SHORT.get(info.kind, info.kind.removesuffix("_lock"))
    depth = max((holder.depth for holder in info.holders), default=1)
    if info.holder_count > 1:
        return f"{word} by {info.holder_count}"
    return f"{word} x{depth}" if depth > 1 else word


def person_of(holder: HolderInfo) -> str:
    """Return who *holder* is, as far as that is known."""
    if holder.claim:
        return f"given to {words.client_of(holder.client, 'a waiter')}"
    return f"{words.client_of(holder.client, holder.holder)} {holder.thread}".rstrip()


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
    if count > 1:
        text = f"{count} in {text}"
    longest = info.longest_wait
    return text if longest is None else f"{text}, first {clock_time(longest)}"
