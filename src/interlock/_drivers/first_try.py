"""Acquire and release in a thread, where the first try does it: straight through, without an operation of the core's.

Theory. Between two system calls caches are cold, and what an acquire costs is how much code it passes through: generator, effects and
layers cost three times what they do in a loop. Nearly every acquire and release is one script and its answer. So the core tells
those apart (`LockLike.fresh`, `LockLike.held_once`) and does them in steps that its own operations are made of as well; only
sending is done here. Whatever goes otherwise, an interruption included, is handed to the operation that carries it on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core import releasing
from interlock._core.holds import State

if TYPE_CHECKING:
    from interlock._core.effects import Eval
    from interlock._core.holds import Hold, Owner
    from interlock._core.joint import Joint
    from interlock._core.joint_hold import JointHold
    from interlock._core.lock_like import LockLike
    from interlock._core.scripts.script import Grant
    from interlock._drivers.threads import ThreadDriver


def acquire(
    driver: ThreadDriver,
    recipe: LockLike | Joint,
    owner: Owner,
    deadline: float,
    lease: float | None,
) -> Hold | JointHold | None:
    """Perform ``recipe.acquire(owner, deadline, lease)``."""
    if recipe.joint is True:
        return driver.run(recipe.acquire(owner, deadline, lease))
    hold = recipe.fresh(owner, lease) if driver.ready else None
    if hold is None:
        return driver.run(recipe.acquire(owner, deadline, lease))
    session = driver.session
    sent_at = 0.0
    outcome: Grant | float | BaseException | None = None
    try:
        try:
            session.holds.begin(hold)
            sent_at = session.clock()
            call = recipe.request(hold, deadline, sent_at)
            hold.unsettled = True
            outcome = call.script.decode(driver.eval(call))
            if recipe.accept(hold, sent_at, outcome):
                return hold
        except BaseException as error:  # noqa: BLE001 - it is raised again where it can be undone
            outcome = error
        return driver.run(recipe.carry_on(hold, owner, deadline, sent_at, outcome))
    except BaseException as error:
        if hold.state is not State.PENDING and hold.state is not State.HELD:
            raise
        # A Ctrl-C struck between two steps of ours.
        return driver.run(recipe.carry_on(hold, owner, deadline, sent_at, error))


def release(driver: ThreadDriver, recipe: LockLike | Joint, owner: Owner) -> None:
    """Perform ``recipe.release(owner)``."""
    hold = None if recipe.joint is True else recipe.held_once(owner)
    if recipe.joint is True or hold is None:
        driver.run(recipe.release(owner))
        return
    session = driver.session
    call: Eval[int] | None = None
    done = 0
    failure: BaseException | None = None
    try:
        try:
            hold.state = State.ENDING
            call = recipe.last_release(hold)
            done = call.script.decode(driver.eval(call))
            if done:
                releasing.note(session, hold, 0)
                return
        except BaseException as error:  # noqa: BLE001 - as above
            failure = error
        _ = driver.run(releasing.carry_on(session, hold, 0, call, done, failure))
    except BaseException as error:
        if isinstance(error, Exception) or hold.state is not State.ENDING:
            raise
        _ = driver.run(releasing.carry_on(session, hold, 0, call, 0, error))
