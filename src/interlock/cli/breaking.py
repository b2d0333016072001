"""`interlock break`: break one hold and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.foreign_text import safe
from interlock._drivers.background.log import log_break
from interlock.cli.reading import add_url, open_client
from interlock.cli.status import Status, UsageError, log_to_stderr, say, user
from interlock.cli.table import clock_time, person_of
from interlock.inspection.kinds import sight_of
from interlock.options import check_reason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from interlock.inspection import LockInfo

DESCRIPTION = """\
Break the hold of the lock NAME: that of HOLDER, or else that of its only holder. No other hold is
broken, whoever has the lock by then. The holder is told at its next renewal. Its program may still
be at work on what the lock protects: only a fencing token keeps it from doing harm.

The id of a hold that `interlock why` tells the age of is that hold's alone. Java's ids, and those
of holds before their first renewal round (a third of the lease), name a thread: its next hold of
the lock has the same one.
"""

EPILOG = """\
Write -- before a NAME that begins with -.

exit status:
    0   the hold is broken (with --dry-run: would be)
    1   HOLDER, or anybody, does not hold it; nothing was changed
   64   usage: the command line or the URL is wrong, or --holder has to choose one of several
   69   a server could not be asked, or refused
   74   the output could not be written; the hold may be broken

examples:
  interlock break orders:42 --dry-run
  interlock break orders:42 --holder 9f1c2a34-...:7 --reason 'stuck since 10:40, OPS-311'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    parser.add_argument("name", metavar="NAME", help="the name of the lock")
    parser.add_argument(
        "--holder",
        metavar="ID",
        help="who holds it, as `interlock why` tells it; of a permit its id (default: the only "
        "holder)",
    )
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why; the holder is told, and it is logged"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be broken, and change nothing"
    )
    add_url(parser)


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Break the hold, and return the exit status.

    Raises:
        ConfigError: a URL or a reason that cannot be, or nobody can hold what NAME is.
        UsageError: there are several holders, and none was chosen.
        ServerUnavailableError: a server could not be asked.
    """
    name, reason = given["name"], check_reason(given["reason"]).strip()
    # The record is this command's own: it names the user, and comes whatever happens next.
    log_to_stderr()
    with open_client(given, environ, log=False) as client:
        info = client.describe(name)
        holder = given["holder"] or _only_holder(name, info)
        held = info is not None and any(each.holder == holder for each in info.holders)
        if info is None or not held:
            return _refuse(name, holder, info)
        if given["dry_run"]:
            print(_told("would break", info, holder))
            return 0
        if not client.force_release(name, holder=holder, reason=reason):
            return _refuse(name, holder, client.describe(name))
        log_break(info.kind, name, holder, reason or "no reason was given", user())
        print(_told("broke", info, holder))
        ages = [each.held_for for each in info.holders if each.holder == holder]
        if sight_of(info.kind).by_thread and ages == [None]:
            say(
                f"no card tells of this hold, so {holder} names a thread: "
                "it may be a later hold than the one that you looked at"
            )
    return 0


def _only_holder(name: str, info: LockInfo | None) -> str:
    """Return who holds the lock; an empty text for nobody.

    Raises:
        UsageError: several do.
    """
    holders = () if info is None else info.holders
    if len(holders) > 1:
        ids = ", ".join(each.holder for each in holders)
        raise UsageError(f"{name!r} has several holders: choose one by --holder: {ids}")
    return holders[0].holder if holders else ""


def _refuse(name: str, holder: str, info: LockInfo | None) -> Status:
    """Say that *holder* does not hold the lock, and who does; return the exit status."""
    holders = () if info is None else info.holders
    present = ", ".join(each.holder for each in holders) or "nobody that the server shows"
    who = f"{holder} does not hold {name!r}" if holder else f"nobody holds {name!r}"
    say(
        f"{who}; nothing was changed (held by {present})" if holder else f"{who} that can be broken"
    )
    return Status.CONFLICT


def _told(what: str, info: LockInfo, holder: str) -> str:
    """Return what is done to the hold of *holder*, as one line."""
    found = next(each for each in info.holders if each.holder == holder)
    age = "" if found.held_for is None else f", held for {clock_time(found.held_for)}"
    return safe(f"{what} the hold of {holder} on {info.name!r}: {person_of(found)}{age}")
