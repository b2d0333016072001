"""What was called and not awaited yet: to await it is to await its coroutine."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

import pytest

from interlock._drivers.unawaited import Unawaited

if TYPE_CHECKING:
    from collections.abc import Generator


@types.coroutine
def told(heard: list[object]) -> Generator[object, object, object]:
    """Say that this waits, and keep what comes."""
    try:
        heard.append((yield "waits"))
    except BaseException as error:
        heard.append(type(error))
        raise
    return heard


def called(heard: list[object]) -> Unawaited[object]:
    """Return what a method of the face returns."""

    async def work() -> object:
        return await told(heard)

    return Unawaited(work())


async def awaiting(unawaited: Unawaited[object]) -> object:
    """Await it."""
    return await unawaited


def test_it_is_stepped_as_its_coroutine() -> None:
    """What it waits for, what comes, and what it returns, pass through it."""
    heard: list[object] = []
    task = awaiting(called(heard))
    assert task.send(None) == "waits"
    with pytest.raises(StopIteration) as end:
        _ = task.send(None)
    assert end.value.value is heard
    assert heard == [None]


def test_errors_reach_its_coroutine() -> None:
    """A cancellation does, and so does the end of who awaits it."""
    heard: list[object] = []
    for end in ("throw", "close"):
        task = awaiting(called(heard))
        assert task.send(None) == "waits"
        if end == "close":
            task.close()
            continue
        with pytest.raises(asyncio.CancelledError):
            _ = task.throw(asyncio.CancelledError)
    assert heard == [asyncio.CancelledError, GeneratorExit]


def test_it_is_an_awaitable_of_its_class() -> None:
    """A task may step it."""
    unawaited = called([])
    assert isinstance(unawaited, Coroutine)
    assert unawaited.__name__ == "work"
    unawaited.close()

    async def number() -> int:
        return 7

    async def play() -> tuple[int, int]:
        task = asyncio.create_task(cast("Coroutine[Any, Any, int]", Unawaited(number())))
        return await task, await Unawaited(number())

    assert asyncio.run(play()) == (7, 7)


def test_it_is_not_true_once_it_was_awaited() -> None:
    """The result has a truth value, not what was awaited: to ask that again raises again."""

    async def play() -> None:
        awaited, dropped = called([]), called([])
        task = awaiting(awaited)
        assert task.send(None) == "waits"
        assert awaited  # while it is stepped: the `repr` of a task asks
        task.close()
        for unawaited in (awaited, dropped, dropped):
            with pytest.raises(TypeError, match="no truth value"):
                _ = bool(unawaited)

    asyncio.run(play())
