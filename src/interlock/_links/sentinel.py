"""A primary under Sentinel: connections that lead to it and to no other server.

Theory. Sentinels name the primary, and may be wrong for a moment. So a connection counts only once
its server itself says that it is a primary (ROLE). After that the hot path is that of a single
server. A connection may still fail in three ways, and after each the Sentinels are asked again:

* It breaks.
* Its server answers as a replica does.
* A Sentinel announces another primary. Then the connections to the former one are cut. The cut
  also frees callers that wait for a server that hangs.

New connections go where a Sentinel says, never to an address that was good once. A former primary
that comes back believes that it is still the primary, until it is told otherwise.

Every failover has an epoch of its own, larger than all before it. A Sentinel that has not heard
of the last failover yet tells an older epoch, and is ignored. The primary that it names may be
alive, and grant a lock that the next primary has already granted to somebody else. An equal epoch
counts only for the same primary as before. Any other answer counts only if most Sentinels agree:
then they were set up anew.

No mutex: a signal handler or ``__del__`` may strike anywhere, and use the client. Each step is one
assignment or one method of a dict.

Source: https://redis.io/docs/latest/develop/reference/sentinel-clients/
"""

from __future__ import annotations

import math
import socket
import time
import weakref
from collections import Counter
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from interlock._core.model.foreign_text import safe
from interlock._links.dialled import LEAST, Address
from interlock._links.endpoint import Endpoint
from interlock._links.replies import understood
from interlock._links.shared import Shared, answer_of, copied
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock._links.dialled import Dialled

PATIENCE = 2.5
"""Seconds that all Sentinels together have to answer.

It is less than a command has unless the user says otherwise, so the caller learns why they did not.
"""
LOGIN = 1.0
"""Seconds after which a data node that does not log us in counts as one that hangs.

A caller that has much more time waits longer.
"""
_UNKNOWN: Address = ("", 0)
"""Stands for a new primary. A Sentinel must name it with a larger epoch, or most must agree."""


class Sentinels:
    """The Sentinels of one service, and which primary they are believed to have.

    Args:
        service: the name that they know the primary by.
        nodes: the endpoints of the Sentinels.
        others: how many other Sentinels a Sentinel must know, or its answer does not count.

    Attributes:
        service: as given.
        nodes: the Sentinels; the one that answered last comes first.
        patience: seconds that each of them has to answer.
        where: the name of the service in messages.
    """

    def __init__(self, service: str, nodes: Sequence[Endpoint], *, others: int = 0) -> None:
        self.service = service
        self.nodes = list(nodes)
        self.patience = PATIENCE / len(nodes)
        # Sorted: the same Sentinels in another order are the same service.
        self.where = f"{service} (Sentinels {', '.join(sorted(node.where for node in nodes))})"
        self._others = others
        # By epoch: an answer that another thread has outrun then takes nothing back.
        self._primaries: dict[int, Address] = {}

    @property
    def epoch(self) -> int:
        """The epoch of the last known failover; known before there is a connection to a primary."""
        return max(list(self._primaries), default=0)

    def look_up(self) -> tuple[Address, int]:
        """Return the address of the primary and its epoch, from the first Sentinel that knows it.

        If at least one knows the service, a missing primary is an outage and not a mistake.

        Raises:
            ServerUnavailableError: none knew it; the message tells why.
        """
        failures: list[ServerUnavailableError] = []
        votes: Counter[tuple[Address, int]] = Counter()
        nodes = self.nodes
        for node in nodes:
            try:
                with understood(node.where):
                    primary = self._primary(told_by(node, self.patience, self.service))
            except ServerUnavailableError as error:
                failures.append(error)
                continue
            if primary is None:
                continue
            address, epoch = primary
            votes[primary] += 1
            if epoch >= self.epoch:
                _ = self._primaries.setdefault(epoch, address)
            if not self.believes(address, epoch) and votes[primary] > len(nodes) // 2:
                self._primaries = {epoch: address}
            if self.believes(address, epoch):
                # A new list, not a change of the old one: others may iterate over that.
                self.nodes = [node, *(other for other in nodes if other is not node)]
                return primary
        if len(failures) < len(nodes):
            raise ServerUnavailableError(
                f"no Sentinel knows a primary of {self.where} that is up: a failover is under way",
                transient=True,
            )
        raise self._failure(failures) from failures[0]

    def believes(self, address: Address, epoch: int) -> bool:
        """Return whether the primary is at *address* since the failover *epoch*, as far as known."""
        return epoch >= self.epoch and self._primaries.get(epoch) == address

    def announced(self, address: Address) -> None:
        """Note that there may be a new primary at *address*; the next answer tells its epoch."""
        primaries, epoch = self._primaries, self.epoch
        if primaries.get(epoch, address) != address:
            primaries[epoch] = _UNKNOWN

    def _primary(self, state: dict[str, str]) -> tuple[Address, int] | None:
        """Return the primary's address and epoch; None if it is down, or the answer does not count.

        For a while, a Sentinel that performs a failover tells the next epoch together with the
        former address. The former primary must not draw tokens of that epoch.
        """
        flags = state["flags"].split(",")
        is_up = "master" in flags and not {"s_down", "o_down", "failover_in_progress"} & set(flags)
        if not is_up or int(state["num-other-sentinels"]) < self._others:
            return None
        return (state["ip"], int(state["port"])), int(state["config-epoch"])

    def _failure(self, failures: Sequence[ServerUnavailableError]) -> ServerUnavailableError:
        """Return the error for a caller when no Sentinel could help, the most helpful one."""
        told = next((each for each in failures if each.code is not None), None)
        transient = bool(self._primaries)
        if any("No such master" in str(failure) for failure in failures):
            what = (
                f"the Sentinels do not know {self.where}: the path of the URL must begin with "
                "the name of the service that they monitor"
            )
        elif told is None:
            what = f"no Sentinel answered for {self.where}: {'; '.join(map(str, failures))}"
        elif "unknown command 'SENTINEL'" in str(told).replace("`", "'"):
            transient = False
            what = (
                f"the server of {self.where} is not a Sentinel: name the Sentinels' hosts and "
                "ports, or connect to the server itself by redis://"
            )
        else:
            transient = told.transient
            what = (
                f"no Sentinel answered for {self.where}: {told}; what concerns the Sentinels "
                "themselves is told by sentinel_username, sentinel_password, sentinel_ssl, ..."
            )
        return ServerUnavailableError(
            what, code=None if told is None else told.code, transient=transient
        )


def told_by(node: Endpoint, timeout: float, service: str) -> dict[str, str]:
    """Return what the Sentinel *node* knows of the primary of *service*; errors as `answer`."""
    reply = cast("list[bytes]", node.answer(timeout, "SENTINEL", "MASTER", service))
    words = [safe(word.decode(errors="replace")) for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


class SentinelEndpoint(Endpoint):
    """The primary of a service, wherever it is.

    Args:
        sentinels: the Sentinels that know where it is.
        given: the options of the data nodes, without host and port.

    Attributes:
        sentinels: as given.
        connected: called after every new connection.
    """

    moves = True
    rights = ("role",)

    def __init__(self, sentinels: Sentinels, given: Mapping[str, Any]) -> None:
        super().__init__(given, where=sentinels.where)
        self.sentinels = sentinels
        self.connected: Callable[[], None] = lambda: None
        self._asking = Shared[tuple[Address, int]]("interlock-sentinels")
        self._failure: ServerUnavailableError | None = None
        self.after_fork()

    def after_fork(self) -> None:
        """Forget the connections of the parent process."""
        self._primary: Address | None = None
        self._epoch = 0
        self._moved_at = -math.inf
        # Where each connection leads to. Weak: nobody waits for one that nobody refers to.
        self._open: weakref.WeakKeyDictionary[Dialled, Address] = weakref.WeakKeyDictionary()

    def connect(self, timeout: float, *, for_loop: bool = False) -> Dialled:
        until = time.monotonic() + timeout
        address, epoch = self._found(timeout)
        node = self._node(address)
        seconds = max(until - time.monotonic(), LEAST)
        # A server that takes longer to log us in hangs, and there may be another primary by then.
        # But a first handshake that is late counts as a mistake, which nobody tries again.
        if self.seen or not self.tls:
            seconds = max(min(seconds, LOGIN), seconds / 3)
        try:
            connection = node.connect(seconds, for_loop=for_loop)
            with understood(node.where, connection.disconnect):
                is_primary = node.ask(connection, "ROLE")[0] == b"master"
        except ServerUnavailableError as error:
            # The next try asks the Sentinels again, which makes sense unless there is a code.
            error.transient = error.transient or error.code is None
            raise
        # Another primary may have been announced since the Sentinels were asked.
        if not (is_primary and self.sentinels.believes(address, epoch)):
            connection.disconnect()
            raise ServerUnavailableError(
                f"{node.where}, which the Sentinels named for {self.where}, is not the primary: "
                "a failover is under way",
                transient=True,
            )
        self.moved(address)
        self._epoch = max(self._epoch, epoch)
        self.seen = True
        self.connected()
        return connection

    def _found(self, timeout: float) -> tuple[Address, int]:
        """Return what the Sentinels say; all who want to connect meanwhile share one answer."""
        try:
            return answer_of(self._asking.begin("primary", self._ask), timeout)
        except NotYet:
            if (failure := self._failure) is not None:
                # A caller with less time than they have would never learn that it is a mistake.
                raise copied(failure) from failure.__cause__
            raise ServerUnavailableError(
                f"no Sentinel of {self.where} answered in {timeout:.3g} s", transient=True
            ) from None

    def _ask(self) -> tuple[Address, int]:
        try:
            answer = self.sentinels.look_up()
        except ServerUnavailableError as error:
            self._failure = error
            raise
        self._failure = None
        return answer

    def _node(self, address: Address) -> Endpoint:
        node = self.at(*address)
        # Before it connects: a server may already hang while the connection logs in.
        node.opening = lambda connection: self._open.__setitem__(connection, address)
        return node

    def primaries(self, timeout: float) -> Sequence[Endpoint]:
        address, _ = self._found(timeout)
        return [self._node(address)]

    def epoch(self) -> int:
        """Return the epoch of the primary that connections lead to.

        It grows only after the connections to the former primary were cut. Else the former primary
        could still draw a fencing token of the new epoch, and the next primary would repeat it.
        """
        return self._epoch

    def took_over(self, key: str) -> float:
        del key
        return time.monotonic() - self._moved_at

    def moved(self, address: Address) -> None:
        """Note that the primary is at *address*, and cut the connections to any other address.

        A server that hangs says nothing. Only a cut tells its waiters that they wait for the wrong
        server. Any thread may call this.
        """
        former, self._primary = self._primary, address
        if former in (None, address):
            return
        self._moved_at = time.monotonic()
        self.sentinels.announced(address)
        for ref in self._open.keyrefs():
            connection = ref()
            if connection is None or self._open.get(connection) == address:
                continue
            if (sock := connection.sock) is not None:
                with suppress(OSError):  # it is closed already, as intended
                    # The method of the plain socket. That of a TLS socket also drops the TLS
                    # session, which another thread may use. The socket of an event loop may be
                    # shut by any thread.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
        self.on_change()
