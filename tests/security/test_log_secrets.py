"""No record of the log has a password or a ticket, neither in its text nor in its attributes."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.support.holding import held
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

import interlock

if TYPE_CHECKING:
    import pytest
    from tests.support.servers import RedisServer

SECRET = "hunter2-and-more"
RULES = ("reset", "on", f">{SECRET}", "~*", "&*", "+@all")
EXPECTED = {
    *("lock.slow_acquire", "lock.slow_hold", "lock.force_released", "lock.lost"),
    "renewal.failing",
}


def events(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {str(vars(record).get("event")) for record in caplog.records}


def test_no_record_has_a_secret(
    fresh_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Slow, broken and lost holds, tickets and a changed password leave no secret in the log."""
    caplog.set_level(logging.DEBUG)
    fresh_server.execute("ACL", "SETUSER", "app", *RULES)
    url = fresh_server.url(username="app", password=SECRET)
    with (
        suppress(interlock.ServerUnavailableError),  # a hold may be left that no release reaches
        interlock.connect(url, lease=10, slow_acquire=0.2, slow_hold=0.2) as client,
    ):
        renews_soon(client)
        ticket = str(held(client.lock("handed")).hand_over())
        broken, kept = held(client.lock("broken")), held(client.lock("kept"))

        def wait() -> None:
            # A busy machine may not look at a wait before its time is up.
            while "lock.slow_acquire" not in events(caplog):
                assert not client.lock("kept").acquire(timeout=2)

        waiter = threading.Thread(target=wait)
        waiter.start()
        waiter.join(GIVE_UP)
        assert not waiter.is_alive()
        client.force_release("broken", holder=broken.holder, reason="stuck")
        wait_until(broken.lost.is_set, GIVE_UP, "the hold is lost")
        fresh_server.execute("ACL", "SETUSER", "app", "resetpass", ">another")
        fresh_server.execute("CLIENT", "KILL", "USER", "app")
        wait_until(kept.lost.is_set, GIVE_UP, "the other hold is lost")
        wait_until(lambda: events(caplog) >= EXPECTED, GIVE_UP, "all of it is logged")
    told = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "kept" in told
    for secret in (SECRET, "another", str(ticket)):
        assert secret not in told
