"""`interlock status`: whether a ticket is still good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import interlock
from interlock.cli.reading import add_url, credentials_of, url_of
from interlock.cli.status import Status, one_line, say
from interlock.cli.ticket_file import add_ticket, ticket_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from interlock.inspection.info import HolderInfo

DESCRIPTION = """\
Tell whether the ticket of `interlock acquire` still holds its lock, and for how long.
"""

EPILOG = """\
exit status:
    0   it holds the lock
    1   it does not: released, used, ended or broken; stderr says who holds the lock
   64   usage: the command line, the URL or the ticket is wrong
   69   the server could not be asked, or refused
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    add_ticket(parser)
    add_url(parser)


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Print the state of the ticket, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        UsageError: there is no ticket.
        ConfigError: a URL or a ticket that cannot be.
        ServerUnavailableError: the server could not be asked.
    """
    text = ticket_of(given)
    with interlock.connect(
        url_of(given, environ), credentials=credentials_of(given, environ), card=False
    ) as client:
        ticket = client.ticket(text)
        holder = holder_with(client, ticket.name, ticket.holder)
        if holder is None:
            info = client.describe(ticket.name)
            present = ", ".join(each.holder for each in info.holders) if info else ""
            say(
                f"{ticket.name!r} is not held by this ticket: it was released or used,"
                f" or its lease has ended (held by {present or 'nobody'})"
            )
            return Status.CONFLICT
    since = "" if holder.held_for is None else f", held for {holder.held_for:.0f} s"
    by = f", by {holder.client.host}" if holder.client.host else ""
    why = f": {holder.thread}" if holder.thread else ""
    ends = "never" if holder.remaining is None else f"in {holder.remaining:.0f} s"
    print(one_line(f"{ticket.name} ends {ends}{since}{by}{why}"))
    return 0


def holder_with(client: interlock.Client, name: str, holder: str) -> HolderInfo | None:
    """Return what operators see of *holder*; None if it does not hold the lock *name*."""
    info = client.describe(name)
    found = () if info is None else info.holders
    return next((each for each in found if each.holder == holder), None)
