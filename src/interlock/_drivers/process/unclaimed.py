"""Entries of holds whose object the user did not keep.

Theory. A call of ``client.adopt(ticket)`` alone drops its `Hold` before the work begins. The work
must be protected all the same, so such an entry belongs to the thread or task that asked. It is
renewed while that lives, and a MisuseWarning tells how to write it.

Rules:

* A `Claim` belongs to the object that the user got. It ends with that object, so nothing is done
  for users who keep and release what they got.
* An entry is released when its thread or task ends. A permit is also released when that asks for one
  of the same name again, and the call that asked before has returned. The user is told of both.
* The frame of that call is known only if the object was dropped in it. Otherwise the call has
  returned before.
* A call has returned if nothing but its entry refers to its frame: Python refers to each frame that
  runs or may go on. A generator or a greenlet may go on while it is on no stack.
* A plain function has also returned if it is not on the stack of the owner that asks. A traceback
  may still refer to its frame.
* A frame keeps its variables alive, so a round of renewals drops those that have returned. Another
  thread frees the variables, because that may run user code.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from interlock._core.model.holds import HELD, LOST, Owner, numbers
from interlock._misuse import caller_frame, first_time
from interlock.errors import MisuseWarning

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from interlock._core.model.holds import Hold

D = TypeVar("D", bound="Driver")

_SUSPENDS = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR
"""Frames with one of these flags live on while they are on no stack."""
_REFERENCES = 2
"""References to a frame that has returned: of its entry, and of the call that counts them."""


class Driver(Protocol):
    """The part of a client's driver that a claim needs."""

    @property
    def unclaimed(self) -> Unclaimed:
        """Return the unclaimed entries of the client."""
        ...


class Entry:
    """A hold that one call got, and only its thread or task can end.

    Attributes:
        hold: the hold.
        frame: the frame that asked, if it may still run.
        write: how to write it.
    """

    __slots__ = ("frame", "hold", "write")

    def __init__(self, hold: Hold, frame: FrameType | None, write: str) -> None:
        self.hold = hold
        self.frame = frame
        self.write = write

    def returned(self) -> bool:
        """Return whether the frame that asked has surely returned."""
        return self.frame is None or sys.getrefcount(self.frame) <= _REFERENCES

    def may_run(self) -> bool:
        """Return whether the frame that asked may still run, when its owner asks again."""
        frame = self.frame
        if frame is None:
            return False
        if frame.f_code.co_flags & _SUSPENDS or _is_below(frame, caller_frame()):
            del frame  # it does not count
            return not self.returned()
        return False


class Unclaimed:
    """The unclaimed entries of one client.

    Args:
        caller: returns the running thread or task.

    Attributes:
        entries: by the lock's key and the owner's identity. Most programs have none.
    """

    def __init__(self, caller: Callable[[], Owner]) -> None:
        self._caller = caller
        self.entries: dict[tuple[object, int], list[Entry]] = {}

    def add(self, entry: Entry, owner: Owner | None) -> None:
        """Leave *entry* to *owner*; to the caller, if *owner* has ended."""
        hold = entry.hold
        if owner is None or owner.ended():
            try:
                owner = self._caller()
            except RuntimeError:
                return  # no task runs: the renewal thread releases it
        if hold.owner() is not owner:
            hold.belong_to(owner)
        self.entries.setdefault((hold.core.hold_key, owner.identity), []).append(entry)

    def take(self, key: object, owner: Owner) -> list[Entry]:
        """Return the entries of *owner* to release now: those whose frames have returned."""
        entries = self.entries.pop((key, owner.identity), [])
        over, kept = list[Entry](), list[Entry]()
        for entry in entries:
            state = entry.hold.state
            if state is LOST:
                over.append(entry)  # to release it tells of the loss
            elif state is HELD:
                (kept if entry.may_run() else over).append(entry)
        if kept:
            self.entries.setdefault((key, owner.identity), []).extend(kept)
        return over

    def of(self, reference: object) -> bool:
        """Return whether the owner that holds know by *reference* has entries."""
        lists = list(self.entries.values())
        return any(entry.hold.owner is reference for entries in lists for entry in entries)

    def sweep(self) -> list[FrameType | None]:
        """Forget the entries of holds that have ended, and frames that have returned.

        Return these frames.
        """
        frames: list[FrameType | None] = []
        for key, entries in list(self.entries.items()):
            for entry in list(entries):
                if not entry.hold.kept():
                    entries.remove(entry)
                    frames.append(entry.frame)
                elif entry.frame and entry.returned():
                    frames.append(entry.frame)
                    entry.frame = None
            if not entries:
                _ = self.entries.pop(key, None)
        return frames

    def after_fork(self) -> None:
        """Forget everything in a forked child, which holds nothing."""
        self.entries.clear()


class AnyClaim(Protocol):
    """What ends with the object that a user got for one entry of a hold."""

    over: bool
    """Whether the user has released the entry, or given it away."""


class _Claiming(Generic[D]):
    """What a claim does when the user drops the object that it belongs to.

    Attributes:
        driver: the client's.
        hold: the hold, which was entered.
        over: whether the user has released the entry, or given it away.
    """

    __slots__ = ()
    driver: D
    hold: Hold
    over: bool
    _caller: Callable[[], Owner | None]
    _code: CodeType
    _depth: int
    _frame: int
    _globals: dict[str, Any]
    _instruction: int
    _write: str

    def __del__(self) -> None:
        try:
            if self.over or sys.is_finalizing():
                return
        except AttributeError:  # a Ctrl-C struck in `__init__`
            return
        hold, frame = self.hold, caller_frame()
        # The user never got it if a Ctrl-C struck in a function of ours.
        ours = frame is not sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        if self._depth == 1 and (ours or hold.state is LOST):
            hold.disown()
        if ours or hold.renewal is None or hold.state is not HELD or hold.depth < self._depth:
            return
        asked = id(frame) == self._frame and frame.f_code is self._code
        entry = Entry(hold, frame if asked else None, self._write)
        self.driver.unclaimed.add(entry, self._caller())
        self._warn()

    def _warn(self) -> None:
        """Tell how to write it, once for each line of a client."""
        filename, line = self._code.co_filename, _line(self._code, self._instruction)
        if first_time(self.driver, f"unclaimed at {filename}:{line}"):
            hold = self.hold
            warnings.warn_explicit(
                f"the hold of {hold.core.kind} {hold.name!r} was not kept, so {hold.label} keeps "
                f"the {hold.core.kind} until that ends; write `{self._write}`",
                MisuseWarning,
                filename,
                line,
                str(self._globals.get("__name__", "")),
                self._globals.setdefault("__warningregistry__", {}),
            )


_SLOTS = (
    *("_caller", "_code", "_frame", "_globals", "_instruction", "_write"),
    *("driver", "hold", "over"),
)


class Claim(_Claiming["Driver"]):
    """What ends with the object that a user got for one entry of *hold*.

    Args:
        driver: the client's.
        hold: the hold, just entered.
        caller: the thread or task that asked.
        write: how to write it.
    """

    __slots__ = (*_SLOTS, "__weakref__", "_depth")

    def __init__(self, driver: Driver, hold: Hold, caller: Owner, write: str) -> None:
        self.driver = driver
        self.hold = hold
        self._caller = caller.reference
        self._write = write
        self._depth = hold.depth
        # Not the frame itself: it refers to the object that this claim belongs to.
        frame = caller_frame()
        self._frame = id(frame)
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self._globals = frame.f_globals
        hold.hand(weakref.ref(self), alone=False)
        self.over = False


class PermitClaim(Owner, _Claiming[D]):
    """The owner of a permit, and what ends with the object that the user got for it.

    Each permit is a hold of its own. Its owner is made before it is asked for, in a method that the
    user has called, and lives as long as the user's object. The claim begins when it has a hold and
    is not over.

    Args:
        driver: the client's.
        caller: the thread or task that asks.
        write: how to write it.
    """

    __slots__ = _SLOTS
    _depth = 1

    def __init__(self, driver: D, caller: Owner, write: str) -> None:
        self.over = True
        # The constructor of `Owner` inlined: each acquire runs this.
        self.identity = self.number = next(numbers)
        self.label, self.known_as, self._ended = caller.label, None, None
        self.reference = weakref.ref(self)
        self.driver = driver
        self._caller = caller.reference
        self._write = write
        frame = caller_frame(3)
        self._frame = id(frame)
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self._globals = frame.f_globals


def _line(code: CodeType, instruction: int) -> int:
    """Return the line of the byte *instruction* of *code*."""
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno


def _is_below(frame: FrameType, top: FrameType | None) -> bool:
    """Return whether *frame* is on the stack that ends with *top*."""
    while top is not None and top is not frame:
        top = top.f_back
    return top is frame
