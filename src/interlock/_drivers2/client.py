"""A client's session, its threads, and what the process tells it."""

# It uses the connections of the driver beneath.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import partial
from queue import SimpleQueue
from random import Random
from typing import TYPE_CHECKING, Any, cast

from interlock._core.model.foreign_text import safe
from interlock._core.model.hold import ENDED, Hold
from interlock._core.model.names import GRANT
from interlock._core.upkeep.session import Outside, Session
from interlock._drivers.background.callbacks import call_user, notify_loss
from interlock._drivers.process import clock
from interlock._drivers2.subscriber import Subscriber
from interlock._drivers2.upkeep import Upkeep
from interlock._misuse import warn_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._drivers.connected import ConnectedDriver
    from interlock._drivers.state import State
    from interlock._links.topology import Topology


class Client:
    """The session of one client, and its threads.

    Args:
        state: the client's.
        topology: the client's servers.
        timeout: seconds for a reply.
        home: returns the driver of the client, or None if that is gone.

    Attributes:
        session: what its operations share.
        closed: whether it is closed.
        started: whether its threads run.
    """

    def __init__(
        self, state: State, topology: Topology, timeout: float, home: Callable[[], object]
    ) -> None:
        self._state = state
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        outside = Outside(
            options=state.options,
            clock=clock.now,
            random=Random().random,  # noqa: S311 - no secret
            wake=self._inbox.put,
            tell_loss=_tell_loss,
            tell_forgotten=_tell_forgotten,
            write_card=lambda: state.write_card(),  # noqa: PLW0108 - another one after a fork
            events=state.events,
            epoch=state.epoch,
            clustered=state.clustered,
            counts_failovers=state.counts_failovers,
            patience=timeout,
            note=state.note,
            note_short_lease=state.note_short_lease,
            took_over=state.took_over,
            database=state.database,
            where=state.where,
            home=home,
            wish=state.wish,
        )
        self.session = Session(outside, state.client_id)
        # A server that is silent for longer would let grants end that were to be prolonged.
        limit = min(timeout, GRANT / 3, state.options.lease / 6)
        tell = partial(_tell_refusals, state, topology)
        self._upkeep = Upkeep(self.session, self._inbox, topology, limit, tell)
        self.subscriber = Subscriber(self.session, topology, timeout)
        self.closed = self.started = False

    def start(self, publish: str) -> None:
        """Start the threads; *publish* is the command that sends messages."""
        self.session.publish, self.subscriber.sharded = publish, publish == "SPUBLISH"
        if not self.closed:
            self._upkeep.start()
            self.started = True

    def owner_ended(self, reference: object) -> None:
        """Release what the owner of *reference* has, which nobody else can release."""
        if self.session.live:
            _ = self.session.wake(reference)

    def held(self) -> list[str]:
        """Return the names of what is renewed until it is released."""
        return [hold.name for hold in list(self.session.live) if hold.entries and hold.renewed]

    def close(self, timeout: float) -> None:
        """Release what is held, and end the threads; errors as `Upkeep.close`."""
        self.closed = True
        self.subscriber.close()  # a release would give a lock to this very client
        waiters: list[Any] = [*list(self.session.live), *list(self.session.calls)]
        for line in list(self.session.lines.values()):
            waiters += line.waiters
        waiting = [each.place for each in waiters if each.place is not None]
        try:
            self._upkeep.close(timeout)
        finally:
            for place in waiting:
                if place.bell is not None:
                    place.bell()  # who waits finds out

    def after_fork(self) -> None:
        """Begin anew in a forked child: it holds nothing, and has no thread and no connection."""
        session = self.session
        for hold in list(session.live):
            hold.leave_owner()
            hold.over = ENDED
        for call in list(session.calls):
            call.over = ENDED
        session.watchdog.forget_lost()
        while not self._inbox.empty():
            self._inbox.get_nowait()
        session.parents.add(session.client_id)
        session.begin(self._state.client_id)
        self._upkeep.reset()
        self.subscriber.reset()
        self.started = False


def client_of(driver: ConnectedDriver) -> Client:
    """Return the session and threads of the client of *driver*, made when they are needed.

    There is one, whoever asks first: two would each release what the other one is granted.
    """
    if driver.second is None:
        second = Client(driver.state, driver.topology, driver.timeout, driver.home_of)
        if vars(driver).setdefault("second", second) is second:
            # What both keep must not refer back to the driver.
            follow = driver._reporter.on_move = second.session.follow_keys
            driver.topology.on_change = follow
    return cast("Client", driver.second)


def _tell_loss(hold: Hold) -> None:
    events, reason = hold.lock.session.events, hold.reason or hold.expiry_reason()
    if reason == "unreachable past validity" and (failure := events.failure_of(hold)):
        hold.detail = f"the last renewal failed: {failure}"
    events.lost(hold, reason)
    while hold.listeners:
        try:
            listener = hold.listeners.pop(0)
        except IndexError:  # somebody does not listen any more
            return
        notify_loss(listener)


def _tell_forgotten(hold: Hold) -> None:
    acquired = f", acquired at {hold.acquired_at}," if hold.acquired_at else ""
    message = (
        f"hold of {hold.name!r} by {hold.label}{acquired} was never released; it is released now"
    )
    call_user(hold.lock.session, "a warning", partial(warn_at, hold.acquired_at, message))


_FOLLOWS = {
    "keys.refused": "waiters have no queue, so a release wakes them all",
    "messages.refused": "releases are not announced to them, so waiters poll",
}


def _tell_refusals(state: State, topology: Topology) -> None:
    """Log, once for each event, what servers refused for want of a right, and no call fails for."""
    for node in topology.nodes:
        for event in list(node.refused):
            refusal = node.refused.pop(event, None)  # two threads may look at a time
            if refusal is not None:
                tell = partial(_log_missing, state, topology, event, refusal)
                call_user(Client, "a handler of the log", tell)


def _log_missing(state: State, topology: Topology, event: str, refusal: str) -> None:
    """Log what follows from a right that is missing, with the line that gives it."""
    from interlock.check import Requirements  # noqa: PLC0415 - few clients need it

    sharded = state.options.pubsub != "plain" and bool(topology.sharded)
    line = Requirements(options=state.options, sharded=sharded).acl_line()
    state.note(
        event, f"{_FOLLOWS[event]} ({safe(refusal)}); this line of an ACL file permits it: {line}"
    )
