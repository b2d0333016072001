"""Locks in Celery: tasks that run once at a time, and a beat that runs once in a fleet.

The server is the setting ``interlock_url`` of the Celery application, else ``INTERLOCK_URL`` or
``REDIS_URL``, else the broker if its URL begins with ``redis://`` or ``rediss://``. The setting
``interlock_options`` is a dict of fields of `interlock.Options`.
"""

# Celery has no types.
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

import celery
import celery.exceptions
import redis
from celery import states
from celery.beat import Scheduler
from celery.result import EagerResult
from celery.utils import uuid
from celery.utils.log import get_logger
from celery.utils.time import maybe_iso8601, maybe_make_aware

from interlock._naming import check_fields, naming
from interlock.errors import (
    AcquireTimeoutError,
    ConfigError,
    HoldLostError,
    InterlockError,
    NotHeldError,
    ReentryError,
)
from interlock.options import Options, check_holds, check_lease, check_timeout, lease_within

# Not `interlock.connect`, which is loaded when it is first used: in each process of a pool, within
# a task's time limit.
from interlock.sync import connect

if TYPE_CHECKING:
    from interlock import Client, Hold
    from interlock.options import Duration

__all__ = ["Beat", "Single", "SingleBeat", "client"]

_STANDBY = 2.0
"""Seconds that a beat waits for the lock before it looks whether it is to stop."""
_RETRY = 1.0
_TICKET = "interlock_ticket"
"""The header of a message whose sender has locked the task's lock."""
_MODES = {"if_locked": ("skip", "wait", "retry"), "if_queued": ("send", "skip", "raise")}
_RECORD_TIMEOUT = 3.0
_FORGET = 30 * 86400.0
"""Seconds after which the last run of a task that is in no schedule is forgotten."""

_logger: Any = get_logger(__name__)
_making = threading.Lock()
_clients: weakref.WeakKeyDictionary[Any, Client] = weakref.WeakKeyDictionary()


def _after_fork() -> None:
    """Unlock the lock in the child: a thread of the parent may have it."""
    global _making  # noqa: PLW0603 - no thread of this process has it
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork)


def client(app: Any) -> Client:
    """Return the client of *app* in this process; connections are made when they are needed.

    Raises:
        ConfigError: the settings cannot work.
    """
    with _making:
        if app not in _clients:
            _clients[app] = connect(_url(app), options=_options(app))
        return _clients[app]


def _url(app: Any) -> str | None:
    given = app.conf.get("interlock_url")
    if given or os.environ.get("INTERLOCK_URL") or os.environ.get("REDIS_URL"):
        return cast("str | None", given)
    broker = app.conf.broker_url
    usable = isinstance(broker, str) and broker.startswith(("redis://", "rediss://"))
    return broker if usable and ";" not in broker else None


def _options(app: Any) -> Options:
    changes = cast("dict[str, Any]", app.conf.get("interlock_options") or {})
    return Options().replace(**changes)


class Single(celery.Task):  # type: ignore[misc]  # Celery has no types
    """A task that holds a lock while it runs: ``@app.task(base=Single, lock="pay:{order_id}")``.

    Set these as arguments of ``@app.task`` or as attributes of a subclass.

    Attributes:
        lock: the name of the lock; ``{...}`` stands for an argument of the task. None for the
            task's name.
        if_locked: what a task does that finds the lock taken. ``"skip"``: it ends at once with the
            result *otherwise*. ``"wait"``: it waits in the worker. ``"retry"``: it goes back to the
            queue by Celery's own ``retry``, with the task's ``default_retry_delay`` and
            ``max_retries``; in the end it fails with AcquireTimeoutError.
        lock_timeout: seconds that ``"wait"`` waits before the task fails with AcquireTimeoutError;
            None for ever.
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

    @classmethod
    def _check_modes(cls) -> None:
        for name, modes in _MODES.items():
            if (found := getattr(cls, name)) not in modes:
                raise ConfigError(
                    f"{name} is {', '.join(modes[:-1])} or {modes[-1]}, not {found!r}"
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task under its lock, in a worker or called as a function."""
        _check_modes(self)  # they may have been set after the definition
        name, ours = self._lock_name(args, kwargs), client(self.app)
        least, most = check_holds(self.min_hold, self.max_hold)
        lease = lease_within(most, self.lock_lease, _options(self.app))
        with self._block(ours, name, lease) as hold:
            if hold:
                if most is not None:
                    hold._end_within(most)  # noqa: SLF001 - one package
                return self._run_under(hold, least, args, kwargs)
        if self.if_locked == "retry":
            raise self.retry(exc=AcquireTimeoutError(f"{name!r} is in use", name=name))
        skipped = {"event": "task.skipped", "lock_name": name}
        _logger.info("%s was skipped: %r is in use", self.name, name, extra=skipped)
        return self.otherwise

    def _block(self, ours: Client, name: str, lease: Duration | None) -> Any:
        """Return the block in which the task runs, whose hold is falsy if it must not."""
        ticket = self.request.get(_TICKET)
        if ticket is not None:
            # The task was too long in the queue, or its first worker has died.
            with contextlib.suppress(NotHeldError, ReentryError):
                return ours.adopt(ticket, lease=lease)
        if self.if_locked == "wait":
            return ours.lock(name, timeout=self.lock_timeout, lease=lease)
        return ours.try_lock(name, timeout=self._patience(), lease=lease)

    def _run_under(
        self, hold: Hold, least: float, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        began, self.request.interlock_hold = time.monotonic(), hold
        try:
            result = self.run(*args, **kwargs)
        except celery.exceptions.Retry:
            raise  # it must find the lock free, or has taken it along
        except BaseException:
            with contextlib.suppress(InterlockError):
                _keep_locked(hold, began + least)
            raise
        _keep_locked(hold, began + least)
        return result

    def apply_async(  # pyright: ignore[reportIncompatibleMethodOverride]  # the rest by name
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None, **options: Any
    ) -> Any:
        """Send the task, unless *if_queued* forbids that; arguments as for Celery's tasks.

        Raises:
            AcquireTimeoutError: an equal task is in the queue or runs, and *if_queued* is
                ``"raise"``.
            InterlockError: as `interlock.Client.try_lock`. Nothing was sent.

        Cost:
            Two round trips, unless *if_queued* is ``"send"``.
        """
        _check_modes(self)
        app, send = cast("Any", self._get_app()), super().apply_async
        if self.if_queued == "send" or app.conf.task_always_eager:
            return send(args, kwargs, task_id=task_id, **options)
        name, lease = self._lock_name(tuple(args or ()), kwargs or {}), self._queue_time(options)
        headers = dict(options.pop("headers", None) or {})
        headers.pop(_TICKET, None)
        if task_id is not None and task_id == self.request.id:
            ticket = self._take_along(lease)
        elif (ticket := _ticket_of(client(app), name, lease)) is None:
            if self.if_queued == "raise":
                raise AcquireTimeoutError(f"{name!r} is queued or runs already", name=name)
            unsent = {"event": "task.not_sent", "lock_name": name}
            _logger.info(
                "%s was not sent: %r is queued or runs already", self.name, name, extra=unsent
            )
            return EagerResult(task_id or uuid(), self.otherwise, states.REJECTED, name=self.name)
        if ticket is not None:
            headers[_TICKET] = ticket
        try:
            return send(args, kwargs, task_id=task_id, headers=headers, **options)
        except BaseException:
            if ticket is not None:
                with contextlib.suppress(InterlockError):
                    client(app).ticket(ticket).release()
            raise

    def _take_along(self, lease: float) -> str | None:
        """Return a ticket for the lock of the running task, which is sent again; None without."""
        hold = cast("Hold | None", self.request.get("interlock_hold"))
        with contextlib.suppress(InterlockError):
            return hold.hand_over(lease=timedelta(seconds=lease)) if hold else None
        return None  # the task takes its lock when it runs

    def _queue_time(self, options: dict[str, Any]) -> float:
        """Return the seconds for which a task that is sent keeps its lock in the queue."""
        wait, app = float(options.get("countdown") or 0), self._get_app()
        if eta := options.get("eta"):
            at = cast("Any", maybe_make_aware)(maybe_iso8601(eta), app.timezone)
            wait = (at - datetime.now(UTC)).total_seconds()
        return check_lease(self.queue_lease) + max(wait, 0.0)

    def _lock_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if self.lock is None:
            return cast("str", self.name)
        return naming(self.lock, self.run)(args, kwargs)

    def _patience(self) -> float:
        """Return the seconds that a dead worker of the same message may keep the lock."""
        delivery = cast("dict[str, Any]", self.request.delivery_info or {})
        if not delivery.get("redelivered"):
            return 0.0
        lease = _options(self.app).lease if self.lock_lease is None else self.lock_lease
        return check_lease(lease) + _RETRY


def _check_modes(task: Any) -> None:
    for name, modes in _MODES.items():
        if (found := getattr(task, name)) not in modes:
            raise ConfigError(f"{name} is {', '.join(modes[:-1])} or {modes[-1]}, not {found!r}")


def _keep_locked(hold: Hold, until: float) -> None:
    """Leave the lock of *hold* locked until the time *until*, if that has not come."""
    rest = until - time.monotonic()
    if rest > 0:
        hold._leave_locked(rest)  # noqa: SLF001 - one package


def _ticket_of(ours: Client, name: str, lease: float) -> str | None:
    """Lock *name* for a task that is sent, and return the ticket; None if it is locked."""
    try:
        with ours.lock(name, reentrant=False).trying() as hold:
            return hold.hand_over(lease=timedelta(seconds=lease)) if hold else None
    except ReentryError:
        return None  # the running task sends one like itself


class SingleBeat:
    """Makes a scheduler run once in a fleet: ``class Mine(SingleBeat, DatabaseScheduler)``.

    Start as many beats as you like. One holds the lock and sends the tasks that are due; the others
    stand by. When it ends, another one takes over at once; when it dies, within a lease. A beat
    that lost the lock sends nothing from then on, and stands by.

    The scheduler must keep the times of the last runs where all beats find them: in a database, or
    in Redis. `Beat` does. Celery's own PersistentScheduler does not: its file is of one machine.

    The name of the lock is the setting ``interlock_beat``, else ``"celery-beat"``.
    """

    app: Any
    _hold: Hold | None = None
    _closed = False

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send one due task if this beat leads; return the seconds until the next call.

        Cost:
            No round trip of its own while it leads.
        """
        if self._closed:
            # Celery's signal handler closes the scheduler and raises SystemExit. If that strikes
            # while a task is sent, the transport may swallow it.
            raise SystemExit
        if not self._hold:
            try:
                if not self._take_over():
                    return 0.0
            except (InterlockError, redis.RedisError) as error:
                _logger.warning(
                    "beat: cannot take over, and will try again: %s",
                    error,
                    extra={"event": "beat.failing"},
                )
                return _RETRY
        return cast("float", cast("Any", super()).tick(*args, **kwargs))

    def took_over(self) -> None:
        """Prepare to send tasks: a subclass loads the times of the last runs here."""

    def close(self) -> None:
        """Close the scheduler, and let another beat take over."""
        self._closed = True
        try:
            cast("Any", super()).close()
        finally:
            hold, self._hold = self._hold, None
            if hold is not None:
                # It ends with its lease if the server is not there.
                with contextlib.suppress(InterlockError):
                    hold.release()

    def _take_over(self) -> bool:
        """Wait for a while to become the one that leads; return whether it does."""
        if self._hold is not None:
            lost_lead = {"event": "beat.lost", "lock_name": self._hold.name}
            _logger.error("beat: %r was lost; standing by", self._hold.name, extra=lost_lead)
            lost, self._hold = self._hold, None
            with contextlib.suppress(HoldLostError):
                lost.release()
        name = self.app.conf.get("interlock_beat") or "celery-beat"
        hold = client(self.app).try_lock(name, timeout=_STANDBY)
        if not hold:
            return False
        try:
            self.took_over()
        except BaseException:
            hold.release()
            raise
        self._hold = hold
        leading = {"event": "beat.leading", "lock_name": name}
        _logger.info("beat: leading, by the lock %r", name, extra=leading)
        return True


class Beat(SingleBeat, Scheduler):  # type: ignore[misc]  # Celery has no types
    """Runs once in a fleet: ``celery -A app beat --scheduler interlock.celery:Beat``.

    It takes the schedule from ``beat_schedule`` and keeps the times of the last runs in Redis, in a
    hash named like the lock and ``:runs``. So the beat that takes over sends what fell due
    meanwhile, late and once. A beat notes a run, and then sends the task: one that dies between the
    two has not sent it. The last run of a task that is not in the schedule any more is removed
    after 30 days.

    Cost:
        One round trip for each task that is sent.
    """

    _record: redis.Redis | None = None

    def took_over(self) -> None:
        """Take over the times of the last runs."""
        record, key, schedule = self._runs(), self._key, cast("dict[str, Any]", self.schedule)
        noted = cast("dict[bytes, bytes]", record.hgetall(key))
        for field, text in noted.items():
            last_run = datetime.fromisoformat(text.decode())
            if (entry := schedule.get(field.decode())) is not None:
                entry.last_run_at = last_run
            elif time.time() - last_run.timestamp() > _FORGET:
                # A younger one may be of a task that a newer program has, and this one has not yet.
                record.hdel(key, field.decode())
        for name, entry in schedule.items():
            # The next beat is to know since when a task waits for its first run.
            record.hsetnx(key, name, entry.last_run_at.isoformat())
        self._heap = None

    def reserve(self, entry: Any) -> Any:
        """Note that *entry* runs now, before it is sent."""
        following = cast("Any", super()).reserve(entry)
        try:
            self._runs().hset(self._key, entry.name, following.last_run_at.isoformat())
        except redis.RedisError:
            # It has not run, and the beat that takes over must not think so.
            cast("dict[str, Any]", self.schedule)[entry.name] = entry
            raise
        return following

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send one due task if this beat leads; return the seconds until the next call."""
        try:
            return super().tick(*args, **kwargs)
        except redis.RedisError as error:
            _logger.warning(
                "beat: cannot note a run, and will try again: %s",
                error,
                extra={"event": "beat.run_unknown"},
            )
            self._heap = None
            return _RETRY

    def close(self) -> None:
        """Close the scheduler, and let another beat take over."""
        super().close()
        if self._record is not None:
            self._record.close()

    @property
    def info(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # Celery says ''
        """Return what Celery shows when beat starts."""
        return f"    . lock -> {self._key.removesuffix(':runs')}"

    @property
    def _key(self) -> str:
        return f"{self.app.conf.get('interlock_beat') or 'celery-beat'}:runs"

    def _runs(self) -> redis.Redis:
        if self._record is None:
            url = _url(self.app) or os.environ.get("INTERLOCK_URL") or os.environ.get("REDIS_URL")
            if url is None or not url.startswith(("redis://", "rediss://", "unix://")):
                raise ConfigError(
                    "interlock.celery.Beat keeps its runs on a redis://, rediss:// or unix://"
                    " server: set interlock_url; elsewhere use SingleBeat on a database's scheduler"
                )
            self._record = redis.Redis.from_url(
                url,
                socket_timeout=_RECORD_TIMEOUT,
                socket_connect_timeout=_RECORD_TIMEOUT,
            )
        return self._record
