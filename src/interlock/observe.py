"""The observers of a client and their events: see `interlock.Client.observe`."""

from __future__ import annotations

from interlock._core.insight.events import (
    Abandoned,
    Acquired,
    ClientView,
    Event,
    ForceReleased,
    GaveUp,
    LockEvent,
    Lost,
    Observer,
    Overflowed,
    Recovered,
    Released,
    RenewalFailed,
    Renewed,
    ServerChanged,
    SlowAcquire,
    SlowHold,
    Waiting,
)

__all__ = [
    "Abandoned",
    "Acquired",
    "ClientView",
    "Event",
    "ForceReleased",
    "GaveUp",
    "LockEvent",
    "Lost",
    "Observer",
    "Overflowed",
    "Recovered",
    "Released",
    "RenewalFailed",
    "Renewed",
    "ServerChanged",
    "SlowAcquire",
    "SlowHold",
    "Waiting",
]
