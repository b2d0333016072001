"""What redis-py's Lock is in either face: its arguments and its errors."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from redis import exceptions as redis_errors

from interlock.errors import (
    ClosedError,
    ConfigError,
    HoldLostError,
    InterlockError,
    NotHeldError,
    ServerUnavailableError,
    WrongTypeError,
)
from interlock.options import check_name

if TYPE_CHECKING:
    from collections.abc import Generator


class _ThreadLocal(threading.local):
    token: bytes | None = None
    held: Any = None


class RedisLock:
    """What redis-py's Lock takes.

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
            raise ConfigError(f"the name of a lock must be UTF-8, not {name!r}") from error
        self.redis, self.name = redis, name
        self.timeout, self.sleep = timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = _ThreadLocal() if thread_local else SimpleNamespace(token=None, held=None)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Lock {self._name!r} token={self.local.token!r}>"

    def _error(self, message: str) -> redis_errors.LockError:
        return redis_errors.LockError(message, lock_name=self._name)

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Raise what redis-py raises; but a wrong call is a ConfigError."""
        try:
            yield
        except ConfigError:
            raise
        except (NotHeldError, HoldLostError, WrongTypeError) as error:
            raise redis_errors.LockNotOwnedError(str(error), lock_name=self._name) from error
        except (ServerUnavailableError, ClosedError) as error:
            refused = isinstance(error, ServerUnavailableError) and error.code
            kind = redis_errors.ResponseError if refused else redis_errors.ConnectionError
            raise kind(str(error)) from error
        except InterlockError as error:
            raise self._error(str(error)) from error


def bytes_of(token: Any) -> bytes:
    """Return a *token* as redis-py keeps it."""
    return token.encode() if isinstance(token, str) else bytes(token)


def text_of(token: str | bytes) -> str:
    """Return the holder id that *token* may be."""
    return bytes_of(token).decode(errors="replace")
