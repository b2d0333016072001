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
    effects: list[Any] = [None for _ in ops]  # what each asks for; None if it has ended
    outcomes: list[Any] = [None for _ in ops]

    def go_on(place: int, reply: Any = None) -> None:
        effects[place], outcomes[place] = _after(ops[place][1], reply, outcomes[place])

    for place in range(len(ops)):
        go_on(place)
    while active := [place for place, effect in enumerate(effects) if effect is not None]:
        if len(active) <= spare and all(isinstance(outcomes[each], Exception) for each in active):
            break
        paused = [each for each in active if isinstance(effects[each], Wait)]
        for each in paused:
            yield effects[each]
            go_on(each)
        if not paused:
            calls = [(ops[each][0], effects[each]) for each in active]
            replies = yield from Gather(calls, None, seconds)
            for each, reply in zip(active, replies, strict=True):
                go_on(each, reply)
    return outcomes


def _after(op: Op[Any], reply: Any, former: Any) -> tuple[Effect | None, Any]:
    """Go on with *op* after *reply*, which may be an error, until its next effect, or its end.

    Return that effect, and the result or error, or how the last command has failed: *former* till now.
    """
    try:
        if isinstance(reply, Exception):
            return op.throw(reply), reply
        return op.send(reply), former
    except StopIteration as stop:
        return None, stop.value
    except InterlockError as error:
        return None, error


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
