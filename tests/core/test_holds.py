"""The table of holds: who holds what, how deep, for how long, and what became of it."""

from __future__ import annotations

import ast
import gc
import inspect
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import interlock
from interlock._core.model import holds
from interlock._core.model.holds import (
    DRIFT,
    ENDED,
    ENDING,
    HELD,
    LOST,
    PENDING,
    SLACK,
    TRANSITIONS,
    Hold,
    Owner,
    Permit,
    valid_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.core.bench import Bench, Play


class Handle:
    """Something that can be collected."""


def test_owner_numbers_are_never_used_twice() -> None:
    """No owner, and no renumbered one, has a number that another ever had."""
    one, other = Owner("one"), Owner("other")
    numbers = {one.number, other.number}
    identity = one.identity
    one.renumber()

    assert len({*numbers, one.number}) == 3
    assert one.identity == identity


@pytest.mark.parametrize(
    ("gone", "expected"), [(None, False), (lambda: False, False), (lambda: True, True)]
)
def test_owner_is_gone_when_its_thread_or_task_is(gone: object, expected: bool) -> None:
    """An owner without anything to look at lives as long as somebody refers to it."""
    assert Owner("it", gone).ended() is expected  # type: ignore[arg-type]


def test_hold_is_valid_for_less_than_its_lease_since_sending() -> None:
    """Validity counts from the sending, and leaves out what two clocks may differ by."""
    assert valid_until(100.0, 10.0) == pytest.approx(110.0 - 10 * DRIFT - SLACK)


def test_validity_is_never_shortened(bench: Bench) -> None:
    """A shorter lease that is acknowledged later takes nothing from a longer one."""
    hold = bench.hold()
    before = hold.valid_until
    hold.extend_validity(bench.now, 1.0)
    assert hold.valid_until == before
    hold.extend_validity(bench.now, 100.0)

    assert hold.valid_until == valid_until(bench.now, 100.0)


@pytest.mark.parametrize(
    ("state", "valid", "lost_before", "lost_after"),
    [
        (PENDING, False, False, False),
        (HELD, True, False, True),
        (ENDING, False, False, True),
        (ENDED, False, False, False),
        (LOST, False, True, True),
    ],
)
def test_state_and_clock_tell_whether_a_hold_is_valid_or_lost(
    bench: Bench, state: str, valid: bool, lost_before: bool, lost_after: bool
) -> None:
    """Only a hold that is held and in time is valid.

    A hold that was held and is out of time is lost, even if nobody has noticed.
    """
    hold = bench.hold(state=state)
    end = hold.valid_until

    assert hold.valid(bench.now) is valid
    assert hold.lost(bench.now) is lost_before
    assert not hold.valid(end)
    assert hold.lost(end) is lost_after


def test_expiry_is_explained_by_who_should_have_renewed(bench: Bench) -> None:
    """A hold that is not renewed expires as agreed; one whose renewals fail is unreachable."""
    hold = bench.hold()
    hold.renew_at = hold.valid_until - hold.lease / 10
    assert hold.expiry_reason() == "unreachable past validity"
    hold.renew_at = hold.valid_until - hold.lease / 2
    assert hold.expiry_reason() == "expired"
    assert not hold.ran_out()
    assert bench.lock.new_hold(bench.owner, 5.0).expiry_reason() == "expired"


class TestAbandoned:
    """When nobody is left to release a hold."""

    def test_hold_of_a_living_owner_is_not(self, bench: Bench) -> None:
        """As long as its owner lives a hold can be released."""
        assert not bench.hold().abandoned()

    def test_hold_is_when_its_owner_is_collected(self, bench: Bench) -> None:
        """A table entry keeps no owner alive."""
        hold = bench.hold(owner=Owner("short-lived"))
        gc.collect()

        assert hold.abandoned()

    def test_hold_is_when_its_thread_has_ended(self, bench: Bench) -> None:
        """An owner object that outlives its thread does not count."""
        ended: list[bool] = []
        owner = Owner("thread", lambda: bool(ended))
        hold = bench.hold(owner=owner)
        assert not hold.abandoned()
        ended.append(True)

        assert hold.abandoned()

    def test_hold_is_when_its_handle_is_collected(self, bench: Bench) -> None:
        """A hold that lives with what the user was given dies with it, though its owner lives."""
        hold, handle = bench.held(), Handle()
        hold.hand(weakref.ref(handle))
        assert not hold.abandoned()
        del handle
        gc.collect()

        assert hold.abandoned()

    def test_hold_is_not_while_a_handle_lives(self, bench: Bench) -> None:
        """A hold that a handle can release is kept after its thread has ended, at any depth."""
        ended: list[bool] = []
        owner, outer, inner = Owner("thread", lambda: bool(ended)), Handle(), Handle()
        hold = bench.held(owner=owner)
        hold.hand(weakref.ref(outer))
        hold.depth = 2
        hold.hand(weakref.ref(inner))
        ended.append(True)
        del outer
        gc.collect()
        assert not hold.abandoned()
        del inner
        gc.collect()

        assert hold.abandoned()

    def test_hold_is_not_while_its_owner_may_release_it(self, bench: Bench) -> None:
        """A handle beside which the owner may release keeps the hold, and its end ends nothing."""
        hold, handle = bench.held(), Handle()
        hold.hand(weakref.ref(handle), alone=False)
        del handle
        gc.collect()

        assert not hold.abandoned()


class TestLoss:
    """Whom a loss is told."""

    def test_every_listener_is_told_once(self, bench: Bench) -> None:
        """A loss is announced to those who asked, and only the first time."""
        hold = bench.hold()
        assert hold.listen(print)
        assert hold.listen(repr)  # type: ignore[arg-type]

        assert hold.lose("expired") == [print, repr]
        assert hold.lose("force-released") == []
        assert (hold.state, hold.reason) == (LOST, "expired")

    def test_loss_without_listeners_tells_nobody(self, bench: Bench) -> None:
        """A hold can be lost although nobody listens."""
        assert bench.hold().lose("expired") == []

    @pytest.mark.parametrize("state", [PENDING, ENDED])
    def test_what_is_not_held_cannot_be_lost(self, bench: Bench, state: str) -> None:
        """A hold that is not granted yet, or was released, stays what it is."""
        hold = bench.hold(state=state)

        assert hold.lose("expired") == []
        assert hold.state is state

    def test_late_listener_must_be_told_by_its_caller(self, bench: Bench) -> None:
        """`listen` returns False if the hold is lost already: the caller tells the listener."""
        hold = bench.hold()
        hold.lose("expired")

        assert not hold.listen(print)

    def test_listener_that_a_loss_overtakes_is_told_by_one_side_only(self, bench: Bench) -> None:
        """If the loss comes while a listener is being added, the loss alone tells it."""
        hold = bench.hold()

        class Overtaken(list[object]):
            def append(self, callback: object) -> None:
                super().append(callback)
                told.extend(hold.lose("expired"))
                self.clear()

        told: list[object] = []
        hold._listeners = Overtaken()  # type: ignore[assignment]

        assert hold.listen(print)


def test_hold_tells_what_it_is(bench: Bench) -> None:
    """A hold's repr names the lock, the state, the depth and the holder."""
    hold = bench.held()

    assert repr(hold) == f"<Hold 'x' held depth=1 holder=c0ffee:{bench.owner.number}>"


def test_hold_is_kept_until_it_is_released(bench: Bench, play: type[Play]) -> None:
    """A hold is kept while it is in the table, and released through its own lock."""
    hold = bench.held()
    assert hold.kept()
    play(hold.release()).answer(1)

    assert not hold.kept()
    assert hold.state is ENDED


class TestTable:
    """What the table finds."""

    def test_hold_is_found_by_key_and_owner(self, bench: Bench) -> None:
        """Each owner has a hold of its own for each key."""
        other = Owner("other")
        mine, theirs, elsewhere = bench.hold(), bench.hold(owner=other), bench.hold("y")
        holds = bench.session.holds

        assert holds.get("x", bench.owner) is mine
        assert holds.get("x", other) is theirs
        assert holds.get("z", bench.owner) is None
        assert holds.of_key("x") == [mine, theirs]
        assert list(holds) == [mine, theirs, elsewhere]
        assert (len(holds), mine in holds) == (3, True)

    def test_ended_hold_is_forgotten(self, bench: Bench) -> None:
        """What is over is not in the table any more."""
        hold = bench.hold()
        bench.session.holds.end(hold)

        assert hold not in bench.session.holds
        assert hold.state is ENDED

    def test_lost_hold_stays_lost_when_it_is_forgotten(self, bench: Bench) -> None:
        """Forgetting a hold does not hide how it ended."""
        hold = bench.hold()
        hold.lose("expired")
        bench.session.holds.end(hold)

        assert hold.state is LOST

    def test_end_of_a_replaced_hold_leaves_the_later_one(self, bench: Bench) -> None:
        """A hold that is ended late takes nothing from its owner's next hold of the same key."""
        first: Hold = bench.hold()
        second = bench.hold()
        bench.session.holds.end(first)

        assert second in bench.session.holds


class _EndedMeanwhile(dict[object, Hold]):
    """A table that loses an entry to another thread just after it was looked at."""

    def get(self, key: object, default: object = None) -> object:
        """Look, and lose it."""
        return self.pop(key, default)

    def __getitem__(self, key: object) -> Hold:
        """Look, and lose it."""
        return self.pop(key)


def test_two_threads_may_end_a_hold_at_once(bench: Bench) -> None:
    """A client may close just when an acquire ends by itself: the hold ends without an error."""
    holds = bench.session.holds
    holds.table = _EndedMeanwhile()  # type: ignore[assignment]
    hold = bench.hold()
    holds.end(hold)
    holds.end(hold)
    assert (hold.state, list(holds.snapshot())) == (ENDED, [])


MOVES: dict[str, tuple[object, ...]] = {
    "grant": (None, 0.0, 1.0),
    "start": (None, 1_100_000, 0.1),
    "begin_release": (),
    "take_back": (),
    "end": (),
    "lose": ("expired",),
}
"""What changes the state of a hold, with arguments."""
STATES = (PENDING, HELD, ENDING, ENDED, LOST)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("state", STATES)
def test_states_change_as_the_table_says(bench: Bench, state: str, move: str) -> None:
    """Each method changes the state as the table says; without an entry the state stays."""
    hold = bench.hold(state=state)
    hold.refused(0.0, 1_000_000)
    _ = getattr(hold, move)(*MOVES[move])

    assert hold.state is TRANSITIONS.get((state, move), state)


@pytest.mark.parametrize("state", STATES)
def test_a_release_ends_a_hold_as_the_table_says(bench: Bench, state: str) -> None:
    """`Holds.released`, which every release calls, makes the same change as `Hold.end`."""
    hold = bench.hold(state=state)
    bench.session.holds.released(hold)

    assert hold.state is TRANSITIONS.get((state, "end"), state)


def test_the_table_is_complete() -> None:
    """The table names the methods that change a state: all of them, and no others."""
    tree = ast.parse(inspect.getsource(holds))
    assigning = {
        (owner.name, function.name)
        for owner in tree.body
        if isinstance(owner, ast.ClassDef)
        for function in owner.body
        if isinstance(function, ast.FunctionDef) and function.name != "__init__"
        for name in assigned(function)
        if name == "state"
    }

    assert set(MOVES) == {move for _, move in TRANSITIONS}
    assert assigning == {("Holds", "released")} | {("Hold", move) for move in MOVES}


def assigned(tree: ast.AST) -> Iterator[str]:
    """Yield the names of attributes that *tree* assigns, of `self` or of anything else."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    yield part.attr


def foreign(tree: ast.AST) -> Iterator[str]:
    """Yield the attributes that *tree* assigns of any object other than `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            base = node.value
            if not (isinstance(base, ast.Name) and base.id == "self"):
                yield f"{ast.unparse(base)}.{node.attr}"


def test_only_holds_change_holds() -> None:
    """No other module assigns an attribute of a hold, but the watchdog sets `renew_at`."""
    root = Path(interlock.__file__).parent
    slots = {slot for cls in holds.Permit.__mro__ for slot in getattr(cls, "__slots__", ())}
    found = {
        f"{path.stem}: {name}"
        for part in ("_core", "_drivers", "asyncio", "sync")
        for path in (root / part).rglob("*.py")
        if path.stem != "holds"
        for name in foreign(ast.parse(path.read_text(encoding="utf-8")))
        if name.rpartition(".")[2] in slots
        if name.rpartition(".")[0].endswith(("hold", "permit", "candidate", "one", "successor"))
    }

    assert found == {"watchdog: hold.renew_at"}


def test_no_driver_changes_what_is_the_cores() -> None:
    """A driver assigns no attribute of a hold or a step, and at most four of the session.

    They are the command that publishes, the pauses of a forked child, and two functions. One tells
    whether anybody is left. The other reads the replies to posted commands.
    """
    root = Path(interlock.__file__).parent / "_drivers"
    found = {
        name
        for path in (root / "threads.py", root / "aio.py")
        for name in foreign(ast.parse(path.read_text(encoding="utf-8")))
    }

    assert {
        name
        for name in found
        if name.startswith(("self.session", "step", "hold", "effect", "call"))
    } <= {
        "self.session.holds.hear",
        "self.session.publish",
        "self.session.random",
        "self.session.watchdog.deserted",
    }


def test_every_late_grant_is_counted(bench: Bench) -> None:
    """A try without a reply, an offer and a place in a queue count one each."""
    hold = bench.lock.new_hold(bench.owner, None)
    hold.sent()
    hold.offer()
    hold.queue()

    assert hold.late_grants() == 3


def test_a_hold_that_is_left_is_one_less_deep(bench: Bench) -> None:
    """Entering and leaving a hold returns it to the same depth."""
    hold = bench.hold()
    depth = hold.depth

    assert (hold.enter(), hold.leave()) == (depth + 1, depth)


def test_a_permit_ends_with_its_own_lease(bench: Bench) -> None:
    """A permit that is asked to end is lost after that time, if it was not released."""
    permit = Permit(bench.lock, bench.owner, "a", 30.0)
    permit.sent()
    assert permit.grant(None, bench.now, bench.now)
    permit.ask_lease(bench.now, 5)

    assert (permit.valid(bench.now + 4), permit.lost(bench.now + 4)) == (True, False)
    assert (permit.valid(bench.now + 6), permit.lost(bench.now + 6)) == (False, True)
    permit.end()
    assert not permit.lost(bench.now + 6)
