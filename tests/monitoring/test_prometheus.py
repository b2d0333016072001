"""Prometheus metrics of a program, and the files that use them."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.monitoring.serving import LEASE
from tests.support.patience import GIVE_UP, wait_until

from interlock import HoldLostError
from interlock.prometheus import Prometheus

if TYPE_CHECKING:
    from interlock import Client

EXAMPLES = Path(__file__).parents[2] / "examples"
ALERTS = EXAMPLES / "prometheus/interlock-alerts.yml"
DASHBOARD = EXAMPLES / "grafana/interlock.json"


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Return what is exposed: name and labels -> value."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if key != "server"}
            found[f"{sample.name}{labels}"] = sample.value
    return found


@pytest.mark.usefixtures("patient")
def test_everything_is_exposed(client: Client) -> None:
    """Acquires, holds, losses, renewals and gauges are exposed with few labels."""
    registry = CollectorRegistry()
    client.observe(Prometheus(registry, lock_name=lambda name: name.partition(":")[0]))
    with pytest.raises(HoldLostError), client.lock("orders:1") as hold:
        waiter = threading.Thread(target=lambda: client.lock("orders:1").acquire(timeout=0.1))
        waiter.start()
        waiter.join()
        wait_until(
            lambda: samples(registry).get("interlock_renewals_total{}", 0) > 0, GIVE_UP, "renewed"
        )
        told = samples(registry)
        assert told["interlock_holds{'kind': 'lock'}"] == 1
        assert 0 < told["interlock_validity_min_seconds{}"] <= LEASE
        client.lock("orders:1").force_release()
        hold.ensure()
    with client.lock("orders:2"):
        pass
    place = "'kind': 'lock', 'name': 'orders'"
    held = f"interlock_hold_duration_seconds_count{{{place}}}"
    wait_until(lambda: samples(registry).get(held) == 2, GIVE_UP, "all is counted")
    told = samples(registry)
    acquired = "interlock_acquire_duration_seconds_count"
    assert told[f"{acquired}{{'error': '', {place}}}"] == 2
    assert told[f"{acquired}{{'error': 'timeout', {place}}}"] == 1
    assert told[f"interlock_holds_lost_total{{{place}, 'reason': 'force-released'}}"] == 1
    assert told["interlock_renewals_failed_total{}"] == 0


def test_names_are_not_exposed_unless_asked(client: Client) -> None:
    """Without a normaliser the label of the name is empty."""
    registry = CollectorRegistry()
    client.observe(Prometheus(registry))
    with client.lock("orders:1"):
        pass
    wait_until(
        lambda: "interlock_hold_duration" in str(samples(registry)), GIVE_UP, "it is counted"
    )
    assert "orders" not in str(samples(registry))


def exposed_names() -> set[str]:
    """Return the names of all metrics that programs and the exporter expose."""
    from interlock.exporter import FAMILIES

    registry = CollectorRegistry()
    Prometheus(registry)
    names = {*FAMILIES, *(f"{name}_bucket" for name in FAMILIES if "age" in name)}
    for family in registry.collect():
        if family.type == "counter":
            names.add(f"{family.name}_total")
        elif family.type == "histogram":
            names |= {f"{family.name}_{part}" for part in ("bucket", "count", "sum")}
        else:
            names.add(family.name)
    return names


def used_names(expression: str) -> set[str]:
    """Return the metrics that an expression of PromQL names."""
    return set(re.findall(r"\binterlock_\w+", expression))


def test_the_dashboard_shows_metrics_that_exist() -> None:
    """The dashboard is loaded; each panel has its place and uses metrics that exist."""
    dashboard = json.loads(DASHBOARD.read_text())
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places) >= 8
    # What Grafana wants of a dashboard that it imports: ids of its own, a place in 24 columns, and
    # the data source that the user chooses.
    assert dashboard["schemaVersion"] >= 36
    assert [each["name"] for each in dashboard["templating"]["list"]] == ["datasource"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
    for panel in dashboard["panels"]:
        assert panel["type"] in {"timeseries", "stat", "table", "gauge"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0
        for target in panel["targets"]:
            assert used_names(target["expr"])
            assert used_names(target["expr"]) <= exposed_names(), panel["title"]
