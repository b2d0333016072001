"""The observer that logs. It passes events for operators to the logger ``interlock``.

Each record has the event's name in ``record.event``, and its figures in attributes of the record.
"""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import TYPE_CHECKING

from interlock._core.insight.events import Observer, tell_loss
from interlock._core.model.foreign_text import safe
from interlock._misuse import warn

if TYPE_CHECKING:
    from interlock._core.insight import events

LOGGER = logging.getLogger("interlock")
# As is usual for a library: nothing is written unless the application adds a handler.
LOGGER.addHandler(logging.NullHandler())

SILENT = 'it refuses PUBLISH in scripts, so waiters poll; with pubsub="off" they do so at once'
"""What `log_lack` tells of a server that sends no messages."""
_RENAMED = {"name": "lock_name", "kind": "lock_kind", "time": "at"}
"""Fields with names that log records use themselves, or that say too little in a record."""


class Log(Observer):
    """Logs events."""

    def lost(self, event: events.Lost) -> None:
        """Log a loss, as an error."""
        text = "%s %r was lost after %.1f s (%s); %s held it"
        why = tell_loss(event.reason, event.detail)
        args = event.kind, event.name, event.seconds, why, event.owner
        _log(logging.ERROR, "lock.lost", event, text, *args)

    def abandoned(self, event: events.Abandoned) -> None:
        """Log a hold that nobody can release."""
        text = "%s %r was never released by %s; it ends within %.3g s"
        args = event.kind, event.name, event.owner, event.lease
        _log(logging.WARNING, "lock.abandoned", event, text, *args)

    def force_released(self, event: events.ForceReleased) -> None:
        """Log that this client broke a lock."""
        text = "%s %r, held by %s, was released by force: %s"
        held_by = event.holder or "anybody"
        args = event.kind, event.name, held_by, safe(event.reason) or "no reason given"
        _log(logging.WARNING, "lock.force_released", event, text, *args)

    def slow_acquire(self, event: events.SlowAcquire) -> None:
        """Log a long wait, and who holds the lock."""
        text = "%s has waited %.1f s for %s %r, held by %s"
        args = event.owner, event.seconds, event.kind, event.name
        _log(
            logging.WARNING,
            "lock.slow_acquire",
            event,
            text,
            *args,
            ", ".join(event.held_by) or "nobody known",
        )

    def slow_hold(self, event: events.SlowHold) -> None:
        """Log a long hold."""
        text = "%s has held %s %r for %.1f s"
        args = event.owner, event.kind, event.name, event.seconds
        _log(logging.WARNING, "lock.slow_hold", event, text, *args)

    def renewal_failed(self, event: events.RenewalFailed) -> None:
        """Log an outage, once."""
        text = "%d holds cannot be renewed at %s, the first is lost in %.1f s: %s"
        args = event.count, event.server, event.validity, event.detail
        _log(logging.WARNING, "renewal.failing", event, text, *args)

    def recovered(self, event: events.Recovered) -> None:
        """Log the end of an outage."""
        text = "holds are renewed again at %s, after %.1f s"
        _log(logging.INFO, "renewal.recovered", event, text, event.server, event.seconds)

    def server_changed(self, event: events.ServerChanged) -> None:
        """Log a failover."""
        text = "the server is another one now: %s"
        _log(logging.WARNING, "server.changed", event, text, event.server)

    def overflowed(self, event: events.Overflowed) -> None:
        """Log that the log is not complete."""
        text = "%d events were not logged: the log handlers are too slow"
        _log(logging.WARNING, "log.overflowed", event, text, event.count)


def log_break(kind: str, name: str, holder: str, reason: str, user: str) -> None:
    """Log, at once and in the caller's thread, that the operator *user* broke a hold."""
    told = {"lock_kind": kind, "lock_name": name, "holder": holder, "reason": reason, "user": user}
    text = "%s %r, held by %s, was released by force by %s: %s"
    args = kind, name, safe(holder), safe(user), safe(reason)
    LOGGER.warning(text, *args, extra={"event": "lock.force_released", **told})


def log_unreachable(name: str, choice: str, error: Exception) -> None:
    """Log, at once, that a call under the lock *name* runs without it, or is skipped."""
    done = "runs without it" if choice == "run" else "is skipped"
    extra = {"event": "call.unreachable", "lock_name": name, "choice": choice}
    LOGGER.warning(
        "no server answers for lock %r, so the call %s: %s", name, done, error, extra=extra
    )


def log_late(seconds: float) -> None:
    """Log, at once, that renewals came *seconds* late."""
    LOGGER.warning(
        "renewals came %.1f s late, because the process stood still; if a call keeps the "
        "interpreter lock for so long, use a lease that is at least twice as long as the longest "
        "such call",
        seconds,
        extra={"event": "renewal.late", "seconds": seconds},
    )


def log_lack(event: str, server: str, text: str) -> None:
    """Log, at once, what *server* lacks, and what follows."""
    LOGGER.warning("%s: %s", server, text, extra={"event": event, "server": server})


def _log(level: int, name: str, event: events.Event, text: str, *args: object) -> None:
    extra = {
        _RENAMED.get(field.name, field.name): getattr(event, field.name) for field in fields(event)
    }
    LOGGER.log(level, text, *args, extra={"event": name, **extra})


def warn_other_permits(name: str, found: int, wanted: int) -> None:
    """Warn that the server has another number of permits than the user's code names."""
    warn(
        f"{name!r} has {found} permits on the server, not {wanted} as permits={wanted} says: "
        f"set_permits({wanted}) changes it"
    )


def warn_other_count(name: str, found: int, wanted: int) -> None:
    """Warn that a latch was set up with another count than the user's code names."""
    warn(
        f"latch {name!r} was set up with the count {found}, not {wanted} as count={wanted} says: "
        "delete() it to begin anew"
    )


def warn_no_permits(kind: str, name: str) -> None:
    """Warn that a semaphore is waited for that nobody has set up."""
    warn(
        f"{kind} {name!r} has no permits, because nobody has set it up: this waits until somebody "
        f"does. Write client.{kind.replace(' ', '_')}({name!r}, permits=n) to set it up"
    )


def warn_too_many_permits(kind: str, name: str, wanted: int, permits: int) -> None:
    """Warn that more permits are wanted together than there are."""
    has = "1 permit" if permits == 1 else f"{permits} permits"
    warn(
        f"{kind} {name!r} has {has} in all, and {wanted} are wanted together: this cannot succeed "
        f"before set_permits({wanted}) or add_permits({wanted - permits})"
    )
