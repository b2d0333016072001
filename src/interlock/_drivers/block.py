"""Blocks: what each has acquired, whoever leaves it.

Frameworks enter and leave a block in different threads or tasks. An example is a fixture that yields
inside it, or an exit stack that is closed elsewhere. So the block must know who acquired. Python
looks ``__exit__`` up before it calls ``__enter__``, and keeps what it found until the block is
left; an exit stack does the same. Each look-up makes a new `Block`. Nothing is guessed from threads,
tasks or frames, and a block that exists is a block that is still open.

A call of ``__enter__`` by hand has looked no ``__exit__`` up, so it began no block. A `ByHand` keeps
what it acquired, until ``__exit__`` is called by hand.

All of this is said of ``__aenter__`` and ``__aexit__``, too.

Source: the language reference, "The with statement": ``__exit__`` is loaded before ``__enter__`` is
invoked.
"""

# What is entered shares what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock._core.model.hold import Claim
from interlock._drivers.process.thread_local import for_each

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E")


_here: Callable[[], dict[str, Claim]] = for_each(dict)
"""Return the claim of the block that the calling thread looked up last, unless that was entered."""


class Block:
    """One block. Python keeps its end, which it has looked up, while the block is open.

    The end has the block, and so has the call of the end, until that is over: a coroutine begins
    only after Python has dropped what made it.

    Attributes:
        lock: what is entered; None when the look-up was made on the class, as exit stacks do.
        claim: a weak reference to this block; None once it is left.
        entered: whether it was entered.
    """

    __slots__ = ("__weakref__", "claim", "entered", "lock")

    def __init__(self, lock: Any) -> None:
        self.lock, self.entered = lock, False
        self.claim: Claim | None = None


def bury(claim: Claim) -> None:
    """Tell the client of a dead *claim*: ``__exit__`` was looked up in the class."""
    hold = getattr(claim, "hold", None)  # a signal may strike before it has one
    if hold is not None:
        hold.lock.session.wake(claim)


class Exit:
    """The ``__exit__`` of what is entered: each look-up begins a new block.

    If Python drops the block without a release, its `Claim` hears it.

    Args:
        leave: leaves the block that is its first argument.
    """

    def __init__(self, leave: Callable[..., Any]) -> None:
        self._leave = leave

    def __get__(self, lock: Any, kind: object = None) -> Any:
        """Return the end of a new block."""
        block = Block(lock)
        inbox = bury if lock is None else lock._put
        claim = block.claim = Claim(block, inbox)
        claim.hold = None
        _here()["newest"] = claim
        return partial(self._leave, block)


class ExitOfLock(Exit):
    """The ``__exit__`` of a condition: its lock's."""

    def __get__(self, condition: Any, kind: object = None) -> Any:
        """Return the end of a new block of the lock."""
        return super().__get__(None if condition is None else condition.lock, kind)


def struck(block: Block, *_: Any) -> None:
    """Carry the end of *block* through, if anything was raised before it could begin."""
    claim = block.claim
    if claim is not None and claim.hold is not None and claim in claim.hold.entries:
        claim.hold.release(claim).give_up()


def entered(lock: object) -> Claim | None:
    """Return the claim of the block that the running ``__enter__`` is for; None if by hand."""
    claim = _here().pop("newest", None)
    block: Block | None = None if claim is None else claim()
    if block is None:
        return None
    if block.entered or (block.lock is not lock and block.lock is not None):
        return None
    block.entered = True
    return claim


class Kept:
    """Lives as long as the object of permits that were taken by hand: see `Job`."""

    __slots__ = ("__weakref__",)


class ByHand(Generic[E]):
    """What calls of ``__enter__`` by hand have acquired, until ``__exit__`` is called by hand."""

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: list[tuple[int, E]] = []

    def enter(self, who: int, got: E) -> None:
        """Note that *who* has entered, and *got* something by that."""
        self._entered.append((who, got))

    def leave(self, who: int, *, others: bool = True) -> E | None:
        """Return what *who* has entered last, and forget it.

        One who leaves must not release what another one has. But if *who* has entered nothing,
        somebody else may have, as in a fixture. Then it is what was entered last, if *others* may.
        """
        mine = [each for each in self._entered if each[0] == who]
        chosen = mine or (self._entered if others else [])
        if not chosen:
            return None
        last = chosen[-1]
        self._entered.remove(last)
        return last[1]

    def forget(self, ended: Callable[[E], bool]) -> None:
        """Forget all that *ended* returns True for."""
        self._entered = [each for each in self._entered if not ended(each[1])]


def is_over(hold: Any) -> bool:
    """Return whether *hold* need not be left any more, or is None."""
    return hold is None or not hold.latest().kept()
