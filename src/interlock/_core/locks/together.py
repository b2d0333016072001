"""Operations of several clients at once: all commands are sent before any reply is read.

Each runs to its next command. Then all commands are sent by one `Gather`, and each operation goes on
with its reply. Operations clean up nothing (`Step.give_up` does that), so any of them may just end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import Gather, Op, Wait
from interlock._core.scripts.replies import is_grant
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Effect, Eval
    from interlock._core.upkeep.session import Session

LINGER = 0.01
"""Seconds for which servers may still grant a lock after enough others have."""


def at_once(
    ops: Sequence[tuple[Session, Op[Any]]], seconds: float | None = None, spare: int = 0
) -> Op[list[Any]]:
    """Run *ops*, each for the client of its session; they send scripts, and pause.

    Args:
        ops: the operations.
        seconds: the time for each answer; None: as each call says.
        spare: how many of them nobody waits for any more once they have failed and the others are
            complete. The rest go on as long as they would alone.

    Returns:
        The outcome of each: its result, or the `InterlockError` that it raised.
    """
    runs = [_Run(session, op) for session, op in ops]
    for run in runs:
        run.go_on()
    while active := [run for run in runs if run.effect is not None]:
        if len(active) <= spare and all(isinstance(run.outcome, Exception) for run in active):
            break
        paused = [(run, run.effect) for run in active if isinstance(run.effect, Wait)]
        for run, pause in paused:
            yield pause
            run.go_on()
        if not paused:
            calls: Any = [(run.session, run.effect) for run in active]
            replies = yield from Gather(calls, None, seconds)
            for run, reply in zip(active, replies, strict=True):
                run.go_on(reply)
    return [run.outcome for run in runs]


class _Run:
    """One operation.

    Attributes:
        session: its client's.
        effect: what it asks for; None if it has ended.
        outcome: its result or its error, or how its last command has failed.
    """

    __slots__ = ("_op", "effect", "outcome", "session")

    def __init__(self, session: Session, op: Op[Any]) -> None:
        self.session, self._op = session, op
        self.effect: Effect | None = None
        self.outcome: Any = None

    def go_on(self, reply: Any = None) -> None:
        """Go on with *reply*, which may be an error, until the next effect, or the end."""
        self.effect = None
        try:
            if isinstance(reply, Exception):
                self.outcome = reply
                self.effect = self._op.throw(reply)
            else:
                self.effect = self._op.send(reply)
        except StopIteration as stop:
            self.outcome = stop.value
        except InterlockError as error:
            self.outcome = error


class Enough:
    """Counts the grants among the replies to *calls* as they come; *missing* of them decide."""

    __slots__ = ("_calls", "missing")

    def __init__(self, calls: Sequence[Eval[Any]], missing: int) -> None:
        self._calls, self.missing = calls, missing

    def __call__(self, place: int, reply: object, took: float) -> float | None:
        """Take a reply; tell how long to wait for others, as long again as it *took*, once it decides."""
        if not isinstance(reply, Exception):
            with suppress(Exception):  # whoever asks tells of a reply that cannot be read
                self.missing -= is_grant(self._calls[place].script.decode(reply))
        return max(LINGER, took) if self.missing <= 0 else None
