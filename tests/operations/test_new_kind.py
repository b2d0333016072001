"""A new kind of lock is a module, a script and a row of the catalogue: all else follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import KINDS, kinds, loss_of
from tests.operations import room_lock
from tests.support.patience import wait_until
from tests.support.renewal import renews_soon

import interlock
from interlock._core import kinds as catalogue
from interlock._core.scripts import script
from interlock.check import Requirements
from interlock.cli import main
from interlock.inspection import lock_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RedisServer


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the row, the script and the factory."""
    monkeypatch.setitem(catalogue.KINDS, "room_lock", room_lock.ROW)
    monkeypatch.setattr(script, "_read", room_lock.reader_beside(script._read))
    monkeypatch.setattr(interlock.Client, "room_lock", room_lock.room_lock, raising=False)
    _forget_the_rows()
    yield
    _forget_the_rows()


def _forget_the_rows() -> None:
    """Forget what the reader has learnt from the catalogue."""
    catalogue.seen.cache_clear()
    catalogue._by_answer.cache_clear()
    lock_reply.numbers.cache_clear()
    lock_reply._apart_with_tokens.cache_clear()


def test_operators_see_it_and_break_one_hold(redis_url: str) -> None:
    """The reader finds the new kind with its holder, and an operator breaks that hold."""
    with (
        renews_soon(interlock.connect(redis_url)) as one,
        interlock.connect(redis_url) as other,
    ):
        lock = room_lock.room_lock(one, "orders")
        hold = lock.acquire() and lock.hold
        assert hold
        assert not room_lock.room_lock(other, "orders").acquire(timeout=0)
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


def test_it_has_tickets(redis_url: str) -> None:
    """Another client adopts a hold of the new kind by its ticket."""
    with interlock.connect(redis_url) as one, interlock.connect(redis_url) as other:
        lock = room_lock.room_lock(one, "orders")
        hold = lock.acquire() and lock.hold
        assert hold
        adopted = other.adopt(hold.hand_over(lease=30))
        assert adopted.valid
        adopted.release()
        assert other.describe("orders") is None


def test_the_commands_list_it(redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`interlock list` shows the new kind and filters by it; `interlock doctor` knows it."""
    with interlock.connect(redis_url) as client:
        assert room_lock.room_lock(client, "orders").acquire()
        where = {"INTERLOCK_URL": redis_url}
        assert main(["list", "--kind", "room_lock"], where) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["orders", "room"]
        assert main(["show", "orders"], where) == 0
        assert "orders: room\n" in capsys.readouterr().out
        assert main(["doctor", "--for", "room_lock", "--names", "orders*"], where) in (0, 1)
        assert "rights" in capsys.readouterr().out


def test_its_rights_suffice(fresh_server: RedisServer) -> None:
    """A user with the rights of the printed line can use the new kind, and nothing else."""
    line = Requirements(("room_lock",), "locks:*").acl_line()
    assert " ~interlock_room:{locks:* " in line
    assert " +hlen " in line
    fresh_server.execute("ACL", "SETUSER", "app", "reset", *line.split()[2:])
    with interlock.connect(fresh_server.url(0, "app", "secret"), card=False) as client:
        lock = room_lock.room_lock(client, "locks:orders")
        assert lock.acquire()
        assert lock.locked()
        lock.release()
        with pytest.raises(interlock.ServerUnavailableError, match="NOPERM"):
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
    """The suite of all lock-likes has the new kind, with the variant that is not reentrant."""
    new = {kind.name for kind in kinds()} - {kind.name for kind in KINDS}
    assert new == {"room", "room-once"}
