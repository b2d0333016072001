"""The command `interlock`.

Each subcommand is a row in `_SUBCOMMANDS` and a module with ``DESCRIPTION``, ``EPILOG``,
``configure(parser)`` and ``main(given, environ)``; that of `run` takes the command, too.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import signal
import sys
import warnings
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

from interlock._version import __version__
from interlock.cli.options import Parser
from interlock.cli.signals import POSIX
from interlock.cli.status import Status, UsageError, say, signal_status
from interlock.errors import ConfigError, InterlockError, MisuseWarning, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_SIGPIPE = 13
_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO} if POSIX else {errno.ENOSPC}


class _Subcommand(NamedTuple):
    summary: str
    module: str


_GROUPS = {
    "hold a lock": {
        "run": _Subcommand("run a command while holding a lock", "run"),
        "acquire": _Subcommand("hold a lock without a process, by a ticket", "acquire"),
        "renew": _Subcommand("let a ticket be good for longer", "renew"),
        "status": _Subcommand("tell whether a ticket is still good", "ticket_status"),
        "release": _Subcommand("release a ticket, or break one hold of a lock", "release"),
    },
    "see locks": {
        "why": _Subcommand("say why a lock is as it is, and what to do", "why"),
        "list": _Subcommand("list who holds and awaits what", "locks_list"),
        "show": _Subcommand("show who holds and awaits one lock", "show"),
        "top": _Subcommand("show the locks with the most trouble, live", "top"),
        "deadlocks": _Subcommand("look for threads that wait for each other", "deadlocks"),
        "console": _Subcommand("serve web pages of all locks", "console"),
        "exporter": _Subcommand("serve Prometheus metrics of all locks", "exporter"),
    },
    "look after servers": {
        "doctor": _Subcommand("look at a server for whatever endangers locks", "doctor"),
    },
}
_SUBCOMMANDS = {name: row for rows in _GROUPS.values() for name, row in rows.items()}


_TELLING = {"acquire", "deadlocks", "doctor", "list", "show", "top", "why"}
"""Those whose result is what they print; `acquire` prints a ticket, unless a file gets it."""
_FLOCK = {"timeout": "wait", "nonblock": "no-wait", "nb": "no-wait"}
"""Options of flock(1), and ours."""
_MEANT = {
    "check": "doctor",
    "exec": "run",
    "lock": "run",
    "locks": "list",
    "ls": "list",
    "ping": "doctor",
    "ps": "list",
    "start": "run",
    "unlock": "release",
    "version": "--version",
    "who": "show",
}
"""What users call a command, and what it is called here."""
_ALONE = ("-h", "--help", "--version")
"""Options without a command."""
_NAMING = {"acquire", "list", "release", "show", "top", "why"}
"""Those that take names of locks, which may begin with ``-``: behind ``--`` they are no options."""


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Do what the command line says, and return the exit status.

    Args:
        argv: arguments without the program's name; those of this process unless given.
        environ: environment; that of this process unless given.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Something else may stand in its place, or nothing (pythonw).
    stdout: TextIO | None = sys.stdout
    if reconfigure := getattr(stdout, "reconfigure", None):
        # A name that the terminal cannot show must not end a command that has changed something.
        reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        # The options of a command say that they are seconds.
        warnings.filterwarnings("ignore", ".*was it meant in milliseconds", MisuseWarning)
        try:
            try:
                return _dispatch(arguments, os.environ if environ is None else environ)
            finally:
                # Here an error can still be told; when Python exits it cannot.
                if stdout is not None:
                    stdout.flush()
        except (UsageError, ConfigError, WrongTypeError) as error:
            say(f"{error}{_source(str(error), os.environ if environ is None else environ)}")
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


def _overview() -> str:
    """Return the subcommands by what they are for, the commonest one first."""
    lines: list[str] = []
    for group, rows in _GROUPS.items():
        lines += ["", f"to {group}:"]
        lines += [f"  {name:<13}{row.summary}" for name, row in rows.items()]
    return "\n".join(lines[1:])


def _unmarked(value: object) -> object:
    """Return *value* of an option without the NUL that marks a name behind ``--``."""
    if isinstance(value, str):
        return value.removeprefix("\0")
    if isinstance(value, list):
        return [_unmarked(each) for each in cast("list[object]", value)]
    return value


def _refuse_unknown_command(arguments: Sequence[str]) -> None:
    """Raise if the first word is no command, and name the one that was meant."""
    word = arguments[0] if arguments else ""
    if not word or word.startswith("-") or word in _SUBCOMMANDS:
        return
    after = next((each for each in arguments[1:] if each in _SUBCOMMANDS), None)
    if word == "help":
        advice = f": use interlock {f'{after} ' if after else ''}--help"
    elif word in _MEANT:
        advice = f": use interlock {_MEANT[word]}"
    elif close := get_close_matches(word, _SUBCOMMANDS, 1):
        advice = f": did you mean interlock {close[0]}?"
    else:
        advice = f"; there are {', '.join(_SUBCOMMANDS)} (see interlock --help)"
    raise UsageError(f"no command {word!r}{advice}")


def _refuse_unknown_option(word: str, parser: argparse.ArgumentParser) -> None:
    """Raise if *word* is an option that *parser* lacks, and name the one that was meant.

    What follows it may be its value, or a name that argparse took for something else. So nothing
    is said of that.
    """
    option = word.partition("=")[0]
    if not option.startswith("--"):
        return
    known = re.findall(r"^  (?:-\w[^,\n]*, )?--([\w-]+)", parser.format_help(), re.MULTILINE)
    ours = {name: name for name in known}
    ours.update((theirs, name) for theirs, name in _FLOCK.items() if name in known)
    if option[2:] in ours:
        advice = f": use --{ours[option[2:]]}"
    elif close := get_close_matches(option[2:], ours, 1):
        advice = f": did you mean --{ours[close[0]]}?"
    else:
        advice = f" (see {parser.prog} --help)"
    raise UsageError(f"unknown option {option}{advice}")


def _parsers(
    arguments: Sequence[str],
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser, Any]:
    """Return the parser of the whole command line, that of the subcommand, and its module."""
    parser = Parser(
        prog="interlock",
        description="Distributed locks on Redis and Valkey, from the shell.",
        epilog=_overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"interlock {__version__}")
    subparsers = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    # Importing all of them would take as long as `interlock run` itself.
    named = next((word for word in arguments if not word.startswith("-")), None)
    module = (
        import_module(f"{__name__}.{_SUBCOMMANDS[named].module}") if named in _SUBCOMMANDS else None
    )
    chosen: argparse.ArgumentParser = parser
    for name in _SUBCOMMANDS:
        subparser = subparsers.add_parser(name, allow_abbrev=False)
        if module is not None and name == named:
            subparser.description = module.DESCRIPTION
            subparser.epilog = module.EPILOG
            subparser.formatter_class = argparse.RawDescriptionHelpFormatter
            module.configure(subparser)
        if name == named:
            chosen = subparser
    return parser, chosen, module


def _place(word: str, parser: argparse.ArgumentParser, command: list[str] | None) -> str:
    """Return where *word* belongs, which *parser* does not take; an empty text if nobody knows."""
    options, is_run = parser.format_usage(), parser.prog.endswith(" run")
    if "://" in word and "--url " in options:
        return "; a URL goes behind --url"
    if is_run and command is None:
        return "; the command goes behind --: interlock run NAME -- CMD [ARG...]"
    if is_run:
        return "; there is one NAME"
    return (
        "; a ticket goes behind --ticket, and interlock show NAME tells of a lock"
        if "--ticket " in options
        else ""
    )


def _dispatch(arguments: list[str], environ: Mapping[str, str]) -> int:
    # argparse has changed its mind about "--" several times. We need not read what follows it.
    command = None
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1 :]
        if any(word in _NAMING for word in arguments[:1]):
            # No word of a command line has a NUL, and none with it looks like an option.
            arguments, command = [*arguments, *(f"\0{word}" for word in command)], None
    _refuse_unknown_command(arguments)
    parser, chosen, module = _parsers(arguments)
    if arguments and arguments[0].startswith("-") and arguments[0] not in _ALONE:
        raise UsageError(f"{arguments[0]} goes behind a command: interlock COMMAND [options]")
    found, unknown = parser.parse_known_args(arguments)
    given = {name: _unmarked(value) for name, value in vars(found).items()}
    subcommand = str(given.pop("subcommand"))
    if unknown:
        _refuse_unknown_option(unknown[0], chosen)
        words = " ".join(unknown).replace("\0", "")
        raise UsageError(f"unknown arguments: {words}{_place(unknown[0], chosen, command)}")
    assert module is not None, "argparse takes no other words"
    if subcommand in _TELLING and sys.stdout is None and not given.get("ticket_file"):
        say(f"stdout is closed: interlock {subcommand} has nowhere to write what it tells")
        return Status.OUTPUT
    if subcommand == "run":
        return int(module.main(given, command, environ))
    if command is not None:
        raise UsageError(
            f"interlock {subcommand} runs no command: leave out -- and what follows it"
        )
    return int(module.main(given, environ))
