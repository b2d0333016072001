"""What the answers of Sentinels mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.check.report import Severity
from interlock.check.sentinels import SentinelFacts, judge

OK, NOTE, WARNING, ERROR = Severity
GOOD = SentinelFacts(
    where="s1:26379",
    primary="p:6379",
    is_down=False,
    known=3,
    replicas=2,
    down_after=5.0,
    quorum="",
)


def found(
    *changes: dict[str, object], named: int = 3, lease: float = 30.0
) -> dict[str, list[Severity]]:
    """Return the severities by check when each Sentinel differs by *changes* from a good one."""
    told = [replace(GOOD, **change) for change in changes]
    findings: dict[str, list[Severity]] = {}
    for finding in judge(told, named, lease):
        findings.setdefault(finding.check, []).append(finding.severity)
    return findings


def test_three_sentinels_that_agree_are_fit() -> None:
    """Three Sentinels with a quorum, and a failover that is shorter than a hold, are fit."""
    assert found({}, {}, {}) == {"sentinels": [OK], "quorum": [OK], "failover": [OK]}


@pytest.mark.parametrize(
    ("changes", "named", "check", "expected"),
    [
        ([], 3, "sentinels", [ERROR]),
        ([{}, {"primary": "q:6379"}], 3, "sentinels", [ERROR]),
        ([{}, {"is_down": True}], 3, "sentinels", [ERROR]),
        ([{"known": 2}, {"known": 2}], 2, "sentinels", [OK, WARNING]),
        ([{}], 1, "sentinels", [OK, WARNING]),
        ([{}, {"quorum": "NOQUORUM 1 usable"}], 3, "quorum", [ERROR]),
        ([{}, {"quorum": None}], 3, "quorum", [NOTE]),
        ([{"replicas": 0}], 3, "failover", [WARNING]),
        ([{"down_after": 30.0}], 3, "failover", [WARNING]),
    ],
)
def test_a_fault_is_found(
    changes: list[dict[str, object]], named: int, check: str, expected: list[Severity]
) -> None:
    """Each fault of the Sentinels has its finding."""
    assert found(*changes, named=named)[check] == expected


def test_the_lease_decides_whether_holds_outlast_a_failover() -> None:
    """A failover of seven seconds is fine for a lease of 30 s, and not for one of 10 s."""
    assert found({}, lease=30.0)["failover"] == [OK]
    assert found({}, lease=10.0)["failover"] == [WARNING]
