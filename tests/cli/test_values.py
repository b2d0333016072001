"""The values that options take, read from text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from interlock.cli import values
from interlock.cli.status import UsageError
from interlock.cli.values import Limit, OnLost

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = [
    (values.boolean, "Yes", True),
    (values.boolean, "0", False),
    (values.seconds, "0", 0.0),
    (values.seconds, "0.5", 0.5),
    (values.positive_seconds, "5", 5.0),
    (values.lease, "30", 30.0),
    (values.exit_code, "255", 255),
    (values.on_lost, "kill", OnLost.KILL),
    (values.positive_number, "1", 1),
    (values.limit, "2147483647", Limit(2**31 - 1)),
]
BAD = [
    (values.boolean, "maybe", "wanted 1 or 0"),
    (values.seconds, "-1", "wanted seconds"),
    (values.seconds, "nan", "wanted seconds"),
    (values.seconds, "inf", "wanted seconds"),
    (values.seconds, "soon", "wanted seconds"),
    (values.positive_seconds, "0", "above 0"),
    (values.lease, "0", "lease"),
    (values.exit_code, "256", "wanted 0 to 255"),
    (values.exit_code, "-1", "wanted 0 to 255"),
    (values.exit_code, "²", "wanted 0 to 255"),
    (values.on_lost, "stop", "wanted term, kill or warn"),
    (values.positive_number, "0", "wanted a number from 1 on"),
    (values.positive_number, "-1", "wanted a number from 1 on"),
    (values.limit, "0", "wanted a number from 1 on"),
    (values.limit, "2147483648", "wanted a number from 1 on"),
    (values.limit, "9" * 5000, "wanted a number from 1 on"),
]


@pytest.mark.parametrize(("read", "text", "value"), GOOD)
def test_a_value_is_read(read: Callable[[str], object], text: str, value: object) -> None:
    """Text of the right sort becomes its value."""
    assert read(text) == value


@pytest.mark.parametrize(("read", "text", "error"), BAD)
def test_a_wrong_value_is_refused(read: Callable[[str], object], text: str, error: str) -> None:
    """Any other text is refused with what was wanted."""
    with pytest.raises(argparse.ArgumentTypeError, match=error):
        read(text)


def test_two_variables_for_the_urls_exclude_each_other() -> None:
    """Every command refuses both, as `interlock run` does, also if there is no such file."""
    both = {"INTERLOCK_URL": "redis://one", "INTERLOCK_URL_FILE": "/nonexistent"}
    with pytest.raises(UsageError, match="INTERLOCK_URL_FILE and INTERLOCK_URL exclude"):
        values.urls_of(both)
    assert values.urls_of({**both, "INTERLOCK_URL_FILE": ""}) == ["redis://one"]
