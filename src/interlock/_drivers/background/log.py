"""What operators read: events and other records, at the logger ``interlock``.

Each record has the event's name in ``record.event``, and its figures in attributes of the record.
"""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import TYPE_CHECKING

from interlock._core.insight import events
from interlock._core.insight.events import tell_loss
from interlock._core.model.foreign_text import safe

if TYPE_CHECKING:
    from collections.abc import Callable

LOGGER = logging.getLogger("interlock")
# As is usual for a library: nothing is written unless the application adds a handler.
LOGGER.addHandler(logging.NullHandler())

SILENT = 'it refuses PUBLISH in scripts, so waiters poll; with pubsub="off" they do so at once'
"""What `log_once` tells of a server that sends no messages."""
_RENAMED = {"name": "lock_name", "kind": "lock_kind", "time": "at"}
"""Fields with names that log records use themselves, or that say too little in a record."""
_RECORDS = {
    "lost": (
        "lock.lost",
        "%(kind)s %(name)r was lost after %(seconds).1f s (%(why)s); %(owner)s held it",
    ),
    "abandoned": (
        "lock.abandoned",
        "%(kind)s %(name)r was never released by %(owner)s; it ends within %(lease).3g s",
    ),
    "force_released": (
        "lock.force_released",
        "%(kind)s %(name)r, held by %(holder)s, was released by force: %(reason)s",
    ),
    "slow_acquire": (
        "lock.slow_acquire",
        "%(owner)s has waited %(seconds).1f s for %(kind)s %(name)r, held by %(held_by)s",
    ),
    "slow_hold": (
        "lock.slow_hold",
        "%(owner)s has held %(kind)s %(name)r for %(seconds).1f s",
    ),
    "renewal_failed": (
        "renewal.failing",
        (
            "%(count)d holds cannot be renewed at %(server)s, "
            "the first is lost in %(validity).1f s: %(detail)s"
        ),
    ),
    "recovered": (
        "renewal.recovered",
        "holds are renewed again at %(server)s, after %(seconds).1f s",
    ),
    "server_changed": ("server.changed", "the server is another one now: %(server)s"),
    "overflowed": (
        "log.overflowed",
        "%(count)d events were not logged: the log handlers are too slow",
    ),
}
"""Method of an event -> the name and the text of its record."""
_LEVELS = {"lost": logging.ERROR, "recovered": logging.INFO}
"""The levels of those that are no warnings."""


def log_event(event: events.Event) -> None:
    """Log *event* if it is one for operators."""
    if event.method not in _RECORDS:
        return
    name, text = _RECORDS[event.method]
    told = {field.name: getattr(event, field.name) for field in fields(event)}
    extra = {_RENAMED.get(field, field): value for field, value in told.items()}
    level = _LEVELS.get(event.method, logging.WARNING)
    LOGGER.log(level, text, told | _in_words(event), extra={"event": name, **extra})


def _in_words(event: events.Event) -> dict[str, str]:
    """Return the fields that the text has otherwise than the record."""
    match event:
        case events.Lost(reason=reason, detail=detail):
            return {"why": tell_loss(reason, detail)}
        case events.ForceReleased(holder=holder, reason=reason):
            return {"holder": holder or "anybody", "reason": safe(reason) or "no reason given"}
        case events.SlowAcquire(held_by=held_by):
            return {"held_by": ", ".join(held_by) or "nobody known"}
        case _:
            return {}


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


def log_once(server: str) -> Callable[[str, str], None]:
    """Return what logs what *server* lacks, or is asked in vain, once for each event."""
    noted: dict[str, object] = {}

    def note(event: str, text: str) -> None:
        me = object()  # two threads may note it at a time
        if noted.setdefault(event, me) is me:
            LOGGER.warning("%s: %s", server, text, extra={"event": event, "server": server})

    return note
