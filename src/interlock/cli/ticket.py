"""`interlock ticket`: hold a lock without a process."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from argparse import RawDescriptionHelpFormatter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli.arguments import add_url, duration, lease, open_client, open_reader
from interlock.cli.status import Status, UsageError, one_line, say, user
from interlock.errors import AcquireTimeoutError, NotHeldError
from interlock.inspection import words
from interlock.options import check_lease, check_reason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from interlock import Client, Ticket

DESCRIPTION = """\
Hold a lock without a process. `acquire` locks NAME, prints a ticket and exits. The lock stays
locked until the ticket is released or its lease ends. `extend`, `status` and `release` take the
ticket, on any machine. It is the same lock as client.lock(NAME) in Python and `interlock run NAME`.
"""

EPILOG = """\
Everybody who has the ticket can release the lock. With --ticket-file it is in a file that only you
can read, in place of what was there, and nothing is printed.

exit status:
    0   acquire: the lock is held, and the ticket written; else the ticket is good, or was released
    1   acquire: somebody else holds it, or it was lost before the ticket was written; else the
        ticket is over: released, used, ended or broken. stderr says who holds the lock
   74   the ticket could not be written; the lock is free again
"""

_LONGEST = 100_000
"""Characters of a ticket that are read."""
_TO_WRITE = 30.0
"""Seconds for which a ticket that is not written yet is good, at most."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command and its four words."""
    words = parser.add_subparsers(dest="word", metavar="WORD", required=True)
    added: dict[str, argparse.ArgumentParser] = {}
    for word, summary in (
        ("acquire", "lock NAME, write a ticket, and exit"),
        ("extend", "let the ticket be good for so long from now on"),
        ("status", "tell whether the ticket is still good, and for how long"),
        ("release", "release the lock of the ticket"),
    ):
        added[word] = words.add_parser(
            word,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    add = added["acquire"].add_argument
    add("name", metavar="NAME", help="the name of the lock")
    wait = "wait so long for the lock (default: try once)"
    add("-w", "--wait", type=duration, default=0.0, metavar="TIME", help=wait)
    add("--reason", default="", metavar="TEXT", help="why; `interlock list` and `why` tell it")
    add("--ticket-file", metavar="FILE", help="write the ticket to FILE, with mode 600")
    for word, each in added.items():
        if word in ("acquire", "extend"):
            good = "how long the ticket is good for, from now on (default: 10m)"
            each.add_argument("--lease", type=lease, default="10m", metavar="TIME", help=good)
        if word != "acquire":
            where = "the file that has the ticket; - is stdin"
            each.add_argument("--ticket-file", required=True, metavar="FILE", help=where)
        add_url(each)


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Do what the word says, and return the exit status."""
    word = given["word"]
    reason = check_reason(given.get("reason", ""))
    text = "" if word == "acquire" else _read(given["ticket_file"])
    with open_client(given, environ) as client:
        try:
            if word == "acquire":
                return _acquire(client, given, reason)
            ticket = client.ticket(text)
            if word == "status":
                return _status(client, ticket, given, environ)
            if word == "extend":
                _extend(client, ticket, given["lease"])
            else:
                ticket.release()
        except (AcquireTimeoutError, NotHeldError) as error:
            say(str(error))
            return Status.CONFLICT
    return 0


def _acquire(client: Client, given: Mapping[str, Any], reason: str) -> int:
    """Lock, and write the ticket; if that fails, free the lock: nobody could release it."""
    wanted: float | timedelta = given["lease"]
    with client.fenced_lock(given["name"], timeout=timedelta(seconds=given["wait"])) as hold:
        # If this process dies before the ticket is written, this short lease ends it.
        ticket = hold.hand_over(lease=min(check_lease(wanted), _TO_WRITE))
    try:
        ticket.announce(wanted, reason, who=f"{user()}@{socket.gethostname()}")
        _write(str(ticket), given["ticket_file"])
    except BaseException as error:
        ticket.release()  # an error of this is told instead: the lock may not be free
        if not isinstance(error, OSError):
            raise
        say(f"the ticket could not be written, so the lock is free again: {error}")
        return Status.OUTPUT
    ticket.extend(wanted)
    return 0


def _extend(client: Client, ticket: Ticket, wanted: float | timedelta) -> None:
    """Let *ticket* be good for *wanted* seconds, and tell operators so."""
    ticket.extend(wanted)
    info = client.describe(ticket.name)
    for each in () if info is None else info.holders:
        if each.holder == ticket.holder:
            held_for = each.held_for or 0.0
            ticket.announce(wanted, each.thread, who=each.client.host, held_for=held_for)


def _status(
    client: Client, ticket: Ticket, given: Mapping[str, Any], environ: Mapping[str, str]
) -> int:
    info = client.describe(ticket.name)
    holders = () if info is None else info.holders
    holder = next((each for each in holders if each.holder == ticket.holder), None)
    if holder is None:
        with open_reader(given, environ) as reader:
            reason = reader.note(ticket.name, ticket.holder)
        how = "it was released or used, or its lease has ended"
        if reason:
            how = f"an operator broke it: {reason}"
        now = ", ".join(each.holder for each in holders) or "nobody"
        say(f"{ticket.name!r} is not held by this ticket: {how} (held by {now})")
        return Status.CONFLICT
    ends = "never" if holder.remaining is None else f"in {words.duration(holder.remaining)}"
    print(
        one_line(
            f"{ticket.name} ends {ends}: {words.called(holder.client, holder.thread, holder.holder)}"
        )
    )
    return 0


def _read(path: str) -> str:
    """Return the ticket in the file *path*; ``-`` is stdin."""
    try:
        if path == "-":
            return sys.stdin.read(_LONGEST).strip()
        with Path(path).open(encoding="utf-8") as file:
            return file.read(_LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the ticket: {error}") from error


def _write(ticket: str, path: str | None) -> None:
    """Print *ticket*, or write it to the file *path*, which has the old text or the whole new one."""
    if path is None:
        print(ticket, flush=True)
        return
    target = Path(path)
    file, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(file, "w") as opened:
            opened.write(f"{ticket}\n")
            opened.flush()
            os.fsync(opened.fileno())
        Path(beside).replace(target)
    except OSError:
        Path(beside).unlink()
        raise
