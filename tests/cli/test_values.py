"""The values that options take, read from text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from interlock.cli import values

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = [
    (values.duration, "0", 0.0),
    (values.duration, "0.5", 0.5),
    (values.duration, "90", 90.0),
    (values.duration, "90s", 90.0),
    (values.duration, "5m", 300.0),
    (values.duration, "1.5h", 5400.0),
    (values.positive_duration, "5", 5.0),
    (values.lease, "30", 30.0),
    (values.exit_code, "255", 255),
    (values.limit, "1", 1),
    (values.limit, "2147483647", 2**31 - 1),
]
BAD = [
    *(
        (values.duration, text, "wanted a duration")
        for text in ("-1", "nan", "inf", "1e300", "soon", "", "m", "5 minutes", "1d", "5ms")
    ),
    (values.positive_duration, "0m", "above 0"),
    (values.lease, "0", "lease"),
    (values.lease, "0.005", "lease"),
    (values.lease, "1e11", "wanted a duration"),
    (values.exit_code, "256", "wanted 0 to 255"),
    (values.exit_code, "-1", "wanted 0 to 255"),
    (values.exit_code, "1.5", "wanted 0 to 255"),
    (values.exit_code, "²", "wanted 0 to 255"),
    (values.limit, "0", "wanted a number from 1 on"),
    (values.limit, "-1", "wanted a number from 1 on"),
    (values.limit, "1.5", "wanted a number from 1 on"),
    (values.limit, "²", "wanted a number from 1 on"),
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


def test_a_lease_that_looks_like_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    """A number of hours in seconds is doubted, and hours that are written as hours are not."""
    assert values.lease("30000") == 30_000
    assert "8.33 h if this machine dies" in capsys.readouterr().err
    assert values.lease("9h") == 32_400
    assert capsys.readouterr().err == ""
