"""What operators read: events and other records, at the logger ``interlock``.

Each record has the event's name in ``record.event``, and its figures in attributes of the record.
"""

from __future__ import annotations

import logging
from dataclasses import fields

from interlock._core.insight import events
from interlock._core.insight.events import tell_loss
from interlock._core.model.foreign_text import safe

LOGGER = logging.getLogger("interlock")
# As is usual for a library: nothing is written unless the application adds a handler.
LOGGER.addHandler(logging.NullHandler())

_RENAMED = {"name": "lock_name", "kind": "lock_kind", "time": "at"}
"""Fields with names that log records use themselves, or that say too little in a record."""
RECORDS = {
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
}
"""Method of an event -> the name and the text of its record."""
_LEVELS = {"lost": logging.ERROR, "recovered": logging.INFO}
"""The levels of those that are no warnings."""


def log_event(event: events.Event) -> None:
    """Log *event*, one of `RECORDS`."""
    name, text = RECORDS[event.method]
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


def log_now(event: str, text: str, *args: object, **figures: object) -> None:
    """Log a warning of *event* at once, in the caller's thread."""
    LOGGER.warning(text, *args, extra={"event": event, **figures})
