"""`interlock acquire`: hold a lock without a process, by a ticket."""

from __future__ import annotations

import contextlib
import getpass
import socket
import sys
from typing import TYPE_CHECKING

import interlock
from interlock.cli.reading import add_url, credentials_of, url_of
from interlock.cli.status import Status, UsageError, say
from interlock.cli.ticket_file import NewFile
from interlock.cli.ticket_status import holder_with
from interlock.cli.values import lease, seconds
from interlock.errors import AcquireTimeoutError, ConfigError, InterlockError, NotHeldError
from interlock.inspection.words import client_of
from interlock.options import check_reason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from interlock import Client, Ticket

LEASE = 600.0
"""Seconds that a ticket is good for, unless another number is given."""

DESCRIPTION = """\
Acquire the lock NAME, print a ticket, and exit. The lock stays locked until the ticket is released
or its lease ends. `interlock renew`, `status` and `release` take the ticket, on any machine.
It is the same lock as client.lock(NAME) in Python and `interlock run NAME`.
"""

EPILOG = """\
Everybody who has the ticket can release the lock. With --ticket-file it is in a file that only you
can read, and nothing is printed. A ticket that was there is replaced if it is over. If it still
holds another lock, or if the file has anything else, it stays and nothing is locked.

exit status:
    0   the lock is held, and the ticket written
    1   somebody else holds it, or it was lost before the ticket was written
   64   usage: the command line, the URL or the file cannot work
   69   the server could not be asked, or refused
   74   the ticket could not be written; the lock is free again

examples:
  interlock acquire deploy --lease 900 --wait 60 --reason 'release 1.7' --ticket-file t
  interlock renew --ticket-file t --lease 900
  interlock release --ticket-file t
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument("name", metavar="NAME", help="the name of the lock")
    parser.add_argument(
        "--lease",
        type=lease,
        default=LEASE,
        metavar="SECS",
        help="how long the ticket is good for, unless it is renewed (default: 600)",
    )
    parser.add_argument(
        "--wait",
        type=seconds,
        default=0.0,
        metavar="SECS",
        help="wait so long for the lock (default: try once)",
    )
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why; `interlock list` and `show` tell it"
    )
    parser.add_argument(
        "--ticket-file", metavar="FILE", help="write the ticket to FILE, with mode 600"
    )
    add_url(parser)


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Acquire the lock, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        UsageError: the file cannot be written, or has what may not be lost.
        ConfigError: a URL, a name or a reason that cannot be.
        ServerUnavailableError: the server could not be asked.
    """
    reason, path = check_reason(str(given["reason"])), given["ticket_file"]
    url, wanted = url_of(given, environ), float(str(given["lease"]))
    file = NewFile(str(path)) if path else None
    try:
        credentials = credentials_of(given, environ)
        with interlock.connect(url, credentials=credentials, card=False) as client:
            if file is not None:
                _check_replaceable(client, file.present(), str(given["name"]), str(path))
            lock = client.fenced_lock(str(given["name"]), timeout=float(str(given["wait"])))
            try:
                with lock as hold:
                    # If this process dies before the ticket is written, this short lease ends it.
                    ticket = client.ticket(hold.hand_over())
            except AcquireTimeoutError as error:
                say(f"{error}{_known(client, error)}")
                return Status.CONFLICT
            return _deliver(client, ticket, file, wanted, reason)
    finally:
        if file is not None:
            file.close()


def _known(client: Client, error: AcquireTimeoutError) -> str:
    """Return what operators see of the holder that *error* names, in brackets; empty for nothing.

    Cost:
        About seven round trips.
    """
    found = None
    with contextlib.suppress(InterlockError):  # the user may lack the rights
        found = holder_with(client, str(error.name), str(error.holder))
    told = "" if found is None else f"{client_of(found.client, '')} {found.thread}".strip()
    return f" ({told})" if told else ""


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
    if ticket.name != name and holder_with(client, ticket.name, ticket.holder) is not None:
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
        ticket.announce(wanted, reason, who=_who())
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


def _who() -> str:
    """Return the holder's name: the user and the machine."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError, ImportError):  # a container's user without a name
        return socket.gethostname()
