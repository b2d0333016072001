"""Measure the console: `python -m tests.monitoring.figures`.

Tests must pass on a loaded machine, so they measure nothing. This command does, and exits with 1
if a goal is missed. It needs the extra ``monitoring`` and Chromium.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright
from tests.monitoring import tabs
from tests.monitoring.serving import ARGUMENTS, CHROMIUM, fill, served
from tests.operations.ring import Ring
from tests.support.patience import GIVE_UP
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

LOCKS = 10_000
TRIES = 10
PAINT, UPDATE, DEADLOCK = 0.3, 2.0, 15.0
"""Goals, in seconds."""


def paints(page: Page, url: str) -> list[float]:
    """Return the seconds until the first contentful paint of the list, sorted."""
    page.goto(url)
    page.get_by_text(f"{LOCKS} locks").wait_for()
    found: list[float] = []
    for _ in range(TRIES):
        page.goto(url)
        page.get_by_text(f"{LOCKS} locks").wait_for()
        entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        found.append(page.evaluate(entry) / 1000)
    return sorted(found)


def updates(page: Page, url: str, server: RedisServer) -> list[float]:
    """Return the seconds until an open page shows a change among 10,000 locks, sorted."""
    page.goto(f"{url}?q=find:")
    page.get_by_text("No lock matches.").wait_for()
    found: list[float] = []
    for number in range(TRIES):
        name = f"find:{number}"
        started = time.monotonic()
        server.execute("HSET", name, "00000000-0000-0000-0000-000000000001:1", "1")
        page.get_by_role("link", name=name, exact=True).wait_for()
        found.append(time.monotonic() - started)
    return sorted(found)


def deadlock(page: Page, url: str, redis_url: str) -> dict[str, float]:
    """Return after how many seconds command and console tell of a ring of five."""
    command = [sys.executable, "-m", "interlock", "deadlocks", "--url", redis_url]
    listed: list[float] = []

    def ask() -> None:
        while subprocess.run(command, capture_output=True, check=False).returncode != 1:
            pass
        listed.append(time.monotonic())

    page.goto(f"{url}graph")
    asking = threading.Thread(target=ask)
    with Ring(redis_url):
        began = time.monotonic()
        asking.start()
        page.get_by_text("Deadlock:").wait_for(timeout=GIVE_UP * 1000)
        shown = time.monotonic()
        asking.join(GIVE_UP)
    moments = {"by the command": listed[0], "in the console": shown}
    return {f"deadlock {where}": at - began for where, at in moments.items()}


def main() -> int:
    """Measure, print a table, and return 1 if a goal is missed."""
    with RedisServer() as server, served(server.url()) as url, sync_playwright() as playwright:
        fill(server, LOCKS)
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = chromium.new_page()
        page.set_default_timeout(GIVE_UP * 1000)
        rows = [(f"first paint, {LOCKS} locks", paints(page, url), PAINT)]
        rows.append((f"update, {LOCKS} locks", updates(page, url, server), UPDATE))
        server.execute("FLUSHALL")
        found = deadlock(page, url, server.url())
        rows += [(what, [seconds], DEADLOCK) for what, seconds in found.items()]
        chromium.close()
    with RedisServer() as server, served(server.url()) as url:
        crowd = asyncio.run(tabs.delays(url, server.url()))
    rows.append((f"update of {tabs.TABS} tabs", crowd, UPDATE))
    print(f"{'seconds':24} {'least':>8} {'median':>8} {'most':>8} {'goal':>8}")
    for what, each, goal in rows:
        figures = (each[0], each[len(each) // 2], each[-1], goal)
        print(f"{what:24}", *(f"{figure:8.3f}" for figure in figures))
    return int(any(each[len(each) // 2] > goal for _, each, goal in rows))


if __name__ == "__main__":
    sys.exit(main())
