"""The torture run in its short form, and the judge of it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.interop.agent import Agent, AgentError, Answer
from tests.interop.intervals import History, Need, Span
from tests.interop.shared import Slot
from tests.interop.toil import Toil
from tests.interop.torture import Torture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(240)
def test_nothing_is_given_out_twice_or_lost(need_java: None, tmp_path: Path) -> None:
    """Ten seconds of everything at once, with pauses and kills, leave no fault.

    ``python -m tests.interop.torture`` does more.
    """
    torture = Torture(seed=1, seconds=10, logs=tmp_path)
    assert torture.run() == []
    assert sum(torture.done[f"{language} lock got"] for language in ("java", "sync", "asyncio"))


def test_the_judge_sees_what_was_given_out_twice() -> None:
    """Holds that overlap beyond the capacity are a fault; holds that touch are none."""
    history = History("lock")
    history.certain += [Span("a", 1, 1.0, 2.0), Span("b", 1, 2.0, 3.0)]
    assert history.faults() == []
    history.certain.append(Span("c", 1, 2.5, 4.0))
    assert len(history.faults()) == 1
    shared = History("semaphore", 3, certain=[Span("a", 2, 1.0, 3.0), Span("b", 1, 2.0, 4.0)])
    assert shared.faults() == []
    shared.certain.append(Span("c", 1, 2.9, 5.0))
    assert len(shared.faults()) == 1


def test_the_judge_sees_who_waits_before_an_open_door() -> None:
    """A wait is a fault only if there was room for longer than the waiter's patience."""
    history = History("lock", possible=[Span("a", 1, 0.0, 5.0), Span("b", 1, 6.0, 20.0)])
    history.waits.append(Need("c", 1, 1.0, 10.0, patience=2.0))
    assert history.faults() == []
    history.waits.append(Need("c", 1, 1.0, 24.0, patience=2.0))
    (fault,) = history.faults()
    assert "free for 4.00 s from 20.000" in fault
    shared = History("semaphore", 3, possible=[Span("a", 2, 0.0, 9.0)])
    shared.waits.append(Need("b", 2, 0.0, 9.0, patience=1.0))
    assert shared.faults() == []
    shared.waits.append(Need("b", 1, 0.0, 9.0, patience=1.0))
    assert len(shared.faults()) == 1


class Script:
    """Stands for an agent that answers what it is told to, and writes down what it was asked."""

    def __init__(self, *answers: bool | AgentError) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    def start(self, _thread: str, do: str, **_rest: Any) -> Future[Answer]:
        """Answer at once."""
        self.asked.append(do)
        answer = self._answers.pop(0)
        future: Future[Answer] = Future()
        if isinstance(answer, AgentError):
            future.set_exception(answer)
        else:
            now = time.monotonic()
            future.set_result(Answer(answer, now, now, 1))
        return future


def test_nobody_keeps_a_lock_after_an_error() -> None:
    """If a re-entry fails, what is left is released: its process would renew it for ever."""
    lost, over = AgentError("ServerUnavailableError", ""), AgentError("NotHeldError", "")
    script = Script(True, lost, True, over)
    slot = Slot("sync", lambda: cast("Agent", script))
    Toil()._use(slot, 0, "plain", 0, None, 0, 2)
    assert script.asked == ["acquire", "acquire", "release", "release"]


def test_a_frozen_process_may_have_what_it_has_not_told() -> None:
    """An acquire whose answer came after a pause counts as a hold from its beginning."""
    script = Script(True, True)
    slot = Slot("java", lambda: cast("Agent", script))
    toil, began = Toil(), time.monotonic()
    slot.pauses.append((began, began + 60))
    toil._use(slot, 0, "plain", 0, None, 0, 1)
    (span,) = toil._histories["plain"].possible
    assert span.start > began
