"""The pauses of a spin lock: which, how long at most, and what cannot be one."""

from __future__ import annotations

import itertools

import pytest

from interlock import Backoff, ConfigError, ConstantBackoff, ExponentialBackoff

NAN, INF = float("nan"), float("inf")


def first(backoff: Backoff, count: int, chance: float = 0.0) -> list[float]:
    """Return the first *count* pauses when every die shows *chance*."""
    return list(itertools.islice(backoff.pauses(lambda: chance), count))


def test_exponential_pauses_double_from_1_to_128_ms() -> None:
    """Without chance, pauses are Redisson's defaults: 1 ms, doubled each time, 128 ms at most."""
    milliseconds = [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]
    assert first(ExponentialBackoff(), 10) == pytest.approx([ms / 1000 for ms in milliseconds])


def test_exponential_pauses_are_spread_more_with_each_failure() -> None:
    """Each is longer by up to a millisecond for each failed try, and never above the cap."""
    backoff = ExponentialBackoff(initial=0.001, cap=0.02, factor=2)
    # 1; 2*1 + 1; 2*3 + 2; 2*8 + 3 = 19; then the cap
    assert first(backoff, 6, chance=1.0) == pytest.approx([0.001, 0.003, 0.008, 0.019, 0.02, 0.02])
    assert first(backoff, 3, chance=0.5) == pytest.approx([0.001, 0.0025, 0.006])


@pytest.mark.parametrize(
    "wrong",
    [
        *({"initial": initial} for initial in (0, -0.001, NAN)),
        {"initial": 0.2, "cap": 0.1},
        *({"cap": cap} for cap in (INF, NAN)),
        {"initial": INF, "cap": INF},
        *({"factor": factor} for factor in (0.5, 0, -2, NAN, INF)),
    ],
    ids=str,
)
def test_an_exponential_back_off_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    """A pause that is not above 0, has no end or shrinks is a ConfigError, and a ValueError."""
    with pytest.raises(ConfigError) as caught:
        ExponentialBackoff(**wrong)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("wrong", [0, -1, NAN, INF])
def test_a_constant_back_off_that_cannot_be_is_refused(wrong: float) -> None:
    """A pause that is not above 0, or has no end, is a ConfigError."""
    with pytest.raises(ConfigError):
        ConstantBackoff(wrong)
