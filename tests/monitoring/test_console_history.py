"""The console's charts, its order by columns, its JSON, and its history."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from tests.monitoring.serving import ask, served
from tests.support.patience import GIVE_UP, wait_until

from interlock.cli import main
from interlock.console.changes import Happening
from interlock.console.history import KEPT, MINUTES, MOST_LOCKS, History
from interlock.console.order import COLUMNS, in_order
from interlock.errors import ConfigError
from interlock.inspection import ClientInfo, HolderInfo, LockInfo

if TYPE_CHECKING:
    from pathlib import Path

    from interlock import Client


def lock(name: str, *, held: float | None = None, waiting: int = 0, free: bool = False) -> LockInfo:
    """Return a lock that is held or *free*."""
    holder = HolderInfo(f"{name}:1", ClientInfo(name), held_for=held, remaining=held)
    return LockInfo(
        name, "lock", holders=() if free else (holder,), remaining=held, waiting=waiting
    )


def test_each_column_has_both_orders() -> None:
    """Locks are sorted by a column; those without a value come last in both orders."""
    locks = [lock("b", held=5.0, waiting=1), lock("a", held=9.0), lock("c", free=True, waiting=7)]
    orders = {
        order: "".join(info.name for info in in_order(locks, order))
        for column in COLUMNS
        for order in (column, f"-{column}")
    }
    assert orders == {
        "name": "abc",
        "-name": "cba",
        "kind": "bac",
        "-kind": "bac",
        "held": "bac",
        "-held": "abc",
        "ends": "bac",
        "-ends": "abc",
        "holder": "abc",
        "-holder": "bac",
        "waiting": "abc",
        "-waiting": "cba",
    }


def test_a_chart_counts_turns_waits_and_losses() -> None:
    """Turns add up, waits are the most at once, and a loss that was none is taken back."""
    history = History()
    history.look([lock("a", waiting=2), lock("b", waiting=1)], ["a", "a", "b"])
    history.look([lock("a", waiting=1)], ["a"])
    seen = Happening(time.time(), "a", "gone", loss=True)
    history.note(seen)
    history.note(Happening(time.time(), "b", "lost", loss=True))
    history.note(Happening(time.time(), "b", "broken here", loss=True), counts=False)
    one, whole = history.chart("a"), history.chart()
    assert (one.turns, one.waiting, one.losses) == (3, 2, 1)
    assert (whole.turns, whole.waiting, whole.losses) == (4, 3, 2)
    history.correct({seen: Happening(seen.at, "a", "released")})
    assert (history.chart("a").losses, history.chart().losses) == (0, 1)
    assert history.happenings[-1].what == "released"
    assert len(one.minutes) == MINUTES


def test_the_history_has_a_bound() -> None:
    """Of very many locks those with the oldest news are forgotten, and so are happenings."""
    history = History()
    for number in range(MOST_LOCKS + 50):
        history.look([], [f"lock:{number}"])
        history.note(Happening(time.time(), "", str(number)))
    assert history.chart("lock:0").turns == 0
    assert history.chart(f"lock:{MOST_LOCKS}").turns == 1
    assert history.chart().turns == MOST_LOCKS + 50
    assert len(history.happenings) == KEPT


def test_the_file_keeps_everything(tmp_path: Path) -> None:
    """A new history knows what the one before has written; a foreign file is an error."""
    path = tmp_path / "history"
    history = History(path)
    history.look([lock("a", waiting=2)], ["a"])
    history.note(Happening(1.0, "a", "lost", loss=True))
    history.note(Happening(2.0, "", "a deadlock"))
    history.write()
    assert not path.exists()  # it is too soon
    history.write(now=True)
    again = History(path)
    assert again.chart("a") == history.chart("a")
    assert again.chart() == history.chart()
    assert again.happenings == history.happenings
    for text in ("", "[]", "{}", '{"format": 99}', '{"format": 1, "happenings": [[1]]}'):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"history|format"):
            History(path)


def test_a_file_that_cannot_be_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The console goes on, and says so once until it can write again."""
    history = History(tmp_path / "none" / "history")
    history.write(now=True)
    history.write(now=True)
    [record] = caplog.records
    assert vars(record)["event"] == "console.history_unkept"
    (tmp_path / "none").mkdir()
    history.write(now=True)
    assert (tmp_path / "none" / "history").exists()


def test_everything_is_there_as_json_and_survives_a_restart(
    redis_url: str, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each page is JSON for programs, and a restarted console knows what was seen before."""
    path = tmp_path / "history"
    with served(redis_url, "--history", str(path)) as url:

        def told(page: str) -> dict[str, object]:
            answer = ask(url, page)
            assert answer.headers["content-type"] == "application/json"
            found: dict[str, object] = json.loads(answer.text)
            assert found["problem"] == ""
            return found

        wait_until(lambda: told("/locks.json")["at"] != 0, GIVE_UP, "the console has read")
        with client.lock("orders:1"), client.lock("orders:2"):
            wait_until(lambda: told("/locks.json")["found"] == 2, GIVE_UP, "both are seen")
            first = told("/locks.json?q=orders&sort=-name")["locks"]
            assert isinstance(first, list)
            assert [each["name"] for each in first] == ["orders:2", "orders:1"]
            assert told("/locks.json?show=dead")["locks"] == []
            one = told("/lock.json?name=orders:1")
            assert isinstance(one["account"], dict)
            assert one["account"]["state"] == "held"
            wait_until(lambda: bool(told("/clients.json")["clients"]), GIVE_UP, "a client is seen")
            assert "edges" in told("/graph.json")
        wait_until(
            lambda: (
                "ended" in ask(url, "/timeline.json?show=all").text
                or "released" in ask(url, "/timeline.json?show=all").text
            ),
            GIVE_UP,
            "the end is seen",
        )
        page = ask(url, "/lock?name=orders:1").text
        assert "Turns seen: 1" in page
    with served(redis_url, "--history", str(path)) as url:
        assert "Turns seen: 1" in ask(url, "/lock?name=orders:1").text
        assert "acquired by" in ask(url, "/timeline?show=all").text
    path.write_text("no history")
    assert main(["console", "--history", str(path), "--url", redis_url]) == 64
    assert "is no history of a console" in capsys.readouterr().err
