"""Who owns a lock: threads, jobs of pools, contexts, and tasks; nobody enters another one's hold.

Flows arrive one after the other: a burst would hide a fault, because each waiting worker keeps its
thread. Each case counts who entered while another one was inside, and how many were served.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import itertools
import multiprocessing
import multiprocessing.pool
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from tests.objects.acts import of_kinds, renewed
from tests.objects.kinds import Kind
from tests.support.patience import wait_until
from tests.support.renewal import renews_soon

import interlock
import interlock.asyncio

GAP = 0.05
"""Seconds between two arrivals."""
STAY = 0.12
"""Seconds inside: longer than the gap, so that the next one comes meanwhile."""
each_kind = of_kinds(lambda kind: kind.servers == 1 and kind.reentrant and not kind.shared)


@pytest.fixture
def client(redis_url: str) -> Iterator[interlock.Client]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", interlock.MisuseWarning)
        with interlock.connect(redis_url) as made:
            yield made


class Inside:
    """Counts who enters while another one is inside, and what became of the others."""

    def __init__(self) -> None:
        self.now = self.over = self.served = 0
        self.errors: Counter[type[BaseException]] = Counter()

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        self.over += self.now > 0
        self.now += 1
        try:
            yield
        finally:
            self.now -= 1
        self.served += 1

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Count the error of the library that the body raises."""
        try:
            yield
        except interlock.InterlockError as error:
            self.errors[type(error)] += 1


@pytest.fixture
def inside() -> Inside:
    return Inside()


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return type(error)


def in_thread(call: Callable[..., Any], *args: Any) -> Any:
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(outcome(call, *args)))
    thread.start()
    thread.join()
    return got[0]


def held(lock: Any) -> Generator[None]:
    with lock:
        yield


async def apart(task: Callable[[], Any], count: int) -> None:
    """Run *count* tasks that arrive one after the other."""

    async def arrive(number: int) -> None:
        await asyncio.sleep(number * GAP)
        await task()

    await asyncio.gather(*(arrive(number) for number in range(count)))


@each_kind
def test_jobs_that_acquire_and_release_exclude_each_other(
    client: interlock.Client, inside: Inside, kind: Kind
) -> None:
    """One job of a pool enters a block, or acquires by hand; another one leaves, or releases."""
    numbers = itertools.count()

    async def task() -> None:
        lock, stack = kind.make([client], "n"), contextlib.ExitStack()
        enter, leave = lock.acquire, lock.release
        if next(numbers) % 2:
            enter, leave = partial(stack.enter_context, lock), stack.close
        assert await asyncio.to_thread(enter)
        with inside.one():
            await asyncio.sleep(STAY)
        await asyncio.to_thread(leave)

    asyncio.run(apart(task, 4))
    assert (inside.over, inside.served) == (0, 4)


@each_kind
def test_two_contexts_of_a_thread_are_two_owners(client: interlock.Client, kind: Kind) -> None:
    """Neither enters what the other one holds."""
    one, other = contextvars.copy_context(), contextvars.copy_context()
    lock, same = kind.make([client], "n"), kind.make([client], "n")
    block = held(lock)
    one.run(next, block)
    assert other.run(same.acquire, timeout=0) is False
    assert one.run(same.acquire, timeout=0) is True
    one.run(same.release)
    block.close()
    assert not same.locked()


def test_a_copy_of_the_context_made_in_a_block_is_the_same_owner(client: interlock.Client) -> None:
    """A copy of the context made in a block is the same owner."""
    with client.lock("n"):
        assert contextvars.copy_context().run(client.lock("n").acquire, timeout=0)
        client.lock("n").release()
    assert not client.lock("n").locked()


def test_release_leaves_anothers_block_alone(client: interlock.Client) -> None:
    """Release leaves anothers block alone."""
    lock = client.lock("n")
    block = held(lock)
    contextvars.copy_context().run(next, block)
    with pytest.raises(interlock.NotHeldError):
        lock.release()
    assert lock.locked()
    block.close()


@pytest.mark.parametrize("pool", ["executor", "multiprocessing"])
def test_a_pool_of_one_thread_never_waits_for_itself(client: interlock.Client, pool: str) -> None:
    """Only the waiting thread could release it: that is told at once."""
    lock = client.lock("n")
    with contextlib.ExitStack() as stack:
        if pool == "executor":
            executor = stack.enter_context(ThreadPoolExecutor(1))
            run: Any = lambda call: executor.submit(call).result()  # noqa: E731
        else:
            run = stack.enter_context(multiprocessing.pool.ThreadPool(1)).apply
        assert run(lock.acquire) is True
        with pytest.raises(interlock.ReentryError, match="this one thread"):
            run(lock.acquire)
        assert run(lambda: lock.acquire(timeout=0)) is False
        run(lock.release)
    assert not lock.locked()


def test_a_pool_of_one_thread_waits_for_a_hold_that_is_being_released(redis_url: str) -> None:
    """Nobody can release what a job forgot, so it is released, and the next job gets it."""

    def forget() -> None:
        assert client.lock("n").acquire()

    with renews_soon(interlock.connect(redis_url)) as client, ThreadPoolExecutor(1) as pool:
        lock = client.lock("n", timeout=60)
        with pytest.warns(interlock.MisuseWarning):
            assert [pool.submit(job).result() for job in (forget, lock.acquire)] == [None, True]
        pool.submit(lock.release).result()


_kept: list[Any] = []
"""What jobs of a process leave there."""


def _take(url: str, timeout: float) -> Any:
    """Acquire in a job of a process, through a lock object that stays."""
    if not _kept:
        _kept.append(interlock.connect(url))
    _kept.append(_kept[0].lock("n"))
    return outcome(_kept[-1].acquire, timeout=timeout)


def test_the_next_job_of_a_process_is_another_owner(redis_url: str) -> None:
    """The worker of a pool of processes is a thread that takes jobs."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        got = [pool.submit(_take, redis_url, timeout).result() for timeout in (0, 0, 5)]
    assert got == [True, False, interlock.ReentryError]


def test_a_sync_lock_in_tasks_lets_the_first_in_and_refuses_the_rest(
    client: interlock.Client, inside: Inside
) -> None:
    """A sync lock in tasks lets the first in and refuses the rest."""
    refused = asyncio.Event()

    async def task() -> None:
        with inside.told(), client.lock("n"), inside.one():
            await asyncio.wait_for(refused.wait(), 20)
        if inside.errors.total() == 2:
            refused.set()

    asyncio.run(apart(task, 3))
    assert (inside.over, inside.served) == (0, 1)
    assert inside.errors == {interlock.ReentryError: 2}


def test_a_task_is_no_owner_of_what_its_thread_holds(client: interlock.Client) -> None:
    """A task is no owner of what its thread holds."""

    async def main() -> None:
        with pytest.raises(interlock.ReentryError, match=r"interlock\.asyncio"):
            client.lock("n").acquire()
        assert client.lock("n").acquire(timeout=0) is False

    with client.lock("n"):
        asyncio.run(main())
    assert not client.lock("n").locked()


@pytest.mark.needs("hosts")
def test_a_sync_lock_in_tasks_of_trio(client: interlock.Client, inside: Inside) -> None:
    """A sync lock in tasks of trio."""
    trio: Any = pytest.importorskip("trio")
    refused = trio.Event()

    async def task() -> None:
        with inside.told(), client.lock("n"), inside.one(), trio.fail_after(20):
            await refused.wait()
        if inside.errors.total() == 2:
            refused.set()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(task)
                await trio.sleep(GAP)

    trio.run(main)
    assert (inside.over, inside.served) == (0, 1)
    assert inside.errors == {interlock.ReentryError: 2}


@pytest.mark.parametrize("wrap", ["create_task", "gather", "wait_for"])
def test_an_acquire_that_is_its_own_task_is_refused(redis_url: str, wrap: str) -> None:
    """An acquire that is its own task is refused."""

    async def main() -> None:
        async with interlock.asyncio.connect(redis_url) as client:
            lock = client.lock("n")
            if wrap == "wait_for" and sys.version_info >= (3, 12):
                assert await asyncio.wait_for(lock.acquire(), 5)
                await lock.release()
                return
            call: Any = {
                "create_task": lambda: asyncio.create_task(lock.acquire()),
                "gather": lambda: asyncio.gather(lock.acquire()),
                "wait_for": lambda: asyncio.wait_for(lock.acquire(), 5),
            }[wrap]
            with pytest.raises(RuntimeError, match="timeout="):
                await call()
            assert not await lock.locked()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["job", "task"])
def test_a_hold_that_nobody_can_release_is_told_and_released(redis_url: str, how: str) -> None:
    """Its job or task is over and its lock object is gone; the warning names its line."""

    def job() -> None:
        client.lock("n").acquire()

    async def task() -> None:
        job()

    told: list[str] = []
    with (
        renews_soon(interlock.connect(redis_url)) as client,
        ThreadPoolExecutor(1) as pool,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, _, filename, line, *__: told.append(
            f"{message} {filename}:{line}"
        )
        pool.submit(job).result() if how == "job" else asyncio.run(task())
        gc.collect()
        wait_until(lambda: not client.lock("n").locked(), 20, "it is released")
        place = f"test_owners.py:{job.__code__.co_firstlineno + 1}"
        wait_until(lambda: any(f"{place}," in each for each in told), 20, "that is told")
    assert all(each.endswith(place) for each in told)


def test_a_hold_of_a_job_stays_while_its_hold_lives(redis_url: str) -> None:
    """So does one of a job that kept no more than the `Hold`."""
    with renews_soon(interlock.connect(redis_url)) as client, ThreadPoolExecutor(1) as pool:
        hold = pool.submit(lambda: client.lock("n").__enter__()).result()
        gc.collect()
        for _ in "12":
            renewed(hold)
        assert client.lock("n").locked()
        pool.submit(hold.release).result()
        assert not client.lock("n").locked()


def test_a_task_releases_nothing_of_another_one(client: interlock.Client) -> None:
    """Though they share the lock object and their thread."""
    lock = client.lock("n")

    async def other() -> None:
        with pytest.raises(interlock.NotHeldError):
            lock.release()

    async def main() -> None:
        assert lock.acquire()
        await asyncio.create_task(other())
        lock.release()

    assert in_thread(lambda: asyncio.run(main())) is None  # which has had no other owner
    assert not lock.locked()


def test_jobs_release_a_read_lock_as_often_as_they_took_it(client: interlock.Client) -> None:
    """One lock object, and several jobs that read at a time."""
    read, write = (getattr(client.read_write_lock("n"), side) for side in ("read", "write"))
    with ThreadPoolExecutor(2) as pool:
        for call in (read.acquire, read.acquire, read.release, read.release):
            pool.submit(call).result()
        with pytest.raises(interlock.NotHeldError):
            pool.submit(read.release).result()
    assert write.acquire(timeout=0)
    write.release()


def test_an_older_context_of_a_thread_never_waits_for_its_block(client: interlock.Client) -> None:
    """As a fixture does that unittest runs in a copy of the context that it made before."""
    older = contextvars.copy_context()
    with client.lock("n"), pytest.raises(interlock.ReentryError, match="pass the Hold"):
        older.run(client.lock("n").acquire)
    assert not client.lock("n").locked()


@pytest.mark.needs("hosts")
def test_a_task_that_a_job_starts_is_another_owner(client: interlock.Client) -> None:
    """AnyIO gives it a copy of the job's context, and its own job may get the same thread."""
    anyio: Any = pytest.importorskip("anyio")
    seen: list[bool] = []

    async def later() -> None:
        await asyncio.sleep(GAP)
        one_thread = anyio.CapacityLimiter(1)
        for _ in range(3):
            await anyio.to_thread.run_sync(try_it, limiter=one_thread)

    def try_it() -> None:
        seen.append(client.lock("n").acquire(timeout=0))

    def job() -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        stack.enter_context(client.lock("n"))
        anyio.from_thread.run_sync(lambda: tasks.append(asyncio.create_task(later())))
        return stack

    async def main() -> None:
        stack = await anyio.to_thread.run_sync(job)
        await tasks[0]
        await anyio.to_thread.run_sync(stack.close)

    tasks: list[asyncio.Task[None]] = []
    asyncio.run(main())
    assert seen == [False] * 3


def test_an_acquire_that_was_refused_leaves_its_owner_free(client: interlock.Client) -> None:
    """Else contexts that are copied later would be one owner."""
    both, lock = client.read_write_lock("both"), client.lock("n")

    def main() -> list[bool]:
        with both.read, pytest.raises(interlock.UpgradeError):
            both.write.acquire()
        contexts = [contextvars.copy_context() for _ in "12"]
        got = [context.run(lock.acquire, timeout=0) for context in contexts]
        contexts[0].run(lock.release)
        return got

    assert in_thread(main) == [True, False]


@contextlib.contextmanager
def struck(at: int, handler: Callable[[], object]) -> Iterator[list[str]]:
    """Call *handler* at the *at*-th call or return, as a signal may there; yield those that came."""
    came: list[str] = []

    def strike(_: object, event: str, __: object) -> None:
        came.append(event)
        if len(came) == at:
            handler()

    sys.setprofile(strike)
    try:
        yield came
    finally:
        sys.setprofile(None)


@pytest.mark.promise("signals")
def test_a_signal_handler_in_a_context_of_its_own_takes_no_owner_away(
    client: interlock.Client,
) -> None:
    """Wherever it strikes an acquire, each of the two flows has what it acquired, and no more."""
    mine, block, left = client.lock("mine"), client.lock("block"), client.lock("left")

    def handle() -> None:
        with block:
            pass
        assert left.acquire(timeout=0)

    came, at = [""], 1
    while len(came) >= at:
        context = contextvars.Context()
        with struck(at, lambda context=context: context.run(handle)) as came:
            assert mine.acquire()
        if len(came) >= at:
            assert not left.acquire(timeout=0)
            context.run(left.release)
        assert mine.acquire(timeout=0), "its own owner enters again"
        mine.release()
        mine.release()
        at += 1
    assert at > 50
    assert not mine.locked()
