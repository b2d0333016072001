"""`interlock deadlocks`: threads and tasks that wait for each other in a ring, in all processes."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from interlock._links.urls import open_url
from interlock.cli.locks_list import add_url, url_of
from interlock.cli.status import Status, UsageError
from interlock.cli.table import client_of, clock_time, safe
from interlock.inspection import Reader
from interlock.inspection.deadlocks import find_deadlocks
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DESCRIPTION = """\
Look for deadlocks: threads and tasks, in any processes, each of which waits for a lock that the
next one holds. A suspected one is looked at again for some seconds, until it is certain or gone.
"""

EPILOG = """\
Deadlocks are found by the cards that Python's clients write. Locks that Java holds end the search.

exit status:
    0   there is none
    1   there are some
   64   usage: the command line or the URL is wrong
   69   a server could not be asked, or refused
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_url(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object for each line")


def main(
    given: Mapping[str, object], command: Sequence[str] | None, environ: Mapping[str, str]
) -> int:
    """Print the deadlocks, and return the exit status.

    Args:
        given: option -> value, from the command line.
        command: what stood behind ``--``; None if there was none.
        environ: for the URL.

    Raises:
        UsageError: a command, which there cannot be.
        ConfigError: a URL that cannot be.
        ServerUnavailableError: a server could not be asked.
    """
    if command is not None:
        raise UsageError("interlock deadlocks runs no command: leave out -- and what follows it")
    with Reader(open_url(url_of(given, environ)), Options()) as reader:
        found = find_deadlocks(reader)
    for deadlock in found:
        if given["json"]:
            print(json.dumps(deadlock.as_dict()))
            continue
        print(f"deadlock of {len(deadlock.steps)}:")
        for step in deadlock.steps:
            who = safe(f"{client_of(step.client, step.client.client_id)} {step.thread}")
            print(f"  {who} has waited {clock_time(step.waited)} for {safe(step.waits_for)!r}")
            print(f"      held by {safe(step.held_by)}")
    return Status.FOUND if found else 0
