"""`promtool test rules`: each alert fires in its incident and in no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.program import run

RULES = Path(__file__).parents[2] / "examples" / "prometheus" / "interlock-alerts.yml"
CALM = {
    'interlock_locks{kind="lock"}': "3x60",
    "interlock_locks_late": "0x60",
    "interlock_dead_holders": "0x60",
    "interlock_deadlocked_locks": "0x60",
    "interlock_locks_longest_wait_seconds": "2x60",
    "interlock_locks_oldest_hold_seconds": "20x60",
    "interlock_exporter_up": "1x60",
    "interlock_validity_min_seconds": "25x60",
    'interlock_holds_lost_total{reason="expired"}': "0x60",
    "interlock_renewals_failed_total": "0x60",
    'interlock_acquire_duration_seconds_bucket{kind="lock",le="5"}': "0+10x60",
    'interlock_acquire_duration_seconds_bucket{kind="lock",le="10"}': "0+10x60",
    'interlock_acquire_duration_seconds_bucket{kind="lock",le="+Inf"}': "0+10x60",
}
"""What a calm fleet tells each 15 s: series -> values."""
INCIDENTS = {
    "InterlockLockLost": {'interlock_holds_lost_total{reason="expired"}': "0x34 1x24"},
    "InterlockValidityLow": {"interlock_validity_min_seconds": "5x60"},
    "InterlockRenewalFailing": {"interlock_renewals_failed_total": "0+1x60"},
    "InterlockSlowAcquire": {
        'interlock_acquire_duration_seconds_bucket{kind="lock",le="5"}': "0+5x60"
    },
    "InterlockRenewalLate": {"interlock_locks_late": "1x60"},
    "InterlockDeadHolder": {"interlock_dead_holders": "1x60"},
    "InterlockDeadlock": {"interlock_deadlocked_locks": "2x60"},
    "InterlockLongWait": {"interlock_locks_longest_wait_seconds": "90x60"},
    "InterlockHeldLong": {"interlock_locks_oldest_hold_seconds": "4000x60"},
    "InterlockExporterBlind": {"interlock_exporter_up": "0x60"},
}
"""Alert -> the series of its incident that differ from a calm fleet."""
AT = "10m"


def _fires(alert: str, series: dict[str, str]) -> dict[str, object]:
    """Return the part of a promtool test that asks for the alerts at `AT`."""
    return {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": AT,
                "exp_samples": (
                    [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
                ),
            }
        ],
    }


LATER = {
    "InterlockLockLost": {
        'interlock_holds_lost_total{reason="expired"}': "0x60",
        'interlock_holds_lost_total{reason="server lost it"}': "_x34 1x24",
    }
}
"""Incidents whose counter begins with them."""


@pytest.mark.needs("prometheus")
@pytest.mark.parametrize(("alert", "changed"), [("", {}), *INCIDENTS.items(), *LATER.items()])
def test_each_alert_fires_in_its_incident_alone(
    alert: str, changed: dict[str, str], tmp_path: Path
) -> None:
    """In a calm fleet no alert fires, and in each incident its own and no other."""
    series = CALM | changed
    path = tmp_path / "test.yml"
    text = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "15s",
        "tests": [_fires(alert, series)],
    }
    path.write_text(json.dumps(text))  # JSON is YAML
    done = run("promtool", "test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr
