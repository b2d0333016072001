"""Several operations of several clients side by side, as far as their first look at a server goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from interlock._core.effects import Ask, Away, Eval, undoing
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Effect, Op, R
    from interlock._core.session import Session


class _Run:
    """One of the operations: where it stands, and what it came to."""

    def __init__(self, session: Session, op: Op[object]) -> None:
        self.session = session
        self.op = op
        self.effect: Effect | None = None
        self.result: object = None

    def step(self, reply: object = None, error: BaseException | None = None) -> None:
        """Go on with *reply* or *error* until the next effect or the end."""
        self.effect = None
        try:
            self.effect = self.op.send(reply) if error is None else self.op.throw(error)
        except StopIteration as stop:
            self.result = stop.value
        except InterlockError as failure:
            self.result = failure

    def rest(self) -> Op[None]:
        """Perform what is left."""
        while self.effect is not None:
            try:
                reply = yield self.effect
            except InterlockError as error:
                failure: BaseException | None = error
                reply = None
            else:
                failure = None
            self.step(reply, failure)


def together(ops: Sequence[tuple[Session, Op[R]]]) -> Op[list[R | InterlockError]]:
    """Run *ops*, each for the client of its session; the scripts that they ask for first are sent all at once.

    Returns:
        What each came to: its result, or our error.

    Cost:
        The longest of their first round trips; what an operation needs besides comes after that, one by one.
    """
    runs = [_Run(session, op) for session, op in ops]
    for run in runs:
        run.step()
    yield from undoing(_perform(runs), _interrupt, runs)
    return [cast("R | InterlockError", run.result) for run in runs]


def _perform(runs: list[_Run]) -> Op[None]:
    asking = [run for run in runs if isinstance(run.effect, Eval)]
    calls = tuple((run.session, cast("Eval[object]", run.effect)) for run in asking)
    # The operations decode for themselves: they are given the bare replies.
    replies = cast("list[object]", (yield Ask(calls))) if calls else []
    for run, reply in zip(asking, replies, strict=True):
        if isinstance(reply, Exception):
            run.step(error=reply)
        else:
            run.step(reply)
    for run in runs:
        if run.effect is not None:
            yield from Away(run.session, run.rest())


def _interrupt(runs: list[_Run], error: BaseException) -> Op[None]:
    """Have each operation that is not at its end hear of *error* and do what it wants done then."""
    for run in runs:
        if run.effect is None:
            continue
        try:
            run.step(error=error)
        except BaseException as again:  # noqa: BLE001 - it raises what it was interrupted by, which goes on to the caller
            del again
            continue
        yield from Away(run.session, run.rest())
