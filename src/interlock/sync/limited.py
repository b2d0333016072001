# Generated from interlock/asyncio/limited.py by tools/make_sync.py; change that file.
"""At most n at once: a limit that all processes share."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from interlock._drivers.block import ByHand, entered
from interlock._drivers.blocking_block import caller, exits
from interlock._hints import hints
from interlock._naming import check_function, checked_result, fixed_name, naming
from interlock._traceback import shorten
from interlock.errors import NotHeldError
from interlock.options import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._drivers.block import Block
    from interlock.options import Duration
    from interlock.sync.leased_semaphore import LeasedSemaphore, Permit

P = ParamSpec("P")
R = TypeVar("R")


@hints("client.limited(name, n)")
class Limited:
    """Lets at most *n* blocks or calls run at once, in all processes together.

    Made by `Client.limited`. Any number of threads may use one object, and a block may be left by
    another thread. Each block gets a `Permit` of its own. A thread that enters twice takes two.
    """

    __slots__ = (
        "__weakref__",
        "_by_hand",
        "_lease",
        "_make",
        "_semaphore",
        "_template",
        "_timeout",
    )

    def __init__(
        self,
        _template: str,
        _make: Callable[[str], LeasedSemaphore],
        _timeout: Duration | None,
        _lease: Duration | None,
    ) -> None:
        self._template = _template
        self._make = _make
        _ = check_timeout(blocking=True, timeout=_timeout)
        self._timeout = _timeout
        self._lease = _lease
        self._semaphore: LeasedSemaphore | None = None
        self._by_hand: ByHand[Permit] = ByHand()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._template!r}>"

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Return *function* with each call taking a permit of what its arguments name.

        Raises:
            TypeError: not a function for this face, or a generator function.
            ConfigError: the name has a field that is not a parameter of *function*.
        """
        check_function(function)
        name_of, make = naming(self._template, function), self._make

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            limit = Limited(self._template, make, self._timeout, self._lease)
            limit._semaphore = make(name_of(args, kwargs))
            with limit:
                return checked_result(function(*args, **kwargs), function)

        return call

    def acquire(self, timeout: Duration | None = None) -> Permit:
        """Take a permit; release it from any thread, or leave its ``with`` block.

        Raises:
            AcquireTimeoutError: none became free in *timeout* seconds, or the object's own.

        Cost:
            One round trip when one is free. The first acquire of a client costs one more, and two
            more if it changes the number.
        """
        limit = self._timeout if timeout is None else timeout
        return self._named().acquire(1, limit, self._lease)

    def set_permits(self, n: int) -> None:
        """Change the number to *n*, for all processes; one round trip.

        Nobody is stopped. If more than *n* run, nobody starts until enough of them have ended. A
        process that starts later sets the number of its own code again.
        """
        self._named().set_permits(n)

    def available(self) -> int:
        """Return how many more could start now; below 0 while too many run; one round trip."""
        return self._named().available_permits()

    def running(self) -> int:
        """Return how many run, in all processes; one round trip.

        A place that a release has given to a waiter counts, too.
        """
        return self._named().acquired_permits()

    def __enter__(self) -> Permit:
        block = entered(self)

        def keep(permit: Permit) -> None:
            if block is None:
                self._by_hand.enter(caller(), permit)
            else:
                permit._keep_for(block)
                block.got = permit

        try:
            return self._named()._take(self._timeout, self._lease, keep)
        except BaseException as error:
            shorten(error)
            raise

    __exit__ = exits()

    def _leave(self, block: Block, raised: BaseException | None) -> None:
        """Give back what *block* acquired, in any thread that leaves it."""
        permit: Permit | None = self._by_hand.leave(caller()) if block.got is None else block.got
        if permit is None:
            raise NotHeldError(f"no block of {self!r} is open", name=self._template)
        block.got = None  # it may refer to the block
        permit._leave(block, raised)

    def _named(self) -> LeasedSemaphore:
        if self._semaphore is None:
            self._semaphore = self._make(fixed_name(self._template))
        return self._semaphore
