"""OpenTelemetry metrics and spans of locks; needs the extra ``otel``, which is the API alone.

``client.observe(interlock.otel.OpenTelemetry())`` uses the global providers of the program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry import metrics, trace
from opentelemetry.metrics import Observation
from opentelemetry.trace import Link, Status, StatusCode, format_trace_id

from interlock._version import __version__
from interlock.observe import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry.metrics import CallbackOptions, Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from interlock import observe

Attributes: TypeAlias = "dict[str, str | int]"
Row: TypeAlias = "tuple[tuple[str, str | int], ...]"

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LONG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600)
_MOST_SPANS = 10_000
"""Spans that are open at the same time; further holds and waits get none."""


class OpenTelemetry(Observer):
    """Records metrics, and spans within traces that are sampled.

    Spans for waiting and holding appear where the thread or task has a span already, and its trace
    is sampled. They never begin a trace. A span for waiting links to the hold that it waits for,
    if that is in this process and traced too.

    Args:
        meter_provider: the program's, unless given.
        tracer_provider: the program's, unless given.
        lock_name: turns the name of a lock into an attribute; it must return few different texts,
            such as ``"orders"`` for ``"orders:42"``. Without it names are not told.
    """

    def __init__(
        self,
        *,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
        lock_name: Callable[[str], str] | None = None,
    ) -> None:
        self._tracer = trace.get_tracer("interlock", __version__, tracer_provider)
        self._lock_name = lock_name
        self._clients: tuple[observe.ClientView, ...] = ()
        self._waits: dict[tuple[str, str, str], Span] = {}
        self._holds: dict[tuple[str, str, str], Span] = {}
        meter = metrics.get_meter("interlock", __version__, meter_provider)

        def times(name: str, text: str, buckets: Sequence[float]) -> Histogram:
            full = f"interlock.{name}.duration"
            return meter.create_histogram(
                full, "s", text, explicit_bucket_boundaries_advisory=buckets
            )

        told = "From the call to the grant, or to its end without one (error.type)."
        self._acquire = times("acquire", told, _BUCKETS)
        self._hold = times("hold", "For which locks were held.", _LONG_BUCKETS)
        self._renewal = times("renewal", "Of one round of renewal at one server.", _BUCKETS)
        self._lost = meter.create_counter(
            "interlock.holds.lost", "{hold}", "Holds that ended without being released."
        )
        self._renewals = meter.create_counter("interlock.renewals", "{hold}", "Holds renewed.")
        self._failures = meter.create_counter(
            "interlock.renewals.failed", "{request}", "Renewals without an answer."
        )
        self._abandoned = meter.create_counter(
            "interlock.abandoned", "{hold}", "Holds that nobody was left to release."
        )
        self._missed = meter.create_counter(
            "interlock.events.missed", "{event}", "Events that came too fast for this observer."
        )
        _ = meter.create_observable_up_down_counter(
            "interlock.holds", [self._see_holds], "{hold}", "Holds at this moment."
        )
        _ = meter.create_observable_up_down_counter(
            "interlock.waiters", [self._see_waiters], "{waiter}", "Threads and tasks that wait."
        )
        _ = meter.create_observable_gauge(
            "interlock.validity.min",
            [self._see_validity],
            "s",
            "Until the first hold is lost unless it is renewed.",
        )

    # Gauges, read when they are collected.

    def attached(self, client: observe.ClientView) -> None:
        """Take *client* into the gauges."""
        self._clients = (*self._clients, client)

    def detached(self, client: observe.ClientView) -> None:
        """Take *client* out of the gauges."""
        self._clients = tuple(other for other in self._clients if other is not client)

    def _see_holds(self, _options: CallbackOptions) -> Iterable[Observation]:
        return self._counted(lambda client: client.holds())

    def _see_waiters(self, _options: CallbackOptions) -> Iterable[Observation]:
        return self._counted(lambda client: client.waiters())

    def _counted(
        self, count: Callable[[observe.ClientView], Mapping[str, int]]
    ) -> Iterable[Observation]:
        # Clients of one server are one row: the attributes must not repeat.
        rows: dict[Row, int] = {}
        for client in self._clients:
            for kind, number in count(client).items():
                place = _row({**_server(client.server), "interlock.lock.kind": kind})
                rows[place] = rows.get(place, 0) + number
        for place, number in rows.items():
            yield Observation(number, dict(place))

    def _see_validity(self, _options: CallbackOptions) -> Iterable[Observation]:
        rows: dict[Row, float] = {}
        for client in self._clients:
            if (left := client.validity()) is not None:
                place = _row(_server(client.server))
                rows[place] = min(left, rows.get(place, left))
        for place, least in rows.items():
            yield Observation(least, dict(place))

    # Events.

    def acquired(self, event: observe.Acquired) -> None:
        """Count an acquire; end the span of its wait, and begin that of the hold."""
        self._acquire.record(event.seconds, self._attributes(event))
        if event.waited:
            _ = _end(self._waits, event)
        if (span := self._begin("interlock.hold", event, self._holds, None)) is not None:
            self._note_trace(event, format_trace_id(span.get_span_context().trace_id))

    def _note_trace(self, event: observe.LockEvent, trace_id: str) -> None:
        """Give the trace of a hold to the card of its client."""
        if (client := self._client_of(event)) is not None:
            client.note_trace(event.holder, event.name, trace_id)

    def _client_of(self, event: observe.Event) -> observe.ClientView | None:
        return next((one for one in self._clients if one.client_id == event.client_id), None)

    def released(self, event: observe.Released) -> None:
        """Count a hold, and end its span."""
        self._hold.record(event.seconds, self._attributes(event))
        self._end_hold(event)

    def waiting(self, event: observe.Waiting) -> None:
        """Begin the span of a wait, linked to the hold that it waits for."""
        holder = next((span for place, span in self._holds.items() if place[1] == event.name), None)
        _ = self._begin("interlock.wait", event, self._waits, holder)

    def gave_up(self, event: observe.GaveUp) -> None:
        """Count an acquire that failed, and end its span as an error."""
        error = event.error or "timeout"
        self._acquire.record(event.seconds, {**self._attributes(event), "error.type": error})
        _ = _end(self._waits, event, error)

    def lost(self, event: observe.Lost) -> None:
        """Count a loss, and end the span of the hold as an error."""
        reason = {"interlock.loss.reason": event.reason}
        self._lost.add(1, {**self._attributes(event), **reason})
        self._hold.record(event.seconds, {**self._attributes(event), "error.type": event.reason})
        self._end_hold(event, event.reason)

    def abandoned(self, event: observe.Abandoned) -> None:
        """Count a hold that nobody can release."""
        self._abandoned.add(1, self._attributes(event))
        self._end_hold(event, "abandoned")

    def renewed(self, event: observe.Renewed) -> None:
        """Count a round of renewal."""
        server = _server(event.server)
        self._renewal.record(event.seconds, server)
        self._renewals.add(event.count, server)
        if event.failed:
            self._failures.add(event.failed, server)

    def overflowed(self, event: observe.Overflowed) -> None:
        """Count the events that were missed, and end the spans whose ends may be among them."""
        self._missed.add(event.count, _server(event.server))
        if (client := self._client_of(event)) is not None:
            client.forget_traces()
        for spans in (self._waits, self._holds):
            while spans:
                _, span = spans.popitem()
                span.end()

    def _begin(
        self,
        name: str,
        event: observe.LockEvent,
        spans: dict[tuple[str, str, str], Span],
        linked: Span | None,
    ) -> Span | None:
        parent = trace.get_current_span().get_span_context()
        if not (parent.is_valid and parent.trace_flags.sampled) or len(spans) >= _MOST_SPANS:
            return None
        span = spans[_place(event)] = self._tracer.start_span(
            name,
            attributes={**self._attributes(event), "interlock.holder": event.holder},
            links=[] if linked is None else [Link(linked.get_span_context())],
            start_time=_nanoseconds(event.time),
        )
        return span

    def _end_hold(self, event: observe.LockEvent, error: str = "") -> None:
        if _end(self._holds, event, error):
            self._note_trace(event, "")

    def _attributes(self, event: observe.LockEvent) -> Attributes:
        attributes = {**_server(event.server), "interlock.lock.kind": event.kind}
        if self._lock_name is not None:
            attributes["interlock.lock.name"] = self._lock_name(event.name)
        return attributes


def _end(
    spans: dict[tuple[str, str, str], Span], event: observe.LockEvent, error: str = ""
) -> bool:
    """End the span of *event*, as one of an *error* if there is one; return whether it had any."""
    if (span := spans.pop(_place(event), None)) is None:
        return False
    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(_nanoseconds(event.time))
    return True


def _row(attributes: Attributes) -> Row:
    return tuple(attributes.items())


def _place(event: observe.LockEvent) -> tuple[str, str, str]:
    return (event.kind, event.name, event.holder)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


@lru_cache
def _server(where: str) -> Attributes:
    """Return the attributes of the server at *where*, by the semantic conventions.

    Of a cluster that is the first node of its URL, and of a Sentinel service its name. A port is
    told only if there is one address.
    """
    service, _, sentinels = where.partition(" (Sentinels ")
    if sentinels:
        return {"db.system.name": "redis", "server.address": service}
    first, *others = where.removeprefix("cluster ").split(",")
    host, colon, port = first.rpartition(":")
    if not colon or not port.isdecimal():
        return {"db.system.name": "redis", "server.address": first}
    if others:
        return {"db.system.name": "redis", "server.address": host}
    return {"db.system.name": "redis", "server.address": host, "server.port": int(port)}
