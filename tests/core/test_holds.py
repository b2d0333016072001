"""How the state of a hold changes, and who may change it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import interlock
from interlock._core.model import holds
from interlock._core.model.holds import ENDED, ENDING, HELD, LOST, PENDING, TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.core.bench import Bench


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
