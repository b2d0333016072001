"""Mistakes with semaphores and the other objects."""

from __future__ import annotations

from tests.first_hour.mistake import Mistake, sync

OBJECTS: list[Mistake] = [
    sync("a rate limiter", 'client.get_rate_limiter("x")', "AttributeError", "acquire(lease=1)"),
    sync(
        "permits by position",
        """
        with client.semaphore("x", 5):
            print(client.semaphore("x").available_permits())
        """,
        "4",
        code=0,
    ),
    sync(
        "more permits than there are",
        """
        client.semaphore("a", permits=2).acquire(5, timeout=0.5)
        """,
        "MisuseWarning",
        "semaphore 'a' has 2 permits in all, and 5 are wanted together",
        "add_permits(3)",
        code=0,
    ),
    sync(
        "more permits than another program has set",
        """
        client.semaphore("a").try_set_permits(2)
        client.semaphore("a").acquire(5, timeout=0.5)
        """,
        "MisuseWarning",
        "semaphore 'a' has 2 permits in all, and 5 are wanted together",
        code=0,
    ),
    sync(
        "more permits with leases than there are",
        """
        client.leased_semaphore("b", permits=2).acquire(1)
        client.leased_semaphore("b", permits=2).try_acquire(5)
        """,
        "MisuseWarning",
        "leased semaphore 'b' has 2 permits in all, and 5 are wanted together",
        code=0,
    ),
    sync(
        "a semaphore of no permits",
        'client.leased_semaphore("x", permits=0)',
        "ConfigError",
        "1 to",
    ),
    sync("permits in a text", 'client.semaphore("x", permits="5")', "TypeError", "int"),
    sync(
        "a permit that nobody kept",
        """
        client.leased_semaphore("x", permits=1).acquire()
        """,
        "MisuseWarning",
        code=0,
    ),
    sync("a semaphore's value", 'client.semaphore("x").value', "available_permits()"),
    sync("setPermits of Java", 'client.semaphore("x").setPermits(5)', "set_permits"),
    sync(
        "set_count of a latch", 'client.count_down_latch("x").set_count(3)', "try_set_count(count)"
    ),
    sync("await of a latch", 'client.count_down_latch("x").await_()', "wait()"),
    sync("a barrier without parties", 'client.barrier("x")', "TypeError", "parties"),
    sync("a condition that is not held", 'client.condition("x").wait()', "NotHeldError"),
    sync(
        "the truth of an event",
        """
        if client.event("x").is_set:
            pass
        """,
        code=0,
    ),
    sync("isSet of an event", 'client.event("x").isSet()', "use is_set"),
    sync("a limit without a number", 'client.limited("x")', "TypeError", "n"),
    sync("a limit of a text", 'client.limited("x", "5")', "TypeError", "int"),
    sync(
        "a call in place of a function",
        """
        def work():
            print("works")
        client.election("x").run(work())
        """,
        "TypeError",
        "a callback must be callable, not None",
    ),
]
