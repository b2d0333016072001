"""The steps of a face after an operation has failed, over any driver that is awaited.

A block that cannot begin gives back what was acquired for it. If the release at its end fails, the
body's own exception goes on, and is told. A release that is refused names the holder. Each rule
stands here once; the faces only call it.

tools/make_sync.py makes `blocking` from this file.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from interlock._core.locks.known_lock import name_holder
from interlock._core.locks.lock_base import DelayingRelease
from interlock._misuse import warn
from interlock.errors import InterlockError, MisuseWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.locks.composite import CompositeLock
    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Step
    from interlock._core.model.holds import AnyHold, Owner
    from interlock._core.objects.leased_semaphore import LeasedSemaphore
    from interlock._drivers.awaited_block import Block
    from interlock._drivers.protocol import AwaitedDriver
    from interlock.errors import NotHeldError

H = TypeVar("H", bound="AnyHold")
K = TypeVar("K")


def go_on(error: BaseException | None, trouble: InterlockError, *, own: bool = False) -> None:
    """Raise *trouble*; if the body of the block has raised *error*, only note *trouble* in that.

    Args:
        error: ends the block; None if nothing does.
        trouble: what went wrong when the block was left.
        own: whether *error* is a cancellation of our own, in place of which *trouble* is raised.
    """
    if error is None or own:
        raise trouble from error
    error.add_note(f"interlock: {trouble}")


async def acquire_for(
    driver: AwaitedDriver,
    step: Step[H | None],
    keep: Callable[[H], K],
    block: Block | None = None,
    name: str = "",
) -> K | None:
    """Perform *step*, and give what it acquired to *keep*, which returns what the user gets.

    If the caller is interrupted before it has that, nothing stays acquired.

    Args:
        driver: the client's.
        step: acquires.
        keep: takes the hold.
        block: finishes what is left if nothing leaves it; None if there is no block.
        name: what is acquired.

    Returns:
        What *keep* returned, or None if nothing was acquired.
    """
    hold = None
    try:
        if block is not None:
            block.begin(driver, name, step.unfinished)
        hold = await driver.perform(step)
        return None if hold is None else keep(hold)
    except BaseException as error:
        await _undo(driver, step, hold, error)
        raise


async def _undo(
    driver: AwaitedDriver, step: Step[Any], hold: AnyHold | None, error: BaseException
) -> None:
    """Give back what *step* acquired for a block that *error* keeps from beginning.

    If a Ctrl-C struck between two steps, *hold* is not known: the step alone knows.
    """
    try:
        if hold is not None:
            await _give_back(driver, hold.release())
        elif not isinstance(error, Exception):
            try:
                await driver.undo(step, error)
            except BaseException as another:
                await driver.undo(step, another)  # and a second one in this
                raise
    finally:
        del error  # it refers to this frame


async def _give_back(driver: AwaitedDriver, release: Step[None]) -> None:
    """Perform *release*, whatever strikes meanwhile."""
    try:
        await driver.perform(release)
    except BaseException as error:
        await driver.undo(release, error)
        raise


async def tell_holder(
    driver: AwaitedDriver, core: LockBase | CompositeLock, error: NotHeldError
) -> None:
    """Name in *error* who holds *core*, if the server tells at once."""
    with suppress(InterlockError):
        holder = (await driver.run(core.refusal(0))).holder
        name_holder(error, holder, driver.session)


async def release_unclaimed(
    driver: AwaitedDriver, core: LockBase | LeasedSemaphore, owner: Owner, limit: float
) -> None:
    """Release what *owner* acquired of *core*, did not keep, and cannot rely on any more.

    A warning tells of each. If the server does not answer within *limit* seconds, or the time of
    one round trip, the background goes on.
    """
    deadline = driver.session.clock() + limit
    for entry in driver.unclaimed.take(core.hold_key, owner):
        rest = "it is released now"
        try:
            step = DelayingRelease(driver.session, entry.hold, entry.count, deadline)
            await driver.perform(step)
        except InterlockError as error:
            rest = f"it cannot be released: {error}"
        warn(
            f"{core.kind} {core.name!r} was never released by {owner.label}, which asks for it "
            f"again: {rest}. Write `{entry.write}`",
            MisuseWarning,
        )
