"""The next step when a node of a cluster did not serve a command.

It is the same for threads, tasks and the lanes of the upkeep.

A redirection is followed at once, a few times: not all nodes may know the latest map. Any other
error goes to the caller. If the problem may pass, the error is transient, and `session.persist`
asks again as long as there is time. Meanwhile the map is fetched anew, so that asking again helps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._links.replies import RedirectedError
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology

MOST_HOPS = 5


class Route:
    """The way of one command through the cluster, after a node did not serve it.

    Attributes:
        asking: whether the next node must be told that the slot is just moving there.
    """

    __slots__ = ("_hops", "_topology", "asking")

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._hops = 0
        self.asking = False

    def next(self, failure: ServerUnavailableError) -> Endpoint:
        """Return where to send the command that was answered by *failure*.

        Raises:
            ServerUnavailableError: *failure*, if the command is not to be sent on; another error,
                if it was sent on too often.
        """
        if not isinstance(failure, RedirectedError):
            if failure.transient and failure.code != "TRYAGAIN":
                _ = self._topology.fetch()
            raise failure
        self._hops += 1
        if self._hops > MOST_HOPS:
            raise ServerUnavailableError(
                f"the nodes of {self._topology.where} do not agree who serves slot {failure.slot}",
                code=failure.code,
                transient=True,
            ) from failure
        self.asking = failure.asking
        return self._topology.learn(failure)
