"""`interlock ticket`: hold a lock without a process."""

from __future__ import annotations

import contextlib
import socket
import sys
from argparse import RawDescriptionHelpFormatter
from typing import TYPE_CHECKING, Any

from interlock.cli.reading import add_url, open_client
from interlock.cli.status import Status, UsageError, one_line, say, user
from interlock.cli.ticket_file import NewFile, read_ticket
from interlock.cli.values import duration, lease
from interlock.errors import AcquireTimeoutError, ConfigError, InterlockError, NotHeldError
from interlock.inspection.words import client_of
from interlock.options import check_reason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from interlock import Client, Ticket
    from interlock.inspection import HolderInfo

LEASE = 600.0
"""Seconds that a ticket is good for, unless another number is given."""

DESCRIPTION = """\
Hold a lock without a process. `acquire` locks NAME, prints a ticket and exits. The lock stays
locked until the ticket is released or its lease ends. `extend`, `status` and `release` take the
ticket, on any machine. It is the same lock as client.lock(NAME) in Python and `interlock run NAME`.
"""

EPILOG = """\
Everybody who has the ticket can release the lock. With --ticket-file it is in a file that only you
can read, and nothing is printed. A ticket that was there is replaced if it is over. If it still
holds another lock, or if the file has anything else, it stays and nothing is locked.

exit status:
    0   acquire: the lock is held, and the ticket written; else the ticket is good, or was released
    1   acquire: somebody else holds it, or it was lost before the ticket was written; else the
        ticket is over: released, used, ended or broken. stderr says who holds the lock
   64   usage: the command line, the URL, the ticket or the file cannot work
   69   the server could not be asked, or refused
   74   the ticket could not be written; the lock is free again

examples:
  interlock ticket acquire deploy --lease 15m --wait 60 --reason 'release 1.7' --ticket-file t
  interlock ticket extend --ticket-file t --lease 15m
  interlock ticket release --ticket-file t
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command and its four words."""
    words = parser.add_subparsers(dest="word", metavar="WORD", required=True)

    def add(word: str, summary: str) -> argparse.ArgumentParser:
        return words.add_parser(
            word,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=EPILOG,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    acquire = add("acquire", "lock NAME, write a ticket, and exit")
    acquire.add_argument("name", metavar="NAME", help="the name of the lock")
    acquire.add_argument(
        *("-w", "--wait"),
        type=duration,
        default=0.0,
        metavar="TIME",
        help="wait so long for the lock (default: try once)",
    )
    acquire.add_argument(
        "--reason", default="", metavar="TEXT", help="why; `interlock list` and `why` tell it"
    )
    extend = add("extend", "let the ticket be good for so long from now on")
    status = add("status", "tell whether the ticket is still good, and for how long")
    release = add("release", "release the lock of the ticket")
    for each in (acquire, extend):
        each.add_argument(
            "--lease",
            type=lease,
            default=LEASE,
            metavar="TIME",
            help="how long the ticket is good for, from now on (default: 10m)",
        )
    acquire.add_argument(
        "--ticket-file", metavar="FILE", help="write the ticket to FILE, with mode 600"
    )
    for each in (extend, status, release):
        each.add_argument(
            "--ticket-file",
            required=True,
            metavar="FILE",
            help="the file that has the ticket; - is stdin",
        )
    for each in (acquire, extend, status, release):
        add_url(each)


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Do what the word says, and return the exit status.

    Raises:
        UsageError: the ticket's file cannot be read or written, or has what may not be lost.
        ConfigError: a URL, a name, a ticket or a reason that cannot be.
        ServerUnavailableError: the server could not be asked.
    """
    if given["word"] == "acquire":
        return _acquire(given, environ)
    text = read_ticket(given["ticket_file"])
    with open_client(given, environ) as client:
        ticket = client.ticket(text)
        try:
            match given["word"]:
                case "extend":
                    _extend(client, ticket, given["lease"])
                case "status":
                    return _status(client, ticket)
                case _:
                    ticket.release()
        except NotHeldError as error:
            say(str(error))
            return Status.CONFLICT
    return 0


def _acquire(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    reason, path = check_reason(given["reason"]), given["ticket_file"]
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(contextlib.closing(NewFile(path))) if path else None
        client = stack.enter_context(open_client(given, environ))
        if file is not None:
            _check_replaceable(client, file.present(), given["name"], path)
        try:
            with client.fenced_lock(given["name"], timeout=given["wait"]) as hold:
                # If this process dies before the ticket is written, this short lease ends it.
                ticket = client.ticket(hold.hand_over())
        except AcquireTimeoutError as error:
            say(f"{error}{_known(client, error)}")
            return Status.CONFLICT
        return _deliver(client, ticket, file, given["lease"], reason)


def _check_replaceable(client: Client, present: str, name: str, path: str) -> None:
    """Check that *present*, the text of the file, may give way to a ticket for *name*.

    A ticket for *name* itself needs no check: while it is good, the lock cannot be acquired.

    Raises:
        UsageError: it is no ticket, or a ticket that still holds another lock.
    """
    if not present:
        return
    try:
        ticket = client.ticket(present)
    except ConfigError as error:
        raise UsageError(
            f"{path} has something that is no ticket of this client, and would be lost: {error}"
        ) from error
    if ticket.name != name and _holder_with(client, ticket.name, ticket.holder) is not None:
        raise UsageError(
            f"{path} has the ticket that holds {ticket.name!r}, and it would be lost:"
            " release it first, or name another file"
        )


def _deliver(
    client: Client, ticket: Ticket, file: NewFile | None, wanted: float, reason: str
) -> int:
    """Write *ticket* where it is wanted, and only then let it be good for *wanted* seconds.

    If that fails, free the lock: nobody could release it.
    """
    try:
        ticket.announce(wanted, reason, who=f"{user()}@{socket.gethostname()}")
        if file is not None:
            file.write(str(ticket))
        else:
            print(ticket)
            sys.stdout.flush()
        ticket.renew(wanted)
    except NotHeldError as error:
        say(str(error))
        return Status.CONFLICT
    except BaseException as error:
        client.ticket(str(ticket)).release()
        if isinstance(error, OSError):
            say(f"the ticket could not be written, so the lock is free again: {error}")
            return Status.OUTPUT
        raise
    return 0


def _extend(client: Client, ticket: Ticket, wanted: float) -> None:
    """Let *ticket* be good for *wanted* seconds, and tell operators so.

    Raises:
        NotHeldError: it is over.
    """
    ticket.renew(wanted)
    holder = _holder_with(client, ticket.name, ticket.holder)
    if holder is not None:
        ticket.announce(
            wanted, holder.thread, who=holder.client.host, held_for=holder.held_for or 0.0
        )


def _status(client: Client, ticket: Ticket) -> int:
    info = client.describe(ticket.name)
    holders = () if info is None else info.holders
    holder = next((each for each in holders if each.holder == ticket.holder), None)
    if holder is None:
        say(
            f"{ticket.name!r} is not held by this ticket: it was released or used, or its lease"
            f" has ended (held by {', '.join(each.holder for each in holders) or 'nobody'})"
        )
        return Status.CONFLICT
    since = "" if holder.held_for is None else f", held for {holder.held_for:.0f} s"
    by = f", by {holder.client.host}" if holder.client.host else ""
    why = f": {holder.thread}" if holder.thread else ""
    ends = "never" if holder.remaining is None else f"in {holder.remaining:.0f} s"
    print(one_line(f"{ticket.name} ends {ends}{since}{by}{why}"))
    return 0


def _known(client: Client, error: AcquireTimeoutError) -> str:
    """Return what operators see of the holder that *error* names, in brackets; empty for nothing.

    Cost:
        About seven round trips.
    """
    found = None
    with contextlib.suppress(InterlockError):  # the user may lack the rights
        found = _holder_with(client, str(error.name), str(error.holder))
    told = "" if found is None else f"{client_of(found.client, '')} {found.thread}".strip()
    return f" ({told})" if told else ""


def _holder_with(client: Client, name: str, holder: str) -> HolderInfo | None:
    """Return what operators see of *holder*; None if it does not hold the lock *name*."""
    info = client.describe(name)
    found = () if info is None else info.holders
    return next((each for each in found if each.holder == holder), None)
