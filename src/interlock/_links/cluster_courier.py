"""What a renewal thread sends by in a cluster: a courier for each node, chosen by the slot of the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._links.courier import Courier
from interlock._links.redirection import Route
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.effects import Eval
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint


class ClusterCourier:
    """What `Courier` is to one server; node after node, so what should not wait for another node has one of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._couriers: dict[Endpoint, Courier] = {}

    def batch(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        patience: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[object]:
        """Run *calls*, in one write for each node; arguments and results as `Courier.batch`, with the times for each node."""
        groups: dict[Endpoint | None, list[int]] = {}
        for place, call in enumerate(calls):
            groups.setdefault(self._cluster.owner(call.keys[0]), []).append(place)
        replies: list[object] = [None] * len(calls)
        for node, places in groups.items():
            group = [calls[place] for place in places]
            if node is None:
                answers: list[object] = [self._cluster.nobody(call.keys[0]) for call in group]
            else:
                answers = self._to(node).batch(group, timeout, patience, meanwhile)
            for place, answer in zip(places, answers, strict=True):
                replies[place] = answer
                if isinstance(answer, ServerUnavailableError):
                    replies[place] = self._after(calls[place], answer, timeout, patience, meanwhile)
        self._forget_the_gone()
        return replies

    def _after(
        self,
        call: Eval[object],
        failure: ServerUnavailableError,
        timeout: float,
        patience: float,
        meanwhile: Callable[[], None] | None,
    ) -> object:
        """Return what *call* comes to in the end, which the node that serves its keys has answered by *failure*."""
        route = Route(self._cluster)
        while True:
            try:
                node = route.next(failure)
            except ServerUnavailableError as error:
                return error
            courier = self._to(node)
            if route.asking:
                answer = courier.ask(call, timeout, patience)
            else:
                [answer] = courier.batch([call], timeout, patience, meanwhile)
            if not isinstance(answer, ServerUnavailableError):
                return answer
            failure = answer

    def _to(self, node: Endpoint) -> Courier:
        courier = self._couriers.get(node)
        if courier is None:
            courier = self._couriers[node] = Courier(node)
        return courier

    def _forget_the_gone(self) -> None:
        if len(self._couriers) > 1:
            for node in set(self._couriers) - set(self._cluster.nodes):
                self._couriers.pop(node).drop()

    def drop(self) -> None:
        """Close what is open; doing it twice changes nothing."""
        for courier in self._couriers.values():
            courier.drop()
