"""The base class of the drivers with threads and connections of their own.

It has the client's session and threads, which it ends when the client is closed or dropped, and when
the interpreter exits. In a forked child it begins again. A driver adds the connections for commands,
and how it waits.
"""

# The classes of a driver share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from contextlib import ExitStack, suppress
from functools import partial
from queue import SimpleQueue
from random import Random
from typing import TYPE_CHECKING, Any, Self

from interlock._core.model.effects import GRACE, NEVER
from interlock._core.model.hold import ENDED, LOST, Hold
from interlock._core.model.names import GRANT
from interlock._core.upkeep.session import Outside, Session
from interlock._drivers.background.callbacks import call_user
from interlock._drivers.background.event_delivery import Observers
from interlock._drivers.background.log import log_now
from interlock._drivers.background.reports import Reports
from interlock._drivers.background.sentinel_monitor import SentinelMonitor
from interlock._drivers.background.subscriber import Subscriber
from interlock._drivers.background.upkeep import Upkeep
from interlock._drivers.process import clock, lifecycle
from interlock._drivers.process.identity import new_client_id
from interlock._links.sentinel import SentinelEndpoint
from interlock._misuse import warn_at
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Owner
    from interlock._links.topology import Topology
    from interlock.options import Options


class ConnectedDriver:
    """What `ThreadDriver` and `AsyncDriver` have in common.

    Nothing that it has refers back to it, so it is collected when nobody can use it any more.

    Attributes:
        face: what users call the client.
        timeout: seconds for a reply.
        session: what its operations share.
        subscriber: hears the messages for its waiters.
        observers: the users', to which events are delivered.
        ending: its end, which may be tried again until it is complete.
        closed: whether `close` was called.
        started: whether its threads run.
    """

    face: str

    def __init__(
        self,
        topology: Topology,
        options: Options,
        connections: object,
        caller: Callable[[], Owner],
    ) -> None:
        if options.pubsub == "sharded" and not topology.clustered:
            raise ConfigError(
                'sharded channels need a cluster (redis+cluster://): use pubsub="auto"'
            )
        self.topology, self.timeout = topology, timeout_of(topology, options)
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        outside = Outside(
            options=options,
            clock=clock.now,
            random=Random().random,  # noqa: S311 - no secret
            wake=self._inbox.put,
            tell_loss=_tell_loss,
            tell_forgotten=_tell_forgotten,
            epoch=topology.epoch,
            clustered=topology.clustered,
            counts_failovers=topology.moves,
            patience=self.timeout,
            note=partial(_note, topology.where, {}),
            took_over=topology.took_over,
            database=topology.identity,
            where=topology.where,
            home=weakref.ref(self),
            caller=lambda: caller().reference,
        )
        self.session = session = Session(outside, new_client_id())
        self.observers = Observers(session.events)
        # A server that is silent for longer would let grants end that were to be prolonged.
        limit = min(self.timeout, GRANT / 3, options.lease / 6)
        reports = Reports(session, topology)
        self._upkeep = Upkeep(session, self._inbox, topology, limit, reports)
        self.subscriber = Subscriber(session, topology, self.timeout)
        topology.on_change = self._upkeep.move if topology.moves else session.follow_keys
        self._monitor = (
            SentinelMonitor(topology) if isinstance(topology, SentinelEndpoint) else None
        )
        # Its thread keeps these alive: they are still whole when the driver is collected.
        self._upkeep.beside = (connections, self._monitor)
        self.closed = self.started = False
        self.ending = lifecycle.Ending()
        lifecycle.register(self)

    def __del__(self, late: Callable[[], bool] = lifecycle.finalizing) -> None:
        if hasattr(self, "ending") and not late():
            lifecycle.dropped(self, f"{self.face} {self.session.outside.where}")

    def of(self, session: Any) -> Self:
        """Return the driver of the client that *session* belongs to.

        Raises:
            ConfigError: it is a client of another face.
        """
        if session is self.session:
            return self
        driver = session.home()
        if not isinstance(driver, type(self)) or driver.face != self.face:
            raise ConfigError("locks of sync and asyncio clients cannot be held as one")
        return driver

    def _seconds(self, call: Eval[object], least: float = GRACE) -> float:
        """Return the seconds that *call* may take; *least* if its time is up."""
        if call.deadline == NEVER:
            return self.timeout
        return min(self.timeout, max(call.deadline - clock.now(), least))

    def _start_threads(self) -> None:
        """Start what every hold needs, once the connections are open."""
        self.session.publish = self._publish()
        if not (self.closed or self.started):  # thousands of tasks may come here at first
            self._upkeep.start()
            self.started = True

    def owner_ended(self, reference: object) -> None:
        """Release soon what the owner of *reference* had, which nobody else can release."""
        if self.session.live:
            _ = self.session.wake(reference)

    def held(self) -> list[str]:
        """Return the names of what is renewed until it is released."""
        return [hold.name for hold in list(self.session.live) if hold.entries and hold.renewed]

    def _publish(self) -> str:
        """Return the command that sends messages; empty for no messages.

        Before this, a cluster must have been asked whether it has sharded channels.

        Raises:
            ConfigError: sharded channels were asked for, and the cluster does not have them.
        """
        pubsub = self.session.options.pubsub
        if pubsub == "off":
            return ""
        if pubsub == "sharded" and not self.topology.sharded:
            raise ConfigError(
                f"{self.topology.where} has no sharded channels (Redis 7 and Valkey have): "
                'use pubsub="auto"'
            )
        return "SPUBLISH" if pubsub != "plain" and self.topology.sharded else "PUBLISH"

    def at_exit(self) -> None:
        """Release what is still held when the interpreter exits."""
        self._end(lifecycle.EXIT_TIMEOUT)

    def end(self) -> None:
        """Release what is still held and end every thread and connection.

        If it was interrupted, another call goes on from there. Once the end is complete, another
        call changes nothing.

        Raises:
            ServerUnavailableError: some holds could not be released; they end with their leases.
        """
        self._end(self.timeout)

    def after_fork(self) -> None:
        """Become another client, which holds nothing, in a forked child."""
        self.ending.after_fork()
        self._forget_connections()
        self.observers.after_fork()
        if self._monitor is not None:
            self._monitor.after_fork()
        self._forget_holds()

    def _forget_holds(self) -> None:
        session = self.session
        for hold in list(session.live):
            for each in (hold, *hold.wholes()):
                each.leave_owner()
            hold.over = ENDED
        for call in list(session.calls):
            call.over = ENDED
        session.watchdog.forget_lost()
        while not self._inbox.empty():
            self._inbox.get_nowait()
        session.parents.add(session.client_id)
        session.begin(new_client_id())
        self._upkeep.reset()
        self._upkeep.reports.reset()
        self.subscriber.reset()
        self.started = False

    def _forget_connections(self) -> None:
        """Forget the connections for commands: they are the parent's."""
        raise NotImplementedError

    def _close_connections(self, timeout: float) -> None:
        """Wait at most *timeout* seconds for running commands: then all holds are known."""

    def _end(self, timeout: float) -> None:
        self.closed = True
        self.ending.run(partial(self._end_all, timeout), timeout)

    def _end_all(self, timeout: float) -> None:
        deadline = clock.now() + timeout
        with ExitStack() as stack:
            if self._monitor is not None:
                stack.callback(self._monitor.close)
            stack.callback(self.observers.close)
            self._close_connections(timeout)
            # A silent server has used up the time, but the releases have another connection.
            self._end_holds(max(deadline - clock.now(), GRACE))

    def _end_holds(self, timeout: float) -> None:
        """Release what is held, and end the threads; errors as `Upkeep.close`."""
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


def timeout_of(servers: Topology, options: Options) -> float:
    """Return how many seconds a reply may take."""
    return servers.command_timeout or options.command_timeout


def _tell_loss(hold: Hold) -> None:
    if not hold.parts:  # else observers were told of these
        session, reason = hold.lock.session, hold.reason or hold.expiry_reason()
        failure = session.watchdog.failure_of(hold)
        if reason == "unreachable past validity" and failure:
            hold.detail = f"the last renewal failed: {failure}"
        session.events.lost(hold, reason)
    while hold.listeners:
        with suppress(IndexError):  # somebody does not listen any more
            hold.listeners.pop(0)()
    for whole in hold.wholes():
        if whole.over is LOST:
            _tell_loss(whole)


def _tell_forgotten(hold: Hold) -> None:
    acquired = f", acquired at {hold.acquired_at}," if hold.acquired_at else ""
    message = (
        f"hold of {hold.name!r} by {hold.label}{acquired} was never released; it is released now"
    )
    call_user(hold.lock.session, "a warning", partial(warn_at, hold.acquired_at, message))


def _note(where: str, noted: dict[str, object], event: str, text: str) -> None:
    """Log what the server lacks, or what it is asked in vain, once for each *event*."""
    me = object()  # two threads may note it at a time
    if noted.setdefault(event, me) is me:
        log_now(event, "%s: %s", where, text, server=where)
