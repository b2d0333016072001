"""A Ctrl-C anywhere in a call that takes permits, and a second one while the first is undone."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.lock.interrupting import STRUCK, Blow, SecondBlow
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable

PERMITS = 3
APART = 40
"""Calls after which a second Ctrl-C comes, at most."""


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("take", ["acquire", "with", "drain", "leased"])
def test_ctrl_c_anywhere_loses_no_permit(
    redis_url: str, take: str, twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever Ctrl-C strikes before the caller has its permits, they are free again."""
    second = SecondBlow(monkeypatch, *(STRUCK if twice else ()))
    with interlock.connect(redis_url, lease=60) as client:
        plain, leased = client.semaphore("name"), client.leased_semaphore("leased")
        plain.try_set_permits(PERMITS)
        leased.try_set_permits(PERMITS)

        def enter() -> bool:
            plain.__enter__()
            return True

        calls: dict[str, Callable[[], object]] = {
            "acquire": plain.acquire,
            "with": enter,
            "drain": plain.drain_permits,
            "leased": lambda: leased.acquire(lease=60),
        }
        call, semaphore = calls[take], leased if take == "leased" else plain
        taken = PERMITS if take == "drain" else 1

        def give_back(told: object) -> None:
            if isinstance(told, interlock.Permit):
                told.release()
            elif told:
                plain.release(taken)

        give_back(call())  # the server knows the scripts from now on
        blow = Blow(1, returns=False)
        while blow.struck:
            # Each distance comes now and then.
            second.after(blow, blow.at * 7 % APART + 1)
            told: object = None
            with contextlib.suppress(KeyboardInterrupt), blow:
                told = call()
            give_back(told)
            wait_until(
                lambda: semaphore.available_permits() == PERMITS, 5, f"{blow} loses no permit"
            )
            blow = blow.next()
        assert blow.at > 30
