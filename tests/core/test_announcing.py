"""The announcement of a term that is over by the time of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.core.bench import LEASE, Play

from interlock._core.objects.election import Election
from interlock.errors import HoldLostError, ServerUnavailableError

if TYPE_CHECKING:
    from tests.core.bench import Bench


@pytest.mark.parametrize(
    "answer",
    [1, ServerUnavailableError("no reply", sent=True, transient=True)],
    ids=["answered", "unanswered"],
)
def test_a_term_that_is_over_before_the_answer_does_not_begin(bench: Bench, answer: object) -> None:
    """If the announcement takes longer than the lease, another candidate may lead by then."""
    election = Election(bench.session, "name", None, lambda: ("host", 1))
    play = Play(election.acquire(bench.owner, bench.now + 100, None))
    play.answer([1, 7, b"counter"])
    assert play.effect.script.name == "election_announce"
    bench.now += LEASE
    play.answer(answer)
    with pytest.raises(HoldLostError, match="expired"):
        while not play.over:  # the term is given back
            play.answer(1)
    assert not len(bench.session.holds)
