"""Operations of several clients at once: all are sent before any reply is read.

Each runs to its next command. Then all commands are sent by one `Gather`, and each operation goes on
with its reply. Operations clean up nothing (`Step.give_up` does that), so any of them may just end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import LATE, NEVER, Batch, Gather, Op, RunOn, Wait
from interlock._core.scripts.locks import Grant
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Effect, Eval
    from interlock._core.upkeep.session import Session

LINGER = 0.01
"""Seconds for which servers may still grant a lock after enough others have."""


def at_once(
    ops: Sequence[tuple[Session, Op[Any]]],
    seconds: float | None = None,
    needed: int | None = None,
) -> Op[list[Any]]:
    """Run *ops*, each for the client of its session.

    Args:
        ops: the operations.
        seconds: the time for each answer. A failure ends its operation then, unless it comes at
            once: the connection may have been a stale one.
        needed: how many grants decide. The replies that are later need not come; who failed at once
            has a second try at once.

    Returns:
        The outcome of each: its result, or the `InterlockError` that it raised.
    """
    runs = [_Run(session, op) for session, op in ops]
    for run in runs:
        run.go_on()
    clock = runs[0].session.clock if runs else None
    until = NEVER if seconds is None or clock is None else clock() + seconds
    while active := [run for run in runs if run.effect is not None]:
        missing = None if needed is None else needed - sum(run.granted for run in runs)
        decided = missing is not None and missing <= 0
        others = [run for run in active if not run.calls()]
        for run in others:
            hurried = decided and isinstance(run.effect, Wait)
            run.go_on(None if hurried else (yield from RunOn(run.session, _alone(run.effect))))
        if others:
            continue
        questions = tuple([(run.session, call) for run in active for call in run.calls()])
        enough = None if missing is None or decided else Enough(questions, missing)
        seconds = LINGER if decided else seconds
        replies = iter((yield from Gather(questions, enough, seconds)))
        late = clock is not None and clock() >= until
        for run in active:
            run.hear([next(replies) for _ in run.calls()], late=late, hasty=seconds is not None)
    return [run.result for run in runs]


def _alone(effect: Any) -> Op[Any]:
    return (yield effect)


class _Run:
    """One operation: where it stands, and its outcome.

    Attributes:
        session: its client's.
        effect: what it asks for; None if it has ended.
        result: its result, or its error.
    """

    __slots__ = ("_failed", "_op", "effect", "result", "session")

    def __init__(self, session: Session, op: Op[Any]) -> None:
        self.session, self._op = session, op
        self.effect: Effect | None = None
        self.result: Any = None
        self._failed = False

    @property
    def granted(self) -> bool:
        """Whether it has ended with something."""
        return not (self.effect or self.result is None or isinstance(self.result, Exception))

    def calls(self) -> Sequence[Eval[Any]]:
        """Return the commands that it asks for; none if it asks for something else."""
        effect: Any = self.effect
        if isinstance(effect, Batch):
            return effect.calls
        return () if isinstance(effect, (Wait, RunOn)) else (effect,)

    def hear(self, replies: list[Any], *, late: bool, hasty: bool) -> None:
        """Go on with *replies*; if it is *hasty*, a second failure ends it, or one that comes *late*."""
        for place, reply in enumerate(replies):
            if reply is LATE:
                replies[place] = ServerUnavailableError("enough others came before", sent=True)
        last = replies[-1]
        failed, self._failed = self._failed, isinstance(last, Exception)
        if isinstance(last, Exception) and hasty and (failed or late):
            self.effect, self.result = None, last
        elif isinstance(self.effect, Batch):
            self.go_on(replies)
        elif isinstance(last, Exception):
            self.go_on(failure=last)
        else:
            self.go_on(last)

    def go_on(self, reply: Any = None, failure: Exception | None = None) -> None:
        """Go on with *reply* or *failure* until the next effect, or the end."""
        self.effect = None
        try:
            self.effect = self._op.send(reply) if failure is None else self._op.throw(failure)
        except StopIteration as stop:
            self.result = stop.value
        except InterlockError as error:
            self.result = error


class Enough:
    """Counts the grants among the replies to *questions* as they come; *missing* of them decide."""

    __slots__ = ("_missing", "_questions")

    def __init__(self, questions: Sequence[tuple[Session, Eval[Any]]], missing: int) -> None:
        self._questions, self._missing = questions, missing

    def __call__(self, place: int, reply: object, took: float) -> float | None:
        """Take a reply; tell how long to wait for others, as long again as it *took*, once it decides."""
        if not isinstance(reply, Exception):
            with suppress(Exception):  # its operation tells of a reply that cannot be read
                answer = self._questions[place][1].script.decode(reply)
                self._missing -= isinstance(answer, Grant)
        return max(LINGER, took) if self._missing <= 0 else None
