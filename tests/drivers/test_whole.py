"""A call that is undone wherever a signal strikes: the same in C and in Python."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from interlock._drivers.process import whole as module
from interlock._links import exchange

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["chosen", "Python"])
def whole(request: pytest.FixtureRequest) -> Any:
    """Give the one that is used here, and the one in Python."""
    return module.whole_in_python if request.param == "Python" else module.whole


class Thing:
    """Notes what is undone, and fails as often as it is told."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.undone: list[object] = []

    def call(self, given: int) -> int:
        """Return 1 / *given*."""
        return 1 // given

    def undo(self, given: int) -> None:
        """Note *given*."""
        self.undone.append(given)
        if len(self.undone) <= self.fails:
            raise KeyboardInterrupt


def method(whole: Callable[..., Any], thing: Thing) -> Callable[[int], int]:
    """Return the method of *thing* that is undone if it fails."""
    bound: Callable[[int], int] = whole(Thing.call, Thing.undo).__get__(thing)
    return bound


def test_what_succeeds_is_not_undone(whole: Any) -> None:
    """A call that returns gives its result, and nothing is undone."""
    thing = Thing()
    assert method(whole, thing)(1) == 1
    assert thing.undone == []


def test_what_fails_is_undone_once(whole: Any) -> None:
    """The error goes on to the caller after the undo, which gets the same arguments."""
    thing = Thing()
    with pytest.raises(ZeroDivisionError):
        method(whole, thing)(0)
    assert thing.undone == [0]


def test_both_take_arguments_by_name(whole: Any) -> None:
    """As users may call a method."""
    seen: list[tuple[str, int]] = []

    def fails(*, n: int) -> None:
        seen.append(("call", n))
        raise LookupError

    with pytest.raises(LookupError):
        whole(fails, lambda *, n: seen.append(("undo", n)))(n=3)
    assert seen == [("call", 3), ("undo", 3)]


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


def test_a_function_without_an_object(whole: Any) -> None:
    """A function that belongs to no object is called with the arguments as they are."""
    undone: list[object] = []
    call = whole(lambda given: 1 // given, undone.append)
    assert call(1) == 1
    with pytest.raises(ZeroDivisionError):
        call(0)
    assert undone == [0]


def test_it_looks_like_what_it_calls(whole: Any) -> None:
    """Help and signatures show the function that is called."""
    wrapped = whole(Thing.call, Thing.undo)
    assert list(inspect.signature(wrapped).parameters) == ["self", "given"]
    assert "call" in repr(wrapped)


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


def test_it_is_the_one_in_c() -> None:
    """Where there is a compiler, the call is in C: no place in it is left that a signal strikes."""
    assert (module.whole is not module.whole_in_python) == exchange.COMPILED


def test_it_takes_two_functions() -> None:
    """Other arguments are refused."""
    whole: Any = module.whole
    with pytest.raises(TypeError):
        whole(Thing.call)
    with pytest.raises(TypeError):
        whole(Thing.call, undo=Thing.undo)


def test_an_older_extension_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension that was compiled before it had the function leaves the one in Python."""
    name = "interlock._links._exchange"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr("interlock._drivers.process.whole", module)  # put back at the end
    monkeypatch.delitem(sys.modules, module.__name__)
    again = importlib.import_module(module.__name__)

    assert again.whole is again.whole_in_python
