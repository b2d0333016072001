"""Of very many locks, the console reads some by turns, and misses none that comes, goes or is seen.

The tests count what is read, sent and shown anew. Figures of time are those of `figures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.monitoring.serving import fill, served
from tests.support.patience import GIVE_UP, wait_until

from interlock._links.urls import open_url
from interlock.console.rounds import EACH, Rounds
from interlock.console.watch import STEP, Watch
from interlock.inspection.service import Service
from interlock.options import Options

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request
    from tests.support.servers import RedisServer

# The driver of the browser runs an event loop in the thread of the tests.
pytestmark = pytest.mark.filterwarnings("ignore:the sync face of interlock")

COUNT = 3 * EACH
OTHER = "00000000-0000-0000-0000-00000000beef:1"


def read(rounds: Rounds, names: list[str], urgent: tuple[str, ...] = (), now: float = 0.0) -> int:
    """Play one reading of *names*; return how many it looked at."""
    rounds.begin(urgent)
    looked = [name for name in names if rounds.wants(name)]
    rounds.end(now)
    return len(looked)


def test_names_take_turns_new_and_urgent_ones_come_at_once() -> None:
    """Each name has its turn, and none of the others is forgotten."""
    rounds, names = Rounds(), [str(number) for number in range(COUNT)]
    assert read(rounds, names, now=1.0) == COUNT
    assert [read(rounds, names, now=float(2 + turn)) for turn in range(3)] == [EACH] * 3
    assert sorted({rounds.age(name, 5.0) for name in names}) == [1.0, 2.0, 3.0]
    last = next(name for name in names if rounds.age(name, 5.0) == 1.0)
    assert read(rounds, [*names, "new"], (last,), now=5.0) == EACH + 2
    assert rounds.age(last, 5.0) == rounds.age("new", 5.0) == 0.0
    # Those that are not there any more are forgotten.
    _ = read(rounds, [last])
    other = next(name for name in names if name != last)
    assert rounds.age(other, 9.0) == 0.0


def test_few_names_are_looked_at_each_time() -> None:
    """A service with fewer locks is read as a whole, so that nothing in it is old."""
    rounds, names = Rounds(), [str(number) for number in range(EACH)]
    assert [read(rounds, names) for _ in range(3)] == [EACH] * 3
    assert rounds.kept() == set()


def test_the_age_of_the_oldest_look_is_known() -> None:
    """It counts only names that wait for their turn, and a look at all of them is not old."""
    rounds, names = Rounds(), [str(number) for number in range(COUNT)]
    assert read(rounds, names, now=1.0) == COUNT
    assert rounds.oldest(4.0) == 0.0
    assert read(rounds, names, now=2.0) == EACH
    assert rounds.oldest(4.0) == 3.0
    assert read(rounds, names[:EACH], now=3.0) < EACH
    assert read(rounds, names[:EACH], now=4.0) == EACH
    assert rounds.oldest(9.0) == 0.0


@pytest.fixture(name="watch")
def _watch(fresh_server: RedisServer) -> Watch:
    """Return what reads a server with many locks, and has done so once."""
    fill(fresh_server, COUNT)
    watch = Watch(open_url(fresh_server.url()), Options())
    watch.read()
    return watch


def told_by(page: Page, condition: str) -> None:
    """Wait until the script *condition* is true on the page, whose policy forbids its own wait."""
    wait_until(lambda: bool(page.evaluate(condition)), GIVE_UP, condition)


def holder_of(watch: Watch, name: str) -> str:
    """Return who holds the lock *name*, as the newest reading has it."""
    [info] = [info for info in watch.snapshot.locks if info.name == name]
    return info.holders[0].holder


def taken_over(server: RedisServer, name: str) -> None:
    """Give the lock *name* to another holder."""
    server.execute("DEL", name)
    server.execute("HSET", name, OTHER, "1")


def test_a_reading_asks_for_a_third_and_tells_all(watch: Watch, fresh_server: RedisServer) -> None:
    """A reading shows all locks, and asks for few of them: most were read before."""
    redis_client = redis.Redis.from_url(fresh_server.url())

    def received() -> int:
        info: Any = redis_client.info("stats")
        return int(info["total_net_input_bytes"])

    before = received()
    watch.read()
    later = received() - before
    assert watch.snapshot.oldest > 0
    assert len(watch.snapshot.locks) == COUNT
    assert len(watch.snapshot.read) == EACH
    other = Watch(watch.servers, Options())
    before = received()
    other.read()
    whole = received() - before
    assert later < 0.5 * whole
    assert [info.name for info in other.snapshot.locks] == [
        info.name for info in watch.snapshot.locks
    ]


def test_what_is_wanted_is_gathered_before_it_is_asked_for(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading has a request for each step of a scan, and few for all that it looks at."""
    asked: list[str] = []
    ask = Service.ask

    def counting(service: Service, node: Any, commands: Any) -> list[object]:
        asked.extend(str(command[0]) for command in list(commands)[:1])
        return ask(service, node, commands)

    monkeypatch.setattr(Service, "ask", counting)
    watch.read()
    assert len(watch.snapshot.read) == EACH
    steps = COUNT // STEP + 1
    assert asked.count("SCAN") <= 4 * steps + 4  # two for hashes, one each for lists and zsets
    assert len(asked) - asked.count("SCAN") <= 8


def test_new_and_missing_locks_are_told_by_the_next_reading(
    watch: Watch, fresh_server: RedisServer
) -> None:
    """A lock that comes or goes does not wait for its turn."""
    names = [info.name for info in watch.snapshot.locks]
    fresh_server.execute("HSET", "new", OTHER, "1")
    fresh_server.execute("DEL", names[-1])
    watch.read()
    told = [(each.name, each.what.partition(",")[0]) for each in watch.history.happenings]
    assert sorted(told) == sorted([("new", f"acquired by {OTHER}"), (names[-1], "ended")])
    assert {info.name for info in watch.snapshot.locks} == {*names, "new"} - {names[-1]}


def test_what_is_seen_is_read_each_time_and_others_by_turns(
    watch: Watch, fresh_server: RedisServer
) -> None:
    """The locks of an open page are never old, and no lock is for more than its turn."""
    seen, unseen = [info.name for info in watch.snapshot.locks][-2:]
    watch.seen([seen])
    for name in (seen, unseen):
        taken_over(fresh_server, name)
    shown: list[tuple[bool, bool]] = []
    for _ in range(4):
        watch.read()
        shown.append((holder_of(watch, seen) == OTHER, holder_of(watch, unseen) == OTHER))
    assert shown[0][0]
    assert shown[-1] == (True, True)
    assert [each.turn for each in watch.history.happenings].count(True) == 2


def test_names_without_rights_are_counted_among_many(
    fresh_server: RedisServer,
) -> None:
    """The console tells all keys that it may not read, though it asks for some by turns."""
    fill(fresh_server, COUNT)
    secret = 2 * EACH
    for number in range(secret):
        fresh_server.execute("HSET", f"secret:{number}", OTHER, "1")
    fresh_server.execute(
        *("ACL", "SETUSER", "onlooker", "on", ">word", "+@all", "~many:*", "~interlock_*"),
        *("~redisson_*", "&*"),
    )
    url = fresh_server.url().replace("://", "://onlooker:word@")
    watch = Watch(open_url(url), Options())
    for _ in range(3):
        watch.read()
        [line] = [line for line in watch.snapshot.missing if "keys were left out" in line]
        assert line.startswith(f"{secret} keys")


def test_only_the_row_that_changed_is_drawn_anew(fresh_server: RedisServer, page: Page) -> None:
    """A change of one lock leaves the other rows of the table as they are."""
    script = "for n = 1, 90 do redis.call('HSET', 'many:' .. n, ARGV[1], 1) end"
    fresh_server.execute("EVAL", script, "0", OTHER)
    with served(fresh_server.url()) as url:
        page.goto(url)
        page.get_by_text("90 locks").wait_for()
        page.evaluate(
            """() => {
              window.drawn = new Set();
              new MutationObserver((all) => {
                for (const { target } of all) {
                  const row = (target.closest ? target : target.parentNode).closest("tr");
                  if (row) window.drawn.add(row.dataset.key);
                }
              }).observe(document.getElementById("live"), {
                subtree: true, childList: true, characterData: true, attributes: true,
              });
            }"""
        )
        fresh_server.execute("PEXPIRE", "many:1", "600000")
        told_by(page, "window.drawn.size > 0")
        drawn = page.evaluate("[...window.drawn]")
    assert len(drawn) == 1
    assert "many:1" in drawn[0]


def test_a_hidden_tab_asks_for_nothing_until_it_is_shown(
    fresh_server: RedisServer, page: Page
) -> None:
    """Nobody sees a hidden tab; the console draws nothing for it."""
    page.add_init_script(
        # Not `window.away`: that names the element of this id, until somebody sets it.
        "Object.defineProperty(document, 'hidden', {get: () => !!window.unseen});"
    )
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.headers.get("x-part"):
            asked.append(request.url)

    with served(fresh_server.url()) as url:
        page.goto(url)
        page.get_by_text("No lock is held or awaited.").wait_for()
        page.on("request", note)
        page.evaluate(
            """() => {
              window.unseen = true;
              window.told = 0;
              const events = new EventSource("/events");
              events.addEventListener("changed", () => { window.told += 1; });
            }"""
        )
        fresh_server.execute("HSET", "new", OTHER, "1")
        told_by(page, "window.told > 2")
        before: Any = len(asked)
        told_by(page, "window.told > 4")
        assert len(asked) == before
        page.evaluate(
            "window.unseen = false; document.dispatchEvent(new Event('visibilitychange'));"
        )
        page.get_by_role("link", name="new", exact=True).wait_for()
        assert len(asked) > before
