"""The command line: one command for each question."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import uncontended
from benchmarks.report import as_json, as_table

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {"uncontended": uncontended}


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and print its report; 1 when a peer ended in an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.__doc__, description=module.__doc__)
        module.configure(command)
        command.add_argument(
            "--json",
            nargs="?",
            const="-",
            metavar="FILE",
            help="write JSON to FILE as well; without FILE to standard output instead of the table",
        )
    arguments = parser.parse_args(words)
    report = COMMANDS[arguments.command].run(arguments)
    text = json.dumps(as_json(report), indent=2)
    if arguments.json not in (None, "-"):
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    print(text if arguments.json == "-" else as_table(report))
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
