"""Deadlocks in a world of random owners with old cards: found if real, never invented."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.deadlocks import CLIENTS, OWNERS, World, checks, main

from interlock._core.insight.deadlock import Link, Party, same_cycle, youngest

if TYPE_CHECKING:
    import pytest


def test_no_deadlock_is_invented(capsys: pytest.CaptureFixture[str]) -> None:
    """Every confirmed cycle was closed, however old the cards are; real ones are found."""
    assert main(["--short"]) == 0
    assert int(capsys.readouterr().out.split()[2]) > 3


def test_a_lasting_deadlock_is_confirmed() -> None:
    """Owners that never give up and are in a ring are found in the end."""
    for seed in range(50):
        world = World(seed, patient=True)
        parties = world.parties[::OWNERS][:CLIENTS]
        for place, party in enumerate(parties):
            assert world.take(party, f"lock{place}")
            world.waits[party] = (f"lock{(place + 1) % len(parties)}", True, 0.0)
        assert any(same_cycle(links) for links in checks(world, 200)), seed


def test_all_choose_the_same_victim() -> None:
    """The members of a cycle agree on the youngest waiter, though each reads other ages."""
    parties = [Party(f"c{number}", number) for number in range(5)]
    links = [
        Link(party, f"{party.client_id}:1", f"k{number}", "h", waited=9.0 + number / 100)
        for number, party in enumerate(parties)
    ]
    chosen = {youngest([*links[number:], *links[:number]]).party for number in range(len(links))}
    assert chosen == {parties[0]}
    late = Link(parties[3], "c3:1", "k3", "h", waited=5.5)
    assert youngest([*links[:3], late, links[4]]) == late
