"""`interlock run`: a command runs while this process holds a lock."""

from __future__ import annotations

import argparse
import contextlib
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import interlock
from interlock.cli.arguments import (
    add_prefix,
    credentials_of,
    duration,
    lease,
    positive_duration,
    urls_of,
)
from interlock.cli.job import POSIX, Interrupted, RunOptions, Signals, Supervision, start
from interlock.cli.status import UsageError, say
from interlock.errors import AcquireTimeoutError, HoldLostError, InterlockError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock import Client, Hold, Permit

USAGE = "interlock run [options] NAME -- CMD [ARG...]\n       interlock run [options] NAME -c TEXT"

DESCRIPTION = """\
Run CMD while this process holds the lock NAME, cluster-wide: on all machines that use the same
server, one CMD at a time. The lock is renewed while CMD runs, released when it has ended, and ends
by itself should this machine die. Without -s, -x, --fair or --limit it is the same lock as
client.lock(NAME) in Python.

  interlock run nightly -- ./backup.sh --full
  interlock run -n -E 0 cron:mail -- /usr/local/bin/send-mail
  interlock run -w 60 --max-hold 10m deploy:web -c 'git pull && make deploy'
"""

EPILOG = """\
TIME is 90, 90s, 5m or 2h. INTERLOCK_URL may name several servers, between blanks. The file that
INTERLOCK_CREDENTIALS_FILE names has a password, or a user and a password in two lines.

CMD finds INTERLOCK_NAME, INTERLOCK_HOLDER (<client id>:<number>, or the permit's id) and, with the
plain lock on one server, INTERLOCK_TOKEN, a number that grows with every holder, in its
environment. INT, TERM, HUP and QUIT are passed on to it.

exit status: the one of CMD (128 + n when signal n ended it), or
    1   the lock was not acquired: -n, or -w has passed (see -E)
   70   the lock was lost, and CMD stopped for it (see --on-lost)
  124   CMD was stopped by --max-hold
  126   CMD cannot be executed
  127   CMD was not found
  128+n signal n came before CMD was started
"""

_DURATIONS = (
    ("--lease", lease, "keep others out so long if this machine dies (default: 30)"),
    ("--min-hold", duration, "hold the lock at least so long, even if CMD ends sooner"),
    ("--max-hold", positive_duration, "stop CMD after so long"),
    ("--kill-after", duration, "kill a CMD that does not stop within so long (default: 5)"),
)
_MODES = (
    (("-s", "--shared"), "shared", "hold it together with others who also say -s (a read lock)"),
    (("-x", "--exclusive"), "exclusive", "hold it alone, where others say -s (a write lock)"),
    (("--fair",), "fair", "hold it alone, first come, first served, where all say --fair"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command; what is not typed has the default of `RunOptions`."""
    parser.usage = USAGE
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add("name", metavar="NAME", help="the name of the lock")
    waiting = parser.add_mutually_exclusive_group()
    text = "do not wait for the lock: try once"
    waiting.add_argument("-n", "--nonblock", dest="wait", action="store_const", const=0, help=text)
    text = "wait so long for the lock (default: for ever)"
    waiting.add_argument("-w", "--wait", "--timeout", type=duration, metavar="TIME", help=text)
    modes = parser.add_mutually_exclusive_group()
    for names, mode, text in _MODES:
        modes.add_argument(*names, dest="mode", action="store_const", const=mode, help=text)
    several = partial(_number, least=1, most=2**31 - 1)  # as in Redisson
    one_of = "be one of N who run at a time (a semaphore)"
    modes.add_argument("--limit", type=several, metavar="N", help=one_of)
    status = partial(_number, least=0, most=255)
    text = "exit with STATUS if the lock was not acquired (default: 1; 0 also says nothing)"
    add("-E", "--conflict-exit-code", type=status, metavar="STATUS", help=text)
    text = "run TEXT in $SHELL (default: /bin/sh) instead of CMD"
    add("-c", "--command", dest="shell_text", metavar="TEXT", help=text)
    for flag, read, text in _DURATIONS:
        add(flag, type=read, metavar="TIME", help=text)
    text = "when the lock is lost: stop CMD, kill it at once, or only say so (default: term)"
    add("--on-lost", choices=("term", "kill", "warn"), help=text)
    text = (
        "the server (default: $INTERLOCK_URL, $REDIS_URL, else one of this machine's own); "
        "several times: hold a majority of independent servers"
    )
    add("--url", dest="urls", action="append", metavar="URL", help=text)
    add_prefix(parser)
    add("-v", "--verbose", action="store_true", help="say how long the wait was, and for whom")


def _number(text: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"wanted {least} to {most}, found {text!r}")
    return number


def options_of(given: Mapping[str, Any], environ: Mapping[str, str]) -> RunOptions:
    """Return the options of a run, checked together."""
    urls = tuple(given.get("urls") or urls_of(environ))
    known: dict[str, Any] = {**given, "urls": urls, "credentials": credentials_of(environ)}
    options = RunOptions(**known)
    if options.command and options.shell_text is not None:
        raise UsageError("wanted one command, found two: give -c TEXT or -- CMD, not both")
    if not options.command and options.shell_text is None:
        raise UsageError(
            "wanted a command, found none: interlock run [options] NAME -- CMD [ARG...]"
        )
    if len(set(urls)) < len(urls):
        raise UsageError("the same --url twice: a majority needs independent servers")
    if len(urls) > 1 and (options.mode != "plain" or options.limit is not None):
        raise UsageError(
            f"wanted one --url, found {len(urls)}: "
            "a majority of servers gives the plain lock only, without -s, -x, --fair or --limit"
        )
    return options


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Run the command that was asked for, and return the exit status."""
    if not POSIX:
        raise UsageError("run needs a POSIX system; on Windows use the library, or WSL")
    options = options_of(given, environ)
    try:
        with Signals() as signals:
            return _run(options, environ, signals)
    except Interrupted as interrupted:
        return 128 + interrupted.signum


def _run(options: RunOptions, environ: Mapping[str, str], signals: Signals) -> int:
    chosen = Options(prefix=options.prefix, credentials=options.credentials)
    if options.lease is not None:
        chosen = chosen.replace(lease=options.lease)
    status = options.conflict_exit_code
    supervision: Supervision | None = None
    try:
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(interlock.connect(url, options=chosen))
                for url in options.urls or (None,)
            ]
            hold = _acquire(clients, options, stack)
            signals.queue_signals()
            began = time.monotonic()
            command = options.command
            if options.shell_text is not None:
                command = (environ.get("SHELL") or "/bin/sh", "-c", options.shell_text)
            job = start(command, _environment(hold, environ), options.on_lost)
            supervision = Supervision(job, hold, options, signals, began)
            status = supervision.run()
    except AcquireTimeoutError as error:
        _explain_conflict(error, options)
    except InterlockError as error:
        if supervision is None:
            raise
        # The job has ended, and its status counts; what came after it is only reported.
        if not isinstance(error, HoldLostError):
            say(f"the release of {options.name!r} failed: {error}")
        elif not supervision.loss_noticed:
            say(f"{error}; the command has ended by itself, but may not have been alone")
    return status


def _acquire(clients: Sequence[Client], options: RunOptions, stack: contextlib.ExitStack) -> Hold:
    """Return the hold, whose release is left to *stack*."""
    began = time.monotonic()
    hold: Hold | None = None
    try:
        # One try first: without a server it fails at once, where a wait would wait out the outage.
        hold = stack.enter_context(_entrance(clients, options, timedelta(0)))
    except InterlockError as error:
        # A server that is there may be too far away or too busy to answer in the little time of a
        # single try.
        held = isinstance(error, AcquireTimeoutError)
        if options.wait == 0 or not (held or getattr(error, "transient", False)):
            raise
        if held and options.verbose:
            say(f"waiting for lock {options.name!r}, held by {_holders(error, options)}")
    if hold is None:
        left = None
        if options.wait is not None:
            left = timedelta(seconds=max(0.0, began + options.wait - time.monotonic()))
        hold = stack.enter_context(_entrance(clients, options, left))
    if options.verbose:
        say(f"got lock {options.name!r} after {time.monotonic() - began:.1f} s")
    return hold


def _entrance(
    clients: Sequence[Client], options: RunOptions, timeout: timedelta | None
) -> contextlib.AbstractContextManager[Hold]:
    """Return a context manager that waits *timeout* for the lock and gives the hold.

    The locks exclude each other whatever their kind, for each refuses a hash that it does not know.
    But only those of one kind hear of each other's releases. A permit is acquired here already; it
    comes back by itself if we are killed.
    """
    name, client = options.name, clients[0]
    if len(clients) > 1:
        return interlock.RedLock(*(each.lock(name) for each in clients), timeout=timeout)
    if options.limit is not None:
        return _permit(client, name, options.limit, timeout)
    if options.mode == "plain":  # fenced, so that the job has a token
        return client.fenced_lock(name, timeout=timeout)
    if options.mode == "fair":
        return client.fair_lock(name, timeout=timeout)
    both = client.read_write_lock(name, timeout=timeout)
    return both.read if options.mode == "shared" else both.write


def _permit(client: Client, name: str, limit: int, timeout: timedelta | None) -> Permit:
    """Return a permit of the semaphore *name*, which has *limit* permits or is made with them."""
    semaphore = client.leased_semaphore(name)
    # One try first: without a server it fails at once, where the rest would wait out the outage.
    permit = semaphore.try_acquire()
    if not semaphore.try_set_permits(limit) and (found := semaphore.permits()) != limit:
        # A permit that was acquired goes back when the client closes.
        raise UsageError(
            f"wanted --limit {limit}, found {found} for {name!r} on the server: "
            "all who share the name must give the same limit"
        )
    return semaphore.acquire(timeout=timeout) if permit is None else permit


def _explain_conflict(error: AcquireTimeoutError, options: RunOptions) -> None:
    if options.conflict_exit_code == 0 and not options.verbose:
        return  # who asks for 0 expects conflicts, and cron would mail each line
    tried = f"after {options.wait:g} s" if options.wait else "at the first try"
    say(
        f"lock {options.name!r} not got {tried}: held by {_holders(error, options)};"
        " the command was not run (-w TIME waits longer)"
    )


def _holders(error: InterlockError, options: RunOptions) -> str:
    if options.limit is not None:
        return f"{options.limit} others"
    if isinstance(error, AcquireTimeoutError) and error.program:
        return f"{error.program} (pid {error.pid} on {error.host})"
    return getattr(error, "holder", None) or "somebody"


def _environment(hold: Hold, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the job's environment; a token of an interlock around this one is not its own."""
    ours = {"INTERLOCK_NAME": hold.name, "INTERLOCK_HOLDER": hold.holder or ""}
    if hold.token is not None:
        ours["INTERLOCK_TOKEN"] = str(hold.token)
    inherited = {key: value for key, value in environ.items() if key != "INTERLOCK_TOKEN"}
    return inherited | ours
