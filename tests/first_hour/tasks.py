"""Mistakes in asyncio."""

from __future__ import annotations

from tests.first_hour.mistake import Mistake, program, task

TASKS: list[Mistake] = [
    task(
        "try_lock in an if, of tasks",
        """
        if client.try_lock("x"):
            print("enters")
        """,
        "TypeError",
        "use `async with`",
    ),
    program(
        "a client of tasks under trio",
        """
        import interlock.asyncio, trio
        async def main():
            client = interlock.asyncio.connect()
            async with client.lock("x"):
                pass
        trio.run(main)
        """,
        "RuntimeError",
        "with trio, use a client of interlock.trio.connect()",
    ),
    program(
        "an error of the package for tasks",
        """
        from interlock.asyncio import AcquireTimeoutError
        """,
        "ImportError",
        "use interlock.AcquireTimeoutError, which both faces have",
    ),
    program(
        "a factory of the package for tasks",
        """
        import interlock.asyncio
        interlock.asyncio.fenced_lock("x")
        """,
        "AttributeError",
        "use interlock.asyncio.connect(url).fenced_lock(...)",
    ),
    task(
        "a release by another task",
        """
        lock = client.lock("x")
        await lock.acquire()
        await asyncio.create_task(lock.release(), name="another")
        """,
        "NotHeldError",
        "task 'another'",
        "of this client",
    ),
    task(
        "a task that only acquires",
        """
        await asyncio.create_task(client.lock("x").acquire())
        """,
        "RuntimeError",
        "await it",
        "timeout=",
    ),
    task(
        "a timeout of asyncio's around a wait",
        """
        async with interlock.asyncio.connect() as other, other.lock("x"):
            async with asyncio.timeout(0.1):
                async with client.lock("x"):
                    print("enters")
        """,
        'async with client.lock("x"):',
        "TimeoutError",
    ),
    task(
        "a wait that is cancelled",
        """
        async def wait():
            async with client.lock("x"):
                print("enters")
        async with interlock.asyncio.connect() as other, other.lock("x"):
            waiting = asyncio.create_task(wait())
            asyncio.get_running_loop().call_later(0.1, waiting.cancel)
            await waiting
        """,
        "CancelledError",
    ),
    task(
        "a group with a wait whose other task fails",
        """
        async def wait():
            async with client.lock("x"):
                print("enters")
        async def fail():
            while not await client.lock("x").locked():
                pass
            raise ValueError("no such order")
        async with interlock.asyncio.connect() as other, other.lock("x"):
            async with asyncio.TaskGroup() as group:
                group.create_task(wait())
                group.create_task(fail())
        """,
        "ValueError: no such order",
    ),
    program(
        "a timeout of trio's around a wait",
        """
        import interlock.trio, trio
        async def main():
            async with interlock.trio.connect() as client, interlock.trio.connect() as other:
                async with other.lock("x"):
                    with trio.fail_after(0.1):
                        async with client.lock("x"):
                            print("enters")
        trio.run(main)
        """,
        'async with client.lock("x"):',
        "TooSlowError",
    ),
    task(
        "a block of an acquire",
        """
        async with client.lock("x").acquire() as hold:
            print("enters")
        """,
        "TypeError",
        "acquire() is no block",
        "async with client.lock(name)",
    ),
    task(
        "a locked() that is not awaited",
        """
        if client.lock("x").locked():
            print("locked")
        """,
        "TypeError",
        "locked has not run yet and has no truth value: write `await` in front of it",
    ),
    task(
        "an acquire that is not awaited",
        """
        client.lock("x").acquire()
        """,
        "never awaited",
        code=0,
    ),
    task(
        "a release that is not awaited",
        """
        lock = client.lock("x")
        await lock.acquire()
        lock.release()
        """,
        "never awaited",
        code=0,
    ),
]
