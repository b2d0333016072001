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

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers import SchedulerNotRunningError

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from interlock import Client

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
    paused: it starts no job any more, and jobs that run go on.

    What falls due while no scheduler leads is not run, if the job is in a MemoryJobStore. In a job
    store that all processes share it is run late, within the job's ``misfire_grace_time``.

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
        self._stopping, self._changed = threading.Event(), threading.Event()
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
        self._scheduler.shutdown()
        self.stop()

    @property
    def leading(self) -> bool:
        """Whether the jobs run here."""
        return self._leading.is_set()

    def start(self) -> Self:
        """Begin to stand by for the lock, in a thread of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Release the lock, and end the thread; the scheduler is not stopped."""
        self._stopping.set()
        self._changed.set()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._stand_by()
            except InterlockError as error:
                _logger.warning("%r: cannot lead, and will try again: %s", self._name, error)
                self._stopping.wait(_RETRY)

    def _stand_by(self) -> None:
        """Wait for a while for the lock, and lead as long as it lasts."""
        with self._client.try_lock(self._name, timeout=_STANDBY) as hold:
            if not hold:
                return
            hold.on_lost(self._changed.set)
            # A scheduler that has not been started yet, or is shut down, does not lead.
            with contextlib.suppress(SchedulerNotRunningError):
                self._skip_past_runs()
                self._scheduler.resume()
                self._leading.set()
                _logger.info("%r: leading", self._name)
                while hold and not self._stopping.is_set():
                    self._changed.wait(_STANDBY)
                    self._changed.clear()
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
