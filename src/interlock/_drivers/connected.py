"""The base class of the drivers with threads and connections of their own.

It makes the client's state and the thread that reports. It ends them when the client is closed or
dropped, and when the interpreter exits. In a forked child it begins again. A driver adds the
connections for commands, and how it waits.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

from interlock._drivers.background.event_delivery import Observers
from interlock._drivers.background.reporter import Reporter
from interlock._drivers.background.sentinel_monitor import SentinelMonitor
from interlock._drivers.process import lifecycle
from interlock._drivers.state import State
from interlock._links.sentinel_endpoint import SentinelEndpoint
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.hold import Owner
    from interlock._core.upkeep.session import Session
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.options import Options


class Second(Protocol):
    """A client's session, and its threads."""

    def owner_ended(self, reference: object) -> None:
        """Release what the owner of *reference* has, which nobody else can release."""
        ...

    def held(self) -> list[str]:
        """Return the names of what is renewed until it is released."""
        ...

    def after_fork(self) -> None:
        """Begin anew in a forked child."""
        ...

    def close(self, timeout: float) -> None:
        """Release what is held, and end the threads, within *timeout* seconds."""
        ...


class ConnectedDriver:
    """What `ThreadDriver` and `AsyncDriver` have in common.

    Args:
        servers: one server, or a cluster.
        options: the client's.
        topology: of *servers*.
        caller: returns the owner that calls.

    Attributes:
        face: what users call the client.
        topology: as given.
        timeout: seconds for a reply.
        state: the client's.
        home_of: returns this driver, or None if it is gone.
        second: the client's session and threads (`interlock._drivers2`), once it is in use.
    """

    face: str
    second: Second | None = None

    def __init__(
        self,
        servers: Endpoint | Cluster,
        options: Options,
        topology: Topology,
        caller: Callable[[], Owner],
    ) -> None:
        if options.pubsub == "sharded" and topology.only is not None:
            raise ConfigError(
                'sharded channels need a cluster (redis+cluster://): use pubsub="auto"'
            )
        self.topology = topology
        self.timeout = self._timeout = servers.command_timeout or options.command_timeout
        self.state = State(servers, options, topology, caller)
        self.home_of = weakref.ref(self)
        self.observers = Observers(self.state.events)
        self._reporter = Reporter(self.state, topology, self._timeout)
        self._monitor: SentinelMonitor | None = None
        if isinstance(servers, SentinelEndpoint):
            self._monitor = SentinelMonitor(servers, self._timeout, self._reporter.move)
        self.closed = False
        self.ending = lifecycle.Ending()

    def _follow_process(self, connections: object) -> None:
        """Follow the process from now on: *connections* for commands are there."""
        # None of these refers back to the driver, so it is collected when nobody can use it any
        # more. The thread that reports keeps these alive: they are still whole then.
        self._reporter.beside = (connections, self._monitor)
        lifecycle.register(self)

    def __del__(self, late: Callable[[], bool] = lifecycle.finalizing) -> None:
        if hasattr(self, "ending") and not late():
            lifecycle.dropped(self, f"{self.face} {self.state.where}")

    @classmethod
    def home(cls, session: Session) -> Self:
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
        return self._reporter.started

    def owner_ended(self, reference: object) -> None:
        """Release soon what the owner of *reference* had, which nobody else can release."""
        if self.second is not None:
            self.second.owner_ended(reference)

    def held(self) -> list[str]:
        """Return the names of what is renewed until it is released."""
        return [] if self.second is None else self.second.held()

    def publish(self) -> str:
        """Return the command that sends messages; empty for no messages.

        Before this, a cluster must have been asked whether it has sharded channels.

        Raises:
            ConfigError: sharded channels were asked for, and the cluster does not have them.
        """
        pubsub = self.state.options.pubsub
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
        self._forget_connections()
        self._reporter.after_fork()
        self.observers.after_fork()
        if self._monitor is not None:
            self._monitor.after_fork()
        self.state.begin()
        self.state.events.after_fork()
        if self.second is not None:
            self.second.after_fork()

    def _forget_connections(self) -> None:
        """Forget the connections for commands: they are the parent's."""
        raise NotImplementedError

    def _close_connections(self, timeout: float) -> None:
        """Wait at most *timeout* seconds for running commands: then all holds are known."""

    def _end(self, timeout: float) -> None:
        self.ending.run(partial(self._end_all, timeout), timeout)

    def _end_all(self, timeout: float) -> None:
        with ExitStack() as stack:
            if self._monitor is not None:
                stack.callback(self._monitor.close)
            stack.callback(self.observers.close)
            self._close_connections(timeout)
            if self.second is not None:
                _ = stack.callback(self.second.close, timeout)
            self._reporter.close(timeout)
