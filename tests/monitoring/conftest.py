"""Fixtures for metrics, the exporter and the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright
from tests.monitoring.serving import ARGUMENTS, CHROMIUM, LEASE

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from interlock import Client


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    """Give a client that renews often."""
    with interlock.connect(redis_url, lease=LEASE) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give Debian's Chromium, to one module at a time: no other event loop runs beside it."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()
