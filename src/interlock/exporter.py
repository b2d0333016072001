"""Prometheus metrics of all locks of a service, read from its servers; needs ``prometheus``.

It sees every client, in any language. A scrape reads the servers as ``interlock list`` does.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from interlock._core.insight.observing import ENDLESS
from interlock._drivers.background.log import LOGGER
from interlock.errors import InterlockError
from interlock.inspection import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from interlock._links.topology import Topology
    from interlock.inspection import LockInfo
    from interlock.options import Options

FAMILIES = {
    "interlock_locks": "Locks that are held or awaited.",
    "interlock_locks_late": "Locks with a renewal that is late: the holder is dying or cut off.",
    "interlock_dead_holders": "Holders whose client is dead: silent, and without a connection.",
    "interlock_silent_holders": "Holders whose client is silent: slow, frozen or cut off.",
    "interlock_deadlocked_locks": "Locks that somebody awaits in a deadlock.",
    "interlock_locks_longest_wait_seconds": "The longest wait that is known, without elections.",
    "interlock_wait_age_seconds": "For how long threads and tasks have waited, without elections.",
    "interlock_locks_oldest_hold_seconds": "The longest hold that a card tells, without elections.",
    "interlock_locks_waiters": "Threads and tasks that wait; without cards clients that listen.",
    "interlock_clients": "Clients that hold or await something.",
    "interlock_exporter_up": "1 if the servers could be read.",
    "interlock_exporter_read_seconds": "How many seconds the last reading took.",
}
"""Metric -> what it says."""
BUCKETS = (1, 5, 10, 30, 60, 300, 900, 3600)
"""Seconds."""


class Fleet(Collector):
    """Counts the locks of a service.

    Args:
        servers: of the service.
        options: for reading.
        max_age: seconds for which a count is given out again.
    """

    def __init__(self, servers: Topology, options: Options, *, max_age: float = 5.0) -> None:
        self._servers = servers
        self._options = options
        self._max_age = max_age
        self._mutex = threading.Lock()
        self._read_at = -max_age
        self._families: list[Metric] = []
        self.error = ""

    def describe(self) -> Iterable[Metric]:
        """Return nothing: to register this must not read the servers."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the counts, not older than `max_age`; scrapes at the same time read once."""
        with self._mutex:
            if time.monotonic() - self._read_at >= self._max_age:
                self._families = self._read()
                self._read_at = time.monotonic()
            yield from self._families

    def _read(self) -> list[Metric]:
        started = time.monotonic()
        locks: Counter[str] = Counter()
        waiting: Counter[str] = Counter()
        clients: set[str] = set()
        late = dead = silent = 0
        oldest, failed_before, self.error = 0.0, self.error, ""
        waits: list[float] = []
        try:
            with Reader(self._servers, self._options) as reader:
                for page in reader.pages("*"):
                    for info in page:
                        locks[info.kind] += 1
                        waiting[info.kind] += info.waiting_at_least
                        late += info.late
                        states = [each.client.state for each in info.holders]
                        dead += states.count("dead")
                        silent += states.count("silent")
                        waited, held_for = _times(info)
                        waits += waited
                        oldest = max(oldest, held_for)
                        clients.update(each.client.client_id for each in info.holders)
                        clients.update(each.client.client_id for each in info.waiters)
                steps = [step for each in reader.deadlocks() for step in each.steps]
        except InterlockError as error:
            # Half a count would look like locks that have gone.
            self.error = str(error)
            if not failed_before:
                event = {"event": "exporter.unreadable"}
                LOGGER.warning("the exporter cannot read the locks: %s", error, extra=event)
            return [_gauge("interlock_exporter_up", 0.0)]
        return [
            _by("interlock_locks", "kind", locks),
            _by("interlock_locks_waiters", "kind", waiting),
            _gauge("interlock_locks_late", late),
            _gauge("interlock_dead_holders", dead),
            _gauge("interlock_silent_holders", silent),
            _gauge("interlock_deadlocked_locks", len({step.waits_for for step in steps})),
            _gauge("interlock_locks_longest_wait_seconds", max(waits, default=0.0)),
            _ages("interlock_wait_age_seconds", waits),
            _gauge("interlock_locks_oldest_hold_seconds", oldest),
            _gauge("interlock_clients", len(clients - {""})),
            _gauge("interlock_exporter_up", 1.0),
            _gauge("interlock_exporter_read_seconds", time.monotonic() - started),
        ]


def _times(info: LockInfo) -> tuple[list[float], float]:
    """Return how long each has waited, and how long it is held; nothing of an election.

    A standby waits for days, and a leader leads for as long.
    """
    if info.kind == ENDLESS:
        return [], 0.0
    return [each.waited for each in info.waiters if each.waited is not None], info.held_for or 0.0


def _gauge(name: str, value: float) -> Metric:
    return GaugeMetricFamily(name, FAMILIES[name], value=value)


def _ages(name: str, ages: Sequence[float]) -> Metric:
    """Return *ages* as a histogram that may shrink: waits end."""
    buckets = [(str(float(most)), float(sum(age <= most for age in ages))) for most in BUCKETS]
    buckets.append(("+Inf", float(len(ages))))
    return GaugeHistogramMetricFamily(name, FAMILIES[name], buckets=buckets, gsum_value=sum(ages))


def _by(name: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, FAMILIES[name], labels=[label])
    for value, number in sorted(counts.items()):
        family.add_metric([value], number)
    return family
