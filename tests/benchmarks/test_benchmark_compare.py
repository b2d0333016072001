"""How rounds are interleaved, and how their figures become medians, spreads and ratios."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from benchmarks.compare import Contender, Result, Spread, compare, ratios
from benchmarks.measure import Case
from benchmarks.peer import SyncPeer
from benchmarks.peers import bare

ROUNDS = 5
CONTENDERS = [
    Contender(Case("threads", workers), SyncPeer(name, (), open=bare.SYNC.open))
    for workers in (1, 8, 32)
    for name in "abc"
]
LABELS = {id(contender): f"{contender.case}, {contender.peer.name}" for contender in CONTENDERS}


def measured(seed: int) -> list[list[Contender]]:
    """Return the contenders in the order in which they are measured, round by round."""
    rounds: dict[int, list[Contender]] = {}
    compare(
        CONTENDERS,
        rounds=ROUNDS,
        seed=seed,
        measure=lambda contender: {"rate": 1.0},
        progress=lambda number, contender: rounds.setdefault(number, []).append(contender),
    )
    return list(rounds.values())


def labels(rounds: list[list[Contender]]) -> list[list[str]]:
    """Make *rounds* comparable."""
    return [[LABELS[id(contender)] for contender in contenders] for contenders in rounds]


def test_every_round_measures_every_contender_once() -> None:
    """No contender gets more or fewer windows than another."""
    rounds = labels(measured(1))
    assert len(rounds) == ROUNDS
    assert all(Counter(names) == Counter(LABELS.values()) for names in rounds)


def test_contenders_of_a_case_are_measured_next_to_each_other() -> None:
    """Nothing comes between the figures that a ratio is made of."""
    for contenders in measured(2):
        assert len([case for case, _ in groupby(c.case for c in contenders)]) == 3


def test_a_peer_and_its_own_limit_are_neighbours() -> None:
    """No other peer's slice comes between them, whatever the seed."""
    case, order = Case("threads", 1), list[str]()
    names = ("a", "b", "c", "interlock", "bare", "bare a", "bare b", "bare c")
    compare(
        [Contender(case, SyncPeer(name, (), open=bare.SYNC.open)) for name in names],
        rounds=ROUNDS,
        seed=1,
        measure=lambda contender: {"rate": 1.0},
        progress=lambda _, contender: order.append(contender.peer.name),
    )
    assert len(order) == ROUNDS * len(names)
    for start in range(0, len(order), len(names)):
        turn = order[start : start + len(names)]
        for name in "abc":
            assert abs(turn.index(name) - turn.index(f"bare {name}")) == 1
        assert abs(turn.index("interlock") - turn.index("bare")) == 1


def test_the_order_is_shuffled_by_the_seed_alone() -> None:
    """A printed seed repeats the order; rounds differ in that of cases and in that of peers."""
    rounds = measured(3)
    assert labels(rounds) == labels(measured(3))
    assert labels(rounds) != labels(measured(4))
    assert len({tuple(c.case.workers for c in contenders) for contenders in rounds}) > 1
    first = CONTENDERS[0].case
    peers = {tuple(c.peer.name for c in rnd if c.case == first) for rnd in rounds}
    assert len(peers) > 1


def test_an_error_ends_a_contender_and_takes_its_figures() -> None:
    """After an error a contender has no figures, is not asked again, and stops nobody else."""
    calls: Counter[int] = Counter()
    broken = CONTENDERS[4]

    def measure(contender: Contender) -> dict[str, float]:
        calls[id(contender)] += 1
        if contender is broken and calls[id(contender)] == 2:
            raise OSError("gone")
        return {"rate": 1.0}

    results = compare(
        CONTENDERS, rounds=ROUNDS, seed=5, measure=measure, progress=lambda number, contender: None
    )
    for result in results:
        if result.contender is broken:
            assert (result.error, result.figures("rate")) == ("OSError: gone", [])
        else:
            assert (result.error, result.figures("rate")) == (None, [1.0] * ROUNDS)
    assert calls[id(broken)] == 2


def test_ratios_are_made_within_a_round() -> None:
    """A machine that slows down between two rounds changes no ratio."""
    ours = Result(CONTENDERS[0], [{"rate": figure} for figure in (100.0, 10.0, 50.0)])
    theirs = Result(CONTENDERS[1], [{"rate": figure} for figure in (200.0, 20.0, 100.0)])
    assert ratios(ours, theirs, "rate") == [0.5, 0.5, 0.5]


def test_an_error_has_no_ratio() -> None:
    """Nothing is divided by or into a contender that failed."""
    fine = Result(CONTENDERS[0], [{"rate": 1.0}])
    failed = Result(CONTENDERS[1], [], "OSError: gone")
    assert ratios(fine, failed, "rate") == ratios(failed, fine, "rate") == []


def test_a_spread_is_median_range_and_quartiles() -> None:
    """The summary has median, extremes and inclusive quartiles; one figure is all of them."""
    assert Spread.of([5.0, 1.0, 4.0, 2.0, 3.0]) == Spread(3.0, 1.0, 5.0, 2.0, 4.0)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0, 7.0, 7.0)
