"""The Sentinels of a service: asked one after another where its primary is.

A Sentinel that does not answer costs its share of the time and no more, and whoever answered is
asked first from then on. While at least one knows the service, that it has no primary just now is
an outage and not a mistake.

Every failover has an epoch of its own, larger than all before it. So a Sentinel that has not
heard of the last one yet is told by its epoch, and not listened to: the primary that it names may
be alive and grant what the next one has granted already. Only when most Sentinels agree is an
epoch believed that is not larger: they were set up anew.

redis-py opens the connections. Its `Sentinel.discover_master` is not used: it tells a refused
password from a Sentinel that is down only in the text of its error, gives each Sentinel the whole
time, and changes its list without a lock.

Source: https://redis.io/docs/latest/develop/reference/sentinel-clients/
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from interlock._links.endpoint import Endpoint
    from interlock._links.open_connections import Address

LEAST = 0.01
"""Seconds that a server is given whose time is up."""
_UNKNOWN: Address = ("", 0)
"""Stands for a primary that only an epoch after the last one names, or most Sentinels."""


class Sentinels:
    """The Sentinels of one service; an origin of connections to any of them.

    Args:
        service: the name that they know the primary by.
        nodes: one endpoint each.
        others: how many other Sentinels one must know for its word to count.
        host: the primary's, instead of the one that they tell.

    Attributes:
        epoch: of the last failover that was heard of; it is known before any connection to a
            primary is.
    """

    moves = served = False

    def __init__(
        self, service: str, nodes: Sequence[Endpoint], *, others: int = 0, host: str | None = None
    ) -> None:
        self.service = service
        self.epoch = 0
        self._epochs: dict[Address, int] = {}
        self._current: Address | None = None
        # Sorted: whoever lists the same Sentinels in another order means the same service.
        self.where = f"{service} (Sentinels {', '.join(sorted(node.where for node in nodes))})"
        self._nodes = list(nodes)
        self._others = others
        self.host = host
        self._seen = False

    @property
    def nodes(self) -> Sequence[Endpoint]:
        """The Sentinels, the one that answered last in front."""
        return self._nodes

    def connect(self, timeout: float) -> Any:
        """Return a connection to a Sentinel that answers.

        Raises:
            ServerUnavailableError: none did within about *timeout* seconds.
        """
        failures: list[ServerUnavailableError] = []
        for node, seconds in self._shares(timeout):
            try:
                connection = node.connect(seconds)
                _ = node.ask(connection, "PING")
            except ServerUnavailableError as error:
                failures.append(error)
            else:
                return connection
        raise self._failure(failures) from failures[0]

    def look_up(self, timeout: float) -> Address:
        """Return where the primary is, in the word of the first Sentinel that knows.

        Raises:
            ServerUnavailableError: none did within about *timeout* seconds; its message tells why.
        """
        asked = self._turns(timeout)
        reply: object = None
        try:
            while True:
                node, seconds = asked.send(reply)
                try:
                    connection = node.connect(seconds)
                    reply = node.ask(connection, "SENTINEL", "MASTER", self.service)
                    connection.disconnect()
                except ServerUnavailableError as error:
                    reply = error
        except StopIteration as stop:
            return cast("Address", stop.value)

    async def look_up_async(self, timeout: float) -> Address:
        """Return what `look_up` returns."""
        asked = self._turns(timeout)
        reply: object = None
        try:
            while True:
                node, seconds = asked.send(reply)
                try:
                    connection = await node.connect_async(seconds)
                    reply = await node.ask_async(connection, "SENTINEL", "MASTER", self.service)
                    await connection.disconnect(nowait=True)
                except ServerUnavailableError as error:
                    reply = error
        except StopIteration as stop:
            return cast("Address", stop.value)

    def _turns(self, timeout: float) -> Generator[tuple[Endpoint, float], object, Address]:
        """Yield whom to ask and for how long, and be sent the reply, or why there is none.

        End with the primary's address.
        """
        failures: list[ServerUnavailableError] = []
        votes: Counter[tuple[Address, int]] = Counter()
        nodes = self._nodes
        for node, seconds in self._shares(timeout):
            reply = yield node, seconds
            if isinstance(reply, ServerUnavailableError):
                failures.append(reply)
                continue
            primary = self._primary(reply)
            if primary is None:
                continue
            address, epoch = primary
            votes[primary] += 1
            is_newer = epoch > self.epoch or (
                epoch == self.epoch and self._current in (None, address)
            )
            if is_newer or votes[primary] > len(nodes) // 2:
                self.epoch, self._current = epoch, address
                self._epochs[address] = epoch
                # Another list, not a change in this one: others may be going through it.
                self._nodes = [node, *(other for other in nodes if other is not node)]
                self._seen = True
                return address
        if len(failures) < len(nodes):
            raise ServerUnavailableError(
                f"no Sentinel knows a primary of {self.where} that is up: a failover is under way",
                transient=True,
            )
        raise self._failure(failures) from failures[0]

    def _shares(self, timeout: float) -> Iterator[tuple[Endpoint, float]]:
        """Yield each Sentinel and the seconds that it may take, so that the last one and the primary have theirs."""
        until = time.monotonic() + timeout
        nodes = self._nodes
        for number, node in enumerate(nodes):
            yield node, max((until - time.monotonic()) / (len(nodes) - number + 1), LEAST)

    def epoch_of(self, address: Address) -> int:
        """Return the epoch by which *address* was named last."""
        return self._epochs.get(address, 0)

    def announced(self, address: Address) -> None:
        """Take *address* for that of a new primary, whose epoch the next answer will tell."""
        if self._current not in (None, address):
            self._current = _UNKNOWN

    def _primary(self, reply: object) -> tuple[Address, int] | None:
        """Return the address of a primary that is up, and the epoch by which it is one.

        A Sentinel that performs a failover tells the next epoch for a while together with the
        former address. Tokens of that epoch must not be drawn there.
        """
        fields = [field.decode() for field in cast("list[bytes]", reply)]
        state = dict(zip(fields[::2], fields[1::2], strict=True))
        flags = state["flags"].split(",")
        is_up = "master" in flags and not {"s_down", "o_down", "failover_in_progress"} & set(flags)
        if not is_up or int(state["num-other-sentinels"]) < self._others:
            return None
        return (self.host or state["ip"], int(state["port"])), int(state["config-epoch"])

    def _failure(self, failures: Sequence[ServerUnavailableError]) -> ServerUnavailableError:
        """Return the error for no Sentinel's being of any use.

        The most telling of what went wrong.
        """
        if any("No such master" in str(failure) for failure in failures):
            return ServerUnavailableError(
                f"the Sentinels do not know {self.where}: the path of the URL must begin with the name of the service "
                "that they monitor",
                code="ERR",
                transient=self._seen,
            )
        for failure in failures:
            if failure.code is not None:
                return ServerUnavailableError(
                    f"no Sentinel answered for {self.where}: {failure}; what concerns the Sentinels themselves is told by "
                    "sentinel_username, sentinel_password, sentinel_ssl, ...",
                    code=failure.code,
                    transient=failure.transient,
                )
        return ServerUnavailableError(
            f"no Sentinel answered for {self.where}: {'; '.join(map(str, failures))}",
            transient=self._seen,
        )
