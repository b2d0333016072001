"""A call that is undone wherever a signal strikes: the same in C and in Python."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from interlock._drivers.process import whole as module

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["chosen", "Python"])
def whole(request: pytest.FixtureRequest) -> Any:
    """Give the one that is used here, and the one in Python."""
    return module.whole_in_python if request.param == "Python" else module.whole_method


class Thing:
    """Notes what is undone, and fails as often as it is told."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.undone: list[object] = []

    def call(self, given: int) -> int:
        return 1 // given

    def undo(self, given: int) -> None:
        self.undone.append(given)
        if len(self.undone) <= self.fails:
            raise KeyboardInterrupt


def method(whole: Callable[..., Any], thing: Thing) -> Callable[[int], int]:
    """Return the method of *thing* that is undone if it fails."""
    bound: Callable[[int], int] = whole(Thing.call, Thing.undo).__get__(thing)
    return bound


def test_an_undo_that_is_struck_is_tried_again(whole: Any) -> None:
    """A second signal does not end the undo, and the first error is the one that is raised."""
    thing = Thing(fails=3)
    with pytest.raises(ZeroDivisionError):
        method(whole, thing)(0)
    assert thing.undone == [0, 0, 0, 0]


def test_an_undo_that_always_fails_ends(whole: Any) -> None:
    """An undo that never succeeds is given up."""
    thing = Thing(fails=sys.maxsize)
    with pytest.raises(ZeroDivisionError):
        method(whole, thing)(0)
    assert len(thing.undone) == module.MAX_UNDO


LOSES_IT = """
from interlock._drivers.process.whole import whole

class Descriptor:
    def __get__(self, thing, kind):
        del Descriptor.__get__
        raise KeyError
    __get__ = whole(__get__, lambda *_: print("undone"))

class Thing:
    attribute = Descriptor()

try:
    Thing().attribute
except KeyError:
    print("raised")
"""


def test_it_lives_while_it_is_called() -> None:
    """A class that loses it in the middle of a call, as by a patch, does not end the undo."""
    # With memory that is overwritten when it is freed.
    command = [sys.executable, "-X", "dev", "-c", LOSES_IT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.returncode) == (["undone", "raised"], 0)
