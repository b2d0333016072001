"""A server whose password changes, and clients that log in to it, in virtual time.

The client's part is its real `Login`. A connection is no more than what it logged in with.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from interlock._links.login import Follower, Login
from interlock.errors import ServerUnavailableError
from tests.support.simulator import schedule
from tests.support.simulator.network import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval
    from tests.support.simulator.network import Network
    from tests.support.simulator.pubsub import Subscriber
    from tests.support.simulator.schedule import Fault
    from tests.support.simulator.timeline import Timeline


class Account:
    """The only user of a server; it has one password at a time.

    Args:
        network: the server.
        every: seconds after which the password changes.
        grace: seconds after which the server closes the connections that have a former password.
        tells: whether the provider tells for how long its answer still works.

    Attributes:
        changes: how often the password changed.
        logins: how often anybody logged in.
        refused: how many of these were refused.
        closed: how many connections the server closed.
    """

    def __init__(
        self, network: Network, every: float, *, grace: float = 0.5, tells: bool = True
    ) -> None:
        self.network, self.every, self._grace, self._tells = network, every, grace, tells
        self.changes = self.logins = self.refused = self.closed = 0
        self._changed_at = 0.0
        self._wallets: list[Wallet] = []
        self._on = False

    @property
    def password(self) -> str:
        """The one that works now."""
        return f"secret {self.changes}"

    def rotate(self) -> None:
        """Change the password from now on, until `stop`."""
        self._on = True
        self.network.timeline.after(self.every, self._change)

    def stop(self) -> None:
        """Keep the password."""
        self._on = False

    def get_credentials(self) -> tuple[str, str, float]:
        """Return what a provider of this user answers now."""
        left = self._changed_at + self.every - self.network.timeline.now
        return "app", self.password, max(left, 0.001) if self._tells and self._on else self.every

    def admits(self, words: tuple[str, ...]) -> bool:
        """Return whether the server lets in who logs in with *words*."""
        self.logins += 1
        admitted = words == ("app", self.password)
        self.refused += not admitted
        return admitted

    def wallet(self, subscriber: Subscriber) -> Wallet:
        """Return what another client logs in with."""
        wallet = Wallet(self, subscriber)
        self._wallets.append(wallet)
        return wallet

    def _change(self) -> None:
        if self._on:
            self.changes += 1
            self._changed_at = self.network.timeline.now
            self.network.timeline.note(self.network.where, f"has the password {self.password!r}")
            self.network.timeline.after(self._grace, self._close)
            self.network.timeline.after(self.every, self._change)

    def _close(self) -> None:
        self.closed += sum(wallet.close_former() for wallet in self._wallets)


class _Connection:
    """A connection: what it logged in with, and when the server closed it."""

    def __init__(self, words: tuple[str, ...], version: int) -> None:
        self.words, self.version = words, version
        self.closed_at: float | None = None


class VirtualLogin(Login):
    """The real login, whose threads are events of virtual time."""

    def __init__(self, provider: object, timeline: Timeline) -> None:
        super().__init__(provider, clock=lambda: timeline.now)
        self._timeline = timeline
        self._all_followers: list[Follower] = []
        self._turns = itertools.count()
        self._latest = -1
        self._told, self._pause = 0, 0.0

    def newest(self) -> tuple[tuple[str, ...], int]:
        """Return the newest answer and its version, as `command` has it."""
        return self._answer, self.version

    def follow(self, follower: Follower) -> None:
        """Tell *follower* of new credentials from now on."""
        self._all_followers.append(follower)
        self._turn_in(0.0)

    def _all(self) -> list[Follower]:
        return self._all_followers

    def _ask(self) -> Future[tuple[tuple[str, ...], int]]:
        asked = Future[tuple[tuple[str, ...], int]]()
        former = self.version
        self._answer_to(os.getpid(), asked)
        if self.version != former:
            self._turn_in(0.0)  # what rings the bell of the thread that asks again
        return asked

    def _turn_in(self, seconds: float) -> None:
        number = self._latest = next(self._turns)

        def take_turn() -> None:
            if number == self._latest:
                self._told, self._pause, _ = self.turn(self._told, self._pause)
                self._turn_in(self.rests_for(self._pause))

        self._timeline.after(seconds, take_turn)


class Wallet:
    """The connections of one client, and its login.

    Args:
        account: whose passwords it has.
        subscriber: of the client.
    """

    def __init__(self, account: Account, subscriber: Subscriber) -> None:
        self._account, self._network = account, account.network
        self._subscriber = subscriber
        self._login = VirtualLogin(account, self._network.timeline)
        self._connections: dict[str, _Connection] = {}
        self._listening: _Connection | None = None
        subscriber.admit = self._admit_subscriber
        self._login.follow(self)

    def log_in_anew(self) -> None:
        """Log in on each connection that has an older version."""
        login, timeline = self._login, self._network.timeline
        for who, connection in self._connections.items():
            if connection.version != login.version and connection.closed_at is None:
                words, version = login.newest()
                arrive = partial(self._log_in, who, connection, words, version)
                timeline.after(self._network.latency(), arrive)
        listening = self._listening
        if listening and listening.version != login.version and not login.doubted:
            self._listening = None
            # Redis takes no AUTH on it. The client connects anew at once, unlike after a failure.
            self._subscriber.cut(pause=2 * self._network.latency())

    def close_former(self) -> int:
        """Close the connections that did not log in with the password of now; return how many."""
        now, good = self._network.timeline.now, ("app", self._account.password)
        former = [
            each
            for each in self._connections.values()
            if each.closed_at is None and each.words != good
        ]
        for each in former:
            each.closed_at = now
        if self._listening is None or self._listening.words == good:
            return len(former)
        self._listening = None
        self._subscriber.cut()
        return len(former) + 1

    def exchange(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        answer: Callable[[list[object] | ServerUnavailableError], None],
        who: str,
        fault: Fault | None,
    ) -> Exchange:
        """Send *calls*, once its connection is logged in; *who* renews holds, or is any other.

        All others share a connection, as the tasks of a client do.
        """
        network = self._network
        exchange = Exchange(network, calls, answer, who)
        if not who.endswith(".keeper"):
            who = "others"
        connection = self._connections.get(who)
        closed_at = None if connection is None else connection.closed_at
        if connection is not None and closed_at is None:
            exchange.send(timeout, fault)
        elif closed_at is not None and network.timeline.now < closed_at + network.latency():
            del self._connections[who]  # it did not hear of the end yet
            exchange.send(timeout, schedule.drop_request())
        else:
            self._connect(exchange, timeout, who, fault, tries=2)
        return exchange

    def _connect(
        self, exchange: Exchange, timeout: float, who: str, fault: Fault | None, *, tries: int
    ) -> None:
        network, (words, version) = self._network, self._login.now()
        way, back = network.latency(), network.latency()

        def arrive() -> None:
            if self._account.admits(words):
                self._connections[who] = _Connection(words, version)
                network.timeline.after(back, go_on)
            elif tries > 1:
                again = timeout - way - back
                network.timeline.after(
                    back, lambda: self._connect(exchange, again, who, fault, tries=tries - 1)
                )
            else:
                network.timeline.after(back, lambda: exchange.refuse("WRONGPASS"))

        def go_on() -> None:
            if not exchange.abandoned:
                exchange.send(timeout - way - back, fault)

        network.timeline.after(way, arrive)

    def _log_in(
        self, who: str, connection: _Connection, words: tuple[str, ...], version: int
    ) -> None:
        if connection.closed_at is not None or self._connections.get(who) is not connection:
            return
        if self._account.admits(words):
            connection.words, connection.version = words, version
        else:
            self._login.refused(ServerUnavailableError("WRONGPASS", code="WRONGPASS"))

    def _admit_subscriber(self) -> bool:
        words, version = self._login.now()
        admitted = self._account.admits(words)
        if admitted:
            self._listening = _Connection(words, version)
        return admitted
