"""Several operations of several clients in step.

What they ask their servers for is sent all at once.

Theory. The operations are generators, so they can stand still: each runs to its next question,
then all questions go out, then each goes on with its answer. They stay what they are; the
retries, the undoing and the state of each are its own.

Rules:

* Every operation begins, or hears of an interruption, before anything is sent: what it notes down
  first is noted for all.
* Only operations that do not queue up for messages: a place in a queue is taken back between two
  steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from interlock._core.effects import Eval, Gather, RunOn, ended, undoing
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Effect, Op, R, Step
    from interlock._core.session import Session

TRIES = 2
"""How often a script is sent to a server that fails at once.

The connection may have been a stale one.
"""


class _Run:
    """One of the operations: where it stands, and what it came to."""

    __slots__ = ("_call", "_op", "_tries", "effect", "interruption", "result", "session")

    def __init__(self, session: Session, op: Op[Any] | Step[Any]) -> None:
        self.session = session
        self.effect: Effect | None = None
        self.result: object = None
        self.interruption: BaseException | None = None
        self._op: Op[object] = iter(op)
        self._call: Eval[object] | None = None
        self._tries = 0

    def step(self, reply: object = None, error: BaseException | None = None) -> None:
        """Go on with *reply* or *error* until the next effect or the end."""
        self.effect = None
        try:
            self.effect = self._op.send(reply) if error is None else self._op.throw(error)
        except StopIteration as stop:
            self.result = stop.value
        except BaseException as raised:
            # What it was interrupted by goes on to the caller when all have come to their ends.
            if raised is not self.interruption and not isinstance(raised, InterlockError):
                raise
            self.result = raised

    def interrupt(self, error: BaseException) -> None:
        """Have the operation hear of *error* wherever it stands.

        Nobody may have noted its effect when a Ctrl-C struck.
        """
        self.interruption = error
        if not ended(self._op):
            self.step(error=error)

    def perform(self) -> Op[None]:
        """Perform the effect that is asked for."""
        assert self.effect is not None
        try:
            reply = yield self.effect
        except InterlockError as error:
            self.step(error=error)
        else:
            self.step(reply)

    def question(self, patience: float | None) -> tuple[Session, Eval[object]]:
        """Return the script that is asked for as it is to be sent."""
        call = self.effect
        assert isinstance(call, Eval)
        if call is not self._call:
            self._call, self._tries = call, 0
            if patience is not None:
                call.deadline = self.session.clock() + patience
                if call.replication is not None:
                    call.replication.timeout = min(call.replication.timeout, patience)
        self._tries += 1
        return self.session, call

    def failed(self, error: Exception, patience: float | None) -> None:
        """Go on with *error*, which the `question` came to."""
        if patience is not None and self._tries >= TRIES and self._call is not None:
            self._call.deadline = self.session.clock()
        self.step(error=error)


def lockstep(
    ops: Sequence[tuple[Session, Op[R] | Step[R]]], patience: float | None = None
) -> Op[list[R | InterlockError]]:
    """Run *ops*, each for the client of its session.

    Args:
        ops: the operations.
        patience: seconds that each script is given in place of its own deadline: no outage is sat
            out.

    Returns:
        What each came to: its result, or our error.

    Cost:
        The longest of their round trips, step by step.
    """
    runs = [_Run(session, op) for session, op in ops]
    yield from undoing(_run(runs, patience), _interrupt, runs)
    return [cast("R | InterlockError", run.result) for run in runs]


def _run(runs: Sequence[_Run], patience: float | None) -> Op[None]:
    for run in runs:
        run.step()
    yield from _go_on(runs, patience)


def _go_on(runs: Sequence[_Run], patience: float | None) -> Op[None]:
    while active := [run for run in runs if run.effect is not None]:
        others = [run for run in active if not isinstance(run.effect, Eval)]
        for run in others:
            yield from RunOn(run.session, run.perform())
        if others:
            continue
        # The operations decode for themselves: they are given the bare replies.
        questions = tuple([run.question(patience) for run in active])
        replies = cast("list[object]", (yield Gather(questions)))
        for run, reply in zip(active, replies, strict=True):
            if isinstance(reply, Exception):
                run.failed(reply, patience)
            else:
                run.step(reply)


def _interrupt(runs: Sequence[_Run], error: BaseException) -> Op[None]:
    """Have each operation that is not at its end hear of *error*, and do what it wants done then."""
    for run in runs:
        run.interrupt(error)
    yield from _go_on(runs, None)
