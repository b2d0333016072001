"""`interlock run`: a command runs while this process holds a lock."""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import interlock
from interlock.cli.options import RunOptions, add_options, run_options
from interlock.cli.signals import POSIX, Interrupted, Signals
from interlock.cli.status import UsageError, say, signal_status
from interlock.cli.supervision import Supervision, start
from interlock.errors import (
    AcquireTimeoutError,
    HoldLostError,
    InterlockError,
    ServerUnavailableError,
)
from interlock.options import Options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from interlock import Client, Hold, Permit

Entrance: TypeAlias = "contextlib.AbstractContextManager[Hold]"

USAGE = "interlock run [options] NAME -- CMD [ARG...]\n       interlock run [options] NAME -c TEXT"

DESCRIPTION = """\
Run CMD while this process holds the lock NAME, cluster-wide: on all machines that use the same
server, one CMD at a time. The lock is renewed while CMD runs, released when it has ended, and ends
by itself should this machine die.

Without -s, -x, --fair or --limit it is the same lock as client.lock(NAME) in Python.
"""

EPILOG = """\
TIME is 90, 90s, 5m or 2h. INTERLOCK_URL may name several servers, between blanks. The file that
INTERLOCK_CREDENTIALS_FILE names has a password, or a user and a password in two lines; it is read
again when it changes.

environment of CMD:
  INTERLOCK_NAME     NAME
  INTERLOCK_HOLDER   who holds the lock: <client id>:<number>, with --limit the permit's id
  INTERLOCK_TOKEN    a number that grows with every holder, to be checked by what CMD writes to;
                     not with -s, -x, --fair, --limit or several --url

exit status: the one of CMD (128 + n when signal n ended it), or
    1   the lock was not acquired: -n, or -w has passed (see -E)
   64   usage: the command line, the URL or the name is wrong, or no server program is found
   69   the server is not available, or refuses (password, database)
   70   the lock was lost, and CMD stopped for it (see --on-lost)
   71   interlock itself failed, and printed a traceback; CMD does not run
  124   CMD was stopped by --max-hold
  126   CMD cannot be executed
  127   CMD was not found
  128+n signal n came before CMD was started

INT, TERM, HUP and QUIT are passed on to CMD.

examples:
  interlock run nightly -- ./backup.sh --full
  interlock run -n -E 0 cron:mail -- /usr/local/bin/send-mail
  interlock run -w 60 --max-hold 10m deploy:web -c 'git pull && make deploy'
  interlock run --limit 4 thumbnails -- convert in.png -resize 100x out.png
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    parser.usage = USAGE
    add_options(parser)


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Run the command that was asked for, and return the exit status.

    Raises:
        UsageError: if it cannot be done.
        InterlockError: if the lock could not be had for another reason than its being taken.
    """
    if not POSIX:
        raise UsageError("run needs a POSIX system; on Windows use the library, or WSL")
    options = run_options(given, environ)
    try:
        with Signals() as signals:
            return _run(options, environ, signals)
    except Interrupted as interrupted:
        return signal_status(interrupted.signum)


def _run(options: RunOptions, environ: Mapping[str, str], signals: Signals) -> int:
    chosen = Options(credentials=options.credentials)
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
            signals.give_up_by(partial(_give_up, options, status))
    except AcquireTimeoutError as error:
        _explain_conflict(error, options)
    except InterlockError as error:
        if supervision is None:
            raise
        # The job has ended, and its status counts; what came after it is only told.
        _explain_release(error, options, told=supervision.loss_noticed)
    return status


def _acquire(clients: Sequence[Client], options: RunOptions, stack: contextlib.ExitStack) -> Hold:
    """Return the hold, whose release is left to *stack*.

    Raises:
        AcquireTimeoutError: if it is taken, or stays so.
    """
    began = time.monotonic()
    try:
        # One try first: without a server it fails at once, where a wait would wait out the outage.
        hold: Hold | None = stack.enter_context(_entrance(clients, options, 0))
    except AcquireTimeoutError as error:
        if options.wait == 0:
            raise
        if options.verbose:
            say(f"waiting for lock {options.name!r}, held by {_holders(error, options)}")
        hold = None
    except ServerUnavailableError as error:
        # A server that is there may be too far away or too busy to answer in the little time of a
        # single try.
        if not error.transient or options.wait == 0:
            raise
        hold = None
    if hold is None:
        left = None
        if options.wait is not None:
            left = max(0.0, began + options.wait - time.monotonic())
        hold = stack.enter_context(_entrance(clients, options, left))
    if options.verbose:
        say(f"got lock {options.name!r} after {time.monotonic() - began:.1f} s")
    return hold


def _entrance(clients: Sequence[Client], options: RunOptions, timeout: float | None) -> Entrance:
    """Return a context manager that waits for the lock and gives the hold.

    The locks exclude each other whatever their kind, for each refuses a hash that it does not know.
    But only those of one kind hear of each other's releases. A permit is acquired here already; it
    comes back by itself if we are killed.

    Args:
        clients: one for each URL, in their order.
        options: what is asked for.
        timeout: seconds to wait; None for ever, 0 for one try.

    Raises:
        UsageError: the semaphore has another limit.
        InterlockError: as acquiring does.
    """
    name, client = options.name, clients[0]
    if len(clients) > 1:
        return interlock.RedLock(*(each.lock(name) for each in clients), timeout=timeout)
    if options.limit is not None:
        return _permit(client, name, options.limit, timeout)
    match options.mode:
        case "plain":  # fenced, so that the job has a token
            return client.fenced_lock(name, timeout=timeout)
        case "shared":
            return client.read_write_lock(name, timeout=timeout).read
        case "exclusive":
            return client.read_write_lock(name, timeout=timeout).write
        case "fair":
            return client.fair_lock(name, timeout=timeout)


def _permit(client: Client, name: str, limit: int, timeout: float | None) -> Permit:
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


def _holders(error: AcquireTimeoutError, options: RunOptions) -> str:
    return error.holder or "somebody" if options.limit is None else f"{options.limit} others"


def _environment(hold: Hold, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the job's environment; a token of an interlock around this one is not its own."""
    ours = {"INTERLOCK_NAME": hold.name, "INTERLOCK_HOLDER": hold.holder or ""}
    if hold.token is not None:
        ours["INTERLOCK_TOKEN"] = str(hold.token)
    inherited = {key: value for key, value in environ.items() if key != "INTERLOCK_TOKEN"}
    return inherited | ours


def _give_up(options: RunOptions, status: int, again: bool) -> None:
    """End this process in a signal handler, if a signal came *again*; else say what it waits for.

    The library would carry a release through after an exception.
    """
    if not again:
        say(f"the release of {options.name!r} is under way; another signal gives it up")
        return
    say(f"lock {options.name!r} was not released: a signal gave it up, and it ends with its lease")
    os._exit(status)


def _explain_release(error: InterlockError, options: RunOptions, *, told: bool) -> None:
    if not isinstance(error, HoldLostError):
        say(f"the release of {options.name!r} failed: {error}")
    elif not told:
        say(f"{error}; the command has ended by itself, but may not have been alone")
