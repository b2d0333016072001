"""Prometheus metrics of the locks of this program; needs the extra ``prometheus``.

``client.observe(interlock.prometheus.Prometheus())`` uses the global registry. For a whole fleet,
Java included, see ``interlock exporter``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from interlock.observe import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from interlock import observe

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LONG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600)


class Prometheus(Observer, Collector):
    """Counts what happens to the locks of any number of clients.

    Args:
        registry: where the metrics go.
        lock_name: turns the name of a lock into the label ``name``; it must return few different
            texts, such as ``"orders"`` for ``"orders:42"``. Without it the label is empty.
    """

    def __init__(
        self,
        registry: CollectorRegistry = REGISTRY,
        *,
        lock_name: Callable[[str], str] | None = None,
    ) -> None:
        self._lock_name = lock_name or _unnamed
        self._clients: tuple[observe.ClientView, ...] = ()
        labels = ("server", "kind", "name")
        self._acquire = Histogram(
            "interlock_acquire_duration_seconds",
            "From the call to the grant, or to its end without one (error).",
            (*labels, "error"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._hold = Histogram(
            "interlock_hold_duration_seconds",
            "For which locks were held.",
            labels,
            buckets=_LONG_BUCKETS,
            registry=registry,
        )
        self._renewal = Histogram(
            "interlock_renewal_duration_seconds",
            "Of one round of renewal at one server.",
            ("server",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._lost = Counter(
            "interlock_holds_lost",
            "Holds that ended without being released.",
            (*labels, "reason"),
            registry=registry,
        )
        self._abandoned = Counter(
            "interlock_abandoned",
            "Holds that nobody was left to release.",
            labels,
            registry=registry,
        )
        self._renewals = Counter(
            "interlock_renewals", "Holds renewed.", ("server",), registry=registry
        )
        self._failures = Counter(
            "interlock_renewals_failed",
            "Renewals without an answer.",
            ("server",),
            registry=registry,
        )
        self._missed = Counter(
            "interlock_events_missed",
            "Events that came too fast for this observer.",
            ("server",),
            registry=registry,
        )
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the gauges as they are now."""
        holds = GaugeMetricFamily(
            "interlock_holds", "Holds at this moment.", labels=["server", "kind"]
        )
        waiters = GaugeMetricFamily(
            "interlock_waiters", "Threads and tasks that wait.", labels=["server", "kind"]
        )
        validity = GaugeMetricFamily(
            "interlock_validity_min_seconds",
            "Until the first hold is lost unless it is renewed.",
            labels=["server"],
        )
        least: dict[str, float] = {}
        for family, count in ((holds, _holds), (waiters, _waiters)):
            rows: dict[tuple[str, str], int] = {}
            for client in self._clients:
                for kind, number in count(client).items():
                    rows[client.server, kind] = rows.get((client.server, kind), 0) + number
            for place, number in rows.items():
                family.add_metric(place, number)
        for client in self._clients:
            if (left := client.validity()) is not None:
                least[client.server] = min(left, least.get(client.server, left))
        for server, left in least.items():
            validity.add_metric([server], left)
        yield from (holds, waiters, validity)

    def attached(self, client: observe.ClientView) -> None:
        """Take *client* into the gauges."""
        self._clients = (*self._clients, client)

    def detached(self, client: observe.ClientView) -> None:
        """Take *client* out of the gauges."""
        self._clients = tuple(other for other in self._clients if other is not client)

    def acquired(self, event: observe.Acquired) -> None:
        """Count an acquire."""
        self._acquire.labels(*self._labels(event), "").observe(event.seconds)

    def gave_up(self, event: observe.GaveUp) -> None:
        """Count an acquire that failed."""
        error = event.error or "timeout"
        self._acquire.labels(*self._labels(event), error).observe(event.seconds)

    def released(self, event: observe.Released) -> None:
        """Count a hold."""
        self._hold.labels(*self._labels(event)).observe(event.seconds)

    def lost(self, event: observe.Lost) -> None:
        """Count a loss."""
        self._lost.labels(*self._labels(event), event.reason).inc()
        self._hold.labels(*self._labels(event)).observe(event.seconds)

    def abandoned(self, event: observe.Abandoned) -> None:
        """Count a hold that nobody can release."""
        self._abandoned.labels(*self._labels(event)).inc()

    def renewed(self, event: observe.Renewed) -> None:
        """Count a round of renewal."""
        self._renewal.labels(event.server).observe(event.seconds)
        self._renewals.labels(event.server).inc(event.count)
        self._failures.labels(event.server).inc(event.failed)

    def overflowed(self, event: observe.Overflowed) -> None:
        """Count the events that were missed."""
        self._missed.labels(event.server).inc(event.count)

    def _labels(self, event: observe.LockEvent) -> tuple[str, str, str]:
        return (event.server, event.kind, self._lock_name(event.name))


def _unnamed(name: str) -> str:
    del name
    return ""


def _holds(client: observe.ClientView) -> Mapping[str, int]:
    return client.holds()


def _waiters(client: observe.ClientView) -> Mapping[str, int]:
    return client.waiters()
