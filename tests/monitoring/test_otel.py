"""OpenTelemetry metrics and spans, by the SDK's in-memory exporters."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_trace_id
from tests.monitoring.serving import LEASE
from tests.objects.awaited import take_turn
from tests.support.patience import GIVE_UP, wait_until

import interlock
import interlock.asyncio
from interlock import HoldLostError
from interlock.otel import OpenTelemetry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

    from interlock import Client


class Telemetry:
    """An observer with exporters in memory."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.exporter = InMemorySpanExporter()
        self.meters = MeterProvider([self.reader])
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.tracers.get_tracer("test")
        self.observer = OpenTelemetry(
            meter_provider=self.meters,
            tracer_provider=self.tracers,
            lock_name=lambda name: name.partition(":")[0],
        )

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Return the attributes and the point of each series of a metric."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        return [
            (dict(point.attributes or {}), point)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def point(self, name: str) -> tuple[dict[str, Any], Any]:
        wait_until(lambda: bool(self.points(name)), GIVE_UP, f"{name} is there")
        (found,) = self.points(name)
        return found

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.meters.shutdown()
    made.tracers.shutdown()


def test_durations_are_histograms(client: Client, telemetry: Telemetry, redis_url: str) -> None:
    """An acquire and a hold are recorded in seconds, by the semantic conventions."""
    client.observe(telemetry.observer)
    with client.lock("orders:42"):
        pass
    port = int(redis_url.split(":")[2].split("/", maxsplit=1)[0])
    expected = {
        "db.system.name": "redis",
        "server.address": "127.0.0.1",
        "server.port": port,
        "interlock.lock.kind": "lock",
        "interlock.lock.name": "orders",
    }
    for name in ("interlock.acquire.duration", "interlock.hold.duration"):
        attributes, point = telemetry.point(name)
        assert attributes == expected
        assert point.count == 1
        assert 0 < point.sum < 5


def test_names_are_told_through_a_normaliser_only(client: Client, telemetry: Telemetry) -> None:
    """Without a normaliser no series names a lock, however many locks there are."""
    telemetry.observer = OpenTelemetry(meter_provider=telemetry.meters)
    client.observe(telemetry.observer)
    for number in range(5):
        with client.lock(f"orders:{number}"):
            pass

    wait_until(
        lambda: sum(point.count for _, point in telemetry.points("interlock.hold.duration")) == 5,
        GIVE_UP,
        "all are counted",
    )
    attributes, _ = telemetry.point("interlock.hold.duration")
    assert "orders" not in repr(attributes)


def test_gauges_are_read_when_collected(client: Client, telemetry: Telemetry) -> None:
    """Holds, waiters and the least validity are as they are when they are collected."""
    stop = client.observe(telemetry.observer)
    with client.lock("a"), client.lock("b"):
        waiter = threading.Thread(target=lambda: take_turn(client.lock("a"), GIVE_UP))
        waiter.start()
        wait_until(lambda: bool(telemetry.points("interlock.waiters")), GIVE_UP, "it waits")
        attributes, holds = telemetry.point("interlock.holds")
        assert (holds.value, attributes["interlock.lock.kind"]) == (2, "lock")
        assert telemetry.point("interlock.waiters")[1].value == 1
        assert 0 < telemetry.point("interlock.validity.min")[1].value <= LEASE
    waiter.join()
    wait_until(lambda: not telemetry.points("interlock.waiters"), GIVE_UP, "nobody waits")
    stop()
    wait_until(
        lambda: not telemetry.points("interlock.holds"), GIVE_UP, "it is not observed any more"
    )


def test_losses_renewals_and_refusals_are_counted(client: Client, telemetry: Telemetry) -> None:
    """A loss has its reason, a refused wait its error type, and renewals are counted."""
    client.observe(telemetry.observer)
    with pytest.raises(HoldLostError), client.lock("orders:1") as hold:
        waiter = threading.Thread(target=lambda: client.lock("orders:1").acquire(timeout=0.1))
        waiter.start()
        waiter.join()
        wait_until(
            lambda: any(point.value for _, point in telemetry.points("interlock.renewals")),
            GIVE_UP,
            "it is renewed",
        )
        client.lock("orders:1").force_release()
        hold.ensure()
    attributes, point = telemetry.point("interlock.holds.lost")
    assert (attributes["interlock.loss.reason"], point.value) == ("force-released", 1)
    refused = [
        attributes
        for attributes, _ in telemetry.points("interlock.acquire.duration")
        if "error.type" in attributes
    ]
    assert [attributes["error.type"] for attributes in refused] == ["timeout"]
    assert telemetry.point("interlock.renewal.duration")[1].count > 0


def test_spans_join_the_trace_of_their_caller(client: Client, telemetry: Telemetry) -> None:
    """A hold and a wait are spans in the trace of who acquires, and the wait links to the hold."""
    client.observe(telemetry.observer)

    def wait() -> None:
        with telemetry.tracer.start_as_current_span("second"), client.lock("orders:42"):
            pass

    with telemetry.tracer.start_as_current_span("first") as first:
        with client.lock("orders:42"):
            # The observer knows the hold before somebody waits for it.
            wait_until(lambda: bool(telemetry.observer._holds), GIVE_UP, "the hold is told")
            waiter = threading.Thread(target=wait)
            waiter.start()
            wait_until(lambda: bool(telemetry.observer._waits), GIVE_UP, "the wait is told")
        waiter.join()
    wait_until(lambda: len(telemetry.spans("interlock.hold")) == 2, GIVE_UP, "all spans have ended")

    (second,) = telemetry.spans("second")
    (waited,) = telemetry.spans("interlock.wait")
    holds = {hold.context.trace_id: hold for hold in telemetry.spans("interlock.hold")}
    held = holds[first.get_span_context().trace_id]
    assert held.parent == first.get_span_context()
    assert waited.parent == second.context
    assert holds[second.context.trace_id].parent == second.context
    assert [link.context.span_id for link in waited.links] == [held.context.span_id]
    assert (held.start_time or 0) <= (waited.start_time or 0) <= (held.end_time or 0)
    assert held.attributes is not None
    assert held.attributes["interlock.lock.name"] == "orders"


def test_a_card_tells_the_trace_of_a_hold(redis_url: str, telemetry: Telemetry) -> None:
    """An operator reads the trace of a lasting hold in its card; a later hold has its own."""
    with interlock.connect(redis_url, lease=3) as client:
        client.observe(telemetry.observer)

        def told() -> str:
            info = client.describe("orders")
            assert info is not None
            return info.holders[0].trace_id

        for number in range(2):
            with telemetry.tracer.start_as_current_span(f"span {number}") as span:
                wanted = format_trace_id(span.get_span_context().trace_id)
                with client.lock("orders"):
                    wait_until(lambda wanted=wanted: told() == wanted, GIVE_UP, "a card tells")
        events = client._driver.session.events
        wait_until(lambda: not events.traces, GIVE_UP, "they are forgotten")
