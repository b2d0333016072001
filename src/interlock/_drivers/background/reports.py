"""What the upkeep sends for operators: the client's card, and the questions about long waits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock._core.insight.card import LOOK, CardWriter
from interlock._core.model.effects import NEVER
from interlock._core.model.foreign_text import safe
from interlock._drivers.background.callbacks import log_soon, outlived, resume
from interlock._drivers.background.log import log_now
from interlock._drivers.process import clock
from interlock._drivers.process.identity import about_this_process, connection_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology

RETRY = 0.1
"""Seconds after which a report comes again that a busy lane did not take."""
NO_CARD = (
    "locks work, but operators see no card of this client, for want of rights: "
    "`interlock doctor` prints the rights"
)
_FOLLOWS = {
    "keys.refused": "waiters have no queue, so a release wakes them all",
    "messages.refused": "releases are not announced to them, so waiters poll",
}


class Report(NamedTuple):
    """What is reported at one node.

    Attributes:
        slow: waits that are too long.
        queries: the scripts that tell who holds what they are for, by its key.
        card: the script that writes the client's card.
    """

    slow: Sequence[Hold] = ()
    queries: Mapping[str, Eval[Any]] = {}
    card: Eval[bool] | None = None

    def calls(self) -> list[Eval[Any]]:
        """Return the scripts."""
        return [*self.queries.values(), *([] if self.card is None else [self.card])]


class Reports:
    """What one client reports; when the next report is *due*, and the upkeep is woken for it."""

    def __init__(self, session: Session, topology: Topology) -> None:
        self._session, self._events, self._topology = session, session.events, topology
        session.write_card = self.write_soon
        self.reset()

    def reset(self) -> None:
        """Begin without a card, also in a forked child."""
        self.card, self.due = CardWriter(self._session, about_this_process()), -NEVER

    def connection_name(self) -> str:
        """Return the client's name in CLIENT LIST; an empty text if it writes no card."""
        session = self._session
        return connection_name(session.client_id) if session.options.card else ""

    def write_soon(self) -> None:
        """Write the client's card soon: a hold may outlive this process by a long lease."""
        due = self.card.hurry(clock.now())
        if due < self.due:
            self.due = due
            self._session.wake(None)

    def turn(self, now: float) -> dict[Endpoint | None, Report]:
        """Return the reports that are due at *now*, by their nodes."""
        if now < self.due:
            return {}
        resume()
        self.due = min(self.card.next_look(now), now + LOOK if self._events.looks else NEVER)
        with outlived("the card of a client"):
            return self._compose(now)
        self.card.refused = True  # it would fail again and again
        return {}

    def tell_refusals(self) -> None:
        """Log, once for each event, what servers refused for want of a right, and no call fails for."""
        for node in self._topology.nodes:
            for event in list(node.refused):
                refusal = node.refused.pop(event, None)  # two threads may look at a time
                if refusal is not None:
                    log_soon(partial(self._log_missing, event, refusal))

    def _log_missing(self, event: str, refusal: str) -> None:
        """Log what follows from a right that is missing, with the line that gives it."""
        from interlock.check import Requirements  # noqa: PLC0415 - few clients need it

        sharded = self._session.publish == "SPUBLISH"
        line = Requirements(options=self._session.options, sharded=sharded).acl_line()
        text = f"{_FOLLOWS[event]} ({safe(refusal)}); this line of an ACL file permits it: {line}"
        self._session.outside.note(event, text)

    def _compose(self, now: float) -> dict[Endpoint | None, Report]:
        slow: dict[Any, list[Hold]] = {}
        for hold in self._events.slow_waits(now):
            slow.setdefault(self._topology.owner(hold.key), []).append(hold)
        card = self.card.look(now)
        found = {node: Report(waits, self._events.queries(waits)) for node, waits in slow.items()}
        if card is not None:
            node = self._topology.owner(card.keys[0])
            found[node] = found.get(node, Report())._replace(card=card)
        return found

    def put_off(self, report: Report, now: float) -> None:
        """Report that again soon: it could not be sent."""
        self._events.put_off(report.slow)
        if report.card is not None:
            self.card.put_off()
        self.due = min(self.due, now + RETRY)

    def answered(self, report: Report, outcomes: Sequence[Any], *, named: bool) -> None:
        """Take the *outcomes* of the calls of *report*, whose connection may be *named*."""
        told = dict(zip(report.queries, outcomes, strict=False))
        self._events.name_holders(
            report.slow,
            {key: each.holders for key, each in told.items() if not isinstance(each, Exception)},
        )
        if report.card is None:
            return
        written = outcomes[-1]
        if not isinstance(written, Exception):
            self.card.answered(report.card)
            self.card.named = named
        elif getattr(written, "code", None) == "NOPERM":  # never try again
            self.card.refused = True
            # What it says is not in the text: it speaks of rights that locks need, and would mislead.
            log_soon(partial(log_now, "card.refused", NO_CARD, detail=str(written)))
