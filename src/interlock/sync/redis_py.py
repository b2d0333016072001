# Generated from interlock/asyncio/redis_py.py by tools/make_sync.py; change that file.
"""A lock with the methods, arguments and errors of redis-py's own.

It is for programs that use `redis.Redis.lock`.
``redis.lock(name, lock_class=interlock.sync.redis_py.Lock)`` is all that changes. The
differences are in docs/coming/redis-py.md.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self
from weakref import WeakKeyDictionary

from redis import exceptions as redis_errors

from interlock import errors
from interlock._core.locks.base import Lock as Core
from interlock._core.locks.transfer import Adopt
from interlock._core.model.effects import Wait
from interlock._core.model.hold import Owner
from interlock._drivers.known_hold import of_block
from interlock._drivers.process.line import note_line
from interlock._drivers.redis_lock import RedisLock, bytes_of, text_of
from interlock.options import FOREVER, Options, lease_of
from interlock.sync.client import Client
from interlock.sync.lock import Hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Op
    from interlock._drivers.threads import ThreadDriver

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


class Lock(RedisLock):
    """What `redis.lock.Lock` is, with the lock of `Client.lock` behind it."""

    options: ClassVar[Options] = Options()
    """How the client behind behaves; for a subclass to set."""

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
                    step = core.acquiring().of(core, owner, deadline, lease)
                    taken = driver.perform(step)
                    break
                except errors.WrongTypeError:
                    # redis-py's lock, or any other key: its SET NX takes one for a locked lock too.
                    next_try = clock() + (self.sleep if sleep is None else sleep)
                    if next_try > deadline:
                        return False
                    driver.run(_pause(next_try))
        if taken is None:
            return False
        note_line(taken, 1)
        hold = of_block(Hold, driver, taken, None)
        self.local.token = bytes_of(hold.holder if token is None else token)
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
        return (ours or text_of(token)) in self._holders()

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

    def _parts(self) -> tuple[ThreadDriver, Core, Owner]:
        driver = _driver(client_of(self.redis, self.options))
        session = driver.session
        core = Core(session, self._name, session.key(self._name), reentrant=False)
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
            step = Adopt(core, owner, text_of(token), None, self.timeout or None, None)
            adopted = driver.perform(step)
            assert adopted is not None, "it raises instead"
            held = _Held(token, of_block(Hold, driver, adopted, None), owner)
            self.local.held = held
        return held.hold


def _pause(until: float) -> Op[None]:
    yield from Wait(None, until)


def _driver(client: Client) -> ThreadDriver:
    driver: ThreadDriver = client._driver  # pyright: ignore[reportPrivateUsage] - one package
    return driver
