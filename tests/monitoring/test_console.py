"""The console in Chromium: what it shows, that it follows the locks, and that all can read it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.monitoring.serving import console_of
from tests.operations.on_call import ORDERS, STOCK, deadlock
from tests.support.patience import GIVE_UP

import interlock
from interlock import InterlockError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from tests.support.servers import RedisServer

    from interlock import Client

# The driver of the browser runs an event loop in the thread of the tests.
pytestmark = pytest.mark.filterwarnings("ignore:the sync face of interlock")

AXE = Path(__file__).parent / "axe.min.js"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Give the folder for pictures; INTERLOCK_PICTURES=docs/how-to/pictures renews the docs'."""
    return Path(os.environ.get("INTERLOCK_PICTURES") or tmp_path)


def violations(page: Page) -> list[str]:
    # By evaluate: the page's own policy allows no other script.
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]


def test_locks_come_and_go_by_themselves(console: str, page: Page, client: Client) -> None:
    """The list follows the locks; focus and what was typed survive; "Pause" stops it."""
    search = page.get_by_label("Name, host, program or thread")
    with client.lock("kept"):
        page.goto(console)
        page.get_by_role("link", name="kept").focus()
        with client.lock("coming"):
            page.get_by_role("link", name="coming").wait_for()
            assert page.evaluate("document.activeElement.textContent") == "kept"
            search.fill("half a na")
        page.get_by_role("link", name="coming").wait_for(state="detached")
        assert search.input_value() == "half a na"
        page.get_by_role("button", name="Pause").click()
        with client.lock("unseen"):
            page.wait_for_timeout(4000)
            assert page.get_by_role("link", name="unseen").count() == 0
            page.get_by_role("button", name="Pause").click()
            page.get_by_role("link", name="unseen").wait_for()


def test_it_needs_no_script(console: str, browser: Browser, client: Client) -> None:
    """Without JavaScript the page reloads itself, and the search is a plain form."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(GIVE_UP * 1000)
    page.goto(console)
    with client.lock("find:me"), client.lock("other"):
        page.get_by_role("link", name="other").wait_for()
        # A reload forgets what was typed: the next one is seconds away.
        page.wait_for_event("load")
        page.get_by_label("Name, host, program or thread").fill("find:")
        page.get_by_role("button", name="Search").click()
        page.get_by_text("1 lock.", exact=True).wait_for()
        page.get_by_role("link", name="find:me").click()
        page.get_by_text("The lock 'find:me' is held by").wait_for()
    context.close()


def test_one_lock_tells_everything(
    console: str, page: Page, client: Client, redis_url: str
) -> None:
    """The page of a lock has its holder, its waiters, and the advice of `interlock why`."""

    def wait(waiting: Client) -> None:
        with suppress(InterlockError):
            waiting.fenced_lock("stuck").acquire()

    with interlock.connect(redis_url, lease=3) as waiting, client.fenced_lock("stuck"):
        thread = threading.Thread(target=wait, args=[waiting], name="patient")
        thread.start()
        page.goto(f"{console}lock?name=stuck")
        page.get_by_role("listitem").get_by_text("thread 'patient'").wait_for()
        page.get_by_text("thread 'patient', for").wait_for()
        card = page.get_by_role("region")
        for term in ("Since", "Host", "Process", "Program", "Thread or task", "Holder id"):
            assert card.get_by_role("term").get_by_text(term, exact=True).count() == 1
        page.get_by_role("definition").get_by_text(str(os.getpid()), exact=True).wait_for()
        page.get_by_text("'stuck' is held by").wait_for()
        page.get_by_text("stuck --holder").wait_for()
        closing = threading.Thread(target=waiting.close)
        closing.start()
        closing.join(GIVE_UP)
        thread.join(GIVE_UP)
    page.get_by_text("Nobody holds or awaits 'stuck'").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(
    console: str, browser: Browser, client: Client, redis_url: str, scheme: Any, pictures: Path
) -> None:
    """A deadlock is at the top and drawn; axe finds nothing; a phone needs no sideways scroll."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(GIVE_UP * 1000)
    with client.fenced_lock("invoices"), deadlock(redis_url):
        page.goto(f"{console}graph")
        page.get_by_text("Deadlock:").wait_for()
        assert page.locator("svg line.dead").count() == page.locator("svg line").count() == 4
        assert page.get_by_text(f"'has {STOCK}' waits for {ORDERS} (deadlock)").count() == 1
        page.goto(console)
        page.get_by_role("link", name="1 deadlock").wait_for()
        page.locator("tbody tr.bad").first.wait_for()
        assert set(page.locator("tbody th a").all_inner_texts()[:2]) == {STOCK, ORDERS}
        with client.lock("a" * 120):
            for path in ("", f"lock?name={ORDERS}", "graph"):
                page.goto(console + path)
                page.locator("#live *").first.wait_for()
                for width in (320, 390, 1280):
                    page.set_viewport_size({"width": width, "height": 800})
                    sideways = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                    assert sideways <= 0, (path, width)
                    assert violations(page) == [], (path, width)
        page.goto(console)
        page.get_by_role("link", name="invoices").wait_for()
        page.get_by_role("link", name="aaa").wait_for(state="detached")
        if scheme == "light":
            page.set_viewport_size({"width": 390, "height": 740})
            page.screenshot(path=pictures / "console-light.png")
    page.goto(f"{console}graph")
    page.get_by_text("Nobody is known to wait.").wait_for()
    context.close()


def test_it_recovers_with_the_server_and_with_the_console(
    fresh_server: RedisServer, page: Page
) -> None:
    """The page says that the server, or the console, is away, and goes on when it is back."""
    with console_of(fresh_server.url()) as url:
        page.goto(url)
        page.get_by_text("No lock is held or awaited.").wait_for()
        fresh_server.kill()
        page.get_by_text("The locks cannot be read").wait_for()
        fresh_server.start()
        page.get_by_text("The locks cannot be read").wait_for(state="detached")
    page.get_by_text("The console does not answer").wait_for()
    with (
        console_of(fresh_server.url(), port=int(url.rstrip("/").rpartition(":")[2])),
        interlock.connect(fresh_server.url()) as client,
        client.lock("back"),
    ):
        page.get_by_role("link", name="back").wait_for()
        page.get_by_text("The console does not answer").wait_for(state="hidden")


def test_a_page_elsewhere_reads_nothing(console: str, page: Page, client: Client) -> None:
    """A page whose name was led to this machine, after it was loaded, is refused."""
    elsewhere = console.replace("127.0.0.1", "rebound.example")
    with client.lock("secret"):
        page.route("**/page", lambda route: route.fulfill(body="", content_type="text/html"))
        page.goto(f"{elsewhere}page")
        answer = page.evaluate("fetch('/').then(async each => [each.status, await each.text()])")
    assert answer[0] == 403
    assert "secret" not in answer[1]
