"""The search for deadlocks reads nothing but what the doctor's line permits."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

from interlock import ClosedError, HoldLostError, connect
from interlock._core.insight.card import CARD
from interlock._drivers.background import deadlocks
from interlock.check import Requirements
from interlock.check.rights import LIBRARY

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

    from interlock.inspection.reader import Reader


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "fenced_lock"])
def test_the_search_needs_no_more_rights(
    kind: str,
    fresh_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deadlock is found by a user with the line of its locks and cards; no right is refused."""
    monkeypatch.setattr(deadlocks, "PATIENCE", 0.3)
    monkeypatch.setattr(deadlocks, "FIRST_SEARCH_PAUSE", 0.3)
    words = Requirements((kind, "cards"), "locks:*").acl_line().split()
    fresh_server.execute("ACL", "SETUSER", *words[1:])
    client = renews_soon(connect(fresh_server.url(username="app", password="secret")))
    ready = threading.Barrier(2)

    def told() -> bool:
        return any(getattr(each, "event", "") == "lock.deadlock" for each in caplog.records)

    def cross(first: str, second: str) -> None:
        lock: Any = getattr(client, kind)
        with suppress(ClosedError), lock(first):
            ready.wait()
            lock(second).acquire()

    threads = [
        threading.Thread(target=cross, args=names)
        for names in (("locks:a", "locks:b"), ("locks:b", "locks:a"))
    ]
    for each in threads:
        each.start()
    try:
        wait_until(told, GIVE_UP, "the deadlock is told")
    finally:
        client.close()
        for each in threads:
            each.join()
    with fresh_server.client() as server:
        refused = {entry["object"] for entry in server.acl_log()}
    assert refused <= {LIBRARY}, "a server from 7.2 on may be told the library's name"


def test_what_may_not_be_read_is_asked_for_once(
    fresh_server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search asks once for a card that it has no right to, and tells it once."""
    monkeypatch.setattr(deadlocks, "PATIENCE", 0.3)
    monkeypatch.setattr(deadlocks, "FIRST_SEARCH_PAUSE", 0.05)
    monkeypatch.setattr(deadlocks, "LONGEST_SEARCH_PAUSE", 0.05)
    looks, check = list[None](), deadlocks.DeadlockWatch._check

    def counted(watch: deadlocks.DeadlockWatch, reader: Reader) -> None:
        check(watch, reader)
        looks.append(None)

    monkeypatch.setattr(deadlocks.DeadlockWatch, "_check", counted)
    words = Requirements(("lock", "cards"), "locks:*").acl_line().split()
    fresh_server.execute("ACL", "SETUSER", *words[1:])
    url = fresh_server.url(username="app", password="secret")
    with connect(fresh_server.url()) as other, renews_soon(connect(url)) as client:
        own = [word for word in words if word.startswith("~") and "interlock_client:" not in word]
        card = CARD.format(client.client_id)
        fresh_server.execute("ACL", "SETUSER", words[1], "resetkeys", *own, f"~{card}")

        def wait() -> None:
            # A busy machine may stop it for longer than its claim.
            with suppress(HoldLostError), client.lock("locks:mine"), client.lock("locks:theirs"):
                pass

        with other.lock("locks:theirs"):
            waiter = threading.Thread(target=wait)
            waiter.start()
            wait_until(lambda: len(looks) > 5, GIVE_UP, "the search has looked again and again")
        waiter.join()
        with fresh_server.client() as server:
            theirs = CARD.format(other.client_id)
            counts = [each["count"] for each in server.acl_log() if each["object"] == theirs]
    assert counts in ([1], ["1"])
    told = [each for each in caplog.records if getattr(each, "event", "") == "deadlock.unread"]
    assert len(told) == 1
