"""Holds that tests take by hand."""

from __future__ import annotations

from typing import Any


def held(lock: Any) -> Any:
    """Acquire *lock* of the sync face in this thread; return its hold."""
    assert lock.acquire(timeout=5)
    return lock.hold


async def acquires(lock: Any, **options: Any) -> bool:
    """Acquire *lock* of the asyncio face in the task that runs this, which then owns it."""
    acquired: bool = await lock.acquire(**options)
    return acquired


async def takes_turn(lock: Any) -> bool:
    """Acquire and release *lock* of the asyncio face; a task that ended with it would be told."""
    await lock.acquire()
    await lock.release()
    return True
