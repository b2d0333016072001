"""The search for deadlocks reads nothing but what the doctor's line permits."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import GIVE_UP, wait_until

from interlock import ClosedError, connect
from interlock._drivers.background import deadlocks
from interlock.check import Requirements
from interlock.check.rights import LIBRARY

if TYPE_CHECKING:
    from tests.support.servers import RedisServer


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
    client = connect(fresh_server.url(username="app", password="secret"), lease=1.5)
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
