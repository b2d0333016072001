"""The command `interlock`.

Each word of it is a row in `COMMANDS` and a module with ``DESCRIPTION``, ``EPILOG``,
``configure(parser)`` and ``main(given, environ)``.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TextIO

from interlock._version import __version__
from interlock.cli.signals import POSIX
from interlock.cli.status import Status, UsageError, say, signal_status
from interlock.errors import ConfigError, InterlockError, MisuseWarning, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIGPIPE = 13
_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO} if POSIX else {errno.ENOSPC}


class Command(NamedTuple):
    """A word of the command line."""

    module: str
    summary: str


COMMANDS = {
    "run": Command("run", "run a command while holding a lock"),
    "list": Command("listing", "list who holds and awaits what, also live, and deadlocks"),
    "why": Command("why", "say why a lock is as it is, and what to do"),
    "break": Command("breaking", "break one hold of a lock"),
    "ticket": Command("ticket", "hold a lock without a process"),
    "doctor": Command("doctor", "look at a server for whatever endangers locks"),
    "exporter": Command("exporter", "serve Prometheus metrics of all locks"),
    "console": Command("console", "serve web pages of all locks"),
}
_TELLING = ("list", "why", "ticket", "doctor")
"""Those whose result is what they print; `ticket` prints nothing with a file."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are ours to report."""

    def error(self, message: str) -> NoReturn:
        """Raise *message* with a pointer to the help.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Do what the command line says, and return the exit status.

    Args:
        argv: arguments without the program's name; those of this process unless given.
        environ: environment; that of this process unless given.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    environ = os.environ if environ is None else environ
    # Something else may stand in its place, or nothing (pythonw).
    stdout: TextIO | None = sys.stdout
    if reconfigure := getattr(stdout, "reconfigure", None):
        # A name that the terminal cannot show must not end a command that has changed something.
        reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        # A duration may be typed with its unit, and `lease` warns of one without.
        warnings.filterwarnings("ignore", ".*was it meant in milliseconds", MisuseWarning)
        try:
            try:
                return _dispatch(arguments, environ)
            finally:
                # Here an error can still be told; when Python exits it cannot.
                if stdout is not None:
                    stdout.flush()
        except (UsageError, ConfigError, WrongTypeError) as error:
            say(f"{error}{_source(str(error), environ)}")
            return Status.USAGE
        except InterlockError as error:
            say(str(error))
            return Status.UNAVAILABLE
        except BrokenPipeError:
            # Nobody reads any more (`| head`); Python would complain again when it exits.
            _discard_output()
            return signal_status(_SIGPIPE)
        except KeyboardInterrupt:
            return signal_status(signal.SIGINT)
        except Exception as error:  # noqa: BLE001 - Python's own 1 would mean a conflict
            return _unexpected(error)


def _dispatch(arguments: list[str], environ: Mapping[str, str]) -> int:
    word, rest = (arguments or [""])[0], arguments[1:]
    if word not in COMMANDS:
        _answer_without_command(word, arguments[:1])
    command: list[str] | None = None
    if word == "run" and "--" in rest:
        # argparse has changed its mind about "--" several times, and need not read what follows.
        at = rest.index("--")
        rest, command = rest[:at], rest[at + 1 :]
    # Importing all of them would take as long as `interlock run` itself.
    module = import_module(f"{__name__}.{COMMANDS[word].module}")
    given, unknown = parser_of(word, module).parse_known_args(rest)
    if unknown:
        where = ""
        if word == "run" and command is None:
            where = "; the command goes behind --: interlock run NAME -- CMD [ARG...]"
        elif "://" in unknown[0]:
            where = "; a URL goes behind --url"
        raise UsageError(
            f"unknown arguments: {' '.join(unknown)}{where} (see interlock {word} --help)"
        )
    if word == "run":
        given.command = tuple(command or ())
    if sys.stdout is None and word in _TELLING and not getattr(given, "ticket_file", None):
        say(f"stdout is closed: interlock {word} has nowhere to write what it tells")
        return Status.OUTPUT
    return int(module.main(vars(given), environ))


def parser_of(word: str, module: Any) -> Parser:
    """Return the parser of the command *word*, which *module* does."""
    parser = Parser(
        prog=f"interlock {word}",
        description=module.DESCRIPTION,
        epilog=module.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    return parser


def _answer_without_command(word: str, arguments: Sequence[str]) -> None:
    """Print the help or the version, and exit; else raise UsageError."""
    parser = Parser(
        prog="interlock",
        usage="interlock COMMAND [options]",
        description="Distributed locks on Redis and Valkey, from the shell.",
        epilog="commands:\n"
        + "\n".join(f"  {name:<10}{row.summary}" for name, row in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"interlock {__version__}")
    parser.parse_known_args(arguments)
    if word.startswith("-"):
        parser.error(f"{word} goes behind a command: interlock COMMAND [options]")
    wrong = f"there is no command {word!r}" if word else "wanted a command, found none"
    parser.error(f"{wrong}; there are {', '.join(COMMANDS)}")


def _source(message: str, environ: Mapping[str, str]) -> str:
    """Return which variable has the URL that *message* is about; an empty text for none."""
    from interlock._links.options import redact  # noqa: PLC0415 - only a mistake needs it

    for variable in ("INTERLOCK_URL", "REDIS_URL"):
        urls = environ.get(variable, "").split()
        if variable not in message and any(repr(redact(url)) in message for url in urls):
            return f"; the URL is that of {variable}"
    return ""


def _unexpected(error: Exception) -> Status:
    """Tell of *error*, and return the status: the output has no room, or it is a fault of ours."""
    # An error of opening a file names it.
    if isinstance(error, OSError) and error.errno in _CANNOT_WRITE and error.filename is None:
        _discard_output()
        say(f"the output could not be written, but what it tells of is done: {error}")
        return Status.OUTPUT
    sys.excepthook(type(error), error, error.__traceback__)
    return Status.FAULT


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, *_where: object, **_how: object) -> None:
    say(f"warning: {message}")
