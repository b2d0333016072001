# Generated from interlock/asyncio/redis_py.py by tools/make_sync.py; change that file.
"""A lock with the methods, arguments and errors of redis-py's own.

It is for programs that use `redis.Redis.lock`.
``redis.lock(name, lock_class=interlock.sync.redis_py.Lock)`` is all that changes. The
differences are in docs/how-to/redis-py.md.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self
from weakref import WeakKeyDictionary

from redis import exceptions as redis_errors

from interlock import errors
from interlock._core.locks.lock import Lock as Core
from interlock._core.locks.transfer import adopt
from interlock._core.model.effects import Wait
from interlock._core.model.holds import Owner
from interlock.options import FOREVER, Options, check_name, lease_of
from interlock.sync.client import Client
from interlock.sync.hold import Hold

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from interlock._drivers.protocol import BlockingDriver

logger = logging.getLogger(__name__)

_clients: WeakKeyDictionary[Any, dict[Options, Client]] = WeakKeyDictionary()


def client_of(redis: Any, options: Options | None = None) -> Client:
    """Return the client behind the locks of a redis-py client *redis*, for `Lock.options`.

    All clients with one connection pool share it, and it goes with the pool.
    """
    chosen = Lock.options if options is None else options
    of_pool = _clients.setdefault(getattr(redis, "connection_pool", redis), {})
    client = of_pool.get(chosen)
    if client is None or _driver(client).closed:
        made = Client.from_redis(redis, options=chosen)
        _driver(made).ending.warns = False  # it goes with the pool, and nobody need close it
        if client is not None:
            _ = of_pool.pop(chosen, None)
        client = of_pool.setdefault(chosen, made)  # threads that come together share one
    return client


class _Held(NamedTuple):
    """A hold and its token; the hold is dropped with its owner, which only this refers to."""

    token: bytes
    hold: Hold
    owner: Owner


class _ThreadLocal(threading.local):
    token: bytes | None = None
    held: _Held | None = None


class Lock:
    """What `redis.lock.Lock` is, with the lock of `Client.lock` behind it.

    Args:
        redis: a redis-py client.
        name: the key.
        timeout: seconds after which it ends by itself, our *lease*; None for a lock that is renewed
            as long as this object lives.
        sleep: seconds between two looks while redis-py's own kind of lock holds the name.
        blocking: whether `acquire` waits.
        blocking_timeout: how many seconds it waits, our *timeout*; None or infinity for ever.
        thread_local: whether each thread has a token of its own.
        raise_on_release_error: whether leaving a block raises when the lock was lost, or logs it.
    """

    options: ClassVar[Options] = Options()
    """How the client behind behaves; for a subclass to set."""

    def __init__(
        self,
        redis: Any,
        name: str | bytes | memoryview,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        try:
            self._name = check_name(name if isinstance(name, str) else bytes(name).decode())
        except UnicodeDecodeError as error:
            raise errors.ConfigError(f"the name of a lock must be UTF-8, not {name!r}") from error
        self.redis, self.name = redis, name
        self.timeout, self.sleep = timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = _ThreadLocal() if thread_local else SimpleNamespace(token=None, held=None)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Lock {self._name!r} token={self.local.token!r}>"

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise self._error("Unable to acquire lock within the time specified")

    def __exit__(self, *_: object) -> None:
        try:
            self.release()
        except redis_errors.LockError:
            if self.raise_on_release_error:
                raise
            text = "Lock was unlocked or no longer owned when exiting context manager."
            extra = {"event": "redis_py.not_owned", "lock_name": self._name}
            logger.warning(text, extra=extra)

    @property
    def hold(self) -> Hold | None:
        """Return the hold, which redis-py lacks: `Hold.lost`, `Hold.ensure`, `Hold.hand_over`."""
        held: _Held | None = self.local.held
        return None if held is None else held.hold

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire, and return whether it is held now; one round trip when it is free.

        What is not given is as given to the lock. *token* is what ``local.token`` shall be; another
        process cannot release by it, only by a token that was drawn here.

        Raises:
            redis.exceptions.ConnectionError: no usable answer in time, or the client was closed.
        """
        driver, core, owner = self._parts()
        clock = driver.session.clock
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not (self.blocking if blocking is None else blocking):
            limit = 0
        deadline = FOREVER if limit is None else clock() + limit
        lease = lease_of(self.timeout or None, driver)
        with self._translated():
            while True:
                try:
                    taken = driver.perform(core.acquire(owner, deadline, lease))
                    break
                except errors.WrongTypeError:
                    # redis-py's lock, or any other key: its SET NX takes one for a locked lock too.
                    next_try = clock() + (self.sleep if sleep is None else sleep)
                    if next_try > deadline:
                        return False
                    driver.run(iter(Wait(None, next_try)))
        if taken is None:
            return False
        taken.own()
        hold = Hold(driver, taken)
        self.local.token = _bytes(hold.holder if token is None else token)
        self.local.held = _Held(self.local.token, hold, owner)
        return True

    def locked(self) -> bool:
        """Return whether anyone holds it, by this kind of lock or redis-py's; one round trip."""
        return bool(self._holders())

    def owned(self) -> bool:
        """Return whether this lock's token holds it; one round trip."""
        held, token = self.local.held, self.local.token
        if token is None:
            return False
        ours = held is not None and held.token == token and held.hold.holder
        return (ours or _text(token)) in self._holders()

    def release(self) -> None:
        """Release it; one round trip, or two for a token of another process.

        Raises:
            redis.exceptions.LockError: no token.
            redis.exceptions.LockNotOwnedError: the token no longer holds it.
            redis.exceptions.ConnectionError: no usable answer; it may be tried again.
        """
        try:
            with self._translated():
                (self._held("release")).release()
        except redis_errors.LockNotOwnedError:
            self.local.token = self.local.held = None
            raise
        self.local.token = self.local.held = None

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Give it more seconds or, with *replace_ttl*, so many from now at least.

        Errors are as of `release`; also LockError without a timeout.
        """
        if self.local.token is not None and self.timeout is None:
            raise self._error("Cannot extend a lock with no timeout")
        with self._translated():
            hold = self._held("extend")
            hold.ensure()
            hold.extend(additional_time + (0 if replace_ttl else hold.remaining))
        return True

    def reacquire(self) -> Literal[True]:
        """Give it its whole timeout from now; errors and cost as of `extend`."""
        return self.extend(self.timeout or 0, replace_ttl=True)

    def _parts(self) -> tuple[BlockingDriver, Core, Owner]:
        driver = _driver(client_of(self.redis, self.options))
        core = Core(driver.session, self._name, reentrant=False)
        return driver, core, Owner(f"a redis-py lock {self._name!r}")

    def _holders(self) -> Sequence[str]:
        """Return the ids of who holds it, or something that is none for another kind of lock."""
        driver, core, _ = self._parts()
        with self._translated():
            try:
                return tuple((driver.run(core.status())).holders)
            except errors.WrongTypeError:
                return ("another kind of lock",)

    def _held(self, purpose: str) -> Hold:
        """Return the hold that the token stands for; adopt it if it is another process's."""
        token: bytes | None = self.local.token
        held: _Held | None = self.local.held
        if token is None:
            raise self._error(f"Cannot {purpose} a lock that is not owned or already unlocked")
        if held is None or held.token != token:
            driver, core, owner = self._parts()
            step = adopt(core, owner, _text(token), None, self.timeout or None)
            held = _Held(token, Hold(driver, driver.perform(step)), owner)
            self.local.held = held
        return held.hold

    def _error(self, message: str) -> redis_errors.LockError:
        return redis_errors.LockError(message, lock_name=self._name)

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Raise what redis-py raises; but a wrong call is a ConfigError."""
        try:
            yield
        except errors.ConfigError:
            raise
        except (errors.NotHeldError, errors.HoldLostError, errors.WrongTypeError) as error:
            raise redis_errors.LockNotOwnedError(str(error), lock_name=self._name) from error
        except (errors.ServerUnavailableError, errors.ClosedError) as error:
            refused = isinstance(error, errors.ServerUnavailableError) and error.code
            kind = redis_errors.ResponseError if refused else redis_errors.ConnectionError
            raise kind(str(error)) from error
        except errors.InterlockError as error:
            raise self._error(str(error)) from error


def _driver(client: Client) -> BlockingDriver:
    return client._driver  # pyright: ignore[reportPrivateUsage] - one package


def _bytes(token: Any) -> bytes:
    return token.encode() if isinstance(token, str) else bytes(token)


def _text(token: str | bytes) -> str:
    return _bytes(token).decode(errors="replace")
