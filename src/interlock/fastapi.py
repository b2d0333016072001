"""Locks in FastAPI and Starlette: a lifespan with one client per process, and a dependency.

FastAPI itself is not imported: with Starlette alone, `Locked.of` takes the place of the dependency.
"""

# No `from __future__ import annotations`: FastAPI could not read the annotations of a dependency
# that is an object.
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypedDict, Unpack

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

import interlock.asyncio
from interlock._core.objects.number import check_permits
from interlock._naming import check_fields
from interlock.asyncio import Client, Hold
from interlock.errors import AcquireTimeoutError, ConfigError
from interlock.options import OptionChanges, Options, check_lease, check_timeout

__all__ = ["Limited", "Locked", "State", "client", "lifespan"]


_ERRORS = range(400, 600)


class State(TypedDict):
    """What the lifespan adds to the state of every request.

    Attributes:
        interlock: the client of this process.
    """

    interlock: Client


def lifespan(
    url: str | None = None, **options: Unpack[OptionChanges]
) -> Callable[[Any], AbstractAsyncContextManager[State]]:
    """Return a lifespan for ``FastAPI(lifespan=...)`` or ``Starlette(lifespan=...)``.

    Each worker process has one client. It is closed, and releases what it still holds, when the
    application ends. A lifespan of your own enters it: ``async with lifespan(url)(app) as state``.

    Args:
        url: the server, as for `interlock.connect`.
        **options: single fields of `interlock.Options`.

    Raises:
        ConfigError: a URL or an option that cannot work.
    """
    checked = Options().replace(**options)
    if url is not None:
        _ = interlock.asyncio.connect(url, options=checked)  # nothing is connected yet

    @contextlib.asynccontextmanager
    async def opened(app: Any) -> AsyncGenerator[State]:
        async with interlock.asyncio.connect(url, options=checked) as connected:
            app.state.interlock = connected  # httpx's transport hands no lifespan's state on
            yield State(interlock=connected)

    return opened


def client(request: HTTPConnection) -> Client:
    """Return the client of this process; in FastAPI a dependency: ``Depends(client)``.

    Raises:
        ConfigError: the application has no such lifespan, or it has not begun.
    """
    of_app = request.app.state if "app" in request.scope else None
    found = getattr(request.state, "interlock", None) or getattr(of_app, "interlock", None)
    if not isinstance(found, Client):
        raise ConfigError(
            "this application has no interlock client: pass"
            " lifespan=interlock.fastapi.lifespan(url), and in tests use `with TestClient(app)`, or"
            " `async with app.router.lifespan_context(app)`"
        )
    return found


class Locked:
    """Holds a lock while a request is handled: ``Depends(Locked("orders:{id}"))``.

    The endpoint gets the `Hold`. The lock is released when the response has been sent, or as early
    as FastAPI leaves dependencies. If it was lost meanwhile, that is an error in the server's log;
    an endpoint that must know calls ``hold.ensure()`` before it changes anything.

    Args:
        name: the lock. ``{...}`` stands for a path parameter of the request.
        timeout: seconds that a request waits; 0 for one try.
        lease: seconds after which the hold ends by itself; None for a hold that is renewed.
        on_timeout: the status of the response if the lock was not acquired in time.

    Raises:
        ConfigError: *name* is no template for a name, *timeout* or *lease* cannot be, or
            *on_timeout* is not the status of an error.

    Cost:
        Two round trips for each request if the lock is free.
    """

    def __init__(
        self, name: str, *, timeout: float = 3.0, lease: float | None = None, on_timeout: int = 423
    ) -> None:
        _ = check_fields(name)
        _ = check_timeout(blocking=True, timeout=timeout)
        if lease is not None:
            _ = check_lease(lease)
        if on_timeout not in _ERRORS:
            raise ConfigError(f"on_timeout must be a status from 400 to 599, not {on_timeout!r}")
        self._name, self._timeout, self._lease, self._status = name, timeout, lease, on_timeout

    async def __call__(self, request: HTTPConnection) -> AsyncGenerator[Hold]:
        """Hold the lock; FastAPI calls this."""
        async with self.of(request) as hold:
            yield hold

    @contextlib.asynccontextmanager
    async def of(self, request: HTTPConnection) -> AsyncGenerator[Hold]:
        """Hold the lock in an ``async with`` block, for Starlette.

        Raises:
            HTTPException: with the status *on_timeout*, if the lock was not acquired in time.
            ConfigError: there is no client, or a parameter that the request does not have.
            ServerUnavailableError: no usable answer in time.
        """
        try:
            name = self._name.format_map(request.path_params)
        except KeyError as error:
            raise ConfigError(
                f"{self._name!r} asks for {error}, but the path has"
                f" {', '.join(request.path_params) or 'no parameters'}"
            ) from error
        lock = self._entrance(client(request), name)
        async with contextlib.AsyncExitStack() as stack:
            # Only what this lock raises becomes a response: the body may take other locks.
            try:
                hold = await stack.enter_async_context(lock)
            except AcquireTimeoutError as error:
                raise HTTPException(
                    self._status, f"{name!r} is in use", {"Retry-After": "1"}
                ) from error
            yield hold

    def _entrance(self, of: Client, name: str) -> AbstractAsyncContextManager[Hold]:
        return of.lock(name, timeout=self._timeout, lease=self._lease)


class Limited(Locked):
    """Lets at most *n* requests run at once in all processes: ``Depends(Limited("reports", 5))``.

    The endpoint gets the `Permit`. The other arguments are as for `Locked`.

    Args:
        name: what is limited. ``{...}`` stands for a path parameter of the request.
        n: how many requests may run at once. See `Client.limited` for a number that changes.
        timeout: seconds that a request waits; 0 for one try.
        lease: seconds after which the permit ends by itself; None for one that is renewed.
        on_timeout: the status of the response if there was no permit in time.

    Raises:
        ConfigError: as for `Locked`.
        TypeError: *n* is not an int.
        ValueError: *n* is less than 1.

    Cost:
        Two round trips for each request if a permit is free.
    """

    def __init__(
        self,
        name: str,
        n: int,
        *,
        timeout: float = 3.0,
        lease: float | None = None,
        on_timeout: int = 503,
    ) -> None:
        super().__init__(name, timeout=timeout, lease=lease, on_timeout=on_timeout)
        self._n = check_permits(n)

    def _entrance(self, of: Client, name: str) -> AbstractAsyncContextManager[Hold]:
        fixed = name.replace("{", "{{").replace("}", "}}")
        return of.limited(fixed, self._n, timeout=self._timeout, lease=self._lease)
