"""Let two clients contend for a lock that nobody else uses, and say what this server did.

No list of rights or services can promise as much: what a proxy, a fork or an ACL does to locks
shows when they are used.
"""

from __future__ import annotations

import logging
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

from interlock.check.report import Finding, Severity
from interlock.check.requirements import Requirements
from interlock.errors import ConfigError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

OK, _, WARNING, ERROR = Severity
SCENES = ("refuse", "wake", "grant", "renew", "expire")
LEASE = 1.5
"""Seconds of the holds that are renewed."""
SHORT = 0.6
"""Seconds of the hold that is left to its end."""
STANDING = 0.2
"""Seconds after which a client that waits listens."""
PROMPT = 1.0
"""Seconds. A waiting client that takes longer has heard nothing, and looked at a lease's end."""
PATIENCE = 10.0
"""Seconds that a client waits for what never comes."""
OUTAGE = 3.0
"""Seconds for a server that cannot serve just now."""
RIGHTS = "compare the user's rights with the ACL line that interlock doctor prints"


def try_out(
    connect: Callable[..., AbstractContextManager[Any]], names: str = "*"
) -> tuple[Finding, ...]:
    """Play a refusal, a wake-up, a grant, a renewal and an expiry, for some three seconds.

    *connect* makes a client like `interlock.connect`, and is called twice, with further options.
    The finding of a scene is a warning where locks work in another way than they should, and an
    error where they do not work. Behind an error nothing more is played.

    Raises:
        ConfigError: *names* cannot be, or is one name, which may be in use; or *connect* raises it.
    """
    if not Requirements(names=names).names.endswith("*"):
        raise ConfigError(f"locks are tried on a name that nobody uses: end {names!r} with *")
    name = names.replace("*", f"interlock-try-{uuid.uuid4()}")
    found: list[Finding] = []
    log = _Log()
    logger = logging.getLogger("interlock")
    logger.addHandler(log)
    try:
        with closing(_scenes(connect, name)) as scenes:
            for finding in scenes:
                found.append(log.beside(finding))
                if finding.severity is ERROR:
                    break
    except ConfigError:
        raise
    except InterlockError as error:
        if not found or found[-1].severity is not ERROR:  # else it is the same one again
            scene = SCENES[min(len(found), len(SCENES) - 1)]
            advice = RIGHTS if getattr(error, "code", None) == "NOPERM" else ""
            found.append(Finding(scene, ERROR, str(error), advice))
    finally:
        logger.removeHandler(log)
    return tuple(found)


def _scenes(connect: Callable[..., AbstractContextManager[Any]], name: str) -> Generator[Finding]:
    """Yield what came of each scene."""
    with (
        ThreadPoolExecutor(1) as thread,
        connect(lease=LEASE, outage_timeout=OUTAGE, card=False) as one,
        connect(lease=LEASE, outage_timeout=OUTAGE, card=False) as other,
    ):
        first, second = one.lock(name), other.lock(name)
        first.acquire()
        if second.acquire(timeout=0):
            yield Finding("refuse", ERROR, "two clients hold the same lock")
        yield Finding("refuse", OK, "a lock that is held is refused to a second client")

        # A block is left anywhere, and what a job acquires by hand is that job's own.
        block = second.trying(PATIENCE)
        waiting = thread.submit(block.__enter__)
        time.sleep(STANDING)
        released = time.monotonic()
        first.release()
        hold = waiting.result()
        took = time.monotonic() - released
        if not hold:
            found = f"a waiting client got no lock for {PATIENCE:g} s after its release"
            yield Finding("wake", ERROR, found)
        elif took < PROMPT:
            found = f"a waiting client acquired {took * 1000:.0f} ms after the release"
            yield Finding("wake", OK, found)
        else:
            found = f"a waiting client heard nothing, and acquired {took:.1f} s after the release"
            advice = f"{RIGHTS}; look for a proxy that does not pass messages on"
            yield Finding("wake", WARNING, found, advice)

        if first.acquire(timeout=0):
            found = "the lock that was granted to one client was given to another"
            yield Finding("grant", ERROR, found)
        found = "the lock belongs to the client that waited, and to nobody else"
        yield Finding("grant", OK, found)

        time.sleep(LEASE * 1.2)
        if first.locked() and hold.valid:
            yield Finding("renew", OK, f"a hold outlasts its lease of {LEASE:g} s")
        else:
            found = f"a hold ended with its lease of {LEASE:g} s, though it was renewed"
            yield Finding("renew", ERROR, found)

        hold.release()
        first.acquire(lease=SHORT)
        began = time.monotonic()
        acquired = second.acquire(timeout=PATIENCE)
        took = time.monotonic() - began
        if not acquired:
            found = f"a lease of {SHORT:g} s has not ended after {PATIENCE:g} s"
            yield Finding("expire", ERROR, found)
        elif took < SHORT * 0.8:
            yield Finding("expire", ERROR, f"a lease of {SHORT:g} s ended after {took:.1f} s")
        else:
            second.release()
            found = f"a hold that is not renewed ends with its lease: after {took:.1f} s"
            yield Finding("expire", OK, found)


class _Log(logging.Handler):
    """Keeps what the clients log: what a server lacks is told once, when they learn of it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    def beside(self, finding: Finding) -> Finding:
        """Return *finding* with what was logged since the last one, which makes it a warning."""
        if not self._lines:
            return finding
        found = "; ".join((finding.found, *dict.fromkeys(self._lines)))
        self._lines.clear()
        severity = max(finding.severity, WARNING)
        return Finding(finding.check, severity, found, finding.advice or RIGHTS)
