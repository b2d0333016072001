"""One ``with`` or ``async with`` statement, which releases what it acquired wherever it is left.

Theory. Frameworks enter and leave a block in different threads or tasks. An example is a fixture
that yields inside it, or an exit stack that is closed elsewhere. So the block must know who
acquired. Python looks ``__exit__`` up before it calls ``__enter__``, and keeps what it found until
the block is left; an exit stack does the same. Each look-up makes a new `Block`, and ``__enter__``
notes its owner there. Nothing is guessed from threads, tasks or frames, and a block that exists is
a block that is still open. All of this holds for ``__aexit__`` and ``__aenter__``, too.

A caller of ``__enter__`` by hand has looked nothing up. Then a `ByHand` keeps the object that was
acquired, until ``__exit__`` is called by hand.

`awaited_block` and `blocking_block` have what is looked up.

Source: the language reference, "The with statement": ``__exit__`` is loaded before ``__enter__`` is
invoked.
"""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast

from interlock._drivers.process.thread_local import for_each
from interlock._traceback import shorten
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Step
    from interlock._core.model.holds import Owner
    from interlock._drivers.protocol import AwaitedDriver, BlockingDriver


E = TypeVar("E")


class Entered(Protocol):
    """A lock, as its blocks see it."""

    def _leave(self, block: Block, raised: BaseException | None) -> object:
        """Release what *block* acquired; *raised* ends it."""
        ...


class _LookedUp:
    """The block that one thread looked up last, unless it has been entered."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest: Callable[[], object] | None = None


here: Callable[[], _LookedUp] = for_each(_LookedUp)
"""Return what the calling thread looked up."""


class Block:
    """One block.

    Attributes:
        lock: what is entered; None when the look-up was made on the class, as exit stacks do.
        owner: who entered; None for an object without owners.
        entered: whether it was entered.
        got: what it acquired.
        over: whether nothing is left to release: its user has released it inside, or given it away.
        handle: a weak reference to an object that lives until the block is left.
        hears: hears when that object is gone; None from when the block is left.
        driver: the client's that acquires for it.
        name: what that acquires is called.
        left: returns the step that undoes what it acquired, or carries its release through; or
            None. None if nothing is left.
        step: what *left* returned, if it was asked.
    """

    __slots__ = (
        "__weakref__", "driver", "entered", "got", "handle", "hears", "left", "lock", "name",
        "over", "owner", "step",
    )  # fmt: skip
    driver: AwaitedDriver | BlockingDriver
    name: str

    lock: Entered | None
    owner: Owner | None
    got: Any
    handle: Callable[[], object]
    hears: object
    step: Step[Any] | None
    left: Callable[[], Step[Any] | None] | None
    entered: bool
    over: bool

    def of(self, lock: Entered | None) -> Self:
        """Begin with *lock*; return this block.

        This is not ``__init__``, because a call of that costs as much as the object.
        """
        self.lock = lock
        self.entered = self.over = False
        self.owner = self.got = self.hears = self.step = self.left = None
        self.handle = weakref.ref(self)
        return self

    def begin(
        self,
        driver: AwaitedDriver | BlockingDriver,
        name: str,
        left: Callable[[], Step[Any] | None],
    ) -> None:
        """Finish what is *left* if nothing leaves this block; before *name* is acquired."""
        self.driver, self.name, self.left = driver, name, left

    def __repr__(self) -> str:
        return "<a block>" if self.lock is None else f"<a block of {self.lock!r}>"


def leave(block: Block, *args: Any) -> Any:
    """Leave *block*; as a method of the class it is given the lock, too."""
    lock: Entered = args[0] if block.lock is None else block.lock
    try:
        left = lock._leave(block, args[-2])
    except InterlockError as error:
        shorten(error)
        raise
    block.hears = None
    return left


def entered(lock: Entered) -> Block | None:
    """Return the block that the running ``__enter__`` of *lock* is for; None if called by hand."""
    looked_up = here()
    newest = looked_up.newest
    if newest is None:
        return None
    looked_up.newest = None
    block: Any = newest()
    if block is None or block.entered or (block.lock is not None and block.lock is not lock):
        return None
    block.entered = True
    return cast("Block", block)


def give_away(handles: Sequence[Callable[[], object]]) -> None:
    """Note that the blocks of *handles* are not to release what they acquired."""
    for handle in handles:
        kept = handle()
        block: object = kept.args[0] if isinstance(kept, partial) else kept
        if isinstance(block, Block):
            block.over = True


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
