"""`interlock renew`: let a ticket be good for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import interlock
from interlock.cli.acquire import LEASE
from interlock.cli.reading import add_url, credentials_of, url_of
from interlock.cli.status import Status, say
from interlock.cli.ticket_file import add_ticket, ticket_of
from interlock.cli.ticket_status import holder_with
from interlock.cli.values import lease
from interlock.errors import NotHeldError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

DESCRIPTION = """\
Let the lock that a ticket of `interlock acquire` stands for end in SECS from now. The ticket stays
the same.
"""

EPILOG = """\
exit status:
    0   the ticket is good for SECS from now
    1   it is over: released, used, ended or broken; stderr says who holds the lock
   64   usage: the command line, the URL or the ticket is wrong
   69   the server could not be asked, or refused
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument(
        "--lease",
        type=lease,
        default=LEASE,
        metavar="SECS",
        help="how long the ticket is good for from now on (default: 600)",
    )
    add_ticket(parser)
    add_url(parser)


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Renew the ticket, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        UsageError: there is no ticket.
        ConfigError: a URL or a ticket that cannot be.
        ServerUnavailableError: the server could not be asked.
    """
    text, wanted = ticket_of(given), float(str(given["lease"]))
    with interlock.connect(
        url_of(given, environ), credentials=credentials_of(given, environ), card=False
    ) as client:
        ticket = client.ticket(text)
        try:
            ticket.renew(wanted)
        except NotHeldError as error:
            say(str(error))
            return Status.CONFLICT
        if (holder := holder_with(client, ticket.name, ticket.holder)) is not None:
            ticket.announce(
                wanted,
                holder.thread,
                who=holder.client.host,
                held_for=holder.held_for or 0.0,
            )
    return 0
