"""The thread that looks for deadlocks. It runs while a holder waits long for another lock."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from interlock._core.insight.deadlock import (
    FIRST_SEARCH_PAUSE,
    LONGEST_SEARCH_PAUSE,
    PATIENCE,
    Party,
    Told,
    Wait,
    confirmed,
    same_cycle,
    told_of,
    unproven,
    youngest,
)
from interlock._core.model import names
from interlock._core.model.holds import HELD
from interlock._drivers.background import callbacks
from interlock._drivers.process import clock
from interlock.errors import DeadlockError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.insight.card import CardWriter
    from interlock._core.insight.deadlock import Link, Sight
    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.session import Session
    from interlock._drivers.wakeup import Wakeup
    from interlock._links.topology import Topology
    from interlock.inspection.reader import Reader


MOST_REFUSED = 1000
"""So many places may not be read that the search is given up."""


class DeadlockWatch:
    """Looks for the deadlocks that the threads and tasks of one client are in.

    Args:
        session: the client's state.
        topology: its servers.
        card: composes the client's card.
        wake: wakes the thread that writes the card.
    """

    def __init__(
        self, session: Session, topology: Topology, card: CardWriter, wake: Wakeup
    ) -> None:
        self._session = session
        self._topology = topology
        self._card = card
        self._wake = wake
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._suspected: dict[Party, Sight] = {}
        # The cycles, each with one of our waits in it. A cycle is over when that wait ends.
        self._reported: dict[object, Hold] = {}
        # Locks and cards that the user has no right to read. Each is asked for once, and told once.
        self._refused: set[tuple[str, str]] = set()

    def look(self, now: float) -> None:
        """Start the thread if a holder has waited for long; called by the renewal thread."""
        wanted = self._session.options.deadlock != "off" and self._card.wanted
        if not wanted or not self._long(now) or self._end.is_set():
            return
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._run, name="interlock-deadlocks", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread can start now; the next turn tries again
                return
            self._thread = thread

    def close(self, timeout: float) -> None:
        """End the thread."""
        self._end.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _long(self, now: float) -> list[Hold]:
        """Return the holds that were waited for too long, by owners that hold something else."""
        waits = list(self._session.events.waits.items())
        long = [hold for hold, wait in waits if now - wait.since >= PATIENCE]
        if not long:
            return []
        holders = {
            hold.table_key[1] for hold in self._session.holds.snapshot() if hold.state is HELD
        }
        return [hold for hold in long if hold.table_key[1] in holders]

    def _run(self) -> None:
        # Imported here: it is seldom needed, and would slow down the start of every program.
        from interlock.inspection.reader import Reader  # noqa: PLC0415

        pause = FIRST_SEARCH_PAUSE
        try:
            topology = self._topology
            servers: Any = topology.only or topology
            with Reader(servers, self._session.options) as reader:
                while not self._end.is_set() and self._long(clock.now()):
                    try:
                        self._check(reader)
                    except InterlockError:
                        self._suspected.clear()  # an outage: the waiters hear of it themselves
                    pause = (
                        FIRST_SEARCH_PAUSE
                        if self._suspected
                        else min(pause * 1.5, LONGEST_SEARCH_PAUSE)
                    )
                    _ = self._end.wait(pause)
        except Exception as error:  # noqa: BLE001 - the thread must not end without a report
            callbacks.report_aside("the search for deadlocks", error)
        finally:
            self._suspected.clear()
            self._reported.clear()
            self._session.deadlocked.clear()
            self._card.in_deadlock = frozenset()

    def _check(self, reader: Reader) -> None:
        from interlock.inspection.deadlocks import Look  # noqa: PLC0415

        # Other clients may look for the same cycle. They read our waits in our card.
        self._card.hurry()
        self._wake()
        now, session = clock.now(), self._session
        waits = session.events.waits
        self._reported = {cycle: hold for cycle, hold in self._reported.items() if hold in waits}
        if len(self._refused) > MOST_REFUSED:
            return
        look = Look(reader, {session.client_id: self._told_here(now)}, self._refused)
        suspected: dict[Party, Sight] = {}
        for hold in self._long(now):
            party = Party(session.client_id, hold.table_key[1])
            sight = look.cycle(party, clock.now)
            if sight is None:
                continue
            first = self._suspected.get(party)
            if first is None or same_cycle(first.links) != same_cycle(sight.links):
                first = sight
            suspected[party] = first
            if confirmed(first, sight):
                self._report(sight.links, hold, reader)
        self._suspected = suspected
        self._mark(suspected)
        if self._refused:
            session.note(
                "deadlock.unread",
                "deadlocks may be missed: the user has no right to read what the search needs; "
                "`interlock doctor` prints the ACL line",
            )

    def _mark(self, suspected: dict[Party, Sight]) -> None:
        """Mark the waits of proven deadlocks in the card, if they are this client's."""
        session = self._session
        steps = {
            (link.party, link.key)
            for sight in suspected.values()
            if same_cycle(sight.links) in self._reported
            for link in sight.links
        }
        marked = frozenset(
            [
                hold
                for hold in list(session.events.waits)
                if (Party(session.client_id, hold.table_key[1]), hold.key) in steps
            ]
        )
        if marked != self._card.in_deadlock:
            self._card.in_deadlock = marked
            self._card.hurry()
            self._wake()

    def _told_here(self, now: float) -> Told:
        owners: dict[tuple[str, str], int] = {}
        waits: dict[int, list[Wait]] = {}
        ends = set[tuple[str, str]]()
        for hold in self._session.holds.snapshot():
            if hold.state is HELD:
                place = hold.holder.removesuffix(":write"), hold.key
                owners[place] = hold.table_key[1]
                if hold.may_end():
                    ends.add(place)
        for hold, wait in list(self._session.events.waits.items()):
            holder = hold.holder.removesuffix(":write")
            told = Wait(holder, hold.key, hold.label, now - wait.since)
            waits.setdefault(hold.table_key[1], []).append(told)
        return Told(None, owners, waits, ends)

    def _report(self, links: Sequence[Link], hold: Hold, reader: Reader) -> None:
        cycle, session = same_cycle(links), self._session
        text, steps = told_of(links), tuple(told_of([link]) for link in links)
        told = {
            "event": "lock.deadlock",
            "cycle": steps,
            "client_id": session.client_id,
            "server": session.where,
        }
        new = cycle not in self._reported
        if new:
            self._reported[cycle] = hold
            if session.options.log:
                logging.getLogger("interlock").error(
                    "deadlock of %d: %s", len(links), text, extra=told
                )
        chosen = youngest(links)
        mine = Party(session.client_id, hold.table_key[1])
        closed = not any(link.ends for link in links)
        if session.options.deadlock == "raise" and closed and chosen.party == mine:
            doubt = unproven(links, reader.shown, self._lasts, self._listens)
            if doubt is not None:
                if new and session.options.log:
                    logging.getLogger("interlock").warning(
                        "no DeadlockError: only a card tells that %s",
                        told_of([doubt]),
                        extra=told | {"event": "deadlock.unproven"},
                    )
                return
            session.deadlocked[hold] = DeadlockError(
                f"{hold.core.kind} {hold.name!r} cannot be acquired: this is a deadlock: {text}",
                name=hold.name,
                cycle=steps,
            )
            session.waiters.wake_all()

    def _lasts(self, link: Link) -> bool | None:
        """Return whether the wait of *link* still lasts; None if another client waits."""
        if link.party.client_id != self._session.client_id:
            return None
        return any(
            hold.key == link.key and hold.table_key[1] == link.party.owner
            for hold in list(self._session.events.waits)
        )

    def _listens(self, key: str) -> bool:
        """Return whether this client listens for a release of *key*, or did until just now."""
        waits, places = list(self._session.events.waits), list(self._session.waiters.places)
        channels = (names.lock_channel(key), names.read_write_channel(key))
        return any(hold.key == key for hold in waits) or any(each in places for each in channels)
