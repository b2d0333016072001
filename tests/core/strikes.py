"""Strikes at calls, by a trace function that raises at one opcode, as a signal's handler would."""

from __future__ import annotations

import dis
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SPARED = {
    dis.opmap[name]
    for name in ("NOP", "RETURN_VALUE", "PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "RERAISE")
}
"""Opcodes before which Python handles no signal. An error there would upset what ``raise`` raises."""


class Struck(BaseException):
    """A signal."""


def strike(call: Callable[[], object], at: int) -> bool:
    """Raise in *call* at the opcode *at* of ours; return whether there were that many."""
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        file = frame.f_code.co_filename
        # Python drops what is raised in a finalizer, or in the callback of a weak reference: the end
        # of an owner.
        if "interlock/_" not in file or file.endswith("process/lifecycle.py") or _finalizes(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] not in SPARED:
            seen += 1
            if seen == at:
                raise Struck
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Struck:
        if seen < at:
            raise
    finally:
        sys.settrace(former)
    return seen >= at


def _finalizes(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def struck_again(at: int, *steps: Any) -> ExitStack:
    """Return a context in which a strike at one of *steps* strikes its `give_up` as well.

    That is at the opcode *at*, if it is not 0.
    """
    stack, left = ExitStack(), [at] if at else []
    for step in steps:

        def struck(self: Any, give_up: Any = step.give_up) -> None:
            if not (left and isinstance(sys.exception(), Struck)):
                give_up(self)
            elif strike(lambda: give_up(self), left.pop()):
                raise Struck

        stack.enter_context(mock.patch.object(step, "give_up", struck))
    return stack
