"""Prometheus metrics of the locks of this program; needs the extra ``prometheus``.

``client.observe(interlock.prometheus.Prometheus())`` uses the global registry. For a whole fleet,
Java included, see ``interlock exporter``.
"""

from __future__ import annotations

from collections import Counter as Counts
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from interlock.observe import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
        self._lock_name: Callable[[str], str] = lock_name or (lambda _: "")
        self._clients: tuple[observe.ClientView, ...] = ()
        lock, server = ("server", "kind", "name"), ("server",)

        def times(
            name: str, text: str, labels: Sequence[str], buckets: Sequence[float]
        ) -> Histogram:
            full = f"interlock_{name}_duration_seconds"
            return Histogram(full, text, labels, buckets=buckets, registry=registry)

        def number(name: str, text: str, labels: Sequence[str]) -> Counter:
            return Counter(f"interlock_{name}", text, labels, registry=registry)

        told = "From the call to the grant, or to its end without one (error)."
        self._acquire = times("acquire", told, (*lock, "error"), _BUCKETS)
        self._hold = times("hold", "For which locks were held.", lock, _LONG_BUCKETS)
        self._renewal = times("renewal", "Of one round of renewal at one server.", server, _BUCKETS)
        told = "Holds that ended without being released."
        self._lost = number("holds_lost", told, (*lock, "reason"))
        self._abandoned = number("abandoned", "Holds that nobody was left to release.", lock)
        self._renewals = number("renewals", "Holds renewed.", server)
        self._failures = number("renewals_failed", "Renewals without an answer.", server)
        told = "Events that came too fast for this observer."
        self._missed = number("events_missed", told, server)
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the gauges as they are now."""
        both = ["server", "kind"]
        holds = GaugeMetricFamily("interlock_holds", "Holds at this moment.", labels=both)
        told = "Threads and tasks that wait."
        waiters = GaugeMetricFamily("interlock_waiters", told, labels=both)
        told, server = "Until the first hold is lost unless it is renewed.", ["server"]
        validity = GaugeMetricFamily("interlock_validity_min_seconds", told, labels=server)
        # Clients of one server are one row: the labels must not repeat.
        counts = (Counts[tuple[str, str]](), Counts[tuple[str, str]]())
        least: dict[str, float] = {}
        for client in self._clients:
            for row, count in zip(counts, (client.holds(), client.waiters()), strict=True):
                row.update({(client.server, kind): number for kind, number in count.items()})
            if (left := client.validity()) is not None:
                least[client.server] = min(left, least.get(client.server, left))
        for family, rows in zip((holds, waiters), counts, strict=True):
            for place, number in rows.items():
                family.add_metric(place, number)
        for where, left in least.items():
            validity.add_metric([where], left)
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
