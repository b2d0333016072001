"""The log of a client: the logger ``interlock``, with the name and the figures of each event."""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import take_turn
from tests.observe.conftest import logged
from tests.support.patience import GIVE_UP
from tests.support.program import run

import interlock
from interlock import ConfigError, HoldLostError, Options

if TYPE_CHECKING:
    from interlock import Client


def test_slow_waits_and_holds_are_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """A long wait is a warning that names the holder, and a long hold is a warning."""
    with client.lock("orders") as hold:
        holder = hold.holder
        waiter = threading.Thread(target=take_turn, args=(client.lock("orders"), GIVE_UP))
        waiter.start()
        slow, long = logged(caplog, "lock.slow_acquire"), logged(caplog, "lock.slow_hold")
    waiter.join()
    assert slow.levelno == long.levelno == logging.WARNING
    assert f"for lock 'orders', held by {holder}" in slow.getMessage()
    assert vars(slow)["held_by"] == (holder,)
    assert vars(long)["lock_name"] == "orders"
    assert vars(long)["seconds"] >= 0.2


def test_late_renewals_are_logged(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A call that keeps the interpreter lock delays renewals, and the warning says what helps."""

    def stand_still() -> None:
        ctypes.PyDLL(None).usleep(2_200_000)

    with interlock.connect(redis_url, lease=3) as client:
        assert client.lock("orders").acquire(lease=10)  # it is not renewed
        stand_still()
    with (
        interlock.connect(redis_url, lease=3) as client,
        suppress(HoldLostError),
        client.lock("report"),
    ):
        time.sleep(0.5)  # the thread that renews has begun to wait
        stand_still()
        late = logged(caplog, "renewal.late")
    assert late.levelno == logging.WARNING
    assert "a lease that is at least twice as long" in late.getMessage()
    assert vars(late)["seconds"] > 0.5


def test_nothing_is_written_without_a_handler(redis_url: str) -> None:
    """A program that does not set up logging sees nothing on its standard error."""
    program = (
        "import interlock\n"
        f"with interlock.connect({redis_url!r}) as client:\n"
        "    with client.lock('quiet'): pass\n"
        "    client.lock('broken').acquire()\n"
        "    client.lock('broken').force_release()\n"
    )
    ran = run(sys.executable, "-c", program)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("value", [0, -1, float("nan"), "5", True])
@pytest.mark.parametrize("name", ["slow_acquire", "slow_hold"])
def test_thresholds_are_checked(name: str, value: object) -> None:
    """A threshold is None or seconds above 0; everything else is refused with its name."""
    with pytest.raises(ConfigError, match=f"{name} must be None or seconds above 0"):
        Options(**{name: value})  # type: ignore[arg-type]
