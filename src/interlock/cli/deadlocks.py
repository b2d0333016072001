"""`interlock deadlocks`: threads and tasks that wait for each other in a ring, in all processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock._core.model.foreign_text import safe
from interlock.cli.reading import add_url, open_reader
from interlock.cli.status import Status, say
from interlock.cli.table import clock_time
from interlock.errors import ServerUnavailableError
from interlock.inspection.deadlocks import check_seen, find_deadlocks
from interlock.inspection.words import client_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

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
   69   a server could not be asked, or refused; or none was found, and not all could be read
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    add_url(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object for each line")


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Print the deadlocks, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        ConfigError: a URL that cannot be.
        ServerUnavailableError: a server could not be asked.
    """
    with open_reader(given, environ) as reader:
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
    try:
        check_seen(reader)
    except ServerUnavailableError as error:
        say(str(error))
        return Status.FOUND if found else Status.UNAVAILABLE
    return Status.FOUND if found else 0
