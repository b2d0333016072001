"""The measurement with the interpreter lock (GIL) and without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import gil

if TYPE_CHECKING:
    import pytest


def test_each_ratio_is_of_one_round() -> None:
    """The table has medians and extremes; a ratio divides two figures of one round."""
    figures = {
        (1, True): [gil.Figure(100, 5), gil.Figure(400, 7), gil.Figure(200, 6)],
        (1, False): [gil.Figure(200, 9), gil.Figure(400, 9), gil.Figure(100, 9)],
        (8, True): [gil.Figure(1, 50)],
        (8, False): [gil.Figure(2, 60)],
    }
    assert gil.table(figures).splitlines()[2:] == [
        "| 1 | 200 (100..400) | 200 (100..400) | 1.00 (0.50..2.00) | 6 (5..7) | 9 (9..9) |",
        "| 8 | 1 (1..1) | 2 (2..2) | 2.00 (2.00..2.00) | 50 (50..50) | 60 (60..60) |",
    ]


def test_a_process_counts_pairs(redis_url: str) -> None:
    """A process of its own counts the pairs of its threads."""
    assert gil.measure(redis_url, 2, 0.5, gil=True).rate > 0


def test_a_python_with_the_gil_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the GIL cannot be off, there is nothing to compare; the exit status says so."""
    assert gil.main([]) == 2
    assert "runs with the GIL" in capsys.readouterr().err
