"""What many cases begin with, and questions that they ask."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.objects.kinds import EXCLUSIVE, KINDS
from tests.objects.stage import Stage
from tests.objects.worlds import Actor
from tests.support.patience import wait_until

from interlock import HoldLostError, MisuseWarning

SOON = {"lease": 3}
"""Options of a client that renews each second, and so hears soon of a loss."""
PROMPT = 1.5
"""Seconds within which who is woken by a message goes on, on a busy machine."""


def of_kinds(wanted: Callable[[Any], bool]) -> pytest.MarkDecorator:
    """Return the mark of a test of those lock-likes alone."""
    chosen = [kind for kind in KINDS if wanted(kind)]
    return pytest.mark.parametrize("kind", chosen, ids=lambda kind: kind.name)


exclusive = of_kinds(lambda kind: kind in EXCLUSIVE)
reentrant = of_kinds(lambda kind: kind.reentrant)


@contextlib.contextmanager
def warned(word: str, count: int = 1) -> Iterator[None]:
    """Check that *count* times somebody is warned of *word*, in the block or soon after."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield

        def told() -> bool:
            found = [each for each in caught if issubclass(each.category, MisuseWarning)]
            return len([each for each in found if word in str(each.message)]) >= count

        wait_until(told, 10, f"{count} warnings of {word}")


def two(stage: Stage, *, same_client: bool = False, **options: Any) -> tuple[Any, Any]:
    """Return two lock objects of one name, of the same client or of two."""
    ours = stage.clients(**options)
    theirs = ours if same_client else stage.clients(**options)
    return stage.lock(*ours), stage.lock(*theirs)


def held(owner: Actor, lock: Any, **options: Any) -> Any:
    """Let *owner* acquire *lock* by hand; return its hold."""
    assert owner.do(lock.acquire, **options)
    return owner.do(lambda: lock.hold)


def lost(stage: Stage, hold: Any) -> None:
    """Let an operator free the lock, and wait until its holder is told."""
    assert stage.actor().do(stage.lock().force_release)
    wait_until(hold.lost.is_set, 10, "the holder is told")


def freed(stage: Stage) -> None:
    """Wait until nothing is left of the lock: a reader's entry may end with its lease."""
    wait_until(lambda: not stage.left(), 5, "nothing is left")


def loss_of(hold: Any) -> str:
    """Return what is said of the loss of *hold*; nothing while it lasts."""
    try:
        hold.ensure()
    except HoldLostError as error:
        return str(error)
    return ""


def renewed(hold: Any) -> None:
    """Wait until *hold* is renewed from now on: only then its end moves."""
    end = time.monotonic() + hold.remaining
    wait_until(lambda: time.monotonic() + hold.remaining > end + 0.3, 10, "it is renewed")
