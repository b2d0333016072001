"""The web console in Chromium: its pages, its actions, and that it stays usable."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.monitoring.serving import Page, served
from tests.support.servers import RedisServer, wait_until

import interlock
from interlock import HoldLostError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from interlock import Client

# The driver of the browser runs an event loop in the thread of the tests.
pytestmark = pytest.mark.filterwarnings("ignore:the sync face of interlock")

AXE = Path(__file__).parent / "axe.min.js"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Give the folder for pictures; INTERLOCK_PICTURES=docs/how-to/pictures renews the docs'."""
    return Path(os.environ.get("INTERLOCK_PICTURES") or tmp_path)


@pytest.fixture(scope="module")
def console(server: RedisServer) -> Iterator[str]:
    """Give the URL of a console that may break holds."""
    with served(server.url(), allow_release=True) as url:
        yield url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Give a page of a fresh browser profile, which fails the test for an error in the script."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    errors: list[str] = []
    opened = context.new_page()
    opened.set_default_timeout(5000)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert errors == []


def deadlocked(client: Client) -> Any:
    """Return a context in which two owners wait for each other."""
    return _Deadlock(client)


class _Deadlock:
    def __init__(self, client: Client) -> None:
        self._client = client

    def __enter__(self) -> None:
        self._ready = threading.Barrier(2)
        self._threads = [
            threading.Thread(target=self._take, args=pair, name=f"worker-{pair[0]}")
            for pair in (("dead:a", "dead:b"), ("dead:b", "dead:a"))
        ]
        for thread in self._threads:
            thread.start()

    def _take(self, first: str, second: str) -> None:
        # The test breaks what they hold.
        with suppress(HoldLostError), self._client.fair_lock(first):
            self._ready.wait()
            if self._client.fair_lock(second).acquire(timeout=8):
                self._client.fair_lock(second).release()

    def __exit__(self, *error: object) -> None:
        for name in ("dead:a", "dead:b"):
            self._client.fair_lock(name).force_release()
        for thread in self._threads:
            thread.join()


def violations(page: Page, *rules: str) -> list[str]:
    """Return the violations that axe finds on *page*, of all rules or of *rules*."""
    # By evaluate: the page's own policy allows no other script.
    page.evaluate(AXE.read_text())
    found = page.evaluate("rules => axe.run(rules.length ? {runOnly: rules} : {})", list(rules))
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]


def test_locks_come_and_go_by_themselves(console: str, page: Page, client: Client) -> None:
    """A lock that is acquired is on the page within 2 s, and is gone as soon after its release."""
    page.goto(console)
    started = time.monotonic()
    with client.lock("orders:42"):
        page.get_by_role("link", name="orders:42").wait_for(timeout=5000)
        assert time.monotonic() - started < 2
    started = time.monotonic()
    page.get_by_role("link", name="orders:42").wait_for(state="detached", timeout=5000)
    assert time.monotonic() - started < 2


def test_updates_keep_the_place_of_the_reader(console: str, page: Page, client: Client) -> None:
    """Focus, scrolling and what was typed survive updates."""
    locks = [client.lock(f"place:{number:03}") for number in range(60)]
    for lock in locks:
        lock.acquire()
    try:
        page.goto(console)
        link = page.get_by_role("link", name="place:055")
        link.wait_for()
        page.get_by_label("Name, host or program").fill("half a na")
        link.focus()
        scrolled = page.evaluate("scrollY")
        assert scrolled > 0
        with client.lock("another"):
            page.get_by_role("link", name="another").wait_for()
            assert page.evaluate("document.activeElement.textContent") == "place:055"
            assert abs(page.evaluate("scrollY") - scrolled) < 100
            assert page.get_by_label("Name, host or program").input_value() == "half a na"
    finally:
        for lock in locks:
            lock.release()


def test_a_hold_is_broken_after_a_question(
    console: str, page: Page, client: Client, redis_url: str
) -> None:
    """By keyboard and mouse: from the list to the lock, to a question that names the holder."""
    stuck = client.fenced_lock("stuck:1")
    stuck.acquire()
    hold = stuck.hold
    assert hold is not None
    page.goto(console)
    page.get_by_role("link", name="stuck:1").click()
    page.get_by_role("link", name="Break this hold").click()
    assert hold.holder in page.content()
    page.get_by_label("Reason").fill("on call: stuck")
    page.get_by_role("button", name="Break the hold of").click()
    page.get_by_text("The hold was broken.").wait_for()
    wait_until(lambda: not hold.valid, 5, "the holder hears of it")
    with interlock.connect(redis_url) as other:
        assert not other.fenced_lock("stuck:1").locked()
    page.goto(f"{console}timeline")
    page.get_by_text("on call: stuck").wait_for()


def test_another_holder_survives(console: str, page: Page, client: Client, redis_url: str) -> None:
    """If another owner has the lock by the time of the answer, nothing is changed."""
    lock = client.lock("changing")
    lock.acquire()
    page.goto(console)
    page.get_by_role("link", name="changing").click()
    page.get_by_role("link", name="Break this hold").click()
    page.get_by_label("Reason").fill("too late")
    lock.release()
    with interlock.connect(redis_url) as other, other.lock("changing") as hold:
        page.get_by_role("button", name="Break the hold of").click()
        page.get_by_text("Nothing was changed").wait_for()
        assert hold.valid
        assert other.lock("changing").locked()


def test_search_and_filters(console: str, page: Page, client: Client) -> None:
    """The search finds names; the filters show what is awaited."""
    with client.lock("find:me"), client.lock("other"):
        page.goto(console)
        page.get_by_role("link", name="other").wait_for()
        page.get_by_label("Name, host or program").fill("find:")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link", name="find:me").wait_for()
        assert page.get_by_role("link", name="other").count() == 0
        page.get_by_role("link", name="Awaited").click()
        page.get_by_text("No lock matches.").wait_for()


def test_names_are_shown_and_never_run(console: str, page: Page, client: Client) -> None:
    """A lock called ``<script>`` is text on every page."""
    name = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"
    with client.lock(name, owner="<b>me</b>"):
        page.goto(console)
        page.get_by_role("link", name="<script>").click()
        page.get_by_role("heading", name="<script>").wait_for()
        assert page.title() == f"{name} · interlock"
        page.get_by_role("link", name="Break this hold").click()
        page.get_by_role("heading", name="<script>").wait_for()
        assert page.locator("main script, main img").count() == 0


def test_a_deadlock_is_a_red_picture(
    console: str, page: Page, client: Client, pictures: Path
) -> None:
    """Two owners who wait for each other are a picture and a sentence."""
    with deadlocked(client):
        page.goto(f"{console}graph")
        page.get_by_text("Deadlock:").wait_for(timeout=8000)
        assert page.locator("svg line.dead").count() == 4
        assert violations(page) == []
        page.screenshot(path=pictures / "console-deadlock.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(
    console: str, browser: Browser, client: Client, scheme: Any, pictures: Path
) -> None:
    """No page has a violation that axe finds, or scrolls sideways, from 320 to 2560 px."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(5000)
    with client.fenced_lock("orders:42", lease=60), client.lock("a" * 120):
        for path in ("", "lock?name=orders:42", "graph", "clients", "timeline?show=all"):
            page.goto(console + path)
            page.get_by_text("The locks are being read").wait_for(state="detached")
            for width in (320, 768, 1280, 2560):
                page.set_viewport_size({"width": width, "height": 800})
                sideways = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert sideways <= 0, (path, width)
            page.set_viewport_size({"width": 320 if scheme == "dark" else 1280, "height": 800})
            # In the dark only the colours differ.
            assert violations(page, *(["color-contrast"] if scheme == "dark" else [])) == [], path
        page.goto(console)
        page.get_by_role("link", name="orders:42").wait_for()
        page.screenshot(path=pictures / f"console-{scheme}.png")
        page.get_by_role("link", name="orders:42").click()
        page.get_by_role("link", name="Break this hold").click()
        page.get_by_label("Reason").wait_for()
        assert violations(page) == []
        page.screenshot(path=pictures / f"console-release-{scheme}.png")
    context.close()


def test_the_keyboard_reaches_everything(console: str, page: Page, client: Client) -> None:
    """Tab goes to the skip link first, and then through pages, search and locks."""
    with client.lock("by:key"):
        page.goto(console)
        page.get_by_role("link", name="by:key").wait_for()
        reached = []
        for _ in range(16):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert reached[0] == "Skip to the content"
    assert "Timeline" in reached
    assert "by:key" in reached


def test_it_recovers_with_the_server(fresh_server: RedisServer, page: Page) -> None:
    """When the server goes away the page says so; when it is back, the page goes on by itself."""
    with served(fresh_server.url()) as url:
        page.goto(url)
        page.get_by_text("0 locks").wait_for()
        fresh_server.kill()
        page.get_by_text("The server cannot be read.").wait_for(timeout=10_000)
        fresh_server.start()
        page.get_by_text("The server cannot be read.").wait_for(state="detached", timeout=10_000)
        with interlock.connect(fresh_server.url()) as client, client.lock("back"):
            page.get_by_role("link", name="back").wait_for(timeout=5000)


def test_it_recovers_with_the_console(redis_url: str, page: Page, client: Client) -> None:
    """When the console goes away the page says so, and recovers when the console is back."""
    with served(redis_url) as url:
        page.goto(url)
        page.get_by_text("0 locks").wait_for()
    page.get_by_text("The console cannot be reached").wait_for(timeout=10_000)
    with client.lock("back"), served(redis_url, port=int(url.split(":")[2].strip("/"))):
        page.get_by_role("link", name="back").wait_for(timeout=10_000)
        page.get_by_text("The console cannot be reached").wait_for(state="hidden")


def test_ten_thousand_locks_are_painted_at_once(
    fresh_server: RedisServer, browser: Browser
) -> None:
    """With 10,000 locks the first paint comes within 0.3 s, and updates within 2 s."""
    script = (
        "for n = 1, 10000 do local k = 'many:' .. n "
        "redis.call('HSET', k, '00000000-0000-0000-0000-000000000000:' .. n, 1) "
        "redis.call('PEXPIRE', k, 600000) end"
    )
    fresh_server.execute("EVAL", script, "0")
    with served(fresh_server.url()) as url:
        page = browser.new_page()
        page.goto(url)
        page.get_by_text("10000 locks").wait_for(timeout=20_000)
        paints = []
        for _ in range(5):
            page.goto(url)
            page.get_by_text("10000 locks").wait_for()
            paints.append(
                page.evaluate(
                    "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 1e9"
                )
            )
        print("first paint, ms:", sorted(paints))
        # The best of them: whatever else runs on this machine is not meant.
        assert min(paints) < 300
        page.close()
