"""One APScheduler of many runs the jobs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from tests.hosts.pages import write_programs
from tests.support.patience import wait_until
from tests.support.renewal import renews_soon

import interlock
import interlock.apscheduler
from interlock.apscheduler import Single

if TYPE_CHECKING:
    from tests.hosts.host_process import Hosts

SOON = 30.0


def test_processes(hosts: Hosts) -> None:
    """Of two processes one runs the jobs; the other takes over when it is killed or stopped."""
    write_programs("apscheduler.md", hosts.directory)
    first = hosts.start("schedule", log="first.log")
    wait_until(lambda: hosts.log("first.log").count("written") >= 2, SOON, "the first one runs it")
    second = hosts.start("schedule", log="second.log")
    before = hosts.log("first.log").count("written")
    wait_until(
        lambda: hosts.log("first.log").count("written") > before + 10, SOON, "it still runs it"
    )
    assert hosts.log("second.log") == ""
    first.kill()
    wait_until(lambda: "written" in hosts.log("second.log"), SOON, "the second one takes over")
    third = hosts.start("schedule", log="third.log")
    second.send_signal(signal.SIGTERM)
    assert second.wait(SOON) == 0, hosts.log("second.log")
    wait_until(lambda: "written" in hosts.log("third.log"), SOON, "the third one takes over")
    third.send_signal(signal.SIGTERM)
    assert third.wait(SOON) == 0


def test_blocking_scheduler(hosts: Hosts) -> None:
    """A scheduler that blocks leads too, and ends with the program."""
    write_programs("apscheduler.md", hosts.directory)
    done = subprocess.run(
        [sys.executable, "blocking.py"],
        cwd=hosts.directory,
        env=hosts.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_loss(redis_url: str) -> None:
    """A scheduler that loses the lock is paused until it has the lock again."""
    with (
        renews_soon(interlock.connect(redis_url)) as client,
        interlock.connect(redis_url) as other,
    ):
        single = Single(BackgroundScheduler(), client, "it")
        with single as scheduler:
            wait_until(lambda: single.leading, SOON, "it leads")
            assert other.lock("it").force_release()
            with other.lock("it"):
                wait_until(lambda: not single.leading, SOON, "it is paused")
                ran = threading.Event()
                scheduler.add_job(ran.set, "interval", seconds=0.01)
                assert not ran.wait(0.1)
            assert ran.wait(SOON)
        assert not other.lock("it").locked()


def test_past_runs(redis_url: str) -> None:
    """A run that fell due while another process led is not repeated by the next leader."""
    runs: list[datetime] = []
    hour = timedelta(hours=1)
    with interlock.connect(redis_url) as client:
        single = Single(BackgroundScheduler(), client, "it")
        with client.lock("it", owner="another process"):
            # Added while another one leads; due long ago by the time that this one does.
            single._scheduler.start(paused=True)
            job = single._scheduler.add_job(
                lambda: runs.append(datetime.now(UTC)),
                "interval",
                hours=1,
                start_date=datetime.now(UTC) - hour / 2,
                misfire_grace_time=None,
            )
            job.modify(next_run_time=datetime.now(UTC) - hour / 2)
        single.start()
        wait_until(lambda: single.leading, SOON, "it leads")
        assert hour / 3 < job.next_run_time - datetime.now(UTC) < hour
        assert isinstance(single._scheduler._lookup_jobstore("default"), MemoryJobStore)
        single._scheduler.shutdown()
        single.stop()
    assert runs == []


def test_a_scheduler_that_starts_later(redis_url: str) -> None:
    """A scheduler that is not started leaves the lock alone, and leads when it is started."""
    scheduler = BackgroundScheduler()
    scheduler.add_job(lambda: None, "interval", hours=1)
    with interlock.connect(redis_url) as client:
        asked = Mock(wraps=client)
        single = Single(scheduler, asked, "it").start()
        time.sleep(0.2)  # a thread would have asked by then
        asked.try_lock.assert_not_called()
        scheduler.start(paused=True)
        wait_until(lambda: single.leading, SOON, "it leads")
        scheduler.shutdown()
        single.stop()
        assert not client.lock("it").locked()


def test_a_job_store_that_fails_once(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A scheduler whose job store fails when it takes over leads at the next try."""
    failed: list[OSError] = []

    class Store(MemoryJobStore):
        def get_all_jobs(self) -> Any:
            if not failed:
                failed.append(OSError("the database is away"))
                raise failed[0]
            return super().get_all_jobs()

    with interlock.connect(redis_url) as client:
        single = Single(BackgroundScheduler(jobstores={"default": Store()}), client, "it")
        with single:
            wait_until(lambda: single.leading, SOON, "it leads")
    [record] = [each for each in caplog.records if "cannot lead" in each.message]
    assert record.exc_info is not None
    assert record.exc_info[1] is failed[0]


def test_shutdown_inside_the_block(redis_url: str) -> None:
    """A scheduler that is shut down inside its block gives the lock up there."""
    with interlock.connect(redis_url) as client:
        single = Single(BackgroundScheduler(), client, "it")
        with single as scheduler:
            wait_until(lambda: single.leading, SOON, "it leads")
            scheduler.shutdown()
            wait_until(lambda: not single.leading, SOON, "it leads no more")
            wait_until(lambda: not client.lock("it").locked(), SOON, "the lock is free")


def test_shutdown_that_waits(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is kept until `shutdown` has waited for the jobs that run."""
    monkeypatch.setattr(interlock.apscheduler, "_STANDBY", 0.02)
    began, end = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        end.wait(SOON)

    with interlock.connect(redis_url) as client:
        single = Single(BackgroundScheduler(), client, "it")
        with single as scheduler:
            wait_until(lambda: single.leading, SOON, "it leads")
            # Not a job of one run: a shutdown meanwhile keeps APScheduler from removing it.
            scheduler.add_job(work, "interval", hours=1, next_run_time=datetime.now(UTC))
            assert began.wait(SOON)
            stopping = threading.Thread(target=scheduler.shutdown)
            stopping.start()
            wait_until(lambda: not scheduler.running, SOON, "it is shut down")
            assert single.leading
            assert client.lock("it").locked()
            end.set()
            stopping.join(SOON)
            wait_until(lambda: not client.lock("it").locked(), SOON, "the lock is free")


def test_shutdown_that_is_interrupted(redis_url: str) -> None:
    """A Ctrl-C while the block waits for the jobs that run releases the lock all the same."""

    class Interrupted(BackgroundScheduler):
        def shutdown(self, wait: bool = True) -> None:
            super().shutdown(wait)
            raise KeyboardInterrupt

    with interlock.connect(redis_url) as client:
        single = Single(Interrupted(), client, "it")
        with pytest.raises(KeyboardInterrupt), single:
            wait_until(lambda: single.leading, SOON, "it leads")
        assert not single._thread.is_alive()
        assert not client.lock("it").locked()


def test_asyncio_scheduler(redis_url: str) -> None:
    """A scheduler of an event loop leads too."""

    async def main(client: interlock.Client) -> None:
        ran = asyncio.Event()

        async def run() -> None:
            ran.set()

        with Single(AsyncIOScheduler(), client, "it") as scheduler:
            scheduler.add_job(run, "interval", seconds=0.01)
            async with asyncio.timeout(SOON):
                await ran.wait()

    with interlock.connect(redis_url) as client:
        asyncio.run(main(client))
        assert not client.lock("it").locked()
