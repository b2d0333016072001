"""Fixtures for metrics, the exporter and the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.monitoring.serving import ARGUMENTS, CHROMIUM, LEASE, console_of
from tests.support.patience import GIVE_UP
from tests.support.renewal import renews_soon

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from tests.support.servers import RedisServer

    from interlock import Client


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with renews_soon(interlock.connect(redis_url, lease=LEASE)) as client:
        yield client


@pytest.fixture(scope="module")
def console(server: RedisServer) -> Iterator[str]:
    with console_of(server.url()) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give Debian's Chromium, to one module at a time: no other event loop runs beside it."""
    from playwright.sync_api import sync_playwright  # which takes long to import

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Give a page of a fresh browser profile, which fails the test for an error in the script."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    errors: list[str] = []
    opened = context.new_page()
    opened.set_default_timeout(GIVE_UP * 1000)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert errors == []
