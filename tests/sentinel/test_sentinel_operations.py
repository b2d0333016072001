"""Operations behind Sentinel: the commands find and break a hold, and a deadlock is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.operations.on_call import find_a_deadlock, operate

if TYPE_CHECKING:
    import pytest
    from tests.support.servers import SentinelServers


def test_a_hold_is_found_and_broken(
    bed: SentinelServers, capsys: pytest.CaptureFixture[str]
) -> None:
    """list, top and show ask the primary; release breaks one hold, and its holder is told."""
    operate(bed.url(), capsys)


def test_a_deadlock_is_found(bed: SentinelServers) -> None:
    """Two clients that wait for each other are found."""
    find_a_deadlock(bed.url())
