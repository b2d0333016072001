"""The options of `interlock run`: one row each, from the command line or from INTERLOCK_ variables.

A new option is a row in `OPTIONS` and a field of `RunOptions`. Its variable, its place in the help
and its errors follow from the row. Rows that fill the same field exclude each other.

The command line is read first and wins. A variable is looked at only for a field that the command
line left open. So a bad value in the environment can be overridden.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from interlock.cli.status import UsageError
from interlock.cli.values import (
    Limit,
    Mode,
    OnLost,
    boolean,
    exit_code,
    lease,
    limit,
    on_lost,
    positive_seconds,
    seconds,
    urls_of_file,
)
from interlock.credentials import FileCredentials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `interlock run` was asked for; durations in seconds, None where there is no bound."""

    name: str
    command: tuple[str, ...] = ()
    shell_text: str | None = None
    urls: Sequence[str] = ()
    wait: float | None = None
    mode: Mode | Limit = Mode.PLAIN
    conflict_exit_code: int = 1
    lease: float | None = None
    min_hold: float = 0.0
    max_hold: float | None = None
    on_lost: OnLost = OnLost.TERM
    kill_after: float = 5.0
    verbose: bool = False
    credentials: FileCredentials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: its names, the field that it fills, and how.

    Attributes:
        flags: the names on the command line, the long one last.
        field: of `RunOptions`.
        help: one sentence.
        metavar: what its value is called; None for a flag, which takes none.
        parse: turns the text of a value into the value.
        constant: what a flag stands for.
        repeatable: several values are wanted, in a variable separated by blanks.
    """

    flags: tuple[str, ...]
    field: str
    help: str
    metavar: str | None = None
    parse: Callable[[str], object] = str
    constant: object = True
    repeatable: bool = False

    @property
    def variable(self) -> str:
        """Name the environment variable that stands for this option."""
        return "INTERLOCK_" + self.flags[-1].removeprefix("--").replace("-", "_").upper()

    def from_text(self, text: str) -> object:
        """Return the value that *text* in the environment stands for; None: as if not given.

        Raises:
            argparse.ArgumentTypeError: for a text that stands for nothing.
        """
        if self.metavar is None:
            return self.constant if boolean(text) else None
        if self.repeatable:
            return [self.parse(part) for part in text.split()]
        return self.parse(text)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are ours to report."""

    def error(self, message: str) -> NoReturn:
        """Raise *message* with a pointer to the help.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message} (see {self.prog} --help)")


OPTIONS = (
    Option(
        flags=("-n", "--no-wait"),
        field="wait",
        constant=0.0,
        help="do not wait for the lock: try once",
    ),
    Option(
        flags=("-w", "--wait"),
        field="wait",
        metavar="SECS",
        parse=seconds,
        help="wait so long for the lock (default: for ever)",
    ),
    Option(
        flags=("-s", "--shared"),
        field="mode",
        constant=Mode.SHARED,
        help="hold it together with others who also say -s (a read lock)",
    ),
    Option(
        flags=("-x", "--exclusive"),
        field="mode",
        constant=Mode.EXCLUSIVE,
        help="hold it alone, where others say -s (a write lock)",
    ),
    Option(
        flags=("--fair",),
        field="mode",
        constant=Mode.FAIR,
        help="hold it alone, first come, first served, where all say --fair",
    ),
    Option(
        flags=("--limit",),
        field="mode",
        metavar="N",
        parse=limit,
        help="be one of N who run at a time (a semaphore)",
    ),
    Option(
        flags=("-E", "--conflict-exit-code"),
        field="conflict_exit_code",
        metavar="STATUS",
        parse=exit_code,
        help="exit with STATUS when the lock was not got (default: 1; 0 also says nothing)",
    ),
    Option(
        flags=("-c", "--command"),
        field="shell_text",
        metavar="TEXT",
        help="run TEXT in $SHELL (default: /bin/sh) instead of CMD",
    ),
    Option(
        flags=("--lease",),
        field="lease",
        metavar="SECS",
        parse=lease,
        help="keep others out so long should this machine die; "
        "renewed while CMD runs (default: 30)",
    ),
    Option(
        flags=("--min-hold",),
        field="min_hold",
        metavar="SECS",
        parse=seconds,
        help="hold the lock at least so long, even if CMD ends sooner",
    ),
    Option(
        flags=("--max-hold",),
        field="max_hold",
        metavar="SECS",
        parse=positive_seconds,
        help="stop CMD after so long",
    ),
    Option(
        flags=("--on-lost",),
        field="on_lost",
        metavar="term|kill|warn",
        parse=on_lost,
        help="when the lock is lost: stop CMD, kill it at once, or only say so (default: term)",
    ),
    Option(
        flags=("--kill-after",),
        field="kill_after",
        metavar="SECS",
        parse=seconds,
        help="kill a CMD that does not stop within so long (default: 5)",
    ),
    Option(
        flags=("--url",),
        field="urls",
        metavar="URL",
        repeatable=True,
        help="the server (default: $INTERLOCK_URL, $REDIS_URL, else one of this machine's own);"
        " several times: hold a majority of independent servers",
    ),
    Option(
        flags=("--url-file",),
        field="urls",
        metavar="FILE",
        parse=urls_of_file,
        help="read URLs from FILE, one on each line: `ps` shows those of --url to every user",
    ),
    Option(
        flags=("--credentials-file",),
        field="credentials",
        metavar="FILE",
        parse=FileCredentials,
        help="a password, or a user and a password in two lines, read again when FILE changes",
    ),
    Option(
        flags=("-v", "--verbose"),
        field="verbose",
        help="say how long the wait for the lock was, and for whom",
    ),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* every option, without defaults: what is missing may be in the environment."""
    fields = [option.field for option in OPTIONS]
    groups = {
        field: parser.add_mutually_exclusive_group() if fields.count(field) > 1 else parser
        for field in fields
    }
    for option in OPTIONS:
        target = groups[option.field]
        shown = f"{option.help} [{option.variable}]"
        if option.metavar is None:
            target.add_argument(
                *option.flags,
                dest=option.field,
                action="store_const",
                const=option.constant,
                default=argparse.SUPPRESS,
                help=shown,
            )
        else:
            target.add_argument(
                *option.flags,
                dest=option.field,
                action="append" if option.repeatable else "store",
                type=option.parse,
                metavar=option.metavar,
                default=argparse.SUPPRESS,
                help=shown,
            )


def from_environment(given: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """Return *given* and, for each field missing in it, what its variable in *environ* says.

    An empty variable counts as none.

    Raises:
        UsageError: for a value that cannot be read, and for two variables that exclude each other.
    """
    found: dict[str, object] = {}
    source: dict[str, str] = {}
    for option in OPTIONS:
        text = environ.get(option.variable, "")
        if option.field in given or not text:
            continue
        try:
            value = option.from_text(text)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{option.variable}: {error}") from error
        if value is None:
            continue
        if option.field in source:
            raise UsageError(f"{option.variable} and {source[option.field]} exclude each other")
        found[option.field], source[option.field] = value, option.variable
    return {**given, **found}


def run_options(
    given: Mapping[str, object], command: Sequence[str] | None, environ: Mapping[str, str]
) -> RunOptions:
    """Return the options of a run, checked together.

    Args:
        given: field -> value, what the command line says.
        command: what stood behind ``--``; None if there was none.
        environ: the environment.

    Raises:
        UsageError: for what cannot be done.
    """
    if command:
        given = {
            "shell_text": None,
            **given,
        }  # a command given here outweighs one in the environment
    fields = from_environment(given, environ)
    options = RunOptions(**fields, command=tuple(command or ()))  # type: ignore[arg-type]
    if options.command and options.shell_text is not None:
        raise UsageError("wanted one command, found two: give -c TEXT or -- CMD, not both")
    if not options.command and options.shell_text is None:
        raise UsageError(
            "wanted a command, found none: interlock run [options] NAME -- CMD [ARG...]"
        )
    if len(set(options.urls)) < len(options.urls):
        raise UsageError("the same --url twice: a majority needs independent servers")
    if len(options.urls) > 1 and options.mode is not Mode.PLAIN:
        raise UsageError(
            f"wanted one --url, found {len(options.urls)}: "
            "a majority of servers gives the plain lock only, without -s, -x, --fair or --limit"
        )
    return options
