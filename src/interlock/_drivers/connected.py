"""The base class of the drivers with threads and connections of their own.

It makes the session and the threads in the background. It ends them when the client is closed or
dropped, and when the interpreter exits. In a forked child it begins again. A driver adds the
connections for commands, and how it waits.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Self

from interlock._core.model.holds import HELD
from interlock._core.queue.waiters import Waiters
from interlock._core.upkeep.session import Session
from interlock._drivers.background.callbacks import notify_loss
from interlock._drivers.background.event_delivery import Observers
from interlock._drivers.background.log import log_lack
from interlock._drivers.background.renewer import Renewer
from interlock._drivers.background.sentinel_monitor import SentinelMonitor
from interlock._drivers.background.subscriber import Subscriber
from interlock._drivers.process import clock, lifecycle
from interlock._drivers.process.identity import new_client_id
from interlock._drivers.process.unclaimed import Unclaimed
from interlock._links.sentinel_endpoint import SentinelEndpoint
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Client
    from interlock._core.model.holds import Owner
    from interlock._core.upkeep.watchdog import Watchdog
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.options import Options


class ConnectedDriver:
    """What `ThreadDriver` and `AsyncDriver` have in common.

    Args:
        servers: one server, or a cluster.
        options: the client's.
        topology: of *servers*.
        caller: returns the owner that calls.

    Attributes:
        face: what users call the client.
    """

    face: str

    def __init__(
        self,
        servers: Endpoint | Cluster,
        options: Options,
        topology: Topology,
        caller: Callable[[], Owner],
    ) -> None:
        self._timeout = servers.command_timeout or options.command_timeout
        self._subscriber = Subscriber(topology, self._timeout, options.pubsub)
        waiters = self._subscriber.waiters = Waiters(self._subscriber.mutex.lock, self._subscriber)
        self.session = Session(
            options=options,
            client_id=new_client_id(options.client_id),
            clock=clock.now,
            random=Random().random,  # noqa: S311 - no secret
            waiters=waiters,
            wake=lifecycle.weakly(self._wake),
            call_user=notify_loss,
            where=servers.where,
            database=servers.identity,
            epoch=servers.epoch,
            took_over=servers.took_over,
            home=weakref.ref(self),
            clustered=topology.only is None,
            counts_failovers=topology.only is not None and topology.only.moves,
            log=log_lack,
            caller=caller,
        )
        self.observers = Observers(self.session)
        self.unclaimed = Unclaimed(caller)
        self._renewer = Renewer(self.session, topology, self._timeout, self.unclaimed)
        topology.on_change = partial(_follow_keys, self._subscriber, self.session.watchdog)
        self._monitor: SentinelMonitor | None = None
        if isinstance(servers, SentinelEndpoint):
            self._monitor = SentinelMonitor(servers, self._timeout, self._renewer.move)
        self.closed = False
        self.ending = lifecycle.Ending()

    def _follow_process(self, connections: object) -> None:
        """Follow the process from now on: *connections* for commands are there."""
        # None of these refers back to the driver, so it is collected when nobody can use it any
        # more. The renewal thread keeps these alive: they are still whole then.
        self._renewer.beside = (connections, self._subscriber, self._monitor)
        lifecycle.register(self)

    def __del__(self, late: Callable[[], bool] = lifecycle.finalizing) -> None:
        if hasattr(self, "ending") and not late():
            lifecycle.dropped(self, f"{self.face} {self.session.where}")

    @classmethod
    def home(cls, session: Client) -> Self:
        """Return the driver of the client that *session* belongs to.

        Raises:
            ConfigError: it is a client of another face.
        """
        driver = session.home()
        if not isinstance(driver, cls):
            raise ConfigError("locks of sync and asyncio clients cannot be held as one")
        return driver

    @property
    def in_use(self) -> bool:
        """Return whether there are threads and connections."""
        return self._renewer.started

    def owner_ended(self, reference: object) -> None:
        """Release soon what the owner of *reference* did not keep."""
        if self.unclaimed.of(reference):
            self._renewer.wake()

    def held(self) -> list[str]:
        """Return the names of what is renewed until it is released."""
        holds = self.session.holds
        return [hold.name for hold in holds if hold.state is HELD and hold.renewal]

    def at_exit(self) -> None:
        """Release what is still held when the interpreter exits."""
        if not self.ending.over:
            self.closed = True
            self._end(lifecycle.EXIT_TIMEOUT)

    def end_dropped(self) -> None:
        """End as `close` does, in a thread."""
        self.closed = True
        self._end(self._timeout)

    def after_fork(self) -> None:
        """Become another client, which holds nothing, in a forked child."""
        self.ending.after_fork()
        self.session.random = Random().random  # noqa: S311 - other pauses than the parent
        self._forget_connections()
        self._renewer.after_fork()
        self.observers.after_fork()
        self.unclaimed.after_fork()
        self._subscriber.after_fork()
        if self._monitor is not None:
            self._monitor.after_fork()
        self._subscriber.waiters = Waiters(self._subscriber.mutex.lock, self._subscriber)
        self.session.become(new_client_id(self.session.options.client_id), self._subscriber.waiters)

    def _forget_connections(self) -> None:
        """Forget the connections for commands: they are the parent's."""
        raise NotImplementedError

    def _close_connections(self, timeout: float) -> None:
        """Wait at most *timeout* seconds for running commands: then all holds are known."""

    def _wake(self) -> None:
        self._renewer.wake()

    def _end(self, timeout: float) -> None:
        self.ending.run(partial(self._end_all, timeout), timeout)

    def _end_all(self, timeout: float) -> None:
        with ExitStack() as stack:
            if self._monitor is not None:
                stack.callback(self._monitor.close)
            stack.callback(self.observers.close)
            stack.callback(self._subscriber.close)
            # A release would give a lock to this very client, if others of it wait.
            self._subscriber.close()
            self._close_connections(timeout)
            self._renewer.close(self.session.releases_on_close(), timeout)


def _follow_keys(subscriber: Subscriber, watchdog: Watchdog) -> None:
    """Follow keys that other nodes serve now."""
    watchdog.follow_keys()
    subscriber.rearrange()
