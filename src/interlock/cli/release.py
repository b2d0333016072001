"""`interlock release`: release a ticket, or break one hold and no other."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

import interlock
from interlock._core.kinds import sight_of
from interlock._drivers.background.log import log_break
from interlock.cli.reading import add_url, credentials_of, url_of
from interlock.cli.show import text_of
from interlock.cli.status import Status, UsageError, log_to_stderr, say
from interlock.cli.ticket_file import add_ticket, ticket_of
from interlock.errors import NotHeldError
from interlock.options import check_reason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

DESCRIPTION = """\
With a ticket of `interlock acquire`: release its lock. Otherwise:
Break the hold that HOLDER has of the lock NAME, and no other: if another holder has the lock by
now, nothing is changed. The holder is told at its next renewal. Its program may still be at work
on what the lock protects: only a fencing token keeps it from doing harm.

The id of a hold that `interlock show` tells the age of is that hold's alone. Java's ids, and those
of holds before their first renewal round (a third of the lease), name a thread: its next hold of
the lock has the same one.
"""

EPILOG = """\
exit status:
    0   the hold is broken (with --dry-run: would be); the ticket is released
    1   HOLDER or the ticket does not hold it; nothing was changed
   64   usage: the command line or the URL is wrong
   69   a server could not be asked, or refused
   74   the output could not be written; the hold may be broken

examples:
  interlock show orders:42                       # tells the holder's id
  interlock release --ticket-file deploy.ticket
  interlock release orders:42 --holder 9f1c2a34-...:7 --reason 'stuck since 10:40, OPS-311'
"""


def _user() -> str:
    """Return who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user without a name
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "an unknown user"


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the name of the lock")
    parser.add_argument(
        "--holder",
        metavar="ID",
        help="who holds it, as `interlock show` tells it; of a permit its id",
    )
    parser.add_argument(
        "--reason", metavar="TEXT", help="why; the holder is told, and it is logged"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be broken, and change nothing"
    )
    add_ticket(parser)
    add_url(parser)


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Release the ticket or break the hold, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        ConfigError: a URL or a reason that cannot be, or nobody can hold what NAME is.
        UsageError: no ticket, and no name, holder or reason.
        ServerUnavailableError: a server could not be asked.
    """
    missing = [word for word in ("name", "holder", "reason") if given[word] is None]
    if given["ticket"] or given["ticket_file"]:
        if len(missing) < len(("name", "holder", "reason")) or given["dry_run"]:
            raise UsageError("a ticket names its lock: give nothing but the ticket and the URL")
        return _release_ticket(given, environ)
    if missing:
        words = ", ".join("NAME" if word == "name" else f"--{word}" for word in missing)
        raise UsageError(f"wanted a ticket, or NAME, --holder and --reason; missing: {words}")
    name, holder = str(given["name"]), str(given["holder"])
    reason = check_reason(str(given["reason"]))
    if not reason.strip():
        raise UsageError("--reason is empty: it is what the holder is told, and what is logged")
    # The record is this command's own: it names the user, and comes whatever happens next.
    log_to_stderr()
    with interlock.connect(
        url_of(given, environ),
        credentials=credentials_of(given, environ),
        card=False,
        log=False,
    ) as client:
        info = client.describe(name)
        held = info is not None and any(each.holder == holder for each in info.holders)
        if held and given["dry_run"]:
            print(f"would break the hold of {holder} on {name!r}:")
        elif info and held and client.force_release(name, holder=holder, reason=reason):
            log_break(info.kind, name, holder, reason, _user())
            print(f"broke the hold of {holder} on {name!r}:")
        else:
            info = client.describe(name)
            holders = () if info is None else info.holders
            present = ", ".join(each.holder for each in holders) or "nobody that the server shows"
            say(f"{holder} does not hold {name!r}; nothing was changed (held by {present})")
            return Status.CONFLICT
        if info is not None:
            print("\n".join(text_of(info)))
            told = [each.held_for for each in info.holders if each.holder == holder]
            if sight_of(info.kind).by_thread and told == [None]:
                say(
                    f"no card tells of this hold, so {holder} names a thread: "
                    "it may be a later hold than the one that you looked at"
                )
    return 0


def _release_ticket(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    text = ticket_of(given)
    with interlock.connect(
        url_of(given, environ), credentials=credentials_of(given, environ), card=False
    ) as client:
        try:
            client.ticket(text).release()
        except NotHeldError as error:
            say(str(error))
            return Status.CONFLICT
    return 0
