"""The command `interlock`.

Each of its words is a row in `COMMANDS` and a module with ``DESCRIPTION``, ``EPILOG``,
``configure(parser)`` and ``main(given, environ)``, which returns the exit status. The errors that it
raises are reported here: UsageError, and those of the library.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, TextIO

from interlock._version import __version__
from interlock.cli.status import Status, UsageError, say
from interlock.errors import ConfigError, InterlockError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIGPIPE = 13
COMMANDS = {
    "run": ("run", "run a command while holding a lock"),
    "list": ("listing", "list who holds and awaits what, also live, and deadlocks"),
    "why": ("why", "say why a lock is as it is, and what to do"),
    "break": ("breaking", "break one hold of a lock"),
    "ticket": ("ticket", "hold a lock without a process"),
    "doctor": ("doctor", "look at a server for whatever endangers locks"),
    "exporter": ("exporter", "serve Prometheus metrics of all locks"),
    "console": ("console", "serve web pages of all locks"),
}
"""Word -> its module, and what it is for."""
EVERY_STATUS = """\
exit status of every command:
   64   usage: the command line, the URL or the name is wrong
   69   a server could not be asked, or refused (password, database, rights)
   71   interlock itself failed, and printed a traceback
   74   the output could not be written
"""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are ours to report."""

    def error(self, message: str) -> NoReturn:
        """Raise *message* with a pointer to the help."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def parser_with(word: str) -> Parser:
    """Return the parser of the command line, which knows the options of the command *word*.

    To import the modules of all commands would take as long as `interlock run` itself.
    """
    parser = Parser(
        prog="interlock",
        description="Distributed locks on Redis and Valkey, from the shell.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"interlock {__version__}")
    words = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module_name, summary) in COMMANDS.items():
        form = argparse.RawDescriptionHelpFormatter
        each = words.add_parser(name, help=summary, formatter_class=form, allow_abbrev=False)
        if name == word:
            module = import_module(f"{__name__}.{module_name}")
            each.description = module.DESCRIPTION
            each.epilog = f"{module.EPILOG}\n{EVERY_STATUS}"
            each.set_defaults(main=module.main)
            module.configure(each)
    return parser


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Do what *argv* says, that of this process unless given, and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Something else may stand in its place, or nothing (pythonw).
    output: TextIO | None = sys.stdout
    if isinstance(output, io.TextIOWrapper):
        # A name that the terminal cannot show must not end a command that has changed something.
        output.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status = _dispatch(arguments, os.environ if environ is None else environ)
            if output is not None:
                output.flush()  # an error can still be reported; when Python exits it cannot
        except (UsageError, ConfigError, WrongTypeError) as error:
            say(str(error))
            return Status.USAGE
        except InterlockError as error:
            say(str(error))
            return Status.UNAVAILABLE
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except Exception as error:  # noqa: BLE001 - Python's own 1 would mean a conflict
            return _unexpected(error)
    return status


def _show_warning(message: Warning | str, *_where: object, **_how: object) -> None:
    say(f"warning: {message}")


def _dispatch(arguments: list[str], environ: Mapping[str, str]) -> int:
    word = arguments[0] if arguments else ""
    command: list[str] = []
    if word == "run" and "--" in arguments:
        # argparse has changed its mind about "--" several times, and need not read what follows.
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1 :]
    namespace, unknown = parser_with(word).parse_known_args(arguments)
    if unknown:
        wrong = next((each for each in unknown if each.startswith("-")), "")
        found = f"unknown arguments: {' '.join(unknown)}"
        if wrong and "--" not in arguments:  # what follows a misspelt option is its value
            found = f"there is no option {wrong.partition('=')[0]}"
        elif word == "run":
            found += "; the command goes behind --: interlock run NAME -- CMD"
        raise UsageError(f"{found} (see interlock {word} --help)")
    given = vars(namespace)
    run = given.pop("main")
    if command:
        given["command"] = tuple(command)
    return int(run(given, environ))


def _unexpected(error: Exception) -> int:
    """Report *error*, and return the status: the output is closed or full, or a fault of ours."""
    # An error of opening a file has the file's name.
    number = error.errno if isinstance(error, OSError) and error.filename is None else None
    if number not in (errno.EPIPE, errno.ENOSPC):
        sys.excepthook(type(error), error, error.__traceback__)
        return Status.FAULT
    # Python would write the rest when it exits, and complain again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if number == errno.EPIPE:  # nobody reads any more (`| head`)
        return 128 + _SIGPIPE
    say(f"the output could not be written, but the command has done its work: {error}")
    return Status.OUTPUT
