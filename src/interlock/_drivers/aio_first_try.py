"""Acquire and release in a task, where the first try does it: what `first_try` is to threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core import releasing
from interlock._core.holds import State

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from interlock._core.effects import Eval
    from interlock._core.holds import Hold, Owner
    from interlock._core.joint import Joint
    from interlock._core.joint_hold import JointHold
    from interlock._core.lock_like import LockLike
    from interlock._core.scripts.script import Grant
    from interlock._drivers.aio import AsyncDriver


def acquire(
    driver: AsyncDriver,
    recipe: LockLike | Joint,
    owner: Owner,
    deadline: float,
    lease: float | None,
) -> Awaitable[Hold | JointHold | None]:
    """Perform ``recipe.acquire(owner, deadline, lease)``."""
    if recipe.joint is True:
        return driver.run(recipe.acquire(owner, deadline, lease))
    hold = recipe.fresh(owner, lease) if driver.ready else None
    if hold is None:
        return driver.run(recipe.acquire(owner, deadline, lease))
    return _acquire(driver, recipe, hold, owner, deadline)


async def _acquire(
    driver: AsyncDriver, recipe: LockLike, hold: Hold, owner: Owner, deadline: float
) -> Hold | None:
    session = driver.session
    sent_at = 0.0
    call: Eval[Grant | float] | None = None
    outcome: Grant | float | BaseException | None = None
    try:
        session.holds.begin(hold)
        sent_at = session.clock()
        call = recipe.request(hold, deadline, sent_at)
        hold.unsettled = True
        outcome = call.script.decode(await driver.eval(call))
        if recipe.accept(hold, sent_at, outcome):
            return hold
    except BaseException as error:  # noqa: BLE001 - it is raised again where it can be undone
        outcome = error
    rest = driver.run_on(recipe.carry_on(hold, owner, deadline, sent_at, outcome), outcome)
    call = outcome = None  # many may wait here, and what they keep meanwhile is memory
    return await rest


async def release(driver: AsyncDriver, recipe: LockLike | Joint, owner: Owner) -> None:
    """Perform ``recipe.release(owner)``."""
    hold = None if recipe.joint is True or not driver.ready else recipe.held_once(owner)
    if recipe.joint is True or hold is None:
        await driver.run(recipe.release(owner))
        return
    session = driver.session
    call: Eval[int] | None = None
    done = 0
    failure: BaseException | None = None
    try:
        hold.state = State.ENDING
        call = recipe.last_release(hold)
        done = call.script.decode(await driver.eval(call))
        if done:
            releasing.note(session, hold, 0)
            return
    except BaseException as error:  # noqa: BLE001 - as above
        failure = error
    _ = await driver.run_on(releasing.carry_on(session, hold, 0, call, done, failure), failure)
