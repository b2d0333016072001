"""What each thread keeps for itself: the same in C and in Python."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
import types
import weakref
from typing import TYPE_CHECKING, TypeAlias

import pytest

from interlock._drivers.process import thread_local

if TYPE_CHECKING:
    from collections.abc import Callable

    OfThread: TypeAlias = Callable[[object, Callable[[], object]], object]


class Thing:
    """Something that can be collected."""


@pytest.fixture(params=["chosen", "Python"])
def of_thread(request: pytest.FixtureRequest) -> OfThread:
    """Give the one that is used here, and the one in Python."""
    if request.param == "Python":
        return thread_local.of_thread_in_python
    return thread_local.of_thread


def test_each_thread_keeps_its_own(of_thread: OfThread) -> None:
    """A thread is given the same thing each time, and another one than other threads."""
    key = object()
    kept: list[object] = []
    thread = threading.Thread(target=lambda: kept.append(of_thread(key, Thing)))
    thread.start()
    thread.join()
    first = of_thread(key, Thing)

    assert of_thread(key, Thing) is first
    assert of_thread(object(), Thing) is not first
    assert kept[0] is not first


def test_it_ends_with_the_thread(of_thread: OfThread) -> None:
    """Nothing keeps what a thread kept that has ended."""
    key = object()
    kept: list[weakref.ref[object]] = []
    thread = threading.Thread(target=lambda: kept.append(weakref.ref(of_thread(key, Thing))))
    thread.start()
    thread.join()
    gc.collect()

    assert kept[0]() is None


def test_the_first_one_stays(of_thread: OfThread) -> None:
    """A signal handler that asks while the thing is made gets the same as the interrupted call."""
    key = object()
    inner: list[object] = []

    def make() -> object:
        inner.append(of_thread(key, Thing))
        return Thing()

    assert of_thread(key, make) is inner[0]
    assert of_thread(key, Thing) is inner[0]


def test_what_fails_is_not_kept(of_thread: OfThread) -> None:
    """An error in making it goes on to the caller, who may ask again."""
    key = object()
    with pytest.raises(ZeroDivisionError):
        of_thread(key, lambda: 1 // 0)

    assert isinstance(of_thread(key, Thing), Thing)


def test_an_older_extension_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension that was compiled before it had the function leaves the one in Python."""
    name = "interlock._links._exchange"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(
        "interlock._drivers.process.thread_local", thread_local
    )  # put back at the end
    monkeypatch.delitem(sys.modules, thread_local.__name__)
    again = importlib.import_module(thread_local.__name__)

    assert again.of_thread is again.of_thread_in_python
