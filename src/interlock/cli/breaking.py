"""`interlock break`: break one hold and no other."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from interlock._core.model.foreign_text import safe
from interlock._drivers.background.log import LOGGER, log_now
from interlock.cli.arguments import add_url, open_client
from interlock.cli.status import Status, UsageError, log_to_stderr, say, user
from interlock.inspection.words import called, duration
from interlock.options import check_reason

if TYPE_CHECKING:
    import argparse
    import logging
    from collections.abc import Generator, Mapping, Sequence

    from interlock.inspection import HolderInfo

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
   64   also: --holder has to choose one of several
   74   the hold may be broken
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    add = parser.add_argument
    add("name", metavar="NAME", help="the name of the lock")
    who = "who holds it, as `interlock why` tells it; of a permit its id (default: the only holder)"
    add("--holder", metavar="ID", help=who)
    add("--reason", default="", metavar="TEXT", help="why; the holder is told, and it is logged")
    add("--dry-run", action="store_true", help="say what would be broken, and change nothing")
    add_url(parser)


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Break the hold, and return the exit status."""
    name, reason = given["name"], check_reason(given["reason"]).strip()
    log_to_stderr()
    # With a card it may leave a note that the hold was broken, also without a reason.
    with _own_record(), open_client(given, environ, card=True) as client:
        info = client.describe(name)
        holders = () if info is None else info.holders
        if not given["holder"] and len(holders) > 1:
            ids = ", ".join(each.holder for each in holders)
            raise UsageError(f"{name!r} has several holders: choose one by --holder: {ids}")
        hold = next((each for each in holders if given["holder"] in (None, each.holder)), None)
        if info is None or hold is None:
            return _refuse(name, given["holder"], holders)
        age = "" if hold.held_for is None else f", held for {duration(hold.held_for)}"
        who = called(hold.client, hold.thread, hold.holder)
        told = safe(f"the hold of {hold.holder} on {name!r}: {who}{age}")
        if given["dry_run"]:
            print(f"would break {told}")
            return 0
        if not client.force_release(name, holder=hold.holder, reason=reason):
            info = client.describe(name)
            return _refuse(name, hold.holder, () if info is None else info.holders)
        reason = reason or "no reason was given"
        log_now(
            "lock.force_released",
            "%s %r, held by %s, was released by force by %s: %s",
            *(info.kind, name, safe(hold.holder), safe(user()), safe(reason)),
            lock_kind=info.kind,
            lock_name=name,
            holder=hold.holder,
            reason=reason,
            user=user(),
        )
        print(f"broke {told}")
    return 0


@contextlib.contextmanager
def _own_record() -> Generator[None]:
    """Log only this command's own record: it names the user, and comes whatever happens next."""

    def names_user(record: logging.LogRecord) -> bool:
        return hasattr(record, "user")

    LOGGER.addFilter(names_user)
    try:
        yield
    finally:
        LOGGER.removeFilter(names_user)


def _refuse(name: str, holder: str | None, holders: Sequence[HolderInfo]) -> Status:
    if holder:
        present = ", ".join(each.holder for each in holders) or "nobody that the server shows"
        say(f"{holder} does not hold {name!r}; nothing was changed (held by {present})")
    else:
        say(f"nobody holds {name!r} that can be broken")
    return Status.CONFLICT
