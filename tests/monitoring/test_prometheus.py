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


def exposed_names() -> set[str]:
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
    return set(re.findall(r"\binterlock_\w+", expression))


def test_the_dashboard_shows_metrics_that_exist() -> None:
    """Each panel uses metrics that programs or the exporter have."""
    dashboard = json.loads(DASHBOARD.read_text())
    assert len(dashboard["panels"]) >= 8
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert used_names(target["expr"])
            assert used_names(target["expr"]) <= exposed_names(), panel["title"]
