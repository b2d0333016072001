"""Hints name our word for another library's, and leave no trace in help."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import interlock
import interlock.asyncio


@pytest.mark.parametrize("face", [interlock, interlock.asyncio], ids=["sync", "asyncio"])
async def test_a_keyword_of_another_library(face: Any) -> None:
    """Factories and acquires name our word for it, and Python's own error does elsewhere."""
    client: Any = face.connect("redis://localhost:1")
    lock, semaphore = client.lock("x"), client.semaphore("x")
    leased = client.leased_semaphore("x")
    calls: tuple[tuple[Any, str, str], ...] = (
        (lambda **more: client.lock("x", **more), "blocking_timeout", "timeout=seconds"),
        (lambda **more: client.multi_lock(lock, **more), "ex", "lease=seconds"),
        (lambda **more: client.election("x", **more), "ttl", "lease=seconds"),
        (lambda **more: client.try_lock("x", **more), "expire", "lease=seconds"),
        (lock.acquire, "auto_renewal", "lease=seconds"),
        (lock.acquire, "force", r"force_release\(\)"),
        (lock.release, "force", r"force_release\(\)"),
        (lambda **more: client.lock("x", **more), "thread_local", "nothing: a hold belongs to"),
        (semaphore.acquire, "wait_time", "timeout=seconds"),
        (leased.acquire, "lease_time", "lease=seconds"),
    )
    for function, keyword, ours in calls:
        with pytest.raises(TypeError, match=rf"keyword argument '{keyword}': use {ours}"):
            await _run(function(**{keyword: 5}))
        with pytest.raises(TypeError, match=r"keyword argument 'nonsense'$"):
            await _run(function(nonsense=5))
    with pytest.raises(TypeError, match="keyword argument 'ttl': use lease=seconds"):
        face.connect("redis://localhost:1", outage_timeout=5, ttl=5)
    with pytest.raises(TypeError, match=r"use client.try_lock\(name\) for one try$"):
        client.lock("x", blocking=False)
    with pytest.raises(TypeError, match=r"keyword argument 'blocking'$"):
        await _run(leased.acquire(blocking=False))  # it has a try of its own
    with pytest.raises(TypeError, match=r"keyword argument 'ttl'$"):
        await _run(semaphore.acquire(ttl=5))  # its permits have no lease
    with pytest.raises(TypeError, match="keyword argument 'ttl'"):
        await _run(lock.extend(ttl=5))


async def _run(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


@pytest.mark.parametrize("face", [interlock, interlock.asyncio], ids=["sync", "asyncio"])
def test_a_setting_that_comes_too_late_is_told(face: Any) -> None:
    """No object takes an attribute that it would ignore, and none shows one for that."""
    client: Any = face.connect("redis://localhost:1")
    lock = client.lock("x")
    objects = [
        client,
        lock,
        client.read_write_lock("x"),
        client.multi_lock(lock),
        client.condition(lock),
        client.semaphore("x"),
        client.leased_semaphore("x"),
        client.count_down_latch("x"),
        client.event("x"),
        client.barrier("x", 2),
        client.election("x"),
        client.limited("x", 2),
        object.__new__(face.Hold),
        object.__new__(face.Permit),
    ]
    for each in objects:
        with pytest.raises(AttributeError, match="no attribute 'lease_time'"):
            each.lease_time = 5
        assert {"core", "driver"}.isdisjoint(dir(type(each)))
