"""APScheduler 3 in a fleet: start this in every process, and one of them runs the jobs.

The process that holds the lock starts a scheduler. When it ends, another one takes over at once;
when it dies, within a lease. A process that loses the lock starts no job any more. If a job that
still runs must not overlap with a job of the next leader, let it take a lock of its own.

Jobs in a MemoryJobStore, as here, are scheduled anew by each leader. Give the scheduler a job store
that all processes share if a run that falls due between two leaders must still take place.
"""

import os
import signal
import threading

from apscheduler.schedulers.background import BackgroundScheduler

import interlock

stop = threading.Event()


def report() -> None:
    """Do the work that must be done once in the fleet."""
    print("written by", os.getpid(), flush=True)


def lead(hold: interlock.Hold) -> None:
    """Run the jobs until *hold* is lost, or the process is to stop."""
    scheduler = BackgroundScheduler()
    scheduler.add_job(report, "interval", seconds=0.2)
    scheduler.start()
    try:
        while hold and not stop.wait(0.2):
            pass
    finally:
        scheduler.shutdown()  # waits for the jobs that run


def main() -> None:
    """Stand by for the lock, and lead whenever this process has it."""
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with interlock.connect(os.environ["INTERLOCK_URL"], lease=2) as client:
        while not stop.is_set():
            try:
                with client.try_lock("reports", timeout=2) as hold:
                    if hold:
                        lead(hold)
            except interlock.HoldLostError as lost:
                print(lost, flush=True)


main()
