"""`interlock doctor`: look at servers for whatever endangers locks."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from interlock._links.urls import open_url
from interlock._version import __version__
from interlock.check import Requirements, ServerReport, Severity, examine
from interlock.check.rights import objects, operations
from interlock.check.try_out import try_out
from interlock.cli.reading import add_credentials, credentials_of
from interlock.cli.status import Status
from interlock.cli.values import urls_of, urls_of_file
from interlock.sync.client import connect

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from interlock.check import Report

DESCRIPTION = """\
Look at the server for whatever endangers locks: version, role, replicas, eviction, persistence,
clocks and more. Say what was found, how bad that is and what to do, and print the line of an ACL
file for a user that may do what locks need and nothing more.

Nothing on the server is changed. With --try, two clients contend for a lock that nobody else uses.
"""

EPILOG = """\
exit status:
    0   nothing worse than a warning was found
    1   an error was found; with --strict, a warning
   64   usage: the command line or the URL is wrong, or no server program is found
   69   a server could not be asked, or refused (password, database)

examples:
  interlock doctor --url rediss://app:secret@db.example:6379/0
  interlock doctor --for fenced_lock                                  # what interlock run needs
  interlock doctor --for fenced_lock --for semaphore --names 'shop:*'
  interlock doctor --try                      # what this server does when two clients contend
  interlock doctor --strict --json
"""


_OPERATIONS = {
    "cards": "To write the cards that operators read, it also needs these. Without them no card is "
    "written, and one line of the log says so. Without +client|setname and +client|setinfo alone "
    "cards are written, but CLIENT LIST shows no name or library:",
    "operator": "To run interlock list, show, top, deadlocks and release, it also needs:",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument(
        "--url",
        dest="urls",
        action="append",
        metavar="URL",
        help="the server (default: $INTERLOCK_URL, $REDIS_URL, else one of this machine's own); "
        "several times: each of them; of a cluster every primary",
    )
    parser.add_argument(
        "--url-file",
        dest="urls",
        action="extend",
        type=urls_of_file,
        metavar="FILE",
        help="read URLs from FILE, one on each line: `ps` shows those of --url to every user",
    )
    add_credentials(parser)
    parser.add_argument(
        "--for",
        dest="objects",
        action="append",
        choices=(*objects(), *operations(), "all"),
        metavar="OBJECT",
        help=f"what the application uses, several times for several: {', '.join(objects())}, "
        "or all of them (default: lock); `interlock run` needs fenced_lock; "
        "cards for those that operators read; "
        "operator for interlock list, show, deadlocks and, with the locks' kinds, release",
    )
    parser.add_argument(
        "--names",
        default="*",
        metavar="NAMES",
        help="how its objects are called: a name, or the beginning of names and * (default: *)",
    )
    parser.add_argument(
        "--try",
        action="store_true",
        help="let two clients refuse, wake, grant, renew and expire a lock for three seconds",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 for a warning too, not only for an error"
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Look, print what was found, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        ConfigError: a URL, objects or names that cannot be.
    """
    chosen = cast("list[str]", given["objects"] or ["lock"])
    requirements = Requirements(
        tuple(objects()) if "all" in chosen else tuple(chosen), str(given["names"])
    )
    urls = cast("list[str]", given["urls"] or urls_of(environ))
    credentials = credentials_of(given, environ)
    servers = {url: open_url(url, credentials) for url in urls or (None,)}
    report = examine(servers.values(), requirements)
    if given["try"] and report.reached:
        tried = [
            ServerReport(
                f"two clients of {reached.where}",
                reached=True,
                findings=try_out(
                    partial(connect, url, credentials=credentials), requirements.names
                ),
            )
            for url, reached in servers.items()
        ]
        report = replace(report, servers=(*report.servers, *tried))
    # The rights are of no use to those who have no server yet.
    text = _text(report, requirements) if report.reached else str(report)
    print(json.dumps(report.as_dict(), indent=2) if given["json"] else text)
    if not report.reached:
        return Status.UNAVAILABLE
    worst = Severity.WARNING if given["strict"] else Severity.ERROR
    return Status.FOUND if report.worst >= worst else 0


def _text(report: Report, requirements: Requirements) -> str:
    about = f"{', '.join(requirements.objects)} under {requirements.name_pattern!r}"
    besides = [
        f"{what}\n{_besides(report.requirements, kind)}"
        for kind, what in _OPERATIONS.items()
        if kind not in requirements.objects
    ]
    line = f"A user with all the rights of {about}, and no others:\n{report.acl}"
    here = f"interlock {__version__} on {report.program}"
    return "\n\n".join((str(report), here, *besides, line))


def _besides(requirements: Requirements, kind: str) -> str:
    """Return the rules that *kind* needs in addition to *requirements*."""
    more = replace(requirements, objects=(*requirements.objects, kind))
    has = set(requirements.acl_line().split())
    return " ".join(rule for rule in more.acl_line().split() if rule not in has)
