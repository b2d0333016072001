"""The command `interlock`.

Each subcommand is a module with ``configure(parser)`` and ``main(given, command, environ)``, and a row in
`_SUBCOMMANDS`.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, NamedTuple

from interlock._version import __version__
from interlock.cli import (
    console,
    deadlocks,
    doctor,
    exporter,
    locks_list,
    release,
    run,
    show,
)
from interlock.cli.options import Parser
from interlock.cli.signals import POSIX
from interlock.cli.status import Status, UsageError, say, signal_status
from interlock.errors import ConfigError, InterlockError, WrongTypeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence


_SIGPIPE = 13


class _Subcommand(NamedTuple):
    summary: str
    configure: Callable[[argparse.ArgumentParser], None]
    main: Callable[[Mapping[str, object], Sequence[str] | None, Mapping[str, str]], int]


_SUBCOMMANDS = {
    "deadlocks": _Subcommand(
        "look for threads that wait for each other", deadlocks.configure, deadlocks.main
    ),
    "doctor": _Subcommand(
        "look at a server for whatever endangers locks", doctor.configure, doctor.main
    ),
    "console": _Subcommand("serve web pages of all locks", console.configure, console.main),
    "exporter": _Subcommand(
        "serve Prometheus metrics of all locks", exporter.configure, exporter.main
    ),
    "list": _Subcommand("list who holds and awaits what", locks_list.configure, locks_list.main),
    "release": _Subcommand("break one hold of a lock", release.configure, release.main),
    "show": _Subcommand("show who holds and awaits one lock", show.configure, show.main),
    "run": _Subcommand("run a command while holding a lock", run.configure, run.main),
}
if POSIX:  # Windows lacks what the embedded server needs
    from interlock.cli import server

    _SUBCOMMANDS["server"] = _Subcommand(
        "install, look at or stop the embedded server", server.configure, server.main
    )


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Do what the command line says, and return the exit status.

    Args:
        argv: arguments without the program's name; those of this process unless given.
        environ: environment; that of this process unless given.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            return _dispatch(arguments, os.environ if environ is None else environ)
        except (UsageError, ConfigError, WrongTypeError) as error:
            say(str(error))
            return Status.USAGE
        except InterlockError as error:
            say(str(error))
            return Status.UNAVAILABLE
        except BrokenPipeError:
            # Nobody reads any more (`| head`); Python would complain again when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return signal_status(_SIGPIPE)


def _show_warning(message: Warning | str, *_where: object, **_how: object) -> None:
    say(f"warning: {message}")


def _dispatch(arguments: list[str], environ: Mapping[str, str]) -> int:
    # argparse has changed its mind about "--" several times; what follows it is not for us to read anyway.
    command = None
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1 :]
    parser = Parser(
        prog="interlock",
        description="Distributed locks on Redis and Valkey, from the shell.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"interlock {__version__}")
    subparsers = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, row in _SUBCOMMANDS.items():
        row.configure(subparsers.add_parser(name, help=row.summary, allow_abbrev=False))
    found, unknown = parser.parse_known_args(arguments)
    given: dict[str, object] = vars(found)
    subcommand = str(given.pop("subcommand"))
    if unknown:
        hint = (
            ""
            if command or subcommand != "run"
            else "; the command goes behind --: interlock run NAME -- CMD [ARG...]"
        )
        raise UsageError(f"unknown arguments: {' '.join(unknown)}{hint}")
    return _SUBCOMMANDS[subcommand].main(given, command, environ)
