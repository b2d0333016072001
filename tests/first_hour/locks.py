"""Mistakes with locks and holds."""

from __future__ import annotations

from tests.first_hour.mistake import Mistake, program, sync

LOCKS: list[Mistake] = [
    program(
        "the class as a factory",
        """
        import interlock, redis
        interlock.Lock(redis.Redis(), "x")
        """,
        "TypeError",
        "client.lock(name)",
    ),
    program(
        "a decorator of the package",
        """
        import interlock
        @interlock.locked("x")
        def work(): ...
        """,
        "AttributeError",
        "use interlock.connect(url).locked(...)",
    ),
    program(
        "the class of the client",
        """
        import interlock
        interlock.Client("redis://localhost")
        """,
        "TypeError",
        "interlock.connect(url)",
    ),
    program(
        "an import of another library's class",
        "from interlock import RedisLock",
        "ImportError",
        "interlock.connect(url).lock(name)",
    ),
    sync("expire of a lock", "client.lock('x').expire(5)", "AttributeError", "extend(lease)"),
    sync("reacquire of a lock", "client.lock('x').reacquire()", "AttributeError", "extend(lease)"),
    sync("try_lock of a lock", "client.lock('x').try_lock()", "use trying(timeout=seconds)"),
    sync("try_lock of a fair lock", "client.fair_lock('x').tryLock()", "trying(timeout=seconds)"),
    sync(
        "blocking_timeout of a lock",
        'client.lock("a", blocking_timeout=1)',
        "TypeError",
        "blocking_timeout",
        "timeout=",
    ),
    sync(
        "blocking of a lock",
        'client.lock("a", blocking=False)',
        "TypeError",
        "client.try_lock(name)",
    ),
    sync("ttl of a lock", 'client.lock("a", ttl=10)', "TypeError", "lease="),
    sync("expire of pottery and python-redis-lock", 'client.lock("a", expire=10)', "lease="),
    sync("auto_renewal", 'client.lock("a", auto_renewal=True)', "renewed", "lease="),
    sync("auto_release_time", 'client.lock("a", auto_release_time=10)', "lease="),
    sync("blocking_timeout of acquire", 'client.lock("a").acquire(blocking_timeout=1)', "timeout="),
    sync("wait_time of acquire", 'client.lock("a").acquire(wait_time=1)', "timeout="),
    sync("lease_time of acquire", 'client.lock("a").acquire(lease_time=1)', "lease="),
    sync("seconds in place of blocking", 'client.lock("a").acquire(5)', "timeout=seconds"),
    sync("a name that is no text", "client.lock(42)", "a name must be a str, not int"),
    sync("no name", "client.lock()", "TypeError", "name"),
    sync("an empty name", "client.lock('')", "ConfigError", "must not be empty"),
    sync("a name of bytes", "client.lock(b'x')", "must be a str, not bytes"),
    sync(
        "a release that was not acquired",
        "client.lock('x').release()",
        "NotHeldError",
        "not held by",
    ),
    sync(
        "a release by another thread",
        """
        import threading
        lock = client.lock("x")
        lock.acquire()
        def release():
            try:
                lock.release()
            finally:
                lock.locked()
        thread = threading.Thread(target=release, name="another")
        thread.start()
        thread.join()
        lock.release()
        """,
        "NotHeldError",
        "thread 'another'",
        "held by thread 'MainThread' of this client",
        code=0,
    ),
    sync(
        "a release twice",
        """
        lock = client.lock("x")
        lock.acquire()
        lock.release()
        lock.release()
        """,
        "NotHeldError",
        "not held by",
    ),
    sync(
        "a release inside the block",
        """
        lock = client.lock("x")
        with lock:
            lock.release()
        """,
        code=0,
    ),
    sync(
        "a lease that ends in the block",
        """
        import time
        with client.lock("x", lease=0.2):
            time.sleep(0.5)  # longer than the lease
        """,
        "HoldLostError",
        "lease",
    ),
    sync(
        "a timeout in milliseconds",
        """
        with client.lock("x", timeout=100000):
            pass
        """,
        "MisuseWarning",
        "is 1,667 minutes",
        "milliseconds",
        code=0,
    ),
    sync("a negative timeout", 'client.lock("x", timeout=-5)', "-1 (for ever)"),
    sync(
        "a timeout of None in a text",
        'client.lock("x", timeout="5")',
        "ConfigError",
        "timeout must be a number of seconds, not str",
    ),
    sync("a lease of nothing", 'client.lock("x", lease=0)', "lease must be 0.01 to"),
    sync("a lease in a text", 'client.lock("x", lease="10")', "lease must be", "'10'"),
    sync(
        "try_lock in an if",
        """
        if client.try_lock("job"):
            print("works")
        """,
        "TypeError",
        "use `with`",
    ),
    sync(
        "try_lock and acquire",
        """
        with client.try_lock("x") as hold:
            hold.acquire()
        """,
        "AttributeError",
        "acquire() of the lock",
    ),
    sync("ttl of a hold", "with client.lock('x') as hold: hold.ttl", "use remaining"),
    sync(
        "a hold that is refreshed",
        "with client.lock('x') as hold: hold.refresh()",
        "use extend(lease)",
    ),
    sync(
        "a multi lock whose second member is held",
        """
        import threading
        client.lock("b").acquire()
        def work():
            with client.multi_lock(client.lock("a"), client.lock("b"), timeout=0.2):
                pass
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        client.lock("b").release()
        """,
        "multi lock 'a + b' not acquired in 0.2 s; lock 'b' is held by thread 'MainThread'",
        code=0,
    ),
    sync(
        "a lock that is asked for again by another thread",
        """
        import threading
        with client.lock("x"):
            def work():
                try:
                    with client.lock("x", timeout=0.1):
                        pass
                except interlock.AcquireTimeoutError as error:
                    print(error)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        """,
        "lock 'x' not acquired in 0.1 s",
        "thread 'MainThread' of this client",
        code=0,
    ),
    sync(
        "a lock of the process that forked this one",
        """
        import os
        lock = client.lock("x")
        with lock as hold:
            child = os.fork()
            if not child:
                for wrong in (lock.release, hold.ensure, client.lock("x", timeout=0).__enter__):
                    try:
                        wrong()
                    except interlock.InterlockError as error:
                        print(type(error).__name__, error, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
        """,
        "NotHeldError lock 'x' is not held by thread 'MainThread'",
        "NotHeldError 'x' belongs to the process that forked this one",
        "not acquired in 0 s; held by the process that forked this one",
        code=0,
    ),
    sync(
        "a block that a forked process leaves, too",
        """
        import os
        with client.lock("x"):
            if child := os.fork():
                os.waitpid(child, 0)
        """,
        "NotHeldError",
        "this process was forked, and holds none of its parent's locks",
        code=0,
    ),
    sync(
        "the truth of a lock",
        """
        lock = client.lock("x")
        if lock.locked:
            pass
        """,
        code=0,
    ),
    sync(
        "the truth of the loss",
        """
        with client.lock("x") as hold:
            if hold.lost:
                pass
        """,
        "TypeError",
        "hold.lost.is_set()",
    ),
    sync(
        "names in place of locks", 'client.multi_lock("a", "b")', "client.lock('a')", "not a name"
    ),
    sync("a list of locks", 'client.multi_lock([client.lock("a"), client.lock("b")])', "*locks"),
    sync("a red lock of names", 'client.red_lock("a", "b", "c")', "client.lock('a')"),
    sync("an f-string that is not one", 'client.lock("pay:{order_id}").acquire()', code=0),
    sync("values of a group as one text", 'client.group_lock("rooms", "12")', "['12']"),
    sync(
        "the method of a lock on the client",
        "client.acquire('x')",
        "AttributeError",
        "lock(name).acquire()",
    ),
    sync("redis-py's get on the client", "client.get('x')", "AttributeError", "redis-py"),
    sync("a short name of a factory", "client.latch('x')", "use count_down_latch(name)"),
    sync("filelock's is_locked", "client.lock('x').is_locked", "use locked"),
    sync("filelock's lock_counter", "client.lock('x').lock_counter", "use hold_count()"),
    sync("python-redis-lock's reset", "client.lock('x').reset()", "use force_release()"),
    sync("python-redis-lock's reset_all", "client.reset_all()", "force_release"),
    sync("pottery's key", "client.lock('x').key", "use name"),
    sync(
        "redis-py's owned by a token", "client.lock('x').local.token", "AttributeError", "use hold"
    ),
    sync("RFuture of Java", "client.lock('x').lockAsync()", "acquire()", "interlock.asyncio"),
    sync("a map of Redisson", 'client.getMap("x")', "redis-py"),
    sync("a listener of Redisson", 'client.lock("x").addListener(print)', "hold.on_lost(callback)"),
    sync("a condition of Java", 'client.lock("x").newCondition()', "client.condition(lock)"),
    sync("the key of a lock", 'client.lock("x").delete()', "force_release()"),
    sync("a timeout that is set later", 'client.lock("x").timeout = 5', "no attribute 'timeout'"),
    sync("a lease that is set later", 'client.fair_lock("x").lease = 5', "no attribute 'lease'"),
    sync("a lease that is set on a client", "client.lease = 5", "no attribute 'lease'"),
]
