"""Locks in Celery: tasks that run once at a time.

The server is the setting ``interlock_url`` of the Celery application, else ``INTERLOCK_URL`` or
``REDIS_URL``, else the broker if its URL begins with ``redis://`` or ``rediss://``. The setting
``interlock_options`` is a dict of fields of `interlock.Options`.
"""

# Celery has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportPrivateUsage=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

import celery
import celery.exceptions
from celery import states
from celery.result import EagerResult
from celery.utils import uuid
from celery.utils.log import get_logger
from celery.utils.time import maybe_iso8601, maybe_make_aware

from interlock import errors
from interlock._naming import check_fields, naming
from interlock.options import Options, check_holds, check_lease, check_timeout, lease_within

# Not `interlock.connect`, which is loaded when it is first used: in each process of a pool, within
# a task's time limit.
from interlock.sync import connect

if TYPE_CHECKING:
    from interlock import Client, Hold
    from interlock.options import Duration

__all__ = ["Single", "client"]

_TICKET = "interlock_ticket"  # the header of a message whose sender has locked the task's lock
_CLIENT = "_interlock_client"  # the attribute of an application that has its client
_MODES = {"if_locked": ("skip", "wait", "retry"), "if_queued": ("send", "skip", "raise")}
_LOST_WORKER = 1.0  # seconds on top of a lease until the lock of a dead worker is certainly free
_logger: Any = get_logger(__name__)


def client(app: Any) -> Client:
    """Return the client of *app* in this process; connections are made when they are needed.

    Raises:
        ConfigError: the settings cannot work.
    """
    of_app: dict[str, Client] = vars(app)
    if _CLIENT in of_app:
        return of_app[_CLIENT]
    url, broker = app.conf.get("interlock_url"), app.conf.broker_url
    elsewhere = url or os.environ.get("INTERLOCK_URL") or os.environ.get("REDIS_URL")
    # Several brokers are a list, or one text with semicolons.
    single = isinstance(broker, str) and ";" not in broker
    if not elsewhere and single and broker.startswith(("redis://", "rediss://")):
        url = broker
    # Threads that come together share the first one's.
    return of_app.setdefault(_CLIENT, connect(url, options=_options(app)))


def _options(app: Any) -> Options:
    changes: dict[str, Any] = app.conf.get("interlock_options") or {}
    return Options().replace(**changes)


class Single(celery.Task):  # type: ignore[misc]  # Celery has no types
    """A task that holds a lock while it runs: ``@app.task(base=Single, lock="pay:{order_id}")``.

    Attributes:
        lock: the name; ``{...}`` stands for an argument of the task. None for the task's name.
        if_locked: what a task does that finds the lock taken. ``"skip"``: it ends at once with the
            result *otherwise*. ``"wait"``: it waits in the worker, for *lock_timeout* seconds or
            for ever, and then fails with AcquireTimeoutError. ``"retry"``: it goes back to the
            queue by Celery's own ``retry``, and in the end fails with AcquireTimeoutError.
        lock_timeout: for ``"wait"``.
        lock_lease: seconds after which a hold ends by itself; None for a hold that is renewed until
            the task ends.
        min_hold: seconds that the lock stays locked from the beginning of a task that ends earlier.
        max_hold: seconds after which a task loses the lock, even if it still runs; None for never.
        otherwise: the result of a task that was skipped.
        if_queued: what sending a task does if its lock is taken, because an equal task is in the
            queue or runs. ``"send"``: it sends the task, and *if_locked* decides in the worker.
            ``"skip"``: it sends nothing, and returns an `EagerResult` in the state REJECTED.
            ``"raise"``: it raises AcquireTimeoutError. With the last two, a task that is sent
            takes its lock at once.
        queue_lease: seconds after which a task that was sent, and not begun by a worker, leaves its
            lock. They count from its *countdown* or *eta*.

    A message that is delivered again, because a worker died, is not skipped at once. The dead
    worker's lock may still be there, so it waits for up to a lease.

    Raises:
        HoldLostError: the lock was lost while the task ran; the task fails with it.
    """

    abstract = True
    lock: str | None = None
    if_locked: Literal["skip", "wait", "retry"] = "skip"
    lock_timeout: Duration | None = None
    lock_lease: Duration | None = None
    min_hold: Duration = 0
    max_hold: Duration | None = None
    otherwise: Any = None
    if_queued: Literal["send", "skip", "raise"] = "send"
    queue_lease: Duration = 3600.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the settings of a task when it is defined."""
        super().__init_subclass__(**kwargs)
        _check_modes(cls)
        _ = check_timeout(blocking=True, timeout=cls.lock_timeout)
        _ = check_holds(cls.min_hold, cls.max_hold)
        for lease in (cls.lock_lease, cls.queue_lease):
            if lease is not None:
                _ = check_lease(lease)
        if cls.lock is not None:
            _ = naming(cls.lock, cls.run) if "run" in vars(cls) else check_fields(cls.lock)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task under its lock, in a worker or called as a function."""
        name = self._lock_name(args, kwargs)
        least, most = check_holds(self.min_hold, self.max_hold)
        lease = lease_within(most, self.lock_lease, _options(self.app))
        with self._block(name, lease) as hold:
            if hold:
                if most is not None:
                    hold._end_within(most)  # noqa: SLF001 - one package
                return self._run_under(hold, least, args, kwargs)
        if self.if_locked == "retry":
            raise self.retry(exc=errors.AcquireTimeoutError(f"{name!r} is in use", name=name))
        self._log("task.skipped", "%s was skipped: %r is in use", name)
        return self.otherwise

    def _block(self, name: str, lease: Duration | None) -> Any:
        """Return the block in which the task runs, whose hold is falsy if it must not."""
        ours = client(self.app)
        if (ticket := self.request.get(_TICKET)) is not None:
            # It cannot be adopted if the task was too long in the queue, or its worker has died.
            with contextlib.suppress(errors.NotHeldError, errors.ReentryError):
                return ours.adopt(ticket, lease=lease)
        if self.if_locked == "wait":
            return ours.lock(name, timeout=self.lock_timeout, lease=lease)
        own = _options(self.app).lease if self.lock_lease is None else self.lock_lease
        again = (self.request.delivery_info or {}).get("redelivered")
        patience = check_lease(own) + _LOST_WORKER if again else 0.0
        return ours.try_lock(name, timeout=patience, lease=lease)

    def _run_under(self, hold: Hold, least: float, args: Any, kwargs: Any) -> Any:
        """Run the task, and leave its lock locked until *least* seconds have passed."""
        until, self.request.interlock_hold = time.monotonic() + least, hold

        def keep(_: object, error: BaseException | None, __: object) -> None:
            rest = until - time.monotonic()
            if rest <= 0 or isinstance(error, celery.exceptions.Retry):
                return  # a retry must find the lock free, or has taken it along
            try:
                hold._leave_locked(rest)  # noqa: SLF001 - one package
            except errors.InterlockError:
                if error is None:
                    raise

        with contextlib.ExitStack() as ending:
            _ = ending.push(keep)
            return self.run(*args, **kwargs)

    def apply_async(  # pyright: ignore[reportIncompatibleMethodOverride]  # the rest by name
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None, **options: Any
    ) -> Any:
        """Send the task, unless *if_queued* forbids that; arguments as for Celery's tasks.

        Raises:
            AcquireTimeoutError: *if_queued* is ``"raise"``, and an equal task is queued or runs.
            InterlockError: as `interlock.Client.try_lock`. Nothing was sent.

        Cost:
            Two round trips, unless *if_queued* is ``"send"``.
        """
        app, send = cast("Any", self._get_app()), super().apply_async
        if self.if_queued == "send" or app.conf.task_always_eager:
            return send(args, kwargs, task_id=task_id, **options)
        name, lease = self._lock_name(tuple(args or ()), kwargs or {}), self._queue_time(options)
        ours, retried = client(app), task_id is not None and task_id == self.request.id
        ticket = self._take_along(lease) if retried else _lock_for(ours, name, lease)
        if ticket is None and not retried:
            if self.if_queued == "raise":
                raise errors.AcquireTimeoutError(f"{name!r} is queued or runs already", name=name)
            self._log("task.not_sent", "%s was not sent: %r is queued or runs already", name)
            return EagerResult(task_id or uuid(), self.otherwise, states.REJECTED, name=self.name)
        headers = {**(options.pop("headers", None) or {}), _TICKET: ticket}
        with contextlib.ExitStack() as unless_sent:
            if ticket is not None:
                unless_sent.callback(_free, ours, ticket)
            sent = send(args, kwargs, task_id=task_id, headers=headers, **options)
            unless_sent.pop_all()
        return sent

    def _take_along(self, lease: timedelta) -> str | None:
        """Return a ticket for the lock of the running task, which is tried again; None without."""
        hold = cast("Hold | None", self.request.get("interlock_hold"))
        with contextlib.suppress(errors.InterlockError):  # then it takes its lock when it runs
            return str(hold.hand_over(lease=lease)) if hold else None
        return None

    def _queue_time(self, options: dict[str, Any]) -> timedelta:
        """Return the time for which a task that is sent keeps its lock in the queue."""
        wait = float(options.get("countdown") or 0)
        if eta := options.get("eta"):
            at = cast("Any", maybe_make_aware)(maybe_iso8601(eta), self._get_app().timezone)
            wait = (at - datetime.now(UTC)).total_seconds()
        return timedelta(seconds=check_lease(self.queue_lease) + max(wait, 0.0))

    def _lock_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        _check_modes(self)  # they may have been set after the definition
        if self.lock is None:
            return cast("str", self.name)
        return naming(self.lock, self.run)(args, kwargs)

    def _log(self, event: str, text: str, name: str) -> None:
        _logger.info(text, self.name, name, extra={"event": event, "lock_name": name})


def _check_modes(task: Any) -> None:
    for name, modes in _MODES.items():
        if (found := getattr(task, name)) not in modes:
            known = f"{', '.join(modes[:-1])} or {modes[-1]}"
            raise errors.ConfigError(f"{name} is {known}, not {found!r}")


def _free(ours: Client, ticket: str) -> None:
    """Release the lock of a task that was not sent; without an answer it ends with its lease."""
    with contextlib.suppress(errors.InterlockError):
        ours.ticket(ticket).release()


def _lock_for(ours: Client, name: str, lease: timedelta) -> str | None:
    """Lock *name* for a task that is sent, and return the ticket; None if it is locked."""
    try:
        with ours.lock(name, reentrant=False).trying() as hold:
            return str(hold.hand_over(lease=lease)) if hold else None
    except errors.ReentryError:
        return None  # the running task sends one like itself
