"""The renewal of a client in a cluster: one thread that knows what is due, and one for each node that something is held on.

A node that hangs makes its own holds wait for its answer and no others: each thread has connections of its own, and sends only what
belongs to its node. Should a slot have moved, it follows there.
"""

from __future__ import annotations

import threading
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from interlock._core.session import GRACE
from interlock._core.watchdog import Round
from interlock._drivers import clock
from interlock._drivers.callbacks import report_aside
from interlock._drivers.keeper import Keeper
from interlock._links.cluster_courier import ClusterCourier
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock._core.effects import Eval
    from interlock._core.holds import Hold
    from interlock._core.session import Session
    from interlock._core.settling import Debt
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint

T = TypeVar("T")


class ClusterKeeper(Keeper):
    """Keeps the holds of one client in a cluster.

    Args:
        session: the client's state.
        cluster: where the holds are.
        timeout: seconds for one reply.
    """

    def __init__(self, session: Session, cluster: Cluster, timeout: float) -> None:
        self._cluster = cluster
        self._lanes: dict[Endpoint | None, _Lane] = {}
        super().__init__(session, ClusterCourier(cluster), timeout)

    def after_fork(self) -> None:
        """Be as new in a forked child."""
        lanes, self._lanes = self._lanes, {}
        super().after_fork()
        for lane in lanes.values():
            lane.courier.drop()

    def close(self, calls: Sequence[Eval[object]], timeout: float) -> None:
        """End all threads; arguments and errors as `Keeper.close`."""
        deadline = clock.now() + timeout
        try:
            super().close(calls, timeout)
        finally:
            for lane in self._lanes.values():
                lane.end()
            for lane in self._lanes.values():
                lane.join(max(deadline - clock.now(), GRACE))

    def _work(self) -> None:
        """Hand what is due to the threads of its nodes; what one of them is too busy for is due again soon."""
        watchdog, settlements, now = self._session.watchdog, self._settlements, clock.now()
        result = Round()
        holds = self._by_node(watchdog.due(now, result), lambda hold: hold.key)
        debts = self._by_node(settlements.take_due(now), lambda debt: debt.effect.call.keys[0])
        self._tell(result)
        for node in holds.keys() | debts.keys():
            self._lane(node).take(partial(self._serve, holds.get(node, ()), debts.get(node, ())))
        for node in set(self._lanes) - {None, *self._cluster.nodes}:
            self._lanes.pop(node).end()

    def _serve(self, holds: Sequence[Hold], debts: Sequence[Debt], courier: ClusterCourier) -> None:
        """Do what is due at one node, in the thread of that."""
        result = Round()
        try:
            self._perform(self._session.watchdog.renew(holds, clock.now, result), courier)
            self._tell(result)
        finally:
            self._perform(self._settlements.carry(debts, clock.now), courier)

    def _by_node(
        self, items: Iterable[T], key_of: Callable[[T], str]
    ) -> dict[Endpoint | None, list[T]]:
        groups: dict[Endpoint | None, list[T]] = {}
        for item in items:
            groups.setdefault(self._cluster.owner(key_of(item)), []).append(item)
        return groups

    def _lane(self, node: Endpoint | None) -> _Lane:
        lane = self._lanes.get(node)
        if lane is None:
            lane = self._lanes[node] = _Lane(ClusterCourier(self._cluster))
        return lane

    def _farewell(self, calls: Sequence[Eval[object]], deadline: float) -> Sequence[object]:
        unheard = ServerUnavailableError(f"{self._cluster.where} did not answer in time", sent=True)
        replies: list[object] = [unheard] * len(calls)
        groups = self._by_node(range(len(calls)), lambda place: calls[place].keys[0])

        def part(places: Sequence[int], until: float) -> None:
            courier, left = ClusterCourier(self._cluster), max(until - clock.now(), GRACE)
            answers = courier.batch([calls[place] for place in places], left, left)
            courier.drop()
            for place, answer in zip(places, answers, strict=True):
                replies[place] = answer

        parting = [
            threading.Thread(target=part, args=(group, deadline), daemon=True)
            for group in groups.values()
        ]
        for number, group in enumerate(groups.values()):
            try:
                parting[number].start()
            except RuntimeError:
                # From Python 3.12 on no thread starts while the interpreter exits: one node after another, each with its share.
                now = clock.now()
                part(group, now + (deadline - now) / (len(groups) - number))
        for thread in parting:
            if thread.is_alive():
                thread.join(max(deadline - clock.now(), GRACE))
        return replies


class _Lane:
    """The thread of one node; it starts with the first work.

    Attributes:
        courier: what it sends by.
    """

    def __init__(self, courier: ClusterCourier) -> None:
        self.courier = courier
        self._works: SimpleQueue[Callable[[ClusterCourier], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy = False

    def take(self, work: Callable[[ClusterCourier], None]) -> None:
        """Do *work*, unless other work is not done yet."""
        if self._busy:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="interlock-keeper-node", daemon=True)
            thread.start()
            self._thread = thread
        self._busy = True
        self._works.put(work)

    def end(self) -> None:
        """Have the thread end when its work is done."""
        self._works.put(None)

    def join(self, timeout: float) -> None:
        """Wait at most *timeout* seconds for that."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            try:
                work(self.courier)
            except BaseException as error:  # noqa: BLE001 - the other holds must go on being kept
                report_aside("the renewal thread", error)
            finally:
                # Nothing that it referred to is kept for longer.
                del work
                self._busy = False
        self.courier.drop()
