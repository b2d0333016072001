"""APScheduler 3 in a fleet: one scheduler of many runs the jobs."""

# APScheduler has no types.
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import threading
from typing import TYPE_CHECKING, Any

from apscheduler.events import EVENT_SCHEDULER_SHUTDOWN
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers import SchedulerNotRunningError

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from interlock import Client, Hold

__all__ = ["Single"]

_RETRY = 1.0
_STANDBY = 2.0
_STOP_TIMEOUT = 10.0

_logger = logging.getLogger(__name__)


class Single:
    """Runs the jobs of *scheduler* only while this process holds a lock.

    ```python
    with Single(BackgroundScheduler(), client, "reports") as scheduler:
        scheduler.add_job(...)
    ```

    Every process starts its scheduler. One holds the lock; the others are paused. When it ends,
    another one takes over at once; when it dies, within a lease. A scheduler that loses the lock is
    paused: it starts no job any more, and jobs that run go on. A scheduler that is shut down gives
    the lock up.

    A job may fall due while no scheduler leads. If it is in a MemoryJobStore, it is not run then.
    In a job store that all processes share it is run late, within its ``misfire_grace_time``.

    Args:
        scheduler: of any class of APScheduler 3, not started yet. A BlockingScheduler you start
            yourself: call `start`, then ``scheduler.start(paused=True)``, then `stop`.
        client: who holds the lock.
        name: the lock.
    """

    def __init__(self, scheduler: Any, client: Client, name: str) -> None:
        self._scheduler = scheduler
        self._client = client
        self._name = name
        self._stopping = threading.Event()
        self._over = threading.Event()  # the present hold is lost, or is to be given up
        self._thread = threading.Thread(
            target=self._run, name=f"interlock-apscheduler-{name}", daemon=True
        )
        self._leading = threading.Event()

    def __enter__(self) -> Any:
        """Start the scheduler, paused until it leads, and return it."""
        self._scheduler.start(paused=True)
        self.start()
        return self._scheduler

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let another process take over, when the jobs that run have ended."""
        try:
            # The block may have shut it down.
            with contextlib.suppress(SchedulerNotRunningError):
                self._scheduler.shutdown()
        finally:
            self.stop()

    @property
    def leading(self) -> bool:
        """Whether the jobs run here."""
        return self._leading.is_set()

    def start(self) -> Self:
        """Begin to stand by for the lock, in a thread of its own."""
        # Told when the jobs that run have ended, if the caller of `shutdown` waits for them.
        self._scheduler.add_listener(self._shut_down, EVENT_SCHEDULER_SHUTDOWN)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Release the lock, and end the thread; the scheduler is not stopped."""
        self._stopping.set()
        self._over.set()
        self._thread.join(_STOP_TIMEOUT)

    def _shut_down(self, _event: object) -> None:
        self._over.set()

    def _run(self) -> None:
        failing = {"event": "scheduler.failing", "lock_name": self._name}
        while not self._stopping.is_set():
            try:
                if self._scheduler.running:
                    self._stand_by()
                    continue
            except InterlockError as error:
                _logger.warning(
                    "%r: cannot lead, and will try again: %s", self._name, error, extra=failing
                )
            except Exception:
                # A job store may raise anything.
                _logger.exception("%r: cannot lead, and will try again", self._name, extra=failing)
            self._stopping.wait(_RETRY)

    def _stand_by(self) -> None:
        """Wait for a while for the lock, and lead as long as it lasts."""
        with self._client.try_lock(self._name, timeout=_STANDBY) as hold:
            if not hold:
                return
            # A new event: what sets the former one does not end this lead.
            self._over = threading.Event()
            hold.on_lost(self._over.set)
            # It may be shut down at any time, also while this waited for the lock.
            if self._scheduler.running:
                with contextlib.suppress(SchedulerNotRunningError):
                    self._lead(hold)

    def _lead(self, hold: Hold) -> None:
        """Run the scheduler until *hold* is lost, or is to be given up."""
        try:
            self._skip_past_runs()
            self._scheduler.resume()
            self._leading.set()
            leading = {"event": "scheduler.leading", "lock_name": self._name}
            _logger.info("%r: leading", self._name, extra=leading)
            while hold and not self._stopping.is_set() and not self._over.wait(_STANDBY):
                pass
        finally:
            self._leading.clear()
            self._scheduler.pause()

    def _skip_past_runs(self) -> None:
        """Forget what fell due while another process led: its jobs in memory are not ours."""
        now = dt.datetime.now(dt.UTC)
        for job in self._scheduler.get_jobs():
            # APScheduler has no other way to ask.
            in_memory = isinstance(
                self._scheduler._lookup_jobstore(job._jobstore_alias),  # noqa: SLF001
                MemoryJobStore,
            )
            if in_memory and job.next_run_time is not None and job.next_run_time < now:
                following = job.trigger.get_next_fire_time(None, now)
                if following is not None and following > now:
                    job.modify(next_run_time=following)
