"""`interlock why`: all that is known about one lock, in plain sentences."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock._core.model.foreign_text import safe
from interlock.cli.arguments import add_url, open_reader
from interlock.cli.status import Status
from interlock.inspection.why import account_of, word_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

DESCRIPTION = """\
Say in plain sentences who holds the lock NAME and since when, whether that process is alive, who
waits, and what to do now, with the commands to type. Nothing is changed.
"""

EPILOG = """\
exit status:
    0   somebody holds or awaits it
    1   nobody does
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    parser.add_argument("name", metavar="NAME", help="the name of the lock")
    add_url(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Print the paragraph, and return the exit status."""
    name = given["name"]
    with open_reader(given, environ) as reader:
        info, account = account_of(reader, name)
    commands = [_with_server(command, given) for command in account.commands]
    if given["json"]:
        told = {
            "name": name,
            "state": account.state,
            "text": account.text,
            "commands": commands,
            "lock": None if info is None else info.as_dict(),
        }
        print(json.dumps(told, indent=2))
    else:
        print(safe(account.text))
        for command in commands:
            print(f"  $ {safe(command)}")
    return Status.FOUND if info is None else 0


def _with_server(command: str, given: Mapping[str, Any]) -> str:
    """Return *command* with the server as *given*, but for a URL that may have a password."""
    ours, word, *rest = command.split(" ", 2)
    if ours != "interlock":
        return command
    url, prefix, options = given["url"], given["prefix"], list[str]()
    if url is not None:
        options += ("--url", "URL" if "@" in url or "?" in url else word_of(url))
    if prefix is not None:
        options += ("--prefix", word_of(prefix))
    return " ".join((ours, word, *options, *rest))
