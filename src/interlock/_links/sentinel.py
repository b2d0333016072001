"""The Sentinels of a service. They are asked one after another where its primary is.

A Sentinel that does not answer costs its share of the time and no more. The one that answered is
asked first from then on. If at least one knows the service, a missing primary is an outage and
not a mistake.

Every failover has an epoch of its own, larger than all before it. A Sentinel that has not heard
of the last failover yet tells an older epoch, and is ignored. The primary that it names may be
alive, and grant a lock that the next primary has already granted to somebody else. An equal epoch
counts only for the same primary as before. Any other answer counts only if most Sentinels agree:
then they were set up anew.

The `Sentinel.discover_master` of redis-py is not used. Only the text of its error says whether a
password was refused or a Sentinel is down. It gives each Sentinel the whole time, and changes its
list without a lock.

Source: https://redis.io/docs/latest/develop/reference/sentinel-clients/
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, cast

from interlock._core.model.foreign_text import safe
from interlock._links.replies import understood
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock._links.dialled import Dialled
    from interlock._links.endpoint import Endpoint

Address = tuple[str, int]
"""Host and port."""
LEAST = 0.01
"""Seconds for a server whose time is up."""
_UNKNOWN: Address = ("", 0)
"""Stands for a new primary. A Sentinel must name it with a larger epoch, or most must agree."""


class Sentinels:
    """The Sentinels of one service; connections can be made to any of them.

    Args:
        service: the name that they know the primary by.
        nodes: the endpoints of the Sentinels.
        others: how many other Sentinels a Sentinel must know, or its answer does not count.
        host: the host of the primary, in place of the one that the Sentinels tell.
    """

    moves = served = False
    login = None

    def __init__(
        self, service: str, nodes: Sequence[Endpoint], *, others: int = 0, host: str | None = None
    ) -> None:
        self.service = service
        self._epochs: dict[Address, int] = {}
        # By epoch: an answer that another thread has outrun then takes nothing back.
        self._primaries: dict[int, Address] = {}
        self.refused = dict[str, str]()
        # Sorted: the same Sentinels in another order are the same service.
        self.where = f"{service} (Sentinels {', '.join(sorted(node.where for node in nodes))})"
        self._nodes = list(nodes)
        self._others = others
        self.host = host
        self._seen = False

    @property
    def epoch(self) -> int:
        """The epoch of the last known failover; known before there is a connection to a primary."""
        return max(list(self._primaries), default=0)

    @property
    def nodes(self) -> Sequence[Endpoint]:
        """The Sentinels; the one that answered last comes first."""
        return self._nodes

    def connect(self, timeout: float) -> Dialled:
        """Return a connection to a Sentinel that answers.

        Raises:
            ServerUnavailableError: none answered within about *timeout* seconds.
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
        """Return the address of the primary, from the first Sentinel that knows it.

        Raises:
            ServerUnavailableError: none knew it within about *timeout* seconds; the message tells
                why.
        """
        failures: list[ServerUnavailableError] = []
        votes: Counter[tuple[Address, int]] = Counter()
        nodes = self._nodes
        for node, seconds in self._shares(timeout):
            try:
                connection = node.connect(seconds)
                reply = node.ask(connection, "SENTINEL", "MASTER", self.service)
                connection.disconnect()
                with understood(node.where):
                    primary = self._primary(reply)
            except ServerUnavailableError as error:
                failures.append(error)
                continue
            if primary is None:
                continue
            address, epoch = primary
            votes[primary] += 1
            primaries = self._primaries
            counts = epoch >= self.epoch and primaries.setdefault(epoch, address) == address
            if not counts and votes[primary] > len(nodes) // 2:
                self._primaries, counts = {epoch: address}, True
            if counts:
                self._epochs[address] = epoch
                # A new list, not a change of the old one: others may iterate over that.
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
        """Yield each Sentinel and the seconds that it may take.

        That leaves time for the last Sentinel, and for the primary.
        """
        until = time.monotonic() + timeout
        nodes = self._nodes
        for number, node in enumerate(nodes):
            yield node, max((until - time.monotonic()) / (len(nodes) - number + 1), LEAST)

    def epoch_of(self, address: Address) -> int:
        """Return the epoch with which *address* was named last."""
        return self._epochs.get(address, 0)

    def announced(self, address: Address) -> None:
        """Note that there may be a new primary at *address*; the next answer tells its epoch."""
        primaries, epoch = self._primaries, self.epoch
        if primaries.get(epoch, address) != address:
            primaries[epoch] = _UNKNOWN

    def _primary(self, reply: object) -> tuple[Address, int] | None:
        """Return the primary's address and epoch; None if it is down, or the reply does not count.

        For a while, a Sentinel that performs a failover tells the next epoch together with the
        former address. The former primary must not draw tokens of that epoch.
        """
        fields = [safe(field.decode(errors="replace")) for field in cast("list[bytes]", reply)]
        state = dict(zip(fields[::2], fields[1::2], strict=True))
        flags = state["flags"].split(",")
        is_up = "master" in flags and not {"s_down", "o_down", "failover_in_progress"} & set(flags)
        if not is_up or int(state["num-other-sentinels"]) < self._others:
            return None
        return (self.host or state["ip"], int(state["port"])), int(state["config-epoch"])

    def _failure(self, failures: Sequence[ServerUnavailableError]) -> ServerUnavailableError:
        """Return the error for a caller when no Sentinel could help.

        It is made from the most helpful of *failures*.
        """
        if any("No such master" in str(failure) for failure in failures):
            return ServerUnavailableError(
                f"the Sentinels do not know {self.where}: the path of the URL must begin with "
                "the name of the service that they monitor",
                code="ERR",
                transient=self._seen,
            )
        for failure in failures:
            if "unknown command 'SENTINEL'" in str(failure).replace("`", "'"):
                return ServerUnavailableError(
                    f"the server of {self.where} is not a Sentinel: name the Sentinels' hosts and "
                    "ports, or connect to the server itself by redis://",
                    code=failure.code,
                )
            if failure.code is not None:
                return ServerUnavailableError(
                    f"no Sentinel answered for {self.where}: {failure}; "
                    "what concerns the Sentinels themselves is told by "
                    "sentinel_username, sentinel_password, sentinel_ssl, ...",
                    code=failure.code,
                    transient=failure.transient,
                )
        return ServerUnavailableError(
            f"no Sentinel answered for {self.where}: {'; '.join(map(str, failures))}",
            transient=self._seen,
        )
