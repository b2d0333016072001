"""How long asyncio's replies are waited for: one timer for all replies of a connection."""

from __future__ import annotations

import asyncio

from tests.lock.lock_like import until

from interlock._links.deadlines import ROOM, Deadlines

SOON, LATER, NEVER = 0.05, 3.0, 60.0


async def test_each_reply_has_its_own_time() -> None:
    """A shorter deadline is reported first, even if the timer was set for a longer one."""
    loop, late = asyncio.get_running_loop(), asyncio.Queue[float]()
    deadlines = Deadlines(loop, lambda _, seconds: late.put_nowait(seconds))
    began = loop.time()
    for seconds in (NEVER, LATER, SOON):
        deadlines.add((loop.create_future(), seconds))
    async with asyncio.timeout(10):
        assert [await late.get(), await late.get()] == [SOON, LATER]
    assert loop.time() - began >= LATER
    deadlines.close()


async def test_a_reply_that_came_is_not_late() -> None:
    """Of two whose time is up, only the one that is still waited for is told of."""
    loop, late = asyncio.get_running_loop(), list[asyncio.Future[object]]()
    deadlines = Deadlines(loop, lambda slot, _: late.append(slot))
    answered, silent = loop.create_future(), loop.create_future()
    deadlines.add((answered, SOON), (silent, SOON))
    answered.set_result(None)
    await until(lambda: late, 10, "the silent one is late")
    assert late == [silent]


async def test_a_reply_may_have_no_time() -> None:
    """Nor may the next one. On uvloop, such a timer does not tell when it is due."""
    loop, late = asyncio.get_running_loop(), list[float]()
    deadlines = Deadlines(loop, lambda _, seconds: late.append(seconds))
    for seconds in (0.0, 0.0):
        deadlines.add((loop.create_future(), seconds))
    await until(lambda: len(late) == 2, 10, "both are late")
    deadlines.close()


async def test_nobody_is_told_after_the_end() -> None:
    """A connection that is closed has told everybody itself."""
    loop, late = asyncio.get_running_loop(), list[float]()
    deadlines = Deadlines(loop, lambda _, seconds: late.append(seconds))
    deadlines.add((loop.create_future(), SOON))
    deadlines.close()
    await asyncio.sleep(SOON * 4)  # the clock of a real loop
    assert late == []


async def test_replies_that_came_are_let_go_of() -> None:
    """However many replies come within their time, few of them are kept until it is up."""
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop, lambda _, seconds: None)
    for _ in range(20 * ROOM):
        slot = loop.create_future()
        deadlines.add((slot, NEVER))
        slot.set_result(None)
    assert len(deadlines._entries) <= ROOM
    deadlines.close()
