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
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

from redis import exceptions as redis_errors

from interlock._core.locks import lock as core_lock
from interlock._core.locks import transfer
from interlock._core.model.effects import Wait
from interlock._core.model.holds import Owner
from interlock.errors import (
    ClosedError,
    ConfigError,
    HoldLostError,
    InterlockError,
    NotHeldError,
    ServerUnavailableError,
    WrongTypeError,
)
from interlock.options import Options, check_name
from interlock.sync.client import Client
from interlock.sync.hold import Hold
from interlock.sync.lock import Lock as Face

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from interlock._core.model.effects import Op
    from interlock._drivers.protocol import BlockingDriver

logger = logging.getLogger(__name__)

_clients: WeakKeyDictionary[Any, dict[Options, Client]] = WeakKeyDictionary()


def client_of(redis: Any, options: Options | None = None) -> Client:
    """Return the client whose locks the locks of a redis-py client *redis* are.

    Args:
        redis: a `Redis` or `RedisCluster`. All with one connection pool share a client, which goes
            with the pool.
        options: `Lock.options` of the lock class.
    """
    chosen = Lock.options if options is None else options
    of_pool = _clients.setdefault(getattr(redis, "connection_pool", redis), {})
    client = of_pool.get(chosen)
    if client is None or _driver(client).closed:
        if client is not None:
            _ = of_pool.pop(chosen, None)
        made = Client.from_redis(redis, options=chosen)
        _driver(made).ending.warns = False  # it goes with the pool, and nobody need close it
        # Threads that come at the same time share the first one's.
        client = of_pool.setdefault(chosen, made)
    return client


class _ThreadLocal(threading.local):
    """What one thread knows of its hold.

    Attributes:
        token: what users read, pass on and set.
        held: the hold that it stands for.
    """

    token: bytes | None = None
    held: _Held | None = None


class _Held:
    """A hold, and the owner who dies with what refers to this."""

    def __init__(self, owner: Owner, hold: Hold, token: bytes) -> None:
        self.owner = owner
        self.hold = hold
        self.token = token


class Lock:
    """What `redis.lock.Lock` is, with the lock of `Client.lock` behind it.

    Args:
        redis: a redis-py client.
        name: the key.
        timeout: seconds after which it ends by itself, our *lease*; None for a lock that is renewed
            as long as this object lives.
        sleep: seconds between two looks while redis-py's own kind of lock holds the name; else
            waiters are told.
        blocking: whether `acquire` waits.
        blocking_timeout: how many seconds it waits, our *timeout*; None or infinity for ever.
        thread_local: whether each thread has a token of its own.
        raise_on_release_error: whether leaving a ``with`` block raises when the lock was lost, or
            logs it.

    Attributes:
        options: how the client behind behaves; for a subclass to set.
    """

    options: ClassVar[Options] = Options()

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
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = _ThreadLocal() if thread_local else SimpleNamespace(token=None, held=None)
        self._name = _text(name)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Lock {self._name!r} token={self.local.token!r}>"

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise redis_errors.LockError(
            "Unable to acquire lock within the time specified", lock_name=self._name
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except redis_errors.LockError:
            if self.raise_on_release_error:
                raise
            logger.warning(
                "Lock was unlocked or no longer owned when exiting context manager.",
                extra={"event": "redis_py.not_owned", "lock_name": self._name},
            )

    @property
    def hold(self) -> Hold | None:
        """Return the hold, with `Hold.lost`, `Hold.ensure` and `Hold.hand_over`.

        redis-py has no such thing.
        """
        held: _Held | None = self.local.held
        return None if held is None else held.hold

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire; what is not given is as it was given to the lock.

        Args:
            sleep: as for the lock.
            blocking: False for one try.
            blocking_timeout: seconds to wait.
            token: what ``local.token`` shall be. Another process cannot release by it, only by a
                token that was drawn here.

        Returns:
            Whether it is held now.

        Raises:
            redis.exceptions.ConnectionError: no usable answer in time, or the client was closed.
            redis.exceptions.LockError: `options` ask for what it did not get, as enough replicas.

        Cost:
            One round trip when it is free.
        """
        client = client_of(self.redis, self.options)
        driver = _driver(client)
        clock = driver.session.clock
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not (self.blocking if blocking is None else blocking):
            limit = 0
        deadline = None if limit is None or limit > threading.TIMEOUT_MAX else clock() + limit
        pause = self.sleep if sleep is None else sleep
        owner = Owner(f"a redis-py lock {self._name!r}")
        face = Face(driver, self._recipe(client), lease=self.timeout or None, owner=owner)
        with _translated(self._name):
            while True:
                try:
                    taken = face.acquire(
                        timeout=None if deadline is None else max(deadline - clock(), 0)
                    )
                except WrongTypeError:
                    # Another kind of lock: redis-py's SET NX takes any key for a locked one, as
                    # this does.
                    if deadline is not None and clock() + pause > deadline:
                        return False
                    driver.run(_pause(clock() + pause))
                else:
                    break
        hold = face.hold
        if not taken or hold is None:
            return False
        drawn = str(hold.holder).encode() if token is None else _bytes(token)
        self.local.held, self.local.token = _Held(owner, hold, drawn), drawn
        return True

    def locked(self) -> bool:
        """Return whether anyone holds it, by this kind of lock or redis-py's; one round trip."""
        return bool(self._holders())

    def owned(self) -> bool:
        """Return whether this lock's token holds it; one round trip."""
        token: bytes | None = self.local.token
        if token is None:
            return False
        held: _Held | None = self.local.held
        own = held is not None and held.token == token
        holder = held.hold.holder if own and held is not None else _holder(token)
        return holder in self._holders()

    def release(self) -> None:
        """Release it.

        Raises:
            redis.exceptions.LockError: no token.
            redis.exceptions.LockNotOwnedError: the token no longer holds it.
            redis.exceptions.ConnectionError: no usable answer; it may be tried again.

        Cost:
            One round trip; two for a token of another process.
        """
        try:
            with _translated(self._name):
                hold = self._held("Cannot release a lock that's not owned or is already unlocked.")
                hold.release()
        except redis_errors.LockNotOwnedError:
            self.local.token = self.local.held = None
            raise
        self.local.token = self.local.held = None

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Give it more time, or other time.

        Args:
            additional_time: seconds.
            replace_ttl: whether they begin now, in place of what is left.

        Raises:
            redis.exceptions.LockError: no token, or no timeout.
            redis.exceptions.LockNotOwnedError: the token no longer holds it.
            redis.exceptions.ConnectionError: no usable answer.

        Cost:
            One round trip.
        """
        if self.local.token is not None and self.timeout is None:
            raise redis_errors.LockError(
                "Cannot extend a lock with no timeout", lock_name=self._name
            )
        with _translated(self._name):
            hold = self._held("Cannot extend an unlocked lock")
            hold.ensure()
            hold.set_lease(additional_time + (0 if replace_ttl else hold.remaining))
        return True

    def reacquire(self) -> Literal[True]:
        """Give it its whole timeout from now; errors and cost as of `extend`."""
        if self.local.token is None:
            raise redis_errors.LockError("Cannot reacquire an unlocked lock", lock_name=self._name)
        if self.timeout is None:
            raise redis_errors.LockError(
                "Cannot reacquire a lock with no timeout", lock_name=self._name
            )
        return self.extend(self.timeout, replace_ttl=True)

    def _recipe(self, client: Client) -> core_lock.Lock:
        return core_lock.Lock(_driver(client).session, self._name, reentrant=False)

    def _holders(self) -> set[str]:
        """Return who holds it: holder ids, or something that is none."""
        client = client_of(self.redis, self.options)
        try:
            with _translated(self._name):
                return set((_driver(client).run(self._recipe(client).status())).holders)
        except redis_errors.LockNotOwnedError:
            return {"another kind of lock"}

    def _held(self, without: str) -> Hold:
        """Return the hold that the token stands for; one round trip if that is another process'.

        Raises:
            redis.exceptions.LockError: there is no token, by the message *without*.
        """
        token: bytes | None = self.local.token
        if token is None:
            raise redis_errors.LockError(without, lock_name=self._name)
        held: _Held | None = self.local.held
        if held is not None and held.token == token:
            return held.hold
        client, owner = (
            client_of(self.redis, self.options),
            Owner(f"a redis-py lock {self._name!r}"),
        )
        core, lease = self._recipe(client), self.timeout or None
        step = transfer.adopt(core, owner, _holder(token), None, lease)
        adopted = _driver(client).perform(step)
        self.local.held = _Held(owner, Hold(_driver(client), adopted), token)
        return Hold(_driver(client), adopted)


def _driver(client: Client) -> BlockingDriver:
    return client._driver  # pyright: ignore[reportPrivateUsage] - one package


def _pause(until: float) -> Op[None]:
    yield from Wait(None, until)


def _text(name: str | bytes | memoryview) -> str:
    try:
        return check_name(name) if isinstance(name, str) else bytes(name).decode()
    except UnicodeDecodeError as error:
        # No str comes here.
        raise ConfigError(
            f"the name of a lock must be UTF-8, not {bytes(name)!r}"  # type: ignore[arg-type]
        ) from error


def _bytes(token: str | bytes) -> bytes:
    return token.encode() if isinstance(token, str) else bytes(token)


def _holder(token: str | bytes) -> str:
    return _bytes(token).decode(errors="replace")


@contextmanager
def _translated(name: str) -> Generator[None]:
    """Raise what redis-py raises."""
    try:
        yield
    except (NotHeldError, HoldLostError, WrongTypeError) as error:
        raise redis_errors.LockNotOwnedError(str(error), lock_name=name) from error
    except ServerUnavailableError as error:
        kind = redis_errors.ResponseError if error.code else redis_errors.ConnectionError
        raise kind(str(error)) from error
    except ClosedError as error:
        raise redis_errors.ConnectionError(str(error)) from error
    except ConfigError:
        raise  # the call is wrong
    except InterlockError as error:
        raise redis_errors.LockError(str(error), lock_name=name) from error
