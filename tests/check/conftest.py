"""Fixtures and words of the tests of the check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock._links.urls import open_url
from interlock.check import Finding, Report, Requirements, Severity, examine
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def check() -> Callable[..., Report]:
    def of_url(url: str, **requirements: object) -> Report:
        return examine([open_url(url, Options())[0]], Requirements(**requirements))

    return of_url


@pytest.fixture
def severity() -> Callable[[Report, str], Severity]:
    """Give a function that returns how bad the findings of one kind are."""

    def of(report: Report, name: str) -> Severity:
        found: list[Finding] = [one for one in report.findings if one.check == name]
        assert found, f"nothing about {name}:\n{report}"
        return max(one.severity for one in found)

    return of
