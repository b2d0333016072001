"""Holds that tests take by hand."""

from __future__ import annotations

from typing import Any


def held(lock: Any) -> Any:
    assert lock.acquire(timeout=5)
    return lock.hold


async def acquires(lock: Any, **options: Any) -> bool:
    acquired: bool = await lock.acquire(**options)
    return acquired


async def takes_turn(lock: Any) -> bool:
    """Acquire and release *lock* of the asyncio face; a task that ended with it would be told."""
    await lock.acquire()
    await lock.release()
    return True
