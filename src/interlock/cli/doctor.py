"""`interlock doctor`: look at servers for whatever endangers locks."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock._links.urls import open_url
from interlock._version import __version__
from interlock.check import Requirements, ServerReport, Severity, examine
from interlock.check.requirements import OPERATIONS, objects
from interlock.check.try_out import try_out
from interlock.cli.arguments import add_prefix, options_of, urls_of
from interlock.cli.status import Status, UsageError
from interlock.sync.client import connect

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from interlock.check import Report

DESCRIPTION = """\
Look at the server for whatever endangers locks: version, role, replicas, eviction, persistence, the
rights of the user, latency and more. Say what was found, how bad that is and what to do,
and print the line of an ACL file for a user that may do what locks need and nothing more.

Nothing on the server is changed. With --try, two clients contend for a lock that nobody else uses.
"""

EPILOG = """\
exit status:
    0   nothing worse than a warning was found
    1   an error was found
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    add = parser.add_argument
    told = (
        "the server (default: $INTERLOCK_URL, $REDIS_URL, else one of this machine's own); "
        "several times: each of them; of a cluster every primary"
    )
    add("--url", dest="urls", action="append", metavar="URL", help=told)
    told = (
        f"what the application uses, several times for several: {', '.join(objects())}, or all of "
        "them (default: lock); `interlock run` needs fenced_lock; cards for those that operators "
        "read; operator for interlock list, why and, with the locks' kinds, break"
    )
    kinds = (*objects(), *OPERATIONS, "all")
    add("--for", dest="objects", action="append", choices=kinds, metavar="OBJECT", help=told)
    told = "how its objects are called: a name, or the beginning of names and * (default: *)"
    add("--names", default="*", metavar="NAMES", help=told)
    add_prefix(parser)
    told = (
        "let two clients play refuse, wake, grant, renew and expire on a throw-away name, and say "
        "what this server did"
    )
    add("--try", action="store_true", help=told)
    add("--json", action="store_true", help="print everything as one JSON object")


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Look, print what was found, and return the exit status."""
    chosen = given["objects"] or ["lock"]
    kinds = tuple(objects()) if "all" in chosen else tuple(chosen)
    requirements = Requirements(kinds, given["names"])
    urls, options = given["urls"] or urls_of(environ) or (None,), options_of(given, environ)
    opened = [open_url(url, options) for url in urls]
    servers = dict(zip(urls, [each for each, _ in opened], strict=True))
    if len({each.prefix for _, each in opened}) > 1:
        raise UsageError("the URLs have several prefixes: look at them one by one")
    options = opened[0][1]
    report = examine(servers.values(), replace(requirements, options=options))
    if given["try"] and report.reached:
        for url, each in servers.items():
            scenes = try_out(partial(connect, url, options=options), given["names"])
            tried = ServerReport(f"two clients of {each.where}", reached=True, findings=scenes)
            report = replace(report, servers=(*report.servers, tried))
    # The rights are of no use to those who have no server yet.
    text = (
        _text(report, chosen, (options.prefix or "") + given["names"])
        if report.reached
        else str(report)
    )
    print(json.dumps(report.as_dict(), indent=2) if given["json"] else text)
    if not report.reached:
        return Status.UNAVAILABLE
    return Status.FOUND if report.worst >= Severity.ERROR else 0


def _text(report: Report, objects: Sequence[str], names: str) -> str:
    line = (
        f"A user with all the rights of {', '.join(objects)} under {names!r}, and no others (--for "
        f"cards adds those to write cards, and --for operator those to read them):\n{report.acl}"
    )
    if report.tenant:
        line += (
            "\n\nA user that may do everything with the keys and channels of that prefix, and nothing "
            f"with those of others:\n{report.tenant}"
        )
    return f"{report}\n\ninterlock {__version__} on {report.program}\n\n{line}"
