"""Who holds a lock, in words that a user knows: for the errors of those who did not get it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from interlock._core.insight.card import key_of
from interlock._core.model.foreign_text import safe
from interlock._core.scripts.card import card_holder
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Generator

    from interlock._core.model.effects import Eval
    from interlock._core.upkeep.session import Session

PROMPT = 0.075
"""Seconds that an error about a holder waits for its card."""
_LONGEST = 300
"""Characters of a text of a card at most."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A holder, and what is known of it; what is not is empty.

    Attributes:
        holder: its id.
        label: what it is called, if it is of this client or of the parent process.
        host, pid, program: its process, where a card tells that.
        place: the line that acquired the lock, as ``file:line``.
    """

    holder: str
    label: str = ""
    host: str = ""
    pid: int | None = None
    program: str = ""
    place: str = ""

    def __str__(self) -> str:
        process = f"pid {self.pid} on {self.host}" if self.pid and self.host else self.host
        known = self.label or f"{self.program} ({process})" if self.program else self.label
        line = f", acquired at {self.place}" if self.place else ""
        return f"{known}{line} ({self.holder})" if known else f"{self.holder}{line}"


def known_holder(session: Session, holder: str, what: str) -> Holder:
    """Return what the client of *session* knows of *holder*, without asking.

    It holds *what*, which is a key or a name.
    """
    if session.is_parents(holder):
        return Holder(holder, "the process that forked this one")
    held = [hold for hold in list(session.live) if hold.holder == holder]
    if not held:
        return Holder(holder)
    place = next((hold.acquired_at for hold in held if what in (hold.key, hold.name)), "")
    return Holder(holder, f"{held[0].label} of this client", place=place)


def who_holds(session: Session, holder: str, key: str) -> Generator[Eval[Any], Any, Holder]:
    """Return what is known of the *holder* of *key*.

    Cost:
        One round trip to read its card, unless it is of this client, or that writes no cards.
    """
    known = known_holder(session, holder, key)
    if known.label or not session.options.card:
        return known
    card = key_of(session, holder.partition(":")[0])
    field = f"h {holder.removesuffix(':write')} {key}"
    with suppress(InterlockError, TypeError, ValueError, RecursionError):
        call = card_holder(card, field, deadline=session.clock() + PROMPT)
        client, hold = call.script.decode((yield call))
        return _told(holder, _object(client), _object(hold))
    return known


def _object(text: Any) -> dict[str, Any]:
    found: object = json.loads(text or "{}")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _told(holder: str, client: dict[str, Any], hold: dict[str, Any]) -> Holder:
    """Return what a card tells: anybody may have written it."""
    pid = client.get("pid")
    return Holder(
        holder,
        host=_text(client.get("host")),
        pid=pid if type(pid) is int else None,
        program=_text(client.get("program")),
        place=_text(hold.get("place")),
    )


def _text(value: object) -> str:
    return safe(value[:_LONGEST]) if isinstance(value, str) else ""
