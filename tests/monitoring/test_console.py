"""The web console in Chromium: its pages, its actions, and that it stays usable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.monitoring.serving import Page, ask, fill, served
from tests.operations.ring import Ring
from tests.support.patience import GIVE_UP, wait_until

import interlock
from interlock._links.urls import open_url
from interlock.console import watch as watching
from interlock.inspection import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from playwright.sync_api import Browser
    from tests.support.servers import RedisServer

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


def violations(page: Page, *rules: str) -> list[str]:
    """Return the violations that axe finds on *page*, of all rules or of *rules*."""
    # By evaluate: the page's own policy allows no other script.
    page.evaluate(AXE.read_text())
    found = page.evaluate("rules => axe.run(rules.length ? {runOnly: rules} : {})", list(rules))
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]


def test_locks_come_and_go_by_themselves(console: str, page: Page, client: Client) -> None:
    """A lock that is acquired comes onto the page, and goes from it after its release."""
    page.goto(console)
    with client.lock("orders:42"):
        page.get_by_role("link", name="orders:42").wait_for()
    page.get_by_role("link", name="orders:42").wait_for(state="detached")


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
        locks.pop(0).release()
        page.get_by_role("link", name="place:000").wait_for(state="detached")
        assert page.evaluate("document.activeElement.textContent") == "place:055"
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
    page.get_by_label("Reason").fill("on call: stuck")
    assert hold.holder in page.content()
    page.get_by_role("button", name="Break the hold of").click()
    page.get_by_text("The hold was broken.").wait_for()
    wait_until(lambda: not hold.valid, GIVE_UP, "the holder hears of it")
    with interlock.connect(redis_url) as other:
        assert not other.fenced_lock("stuck:1").locked()
    page.goto(f"{console}timeline")
    page.get_by_text("on call: stuck").wait_for()


ATTACK = """<!doctype html><title>working</title><script>
const user = {"X-User": "admin"};
async function attack() {
  const place = new URLSearchParams({name: "stuck:2", holder: HOLDER});
  const asked = await fetch("/release?" + place, {headers: user});
  const form = /name="form" value="(.+?)"/.exec(await asked.text());
  const fields = {...Object.fromEntries(place), reason: "rebound", form: form ? form[1] : ""};
  const done = await fetch(
    "/release", {method: "POST", headers: user, body: new URLSearchParams(fields)});
  document.title = `${asked.status} ${done.status} ${done.url.includes("done=")}`;
}
attack().catch((error) => { document.title = error; });
</script>"""


def test_a_page_elsewhere_breaks_no_hold(page: Page, client: Client, redis_url: str) -> None:
    """A page whose name was led here sends the user's header itself, and still breaks nothing."""
    with (
        served(redis_url, "--user-header", "X-User", allow_release=True) as url,
        interlock.connect(redis_url) as other,
    ):
        hold = client.try_lock("stuck:2")
        attack = ATTACK.replace("HOLDER", json.dumps(hold.holder))
        # The page comes from elsewhere. All else that it asks for goes to the console.
        page.route("**/attack", lambda route: route.fulfill(body=attack, content_type="text/html"))
        page.goto(f"{url.replace('127.0.0.1', 'rebound.example')}attack")
        page.wait_for_function("document.title != 'working'")
        assert page.title() == "403 403 false"
        assert other.lock("stuck:2").locked()
        # From a page of the console, the same attack breaks the hold: so it is a good one.
        page.goto(f"{url}attack")
        page.wait_for_function("document.title != 'working'")
        assert page.title() == "200 200 true"
        assert not other.lock("stuck:2").locked()
        assert hold.lost.wait(GIVE_UP)


def test_a_name_of_the_console_is_given(page: Page, client: Client, redis_url: str) -> None:
    """Under a name of --host, browsers see the console and break holds."""
    hold = client.try_lock("stuck:3")
    host = "--host", "Rebound.Example"
    with served(redis_url, *host, token="0123456789abcdef", allow_release=True) as url:
        page.goto(url.replace("127.0.0.1", "rebound.example"))
        page.get_by_label("Token").fill("0123456789abcdef")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="stuck:3").click()
        page.get_by_role("link", name="Break this hold").click()
        page.get_by_label("Reason").fill("on call: stuck")
        page.get_by_role("button", name="Break the hold of").click()
        page.get_by_text("The hold was broken.").wait_for()
        assert hold.lost.wait(GIVE_UP)


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
        page.get_by_role("link", name="other").wait_for(state="detached")
        page.get_by_role("link", name="find:me").wait_for()
        page.get_by_role("link", name="Awaited").click()
        page.get_by_text("No lock matches.").wait_for()


def test_columns_sort_by_mouse_keyboard_and_on_a_phone(
    console: str, page: Page, client: Client
) -> None:
    """A click on a column's head sorts by it, a second one turns it, and a phone has links."""

    def names() -> list[str]:
        return [each.inner_text() for each in page.locator("tbody th a").all()]

    with client.lock("sort:b"), client.lock("sort:a"), client.lock("sort:c"):
        page.goto(f"{console}?q=sort:")
        page.get_by_role("link", name="sort:c").wait_for()
        page.get_by_role("columnheader", name="Name").get_by_role("link").click()
        page.locator("th[aria-sort=ascending]").wait_for()
        assert names() == ["sort:a", "sort:b", "sort:c"]
        page.get_by_role("columnheader", name="Name").get_by_role("link").focus()
        page.keyboard.press("Enter")
        page.locator("th[aria-sort=descending]").wait_for()
        assert names() == ["sort:c", "sort:b", "sort:a"]
        # Updates keep the order.
        with client.lock("sort:d"):
            page.get_by_role("link", name="sort:d").wait_for()
            assert names()[0] == "sort:d"
        page.get_by_role("link", name="sort:d").wait_for(state="detached")
        page.set_viewport_size({"width": 390, "height": 844})
        page.get_by_label("Sort").get_by_role("link", name="Name").click()
        page.get_by_label("Sort").locator("a[aria-current]", has_text="Name").wait_for()
        assert names() == ["sort:a", "sort:b", "sort:c"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert violations(page) == []


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
    console: str, page: Page, redis_url: str, pictures: Path
) -> None:
    """A ring of five is a picture and a sentence, and every page tells that it is there."""
    with Ring(redis_url):
        page.goto(console)
        page.get_by_role("link", name="1 deadlock").click()
        page.get_by_text("Deadlock:").wait_for()
        assert page.locator("svg line.dead").count() == 10
        assert page.locator("svg line:not(.dead)").count() == 0
        edges = page.request.get(f"{console}graph.json").json()["edges"]
        assert [each["deadlock"] for each in edges] == [True] * 10
        assert violations(page) == []
        page.screenshot(path=pictures / "console-deadlock.png", full_page=True)
        page.goto(f"{console}timeline")
        page.get_by_text("wait for each other").wait_for()
    page.goto(f"{console}graph")
    page.get_by_text("Nobody is known to wait.").wait_for()


def test_the_picture_shows_waiters_of_every_lock(console: str, page: Page, client: Client) -> None:
    """The picture has the waiters of a lock without a queue, and calls them no deadlock."""

    def wait() -> None:
        with client.lock("plain"):
            pass

    with client.lock("plain"):
        waiter = threading.Thread(target=wait, name="patient")
        waiter.start()
        page.goto(f"{console}graph")
        page.get_by_role("listitem").get_by_text("'patient' waits for plain").wait_for()
        page.get_by_role("listitem").get_by_text("'MainThread' holds plain").wait_for()
        assert page.locator("svg line.waits").count() == 1
        assert page.get_by_text("Deadlock:").count() == 0
    waiter.join()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(
    console: str, browser: Browser, client: Client, scheme: Any, pictures: Path
) -> None:
    """No page has a violation that axe finds, or scrolls sideways, from 320 to 2560 px."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(GIVE_UP * 1000)
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
        for _ in range(26):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert reached[0] == "Skip to the content"
    assert "Timeline" in reached
    assert "by:key" in reached


def test_it_recovers_with_the_server(fresh_server: RedisServer, page: Page) -> None:
    """When the server goes away the page says so; when it is back, the page goes on by itself."""
    with served(fresh_server.url()) as url:
        page.goto(url)
        page.get_by_text("0 locks, by trouble").wait_for()
        fresh_server.kill()
        page.get_by_text("The server cannot be read.").wait_for()
        fresh_server.start()
        page.get_by_text("The server cannot be read.").wait_for(state="detached")
        with interlock.connect(fresh_server.url()) as client, client.lock("back"):
            page.get_by_role("link", name="back").wait_for()


def test_the_reading_survives_every_error(
    redis_url: str,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error that nobody expected is shown, and logged once; then the locks are read again."""

    class Broken(Reader):
        def pages(self, *args: Any, **kwargs: Any) -> Any:
            raise ZeroDivisionError("odd")

    monkeypatch.setattr(watching, "Reader", Broken)
    watch = watching.Watch(open_url(redis_url), interlock.Options(), interval=0.1)
    watch.looked_at()
    watch.start()
    try:
        wait_until(lambda: watch.snapshot.version > 2, GIVE_UP, "it reads again and again")
        assert watch.snapshot.error == "ZeroDivisionError: odd"
        monkeypatch.setattr(watching, "Reader", Reader)
        with client.lock("orders"):
            wait_until(lambda: bool(watch.snapshot.locks), GIVE_UP, "it reads the locks")
        assert watch.snapshot.error == ""
    finally:
        watch.close()
    assert caplog.text.count("the console cannot read the locks") == 1


def test_a_lost_server_is_told_by_every_page(fresh_server: RedisServer) -> None:
    """Without a server each page tells so, the question before a release included."""
    with served(fresh_server.url(), allow_release=True) as url:
        fresh_server.kill()
        place = "name=orders&holder=somebody"
        for path in (f"/release?{place}", f"/lock?{place}"):
            answer = ask(url, path)
            assert answer.status == (503 if "release" in path else 200)
            assert "127.0.0.1" in answer.text
            assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(redis_url: str, number: signal.Signals) -> None:
    """Ctrl-C ends the console with status 0 and without a word, and SIGTERM does too."""
    command = [sys.executable, "-m", "interlock", "console", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--url", redis_url], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"http://" in process.stderr.readline()
        process.send_signal(number)
        assert process.communicate(timeout=GIVE_UP) == (None, b"")
        assert process.returncode == 0


def test_it_recovers_with_the_console(redis_url: str, page: Page, client: Client) -> None:
    """When the console goes away the page says so, and recovers when the console is back."""
    with served(redis_url) as url:
        page.goto(url)
        page.get_by_text("0 locks, by trouble").wait_for()
    page.get_by_text("The console cannot be reached").wait_for()
    with client.lock("back"), served(redis_url, port=int(url.split(":")[2].strip("/"))):
        page.get_by_role("link", name="back").wait_for()
        page.get_by_text("The console cannot be reached").wait_for(state="hidden")


def test_ten_thousand_locks_fill_pages(fresh_server: RedisServer, page: Page) -> None:
    """With 10,000 locks a page has a hundred of them, and a link leads to the next ones."""
    fill(fresh_server, 10_000)
    with served(fresh_server.url()) as url:
        page.goto(url)
        page.get_by_text("10000 locks").wait_for()
        first = page.get_by_role("link", name="many:").all_text_contents()
        page.get_by_role("link", name="Next").click()
        page.get_by_role("link", name=first[0], exact=True).wait_for(state="detached")
        second = page.get_by_role("link", name="many:").all_text_contents()
        page.get_by_role("link", name="Previous").click()
        page.get_by_role("link", name=first[0], exact=True).wait_for()
        assert len(set(first)) == len(set(second)) == 100
        assert set(first).isdisjoint(second)


def test_filters_narrow_the_list_and_a_question_can_be_left(
    console: str, page: Page, client: Client, redis_client: redis.Redis
) -> None:
    """Each filter is one click away, as is the way back; "Keep it" leaves the hold alone."""
    holder = "00000000-0000-0000-0000-00000000beef"
    entry = {"age": 400.0, "owner": 1, "lease": 600.0, "renewed": True}
    redis_client.hset("dying", f"{holder}:1", "1")
    redis_client.pexpire("dying", 100_000)
    card: dict[Any, Any] = {
        "client": json.dumps({"format": 1, "number": 1, "period": 10.0}),
        "written": str(int(time.time() * 1000)),
        f"h {holder}:1 dying": json.dumps(entry),
    }
    redis_client.hset(f"interlock_client:{{{holder}}}", mapping=card)
    with client.lock("young"):
        page.goto(console)
        for name in ("Late", "Held for 5 min"):
            page.get_by_role("link", name="young").wait_for()
            page.get_by_role("link", name=name).click()
            page.get_by_role("link", name="young").wait_for(state="detached")
            page.get_by_role("link", name="dying").wait_for()
            page.get_by_role("link", name="All").click()
        page.get_by_role("link", name="young").click()
        page.get_by_role("link", name="Break this hold").click()
        page.get_by_role("link", name="Keep it").click()
        page.get_by_role("link", name="Break this hold").wait_for()
        assert client.lock("young").owned()


def test_the_token_is_typed_in_once(redis_url: str, page: Page, client: Client) -> None:
    """The form takes the token and shows the locks; a wrong one is refused."""
    with served(redis_url, token="a token of the tests") as url, client.lock("orders"):
        page.goto(url)
        page.get_by_label("Token").fill("another one altogether")
        page.get_by_role("button", name="Show the console").click()
        page.get_by_text("That is not the token.").wait_for()
        page.get_by_label("Token").fill("a token of the tests")
        page.get_by_role("button", name="Show the console").click()
        page.get_by_role("link", name="orders").wait_for()
