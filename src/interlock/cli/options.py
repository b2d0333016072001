"""The options of `interlock run`; they are those of flock(1) where flock has them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from interlock.cli.reading import credentials_of, urls_of
from interlock.cli.status import UsageError
from interlock.cli.values import duration, exit_code, lease, limit, positive_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from interlock.credentials import FileCredentials

Mode: TypeAlias = Literal["plain", "shared", "exclusive", "fair"]
"""Which lock of the name is held."""
OnLost: TypeAlias = Literal["term", "kill", "warn"]
"""The job's fate when its lock is lost."""

_DURATIONS = (
    (
        "--lease",
        lease,
        "keep others out so long if this machine dies; renewed while CMD runs (default: 30)",
    ),
    ("--min-hold", duration, "hold the lock at least so long, even if CMD ends sooner"),
    ("--max-hold", positive_duration, "stop CMD after so long"),
    ("--kill-after", duration, "kill a CMD that does not stop within so long (default: 5)"),
)
_MODES = (
    (("-s", "--shared"), "shared", "hold it together with others who also say -s (a read lock)"),
    (("-x", "--exclusive"), "exclusive", "hold it alone, where others say -s (a write lock)"),
    (("--fair",), "fair", "hold it alone, first come, first served, where all say --fair"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `interlock run` was asked for; durations in seconds, None where there is no bound.

    With a *limit*, one of so many permits is held in place of a lock.
    """

    name: str
    command: tuple[str, ...] = ()
    shell_text: str | None = None
    urls: tuple[str, ...] = ()
    wait: float | None = None
    mode: Mode = "plain"
    limit: int | None = None
    conflict_exit_code: int = 1
    lease: float | None = None
    min_hold: float = 0.0
    max_hold: float | None = None
    on_lost: OnLost = "term"
    kill_after: float = 5.0
    verbose: bool = False
    credentials: FileCredentials | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* every option; the defaults are those of `RunOptions`."""
    parser.add_argument("name", metavar="NAME", help="the name of the lock")
    waiting = parser.add_mutually_exclusive_group()
    waiting.add_argument(
        *("-n", "--nonblock"),
        dest="wait",
        action="store_const",
        const=0.0,
        help="do not wait for the lock: try once",
    )
    waiting.add_argument(
        *("-w", "--wait", "--timeout"),
        type=duration,
        metavar="TIME",
        help="wait so long for the lock (default: for ever)",
    )
    modes = parser.add_mutually_exclusive_group()
    for names, mode, text in _MODES:
        modes.add_argument(*names, dest="mode", action="store_const", const=mode, help=text)
    modes.add_argument(
        "--limit", type=limit, metavar="N", help="be one of N who run at a time (a semaphore)"
    )
    parser.add_argument(
        *("-E", "--conflict-exit-code"),
        type=exit_code,
        metavar="STATUS",
        help="exit with STATUS if the lock was not acquired (default: 1; 0 also says nothing)",
    )
    parser.add_argument(
        *("-c", "--command"),
        dest="shell_text",
        metavar="TEXT",
        help="run TEXT in $SHELL (default: /bin/sh) instead of CMD",
    )
    for flag, read, text in _DURATIONS:
        parser.add_argument(flag, type=read, metavar="TIME", help=text)
    parser.add_argument(
        "--on-lost",
        choices=("term", "kill", "warn"),
        help="when the lock is lost: stop CMD, kill it at once, or only say so (default: term)",
    )
    parser.add_argument(
        "--url",
        dest="urls",
        action="append",
        metavar="URL",
        help="the server (default: $INTERLOCK_URL, $REDIS_URL, else one of this machine's own); "
        "several times: hold a majority of independent servers",
    )
    parser.add_argument(
        *("-v", "--verbose"),
        action="store_true",
        help="say how long the wait for the lock was, and for whom",
    )


def run_options(given: Mapping[str, Any], environ: Mapping[str, str]) -> RunOptions:
    """Return the options of a run, checked together.

    Args:
        given: field -> value, what the command line says; None for what it leaves open.
        environ: for the URLs and the credentials.

    Raises:
        UsageError: for what cannot be done.
    """
    known = {each.name for each in fields(RunOptions)}
    found = {name: value for name, value in given.items() if name in known and value is not None}
    found["urls"] = tuple(given["urls"] or urls_of(environ))
    options = RunOptions(**found, credentials=credentials_of(environ))
    if options.command and options.shell_text is not None:
        raise UsageError("wanted one command, found two: give -c TEXT or -- CMD, not both")
    if not options.command and options.shell_text is None:
        raise UsageError(
            "wanted a command, found none: interlock run [options] NAME -- CMD [ARG...]"
        )
    if len(set(options.urls)) < len(options.urls):
        raise UsageError("the same --url twice: a majority needs independent servers")
    if len(options.urls) > 1 and (options.mode != "plain" or options.limit is not None):
        raise UsageError(
            f"wanted one --url, found {len(options.urls)}: "
            "a majority of servers gives the plain lock only, without -s, -x, --fair or --limit"
        )
    return options
