"""What follows from the row of a new kind: operators see it, rights suffice, tests run over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import KINDS, kinds, loss_of
from tests.operations import room_lock
from tests.operations.test_deadlocks import write_cards
from tests.support.patience import wait_until
from tests.support.renewal import renews_soon

import interlock
from interlock.check import Requirements
from interlock.cli import main

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer

pytestmark = pytest.mark.usefixtures("room_row")


def test_operators_see_it_and_break_one_hold(redis_url: str) -> None:
    """The reader finds the new kind with its holder, and an operator breaks that hold."""
    with (
        renews_soon(interlock.connect(redis_url)) as one,
        interlock.connect(redis_url) as other,
    ):
        lock = room_lock.room_lock(one, "orders")
        hold = lock.acquire() and lock.hold
        assert hold
        assert not room_lock.room_lock(other, "elsewhere").locked()
        info = other.describe("orders")
        assert info is not None
        assert (info.name, info.kind) == ("orders", "room_lock")
        [holder] = info.holders
        assert [each.kind for each in other.locks("ord*")] == ["room_lock"]
        assert [each.name for each in other.locks(kinds=["room_lock"])] == ["orders"]
        assert not other.force_release("orders", holder=f"{other.client_id}:1")
        assert other.force_release("orders", holder=holder.holder, reason="stuck")
        assert other.describe("orders") is None
        wait_until(lambda: "stuck" in str(loss_of(hold)), 10, "the holder reads the note")


def test_the_commands_list_it(redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`interlock list` shows the new kind and filters by it; `interlock doctor` knows it."""
    with interlock.connect(redis_url) as client:
        assert room_lock.room_lock(client, "orders").acquire()
        where = {"INTERLOCK_URL": redis_url}
        assert main(["list", "--kind", "room_lock"], where) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["orders", "room"]
        assert main(["why", "orders"], where) == 0
        assert "The room lock 'orders' is held by" in capsys.readouterr().out
        assert main(["doctor", "--for", "room_lock", "--names", "orders*"], where) in (0, 1)
        assert "rights" in capsys.readouterr().out


def test_its_rights_suffice(fresh_server: RedisServer) -> None:
    """A user with the rights of the printed line can use the new kind, and nothing else."""
    line = Requirements(("room_lock",), "locks:*").acl_line()
    assert " ~interlock_*{locks:* " in line
    assert " +zcount " in line
    fresh_server.execute("ACL", "SETUSER", "app", "reset", *line.split()[2:])
    with interlock.connect(fresh_server.url(0, "app", "secret"), card=False) as client:
        lock = room_lock.room_lock(client, "locks:orders")
        assert lock.acquire()
        assert lock.locked()
        lock.release()
        with pytest.raises(interlock.ServerUnavailableError, match="permit"):
            client.fair_lock("locks:orders").acquire(timeout=0)


def test_an_operator_may_read_it(fresh_server: RedisServer) -> None:
    """The operator's rights cover the keys of the new kind."""
    line = Requirements(("operator",), "locks:*").acl_line()
    fresh_server.execute("ACL", "SETUSER", "ops", "reset", *line.split()[2:])
    with (
        interlock.connect(fresh_server.url(0)) as client,
        interlock.connect(fresh_server.url(0, "ops", "secret"), card=False) as operator,
    ):
        assert room_lock.room_lock(client, "locks:orders").acquire()
        info = operator.describe("locks:orders")
        assert info is not None
        assert info.kind == "room_lock"


def test_the_generic_tests_run_over_it() -> None:
    """Cases of locks that several owners hold have the new kind; those of all others do not."""
    assert {kind.name for kind in kinds()} == {kind.name for kind in KINDS}
    new = {kind.name for kind in kinds(shared=True)}
    assert new >= {"room", "room-once"}


def test_the_search_for_deadlocks_leaves_it_out(redis_url: str, redis_client: redis.Redis) -> None:
    """Two who wait for each other are in no deadlock if another owner may hold it meanwhile."""
    key = room_lock.room_key("orders")
    with interlock.connect(redis_url) as client:
        for name, found in (("plain", 1), (key, 0)):
            write_cards(redis_client, name, "stock")
            assert len(client.deadlocks()) == found
