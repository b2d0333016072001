# Generated from interlock/_drivers/awaited.py by tools/make_sync.py; change that file.
"""What a face does when something fails, over any driver that blocks.

A block that cannot begin gives back what was acquired for it. If the release at its end fails, the
body's own exception goes on, and is told. A release that is refused names the holder. Each rule
stands here once. The faces call it, and have no ``try`` of their own.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from interlock._core.locks.known_lock import name_holder, tell_of_fork
from interlock._core.locks.lock_base import DelayingRelease
from interlock._core.locks.ticket import over
from interlock._drivers.background.log import log_unreachable
from interlock._drivers.threads import finish_later, whole
from interlock._misuse import warn
from interlock._traceback import shorten
from interlock.errors import InterlockError, NotHeldError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from interlock._core.locks.composite import CompositeLock
    from interlock._core.locks.lock_base import LockBase
    from interlock._core.locks.transfer import Ticket
    from interlock._core.model.effects import Step
    from interlock._core.model.holds import AnyHold, Owner, Permit
    from interlock._core.objects.leased_semaphore import LeasedSemaphore
    from interlock._drivers.block import Block
    from interlock._drivers.protocol import BlockingDriver

H = TypeVar("H", bound="AnyHold")
K = TypeVar("K")
R = TypeVar("R")
T = TypeVar("T")
P = ParamSpec("P")


def go_on(error: BaseException | None, trouble: InterlockError, *, own: bool = False) -> None:
    """Raise *trouble*; if the body of the block has raised *error*, only note *trouble* in that.

    Args:
        error: ends the block; None if nothing does.
        trouble: what went wrong when the block was left.
        own: whether *error* is a cancellation of our own, in place of which *trouble* is raised.
    """
    if error is None or own:
        raise shorten(trouble) from error
    error.add_note(f"interlock: {trouble}")


def end_block(
    driver: BlockingDriver,
    release: Step[None],
    block: Block | None,
    error: BaseException | None,
    *,
    own: bool = False,
    once: bool = True,
) -> None:
    """Perform *release* at the end of *block*, which *error* ends.

    Args:
        driver: the client's.
        release: of what the block acquired.
        block: carries the release through if it is dropped meanwhile; None if there is no block.
        error: ends the block; None if nothing does.
        own: whether *error* is a cancellation of our own, as for `go_on`.
        once: whether it is an error if the hold was released before.
    """
    if block is not None:
        block.left = release.unfinished
    try:
        driver.perform(release)
    except InterlockError as trouble:
        if isinstance(trouble, NotHeldError):
            tell_of_fork(trouble, driver.session)
        if once or not isinstance(trouble, NotHeldError):
            go_on(error, trouble, own=own)
    if block is not None:
        block.left = None


def end_by(end: Callable[[], None], error: BaseException | None) -> None:
    """Call *end* at the end of a block, which *error* ends; None if nothing does."""
    try:
        end()
    except InterlockError as trouble:
        go_on(error, trouble)


def between(body: Callable[[], R], end: Callable[[], None]) -> R:
    """Return what *body* returns, and call *end* after it, whatever it raises."""
    try:
        result = body()
    except BaseException as error:
        end_by(end, error)
        raise
    end()
    return result


def inside(
    block: AbstractContextManager[object, None],
    body: Callable[[], R],
    name: str,
    if_unreachable: str,
) -> R | None:
    """Return what *body* returns inside of *block*.

    If no server answers when the block begins: raise, run *body* all the same, or return None.
    """
    begun = False
    try:
        with block:
            begun = True
            return body()
    except ServerUnavailableError as error:
        if begun or not _goes_on(error, name, if_unreachable):
            raise
    return body() if if_unreachable == "run" else None


def within(
    take: Callable[[], K | None],
    body: Callable[[], R],
    end: Callable[[K], None],
    otherwise: T,
    name: str,
    if_unreachable: str,
) -> R | T:
    """Return what *body* returns between *take* and *end*; *otherwise* if nothing is taken.

    If no server answers when it is taken: raise, run *body* all the same, or return *otherwise*.
    """
    try:
        taken = take()
    except ServerUnavailableError as error:
        if not _goes_on(error, name, if_unreachable):
            raise
        return body() if if_unreachable == "run" else otherwise
    return otherwise if taken is None else between(body, partial(end, taken))


def _goes_on(error: ServerUnavailableError, name: str, if_unreachable: str) -> bool:
    """Log, and return whether a call goes on in spite of *error*: not if a right is missing."""
    if if_unreachable == "raise" or not (error.code is None or error.transient):
        return False
    log_unreachable(name, if_unreachable, error)
    return True


def acquire_for(
    driver: BlockingDriver,
    step: Step[H | None],
    keep: Callable[[Block | None, H], K],
    block: Block | None = None,
    name: str = "",
) -> K | None:
    """Perform *step*, and give what it acquired to *keep*, which returns what the user gets.

    If the caller is interrupted before it has that, nothing stays acquired.

    Args:
        driver: the client's.
        step: acquires.
        keep: takes *block* and the hold.
        block: finishes what is left if nothing leaves it; None if there is no block.
        name: what is acquired.

    Returns:
        What *keep* returned, or None if nothing was acquired.
    """
    hold = None
    try:
        if block is not None:
            block.begin(driver, name, step.unfinished)
        hold = driver.perform(step)
        return None if hold is None else keep(block, hold)
    except BaseException as error:
        _undo(driver, name, step, hold, error)
        raise


def _give_back(
    driver: BlockingDriver, _: str, step: Step[Any], hold: AnyHold | None, error: BaseException
) -> None:
    """Give back what *step* acquired for a block that *error* keeps from beginning.

    After a Ctrl-C the step alone knows what that is: *hold* may not be known yet, and a second
    Ctrl-C may strike the undo.
    """
    try:
        if not isinstance(error, Exception):
            driver.undo(step, error)
        elif hold is not None:
            driver.perform(hold.release())
    finally:
        del error  # it refers to this frame


def _give_back_later(driver: BlockingDriver, name: str, step: Step[Any], *_: object) -> None:
    """Give back in the background what is left, if anything."""
    rest = step.unfinished()
    if rest is not None:
        finish_later(driver, name, rest)


_undo = whole(_give_back, _give_back_later)


def take_for(
    driver: BlockingDriver,
    acquire: Callable[[Callable[Concatenate[Permit, P], K]], Step[R]],
    made: Callable[Concatenate[Permit, P], K],
    keep: Callable[[K], None],
) -> R:
    """Perform the step that *acquire* returns, and *keep* what *made* makes of its permits."""
    taken: list[Permit] = []

    def made_and_kept(permit: Permit, /, *args: P.args, **kwargs: P.kwargs) -> K:
        taken.append(permit)
        got = made(permit, *args, **kwargs)
        keep(got)
        return got

    try:
        return driver.perform(acquire(made_and_kept))
    except BaseException:
        # A Ctrl-C struck after they were taken: no block will give them back.
        for permit in taken:
            with suppress(InterlockError):
                driver.perform(permit.release())
        raise


def change_hold(driver: BlockingDriver, core: LockBase | CompositeLock, step: Step[None]) -> None:
    """Perform *step* on a hold of *core*; if it is refused, name the holder."""
    try:
        driver.perform(step)
    except NotHeldError as error:
        tell_holder(driver, core, error)
        raise


def tell_holder(
    driver: BlockingDriver, core: LockBase | CompositeLock, error: NotHeldError
) -> None:
    """Name the present holder of *core* in *error*, if the server answers."""
    with suppress(InterlockError):
        holder = (driver.run(core.refusal(0))).holder
        name_holder(error, holder, driver.session)


def adopt_ticket(driver: BlockingDriver, ticket: Ticket, adopt: Callable[[str], R]) -> R:
    """Adopt the hold of *ticket* by *adopt*; if it is over, tell why."""
    try:
        return adopt(str(ticket))
    except NotHeldError as error:
        raise driver.run(over(driver.session, ticket)) from error


def release_unclaimed(
    driver: BlockingDriver, core: LeasedSemaphore, owner: Owner, limit: float
) -> None:
    """Release what *owner* acquired of *core*, did not keep, and cannot rely on any more.

    A warning tells of each. If the server does not answer within *limit* seconds, or the time of
    one round trip, the background goes on.
    """
    deadline = driver.session.clock() + limit
    for entry in driver.unclaimed.take(core.hold_key, owner):
        rest = "it is released now"
        try:
            step = DelayingRelease(driver.session, entry.hold, deadline)
            driver.perform(step)
        except InterlockError as error:
            rest = f"it cannot be released: {error}"
        warn(
            f"{core.kind} {core.name!r} was never released by {owner.label}, which asks for it "
            f"again: {rest}. Write `{entry.write}`"
        )
