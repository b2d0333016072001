"""Drivers have what the protocol names, and faces hold no logic: they call a driver."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.drivers.protocol_names import lacking, names_of
from tests.support.simulator import Simulator
from tests.support.simulator.driver import SimulatedDriver

import interlock
import interlock.asyncio
from interlock._drivers.protocol import AwaitedDriver, BlockingDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

FACE = Path(interlock.__file__).parent / "asyncio"
FILES = sorted(path for path in FACE.glob("*.py") if path.name != "redis_py.py")
"""The face. `redis_py` is an adapter: it translates errors, and stands on top of the face."""


def test_the_driver_for_threads_has_every_name() -> None:
    """The driver for threads has all that a driver that blocks must have."""
    with interlock.connect("redis://localhost:1") as client:
        assert lacking(client._driver, BlockingDriver) == set()


async def test_the_driver_for_asyncio_has_every_name() -> None:
    """The driver for asyncio has all that an awaited driver must have."""
    async with interlock.asyncio.connect("redis://localhost:1") as client:
        assert lacking(client._driver, AwaitedDriver) == set()


def test_the_driver_of_the_simulator_has_every_name() -> None:
    """So does the one of the simulator; a driver without them has none."""
    driver = SimulatedDriver(Simulator(1).client())
    assert lacking(driver, AwaitedDriver) == set()
    assert (
        lacking(object(), AwaitedDriver) == names_of(AwaitedDriver) >= {"run", "session", "close"}
    )


def _used(tree: ast.AST) -> Iterator[str]:
    """Yield the attributes of drivers that a module uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = node.value
            name = of.id if isinstance(of, ast.Name) else getattr(of, "attr", "")
            if name in ("driver", "_driver"):
                yield node.attr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_face_uses_nothing_else_of_a_driver(path: Path) -> None:
    """Whatever a face calls of a driver is in the one list."""
    assert set(_used(ast.parse(path.read_text(encoding="utf-8")))) <= names_of(AwaitedDriver)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_face_does_not_decide_what_follows_an_error(path: Path) -> None:
    """What a block's error is told, and how a block is undone, stands once, below the faces."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not called & {"add_note"}, "see _drivers/awaited.py"
